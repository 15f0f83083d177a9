//! The object store that batches go to: S3, Google Cloud, Azure, or a folder.
//!
//! A put is whole or not at all, and a repetition overwrites the same object. What is wrong with the store is
//! never held against a batch: only what the store says of this one object is.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, ObjectStoreExt as _, RetryConfig};
use redrive_core::classify;
use redrive_core::failure::{Class, Code, Failure};
use url::Url;

/// How one upload is tried.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// How often after the first time.
    pub retries: usize,
    /// The first pause; each one is longer than the last.
    pub first_pause: Duration,
    /// No more tries after so long.
    pub give_up_after: Duration,
    /// How long one request may take.
    pub request: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            retries: 3,
            first_pause: Duration::from_millis(100),
            give_up_after: Duration::from_secs(15),
            request: Duration::from_secs(30),
        }
    }
}

/// Why a store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The address is not one.
    #[error("`{address}` is no address of a store: expected s3://, gs://, az:// or file:///")]
    Address {
        /// What was given.
        address: String,
    },
    /// A prefix cannot be part of the name of an object.
    #[error("`{prefix}` cannot be a prefix: {source}")]
    Prefix {
        /// What was given.
        prefix: String,
        /// What is wrong.
        source: object_store::path::Error,
    },
    /// The store's settings, such as its credentials, cannot be used.
    #[error("the store {address} cannot be used: {source}")]
    Store {
        /// Which.
        address: String,
        /// What is wrong.
        source: object_store::Error,
    },
}

/// Where batches go, and under which prefixes.
#[derive(Debug, Clone)]
pub struct Target {
    store: Arc<dyn ObjectStore>,
    raw: Path,
    damaged: Path,
}

impl Target {
    /// The store at this address. Credentials come from the environment, as each store has them.
    ///
    /// # Errors
    /// When the address or the settings of the store cannot be used; nothing is sent yet.
    pub fn open(address: &str, raw: &str, damaged: &str, patience: &Patience) -> Result<Self, TargetError> {
        let wrong = || TargetError::Address { address: address.to_owned() };
        let url = Url::parse(address).map_err(|_| wrong())?;
        let store = |source| TargetError::Store { address: address.to_owned(), source };
        let (store, root) = match url.scheme() {
            "s3" => (s3(address, patience).map_err(store)?, url.path().to_owned()),
            "gs" => (google(address, patience).map_err(store)?, url.path().to_owned()),
            "az" => (azure(address, patience).map_err(store)?, url.path().to_owned()),
            "file" => local(&url.to_file_path().map_err(|()| wrong())?).map_err(store)?,
            _ => return Err(wrong()),
        };
        Self::over(store, &root, raw, damaged)
    }

    /// A store of the caller's.
    ///
    /// # Errors
    /// When a prefix cannot be part of the name of an object.
    pub fn over(
        store: Arc<dyn ObjectStore>,
        root: &str,
        raw: &str,
        damaged: &str,
    ) -> Result<Self, TargetError> {
        let prefix = |prefix: &str| {
            let joined = format!("{}/{prefix}", root.trim_matches('/'));
            Path::parse(&joined).map_err(|source| TargetError::Prefix { prefix: joined, source })
        };
        Ok(Self { store, raw: prefix(raw)?, damaged: prefix(damaged)? })
    }

    /// Puts a good batch. A repetition overwrites the same object.
    ///
    /// # Errors
    /// What the store said, and what it means.
    pub async fn put_raw(&self, name: &str, data: Bytes) -> Result<(), Failure> {
        self.put(&self.raw, name, data).await
    }

    /// Sets a damaged file aside, byte for byte.
    ///
    /// # Errors
    /// What the store said, and what it means.
    pub async fn put_damaged(&self, name: &str, data: Bytes) -> Result<(), Failure> {
        self.put(&self.damaged, name, data).await
    }

    async fn put(&self, prefix: &Path, name: &str, data: Bytes) -> Result<(), Failure> {
        let path = prefix.clone().join(name);
        self.store.put(&path, data.into()).await.map(drop).map_err(|error| failure(&error))
    }
}

fn s3(address: &str, patience: &Patience) -> object_store::Result<Arc<dyn ObjectStore>> {
    install_crypto();
    let builder = AmazonS3Builder::from_env().with_url(address).with_retry(patience.retry());
    Ok(Arc::new(builder.with_client_options(patience.client("AWS_ALLOW_HTTP")).build()?))
}

fn google(address: &str, patience: &Patience) -> object_store::Result<Arc<dyn ObjectStore>> {
    install_crypto();
    let builder = GoogleCloudStorageBuilder::from_env().with_url(address).with_retry(patience.retry());
    Ok(Arc::new(builder.with_client_options(patience.client("GOOGLE_ALLOW_HTTP")).build()?))
}

fn azure(address: &str, patience: &Patience) -> object_store::Result<Arc<dyn ObjectStore>> {
    install_crypto();
    let builder = MicrosoftAzureBuilder::from_env().with_url(address).with_retry(patience.retry());
    Ok(Arc::new(builder.with_client_options(patience.client("AZURE_ALLOW_HTTP")).build()?))
}

/// A folder, and the root within that store.
fn local(folder: &std::path::Path) -> object_store::Result<(Arc<dyn ObjectStore>, String)> {
    let Err(error) = std::fs::create_dir_all(folder) else {
        let local = LocalFileSystem::new_with_prefix(folder)?.with_fsync(true);
        return Ok((Arc::new(local), String::new()));
    };
    // As a bucket that does not answer: batches wait on disk, and each is an attempt at it.
    tracing::warn!(store = %folder.display(), %error, "the folder cannot be made: is a disk not mounted?");
    let root = Path::from_absolute_path(folder)?;
    Ok((Arc::new(LocalFileSystem::new().with_fsync(true)), root.into()))
}

impl Patience {
    fn retry(&self) -> RetryConfig {
        let backoff =
            BackoffConfig { init_backoff: self.first_pause, max_backoff: self.give_up_after, base: 2.0 };
        RetryConfig { backoff, max_retries: self.retries, retry_timeout: self.give_up_after }
    }

    fn client(&self, allow_http: &str) -> ClientOptions {
        let allow = std::env::var(allow_http).is_ok_and(|value| value.eq_ignore_ascii_case("true"));
        ClientOptions::new().with_timeout(self.request).with_allow_http(allow)
    }
}

/// Gives rustls its cryptography, unless the program has chosen one already.
fn install_crypto() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // An error means that another thread was quicker.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}

/// What a store's error means for the batch. Refused credentials are mended by a person while the batch
/// waits: they are never the batch's fault.
fn failure(error: &object_store::Error) -> Failure {
    use object_store::Error as E;
    let message = error.to_string();
    if let Some(code) = code(&message) {
        let class = classify::s3::classify(code, None);
        let failure = Failure::new(class, "ObjectStore", &message);
        return failure.with_code(Code::S3(code.to_owned()));
    }
    match error {
        E::PermissionDenied { .. } => Failure::transient("PermissionDenied", message),
        E::Unauthenticated { .. } => Failure::transient("Unauthenticated", message),
        E::NotFound { .. } => Failure::transient("NotFound", message),
        E::InvalidPath { .. } | E::NotSupported { .. } | E::NotImplemented { .. } => {
            Failure::new(Class::Permanent, "ObjectStore", message)
        }
        _ => Failure::transient("ObjectStore", message),
    }
}

/// The code in the answer of an S3 store.
fn code(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once("<Code>")?;
    rest.split_once("</Code>").map(|(code, _)| code).filter(|code| !code.is_empty())
}
