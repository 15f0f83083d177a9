//! A JSON value as a tree of HTML, every part of which can be opened and closed.

use super::text::{escape, visible};
use crate::json::{Tokens, is_json};
use crate::number;

/// Deeper than this is not drawn as a tree: browsers have their limits, too.
const DEEPEST: usize = 48;
/// More values than this are not drawn as a tree.
const MOST_VALUES: usize = 3_000;
/// Larger containers are closed at first.
const OPEN_UP_TO: usize = 60;

/// The tree as HTML; nothing when it is no JSON, or too large for a tree.
pub(super) fn of(text: &str) -> Option<String> {
    if !is_json(text) {
        return None;
    }
    let mut tree = Tree { tokens: Tokens(text), values: 0 };
    tree.value("", 0)
}

struct Tree<'a> {
    tokens: Tokens<'a>,
    values: usize,
}

impl Tree<'_> {
    /// The next value, after its label.
    fn value(&mut self, label: &str, depth: usize) -> Option<String> {
        self.values += 1;
        if depth > DEEPEST || self.values > MOST_VALUES {
            return None;
        }
        match self.tokens.next()? {
            "{" => self.container(label, depth, "{", "}"),
            "[" => self.container(label, depth, "[", "]"),
            scalar => Some(format!("{label}{}", leaf(scalar))),
        }
    }

    fn container(&mut self, label: &str, depth: usize, open: &str, close: &str) -> Option<String> {
        let mut children = String::new();
        let mut many = 0_usize;
        loop {
            let before = self.tokens.0;
            match self.tokens.next()? {
                token if token == close => break,
                "," => continue,
                key if open == "{" => {
                    self.tokens.next(); // the colon
                    let label = format!("<span class=\"j-key\">{}</span>: ", token_text(key));
                    children.push_str(&format!("<li>{}</li>", self.value(&label, depth + 1)?));
                }
                _ => {
                    self.tokens.0 = before;
                    children.push_str(&format!("<li>{}</li>", self.value("", depth + 1)?));
                }
            }
            many += 1;
        }
        if many == 0 {
            return Some(format!("{label}<span class=\"j-mark\">{open}{close}</span>"));
        }
        let opened = if many <= OPEN_UP_TO { " open" } else { "" };
        let noun = if open == "{" { "key" } else { "item" };
        let many = number::counted(many as u64, noun);
        Some(format!(
            "<details{opened}><summary>{label}<span class=\"j-mark\">{open}</span> <span class=\"j-many\">{many}</span>\
             </summary><ul>{children}</ul><span class=\"j-mark\">{close}</span></details>"
        ))
    }
}

fn leaf(token: &str) -> String {
    let class = match token.as_bytes().first() {
        Some(b'"') => "j-text",
        Some(b't' | b'f' | b'n') => "j-word",
        _ => "j-number",
    };
    format!("<span class=\"{class}\">{}</span>", token_text(token))
}

fn token_text(token: &str) -> String {
    escape(&visible(token))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    use super::*;

    #[test]
    fn every_digit_stays() {
        for number in ["12345678901234567890123.4500", "1e400", "-0.0"] {
            let text = format!("{{\"a\":[{number}]}}");
            assert!(of(&text).unwrap().contains(&format!(">{number}<")), "{number}");
        }
    }

    #[test]
    fn hostile_strings_are_text() {
        let html = of(r#"{"<script>":"</span><img src=x onerror=alert(1)>'\"&"}"#).unwrap();
        assert!(!html.contains("<script") && !html.contains("<img"), "{html}");
        assert!(html.contains("&lt;img src=x onerror=alert(1)&gt;&#39;"), "{html}");
    }

    #[test]
    fn what_is_no_json_or_too_much_of_it_is_no_tree() {
        for text in ["", "x", "{", "{\"a\":}", "[1,]", "1 2", "{'a':1}"] {
            assert_eq!(of(text), None, "{text}");
        }
        assert_eq!(of(&format!("{}{}", "[".repeat(60), "]".repeat(60))), None);
        assert_eq!(of(&format!("[{}1]", "1,".repeat(MOST_VALUES))), None);
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(of(&deep), None, "and the stack holds");
    }

    #[test]
    fn a_scalar_is_a_tree() {
        assert_eq!(of(" 42 ").unwrap(), "<span class=\"j-number\">42</span>");
    }

    proptest! {
        #[test]
        fn no_text_breaks_out_of_the_tree(text in ".{0,40}") {
            let html = of(&serde_json::json!({ text.clone(): text }).to_string()).unwrap();
            let tags = html.matches('<').count();
            prop_assert_eq!(tags, html.matches('>').count());
            prop_assert!(tags == 18, "{}", html);
        }
    }
}
