//! `[intake]`: letters that other services hand in, and where they may be redriven to.

use std::num::NonZeroU32;
use std::time::Duration;

use super::auto_redrive::AutoRedrive;
use super::context::Context;
use super::handler::Handler;
use super::outbox::{BACKOFF, keep_resolved};
use super::retry::Backoff;
use super::section::Section;

/// Letters that other services hand in.
#[derive(Debug, Clone)]
pub struct IntakeConfig {
    /// Where they may be redriven to, by name.
    pub targets: Vec<(String, Handler)>,
    /// How many attempts a redrive has.
    pub max_attempts: NonZeroU32,
    /// The pauses between them.
    pub retry: Backoff,
    /// How long a target may take.
    pub timeout: Duration,
    /// How many letters are sent at once.
    pub concurrency: NonZeroU32,
    /// How many unresolved letters raise an alert.
    pub alert_threshold: NonZeroU32,
    /// How long resolved and redriven letters are kept.
    pub keep_resolved: Option<Duration>,
    /// Which letters go back by themselves.
    pub auto_redrive: Vec<AutoRedrive>,
}

impl IntakeConfig {
    pub(crate) fn read(section: &mut Section<'_>, context: &Context) -> Self {
        section.about(
            "Letters that any service hands in over `POST /api/v1/dead-letters`. A letter names its target; \
             where that is, only this file says.",
        );
        let timeout = section.get("timeout", "30s", "How long a target may take.");
        Self {
            targets: section.table(
                "targets",
                "Where letters may be redriven to; a letter that names none can only be resolved.",
                |section| {
                    section.named_tables("TARGET", |name, section| {
                        Some((name.to_owned(), Handler::read(section, timeout)?))
                    })
                },
            ),
            max_attempts: section.get(
                "max-attempts",
                "5",
                "How many attempts a redrive has; then the letter is `failed`.",
            ),
            retry: section.table("retry", "The pauses between attempts; jitter is added.", |section| {
                Backoff::read(section, &BACKOFF)
            }),
            timeout,
            concurrency: section.get("concurrency", "4", "How many letters are sent at once."),
            alert_threshold: section.derived(
                "alert-threshold",
                context.alert_threshold,
                "`alerts.threshold`",
                "How many unresolved letters raise an alert.",
            ),
            keep_resolved: keep_resolved(section),
            auto_redrive: AutoRedrive::read_all(section),
        }
    }
}
