//! What Postgres says of a row that it refuses, without the row.
//!
//! A DETAIL repeats values: `Failing row contains (1, secret, …)`, `Key (id)=(secret) already exists.` They would be in the
//! headers of the letter, in logs, alerts and the console, and each record would have a message of its own.

use redrive_core::failure::clean;

/// The message with its detail; values of the row are left out.
pub(super) fn said(message: &str, detail: &str) -> String {
    match without_values(detail) {
        Some(detail) if !detail.is_empty() => clean(&format!("{message}: {detail}")),
        _ => clean(message),
    }
}

/// Nothing where it holds values only.
fn without_values(detail: &str) -> Option<String> {
    if detail.starts_with("Failing row contains") {
        return None;
    }
    let Some((key, rest)) = detail.split_once(")=(").filter(|(key, _)| key.starts_with("Key (")) else {
        return Some(detail.to_owned());
    };
    if rest.contains("conflicts with existing key") {
        return Some(format!("{key}) conflicts with an existing key."));
    }
    // The values may hold anything; what follows them has no bracket.
    let what = rest.rsplit_once(") ").map_or("is refused.", |(_, what)| what);
    Some(format!("{key}) {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_the_row_are_left_out() {
        let row = "Failing row contains (logs, 0, 7, secret, null).";
        assert_eq!(said("new row violates a check", row), "new row violates a check");
        assert_eq!(
            said("duplicate key", "Key (id)=(sec) ret) already exists."),
            "duplicate key: Key (id) already exists."
        );
        let missing = "Key (a, b)=(secret, x) is not present in table \"account\".";
        assert_eq!(
            said("foreign key", missing),
            "foreign key: Key (a, b) is not present in table \"account\"."
        );
        let excluded = "Key (r)=([1,2)) conflicts with existing key (r)=([1,3)).";
        assert_eq!(said("exclusion", excluded), "exclusion: Key (r) conflicts with an existing key.");
        assert_eq!(said("odd", "Key (id)=(secret"), "odd: Key (id) is refused.");
        assert_eq!(said("json", "Token \"x\" is invalid."), "json: Token \"x\" is invalid.");
        assert_eq!(said("plain", ""), "plain");
    }
}
