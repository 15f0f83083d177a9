//! Lists of many letters: whatever is asked for, a page is bounded, and nothing is missed.

#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

mod common;

use std::collections::BTreeSet;
use std::time::Duration;

use common::{letters, operator};
use jiff::Timestamp;
use redrive_core::dead_letter::{DeadLetterQueue, Filter, Origin, Page, Status};
use redrive_core::failure::{Class, Code, Failure};
use redrive_store::{Letters, NewLetter};
use redrive_testkit as testkit;

/// More than the first windows of a search.
const MANY: usize = 4_000;

/// The oldest letter is unlike all others.
async fn fill(letters: &Letters) {
    let begun: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
    let letter = |number: usize| {
        let is_rare = number == 0;
        let failed_at = begun + Duration::from_millis(number as u64 / 3);
        let failure = Failure::new(
            if is_rare { Class::Malformed } else { Class::Transient },
            "Declined",
            if is_rare { "a needle in a haystack" } else { "card was declined" },
        );
        NewLetter {
            source: number.to_string(),
            event_type: if is_rare { "OrderLost" } else { "OrderCreated" }.to_owned(),
            key: format!("order-{number}"),
            payload: vec![],
            headers: vec![],
            origin: Origin::Service { name: "shop".into() },
            target: None,
            failure: failure.with_code(Code::Http(if is_rare { 418 } else { 402 })),
            attempts: 1,
            first_failed_at: failed_at,
            failed_at,
        }
    };
    let all: Vec<NewLetter> = (0..MANY).map(letter).collect();
    assert_eq!(letters.add(&all).await.unwrap(), MANY);
}

fn text(text: &str) -> Filter {
    Filter { text: Some(text.to_owned()), ..Filter::default() }
}

#[tokio::test]
async fn a_search_that_is_given_no_more_time_says_how_far_it_looked_and_goes_on_from_there() {
    for database in testkit::backends(file!()).await {
        let letters = letters(&database, "intake").await;
        fill(&letters).await;
        let hurried = Page::first(50).within(Duration::ZERO);
        let first = letters.list(&text("NEEDLE"), hurried).await.unwrap();
        assert!(first.letters.is_empty(), "it is the oldest");
        let (mut pages, mut next) = (1, first.next);
        let mut found = Vec::new();
        while let Some(place) = next {
            let page = letters.list(&text("NEEDLE"), hurried.after(place)).await.unwrap();
            assert!(page.next.is_none_or(|next| (next.failed_at, next.id) < (place.failed_at, place.id)));
            found.extend(page.letters);
            (pages, next) = (pages + 1, page.next);
        }
        assert_eq!(found.len(), 1);
        assert!(pages > 2, "{pages}");
        let unhurried = letters.list(&text("needle"), Page::first(50)).await.unwrap();
        assert_eq!((unhurried.letters, unhurried.next), (found, None));
    }
}

#[tokio::test]
async fn a_search_over_many_windows_misses_nothing_and_repeats_nothing() {
    for database in testkit::backends(file!()).await {
        let letters = letters(&database, "intake").await;
        fill(&letters).await;
        let filter = Filter { event_type: Some("OrderCreated".into()), ..text("declined") };
        let (mut seen, mut page) = (Vec::new(), Page::first(500).within(Duration::ZERO));
        loop {
            let found = letters.list(&filter, page).await.unwrap();
            seen.extend(found.letters.into_iter().map(|letter| (letter.failed_at, letter.id.local)));
            let Some(next) = found.next else { break };
            page = page.after(next);
        }
        assert_eq!(seen.len(), MANY - 1);
        assert_eq!(seen.iter().collect::<BTreeSet<_>>().len(), MANY - 1);
        assert!(seen.windows(2).all(|two| two[0].0 >= two[1].0), "newest first");
    }
}

#[tokio::test]
async fn every_part_finds_the_one_letter_that_has_it_among_many_alone_and_with_others() {
    for database in testkit::backends(file!()).await {
        let letters = letters(&database, "intake").await;
        fill(&letters).await;
        let rare = letters.list(&text("needle"), Page::first(1)).await.unwrap().letters.remove(0);
        letters.resolve(std::slice::from_ref(&rare.id.local), &operator(), "found").await.unwrap();
        let none = Filter::default;
        let parts = [
            Filter { status: Some(Status::Resolved), ..none() },
            Filter { event_type: Some("OrderLost".into()), ..none() },
            Filter { key: Some("order-0".into()), ..none() },
            Filter { class: Some("malformed".into()), ..none() },
            Filter { code: Some("http:418".into()), ..none() },
            Filter { code: Some("418".into()), ..none() },
            Filter { group: Some(rare.fingerprint), ..none() },
            text("needle"),
        ];
        for part in &parts {
            for filter in [part.clone(), Filter { status: Some(Status::Resolved), ..part.clone() }] {
                let found = letters.list(&filter, Page::first(50)).await.unwrap();
                assert_eq!(found.letters.len(), 1, "{filter:?}");
                assert_eq!((&found.letters[0].id, found.next), (&rare.id, None), "{filter:?}");
            }
        }
        let unknown = Filter { code: Some("999".into()), ..none() };
        assert!(letters.list(&unknown, Page::first(50)).await.unwrap().letters.is_empty());
    }
}
