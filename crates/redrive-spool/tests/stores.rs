//! The settings of a store reach its client: what it sends, to whom, and as whom. A listener takes one request of each
//! and shows it; that real servers accept them is tested with one that speaks S3.

#![allow(clippy::unwrap_used, reason = "helpers fail as the tests do")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::thread::JoinHandle;

use redrive_spool::Target;
use redrive_spool::target::{Patience, StoreOptions, StoreSetting};

const NAME: &str = "1763449200_i-abc123_000001.jsonl.gz";

/// Takes one request, answers that the object was created, and returns the lines of its head.
fn listener() -> (SocketAddr, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let taking = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(&stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(reader.read_line(&mut head).unwrap() > 0);
        }
        let length = head.to_lowercase();
        let length = length.split("content-length: ").nth(1).and_then(|rest| rest.split('\r').next());
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        reader.read_exact(&mut body).unwrap();
        let answer = "HTTP/1.1 201 Created\r\netag: \"1\"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        (&stream).write_all(answer.as_bytes()).unwrap();
        head
    });
    (address, taking)
}

/// The head of the request that puts a batch, with these settings besides the endpoint.
async fn request(url: &str, endpoint_path: &str, settings: &[(StoreSetting, &str)]) -> String {
    let (address, taking) = listener();
    let mut options = StoreOptions::at(url);
    options.settings.push((StoreSetting::Endpoint, format!("http://{address}{endpoint_path}")));
    options.settings.extend(settings.iter().map(|(setting, value)| (*setting, (*value).to_owned())));
    let target = Target::open_with(&options, "RAW/dt={date}", "RAW_DLQ", &Patience::default()).unwrap();
    target.put_raw(NAME, "x".into()).await.unwrap();
    decoded(&taking.join().unwrap())
}

/// Without percent signs: each client encodes other letters.
fn decoded(head: &str) -> String {
    let mut parts = head.split('%');
    let mut decoded = parts.next().unwrap().to_owned();
    for part in parts {
        decoded.push(u8::from_str_radix(&part[..2], 16).unwrap().into());
        decoded.push_str(&part[2..]);
    }
    decoded
}

#[tokio::test]
async fn an_s3_store_is_asked_at_its_endpoint_in_its_region_with_its_key() {
    let key = [
        (StoreSetting::Region, "eu-north-1"),
        (StoreSetting::AccessKeyId, "the-id"),
        (StoreSetting::SecretAccessKey, "the-secret"),
        (StoreSetting::SessionToken, "the-token"),
    ];
    let head = request("s3://events/data", "", &key).await;
    assert!(head.starts_with(&format!("PUT /events/data/RAW/dt=2025-11-18/{NAME} ")), "{head}");
    assert!(head.contains("Credential=the-id/") && head.contains("/eu-north-1/s3/"), "{head}");
    assert!(head.contains("x-amz-security-token: the-token") && !head.contains("the-secret"), "{head}");

    let in_host = [&key[..], &[(StoreSetting::PathStyle, "false")]].concat();
    let head = request("s3://events/data", "", &in_host).await;
    assert!(head.starts_with(&format!("PUT /data/RAW/dt=2025-11-18/{NAME} ")), "{head}");
}

#[tokio::test]
async fn a_google_store_is_asked_at_its_endpoint_as_its_service_account() {
    let account = r#"{"disable_oauth": true, "client_email": "", "private_key": "", "private_key_id": ""}"#;
    let head = request("gs://events/data", "", &[(StoreSetting::ServiceAccount, account)]).await;
    assert!(head.starts_with(&format!("PUT /events/data/RAW/dt=2025-11-18/{NAME} ")), "{head}");
}

#[tokio::test]
async fn an_azure_store_is_asked_at_its_endpoint_as_its_account() {
    let account =
        [(StoreSetting::Account, "mystorage"), (StoreSetting::AccessKey, "MDEyMzQ1Njc4OWFiY2RlZg==")];
    let head = request("az://events/data", "/mystorage", &account).await;
    assert!(head.contains(&format!("/events/data/RAW/dt=2025-11-18/{NAME} ")), "{head}");
    assert!(head.to_lowercase().contains("authorization: sharedkey mystorage:"), "{head}");
}

#[test]
fn settings_that_cannot_be_used_are_refused_without_showing_them() {
    let mut options = StoreOptions::at("gs://events/data");
    options.settings.push((StoreSetting::ServiceAccount, "hunter2-is-no-json".to_owned()));
    let error = Target::open_with(&options, "RAW", "RAW_DLQ", &Patience::default()).unwrap_err();
    assert!(!error.to_string().contains("hunter2"), "{error}");
    assert!(!format!("{options:?}").contains("hunter2"));
}
