//! The services behind the demo's handlers, which can be broken and mended.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use redrive_core::event::Event;
use redrive_core::failure::{Code, Failure};
use redrive_core::handler::Handler;

/// A shop that takes orders and payments, and summarizes articles.
#[derive(Debug, Default)]
pub(crate) struct Shop {
    /// A bad release: every payment is refused.
    pub(crate) refuses_payments: AtomicBool,
    /// Nobody answers at all.
    pub(crate) down: AtomicBool,
    /// Long articles get the time they need.
    pub(crate) is_patient: AtomicBool,
    delivered: AtomicUsize,
}

/// What the payload of an article that is too long says.
pub(super) const LONG_ARTICLE: &str = "{\"words\":180000}";

impl Shop {
    pub(crate) fn delivered(&self) -> usize {
        self.delivered.load(Ordering::Relaxed)
    }

    async fn answer(&self, event: &Event) -> Result<(), Failure> {
        if self.down.load(Ordering::Relaxed) {
            let refused =
                Failure::transient("ConnectionRefused", "connect to shop.internal:443: connection refused");
            return Err(refused.with_code(Code::Io("ConnectionRefused".to_owned())));
        }
        if event.event_type == "PaymentCaptured" && self.refuses_payments.load(Ordering::Relaxed) {
            let message = format!("422: order {}: unknown currency \"EURO\"", event.key);
            return Err(Failure::permanent("Refused", message).with_code(Code::Http(422)));
        }
        let is_long = event.payload == LONG_ARTICLE.as_bytes();
        if is_long && !self.is_patient.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_secs(3_600)).await;
        }
        Ok(())
    }
}

#[async_trait]
impl Handler for Shop {
    async fn handle(&self, batch: &[Event]) -> Vec<Result<(), Failure>> {
        let mut results = Vec::with_capacity(batch.len());
        for event in batch {
            let result = self.answer(event).await;
            self.delivered.fetch_add(usize::from(result.is_ok()), Ordering::Relaxed);
            results.push(result);
        }
        results
    }
}
