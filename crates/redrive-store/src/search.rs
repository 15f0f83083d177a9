//! How a list is searched: by one index, or window by window.
//!
//! What one index has, in its order, is one query however many letters there are. Everything else (a text, several parts
//! at once) is looked for in one window after the other, newest first, along the index of the part that is likely to have
//! the fewest letters: each query reads no more than its window, and the search ends when the page is full, when there is
//! nothing more, or when its time is over.

use redrive_core::dead_letter::Filter;
use redrive_core::failure::Code;

/// How many letters the first window has; each has twice as many as the one before.
const FIRST_WINDOW: u32 = 1_000;
/// The most letters that one query looks at.
const LARGEST_WINDOW: u32 = 8_000;

/// Which part of a filter leads to its letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Search {
    /// The part that an index has in the order of a list.
    pub(crate) lead: Filter,
    /// Whether that is all of the filter.
    pub(crate) is_direct: bool,
}

impl Search {
    pub(crate) fn of(filter: &Filter) -> Self {
        let times = || Filter {
            since: filter.since,
            until: filter.until,
            arrived_since: filter.arrived_since,
            ..Filter::default()
        };
        let leads = [
            filter.key.clone().map(|key| Filter { key: Some(key), ..times() }),
            filter.group.map(|group| Filter { group: Some(group), ..times() }),
            filter
                .code
                .clone()
                .filter(|code| code.contains(':'))
                .map(|code| Filter { code: Some(code), ..times() }),
            filter.class.clone().map(|class| Filter { class: Some(class), ..times() }),
            filter.event_type.clone().map(|of| Filter { event_type: Some(of), ..times() }),
            filter.status.map(|status| Filter { status: Some(status), ..times() }),
        ];
        let lead = leads.into_iter().flatten().next().unwrap_or_else(times);
        let all = Filter { pipeline: None, ..filter.clone() };
        Self { is_direct: lead == all, lead }
    }
}

/// A code as it is stored, or in every scheme that may have it.
pub(crate) fn schemes(code: &str) -> Vec<String> {
    match code.contains(':') {
        true => vec![code.to_owned()],
        false => Code::SCHEMES.iter().map(|scheme| format!("{scheme}:{code}")).collect(),
    }
}

/// How many letters the window after this one has; the first comes after 0.
pub(crate) fn next_window(window: u32) -> u32 {
    match window {
        0 => FIRST_WINDOW,
        _ => window.saturating_mul(2).min(LARGEST_WINDOW),
    }
}

#[cfg(test)]
mod tests {
    use redrive_core::dead_letter::Status;

    use super::*;

    #[test]
    fn one_part_is_found_by_its_index_and_several_by_that_of_the_rarest() {
        let key = || Filter { key: Some("42".to_owned()), ..Filter::default() };
        let open = || Filter { status: Some(Status::Open), ..Filter::default() };
        assert!(Search::of(&Filter::default()).is_direct);
        assert!(Search::of(&Filter { pipeline: Some("orders".to_owned()), ..key() }).is_direct);
        assert!(Search::of(&open()).is_direct);
        let both = Search::of(&Filter { status: Some(Status::Open), ..key() });
        assert_eq!((both.lead, both.is_direct), (key(), false));
        let text = Search::of(&Filter { text: Some("declined".to_owned()), ..open() });
        assert_eq!((text.lead, text.is_direct), (open(), false));
        let any_scheme = Search::of(&Filter { code: Some("23505".to_owned()), ..Filter::default() });
        assert_eq!((any_scheme.lead, any_scheme.is_direct), (Filter::default(), false));
    }
}
