//! The dashboard in a real browser, over the real binary: the whole story of an operator.
//!
//! `./test screenshots` runs the last one, which makes the pictures of the README.
#![allow(clippy::unwrap_used, reason = "a test may panic, in its helpers too")]

#[path = "browser/driver.rs"]
mod driver;
mod support;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::post;
use base64::Engine as _;
use driver::{Browser, ENTER, ESCAPE, Scripts, TAB};
use serde_json::{Value, json};
use support::{Server, folder_with, sha256};
use tempfile::TempDir;

const PAGES: [&str; 12] = [
    "/",
    "/letters",
    "/letters?q=status%3Aopen%20type%3AOrderCreated",
    "/letters?q=typ%3Ax",
    "/letters/orders:1",
    "/letters/orders:1?view=hex",
    "/letters/orders:1/edit",
    "/confirm?action=redrive&q=type%3AOrderCreated",
    "/operations",
    "/pipelines",
    "/audit",
    "/help",
];

/// The binary with an outbox whose receiver refuses every order until it is mended.
struct Shop {
    server: Server,
    mended: Arc<AtomicBool>,
    _folder: TempDir,
}

impl Shop {
    async fn open() -> Self {
        Self::open_to("").await
    }

    /// To those whom these settings of the server name.
    async fn open_to(tokens: &str) -> Self {
        let mended = Arc::new(AtomicBool::new(false));
        let answer = Arc::clone(&mended);
        let handler = move || {
            let mended = answer.load(Ordering::Relaxed);
            async move {
                if mended {
                    (StatusCode::OK, "")
                } else {
                    (StatusCode::UNPROCESSABLE_ENTITY, "unknown currency EURO")
                }
            }
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let receiver = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, Router::new().route("/", post(handler))).await });
        let folder = folder_with(&format!(
            r#"
            [server]
            {tokens}

            [outbox.orders]
            poll-interval = "50ms"
            max-retry-count = 1
            retry = {{ initial = "10ms", factor = 1.0, max = "10ms" }}
            handlers.OrderCreated = {{ http = "http://{receiver}/" }}
            handlers.PaymentDone = {{ command = ["sh", "-c", "echo 'card network refused: do not honour' >&2; exit 1"] }}

            [jobs.mails]
            max-retries = 1
            retry = {{ initial = "10ms", factor = 1.0, max = "10ms" }}
            handler = {{ command = ["sh", "-c", "echo 'SMTP 550: no such mailbox' >&2; exit 1"] }}
            "#
        ));
        let server = Server::ready(folder.path());
        Self { server, mended, _folder: folder }
    }

    fn address(&self, path: &str) -> String {
        format!("http://{}{path}", self.server.address)
    }

    /// Puts events in, and waits until they are dead.
    fn kill(&self, events: &Value) {
        let (status, answer) = self.server.post("/api/v1/outbox/orders/events", events);
        assert_eq!(status, 201, "{answer}");
        let many = events.as_array().unwrap().len();
        self.server
            .wait_metric(&format!("redrive_dead_letters{{pipeline=\"orders\",status=\"open\"}} {many}"));
    }

    fn kill_orders(&self, many: usize) {
        self.kill(&(1..=many).map(order).collect());
    }

    fn mend(&self) {
        self.mended.store(true, Ordering::Relaxed);
    }
}

fn order(number: usize) -> Value {
    json!({
        "event_type": "OrderCreated",
        "aggregate_type": "Order",
        "aggregate_id": format!("ord-{number}"),
        "payload": format!(
            "{{\"order\":\"ord-{number}\",\"total\":12345678901234567890.10,\"currency\":\"EURO\",\
             \"lines\":[{{\"sku\":\"A-1\",\"quantity\":2}},{{\"sku\":\"B-7\",\"quantity\":1,\"note\":null}}],\
             \"customer\":{{\"name\":\"Zoë\",\"newsletter\":false}}}}"
        ),
    })
}

/// Nothing complained, neither a script nor the content security policy; and nothing was alerted.
async fn assert_calm(browser: &Browser, where_at: &str) {
    assert!(!browser.is_alerted().await, "{where_at}");
    let complaints = browser.complaints().await;
    let serious: Vec<_> =
        complaints.iter().filter(|line| !line.contains("Failed to load resource")).collect();
    assert!(serious.is_empty(), "{where_at}: {serious:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn from_a_group_to_a_finished_redrive() {
    let Some(browser) = Browser::start(Scripts::Run).await else { return };
    let shop = Shop::open().await;
    shop.kill_orders(30);

    browser.open(&shop.address("/")).await;
    browser.wait_for("table.groups", "unknown currency EURO").await;
    // The page may be from when fewer were dead; it follows by itself.
    browser.wait_for("table.groups .count", "30").await;
    browser.click("table.groups a.main").await;
    browser.click("table.letters a.main").await;
    let shown = browser.text(".tree").await;
    assert!(shown.contains("12345678901234567890.10"), "{shown}");

    // The first redrive comes too early: the ramp stops it after one letter.
    browser.open(&shop.address("/")).await;
    browser.click("table.groups .actions a.primary").await;
    browser.wait_for("h1", "Redrive 30 letters?").await;
    browser.write("#note", "too early").await;
    browser.click(".confirm button.primary").await;
    browser.wait_for(".big-status", "stopped").await;
    browser.wait_for(".notice.bad", "failed again").await;

    // Mended, it goes on: nobody reloads the page, it follows by itself.
    shop.mend();
    browser.click("form[action$='/cancel'] button").await;
    browser.wait_for(".big-status", "cancelled").await;
    browser.open(&shop.address("/")).await;
    browser.click("table.groups .actions a.primary").await;
    browser.wait_for("h1", "Redrive 30 letters?").await;
    browser.write("#note", "currency table mended").await;
    browser.click(".confirm button.primary").await;
    browser.wait_for(".big-status", "finished").await;
    browser.wait_for(".run", "30 of 30 done").await;

    browser.open(&shop.address("/")).await;
    browser.wait_for("main", "Nothing is dead").await;
    browser.open(&shop.address("/audit")).await;
    browser.wait_for("table.audit", "currency table mended").await;
    assert_calm(&browser, "the story").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_story_without_scripts() {
    let Some(browser) = Browser::start(Scripts::Off).await else { return };
    let shop = Shop::open().await;
    shop.kill_orders(7);
    browser.open(&shop.address("/")).await;
    assert_eq!(
        browser.source().await.matches("id=\"live\" class=\"live\" data-state=\"off\" hidden").count(),
        1
    );

    // One letter is edited. Groups are counted behind the pages: under load a page may show the count before.
    browser.reload_until("main", "unknown currency EURO").await;
    browser.click("table.groups a.main").await;
    browser.click("table.letters a.main").await;
    shop.mend();
    browser.click("a[data-key=e]").await;
    browser.clear("#payload").await;
    browser.write("#payload", "{\"total\": 12345678901234567890.20}").await;
    browser.click(".editor button.primary").await;
    browser.wait_for(".diff .new", "12345678901234567890.20").await;
    browser.click(".editor button.primary").await;
    browser.reload_until(".big-status", "redriven").await;
    browser.wait_for(".side .diff", "12345678901234567890.20").await;

    // Two are ticked, and redriven.
    browser.open(&shop.address("/letters?q=status%3Aopen")).await;
    browser.click("tbody tr:nth-child(1) input[name=id]").await;
    browser.click("tbody tr:nth-child(3) input[name=id]").await;
    browser.click("button[value=redrive]").await;
    browser.wait_for("h1", "Redrive 2 letters?").await;
    browser.click(".confirm button.primary").await;
    browser.reload_until(".run", "2 of 2 done").await;

    // The rest is resolved.
    browser.open(&shop.address("/letters?q=status%3Aopen")).await;
    browser.click("input[name=everything]").await;
    browser.click("button[value=resolve]").await;
    browser.wait_for("h1", "Resolve 4 letters?").await;
    browser.write("#note", "sent by hand").await;
    browser.click(".confirm button.primary").await;
    browser.reload_until(".run", "4 of 4 done").await;
    browser.open(&shop.address("/")).await;
    browser.reload_until("main", "Nothing is dead").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_letters_run_no_script() {
    let Some(browser) = Browser::start(Scripts::Run).await else { return };
    let shop = Shop::open().await;
    let attacks = [
        "<script>alert(1)</script>",
        "\"><img src=x onerror=alert(1)>",
        "' onmouseover='alert(1)' autofocus onfocus='alert(1)",
        "javascript:alert(1)",
        "</textarea></title></style><svg onload=alert(1)>",
    ];
    let hostile = |attack: &&str| {
        json!({
            "event_type": attack, "aggregate_type": attack, "aggregate_id": attack,
            "payload": json!({*attack: [attack, {"a": attack}]}).to_string(),
        })
    };
    shop.kill(&attacks.iter().map(hostile).collect());
    let mut pages: Vec<String> = PAGES.map(str::to_owned).to_vec();
    for number in 1..=attacks.len() {
        pages.extend(
            ["", "?view=text", "?view=hex", "/edit"].map(|rest| format!("/letters/orders:{number}{rest}")),
        );
    }
    for page in &pages {
        browser.open(&shop.address(page)).await;
        // What waits for the pointer or the focus gets it.
        let hover = "for (const e of document.querySelectorAll('main *')) { \
                     e.dispatchEvent(new MouseEvent('mouseover', {bubbles: true})); e.focus?.(); } \
                     return document.querySelectorAll('main script, main [onerror], main [onload], main img').length";
        assert_eq!(browser.run(hover).await, 0, "{page}");
        assert_calm(&browser, page).await;
    }
    // A link that leads out of the page would be a click away.
    browser.open(&shop.address("/letters")).await;
    let foreign = "return [...document.links].filter(a => a.origin !== location.origin).length";
    assert_eq!(browser.run(foreign).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_keyboard_alone_is_enough() {
    let Some(browser) = Browser::start(Scripts::Run).await else { return };
    let shop = Shop::open().await;
    shop.kill_orders(5);
    shop.mend();
    browser.open(&shop.address("/")).await;
    browser.wait_for("table.groups", "OrderCreated").await;
    browser.press(TAB).await;
    assert_eq!(browser.run("return document.activeElement.className").await, "skip");

    browser.press("?").await;
    browser.wait_for("#keys", "next, previous row").await;
    browser.press(ESCAPE).await;
    browser.press("j").await;
    browser.press(ENTER).await;
    browser.wait_for("h1", "Letters").await;

    // `/` filters, Esc leaves the field.
    browser.press("/").await;
    browser.press("status:open").await;
    browser.press(ENTER).await;
    browser.wait_for("h1", "Letters").await;
    assert!(browser.address().await.ends_with("q=status%3Aopen"), "{}", browser.address().await);

    // Two rows, then one more down.
    browser.press("jxjxj").await;
    assert_eq!(browser.text("[data-chosen]").await, "2 ticked:");
    browser.press("k").await;
    browser.press("x").await;
    assert_eq!(browser.text("[data-chosen]").await, "1 ticked:");
    browser.press("r").await;
    browser.wait_for("h1", "Redrive 1 letter?").await;
    browser.run("document.querySelector('.confirm button.primary').focus()").await;
    browser.press(ENTER).await;
    browser.wait_for(".run", "1 of 1 done").await;

    // One letter: `e` edits it; `r` takes Enter, too.
    browser.open(&shop.address("/letters?q=status%3Aopen")).await;
    browser.press("j").await;
    browser.press("e").await;
    browser.wait_for("h1", "Edit and redrive").await;
    browser.open(&shop.address("/letters?q=status%3Aopen")).await;
    browser.press("j").await;
    browser.press(ENTER).await;
    browser.wait_for(".acts", "Redrive").await;
    browser.press("r").await;
    browser.press(ENTER).await;
    browser.wait_for(".notice.good", "Sent back to work").await;
    assert_calm(&browser, "keys").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_follows_what_happens_but_not_under_the_hands_of_a_person() {
    let Some(browser) = Browser::start(Scripts::Run).await else { return };
    let shop = Shop::open().await;
    shop.kill_orders(4);
    browser.open(&shop.address("/letters")).await;
    browser.wait_for("#live", "live").await;

    // Shift ticks all between, and holds the page.
    browser.click("tbody tr:nth-child(1) input[name=id]").await;
    browser.shift_click("tbody tr:nth-child(3) input[name=id]").await;
    assert_eq!(browser.text("[data-chosen]").await, "3 ticked:");
    let (status, _) = shop.server.post("/api/v1/outbox/orders/events", &json!([order(99)]));
    assert_eq!(status, 201);
    browser.wait_for("#live", "held").await;
    assert!(!browser.text("table.letters").await.contains("ord-99"));

    // Let go, it catches up.
    browser.click("[data-tick-all]").await;
    browser.click("[data-tick-all]").await;
    browser.wait_for("table.letters", "ord-99").await;
    browser.wait_for("#live", "live").await;
    assert_calm(&browser, "live").await;
}

/// They said that they are not live as soon as anything lost the focus.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_follows_nothing_does_not_say_that_it_is_not_live() {
    let Some(browser) = Browser::start(Scripts::Run).await else { return };
    let shop = Shop::open().await;
    shop.kill_orders(1);
    for path in ["/help", "/confirm?action=redrive&q=pipeline%3Aorders", "/letters/orders:1/edit"] {
        browser.open(&shop.address(path)).await;
        browser.run("document.querySelector('a[href]').focus(); document.activeElement.blur()").await;
        // After what the page does about that, which is put off, too.
        browser.run("setTimeout(() => setTimeout(() => document.body.dataset.passed = 'yes', 0), 0)").await;
        browser.wait_for("body[data-passed] h1", "").await;
        assert_eq!(browser.text("#live").await, "", "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_phone_needs_no_sideways_scrolling_and_the_dark_is_dark() {
    let Some(browser) = Browser::start(Scripts::Run).await else { return };
    let shop = Shop::open().await;
    let long = json!({
        "event_type": "AnEventTypeWithoutAnyBlankThatGoesOnAndOnAndOnAndOnAndOnAndOn", "aggregate_type": "Order",
        "aggregate_id": "k".repeat(255), "payload": format!("{{\"{}\": \"{}\"}}", "a".repeat(300), "b".repeat(3_000)),
    });
    shop.kill(&(1..=5).map(order).chain([long]).collect());
    browser.resize(390, 844).await;
    for page in PAGES.into_iter().chain(["/letters/orders:6", "/letters/orders:6?view=text"]) {
        browser.open(&shop.address(page)).await;
        let wide = browser.run("return document.documentElement.scrollWidth").await;
        assert_eq!(wide, 390, "{page}");
    }
    browser.prefer("dark").await;
    browser.open(&shop.address("/")).await;
    let paper = browser.run("return getComputedStyle(document.body).backgroundColor").await;
    assert_eq!(paper, "rgb(17, 19, 23)");
    browser.prefer("light").await;
    let paper = browser.run("return getComputedStyle(document.body).backgroundColor").await;
    assert_eq!(paper, "rgb(247, 247, 245)");
}

/// A shop that only Vera may look at, and Otto may work in.
async fn shop_with_tokens() -> Shop {
    let grant = |name: &str, role: &str, token: &str| {
        format!("{{ name = \"{name}\", role = \"{role}\", sha256 = \"{}\" }}", sha256(token))
    };
    let (vera, otto) = (grant("vera", "viewer", "looking"), grant("otto", "operator", "doing"));
    let mut shop = Shop::open_to(&format!("tokens = [{vera}, {otto}]")).await;
    shop.server = shop.server.with_token("doing");
    shop
}

async fn log_in(browser: &Browser, token: &str) {
    browser.write("#token", token).await;
    browser.click(".login button.primary").await;
}

async fn assert_asks_who_is_there(browser: &Browser, shop: &Shop, page: &str) {
    browser.open(&shop.address(page)).await;
    browser.wait_for("h1", "Log in").await;
    assert!(browser.address().await.starts_with(&shop.address("/login")), "{page}");
    assert!(!browser.source().await.contains("ord-"), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn people_log_in_and_do_what_their_role_may() {
    let Some(browser) = Browser::start(Scripts::Run).await else { return };
    let shop = shop_with_tokens().await;
    with_tokens(&browser, &shop).await;

    // What a page could try by itself.
    browser.open(&shop.address("/login")).await;
    log_in(&browser, "looking").await;
    browser.wait_for(".who", "vera").await;
    assert_eq!(browser.run("return document.cookie").await, "", "no script gets the session");
    let act = "return fetch('/letters/orders:2/redrive', {method: 'POST'}).then(answer => answer.status)";
    assert_eq!(browser.run(act).await, 403);
    assert_eq!(browser.run("return fetch('/api/v1/dead-letters').then(answer => answer.status)").await, 401);

    // The keys of an operator do nothing, and nothing is offered.
    browser.open(&shop.address("/letters/orders:2")).await;
    browser.wait_for(".big-status", "open").await;
    browser.press("re").await;
    assert_eq!(browser.address().await, shop.address("/letters/orders:2"));
    browser.wait_for(".big-status", "open").await;
    assert_calm(&browser, "roles").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn people_log_in_without_scripts() {
    let Some(browser) = Browser::start(Scripts::Off).await else { return };
    let shop = shop_with_tokens().await;
    with_tokens(&browser, &shop).await;
}

async fn with_tokens(browser: &Browser, shop: &Shop) {
    shop.kill_orders(3);
    for page in PAGES {
        assert_asks_who_is_there(browser, shop, page).await;
    }

    // A wrong token is told so, and leads nowhere; the right one leads to where one was going.
    browser.open(&shop.address("/letters?q=status%3Aopen")).await;
    log_in(browser, "guessed").await;
    browser.wait_for("#mistake", "Nobody here has this token").await;
    assert!(browser.cookies().await.is_empty());
    log_in(browser, "looking").await;
    browser.wait_for("table.letters", "ord-1").await;
    assert_eq!(browser.address().await, shop.address("/letters?q=status%3Aopen"));
    browser.wait_for(".who", "vera (may look)").await;

    let cookies = browser.cookies().await;
    let [cookie] = &cookies[..] else { panic!("{cookies:?}") };
    assert_eq!((&cookie["httpOnly"], &cookie["sameSite"]), (&json!(true), &json!("Strict")), "{cookie}");

    // A viewer sees every letter, and nothing to do about it.
    browser.click("table.letters a.main").await;
    browser.wait_for(".tree", "12345678901234567890.10").await;
    for page in ["/", "/letters", "/letters/orders:1", "/operations", "/pipelines"] {
        browser.open(&shop.address(page)).await;
        browser.wait_for(".who", "vera").await;
        assert_eq!(browser.count("form[method=post]:not([action='/logout'])").await, 0, "{page}");
        assert_eq!(
            browser.count(".acts, input[name=id], a[href^='/confirm'], [data-key]").await,
            0,
            "{page}"
        );
    }
    for page in ["/confirm?action=redrive&q=type%3AOrderCreated", "/letters/orders:1/edit"] {
        browser.open(&shop.address(page)).await;
        browser.wait_for("main", "vera may look, but change nothing").await;
        browser.wait_for("main", "ask for a token of an operator").await;
    }

    // Out again: neither the next page nor the old cookie opens anything.
    browser.open(&shop.address("/")).await;
    browser.click("form[action='/logout'] button").await;
    browser.wait_for("h1", "Log in").await;
    assert!(browser.cookies().await.is_empty());
    assert_asks_who_is_there(browser, shop, "/letters").await;
    browser.keep_cookie(cookie).await;
    assert_asks_who_is_there(browser, shop, "/letters").await;

    // An operator acts, under his own name.
    shop.mend();
    browser.open(&shop.address("/letters/orders:1")).await;
    log_in(browser, "doing").await;
    browser.wait_for(".who", "otto").await;
    browser.click(".acts button.primary").await;
    browser.wait_for(".notice.good", "Sent back to work").await;
    browser.reload_until(".big-status", "redriven").await;
    browser.open(&shop.address("/audit")).await;
    browser.wait_for("table.audit", "orders:1").await;
    browser.wait_for("table.audit", "otto").await;
    browser.click("form[action='/logout'] button").await;
    browser.wait_for("h1", "Log in").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_whose_session_has_ended_asks_who_is_there() {
    let Some(browser) = Browser::start(Scripts::Run).await else { return };
    let shop = shop_with_tokens().await;
    shop.kill_orders(1);
    browser.open(&shop.address("/letters")).await;
    log_in(&browser, "looking").await;
    browser.wait_for("#live", "live").await;
    // In another window.
    let left = "return fetch('/logout', {method: 'POST'}).then(answer => answer.ok)";
    assert_eq!(browser.run(left).await, true);
    let (status, _) = shop.server.post("/api/v1/outbox/orders/events", &json!([order(99)]));
    assert_eq!(status, 201);
    browser.wait_for("h1", "Log in").await;
    assert!(!browser.source().await.contains("ord-"));
    log_in(&browser, "looking").await;
    browser.wait_for("table.letters", "ord-99").await;
}

/// The pictures of the README. Not a test: `./test screenshots` makes them.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "makes files"]
async fn screenshots() {
    let Some(browser) = Browser::start(Scripts::Run).await else { return };
    let shop = Shop::open().await;
    let payment = |number: usize| {
        json!({"event_type": "PaymentDone", "aggregate_type": "Order", "aggregate_id": format!("pay-{number}"),
               "payload": json!({"payment": number, "card": "4111"}).to_string()})
    };
    let refund = json!({"event_type": "Refunded", "aggregate_type": "Order", "aggregate_id": "ord-3", "payload": "{}"});
    shop.kill(&(1..=42).map(order).chain((1..=7).map(payment)).chain([refund]).collect());
    let mails: Value =
        (1..=9).map(|user| json!({"subject": format!("user-{user}"), "payload": "late"})).collect();
    shop.server.post("/api/v1/jobs/mails", &mails);
    shop.server.wait_metric("redrive_dead_letters{pipeline=\"mails\",status=\"open\"} 9");
    browser.resize(1280, 800).await;
    shoot(&browser, &shop, "/", "groups").await;
    shoot(&browser, &shop, "/letters?q=type%3AOrderCreated%20status%3Aopen", "letters").await;
    browser.click("table.letters a.main").await;
    browser.wait_for(".tree", "customer").await;
    save(&browser, "letter").await;
    shoot(&browser, &shop, "/confirm?action=redrive&q=type%3AOrderCreated", "confirm").await;
    browser.click(".confirm button.primary").await;
    browser.wait_for(".big-status", "stopped").await;
    save(&browser, "stopped").await;
    shop.mend();
    browser.open(&shop.address("/confirm?action=redrive&q=type%3AOrderCreated")).await;
    browser.clear("#rate").await;
    browser.write("#rate", "8").await;
    browser.click(".confirm button.primary").await;
    browser.wait_for(".run", "of 42 done").await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    save(&browser, "operation").await;
    browser.wait_for(".big-status", "finished").await;
    shoot(&browser, &shop, "/operations", "operations").await;
    shoot(&browser, &shop, "/audit", "audit").await;
    shoot(&browser, &shop, "/help", "help").await;
    // Charts need a few figures.
    tokio::time::sleep(Duration::from_secs(15)).await;
    shoot(&browser, &shop, "/pipelines", "pipelines").await;
    browser.prefer("dark").await;
    shoot(&browser, &shop, "/", "groups-dark").await;
    shoot(&browser, &shop, "/letters/orders:43", "letter-dark").await;
    browser.prefer("light").await;
    browser.resize(390, 844).await;
    shoot(&browser, &shop, "/", "phone-groups").await;
    shoot(&browser, &shop, "/letters", "phone-letters").await;
    shoot(&browser, &shop, "/letters/orders:44", "phone-letter").await;
}

async fn shoot(browser: &Browser, shop: &Shop, page: &str, name: &str) {
    browser.open(&shop.address(page)).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    save(browser, name).await;
}

async fn save(browser: &Browser, name: &str) {
    let picture = base64::engine::general_purpose::STANDARD.decode(browser.picture().await).unwrap();
    let folder = std::env::var_os("REDRIVE_SCREENSHOTS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/screenshots"),
        std::path::PathBuf::from,
    );
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(format!("{name}.png")), picture).unwrap();
}
