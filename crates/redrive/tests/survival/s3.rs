//! A real server that speaks S3, on a folder, with faults in front of it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use tempfile::TempDir;

/// What happens to a request that puts an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// An error of S3: status and code.
    Answer(u16, &'static str),
    /// The connection breaks, and nothing is stored.
    Reset,
    /// The object is stored, and the connection breaks before the answer.
    ResetAfterStore,
    /// It takes a while.
    Slow(Duration),
}

type Choose = dyn Fn() -> Fault + Send + Sync;

/// A bucket on loopback. It goes with the test's runtime.
pub(crate) struct S3 {
    pub(crate) address: SocketAddr,
    root: TempDir,
    choose: Arc<Mutex<Arc<Choose>>>,
    waits: Waits,
}

/// When requests to put an object came that have no answer yet.
type Waits = Arc<Mutex<BTreeMap<u64, Instant>>>;

/// A request to put an object that has no answer yet.
struct Waiting {
    waits: Waits,
    number: u64,
}

impl Waiting {
    fn new(waits: &Waits) -> Self {
        let mut all = waits.lock().unwrap();
        let number = all.last_key_value().map_or(0, |(last, _)| last + 1);
        all.insert(number, Instant::now());
        Self { waits: Arc::clone(waits), number }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.waits.lock().unwrap().remove(&self.number);
    }
}

const BUCKET: &str = "bucket";

impl S3 {
    pub(crate) async fn start(choose: impl Fn() -> Fault + Send + Sync + 'static) -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join(BUCKET)).unwrap();
        let mut builder = S3ServiceBuilder::new(s3s_fs::FileSystem::new(root.path()).unwrap());
        builder.set_auth(SimpleAuth::from_single("key", "secret"));
        let service = builder.build();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let choose: Arc<Mutex<Arc<Choose>>> = Arc::new(Mutex::new(Arc::new(choose)));
        let chosen = Arc::clone(&choose);
        let waits = Waits::default();
        let counted = Arc::clone(&waits);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (service, chosen) = (service.clone(), Arc::clone(&chosen));
                let counted = Arc::clone(&counted);
                let answer = service_fn(move |request: Request<Incoming>| {
                    let choose = Arc::clone(&chosen.lock().unwrap());
                    let waiting = (request.method() == Method::PUT).then(|| Waiting::new(&counted));
                    let answered = answer(service.clone(), choose, request);
                    async move {
                        let _waiting = waiting;
                        answered.await
                    }
                });
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), answer));
            }
        });
        Self { address, root, choose, waits }
    }

    /// How many requests to put an object have no answer yet, of those that have not waited for so long: whoever
    /// sent the others may have given up.
    pub(crate) fn waiting(&self, less_than: Duration) -> usize {
        self.waits.lock().unwrap().values().filter(|since| since.elapsed() < less_than).count()
    }

    /// From now on requests meet other faults.
    pub(crate) fn choose(&self, choose: impl Fn() -> Fault + Send + Sync + 'static) {
        *self.choose.lock().unwrap() = Arc::new(choose);
    }

    /// What a client needs to know, as variables.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        vec![
            ("AWS_ENDPOINT", format!("http://{}", self.address)),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ACCESS_KEY_ID", "key".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "secret".to_owned()),
            ("NO_PROXY", "127.0.0.1".to_owned()),
        ]
    }

    /// Every object under a prefix, by name.
    pub(crate) fn objects(&self, prefix: &str) -> BTreeMap<String, Vec<u8>> {
        let Ok(entries) = fs::read_dir(self.folder(prefix)) else { return BTreeMap::new() };
        let entries = entries.map(|entry| entry.unwrap());
        let objects = entries.filter(|entry| !entry.file_name().to_string_lossy().starts_with('.'));
        objects
            .filter_map(|entry| {
                Some((entry.file_name().into_string().unwrap(), fs::read(entry.path()).ok()?))
            })
            .collect()
    }

    /// The names of all objects in the bucket, with their folders.
    pub(crate) fn names(&self) -> Vec<String> {
        let (mut names, mut folders) = (Vec::new(), vec![self.folder("")]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                } else if let Ok(name) = path.strip_prefix(self.folder("")) {
                    names.push(name.display().to_string());
                }
            }
        }
        names.retain(|name| !name.ends_with(".json"));
        names.sort();
        names
    }

    fn folder(&self, prefix: &str) -> PathBuf {
        self.root.path().join(BUCKET).join(prefix)
    }
}

async fn answer(
    service: S3Service,
    choose: Arc<Choose>,
    request: Request<Incoming>,
) -> Result<Response<s3s::Body>, Box<dyn std::error::Error + Send + Sync>> {
    let fault = if request.method() == Method::PUT { choose() } else { Fault::None };
    let broken = || io::Error::from(io::ErrorKind::ConnectionReset);
    match fault {
        Fault::Answer(status, code) => return Ok(error(status, code)),
        Fault::Reset => return Err(broken().into()),
        Fault::Slow(delay) => tokio::time::sleep(delay).await,
        Fault::None | Fault::ResetAfterStore => {}
    }
    let answered = service.call(request.map(s3s::Body::from)).await.map_err(|error| format!("{error:?}"))?;
    if fault == Fault::ResetAfterStore { Err(broken().into()) } else { Ok(answered) }
}

fn error(status: u16, code: &str) -> Response<s3s::Body> {
    let body = format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>as told</Message></Error>");
    let mut response = Response::new(s3s::Body::from(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    response
}
