use proptest::collection::vec;
use proptest::prelude::{Strategy, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::sample::select;

use super::*;

#[track_caller]
fn assert_masks(expected: &str, messages: &[&str]) {
    for message in messages {
        assert_eq!(mask(message), expected, "{message}");
    }
}

#[test]
fn numbers_are_masked_in_words_and_alone() {
    assert_masks("ORDER-<n> not found", &["ORDER-123 not found", "ORDER-4 not found", "ORDER-1-2 not found"]);
    assert_masks("order<n>: <n> left", &["order7: 12 left", "order12345: 0.5 left", "order1: 1,000 left"]);
    assert_masks("took <n>ms", &["took 5ms", "took 1.25ms"]);
}

#[test]
fn dates_and_times_are_masked() {
    assert_masks(
        "at <n>Z",
        &["at 2025-01-31T10:30:00Z", "at 2025-01-31T10:30:00.123456Z", "at 20250131T103000Z"],
    );
    assert_masks("at <n> <n>", &["at 2025-01-31 10:30:00", "at 2025-01-31 10:30:00.123+02:00"]);
}

#[test]
fn addresses_are_masked() {
    assert_masks(
        "connect to <n>: refused",
        &[
            "connect to 10.0.0.7:5432: refused",
            "connect to 192.168.1.1: refused",
            "connect to fe80::1: refused",
            "connect to ::1: refused",
            "connect to 2001:db8:85a3::8a2e:370:7334: refused",
        ],
    );
    assert_masks("connect to [<n>]:<n>", &["connect to [::1]:8080", "connect to [fe80::a1]:80"]);
}

#[test]
fn ids_are_masked() {
    assert_masks(
        "job <n> failed",
        &[
            "job 550e8400-e29b-41d4-a716-446655440000 failed",
            "job 8f14e45fceea167a5a36dedd4bea2543 failed",
            "job deadbee1 failed",
            "job 12345678 failed",
            "job 0x7ffe12ab failed",
            "job 01ARZ3NDEKTSV4RRFFQ69G5FAV failed",
            "job k3J9x2Lq failed",
            "job dGhlIHF1aWNrIGJyb3duIGZveCBqdW1wcyBvdmVyIDEz/w== failed",
        ],
    );
}

/// Each of them would otherwise leave other letters behind, and be a group of its own.
#[test]
fn ids_of_several_parts_are_masked_part_by_part() {
    assert_masks(
        "trace <n>-<n>-<n>",
        &[
            "trace 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "trace 00-a3ce929d0e0e47364bf92f3577b34da6-b7ad6b7169203331-00",
        ],
    );
}

#[test]
fn quoted_values_are_masked() {
    assert_masks(
        "column <s> is unknown",
        &[
            "column \"a\" is unknown",
            "column 'b' is unknown",
            "column `c 1` is unknown",
            "column \"\" is unknown",
        ],
    );
    assert_masks("value <s>!", &["value 'it''s'!", r#"value "a \"b\" c"!"#]);
    assert_masks("{<s>:<s>}", &[r#"{"id":"x"}"#]);
}

#[test]
fn what_names_the_problem_stays() {
    for message in [
        "can't read the users' table",
        "unterminated 'quote",
        "java.lang.IllegalArgumentException: no such file or directory",
        "std::bad_alloc in decade::facade",
        "/var/lib/redrive/spool is full",
        "größer als erlaubt",
    ] {
        assert_eq!(mask(message), message);
    }
    assert_eq!(mask("GET /api/v1/orders/123/items failed"), "GET /api/v<n>/orders/<n>/items failed");
    assert_eq!(mask("utf8mb4_0900_ai_ci"), "utf<n>mb<n>_<n>_ai_ci");
}

/// A message is bounded where failures are made, but nothing here relies on that.
#[test]
fn a_hostile_message_takes_linear_time() {
    for piece in ["'", "\\'", "\"'`", "a:", "1:a", ":", ".", "a/", "a1/", "+", "-1", "a'", "<", "<n", "é1"] {
        let masked = mask(&piece.repeat(20_000));
        assert_eq!(mask(&masked), masked);
    }
}

/// Text made of what the rules look at, in every order.
fn messages() -> impl Strategy<Value = String> {
    const PIECES: &[&str] = &[
        "'",
        "\"",
        "`",
        "\\",
        "<n>",
        "<s>",
        "<",
        ">",
        "n",
        "s",
        "0",
        "7",
        "42",
        "2025-01-31T10:30:00Z",
        "T",
        "x",
        "0x1f",
        "deadbeef",
        "deadbee1",
        "550e8400-e29b-41d4-a716-446655440000",
        "fe80::1",
        "::",
        ":",
        ".",
        ",",
        "-",
        "/",
        "+",
        "_",
        "=",
        " ",
        "é",
        "٣",
        "ORDER",
        "aB3dE5gH7",
        "can't",
        "\n",
    ];
    prop_oneof![vec(select(PIECES), 0..30).prop_map(|pieces| pieces.concat()), ".{0,60}"]
}

proptest! {
    #[test]
    fn masking_is_idempotent(message in messages()) {
        let masked = mask(&message);
        prop_assert_eq!(mask(&masked), masked);
    }

    #[test]
    fn no_digit_is_left(message in messages()) {
        prop_assert!(!has_digit(&mask(&message)));
    }

    #[test]
    fn the_value_of_a_digit_does_not_matter(message in messages(), shift in 1..10_u8) {
        let turn = |char: char| match char {
            '0'..='9' => char::from(b'0' + (char as u8 - b'0' + shift) % 10),
            _ => char,
        };
        let turned: String = message.chars().map(turn).collect();
        prop_assert_eq!(mask(&turned), mask(&message));
    }
}
