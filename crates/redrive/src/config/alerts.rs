//! `[alerts]`: who is told, and when.

use std::num::NonZeroU32;
use std::time::Duration;

use super::address::{SmtpUrl, WebhookUrl};
use super::secret::Secret;
use super::section::Section;

/// The alerts of all pipelines.
#[derive(Debug, Clone)]
pub struct AlertsConfig {
    /// How many unresolved letters raise an alert.
    pub threshold: NonZeroU32,
    /// How often that is checked.
    pub check_interval: Duration,
    /// How often a report is written.
    pub report_interval: Duration,
    /// Where alerts go, beside the log.
    pub channels: Vec<Channel>,
}

/// Where an alert goes.
#[derive(Debug, Clone)]
pub enum Channel {
    /// A Slack webhook.
    Slack(WebhookUrl),
    /// Mail.
    Email(EmailChannel),
    /// A POST of JSON.
    Webhook(WebhookChannel),
}

/// A POST of JSON.
#[derive(Debug, Clone)]
pub struct WebhookChannel {
    /// Where to.
    pub url: WebhookUrl,
    /// The key of the HMAC signature, if it is signed.
    pub secret: Option<Secret>,
}

/// Mail.
#[derive(Debug, Clone)]
pub struct EmailChannel {
    /// The server that sends it.
    pub smtp: SmtpUrl,
    /// The sender.
    pub from: String,
    /// The receivers.
    pub to: Vec<String>,
}

/// The kinds of channel.
const KINDS: [&str; 3] = ["slack", "email", "webhook"];

impl AlertsConfig {
    pub(crate) fn read(section: &mut Section<'_>) -> Self {
        section.about("Who is told about dead letters, and when. The log always is.");
        Self {
            threshold: section.get("threshold", "10", "How many unresolved letters raise an alert."),
            check_interval: section.get("check-interval", "1m", "How often the threshold is checked."),
            report_interval: section.get("report-interval", "10m", "How often a report is written."),
            channels: section.list("channels", "Where alerts go, beside the log.", Channel::read),
        }
    }
}

impl Channel {
    fn read(section: &mut Section<'_>) -> Option<Self> {
        let slack = section.optional("slack", "The address of a Slack webhook.").map(Self::Slack);
        let email = section.optional_table("email", "Mail.", EmailChannel::read).map(Self::Email);
        let webhook = section.shortened_table(
            "webhook",
            "url",
            "An address that gets a POST of JSON; text, or a table with the keys below.",
            WebhookChannel::read,
        );
        section.exactly_one(&KINDS);
        slack.or(email).or(webhook.map(Self::Webhook))
    }
}

impl WebhookChannel {
    fn read(section: &mut Section<'_>) -> Option<Self> {
        let url = section.required("url", "The address.");
        let secret = section.optional(
            "secret",
            "Signs every POST with HMAC-SHA256; `\"env:NAME\"` takes it from a variable.",
        );
        Some(Self { url: url?, secret })
    }
}

impl EmailChannel {
    fn read(section: &mut Section<'_>) -> Option<Self> {
        let smtp =
            section.required("smtp", "The mail server, `smtp://` or `smtps://`, with user and password.");
        let from: Option<String> = section.required("from", "The sender.");
        let to: Option<Vec<String>> = section.required("to", "The receivers.");
        if from.as_deref().is_some_and(|from| !is_mail_address(from)) {
            section.refuse("from", "found no mail address, expected one such as \"redrive@example.com\"");
        }
        if to.as_ref().is_some_and(|to| !to.iter().all(|to| is_mail_address(to))) {
            section.refuse("to", "found no mail address, expected some such as [\"ops@example.com\"]");
        }
        Some(Self { smtp: smtp?, from: from?, to: to? })
    }
}

/// Roughly: the mail server knows better. Control characters would forge headers.
fn is_mail_address(text: &str) -> bool {
    let halves = text.rsplit_once('@');
    halves.is_some_and(|(user, host)| !user.is_empty() && !host.is_empty())
        && !text.contains(char::is_control)
}
