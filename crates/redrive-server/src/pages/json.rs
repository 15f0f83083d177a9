//! JSON as a person reads it: indented, or as a tree, with every digit and escape as it was written.
//!
//! Values are never turned into numbers or strings of ours: the text is cut into tokens, and the tokens are
//! laid out. So `12345678901234567890.10` stays that, and so do duplicate keys and their order.

use serde_json::value::RawValue;

use super::text::{escape, visible};

/// Deeper than this is not drawn as a tree: browsers have their limits, too.
const DEEPEST: usize = 48;
/// More values than this are not drawn as a tree.
const MOST_VALUES: usize = 3_000;
/// Larger containers are closed at first.
const OPEN_UP_TO: usize = 60;

/// Whether it is JSON.
pub(super) fn is_json(text: &str) -> bool {
    serde_json::from_str::<&RawValue>(text).is_ok()
}

/// The tree as HTML; nothing when it is no JSON, or too large for a tree.
pub(super) fn tree(text: &str) -> Option<String> {
    if !is_json(text) {
        return None;
    }
    let mut tree = Tree { tokens: Tokens(text), values: 0 };
    tree.value("", 0)
}

/// One value per line, indented; nothing when it is no JSON.
pub(crate) fn indented(text: &str) -> Option<String> {
    if !is_json(text) {
        return None;
    }
    let mut shown = String::with_capacity(text.len() * 2);
    let mut depth = 0_usize;
    let mut tokens = Tokens(text).peekable();
    while let Some(token) = tokens.next() {
        match token {
            "{" | "[" => {
                shown.push_str(token);
                if matches!(tokens.peek(), Some(&("}" | "]"))) {
                    shown.extend(tokens.next());
                    continue;
                }
                depth += 1;
                new_line(&mut shown, depth);
            }
            "}" | "]" => {
                depth = depth.saturating_sub(1);
                new_line(&mut shown, depth);
                shown.push_str(token);
            }
            "," => {
                shown.push(',');
                new_line(&mut shown, depth);
            }
            ":" => shown.push_str(": "),
            scalar => shown.push_str(scalar),
        }
    }
    Some(shown)
}

fn new_line(shown: &mut String, depth: usize) {
    const WIDEST: usize = 40;
    shown.push('\n');
    shown.extend(std::iter::repeat_n("  ", depth.min(WIDEST)));
}

/// The tokens of a text that is known to be JSON.
struct Tokens<'a>(&'a str);

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let rest = self.0.trim_start_matches([' ', '\t', '\r', '\n']);
        let first = *rest.as_bytes().first()?;
        let length = match first {
            b'{' | b'}' | b'[' | b']' | b',' | b':' => 1,
            b'"' => string_length(rest),
            _ => rest.find([',', ']', '}', ' ', '\t', '\r', '\n']).unwrap_or(rest.len()),
        };
        let (token, rest) = rest.split_at(length);
        self.0 = rest;
        Some(token)
    }
}

/// With both quotes.
fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
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
        let many = super::text::count(many as u64, noun);
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
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    use super::*;

    #[test]
    fn every_digit_stays() {
        for number in
            ["12345678901234567890123.4500", "1e400", "-0.0", "0.1000000000000000055511151231257827"]
        {
            let text = format!("{{\"a\":[{number}]}}");
            assert!(tree(&text).unwrap().contains(&format!(">{number}<")), "{number}");
            assert!(indented(&text).unwrap().contains(number), "{number}");
        }
    }

    #[test]
    fn order_duplicates_and_escapes_stay() {
        let shown = indented(r#"{"b":1,"a":"\ud800\u00e9\"","b":{},"c":[]}"#).unwrap();
        assert_eq!(shown, "{\n  \"b\": 1,\n  \"a\": \"\\ud800\\u00e9\\\"\",\n  \"b\": {},\n  \"c\": []\n}");
    }

    #[test]
    fn hostile_strings_are_text() {
        let html = tree(r#"{"<script>":"</span><img src=x onerror=alert(1)>'\"&"}"#).unwrap();
        assert!(!html.contains("<script") && !html.contains("<img"), "{html}");
        assert!(html.contains("&lt;img src=x onerror=alert(1)&gt;&#39;"), "{html}");
    }

    #[test]
    fn what_is_no_json_or_too_much_of_it_is_no_tree() {
        for text in ["", "x", "{", "{\"a\":}", "[1,]", "1 2", "{'a':1}"] {
            assert_eq!((tree(text), indented(text)), (None, None), "{text}");
        }
        assert_eq!(tree(&format!("{}{}", "[".repeat(60), "]".repeat(60))), None);
        assert_eq!(tree(&format!("[{}1]", "1,".repeat(MOST_VALUES))), None);
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(tree(&deep), None, "and the stack holds");
    }

    #[test]
    fn a_scalar_is_a_tree() {
        assert_eq!(tree(" 42 ").unwrap(), "<span class=\"j-number\">42</span>");
        assert_eq!(indented("null").unwrap(), "null");
    }

    proptest! {
        #[test]
        fn laying_out_changes_no_value(numbers: Vec<i64>, words: Vec<String>, flag in any::<bool>()) {
            let value = serde_json::json!({"n": numbers, "w": words, "f": [flag, {"x": words}]});
            let shown = indented(&value.to_string()).unwrap();
            prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
        }

        #[test]
        fn no_text_breaks_out_of_the_tree(text in ".{0,40}") {
            let html = tree(&serde_json::json!({ text.clone(): text }).to_string()).unwrap();
            let tags = html.matches('<').count();
            prop_assert_eq!(tags, html.matches('>').count());
            prop_assert!(tags == 18, "{}", html);
        }
    }
}
