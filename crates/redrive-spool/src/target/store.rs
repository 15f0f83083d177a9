//! A store from its address and its settings: what is not set comes from the environment, as each store has it.

use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey as S3};
use object_store::azure::{AzureConfigKey as Azure, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey as Google};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};
use url::Url;

use super::TargetError;
use super::cleaned::Names;

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

/// A setting of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreSetting {
    /// S3: the region.
    Region,
    /// S3, Google, Azure: the address of the service, if it is not the provider's own.
    Endpoint,
    /// S3: `true` puts the bucket into the path of a request, `false` into its host.
    PathStyle,
    /// S3: the id of the access key.
    AccessKeyId,
    /// S3: the secret of the access key.
    SecretAccessKey,
    /// S3: the token that goes with a temporary key.
    SessionToken,
    /// Google: the key of a service account, as JSON.
    ServiceAccount,
    /// Azure: the storage account.
    Account,
    /// Azure: its key.
    AccessKey,
    /// Azure: a shared access signature.
    SasToken,
    /// Azure: the tenant of an application.
    TenantId,
    /// Azure: the application.
    ClientId,
    /// Azure: its secret.
    ClientSecret,
}

impl StoreSetting {
    /// Whether stores at addresses of this scheme have it.
    #[must_use]
    pub fn is_of(self, scheme: &str) -> bool {
        match scheme {
            "s3" => self.of_s3().is_some(),
            "gs" => self.of_google().is_some(),
            "az" => self.of_azure().is_some(),
            _ => false,
        }
    }

    const fn of_s3(self) -> Option<S3> {
        Some(match self {
            Self::Region => S3::Region,
            Self::Endpoint => S3::Endpoint,
            Self::PathStyle => S3::VirtualHostedStyleRequest,
            Self::AccessKeyId => S3::AccessKeyId,
            Self::SecretAccessKey => S3::SecretAccessKey,
            Self::SessionToken => S3::Token,
            _ => return None,
        })
    }

    const fn of_google(self) -> Option<Google> {
        Some(match self {
            Self::Endpoint => Google::BaseUrl,
            Self::ServiceAccount => Google::ServiceAccountKey,
            _ => return None,
        })
    }

    const fn of_azure(self) -> Option<Azure> {
        Some(match self {
            Self::Endpoint => Azure::Endpoint,
            Self::Account => Azure::AccountName,
            Self::AccessKey => Azure::AccessKey,
            Self::SasToken => Azure::SasKey,
            Self::TenantId => Azure::AuthorityId,
            Self::ClientId => Azure::ClientId,
            Self::ClientSecret => Azure::ClientSecret,
            _ => return None,
        })
    }

    /// The value as the client of the store has it.
    fn value(self, written: &str) -> String {
        match (self, written) {
            // The client asks the other way round.
            (Self::PathStyle, "true") => "false".to_owned(),
            (Self::PathStyle, _) => "true".to_owned(),
            _ => written.to_owned(),
        }
    }
}

/// Where a store is, and how to get in.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct StoreOptions {
    /// `s3://bucket/prefix`, `gs://…`, `az://…` or `file:///folder`.
    pub address: String,
    /// What is not left to the environment.
    pub settings: Vec<(StoreSetting, String)>,
}

/// The values may be secrets.
impl std::fmt::Debug for StoreOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let settings: Vec<StoreSetting> = self.settings.iter().map(|(setting, _)| *setting).collect();
        f.debug_struct("StoreOptions").field("address", &self.address).field("settings", &settings).finish()
    }
}

impl StoreOptions {
    /// The store at this address, with everything else from the environment.
    #[must_use]
    pub fn at(address: &str) -> Self {
        Self { address: address.to_owned(), settings: Vec::new() }
    }

    fn get(&self, wanted: StoreSetting) -> Option<&str> {
        self.settings.iter().find(|(setting, _)| *setting == wanted).map(|(_, value)| value.as_str())
    }
}

/// A store that is ready to be used.
pub(super) struct Opened {
    pub(super) store: Arc<dyn ObjectStore>,
    /// Where in it objects go.
    pub(super) root: String,
    /// What its errors must not show.
    pub(super) names: Names,
}

/// Makes the client of a store; nothing is sent yet.
pub(super) fn open(options: &StoreOptions, patience: &Patience) -> Result<Opened, TargetError> {
    let address = options.address.as_str();
    let wrong = || TargetError::Address { address: address.to_owned() };
    let url = Url::parse(address).map_err(|_| wrong())?;
    let builder = Builder { options, patience, names: Vec::new(), url: &url };
    match url.scheme() {
        "s3" => builder.s3(),
        "gs" => builder.google(),
        "az" => builder.azure(),
        "file" => local(&url.to_file_path().map_err(|()| wrong())?)
            .map_err(|error| TargetError::Store { address: address.to_owned(), reason: error.to_string() }),
        _ => Err(wrong()),
    }
}

struct Builder<'a> {
    options: &'a StoreOptions,
    patience: &'a Patience,
    url: &'a Url,
    names: Vec<String>,
}

impl Builder<'_> {
    fn s3(mut self) -> Result<Opened, TargetError> {
        install_crypto();
        let mut builder = AmazonS3Builder::from_env().with_url(self.url.as_str());
        for (key, setting, value) in self.settings(StoreSetting::of_s3) {
            builder = builder.with_config(key, setting.value(value));
        }
        let hidden = [S3::Endpoint, S3::Bucket, S3::AccessKeyId, S3::SecretAccessKey, S3::Token];
        self.hide(hidden.iter().filter_map(|key| builder.get_config_value(key)));
        let builder = builder.with_retry(self.patience.retry());
        let built = builder.with_client_options(self.client("AWS_ALLOW_HTTP")).build();
        self.opened(built)
    }

    fn google(mut self) -> Result<Opened, TargetError> {
        install_crypto();
        let mut builder = GoogleCloudStorageBuilder::from_env().with_url(self.url.as_str());
        for (key, setting, value) in self.settings(StoreSetting::of_google) {
            builder = builder.with_config(key, setting.value(value));
        }
        let hidden = [Google::Bucket, Google::BaseUrl, Google::ServiceAccount];
        self.hide(hidden.iter().filter_map(|key| builder.get_config_value(key)));
        let builder = builder.with_retry(self.patience.retry());
        let built = builder.with_client_options(self.client("GOOGLE_ALLOW_HTTP")).build();
        self.opened(built)
    }

    fn azure(mut self) -> Result<Opened, TargetError> {
        install_crypto();
        let mut builder = MicrosoftAzureBuilder::from_env().with_url(self.url.as_str());
        for (key, setting, value) in self.settings(StoreSetting::of_azure) {
            builder = builder.with_config(key, setting.value(value));
        }
        let hidden = [Azure::Endpoint, Azure::ContainerName, Azure::AccountName, Azure::ClientId];
        self.hide(hidden.iter().filter_map(|key| builder.get_config_value(key)));
        let builder = builder.with_retry(self.patience.retry());
        let built = builder.with_client_options(self.client("AZURE_ALLOW_HTTP")).build();
        self.opened(built)
    }

    /// The settings that this store has, with the names that its client has for them.
    fn settings<K>(
        &self,
        key: impl Fn(StoreSetting) -> Option<K>,
    ) -> impl Iterator<Item = (K, StoreSetting, &str)> {
        let settings = self.options.settings.iter();
        settings.filter_map(move |(setting, value)| Some((key(*setting)?, *setting, value.as_str())))
    }

    /// With the hosts of what are addresses.
    fn hide(&mut self, values: impl Iterator<Item = String>) {
        let options = self.options;
        for value in values.chain(options.settings.iter().map(|(_, value)| value.clone())) {
            if let Ok(url) = Url::parse(&value)
                && let Some(host) = url.host_str()
            {
                self.names.push(host.to_owned());
                self.names.extend(url.port().map(|port| format!("{host}:{port}")));
            }
            if value != "true" && value != "false" {
                self.names.push(value);
            }
        }
    }

    /// An endpoint that was written with `http://` is meant so.
    fn client(&self, allow_http: &str) -> ClientOptions {
        let is_allowed = std::env::var(allow_http).is_ok_and(|value| value.eq_ignore_ascii_case("true"));
        let is_written =
            self.options.get(StoreSetting::Endpoint).is_some_and(|endpoint| endpoint.starts_with("http://"));
        ClientOptions::new().with_timeout(self.patience.request).with_allow_http(is_allowed || is_written)
    }

    fn opened(self, built: object_store::Result<impl ObjectStore + 'static>) -> Result<Opened, TargetError> {
        let region = self.options.get(StoreSetting::Region).map(str::to_owned);
        // The region is no secret, and says what is wrong.
        let names = Names::new(self.names.into_iter().filter(|name| Some(name) != region.as_ref()));
        match built {
            Ok(store) => Ok(Opened { store: Arc::new(store), root: self.url.path().to_owned(), names }),
            Err(error) => {
                let address = self.options.address.clone();
                Err(TargetError::Store { address, reason: names.clean(&error) })
            }
        }
    }
}

/// A folder, and the root within that store.
fn local(folder: &std::path::Path) -> object_store::Result<Opened> {
    let names = Names::default();
    let Err(error) = std::fs::create_dir_all(folder) else {
        let local = LocalFileSystem::new_with_prefix(folder)?.with_fsync(true);
        return Ok(Opened { store: Arc::new(local), root: String::new(), names });
    };
    // As a bucket that does not answer: batches wait on disk, and each is an attempt at it.
    tracing::warn!(store = %folder.display(), %error, "the folder cannot be made: is a disk not mounted?");
    let root = Path::from_absolute_path(folder)?;
    Ok(Opened { store: Arc::new(LocalFileSystem::new().with_fsync(true)), root: root.into(), names })
}

impl Patience {
    fn retry(&self) -> RetryConfig {
        let backoff =
            BackoffConfig { init_backoff: self.first_pause, max_backoff: self.give_up_after, base: 2.0 };
        RetryConfig { backoff, max_retries: self.retries, retry_timeout: self.give_up_after }
    }
}

/// Gives rustls its cryptography, unless the program has chosen one already.
fn install_crypto() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // An error means that another thread was quicker.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}
