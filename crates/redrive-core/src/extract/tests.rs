use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, proptest};

use super::*;

fn column(path: &str) -> Column {
    Column::new("c", path).unwrap()
}

fn one(column: Column, json: &str) -> Result<String, String> {
    let cells = Extractor::new(vec![column]).extract(json);
    cells.map(|cells| format!("{:?}", cells[0])).map_err(|failure| failure.message)
}

#[test]
fn cells_are_what_was_sent() {
    let json = r#" {"id": "a\"b", "n": 12345678901234567890, "f": 1.50, "ok": true, "deep": {"x": [1, 2]}, "no": null} "#;
    let columns = ["$.id", "$.n", "$.f", "$.ok", "$.deep", "$.deep.x", "$.no", "$.absent", "$.id.x", "$"];
    let extractor = Extractor::new(columns.iter().map(|path| column(path)).collect());
    let expected = [
        Cell::Text("a\"b".into()),
        Cell::Number("12345678901234567890".into()),
        Cell::Number("1.50".into()),
        Cell::Bool(true),
        Cell::Json(r#"{"x": [1, 2]}"#),
        Cell::Json("[1, 2]"),
        Cell::Null,
        Cell::Null,
        Cell::Null,
        Cell::Json(json.trim()),
    ];
    assert_eq!(extractor.extract(json).unwrap(), expected);
}

#[test]
fn a_failure_names_the_path_the_column_and_the_reason() {
    for (column, json, message) in [
        (column("$.id").required(), "{}", "$.id is missing: the column c requires it"),
        (column("$.id").required(), r#"{"id":null}"#, "$.id is null: the column c requires it"),
        (column("$.id").required(), "[1]", "$.id is missing: the column c requires it"),
        (
            column("$.n").of(Kind::Integer),
            r#"{"n":"x"}"#,
            "$.n is \"x\", expected a whole number of 64 bits for the column c",
        ),
        (
            column("$.n").of(Kind::Integer),
            r#"{"n":9223372036854775808}"#,
            "$.n is 9223372036854775808, expected a whole number of 64 bits for the column c",
        ),
        (
            column("$.n").of(Kind::Number),
            r#"{"n":"1x"}"#,
            "$.n is \"1x\", expected a number for the column c",
        ),
        (column("$.b").of(Kind::Boolean), r#"{"b":1}"#, "$.b is 1, expected true or false for the column c"),
        (
            column("$.t").of(Kind::Timestamp),
            r#"{"t":"soon"}"#,
            "$.t is \"soon\", expected a time as RFC 3339 text, or milliseconds since 1970 for the column c",
        ),
        (column("$.s"), "{\"s\":\"a\\u0000b\"}", "$.s has a NUL at byte 1: the column c cannot keep it"),
    ] {
        assert_eq!(one(column, json).unwrap_err(), message);
    }
}

#[test]
fn what_is_not_json_is_malformed() {
    for text in ["", " ", "{", "{}}", "nope", "{\"a\":}", "{\"id\":1,}"] {
        let failure = Extractor::new(vec![column("$.id")]).extract(text).unwrap_err();
        assert_eq!(failure.class.name(), "malformed");
        assert!(failure.message.starts_with("$ is not JSON"), "{failure}");
    }
}

#[test]
fn values_are_converted_where_nothing_is_lost() {
    for (kind, json, cell) in [
        (Kind::Integer, r#"{"c":"42"}"#, r#"Number("42")"#),
        (Kind::Integer, r#"{"c":9007199254740993}"#, r#"Number("9007199254740993")"#),
        (Kind::Number, r#"{"c":1e400}"#, r#"Number("1e400")"#),
        (Kind::Number, r#"{"c":"0.1000"}"#, r#"Number("0.1000")"#),
        (Kind::Text, r#"{"c":9007199254740993}"#, r#"Text("9007199254740993")"#),
        (Kind::Text, r#"{"c":{"a":1}}"#, r#"Text("{\"a\":1}")"#),
        (Kind::Boolean, r#"{"c":"true"}"#, "Bool(true)"),
        (Kind::Timestamp, r#"{"c":0}"#, "Time(1970-01-01T00:00:00Z)"),
        (Kind::Timestamp, r#"{"c":"2026-01-02T03:04:05+01:00"}"#, "Time(2026-01-02T02:04:05Z)"),
        (Kind::Timestamp, r#"{"c":"2026-01-02 03:04:05"}"#, "Time(2026-01-02T03:04:05Z)"),
        (Kind::Json, r#"{"c":"x"}"#, r#"Json("\"x\"")"#),
    ] {
        assert_eq!(one(column("$.c").of(kind), json).unwrap(), cell);
    }
}

#[test]
fn of_two_fields_of_one_name_the_last_counts_whole() {
    assert_eq!(one(column("$.a"), r#"{"a":1,"a":2}"#).unwrap(), r#"Number("2")"#);
    assert_eq!(one(column("$.a.b"), r#"{"a":{"b":1},"a":{}}"#).unwrap(), "Null");
    assert_eq!(one(column("$.a"), r#"{"\u0061":1}"#).unwrap(), r#"Number("1")"#);
}

/// JSON values of every shape, without NUL.
fn values() -> impl Strategy<Value = serde_json::Value> {
    let leaf = proptest::prop_oneof![
        proptest::prelude::Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<i32>().prop_map(|number| (f64::from(number) / 4.0).into()),
        "[^\0]{0,8}".prop_map(Into::into),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        proptest::prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            proptest::collection::btree_map("[a-c]", inner, 0..4)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn cells_agree_with_an_ordinary_parser(value in values()) {
        let text = serde_json::to_string_pretty(&value).unwrap();
        let paths = ["$", "$.a", "$.a.b", "$.b", "$.a.b.c"];
        let cells = Extractor::new(paths.iter().map(|path| column(path)).collect()).extract(&text).unwrap();
        for (path, cell) in paths.iter().zip(&cells) {
            let pointer = path[1..].replace('.', "/");
            let expected = value.pointer(&pointer).unwrap_or(&serde_json::Value::Null);
            let found: serde_json::Value = match cell {
                Cell::Null => serde_json::Value::Null,
                Cell::Bool(bool) => (*bool).into(),
                Cell::Number(text) => serde_json::from_str(text).unwrap(),
                Cell::Text(text) => text.to_string().into(),
                Cell::Json(text) => serde_json::from_str(text).unwrap(),
                Cell::Time(_) => unreachable!(),
            };
            prop_assert_eq!(expected, &found);
        }
    }

    #[test]
    fn no_text_makes_it_panic(text: String) {
        let columns = vec![column("$"), column("$.a").of(Kind::Timestamp).required()];
        let cells = Extractor::new(columns).extract(&text);
        prop_assert!(cells.is_ok() || !cells.unwrap_err().message.is_empty());
    }
}
