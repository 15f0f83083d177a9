//! "Did you mean …": the known word nearest to what was written.

/// The candidate that is a slip of the finger away from `written`, if there is one.
pub(crate) fn nearest<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let written = written.to_lowercase().replace('_', "-");
    let reach = (written.chars().count() / 3).clamp(1, 3);
    let distance = |candidate: &str| strsim::damerau_levenshtein(&written, &candidate.to_lowercase());
    let near = candidates.into_iter().map(|candidate| (distance(candidate), candidate));
    near.filter(|(distance, _)| *distance <= reach)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

/// `a`, `b` or `c`, for a message that lists what would be right.
pub(crate) fn alternatives<'a>(words: impl IntoIterator<Item = &'a str>, quote: &str) -> String {
    let quoted: Vec<_> = words.into_iter().map(|word| format!("{quote}{word}{quote}")).collect();
    match quoted.split_last() {
        None => String::new(),
        Some((only, [])) => only.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_word_and_a_stranger_finds_none() {
        let words = ["poll-interval", "batch-size", "retry"];
        assert_eq!(nearest("poll-intervall", words), Some("poll-interval"));
        assert_eq!(nearest("batch_size", words), Some("batch-size"));
        assert_eq!(nearest("rerty", words), Some("retry"));
        assert_eq!(nearest("colour", words), None);
    }

    #[test]
    fn alternatives_read_as_a_sentence() {
        assert_eq!(alternatives(["a"], "`"), "`a`");
        assert_eq!(alternatives(["a", "b", "c"], "\""), "\"a\", \"b\" or \"c\"");
    }
}
