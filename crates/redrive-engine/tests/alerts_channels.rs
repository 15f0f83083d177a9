//! The channels against real servers on loopback: HTTP for Slack and webhooks, SMTP for mail.
#![allow(clippy::unwrap_used, reason = "the helpers of these tests fail as the tests do")]

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use axum::routing::post;
use jiff::Timestamp;
use redrive_core::fingerprint::Fingerprint;
use redrive_engine::alerts::{
    Alert, Channel, ChannelError, DeadLetterAlert, EmailChannel, EmailOptions, HandlerUp, LogChannel,
    SlackChannel, WebhookChannel, WebhookOptions,
};
use redrive_engine::handlers::{Secret, SetupError, signature};
use redrive_testkit::hostile;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// Alerts whose every field is what a hostile producer, or a person, has chosen: each text is in one of them.
fn every_alert() -> Vec<Alert> {
    let texts = hostile::texts();
    let titles = texts.chunks(20).map(|texts| {
        Alert::HandlerUp(HandlerUp { pipeline: texts[0].as_str().into(), handler: texts[1].as_str().into() })
    });
    let letters = texts.chunks_exact(4).map(|texts| {
        let Alert::DeadLetter(letter) = dead_letter(&texts[0]) else { unreachable!() };
        let (aggregate_type, aggregate_id) = (texts[1].as_str().into(), texts[2].as_str().into());
        Alert::DeadLetter(DeadLetterAlert {
            aggregate_type,
            aggregate_id,
            error: texts[3].as_str().into(),
            ..letter
        })
    });
    letters.chain(titles).collect()
}

fn dead_letter(text: &str) -> Alert {
    Alert::DeadLetter(DeadLetterAlert {
        pipeline: "orders".into(),
        event_id: "42".into(),
        event_type: text.into(),
        aggregate_type: text.into(),
        aggregate_id: text.into(),
        retry_count: 5,
        error: text.into(),
        failed_at: Timestamp::UNIX_EPOCH,
        fingerprint: Fingerprint::from_bits(1),
    })
}

/// One of them.
fn hostile() -> Alert {
    dead_letter("\u{1b}[2J\r\nBcc: evil@example.com\r\n.\r\n<!channel> <b>&`x`\u{202e}gpj.exe\0")
}

#[track_caller]
fn assert_inert(text: &str) {
    assert!(!text.chars().any(hostile::is_harmful), "{text:?}");
}

/// A receiver that remembers what it got and gives one answer.
#[derive(Clone)]
struct Receiver {
    seen: Arc<Mutex<Vec<(HeaderMap, Bytes)>>>,
    status: StatusCode,
}

impl Receiver {
    async fn start(status: u16) -> (Self, Secret) {
        let receiver = Self { seen: Arc::default(), status: StatusCode::from_u16(status).unwrap() };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/services/T0/s3cr3t", listener.local_addr().unwrap());
        let router = Router::new().route("/services/T0/s3cr3t", post(receive)).with_state(receiver.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        (receiver, Secret::new(url))
    }

    fn only(&self) -> (HeaderMap, Bytes) {
        let seen = self.seen.lock().unwrap();
        assert_eq!(seen.len(), 1);
        seen[0].clone()
    }
}

async fn receive(State(receiver): State<Receiver>, headers: HeaderMap, body: Bytes) -> impl IntoResponse {
    receiver.seen.lock().unwrap().push((headers, body));
    (receiver.status, [("retry-after", "7")], "invalid_token\u{1b}[2J")
}

#[tokio::test]
async fn slack_gets_blocks_in_which_nothing_is_markup() {
    for alert in every_alert() {
        let (receiver, url) = Receiver::start(200).await;
        SlackChannel::new(&url).unwrap().send(&alert).await.unwrap();
        let (headers, body) = receiver.only();
        assert_eq!(headers["content-type"], "application/json");
        let document: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(document["blocks"][0]["text"]["type"], "plain_text");
        for text in
            [&document["text"], &document["blocks"][1]["text"]["text"]].into_iter().filter_map(Value::as_str)
        {
            assert_inert(text);
            assert!(!text.contains('<') && !text.contains("&`"), "{text}");
        }
    }
}

#[tokio::test]
async fn a_webhook_gets_a_signed_document() {
    let (receiver, url) = Receiver::start(202).await;
    let secret = Secret::new("k3y");
    let channel = WebhookChannel::new(WebhookOptions { url, secret: Some(secret.clone()) }).unwrap();
    channel.send(&hostile()).await.unwrap();
    let (headers, body) = receiver.only();
    let document: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((&document["kind"], &document["pipeline"]), (&"dead_letter".into(), &"orders".into()));
    document.as_object().unwrap().values().filter_map(Value::as_str).for_each(assert_inert);
    let value = &headers["redrive-signature"];
    let time = value.to_str().unwrap().strip_prefix("t=").and_then(|rest| rest.split_once(',')).unwrap().0;
    let at = Timestamp::from_second(time.parse().unwrap()).unwrap();
    assert_eq!(*value, signature::sign(&secret, at, &body));
}

#[tokio::test]
async fn answers_say_whether_another_try_can_help_and_errors_show_no_secret() {
    for (status, expected) in [(500, Some(7)), (429, Some(7)), (404, None), (403, None), (302, None)] {
        let (_receiver, url) = Receiver::start(status).await;
        let channel = SlackChannel::new(&url).unwrap();
        let error = channel.send(&hostile()).await.unwrap_err();
        let retry_after = match &error {
            ChannelError::Unavailable { retry_after, .. } => retry_after.map(|wait| wait.as_secs()),
            ChannelError::Refused { .. } => None,
        };
        assert_eq!(retry_after, expected, "{status}");
        assert!(error.to_string().contains("127.0.0.1") && error.to_string().contains("invalid_token"));
        for shown in [error.to_string(), format!("{channel:?}")] {
            assert!(!shown.contains("s3cr3t"), "{shown}");
            assert_inert(&shown);
        }
    }
}

#[tokio::test]
async fn a_webhook_that_is_away_is_named_by_its_host() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let url = Secret::new(format!("http://me:hunter2@{address}/s3cr3t"));
    let channel = WebhookChannel::new(WebhookOptions { url, secret: Some(Secret::new("k3y")) }).unwrap();
    let error = channel.send(&hostile()).await.unwrap_err();
    assert!(matches!(error, ChannelError::Unavailable { .. }));
    assert!(error.to_string().contains(&address.to_string()), "{error}");
    for shown in [format!("{error} {error:?}"), format!("{channel:?}")] {
        assert!(!["s3cr3t", "hunter2", "k3y"].iter().any(|secret| shown.contains(secret)), "{shown}");
    }
}

#[test]
fn an_address_that_is_none_is_refused_without_being_repeated() {
    for address in ["hooks/s3cr3t", "ftp://s3cr3t/", ""] {
        let error = SlackChannel::new(&Secret::new(address)).unwrap_err();
        assert!(!error.to_string().contains("s3cr3t"), "{error}");
    }
    let options = |smtp: &str, to: &[&str]| EmailOptions {
        smtp: Secret::new(smtp),
        from: "redrive@example.com".into(),
        to: to.iter().map(ToString::to_string).collect(),
    };
    for smtp in ["https://me:s3cr3t@mail", "s3cr3t", "smtp://me:s3cr3t@mail?tls=perhaps"] {
        let error = EmailChannel::new(&options(smtp, &["ops@example.com"])).unwrap_err();
        assert!(!error.to_string().contains("s3cr3t"), "{error}");
    }
    let forged = EmailChannel::new(&options("smtp://mail", &["ops@example.com\r\nBcc: evil@example.com"]));
    assert!(matches!(forged, Err(SetupError::MailAddress { .. })));
    assert!(EmailChannel::new(&options("smtp://mail", &[])).is_err());
}

/// A mail server that remembers what it was told. `refusal` is its answer to a receiver.
#[derive(Clone)]
struct Sink {
    lines: Arc<Mutex<Vec<String>>>,
    refusal: Option<&'static str>,
}

impl Sink {
    async fn start(refusal: Option<&'static str>) -> (Self, String) {
        let sink = Self { lines: Arc::default(), refusal };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = sink.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(server.clone().serve(stream));
            }
        });
        (sink, address)
    }

    async fn serve(self, mut stream: TcpStream) -> std::io::Result<()> {
        let (reader, mut writer) = stream.split();
        let mut lines = BufReader::new(reader).lines();
        writer.write_all(b"220 sink\r\n").await?;
        let mut in_data = false;
        while let Some(line) = lines.next_line().await? {
            let answer = self.answer(&line, &mut in_data);
            self.lines.lock().unwrap().push(line);
            writer.write_all(answer.as_bytes()).await?;
        }
        Ok(())
    }

    fn answer(&self, line: &str, in_data: &mut bool) -> String {
        match line {
            "." if *in_data => *in_data = false,
            _ if *in_data => return String::new(),
            "DATA" => {
                *in_data = true;
                return "354 go on\r\n".into();
            }
            "QUIT" => return "221 bye\r\n".into(),
            _ if line.starts_with("EHLO") => return "250-sink\r\n250-8BITMIME\r\n250 AUTH PLAIN\r\n".into(),
            _ if line.starts_with("AUTH") => return "235 welcome\r\n".into(),
            _ if line.starts_with("RCPT") => return format!("{}\r\n", self.refusal.unwrap_or("250 fine")),
            _ => {}
        }
        "250 fine\r\n".into()
    }

    fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }
}

fn mail(address: &str) -> EmailChannel {
    let options = EmailOptions {
        smtp: Secret::new(format!("smtp://me:hunter2@{address}")),
        from: "redrive <redrive@example.com>".into(),
        to: vec!["ops@example.com".into(), "boss@example.com".into()],
    };
    EmailChannel::new(&options).unwrap()
}

#[tokio::test]
async fn mail_reaches_every_receiver_with_the_alert_in_words() {
    let (sink, address) = Sink::start(None).await;
    mail(&address).send(&hostile()).await.unwrap();
    let lines = sink.lines();
    let has = |wanted: &str| lines.iter().any(|line| line == wanted);
    // `\0me\0hunter2` in base64.
    assert!(has("AUTH PLAIN AG1lAGh1bnRlcjI="), "{lines:#?}");
    assert!(has("RCPT TO:<ops@example.com>") && has("RCPT TO:<boss@example.com>"));
    assert!(has("Subject: [redrive] Dead letter in orders") && has("Auto-Submitted: auto-generated"));
    assert!(lines.iter().any(|line| line.starts_with("  event") && line.ends_with("42")));
}

#[tokio::test]
async fn nothing_in_an_event_becomes_a_header_or_ends_the_mail() {
    for alert in every_alert() {
        let (sink, address) = Sink::start(None).await;
        mail(&address).send(&alert).await.unwrap();
        let lines = sink.lines();
        assert_eq!(lines.iter().filter(|line| *line == ".").count(), 1);
        assert_eq!(lines.iter().filter(|line| line.starts_with("RCPT")).count(), 2);
        assert!(!lines.iter().any(|line| line.starts_with("Bcc")), "{lines:#?}");
        lines.iter().for_each(|line| assert_inert(line));
    }
}

#[tokio::test]
async fn the_mail_servers_answer_says_whether_another_try_can_help() {
    for (refusal, helps) in [("451 greylisted, later", true), ("550 no such user", false)] {
        let (_sink, address) = Sink::start(Some(refusal)).await;
        let error = mail(&address).send(&hostile()).await.unwrap_err();
        assert_eq!(matches!(error, ChannelError::Unavailable { .. }), helps, "{error}");
    }
}

#[tokio::test]
async fn a_mail_server_that_is_away_is_named_without_its_password() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let channel = mail(&address);
    let error =
        tokio::time::timeout(Duration::from_secs(30), channel.send(&hostile())).await.unwrap().unwrap_err();
    assert!(
        matches!(error, ChannelError::Unavailable { .. }) && error.to_string().contains(&address),
        "{error}"
    );
    let shown = format!("{error} {error:?} {channel:?}");
    assert!(!shown.contains("hunter2"), "{shown}");
}

/// Where a subscriber writes to.
#[derive(Clone, Default)]
struct Page(Arc<Mutex<Vec<u8>>>);

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn the_log_shows_a_readable_block() {
    let page = Page::default();
    let writer = page.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    tracing::subscriber::with_default(subscriber, || runtime.block_on(LogChannel.send(&hostile()))).unwrap();
    let text = String::from_utf8(page.0.lock().unwrap().clone()).unwrap();
    assert!(text.contains(" WARN ") && text.contains("\nDead letter in orders\n"), "{text}");
    assert!(text.contains("\n  event      42\n") && text.contains("\n  retries    5\n"), "{text}");
    assert_inert(&text);
}
