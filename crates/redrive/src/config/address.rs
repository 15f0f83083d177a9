//! Addresses of what redrive talks to, checked before anything is sent there.

use url::Url;

use super::document::Node;
use super::environment::Environment;
use super::secret::{Secret, resolved};
use super::setting::{Setting, Wrong, text};

/// An `http://` or `https://` address without user and password: those belong into headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpUrl(Url);

/// The address of a webhook. Whoever knows it can post there, so it is kept as a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookUrl(Secret);

/// The address of a mail server, with user and password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SmtpUrl(Secret);

/// Where objects are stored: `s3://`, `gs://`, `az://` or `file:///`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreUrl(String);

impl HttpUrl {
    /// The parsed address.
    #[must_use]
    pub fn as_url(&self) -> &Url {
        &self.0
    }
}

impl WebhookUrl {
    /// The address itself. Do not log it.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.0.expose()
    }
}

impl SmtpUrl {
    /// The address itself. Do not log it.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.0.expose()
    }
}

impl StoreUrl {
    /// The address as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A local folder.
    pub(crate) fn of_folder(folder: &std::path::Path) -> Self {
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        Self(format!("file://{}", folder.display()))
    }
}

impl Setting for HttpUrl {
    fn kind() -> String {
        "http address".to_owned()
    }

    fn read(node: &Node, _: &Environment) -> Result<Self, Wrong> {
        const EXPECTED: &str = "an http:// or https:// address, such as \"http://127.0.0.1:9000/orders\"";
        let url = web_address(text(node, EXPECTED)?).ok_or_else(|| Wrong::expected(EXPECTED))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Wrong::because(
                "found a user or password in the address, expected them in `headers` \
                 (such as { url = \"…\", headers = { authorization = \"env:NAME\" } })",
            ));
        }
        Ok(Self(url))
    }

    fn is_sensitive(node: &Node) -> bool {
        matches!(text(node, ""), Ok(text) if text.contains('@') || text.contains('?'))
    }
}

impl Setting for WebhookUrl {
    fn kind() -> String {
        "secret https address".to_owned()
    }

    fn read(node: &Node, environment: &Environment) -> Result<Self, Wrong> {
        const EXPECTED: &str = "an http:// or https:// address, or \"env:NAME\" (a variable that holds one)";
        let text = resolved(node, environment, EXPECTED)?;
        web_address(&text).ok_or_else(|| Wrong::expected(EXPECTED))?;
        Ok(Self(Secret::new(text)))
    }

    fn is_sensitive(_: &Node) -> bool {
        true
    }
}

impl Setting for SmtpUrl {
    fn kind() -> String {
        "secret smtp address".to_owned()
    }

    fn read(node: &Node, environment: &Environment) -> Result<Self, Wrong> {
        const EXPECTED: &str = "an smtp:// or smtps:// address, or \"env:NAME\" (a variable that holds one)";
        let text = resolved(node, environment, EXPECTED)?;
        let parsed = Url::parse(&text).map_err(|_| Wrong::expected(EXPECTED))?;
        let is_mail = matches!(parsed.scheme(), "smtp" | "smtps") && parsed.has_host();
        if is_mail { Ok(Self(Secret::new(text))) } else { Err(Wrong::expected(EXPECTED)) }
    }

    fn is_sensitive(_: &Node) -> bool {
        true
    }
}

impl Setting for StoreUrl {
    fn kind() -> String {
        "store address".to_owned()
    }

    fn read(node: &Node, _: &Environment) -> Result<Self, Wrong> {
        const EXPECTED: &str =
            "\"s3://bucket/prefix\", \"gs://bucket/prefix\", \"az://container/prefix\" or \"file:///folder\"";
        let text = text(node, EXPECTED)?;
        let url = Url::parse(text).map_err(|_| Wrong::expected(EXPECTED))?;
        let is_known = match url.scheme() {
            "s3" | "gs" | "az" => url.host_str().is_some_and(|host| !host.is_empty()),
            "file" => url.host_str().is_none() && url.path().len() > 1,
            _ => false,
        };
        if is_known { Ok(Self(text.to_owned())) } else { Err(Wrong::expected(EXPECTED)) }
    }

    fn is_sensitive(node: &Node) -> bool {
        matches!(text(node, ""), Ok(text) if text.contains('@'))
    }
}

fn web_address(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    (matches!(url.scheme(), "http" | "https") && url.has_host()).then_some(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: Setting>(text: &str) -> Result<T, Wrong> {
        T::read(&Node::of_default(text), &Environment::default())
    }

    #[test]
    fn handlers_speak_http_and_carry_no_password() {
        assert!(read::<HttpUrl>("https://orders.example.com/x").is_ok());
        for text in ["", "orders", "ftp://x/", "http://", "/orders", "http://me:pw@host/"] {
            assert!(read::<HttpUrl>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn object_stores_have_a_bucket_or_a_folder() {
        for text in ["s3://bucket", "gs://b/p", "az://c/p", "file:///var/x"] {
            assert!(read::<StoreUrl>(text).is_ok(), "{text}");
        }
        for text in ["s3://", "bucket/prefix", "http://b/p", "file://", "./folder"] {
            assert!(read::<StoreUrl>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn mail_servers_and_webhooks_are_told_apart() {
        assert!(read::<SmtpUrl>("smtps://me:pw@mail.example.com").is_ok());
        assert!(read::<SmtpUrl>("https://mail.example.com").is_err());
        assert!(read::<WebhookUrl>("https://hooks.example.com/1").is_ok());
        assert!(read::<WebhookUrl>("hooks.example.com").is_err());
    }
}
