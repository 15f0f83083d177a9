//! JSON as a person reads it, with every digit and escape as it was written.
//!
//! Values are never turned into numbers or strings of ours: the text is cut into tokens, and the tokens are
//! laid out. So `12345678901234567890.10` stays that, and so do duplicate keys and their order.

use serde_json::value::RawValue;

/// The tokens of a text that is known to be JSON.
pub(crate) struct Tokens<'a>(pub(crate) &'a str);

/// Whether it is JSON.
pub(crate) fn is_json(text: &str) -> bool {
    serde_json::from_str::<&RawValue>(text).is_ok()
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

fn new_line(shown: &mut String, depth: usize) {
    const WIDEST: usize = 40;
    shown.push('\n');
    shown.extend(std::iter::repeat_n("  ", depth.min(WIDEST)));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::*;

    #[test]
    fn every_digit_stays() {
        for number in
            ["12345678901234567890123.4500", "1e400", "-0.0", "0.1000000000000000055511151231257827"]
        {
            assert!(indented(&format!("{{\"a\":[{number}]}}")).unwrap().contains(number), "{number}");
        }
    }

    #[test]
    fn order_duplicates_and_escapes_stay() {
        let shown = indented(r#"{"b":1,"a":"\ud800\u00e9\"","b":{},"c":[]}"#).unwrap();
        assert_eq!(shown, "{\n  \"b\": 1,\n  \"a\": \"\\ud800\\u00e9\\\"\",\n  \"b\": {},\n  \"c\": []\n}");
    }

    #[test]
    fn what_is_no_json_is_not_laid_out() {
        for text in ["", "x", "{", "{\"a\":}", "[1,]", "1 2", "{'a':1}"] {
            assert_eq!(indented(text), None, "{text}");
        }
        assert_eq!(indented("null").unwrap(), "null");
    }

    proptest! {
        #[test]
        fn laying_out_changes_no_value(numbers: Vec<i64>, words: Vec<String>, flag in any::<bool>()) {
            let value = serde_json::json!({"n": numbers, "w": words, "f": [flag, {"x": words}]});
            let shown = indented(&value.to_string()).unwrap();
            prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
        }
    }
}
