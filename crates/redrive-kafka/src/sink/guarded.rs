//! A sink that panics is a sink that fails.
//!
//! Without this its panic would end the lane that called it, and the partition would stand still. As a
//! failure it is tried again and parked, and in the end the records that make it panic are given up alone.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::FutureExt as _;
use redrive_core::failure::{Class, Failure};

use super::{Sink, Stored};
use crate::defect;
use crate::row::Row;

/// A sink whose panics are failures.
pub(crate) struct Guarded(pub(crate) Arc<dyn Sink>);

#[async_trait]
impl Sink for Guarded {
    async fn write(&self, rows: &[Row<'_>]) -> Result<(), Failure> {
        caught(self.0.write(rows)).await?
    }

    async fn store(&self, rows: &[Row<'_>]) -> Stored {
        let stored = caught(self.0.store(rows)).await;
        stored.unwrap_or_else(|failure| Stored::nothing(rows.len(), failure))
    }

    async fn probe(&self) -> Result<(), Failure> {
        caught(self.0.probe()).await?
    }

    async fn check(&self) -> Result<(), String> {
        caught(self.0.check()).await.map_err(|failure| failure.message)?
    }
}

async fn caught<T>(run: impl Future<Output = T>) -> Result<T, Failure> {
    let failed = |panic: Box<dyn std::any::Any + Send>| {
        let message = format!("the sink panicked, which is a defect of it: {}", defect::said(panic.as_ref()));
        Failure::new(Class::Unclassified, "Panic", message)
    };
    AssertUnwindSafe(run).catch_unwind().await.map_err(failed)
}
