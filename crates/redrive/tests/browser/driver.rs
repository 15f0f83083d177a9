//! Headless Chromium, driven over WebDriver by its own ChromeDriver: the few calls that the tests need.
//!
//! A client of our own on the HTTP client that is in the tree anyway; the crates for this bring a dozen more.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

const PATIENCE: Duration = redrive_testkit::PATIENCE;
/// How often a driver is started that does not come up.
const STARTS: usize = 5;
/// The name under which WebDriver hands out elements.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// Keys that are no letters.
pub(crate) const ENTER: &str = "\u{e007}";
pub(crate) const ESCAPE: &str = "\u{e00c}";
pub(crate) const TAB: &str = "\u{e004}";

/// A browser window of its own. It goes with the test.
pub(crate) struct Browser {
    driver: Child,
    address: String,
    client: reqwest::Client,
    /// Where its data is.
    _profile: tempfile::TempDir,
}

/// What kind of browser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scripts {
    Run,
    Off,
}

impl Browser {
    /// Where there is no Chromium the skip is recorded, and there is no browser.
    pub(crate) async fn start(scripts: Scripts) -> Option<Self> {
        if std::env::var("REDRIVE_TEST_BROWSER").is_err() {
            redrive_testkit::skip(file!(), "REDRIVE_TEST_BROWSER is not set: ./test installs Chromium");
            return None;
        }
        let _ = rustls::crypto::ring::default_provider().install_default();
        let profile = tempfile::tempdir().unwrap();
        let (driver, port) = (0..STARTS).find_map(|_| start_driver()).expect("chromedriver says its port");
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let mut browser =
            Self { driver, address: format!("http://127.0.0.1:{port}"), client, _profile: profile };
        let session = browser.send("POST", "/session", &browser.wishes(scripts)).await;
        let number = session["sessionId"].as_str().unwrap().to_owned();
        browser.address = format!("{}/session/{number}", browser.address);
        Some(browser)
    }

    fn wishes(&self, scripts: Scripts) -> Value {
        let profile = format!("--user-data-dir={}", self._profile.path().display());
        let javascript = if scripts == Scripts::Run { 1 } else { 2 };
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--window-size=1280,900",
            &profile,
        ];
        json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "goog:loggingPrefs": {"browser": "ALL"},
            "goog:chromeOptions": {
                "args": arguments,
                "prefs": {"profile.managed_default_content_settings.javascript": javascript},
            },
        }}})
    }

    async fn send(&self, method: &str, path: &str, body: &Value) -> Value {
        match self.try_send(method, path, body).await {
            Ok(value) => value,
            Err(error) => panic!("{method} {path} {body}: {error}"),
        }
    }

    async fn try_send(&self, method: &str, path: &str, body: &Value) -> Result<Value, Value> {
        let address = format!("{}{path}", self.address);
        let request = match method {
            "GET" => self.client.get(address),
            "DELETE" => self.client.delete(address),
            _ => self.client.post(address).json(body),
        };
        let answer = request.timeout(PATIENCE * 2).send().await.expect("chromedriver answers");
        let is_good = answer.status().is_success();
        let mut answer: Value = answer.json().await.unwrap();
        let value = answer["value"].take();
        if is_good { Ok(value) } else { Err(value) }
    }

    pub(crate) async fn open(&self, address: &str) {
        self.send("POST", "/url", &json!({"url": address})).await;
    }

    pub(crate) async fn address(&self) -> String {
        self.send("GET", "/url", &Value::Null).await.as_str().unwrap().to_owned()
    }

    pub(crate) async fn source(&self) -> String {
        self.send("GET", "/source", &Value::Null).await.as_str().unwrap().to_owned()
    }

    async fn find(&self, css: &str) -> Result<String, Value> {
        let found =
            self.try_send("POST", "/element", &json!({"using": "css selector", "value": css})).await?;
        Ok(found[ELEMENT].as_str().unwrap().to_owned())
    }

    /// How many there are of what this selector finds.
    pub(crate) async fn count(&self, css: &str) -> usize {
        let found = self.send("POST", "/elements", &json!({"using": "css selector", "value": css})).await;
        found.as_array().unwrap().len()
    }

    /// Clicks on what this selector finds, once it is there.
    pub(crate) async fn click(&self, css: &str) {
        self.patiently(css, async || {
            let element = self.find(css).await?;
            self.try_send("POST", &format!("/element/{element}/click"), &json!({})).await
        })
        .await;
    }

    /// Types into what this selector finds.
    pub(crate) async fn write(&self, css: &str, text: &str) {
        self.patiently(css, async || {
            let element = self.find(css).await?;
            self.try_send("POST", &format!("/element/{element}/value"), &json!({"text": text})).await
        })
        .await;
    }

    /// Empties a field.
    pub(crate) async fn clear(&self, css: &str) {
        let element = self.find(css).await.unwrap();
        self.send("POST", &format!("/element/{element}/clear"), &json!({})).await;
    }

    /// The text of what this selector finds, once it is there.
    pub(crate) async fn text(&self, css: &str) -> String {
        let found = self
            .patiently(css, async || {
                let element = self.find(css).await?;
                self.try_send("GET", &format!("/element/{element}/text"), &Value::Null).await
            })
            .await;
        found.as_str().unwrap().to_owned()
    }

    /// Waits until the text of what this selector finds has this in it.
    pub(crate) async fn wait_for(&self, css: &str, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = self.text(css).await;
            if found.contains(text) {
                return;
            }
            assert!(Instant::now() < deadline, "{text:?} in {css}: {found}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// As [`Browser::wait_for`], for pages that do not change by themselves.
    pub(crate) async fn reload_until(&self, css: &str, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.text(css).await.contains(text) {
            assert!(Instant::now() < deadline, "{text:?} in {css}: {}", self.source().await);
            tokio::time::sleep(Duration::from_millis(200)).await;
            self.send("POST", "/refresh", &json!({})).await;
        }
    }

    /// Presses keys, one after the other, wherever the focus is.
    pub(crate) async fn press(&self, keys: &str) {
        let actions: Vec<Value> = keys
            .chars()
            .flat_map(|key| {
                [json!({"type": "keyDown", "value": key}), json!({"type": "keyUp", "value": key})]
            })
            .collect();
        let actions = json!({"actions": [{"type": "key", "id": "keyboard", "actions": actions}]});
        self.send("POST", "/actions", &actions).await;
    }

    /// Clicks with Shift held down.
    pub(crate) async fn shift_click(&self, css: &str) {
        let element = self.find(css).await.unwrap();
        let hold = json!([{"type": "keyDown", "value": "\u{e008}"}, {"type": "pause"}, {"type": "pause"}, {"type": "pause"}, {"type": "keyUp", "value": "\u{e008}"}]);
        let click = json!([{"type": "pause"}, {"type": "pointerMove", "origin": {ELEMENT: element}, "x": 0, "y": 0}, {"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}, {"type": "pause"}]);
        let actions = json!({"actions": [
            {"type": "key", "id": "keyboard", "actions": hold},
            {"type": "pointer", "id": "mouse", "actions": click},
        ]});
        self.send("POST", "/actions", &actions).await;
    }

    /// What a script returns.
    pub(crate) async fn run(&self, script: &str) -> Value {
        self.send("POST", "/execute/sync", &json!({"script": script, "args": []})).await
    }

    /// The cookies that the browser keeps for this page.
    pub(crate) async fn cookies(&self) -> Vec<Value> {
        self.send("GET", "/cookie", &Value::Null).await.as_array().unwrap().clone()
    }

    pub(crate) async fn keep_cookie(&self, cookie: &Value) {
        self.send("POST", "/cookie", &json!({"cookie": cookie})).await;
    }

    /// What the page has logged since the last call: errors, and what the policy has refused.
    pub(crate) async fn complaints(&self) -> Vec<String> {
        let log = self.send("POST", "/se/log", &json!({"type": "browser"})).await;
        let entries = log.as_array().unwrap().iter();
        entries
            .filter(|entry| entry["level"] == "SEVERE")
            .map(|entry| entry["message"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Whether a dialog such as that of `alert` is open.
    pub(crate) async fn is_alerted(&self) -> bool {
        self.try_send("GET", "/alert/text", &Value::Null).await.is_ok()
    }

    /// A screen of this size; a phone's when it is narrow.
    pub(crate) async fn resize(&self, width: u32, height: u32) {
        let sized = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.devtools("Emulation.setDeviceMetricsOverride", &sized).await;
    }

    pub(crate) async fn prefer(&self, scheme: &str) {
        let wanted = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.devtools("Emulation.setEmulatedMedia", &wanted).await;
    }

    async fn devtools(&self, command: &str, parameters: &Value) {
        let body = json!({"cmd": command, "params": parameters});
        self.send("POST", "/goog/cdp/execute", &body).await;
    }

    /// The window as a PNG, in base64.
    pub(crate) async fn picture(&self) -> String {
        self.send("GET", "/screenshot", &Value::Null).await.as_str().unwrap().to_owned()
    }

    /// Tries until it works.
    async fn patiently(&self, what: &str, mut act: impl AsyncFnMut() -> Result<Value, Value>) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match act().await {
                Ok(value) => return value,
                Err(error) if Instant::now() >= deadline => {
                    panic!("{what}: {}\n{}", error["message"], self.source().await)
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }
}

/// Starts a driver, and hears its port. It wants the same one on both loopback addresses, and ends when the one
/// that it was given is taken on the other.
fn start_driver() -> Option<(Child, String)> {
    let mut driver = Command::new("chromedriver")
        .arg("--port=0")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("chromedriver starts");
    let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines().map(Result::unwrap);
    let said = lines.find_map(|line| {
        line.split_once("started successfully on port ")
            .map(|(_, port)| port.trim_end_matches('.').to_owned())
    });
    let Some(port) = said else {
        driver.wait().unwrap();
        return None;
    };
    std::thread::spawn(move || lines.for_each(drop));
    Some((driver, port))
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The driver ends its browser when it is asked to; killed, it would leave it behind.
        let end = format!("kill -TERM {}", self.driver.id());
        let _ = Command::new("sh").args(["-c", &end]).status();
        let _ = self.driver.wait();
    }
}
