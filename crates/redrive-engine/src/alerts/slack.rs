//! Slack, through an incoming webhook.
//!
//! Values stand in code spans with `&`, `<`, `>` and back-ticks neutralised, so that nothing in them is
//! mark-up: no link, no `<!channel>`, no emoji. The header is plain text, and `parse` and `link_names`
//! are off, so that `@channel` is five letters and a sign.

use async_trait::async_trait;
use serde_json::{Value, json};

use super::alert::Alert;
use super::channel::{Channel, ChannelError};
use super::message::Message;
use super::post::Post;
use crate::handlers::{Secret, SetupError};

/// The longest header that Slack takes, in characters.
const MAX_HEADER: usize = 150;
/// The longest section is 3,000 characters; escapes and the last line need some room.
const MAX_SECTION: usize = 2_800;
/// The longest value that is shown.
const MAX_VALUE: usize = 1_000;

/// Slack, through an incoming webhook. `Debug` shows the host only: the address is a secret.
#[derive(Debug)]
pub struct SlackChannel {
    post: Post,
}

impl SlackChannel {
    /// A channel to this webhook.
    ///
    /// # Errors
    /// [`SetupError`] when the address is no http address.
    pub fn new(webhook: &Secret) -> Result<Self, SetupError> {
        Ok(Self { post: Post::new(webhook)? })
    }
}

#[async_trait]
impl Channel for SlackChannel {
    fn name(&self) -> &str {
        "slack"
    }

    async fn send(&self, alert: &Alert) -> Result<(), ChannelError> {
        let body = document(&Message::of(alert)).to_string().into_bytes();
        self.post.json(body, []).await
    }
}

fn document(message: &Message) -> Value {
    let header = json!({ "type": "plain_text", "text": cut(&message.title, MAX_HEADER), "emoji": false });
    let mut blocks = vec![json!({ "type": "header", "text": header })];
    if !message.fields.is_empty() {
        let text = json!({ "type": "mrkdwn", "text": section(message), "verbatim": true });
        blocks.push(json!({ "type": "section", "text": text }));
    }
    json!({
        "text": escape(&cut(&message.title, MAX_HEADER)),
        "parse": "none",
        "link_names": false,
        "unfurl_links": false,
        "blocks": blocks,
    })
}

fn section(message: &Message) -> String {
    let mut section = String::new();
    for (name, value) in &message.fields {
        let line = format!("{} {}\n", code(name), code(value));
        if section.chars().count() + line.chars().count() > MAX_SECTION {
            section.push('…');
            break;
        }
        section.push_str(&line);
    }
    section
}

/// A code span in which nothing is mark-up.
fn code(text: &str) -> String {
    format!("`{}`", escape(&cut(text, MAX_VALUE)).replace('`', "ˋ"))
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn cut(text: &str, max: usize) -> String {
    match text.char_indices().nth(max - 1) {
        Some((end, last)) if end + last.len_utf8() < text.len() => format!("{}…", &text[..end]),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(value: &str) -> Message {
        Message { title: "Dead letter in orders".into(), fields: vec![("error".into(), value.into())] }
    }

    #[test]
    fn markup_in_a_value_is_inert() {
        let document = document(&message("<!channel> <https://evil|click> `x` *b* & @here :bomb:"));
        let text = document["blocks"][1]["text"]["text"].as_str().unwrap();
        let inert = "`error` `&lt;!channel&gt; &lt;https://evil|click&gt; ˋxˋ *b* &amp; @here :bomb:`\n";
        assert_eq!(text, inert);
        assert_eq!(document["parse"], "none");
    }

    #[test]
    fn slacks_limits_are_kept_whatever_the_values_are() {
        for value in ["<".repeat(10_000), "`".repeat(10_000), "é".repeat(10_000), String::new()] {
            let mut message = message(&value);
            message.title = value.clone();
            message.fields = vec![message.fields[0].clone(); 40];
            let document = document(&message);
            let text = |pointer| document.pointer(pointer).and_then(Value::as_str).unwrap().chars().count();
            assert!(text("/blocks/0/text/text") <= 150);
            assert!(text("/blocks/1/text/text") <= 3_000);
        }
    }

    #[test]
    fn a_cut_is_marked_and_a_text_that_fits_is_kept() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abcd", 3), "ab…");
        assert_eq!(cut("ééé", 3), "ééé");
        assert_eq!(cut("", 3), "");
    }
}
