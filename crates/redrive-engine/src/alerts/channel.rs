//! A channel: one place that is told.

use std::time::Duration;

use async_trait::async_trait;

use super::alert::Alert;

/// One place that is told.
#[async_trait]
pub trait Channel: Send + Sync {
    /// What metrics and logs call it, such as `slack`.
    fn name(&self) -> &str;

    /// Tells it.
    ///
    /// It is called for one alert at a time and may take its time: only this channel waits. The
    /// dispatcher gives up on it after a while by dropping the future.
    ///
    /// # Errors
    /// [`ChannelError`] says whether another try can help.
    async fn send(&self, alert: &Alert) -> Result<(), ChannelError>;
}

/// Why an alert was not taken. Messages name the host at most: addresses of webhooks are secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChannelError {
    /// Later it may work.
    #[error("{message}")]
    Unavailable {
        /// What happened.
        message: String,
        /// How long the other side asked to be left alone.
        retry_after: Option<Duration>,
    },
    /// It will not work until a person changes something.
    #[error("{message}")]
    Refused {
        /// What happened.
        message: String,
    },
}

impl ChannelError {
    pub(super) fn unavailable(message: impl Into<String>) -> Self {
        Self::Unavailable { message: message.into(), retry_after: None }
    }

    /// How long to wait before another try, where `planned` is the plan; none when it cannot help.
    pub(super) fn wait(&self, planned: Duration) -> Option<Duration> {
        match self {
            Self::Unavailable { retry_after, .. } => Some(planned.max(retry_after.unwrap_or_default())),
            Self::Refused { .. } => None,
        }
    }
}
