//! Mail, through an SMTP server.
//!
//! `smtps://user:password@host` speaks TLS from the start. `smtp://` asks for STARTTLS: it insists on
//! it where a password would cross the network, and takes it where it is offered otherwise;
//! `?tls=required` insists in any case, `?tls=none` never asks. The port is 587 (465 for `smtps`, 25
//! for `tls=none`) unless the address names one.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use lettre::message::Mailbox;
use lettre::message::header::{ContentType, Header, HeaderName, HeaderValue};
use lettre::transport::smtp;
use lettre::{AsyncSmtpTransport, AsyncTransport as _, Message as Mail, Tokio1Executor};
use url::Url;

use super::alert::Alert;
use super::channel::{Channel, ChannelError};
use super::inert::Inert;
use super::message::Message;
use crate::handlers::{Secret, SetupError, client};

/// How long the mail server may take for one command.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The longest subject, in characters.
const MAX_SUBJECT: usize = 150;

/// Which server sends mail, and from whom to whom.
#[derive(Debug, Clone)]
pub struct EmailOptions {
    /// The server, with user and password.
    pub smtp: Secret,
    /// The sender.
    pub from: String,
    /// The receivers.
    pub to: Vec<String>,
}

/// Mail, through an SMTP server. `Debug` shows the host only.
pub struct EmailChannel {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    host: String,
    from: Mailbox,
    to: Vec<Mailbox>,
}

impl fmt::Debug for EmailChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmailChannel").field("host", &self.host).field("to", &self.to).finish_non_exhaustive()
    }
}

impl EmailChannel {
    /// A channel to these receivers.
    ///
    /// # Errors
    /// [`SetupError`] when one of the addresses is none; the server's address is not repeated.
    pub fn new(options: &EmailOptions) -> Result<Self, SetupError> {
        client::install_crypto();
        let server = server(&options.smtp).ok_or(UNKNOWN_SERVER)?;
        let builder = AsyncSmtpTransport::<Tokio1Executor>::from_url(server.as_str());
        let transport = builder.map_err(|_| UNKNOWN_SERVER)?.timeout(Some(TIMEOUT)).build();
        let to = options.to.iter().map(|address| mailbox(address)).collect::<Result<Vec<_>, _>>()?;
        if to.is_empty() {
            return Err(NO_RECEIVER);
        }
        Ok(Self { transport, host: client::host(&server), from: mailbox(&options.from)?, to })
    }

    fn mail(&self, message: &Message) -> Result<Mail, ChannelError> {
        let mut builder = Mail::builder().from(self.from.clone());
        for to in &self.to {
            builder = builder.to(to.clone());
        }
        builder
            .subject(subject(&message.title))
            .message_id(None)
            .header(AutoSubmitted)
            .header(ContentType::TEXT_PLAIN)
            .body(format!("{}\n\n{message}", message.title))
            .map_err(|error| ChannelError::Refused {
                message: format!("the mail cannot be written: {error}"),
            })
    }
}

#[async_trait]
impl Channel for EmailChannel {
    fn name(&self) -> &str {
        "email"
    }

    async fn send(&self, alert: &Alert) -> Result<(), ChannelError> {
        let mail = self.mail(&Message::of(alert))?;
        self.transport.send(mail).await.map(drop).map_err(|error| self.explain(&error))
    }
}

impl EmailChannel {
    fn explain(&self, error: &smtp::Error) -> ChannelError {
        let why = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
        let message = format!("{}: {}", self.host, Inert::new(&format!("{error} {why}")));
        if error.is_permanent() {
            ChannelError::Refused { message }
        } else {
            ChannelError::unavailable(message)
        }
    }
}

const UNKNOWN_SERVER: SetupError =
    SetupError::Address { what: "mail server", expected: "smtp://host, or smtps://user:password@host" };
const NO_RECEIVER: SetupError =
    SetupError::Address { what: "receiver", expected: "at least one mail address" };

/// The server's address, with the default for TLS written out: lettre's own is none.
fn server(address: &Secret) -> Option<Url> {
    let mut url = Url::parse(address.expose()).ok().filter(Url::has_host)?;
    if url.scheme() != "smtp" {
        return Some(url);
    }
    let asked = url.query_pairs().find(|(name, _)| name == "tls").map(|(_, value)| value.into_owned());
    let exposed = url.password().is_some() && !client::is_loopback(&url);
    match asked.as_deref() {
        Some("none") => url.set_query(None),
        Some(_) => {}
        None if exposed => url.set_query(Some("tls=required")),
        None => url.set_query(Some("tls=opportunistic")),
    }
    Some(url)
}

fn mailbox(address: &str) -> Result<Mailbox, SetupError> {
    address.parse().map_err(|_| SetupError::MailAddress { address: Inert::new(address).to_string() })
}

/// One line: the title is made of harmless text, and this would make it so if it were not.
fn subject(title: &str) -> String {
    let title = Inert::new(title).to_string();
    format!("[redrive] {}", title.chars().take(MAX_SUBJECT).collect::<String>())
}

/// RFC 3834: keeps vacation notices from answering.
#[derive(Clone)]
struct AutoSubmitted;

impl Header for AutoSubmitted {
    fn name() -> HeaderName {
        HeaderName::new_from_ascii_str("Auto-Submitted")
    }

    fn parse(_: &str) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        Ok(Self)
    }

    fn display(&self) -> HeaderValue {
        HeaderValue::new(Self::name(), "auto-generated".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tls(address: &str) -> Option<String> {
        let url = server(&Secret::new(address)).unwrap();
        url.query_pairs().find(|(name, _)| name == "tls").map(|(_, value)| value.into_owned())
    }

    #[test]
    fn a_password_does_not_cross_the_network_in_the_clear() {
        assert_eq!(tls("smtp://me:pw@mail.example.com").as_deref(), Some("required"));
        assert_eq!(tls("smtp://me:pw@127.0.0.1:2525").as_deref(), Some("opportunistic"));
        assert_eq!(tls("smtp://mail.example.com").as_deref(), Some("opportunistic"));
        assert_eq!(tls("smtp://me:pw@mail.example.com?tls=none"), None);
        assert_eq!(tls("smtps://me:pw@mail.example.com"), None);
    }

    #[test]
    fn a_subject_is_one_short_line() {
        let subject = subject(&format!("x\r\nBcc: evil@example.com{}", "é".repeat(500)));
        assert!(subject.starts_with("[redrive] x\\r\\nBcc"));
        assert!(subject.chars().count() <= 160 && !subject.contains(char::is_control));
    }
}
