//! The log as a channel: a readable block, as the founding system wrote it.
//!
//! ```text
//! ════════════════════════════════════════════════════════════
//! Dead letter in orders
//!   event      42
//!   type       OrderCreated
//!   …
//! ════════════════════════════════════════════════════════════
//! ```

use async_trait::async_trait;

use super::alert::{Alert, Severity};
use super::channel::{Channel, ChannelError};
use super::message::Message;

const RULE: &str = "════════════════════════════════════════════════════════════";

/// The log as a channel: warnings, and notices at level info.
#[derive(Debug, Clone, Copy, Default)]
pub struct LogChannel;

#[async_trait]
impl Channel for LogChannel {
    fn name(&self) -> &str {
        "log"
    }

    async fn send(&self, alert: &Alert) -> Result<(), ChannelError> {
        let block = block(&Message::of(alert));
        match alert.severity() {
            Severity::Critical => tracing::error!("{block}"),
            Severity::Warning => tracing::warn!("{block}"),
            Severity::Notice => tracing::info!("{block}"),
        }
        Ok(())
    }
}

fn block(message: &Message) -> String {
    format!("\n{RULE}\n{}\n{message}{RULE}", message.title)
}
