//! Who is told, from the settings.

use std::sync::Arc;

use anyhow::Context as _;
use redrive::config::{self, AlertsConfig};
use redrive_engine::alerts::{
    Channel, Dispatcher, DispatcherOptions, EmailChannel, EmailOptions, LogChannel, SlackChannel,
    WebhookChannel, WebhookOptions,
};
use redrive_engine::handlers::Secret;

/// Starts telling the configured channels, and the log.
pub(crate) fn alerts(config: &AlertsConfig) -> anyhow::Result<Dispatcher> {
    let mut channels: Vec<Arc<dyn Channel>> = vec![Arc::new(LogChannel)];
    for (index, setting) in config.channels.iter().enumerate() {
        channels.push(channel(setting).with_context(|| format!("alerts.channels[{index}] cannot be used"))?);
    }
    Ok(Dispatcher::start(channels, &DispatcherOptions::default()))
}

fn channel(setting: &config::Channel) -> anyhow::Result<Arc<dyn Channel>> {
    Ok(match setting {
        config::Channel::Slack(url) => Arc::new(SlackChannel::new(&Secret::new(url.expose()))?),
        config::Channel::Webhook(webhook) => {
            let secret = webhook.secret.as_ref().map(|secret| Secret::new(secret.expose()));
            let options = WebhookOptions { url: Secret::new(webhook.url.expose()), secret };
            Arc::new(WebhookChannel::new(options)?)
        }
        config::Channel::Email(email) => {
            let (from, to) = (email.from.clone(), email.to.clone());
            let options = EmailOptions { smtp: Secret::new(email.smtp.expose()), from, to };
            Arc::new(EmailChannel::new(&options)?)
        }
    })
}
