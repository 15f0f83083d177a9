//! What was expected where something else was found, in the words of JSON instead of those of Rust.

use std::borrow::Cow;

/// A message of the parser, as somebody reads it who knows JSON and has never seen our types.
pub(crate) fn in_words(said: &str) -> String {
    let said = said.replace("unknown variant ", "unknown value ").replace(", there are no fields", "");
    let said = said
        .replace("invalid type: map", "found an object")
        .replace("invalid type: sequence", "found an array");
    let said = said.replace("invalid type: ", "found ").replace("invalid value: ", "found ");
    let said = said.replace("invalid digit found in string", "expected a whole number");
    let Some((found, expected)) = said.split_once("expected ") else { return said };
    // What follows it is the place: ` at line 1 column 5`.
    let end = expected.find(" at line ").unwrap_or(expected.len());
    let (expected, place) = expected.split_at(end);
    format!("{found}expected {}{place}", name(expected))
}

fn name(expected: &str) -> Cow<'_, str> {
    let is_object = ["struct ", "a map", "map"].iter().any(|start| expected.starts_with(start));
    Cow::Borrowed(match expected {
        _ if is_object => "an object",
        _ if expected.starts_with("a sequence") => "an array",
        _ if expected.starts_with("enum ") || expected.starts_with("variant identifier") => {
            "one of the known names"
        }
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" | "u128" => "a whole number from 0",
        "i8" => "a whole number from -128 to 127",
        "i16" => "a whole number from -32768 to 32767",
        "i32" => "a whole number from -2147483648 to 2147483647",
        "i64" | "isize" | "i128" => "a whole number",
        "f32" | "f64" => "a number",
        "a borrowed string" => "a string",
        other => other,
    })
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields, rename_all = "lowercase")]
    #[expect(dead_code, reason = "only read from JSON")]
    struct HeaderIn {
        small: Option<u16>,
        whole: Option<i64>,
        number: Option<f64>,
        list: Option<Vec<String>>,
        flag: Option<bool>,
        kind: Option<Kind>,
        inner: Option<Box<HeaderIn>>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Kind {
        Open,
        Closed,
    }

    /// It said "expected struct HeaderIn".
    #[test]
    fn no_type_of_ours_is_named() {
        for (json, expected) in [
            ("3", "found integer `3`, expected an object"),
            (r#"{"inner": "x"}"#, r#"found string "x", expected an object"#),
            (r#"{"small": 70000}"#, "found integer `70000`, expected a whole number from 0 to 65535"),
            (r#"{"small": -1}"#, "found integer `-1`, expected a whole number from 0 to 65535"),
            (r#"{"whole": 1.5}"#, "found floating point `1.5`, expected a whole number"),
            (r#"{"number": "1"}"#, r#"found string "1", expected a number"#),
            (r#"{"list": {}}"#, "found an object, expected an array"),
            (r#"{"list": "a"}"#, r#"found string "a", expected an array"#),
            (r#"{"flag": []}"#, "found an array, expected a boolean"),
            (r#"{"kind": "shut"}"#, "unknown value `shut`, expected `open` or `closed`"),
            (r#"{"kind": 1}"#, "expected"),
            (r#"{"nme": 1}"#, "unknown field `nme`, expected one of `small`, `whole`"),
        ] {
            let said = in_words(&serde_json::from_str::<HeaderIn>(json).unwrap_err().to_string());
            assert!(said.contains(expected), "{json}: {said}");
            for rust in
                ["struct", "enum", "HeaderIn", "Kind", "variant", "u16", "i64", "f64", "sequence", "map"]
            {
                assert!(!said.contains(rust), "{rust} in {said}");
            }
        }
    }

    #[test]
    fn the_place_stays() {
        let said = in_words("invalid type: string \"a\", expected u32 at line 1 column 5");
        assert_eq!(
            said,
            "found string \"a\", expected a whole number from 0 to 4294967295 at line 1 column 5"
        );
        assert_eq!(in_words("missing field `name`"), "missing field `name`");
    }
}
