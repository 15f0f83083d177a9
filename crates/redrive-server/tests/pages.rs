//! The dashboard, page by page: what it shows, what it refuses, and that nothing in it runs.
#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

mod support;

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use jiff::Timestamp;
use redrive_core::dead_letter::{DeadLetterQueue as _, Operator, Origin, PipelineKind};
use redrive_core::failure::{Code, Failure};
use redrive_engine::console::{Console, Desk, Records};
use redrive_server::{Access, Doors, Limits, Role, router};
use redrive_store::{Database, Letters, NewLetter};
use redrive_testkit::TestDatabase;
use support::grant;
use tower::ServiceExt as _;

const EVERY_PAGE: [&str; 9] = [
    "/",
    "/letters",
    "/letters?q=status%3Aopen",
    "/letters/orders:1",
    "/letters/orders:1?view=hex",
    "/letters/orders:1/edit",
    "/confirm?action=redrive&q=pipeline%3Aorders",
    "/pipelines",
    "/help",
];

/// The dashboard over the letters `orders`.
struct Board {
    router: Router,
    orders: Arc<Letters>,
    _database: TestDatabase,
}

struct Page {
    status: StatusCode,
    headers: HeaderMap,
    html: String,
}

impl Board {
    async fn new() -> Self {
        Self::with(Access::default(), &[]).await
    }

    /// With these people, and with pipelines whose store is away.
    async fn with(access: Access, away: &[&str]) -> Self {
        let database = redrive_testkit::sqlite();
        let connection = Database::open(&database.url).unwrap();
        let records = Records::of(&connection);
        records.migrate().await.unwrap();
        let orders = Arc::new(Letters::new(connection, "orders", PipelineKind::Intake));
        orders.migrate().await.unwrap();
        let mut desks = vec![Desk { queue: orders.clone(), workers: None }];
        for name in away {
            let nowhere = Database::open("sqlite:/nowhere/at/all.db").unwrap();
            let letters = Arc::new(Letters::new(nowhere, name, PipelineKind::Intake));
            desks.push(Desk { queue: letters, workers: None });
        }
        Self { router: board_of(access, Console::new(records, desks)), orders, _database: database }
    }

    async fn bury(&self, letters: &[NewLetter]) {
        assert_eq!(self.orders.add(letters).await.unwrap(), letters.len());
    }

    async fn get(&self, path: &str) -> Page {
        self.ask(Request::get(path).body(Body::empty()).unwrap()).await
    }

    async fn post(&self, path: &str, form: &str) -> Page {
        let request = Request::post(path).header("content-type", "application/x-www-form-urlencoded");
        self.ask(request.body(Body::from(form.to_owned())).unwrap()).await
    }

    /// As a browser with this cookie does.
    async fn ask_with(&self, cookie: &str, request: axum::http::request::Builder, form: &str) -> Page {
        let request = request.header("cookie", cookie).header("sec-fetch-site", "same-origin");
        self.ask(request.body(Body::from(form.to_owned())).unwrap()).await
    }

    async fn ask(&self, request: Request<Body>) -> Page {
        let (parts, body) = self.router.clone().oneshot(request).await.unwrap().into_parts();
        let bytes = to_bytes(body, 10_000_000).await.unwrap();
        let html = String::from_utf8_lossy(&bytes).into_owned();
        Page { status: parts.status, headers: parts.headers, html }
    }
}

impl Page {
    #[track_caller]
    fn shows(&self, parts: &[&str]) {
        for part in parts {
            assert!(self.html.contains(part), "{part:?} in {}", self.html);
        }
    }

    fn leads_to(&self) -> &str {
        assert_eq!(self.status, StatusCode::SEE_OTHER, "{}", self.html);
        self.headers["location"].to_str().unwrap()
    }

    /// The value of a hidden field.
    fn field(&self, name: &str) -> String {
        let start = format!("name=\"{name}\" value=\"");
        let (_, rest) = self.html.split_once(&start).unwrap_or_else(|| panic!("{name} in {}", self.html));
        let value = rest.split('"').next().unwrap();
        value.replace("&#34;", "\"").replace("&quot;", "\"").replace("&amp;", "&")
    }

    /// Nothing in it can run, whatever producers wrote.
    #[track_caller]
    fn assert_inert(&self, path: &str) {
        let policy = self.headers["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{path}: {policy}");
        assert_eq!(self.headers["x-content-type-options"], "nosniff");
        assert_eq!(self.headers["content-type"], "text/html; charset=utf-8");
        let mut rest = self.html.as_str();
        while let Some(at) = rest.find('<') {
            rest = &rest[at + 1..];
            let tag = &rest[..rest.find('>').unwrap_or(rest.len())];
            let ours = tag.starts_with("script type=\"module\" src=\"/ui/app.js?v=");
            assert!(ours || !tag.starts_with("script"), "{path}: <{tag}>");
            for never in ["iframe", "object", "embed", "base", "img src=x", "style", "link rel=\"x"] {
                assert!(!tag.starts_with(never), "{path}: <{tag}>");
            }
            for attribute in attributes(tag) {
                let name = attribute.split('=').next().unwrap();
                assert!(!name.starts_with("on") && name != "style", "{path}: {attribute} of <{tag}>");
                let leads = ["href", "src", "action", "formaction"].contains(&name);
                let to = attribute.split_once('=').map_or("", |(_, to)| to.trim_matches('"'));
                assert!(!leads || to.starts_with(['/', '#']), "{path}: <{tag}>");
            }
        }
    }
}

/// The attributes of a tag; what is in quotes belongs to its attribute.
fn attributes(tag: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut quoted = false;
    for letter in tag.chars() {
        match letter {
            '"' => quoted = !quoted,
            ' ' | '\n' if !quoted => {
                all.push(String::new());
                continue;
            }
            _ => {}
        }
        all.last_mut().unwrap().push(letter);
    }
    assert!(!quoted, "a quote is not closed: <{tag}>");
    all.into_iter().skip(1).filter(|attribute| !attribute.is_empty()).collect()
}

fn board_of(access: Access, console: Console) -> Router {
    router(support::site(Arc::new(console), access, Doors::default()), Limits { body: 1_000_000 })
}

fn letter(number: usize) -> NewLetter {
    let at = Timestamp::now();
    NewLetter {
        source: format!("orders/{number}"),
        event_type: "OrderCreated".to_owned(),
        key: format!("order-{number}"),
        payload: format!("{{\"order\":{number},\"total\":12345678901234567890.10}}").into_bytes(),
        headers: vec![("trace".to_owned(), b"abc".to_vec()), ("raw".to_owned(), vec![0xff, 0x00])],
        origin: Origin::Topic { topic: "orders".to_owned(), partition: 3, offset: 42 },
        target: None,
        failure: Failure::permanent("Declined", "card 4111 was declined").with_code(Code::Http(422)),
        attempts: 3,
        first_failed_at: at,
        failed_at: at,
    }
}

#[tokio::test]
async fn every_page_is_there_and_nothing_in_it_can_run() {
    let board = Board::new().await;
    board.bury(&[letter(1), letter(2)]).await;
    for path in EVERY_PAGE.into_iter().chain(["/operations", "/audit"]) {
        let page = board.get(path).await;
        assert_eq!(page.status, StatusCode::OK, "{path}: {}", page.html);
        page.assert_inert(path);
        page.shows(&["<html lang=\"en\">", "Skip to the content", "<main id=\"main\"", "<title>"]);
        assert!(page.html.len() < 100_000, "{path} has {} bytes", page.html.len());
    }
    board.get("/").await.shows(&[
        "Declined",
        "http:422",
        "<strong>2 letters</strong> wait in 1 group",
        "<svg",
    ]);
    board.get("/letters").await.shows(&["orders:1", "order-2", "Redrive…"]);
    let page = board.get("/letters/orders:1").await;
    page.shows(&["12345678901234567890.10", "0xff00", "partition", "42", "card 4111 was declined"]);
}

#[tokio::test]
async fn when_nothing_is_there_the_page_says_whether_that_is_fine() {
    let board = Board::new().await;
    board.get("/").await.shows(&["Nothing is dead"]);
    board.get("/letters").await.shows(&["No letters"]);
    board.get("/letters?q=type%3Ax").await.shows(&["No letter matches", "<code>type:x</code>"]);
    board.get("/operations").await.shows(&["No operations yet"]);
    board.get("/audit").await.shows(&["Nobody has done anything yet"]);
    board.get("/confirm?action=redrive&q=type%3Ax").await.shows(&["Nothing waits here"]);
    let none = board_of(
        Access::default(),
        Console::new(Records::of(&Database::open("sqlite::memory:").unwrap()), []),
    );
    let nobody = Board { router: none, ..Board::new().await };
    nobody.get("/").await.shows(&["No pipelines yet", "[outbox.NAME]"]);
    nobody.get("/pipelines").await.shows(&["No pipelines yet"]);
}

/// In every field that a producer controls, in every way that has ever worked somewhere.
#[tokio::test]
async fn hostile_letters_run_nothing_on_any_page() {
    let attacks = [
        "<script>alert(1)</script>",
        "\"><img src=x onerror=alert(1)>",
        "' onmouseover='alert(1)",
        "javascript:alert(1)",
        "</textarea><script>alert(1)</script>",
        "</title></style><svg onload=alert(1)>",
        "{{7*7}}${7*7}<%= 7*7 %>",
        "\u{202e}\u{200b}\u{1b}[31m",
    ];
    let board = Board::new().await;
    for (number, attack) in attacks.into_iter().enumerate() {
        let hostile = NewLetter {
            source: format!("{number}{attack}"),
            event_type: attack.to_owned(),
            key: attack.to_owned(),
            payload: format!("{{\"{}\": \"x\"}} {attack}", attack.replace('"', "\\\"")).into_bytes(),
            headers: vec![(attack.to_owned(), attack.as_bytes().to_vec())],
            origin: Origin::File { file: attack.to_owned(), line: 1 },
            failure: Failure::permanent(attack, attack).with_code(Code::Other(attack.to_owned())),
            ..letter(0)
        };
        board.bury(&[hostile]).await;
    }
    let mut paths: Vec<String> = EVERY_PAGE.map(str::to_owned).to_vec();
    for (at, attack) in attacks.iter().enumerate() {
        let encoded: String = attack.bytes().map(|byte| format!("%{byte:02X}")).collect();
        paths.push(format!("/letters/orders:{}", at + 1));
        paths.push(format!("/letters/orders:{}?view=text", at + 1));
        paths.push(format!("/letters/{encoded}"));
        paths.push(format!("/letters?q={encoded}"));
        paths.push(format!("/letters?q=type%3A{encoded}"));
        paths.push(format!("/confirm?action=redrive&q={encoded}"));
        paths.push(format!("/?pipeline={encoded}"));
        paths.push(format!("/letters/orders:1?did={encoded}"));
    }
    for path in paths {
        let page = board.get(&path).await;
        assert!(!page.status.is_server_error(), "{path}: {}", page.html);
        if page.status != StatusCode::SEE_OTHER {
            page.assert_inert(&path);
            // What was asked for stays as it was typed where it is sent back.
            let typed = |line: &&str| line.contains("name=\"q\"") || line.contains("name=\"filter\"");
            let shown: String = page.html.lines().filter(|line| !typed(line)).collect();
            assert!(!shown.contains("<script>") && !shown.contains('\u{202e}'), "{path}");
        }
    }
    for at in 1..=attacks.len() {
        let page = board
            .post(&format!("/letters/orders:{at}/review"), "payload=%3C%2Ftextarea%3E%3Cscript%3E")
            .await;
        page.assert_inert("review");
    }
}

#[tokio::test]
async fn a_full_page_of_long_letters_is_small() {
    let board = Board::new().await;
    let long = |number: usize| NewLetter {
        key: "<".repeat(255),
        event_type: "\"".repeat(100),
        failure: Failure::permanent("&".repeat(200), "<".repeat(8_000))
            .with_code(Code::Other("'".repeat(99))),
        ..letter(number)
    };
    board.bury(&(0..60).map(long).collect::<Vec<_>>()).await;
    for path in ["/", "/letters", "/pipelines"] {
        let page = board.get(path).await;
        assert!(page.html.len() < 150_000, "{path} has {} bytes", page.html.len());
    }
    let plain = |number: usize| NewLetter {
        failure: Failure::permanent(format!("Cause{}", "x".repeat(number - 100)), "was declined".repeat(9)),
        ..letter(number)
    };
    let board = Board::new().await;
    board.bury(&(100..200).map(plain).collect::<Vec<_>>()).await;
    let groups = board.get("/").await;
    assert!(groups.html.len() < 100_000, "{} bytes", groups.html.len());
    groups.shows(&["50 largest groups"]);
    let page = board.get("/letters").await;
    assert!(page.html.len() < 100_000, "{} bytes", page.html.len());
    page.shows(&["Older letters"]);
}

#[tokio::test]
async fn a_store_that_is_away_is_named_and_the_rest_is_shown() {
    let board = Board::with(Access::default(), &["mails"]).await;
    board.bury(&[letter(1)]).await;
    for path in ["/", "/letters"] {
        let page = board.get(path).await;
        assert_eq!(page.status, StatusCode::OK);
        page.shows(&["Not everything is here", "<strong>mails</strong>", "Declined", "Nothing is lost"]);
    }
    board.get("/pipelines").await.shows(&["in trouble", "cannot be counted"]);
    let page = board.get("/letters?q=pipeline%3Amails").await;
    assert_eq!(page.status, StatusCode::SERVICE_UNAVAILABLE);
    page.shows(&["No store answers", "mails"]);
    let page = board.get("/letters/mails:1").await;
    assert_eq!(page.status, StatusCode::SERVICE_UNAVAILABLE);
    page.shows(&["A store does not answer", "Check that the database runs"]);
}

#[tokio::test]
async fn when_every_store_is_away_the_page_says_so_and_what_to_do() {
    let nowhere = Database::open("sqlite:/nowhere/at/all.db").unwrap();
    let letters = Arc::new(Letters::new(nowhere.clone(), "orders", PipelineKind::Intake));
    let console = Console::new(Records::of(&nowhere), [Desk { queue: letters, workers: None }]);
    let board = Board { router: board_of(Access::default(), console), ..Board::new().await };
    for path in ["/", "/letters", "/pipelines", "/operations", "/audit", "/letters/orders:1"] {
        let page = board.get(path).await;
        assert_eq!(page.status, StatusCode::SERVICE_UNAVAILABLE, "{path}");
        page.assert_inert(path);
        page.shows(&["Nothing is lost", "Check that the database"]);
    }
    assert_eq!(board.get("/help").await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_wrong_filter_is_kept_and_explained() {
    let board = Board::new().await;
    for (q, said) in [
        ("typ%3Ax", "did you mean type:?"),
        ("status%3Adead", "is no status"),
        ("pipeline%3Anone", "there is no pipeline none"),
        ("key%3A%22a", "are not closed"),
    ] {
        let page = board.get(&format!("/letters?q={q}")).await;
        assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY, "{q}");
        page.shows(&[said, "aria-invalid=\"true\"", "id=\"q-mistake\""]);
    }
    let page = board.get("/letters?after=rubbish").await;
    assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY);
    page.shows(&["start again without it"]);
}

#[tokio::test]
async fn the_id_of_a_letter_leads_to_it() {
    let board = Board::new().await;
    assert_eq!(board.get("/letters?q=orders%3A7").await.leads_to(), "/letters/orders:7");
}

#[tokio::test]
async fn what_is_not_there_is_a_page_for_people_and_a_problem_for_programs() {
    let board = Board::new().await;
    for path in ["/letters/orders:99", "/letters/none:1", "/letters/x", "/operations/7", "/operations/x"] {
        let page = board.get(path).await;
        assert_eq!(page.status, StatusCode::NOT_FOUND, "{path}");
        page.assert_inert(path);
    }
    let request = Request::get("/nothing").header("accept", "text/html,*/*;q=0.8");
    let page = board.ask(request.body(Body::empty()).unwrap()).await;
    assert_eq!(page.status, StatusCode::NOT_FOUND);
    page.assert_inert("/nothing");
    assert_eq!(board.get("/nothing").await.headers["content-type"], "application/problem+json");
}

#[tokio::test]
async fn a_payload_is_saved_and_never_shown_in_our_name() {
    let board = Board::new().await;
    board.bury(&[NewLetter { payload: b"<script>alert(1)</script>\0\xff".to_vec(), ..letter(1) }]).await;
    let page = board.get("/letters/orders:1/payload").await;
    assert_eq!(page.headers["content-type"], "application/octet-stream");
    assert_eq!(page.headers["content-disposition"], "attachment; filename=\"orders-1.bin\"");
    assert_eq!(page.headers["x-content-type-options"], "nosniff");
    assert_eq!(page.headers["content-length"], "27");
}

#[tokio::test]
async fn a_large_payload_is_cut_and_can_be_saved() {
    let board = Board::new().await;
    board.bury(&[NewLetter { payload: vec![b'a'; 600_000], ..letter(1) }]).await;
    let page = board.get("/letters/orders:1").await;
    page.shows(&["337.9 kB more are not shown", "600.0 kB", "too large to be edited here"]);
    assert!(page.html.len() < 300_000);
}

#[tokio::test]
async fn a_confirmation_freezes_what_it_counted() {
    let board = Board::new().await;
    board.bury(&(1..=3).map(letter).collect::<Vec<_>>()).await;
    let page = board.get("/confirm?action=resolve&q=type%3AOrderCreated").await;
    page.shows(&["Resolve 3 letters?", "As of ", "Letters that fail later stay out", "type:OrderCreated"]);
    // Newcomers, after the confirmation was shown.
    board.bury(&(4..=9).map(letter).collect::<Vec<_>>()).await;
    let filter: String = page.field("filter").bytes().map(|byte| format!("%{byte:02X}")).collect();
    let form = format!("action=resolve&key={}&filter={filter}&note=known", page.field("key"));
    let started = board.post("/operations", &form).await;
    let to = started.leads_to().to_owned();
    assert_eq!(board.post("/operations", &form).await.leads_to(), to, "the same form is the same operation");
    let operation = board.get(&to).await;
    operation.shows(&["<h1>Resolve ", "freezing", "known", "<dt>as of</dt>"]);
    board.get("/operations").await.shows(&[&to, "known"]);
    board.get("/audit").await.shows(&["resolve", &to]);
    let frozen = serde_json::from_str(&page.field("filter")).unwrap();
    assert_eq!(board.orders.count(&frozen).await.unwrap(), 3);
    assert_eq!(board.post(&format!("{to}/cancel"), "").await.leads_to(), format!("{to}?did=cancelled"));
    assert_eq!(board.post(&format!("{to}/resume"), "").await.status, StatusCode::CONFLICT);
}

/// A hash tells nobody what was redriven, least of all when no letter of the group waits any more.
#[tokio::test]
async fn a_group_is_named_by_its_type_and_failure_wherever_its_hash_is_shown() {
    let board = Board::new().await;
    board.bury(&[letter(1)]).await;
    let group = board.orders.groups(1).await.unwrap()[0].fingerprint;
    let page = board.get(&format!("/confirm?action=resolve&q=group%3A{group}")).await;
    let filter: String = page.field("filter").bytes().map(|byte| format!("%{byte:02X}")).collect();
    let form = format!("action=resolve&key={}&filter={filter}&note=known", page.field("key"));
    let to = board.post("/operations", &form).await.leads_to().to_owned();
    board.orders.resolve(&["1".to_owned()], &Operator::new("me"), "done with").await.unwrap();
    let words = "OrderCreated: Declined http:422, card 4111 was declined";
    for path in ["/operations", &to, "/audit"] {
        board.get(path).await.shows(&[&group.to_string(), words]);
    }
}

#[tokio::test]
async fn ticked_letters_are_confirmed_by_their_ids() {
    let board = Board::new().await;
    board.bury(&(1..=3).map(letter).collect::<Vec<_>>()).await;
    let page = board.post("/confirm", "action=redrive&id=orders%3A1&id=orders%3A3&q=").await;
    page.shows(&[
        "Redrive 2 letters?",
        "value=\"orders:1\"",
        "value=\"orders:3\"",
        "1, 5, 20",
        "These and no others",
    ]);
    assert!(!page.html.contains("name=\"filter\""));
    let page = board.post("/confirm", "action=redrive&everything=1&q=").await;
    page.shows(&["Redrive 3 letters?", "every letter that waits", "name=\"sure\""]);
    let form = format!("action=redrive&everything=1&filter=%7B%7D&key={}", page.field("key"));
    let page = board.post("/operations", &form).await;
    assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY);
    page.shows(&["tick the box"]);
    board.post("/confirm", "action=redrive&q=").await.shows(&["No letter is ticked"]);
}

#[tokio::test]
async fn one_letter_is_resolved_with_a_note() {
    let board = Board::new().await;
    board.bury(&[letter(1)]).await;
    let page = board.post("/letters/orders:1/resolve", "note=").await;
    assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY);
    let page = board.post("/letters/orders:1/resolve", "note=known+<b>").await;
    assert_eq!(page.leads_to(), "/letters/orders:1?did=resolved");
    let page = board.get("/letters/orders:1?did=resolved").await;
    page.shows(&["Resolved.", "resolved", "known &#60;b&#62;", "It was closed"]);
    let again = board.post("/letters/orders:1/resolve", "note=again").await;
    assert_eq!(again.status, StatusCode::CONFLICT);
    again.shows(&["was faster", "Nothing was changed"]);
}

/// A store that cannot keep it answered with an error of its own, after the letter was looked for.
#[tokio::test]
async fn a_note_that_no_store_need_keep_is_refused() {
    let board = Board::new().await;
    board.bury(&[letter(1)]).await;
    for note in ["n".repeat(2_001), "a%00b".to_owned()] {
        let page = board.post("/letters/orders:1/resolve", &format!("note={note}")).await;
        assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", page.html);
        page.shows(&["note has ", "Nothing was changed"]);
    }
    board.get("/letters/orders:1").await.shows(&["is-open"]);
}

/// It said that somebody was faster.
#[tokio::test]
async fn what_cannot_be_done_is_not_blamed_on_somebody_else() {
    let board = Board::new().await;
    board.bury(&[letter(1)]).await;
    let page = board.post("/letters/orders:1/redrive", "").await;
    assert_eq!(page.status, StatusCode::CONFLICT);
    page.shows(&["without a target", "Nothing was changed."]);
    assert!(!page.html.contains("was faster"));
}

/// It said that the log of the server says more.
#[tokio::test]
async fn a_form_that_is_too_large_is_said_to_be() {
    let board = Board::new().await;
    let page = board.post("/confirm", &"x".repeat(1_000_001)).await;
    assert_eq!(page.status, StatusCode::PAYLOAD_TOO_LARGE);
    page.shows(&["That does not work", "server.max-body", "go back and try again"]);
}

#[tokio::test]
async fn an_edit_is_reviewed_before_it_is_sent() {
    let board = Board::new().await;
    board.bury(&[letter(1)]).await;
    board.get("/letters/orders:1/edit").await.shows(&["&#34;total&#34;:12345678901234567890.10}</textarea>"]);
    let form = "payload=%7B%22order%22%3A1%2C%22total%22%3A12345678901234567890.20%7D";
    let page = board.post("/letters/orders:1/review", form).await;
    page.shows(&["class=\"gone\"", "12345678901234567890.10", "class=\"new\"", "12345678901234567890.20"]);
    page.shows(&["{&#34;order&#34;:1,&#34;total&#34;:12345678901234567890.20}</textarea>", "Go on editing"]);
    let page = board.post("/letters/orders:1/review", "payload=%7B").await;
    page.shows(&["was JSON and is not any more"]);
    let page = board.post("/letters/orders:1/edit", "payload=%7B").await;
    page.shows(&["{</textarea>"]);
}

fn two() -> Access {
    Access::new(vec![grant("vera", Role::Viewer, "v"), grant("otto", Role::Operator, "o")])
}

/// Logs in; returns the cookie.
async fn log_in(board: &Board, token: &str) -> String {
    let page = board.post("/login", &format!("token={token}&next=%2Fletters")).await;
    assert_eq!(page.leads_to(), "/letters");
    page.headers["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned()
}

#[tokio::test]
async fn with_tokens_a_browser_logs_in_and_out() {
    let board = Board::with(two(), &[]).await;
    assert_eq!(board.get("/letters?q=x").await.leads_to(), "/login?next=%2Fletters%3Fq%3Dx");
    let page = board.get("/login?next=%2Fletters").await;
    page.assert_inert("/login");
    page.shows(&["type=\"password\"", "value=\"/letters\""]);
    board.get("/login?next=%2F%2Fevil.example").await.shows(&["name=\"next\" value=\"/\""]);
    let wrong = board.post("/login", "token=x").await;
    assert_eq!(wrong.status, StatusCode::UNAUTHORIZED);
    wrong.shows(&["Nobody here has this token"]);
    assert!(!wrong.headers.contains_key("set-cookie"));

    let cookie = log_in(&board, "o").await;
    let page = board.ask_with(&cookie, Request::get("/"), "").await;
    page.shows(&["otto", "Log out"]);
    let out = board.ask_with(&cookie, Request::post("/logout"), "").await;
    assert_eq!(out.leads_to(), "/login");
    assert_eq!(board.ask_with(&cookie, Request::get("/"), "").await.leads_to(), "/login");
}

#[tokio::test]
async fn a_viewer_sees_everything_and_changes_nothing() {
    let board = Board::with(two(), &[]).await;
    board.bury(&[letter(1)]).await;
    let viewer = log_in(&board, "v").await;
    for path in ["/", "/letters", "/letters/orders:1", "/pipelines", "/operations", "/audit"] {
        let page = board.ask_with(&viewer, Request::get(path), "").await;
        assert_eq!(page.status, StatusCode::OK, "{path}");
        for act in ["data-key", "/confirm", "name=\"action\"", "Redrive…", "Resolve…", "Pause</button>"] {
            assert!(!page.html.contains(act), "{path}: {act}");
        }
        assert_eq!(page.html.matches("method=\"post\"").count(), 1, "only to log out: {path}");
    }
    for path in ["/confirm?action=redrive&q=", "/letters/orders:1/edit"] {
        assert_eq!(
            board.ask_with(&viewer, Request::get(path), "").await.status,
            StatusCode::FORBIDDEN,
            "{path}"
        );
    }
    for path in [
        "/operations",
        "/letters/orders:1/redrive",
        "/letters/orders:1/resolve",
        "/confirm",
        "/pipelines/orders/pause",
    ] {
        let page = board.ask_with(&viewer, Request::post(path), "note=x").await;
        assert_eq!(page.status, StatusCode::FORBIDDEN, "{path}");
        page.assert_inert(path);
        page.shows(&["Not allowed", "is that of a viewer"]);
    }
}

#[tokio::test]
async fn another_site_changes_nothing() {
    let board = Board::new().await;
    board.bury(&[letter(1)]).await;
    let request = Request::post("/letters/orders:1/resolve").header("sec-fetch-site", "cross-site");
    let page = board.ask(request.body(Body::from("note=x")).unwrap()).await;
    assert_eq!(page.status, StatusCode::FORBIDDEN);
    board.get("/letters/orders:1").await.shows(&["is-open"]);
}

#[tokio::test]
async fn style_and_script_are_kept_by_browsers_and_change_their_address_with_their_content() {
    let board = Board::new().await;
    let page = board.get("/help").await;
    let (_, rest) = page.html.split_once("href=\"/ui/style.css").unwrap();
    let address = format!("/ui/style.css{}", rest.split('"').next().unwrap());
    let style = board.get(&address).await;
    assert_eq!(style.headers["content-type"], "text/css; charset=utf-8");
    assert!(style.headers["cache-control"].to_str().unwrap().contains("immutable"));
    let script = board.get("/ui/app.js").await;
    assert_eq!(script.headers["content-type"], "text/javascript; charset=utf-8");
    assert!(!script.html.contains("innerHTML") && !script.html.contains("eval("));
}

/// They forgot everything that was typed before.
#[tokio::test]
async fn the_links_beside_the_filter_keep_the_rest_of_it() {
    let board = Board::new().await;
    let page = board.get("/letters?q=type%3AOrderCreated+status%3Aopen+%22card+4111%22").await;
    page.shows(&[
        "href=\"/letters?q=type%3AOrderCreated%20%22card%204111%22%20status%3Aresolved\"",
        "href=\"/letters?q=type%3AOrderCreated%20status%3Aopen%20%22card%204111%22%20since%3A1h\"",
    ]);
    board.get("/letters").await.shows(&["href=\"/letters?q=status%3Aopen\""]);
}

#[tokio::test]
async fn a_group_whose_failures_have_no_kind_has_a_link_that_can_be_seen() {
    let board = Board::new().await;
    let nameless = Failure::permanent("", "card was declined");
    board.bury(&[NewLetter { failure: nameless, ..letter(1) }]).await;
    board.get("/").await.shows(&["(no kind)</a>"]);
}

#[tokio::test]
async fn an_answer_that_has_not_changed_is_not_sent_again_and_a_long_one_is_compressed() {
    let board = Board::new().await;
    let many: Vec<NewLetter> = (0..100).map(letter).collect();
    board.bury(&many).await;
    let path = "/api/v1/dead-letters?limit=100";
    let first = board.get(path).await;
    let tag = first.headers["etag"].clone();
    let again = Request::get(path).header("if-none-match", &tag).body(Body::empty()).unwrap();
    let again = board.ask(again).await;
    assert_eq!(
        (again.status, again.html.as_str(), &again.headers["etag"]),
        (StatusCode::NOT_MODIFIED, "", &tag)
    );
    assert_eq!(again.headers["cache-control"], "no-store", "browsers keep no letters");
    let packed = Request::get(path).header("accept-encoding", "br, gzip").body(Body::empty()).unwrap();
    let packed = board.ask(packed).await;
    assert_eq!(
        (&packed.headers["content-encoding"], &packed.headers["vary"]),
        (&"gzip".parse().unwrap(), &"accept-encoding".parse().unwrap())
    );
    assert!(packed.html.len() * 4 < first.html.len(), "{} of {}", packed.html.len(), first.html.len());
    board.bury(&[letter(1_000)]).await;
    let changed = Request::get(path).header("if-none-match", &tag).body(Body::empty()).unwrap();
    assert_eq!(board.ask(changed).await.status, StatusCode::OK);
    let payload = board.get("/api/v1/dead-letters/orders:1/payload").await;
    assert!(!payload.headers.contains_key("etag"), "bytes are passed on as they are");
}
