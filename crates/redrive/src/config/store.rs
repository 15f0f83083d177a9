//! `[ingest.NAME.store]`: where objects are stored, and how to get in.

use redrive_spool::target::{StoreOptions, StoreSetting};

use super::address::{HttpUrl, StoreUrl};
use super::secret::Secret;
use super::section::Section;

/// What `store = "…"` and `[….store]` say. Without either it is this folder.
pub(crate) fn read(section: &mut Section<'_>, folder: StoreUrl) -> StoreOptions {
    let default = StoreOptions::at(folder.as_str());
    let read = section.shortened_table(
        "store",
        "url",
        "Where batches are uploaded to. `store = \"s3://bucket/prefix\"` is short for a table with that `url`. \
         What is not set comes from the environment, as each store has it (`AWS_…`, `GOOGLE_…`, `AZURE_…`).",
        |section| Some(Store::read(section, folder)),
    );
    read.unwrap_or(default)
}

/// The table, while it is being read.
struct Store<'a, 'b> {
    section: &'a mut Section<'b>,
    options: StoreOptions,
}

impl<'a, 'b> Store<'a, 'b> {
    fn read(section: &'a mut Section<'b>, folder: StoreUrl) -> StoreOptions {
        let url = section.derived(
            "url",
            folder,
            "the folder `DATA-DIR/ingest/NAME`",
            "`s3://bucket/prefix`, `gs://bucket/prefix`, `az://container/prefix` or `file:///folder`.",
        );
        let mut store = Self { section, options: StoreOptions::at(url.as_str()) };
        store.read_place();
        store.read_s3();
        store.read_google();
        store.read_azure();
        store.check_pairs();
        store.options
    }

    fn read_place(&mut self) {
        let endpoint: Option<HttpUrl> = self.section.optional(
            "endpoint",
            "S3, Google, Azure: the address of the service, if it is not the provider's own.",
        );
        let endpoint = endpoint.map(|endpoint| endpoint.as_url().as_str().trim_end_matches('/').to_owned());
        self.add("endpoint", StoreSetting::Endpoint, endpoint);
    }

    fn read_s3(&mut self) {
        self.text("region", StoreSetting::Region, "S3: the region.");
        let path_style: Option<bool> = self.section.optional(
            "path-style",
            "S3: whether the bucket is in the path of a request (`true`, also when left out) or in its host.",
        );
        self.add("path-style", StoreSetting::PathStyle, path_style.map(|is_path| is_path.to_string()));
        self.secret("access-key-id", StoreSetting::AccessKeyId, "S3: the id of the access key.");
        self.secret("secret-access-key", StoreSetting::SecretAccessKey, "S3: its secret.");
        self.secret(
            "session-token",
            StoreSetting::SessionToken,
            "S3: the token that goes with a temporary access key.",
        );
    }

    fn read_google(&mut self) {
        self.secret(
            "service-account",
            StoreSetting::ServiceAccount,
            "Google: the key of a service account, as JSON; mostly `file:…`.",
        );
    }

    fn read_azure(&mut self) {
        self.text("account", StoreSetting::Account, "Azure: the storage account.");
        self.secret("access-key", StoreSetting::AccessKey, "Azure: a key of the account.");
        self.secret("sas-token", StoreSetting::SasToken, "Azure: a shared access signature.");
        self.text("tenant-id", StoreSetting::TenantId, "Azure: the tenant of an application.");
        self.text("client-id", StoreSetting::ClientId, "Azure: the application.");
        self.secret("client-secret", StoreSetting::ClientSecret, "Azure: its secret.");
    }

    fn text(&mut self, name: &'static str, setting: StoreSetting, doc: &'static str) {
        let value: Option<String> = self.section.optional(name, doc);
        self.add(name, setting, value);
    }

    fn secret(&mut self, name: &'static str, setting: StoreSetting, doc: &'static str) {
        let value: Option<Secret> = self.section.optional(name, doc);
        self.add(name, setting, value.map(|secret| secret.expose().to_owned()));
    }

    fn add(&mut self, name: &str, setting: StoreSetting, value: Option<String>) {
        let Some(value) = value else { return };
        let scheme = self.options.address.split(':').next().unwrap_or_default();
        if setting.is_of(scheme) {
            self.options.settings.push((setting, value));
        } else {
            let message = format!("`{name}` is no setting of a store whose `url` begins with `{scheme}:`");
            self.section.refuse(name, message);
        }
    }

    /// Half of a pair would be completed from the environment, with something that does not belong to it.
    fn check_pairs(&mut self) {
        for (one, other) in [
            ("access-key-id", "secret-access-key"),
            ("secret-access-key", "access-key-id"),
            ("session-token", "access-key-id"),
            ("client-secret", "client-id"),
        ] {
            if self.section.has(one) && !self.section.has(other) {
                self.section.refuse(one, format!("found `{one}` without `{other}`, expected both"));
            }
        }
    }
}
