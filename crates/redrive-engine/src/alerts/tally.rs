//! The tally: what became of alerts, as `redrive_alerts_total{channel,outcome}`.

/// What became of an alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The channel took it.
    Sent,
    /// The channel did not, however often it was tried.
    Failed,
    /// It became part of a count: a letter of a group already told, or an alert over the limit.
    Suppressed,
    /// The queue was full, or the end came first.
    Dropped,
}

impl Outcome {
    const fn name(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Failed => "failed",
            Self::Suppressed => "suppressed",
            Self::Dropped => "dropped",
        }
    }
}

/// Counts so many.
pub(super) fn count(channel: &str, outcome: Outcome, many: u64) {
    let labels = [("channel", channel.to_owned()), ("outcome", outcome.name().to_owned())];
    metrics::counter!("redrive_alerts_total", &labels).increment(many);
}
