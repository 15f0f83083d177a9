//! What every queue of dead letters promises, whatever it keeps them in.
//!
//! A backend implements [`DeadLetterSubject`] and calls [`letters`] on an empty queue.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use redrive_core::dead_letter::{
    DeadLetterQueue, Filter, Operator, Order, Outcome, Page, Refusal, Status, Summary,
};
use redrive_core::failure::{Class, Code, Failure};

use super::subjects::order;

/// A queue of dead letters under test. It should be empty, and nobody else should use it meanwhile.
#[async_trait]
pub trait DeadLetterSubject: Send + Sync {
    /// The queue.
    fn queue(&self) -> &dyn DeadLetterQueue;

    /// Lets these events die, and returns their letters' local ids in the same order.
    async fn bury(&self, events: &[Dead]) -> Vec<String>;

    /// The type that an event has which was to have this one: jobs have the name of their queue.
    fn event_type(&self, asked: &str) -> String {
        asked.to_owned()
    }

    /// The payload of the work with this key that was sent back.
    async fn sent(&self, key: &str) -> Option<String>;

    /// The status of a letter that has just died.
    fn status(&self) -> Status {
        Status::Open
    }
}

/// An event that is to die.
#[derive(Debug, Clone)]
pub struct Dead {
    /// Its type.
    pub event_type: String,
    /// Its key.
    pub key: String,
    /// Its body.
    pub payload: String,
    /// What it dies of.
    pub failure: Failure,
}

impl Dead {
    fn of(key: &str, failure: Failure) -> Self {
        Self { event_type: "OrderCreated".into(), key: key.into(), payload: "{}".into(), failure }
    }
}

/// Texts that break queries, terminals and lists that are put together carelessly.
fn hostile() -> Vec<String> {
    let texts = [
        "' OR 1 = 1; DROP TABLE outbox_event; --",
        "back\\slash \\' \\\" \\u0000 \\",
        "100%_of_! %s {} {table} $1 ?",
        "\u{1F4A9}\u{1F469}\u{200D}\u{1F4BB} é Ω \u{202E}desrever\u{202C}",
        "\u{1b}[31mred\u{1b}[0m\r\n\tnext",
        "=HYPERLINK(\"http://evil\")",
        "[[1,null,\"x\"]]",
        "null",
    ];
    texts.into_iter().map(str::to_owned).chain(["ü".repeat(255)]).collect()
}

/// Runs the whole suite. Panics at the first promise that is broken.
pub async fn letters<S: DeadLetterSubject>(subject: &S) {
    an_empty_queue_says_so(subject).await;
    stats_and_groups_count_what_waits(subject).await;
    every_part_of_a_filter_holds(subject).await;
    text_is_found_literally_and_in_any_case(subject).await;
    paging_misses_nothing_and_repeats_nothing_while_letters_arrive(subject).await;
    a_letter_has_everything_and_hostile_texts_survive(subject).await;
    nothing_is_found_under_an_id_that_is_none(subject).await;
    ids_come_oldest_first_and_newcomers_last(subject).await;
    a_bulk_action_says_for_each_letter_what_became_of_it(subject).await;
    an_order_is_carried_out_once_however_often_it_is_given(subject).await;
    a_letter_is_sent_with_another_payload(subject).await;
    a_resolution_is_kept_with_its_operator_and_note(subject).await;
    the_books_balance(subject).await;
    a_purge_takes_the_closed_ones_only(subject).await;
}

/// After everything above: redriven, edited, resolved, waiting.
async fn the_books_balance<S: DeadLetterSubject>(subject: &S) {
    let queue = subject.queue();
    let books = queue.balance().await.expect("balance");
    assert_eq!(books.gap(), 0, "{books:?}");
    let stats = queue.stats().await.expect("stats");
    assert!(books.accepted > 0 && books.resolved > 0, "{books:?}");
    assert_eq!(books.open + books.parked, stats.waiting(), "{books:?}");
}

async fn list<S: DeadLetterSubject>(subject: &S, filter: Filter) -> Vec<Summary> {
    let listing = subject.queue().list(&filter, Page::first(500)).await.expect("list");
    assert!(listing.next.is_none(), "one page is enough here");
    listing.letters
}

fn ids(letters: &[Summary]) -> BTreeSet<String> {
    letters.iter().map(|letter| letter.id.local.clone()).collect()
}

/// The ids of what a filter finds.
async fn found<S: DeadLetterSubject>(subject: &S, filter: Filter) -> BTreeSet<String> {
    ids(&list(subject, filter).await)
}

fn set<'a>(ids: impl IntoIterator<Item = &'a String>) -> BTreeSet<String> {
    ids.into_iter().cloned().collect()
}

fn operator() -> Operator {
    Operator::new("conformance")
}

fn timeout(message: &str) -> Failure {
    Failure::transient("Timeout", message)
}

async fn an_empty_queue_says_so<S: DeadLetterSubject>(subject: &S) {
    let queue = subject.queue();
    let stats = queue.stats().await.expect("stats");
    assert_eq!((stats.waiting(), stats.oldest_waiting), (0, None));
    assert!(queue.groups(10).await.expect("groups").is_empty());
    assert!(list(subject, Filter::default()).await.is_empty());
    let acted = queue.redrive(&[], &order()).await.expect("redrive");
    assert!(acted.done.is_empty() && acted.refused.is_empty());
}

async fn stats_and_groups_count_what_waits<S: DeadLetterSubject>(subject: &S) {
    let refused = Failure::permanent("Refused", "card 4711 was declined").with_code(Code::Http(402));
    let mut dead: Vec<_> =
        (0..3).map(|n| Dead::of(&n.to_string(), timeout(&format!("after {n} s")))).collect();
    dead.extend([Dead::of("a", refused.clone()), Dead::of("b", refused.clone())]);
    let buried = subject.bury(&dead).await;
    let queue = subject.queue();

    let stats = queue.stats().await.expect("stats");
    assert_eq!((stats.waiting(), stats.count(subject.status())), (5, 5));
    assert_eq!(stats.waiting_by_type, [(subject.event_type("OrderCreated"), 5)]);
    let all = list(subject, Filter::default()).await;
    assert_eq!(stats.oldest_waiting, all.iter().map(|letter| letter.failed_at).min());

    let groups = queue.groups(10).await.expect("groups");
    assert_eq!(groups.iter().map(|group| group.count).collect::<Vec<_>>(), [3, 2], "the largest first");
    assert_eq!(groups[1].failure, refused);
    let arrivals = queue.arrivals(Timestamp::now() - Duration::from_secs(7200)).await.expect("arrivals");
    for group in &groups {
        let of = arrivals.iter().filter(|one| one.fingerprint == group.fingerprint);
        assert_eq!(of.clone().map(|one| one.count).sum::<u64>(), group.count, "{arrivals:?}");
        let hour = Duration::from_secs(3600);
        for one in of {
            assert!(one.hour <= group.last_seen && group.first_seen < one.hour + hour, "{one:?} {group:?}");
        }
    }
    assert!(queue.arrivals(Timestamp::now() + Duration::from_secs(7200)).await.expect("arrivals").is_empty());
    for (group, members) in groups.iter().zip([&buried[..3], &buried[3..]]) {
        let letters = list(subject, Filter { group: Some(group.fingerprint), ..Filter::default() }).await;
        assert_eq!(ids(&letters), set(members), "a group lists its members");
        assert_eq!(group.event_type, subject.event_type("OrderCreated"));
        let times = || letters.iter().map(|letter| letter.failed_at);
        assert_eq!((Some(group.first_seen), Some(group.last_seen)), (times().min(), times().max()));
    }
    assert_eq!(queue.groups(1).await.expect("groups").len(), 1);

    queue.resolve(&buried, &operator(), "done with").await.expect("resolve");
    assert_eq!(queue.stats().await.expect("stats").waiting(), 0, "what is closed does not wait");
    assert!(queue.groups(10).await.expect("groups").is_empty());
}

async fn every_part_of_a_filter_holds<S: DeadLetterSubject>(subject: &S) {
    let none = Filter::default;
    let unique =
        Failure::permanent("UniqueViolation", "part filter").with_code(Code::SqlState("23505".into()));
    let busy = timeout("part filter, busy").with_code(Code::Http(503));
    let mut other_type = Dead::of("part-c", timeout("part filter, other"));
    other_type.event_type = "OrderCancelled".into();
    let first = subject.bury(&[Dead::of("part-a", unique.clone())]).await;
    // Stores keep milliseconds at least: the letters have different times after this.
    tokio::time::sleep(Duration::from_millis(3)).await;
    let second = subject.bury(&[Dead::of("part-b", busy)]).await;
    tokio::time::sleep(Duration::from_millis(3)).await;
    let third = subject.bury(&[other_type]).await;
    let (a, b, c) = (&first[0], &second[0], &third[0]);
    let part = |filter: Filter| async move {
        let part = Filter { text: Some("part filter".into()), ..filter };
        found(subject, part).await
    };

    assert_eq!(part(none()).await, set([a, b, c]));
    assert_eq!(part(Filter { status: Some(subject.status()), ..none() }).await, set([a, b, c]));
    assert_eq!(part(Filter { status: Some(Status::Resolved), ..none() }).await, set([]));
    assert_eq!(part(Filter { key: Some("part-b".into()), ..none() }).await, set([b]));
    assert_eq!(part(Filter { key: Some("PART-B".into()), ..none() }).await, set([]), "keys are exact");
    assert_eq!(part(Filter { key: Some("part-\0".into()), ..none() }).await, set([]), "no store keeps a NUL");

    let kind = subject.event_type("OrderCancelled");
    let of_type = if kind == "OrderCancelled" { set([c]) } else { set([a, b, c]) };
    assert_eq!(part(Filter { event_type: Some(kind), ..none() }).await, of_type);
    assert_eq!(part(Filter { event_type: Some("ordercancelled".into()), ..none() }).await, set([]));

    for (code, expected) in [("sqlstate:23505", set([a])), ("23505", set([a])), ("503", set([b]))] {
        assert_eq!(part(Filter { code: Some(code.into()), ..none() }).await, expected, "{code}");
    }
    for code in ["http:23505", "2350", "%", "", "'", "sqlstate:"] {
        assert_eq!(part(Filter { code: Some(code.into()), ..none() }).await, set([]), "{code}");
    }

    let middle = list(subject, Filter { key: Some("part-b".into()), ..none() }).await[0].failed_at;
    assert_eq!(part(Filter { since: Some(middle), ..none() }).await, set([b, c]), "since is inclusive");
    assert_eq!(part(Filter { until: Some(middle), ..none() }).await, set([a]), "until is not");
    assert_eq!(
        part(Filter { since: Some(Timestamp::MIN), until: Some(Timestamp::MAX), ..none() }).await.len(),
        3
    );
    let nobody = Filter { key: Some("part-a".into()), code: Some("503".into()), ..none() };
    assert_eq!(part(nobody).await, set([]), "every part must hold");
}

async fn text_is_found_literally_and_in_any_case<S: DeadLetterSubject>(subject: &S) {
    let messages = ["100% of a_b! Is lost", "100 % of axb is Lost", "c\\d 'quoted' \"twice\" ends"];
    let dead: Vec<_> = messages.iter().map(|message| Dead::of("text", timeout(message))).collect();
    let buried = subject.bury(&dead).await;
    for (text, expected) in [
        ("100%", vec![0]),
        ("a_b", vec![0]),
        ("!", vec![0]),
        ("IS LOST", vec![0, 1]),
        ("c\\d", vec![2]),
        ("'quoted' \"", vec![2]),
        ("%_%", vec![]),
    ] {
        let filter = Filter { text: Some(text.into()), key: Some("text".into()), ..Filter::default() };
        let expected = set(expected.into_iter().map(|at: usize| &buried[at]));
        assert_eq!(found(subject, filter).await, expected, "{text}");
    }
}

async fn paging_misses_nothing_and_repeats_nothing_while_letters_arrive<S: DeadLetterSubject>(subject: &S) {
    let dead = |count| vec![Dead::of("paging", timeout("on every page")); count];
    // The first batch died in one transaction: many have the same time.
    let mut expected = set(&subject.bury(&dead(20)).await);
    expected.extend(subject.bury(&dead(5)).await);
    let filter = Filter { key: Some("paging".into()), ..Filter::default() };
    let mut seen: Vec<Summary> = Vec::new();
    let mut page = Page::first(4);
    loop {
        let listing = subject.queue().list(&filter, page).await.expect("list");
        assert!(listing.letters.len() <= 4);
        seen.extend(listing.letters);
        subject.bury(&dead(1)).await;
        let Some(next) = listing.next else { break };
        page = Page::first(4).after(next.to_string().parse().expect("a cursor survives its text form"));
    }
    assert_eq!((seen.len(), ids(&seen)), (expected.len(), expected));
    let place = |letter: &Summary| (letter.failed_at, letter.id.local.parse::<i64>().expect("a number"));
    assert!(seen.windows(2).all(|two| place(&two[0]) > place(&two[1])), "newest first");
}

async fn a_letter_has_everything_and_hostile_texts_survive<S: DeadLetterSubject>(subject: &S) {
    let before = Timestamp::now();
    let dead = |text: &String| Dead {
        event_type: text.chars().take(100).collect(),
        key: text.clone(),
        payload: text.repeat(10_000 / text.len()),
        failure: Failure::new(Class::Malformed, text.clone(), format!("hostile {text} end"))
            .with_code(Code::Other(text.chars().take(90).collect())),
    };
    let dead: Vec<Dead> = hostile().iter().map(dead).collect();
    let buried = subject.bury(&dead).await;
    for (id, dead) in buried.iter().zip(&dead) {
        let letter = subject.queue().get(id).await.expect("get").expect("it was buried");
        let summary = &letter.summary;
        assert_eq!(String::from_utf8(letter.payload.clone()).as_ref(), Ok(&dead.payload));
        assert_eq!((&summary.key, &summary.failure), (&dead.key, &dead.failure));
        assert_eq!(summary.event_type, subject.event_type(&dead.event_type));
        assert_eq!((summary.id.local.as_str(), summary.status), (id.as_str(), subject.status()));
        assert_eq!(
            (summary.id.pipeline.as_str(), summary.kind),
            (subject.queue().pipeline(), subject.queue().kind())
        );
        let last = letter.history.attempts().last().expect("its death is in its history");
        assert_eq!(
            (last.failure.class, &last.failure.kind, &last.failure.code),
            (dead.failure.class, &dead.failure.kind, &dead.failure.code)
        );
        assert!(summary.attempts >= 1 && letter.resolution.is_none());
        let hour = Duration::from_secs(3600);
        assert!(letter.first_failed_at > before - hour && summary.failed_at > before - hour);
        let exactly = Filter {
            key: Some(dead.key.clone()),
            text: Some(dead.failure.message.clone()),
            ..Filter::default()
        };
        assert_eq!(found(subject, exactly).await, set([id]), "{}", dead.key);
        let code = dead.failure.code.as_ref().map(Code::to_string);
        assert_eq!(found(subject, Filter { code, ..Filter::default() }).await, set([id]));
    }
}

async fn nothing_is_found_under_an_id_that_is_none<S: DeadLetterSubject>(subject: &S) {
    for id in ["0", "-1", "", "x", "+1", "01", "1 ", "99999999999999999999", "1; DROP TABLE x", "\0"] {
        assert!(subject.queue().get(id).await.expect("get").is_none(), "{id:?}");
    }
}

async fn a_bulk_action_says_for_each_letter_what_became_of_it<S: DeadLetterSubject>(subject: &S) {
    let queue = subject.queue();
    let buried = subject.bury(&vec![Dead::of("bulk", timeout("bulk")); 6]).await;
    let resolved = queue.resolve(&buried[..2], &operator(), "by hand").await.expect("resolve");
    assert_eq!((set(&resolved.done), resolved.refused), (set(&buried[..2]), vec![]));

    let mut asked = buried[1..4].to_vec();
    asked.extend([
        "987654321".to_owned(),
        "nonsense".to_owned(),
        format!("0{}", buried[4]),
        buried[2].clone(),
    ]);
    let acted = queue.redrive(&asked, &order()).await.expect("redrive");
    assert_eq!(set(&acted.done), set(&buried[2..4]));
    assert_eq!(acted.done.len(), 2, "asked for twice, done once");
    for refusal in [
        Refusal::NotWaiting(buried[1].clone()),
        Refusal::Unknown("987654321".into()),
        Refusal::Unknown("nonsense".into()),
        Refusal::Unknown(format!("0{}", buried[4])),
    ] {
        assert!(acted.refused.contains(&refusal), "{refusal:?} in {:?}", acted.refused);
    }
    assert_eq!(acted.refused.len(), 4);

    let again = queue.redrive(&buried[2..4], &order()).await.expect("redrive");
    assert!(again.done.is_empty(), "no letter is sent twice");
    let not_waiting = |id: &String| Refusal::NotWaiting(id.clone());
    let refused: BTreeSet<String> = again.refused.iter().map(|refusal| refusal.letter().to_owned()).collect();
    assert_eq!(refused, set(&buried[2..4]), "and each is told so");
    let again = queue.resolve(&buried[..1], &operator(), "again").await.expect("resolve");
    assert_eq!((again.done, again.refused), (vec![], vec![not_waiting(&buried[0])]));
    let waiting = Filter { key: Some("bulk".into()), status: Some(subject.status()), ..Filter::default() };
    let left = found(subject, waiting).await;
    assert!(left.is_superset(&set(&buried[4..])) && left.is_disjoint(&set(&buried[..2])));
}

async fn ids_come_oldest_first_and_newcomers_last<S: DeadLetterSubject>(subject: &S) {
    let queue = subject.queue();
    let dead = |count| vec![Dead::of("frozen", timeout("frozen")); count];
    let mut expected = subject.bury(&dead(7)).await;
    expected.extend(subject.bury(&dead(4)).await);
    let filter = Filter { key: Some("frozen".into()), ..Filter::default() };
    assert_eq!(queue.count(&filter).await.expect("count"), 11);
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let page = queue.ids(&filter, after, 3).await.expect("ids");
        assert!(page.ids.len() <= 3);
        seen.extend(page.ids);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(seen.len(), 11, "each once");
    let letters = list(subject, filter.clone()).await;
    let newest_first: Vec<String> = letters.iter().map(|letter| letter.id.local.clone()).collect();
    assert_eq!(seen, newest_first.into_iter().rev().collect::<Vec<_>>());
    queue.resolve(&expected[..1], &operator(), "not any more").await.expect("resolve");
    assert_eq!(queue.count(&filter).await.expect("count"), 10, "only what waits");
    assert_eq!(queue.ids(&filter, None, 100).await.expect("ids").ids.len(), 10);
}

async fn an_order_is_carried_out_once_however_often_it_is_given<S: DeadLetterSubject>(subject: &S) {
    let queue = subject.queue();
    let buried = subject.bury(&vec![Dead::of("order", timeout("order")); 3]).await;
    let order = Order::new(&operator(), "operation 17");
    let acted = queue.redrive(&buried[..2], &order).await.expect("redrive");
    assert_eq!((set(&acted.done), acted.before.len()), (set(&buried[..2]), 0));
    let again = queue.redrive(&buried, &order).await.expect("redrive");
    assert_eq!((again.done, set(&again.before)), (vec![buried[2].clone()], set(&buried[..2])));
    assert!(again.refused.is_empty(), "{:?}", again.refused);
    let other = queue.redrive(&buried, &super::subjects::order()).await.expect("redrive");
    assert_eq!(
        (other.done.len(), other.before.len(), other.refused.len()),
        (0, 0, 3),
        "another order is told"
    );
    let outcomes = queue.outcomes(&buried).await.expect("outcomes");
    assert_eq!(outcomes, vec![Outcome::Pending; 3], "nobody has worked on them yet");
}

async fn a_letter_is_sent_with_another_payload<S: DeadLetterSubject>(subject: &S) {
    let queue = subject.queue();
    for (key, text) in [("edit", "{\"edited\": \"it's \\\\ \u{1F4A9}\"}"), ("clear", "")] {
        let id = subject.bury(&[Dead::of(key, timeout("edit"))]).await.remove(0);
        let acted = queue.redrive_edited(&id, text.as_bytes(), &order()).await.expect("redrive");
        assert_eq!((acted.done, acted.refused.len()), (vec![id.clone()], 0));
        let again = queue.redrive_edited(&id, b"too late", &order()).await.expect("redrive");
        assert_eq!(again.refused.len(), 1);
        assert_eq!(subject.sent(key).await.as_deref(), Some(text), "and a refused edit changes nothing");
    }
    let nobody = queue.redrive_edited("987654321", b"{}", &order()).await.expect("redrive");
    assert_eq!(nobody.refused, [Refusal::Unknown("987654321".into())]);
}

async fn a_resolution_is_kept_with_its_operator_and_note<S: DeadLetterSubject>(subject: &S) {
    let queue = subject.queue();
    for text in hostile() {
        let buried = subject.bury(&[Dead::of("resolution", timeout("resolution"))]).await;
        let operator = Operator::new(&text);
        let note = format!("because {} end", text.repeat(10_000 / text.len()));
        let acted = queue.resolve(&buried, &operator, &note).await.expect("resolve");
        assert_eq!(acted.done, buried);
        let letter = queue.get(&buried[0]).await.expect("get").expect("it is kept");
        let resolution = letter.resolution.expect("it is resolved");
        assert_eq!(letter.summary.status, Status::Resolved);
        assert_eq!(
            (resolution.by.as_str(), resolution.note),
            (operator.name(), redrive_core::failure::clean(&note))
        );
        assert!(resolution.at >= letter.summary.failed_at, "it was closed after it failed");
    }
}

async fn a_purge_takes_the_closed_ones_only<S: DeadLetterSubject>(subject: &S) {
    let queue = subject.queue();
    let buried = subject.bury(&vec![Dead::of("purge", timeout("purge")); 4]).await;
    queue.resolve(&buried[..2], &operator(), "to be purged").await.expect("resolve");
    let before = queue.stats().await.expect("stats");
    assert_eq!(queue.purge(Timestamp::UNIX_EPOCH).await.expect("purge"), 0, "nothing is that old");
    let purged = queue.purge(Timestamp::now() + Duration::from_secs(3600)).await.expect("purge");
    // What was sent back may still be under way, and is followed by its letter.
    let closed = before.count(Status::Resolved) + before.count(Status::Redriven);
    assert!((before.count(Status::Resolved)..=closed).contains(&purged), "{purged} of {before:?}");
    let after = queue.stats().await.expect("stats");
    assert_eq!((after.waiting(), after.count(Status::Resolved)), (before.waiting(), 0));
    assert!(queue.get(&buried[0]).await.expect("get").is_none());
    assert!(queue.get(&buried[3]).await.expect("get").is_some());
    let acted = queue.redrive(&buried[..1], &order()).await.expect("redrive");
    assert_eq!(acted.refused, [Refusal::Unknown(buried[0].clone())]);
}
