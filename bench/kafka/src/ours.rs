//! Our pipeline, timed from the first batch that it stores to the last.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use async_trait::async_trait;
use redrive_core::backoff::Backoff;
use redrive_core::failure::Failure;
use redrive_kafka::row::Row;
use redrive_kafka::sink::{PostgresSink, Sink, Stored};
use redrive_kafka::topics::Missing;
use redrive_kafka::{
    BatchOptions, Cluster, KafkaPipeline, KafkaPipelineOptions, LetterTopics, Retries, Silent,
};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::decision;

/// Consumes so many records in batches of this size; says how long it took from the first one on.
pub(crate) async fn consume(
    brokers: &str,
    topic: &str,
    group: &str,
    records: u32,
    batch: usize,
    url: &str,
) -> anyhow::Result<Duration> {
    let folder = tempfile::tempdir()?;
    let options = options(brokers, topic, group, batch, folder.path())?;
    let sink = Arc::new(Timed::new(url, records)?);
    let pipeline = KafkaPipeline::new(options, decision::decoder()?, sink.clone(), Arc::new(Silent))?;
    let stop = CancellationToken::new();
    let running = tokio::spawn(Arc::new(pipeline).run(stop.clone()));
    sink.all.notified().await;
    stop.cancel();
    running.await?;
    sink.took().context("nothing was stored")
}

fn options(
    brokers: &str,
    topic: &str,
    group: &str,
    batch: usize,
    folder: &std::path::Path,
) -> anyhow::Result<KafkaPipelineOptions> {
    let backoff = Backoff::new(Duration::from_secs(1), 2.0, Duration::from_secs(2))?;
    Ok(KafkaPipelineOptions {
        name: "bench".into(),
        cluster: Cluster::at(brokers),
        topic: topic.into(),
        group: group.into(),
        parking_group: format!("{group}-parking"),
        letters: LetterTopics {
            dlq: format!("{topic}-dlq"),
            parking: format!("{topic}-parking"),
            parking_dlq: format!("{topic}-parking-dlq"),
        },
        missing: Missing::Create,
        batch: BatchOptions {
            max_records: batch,
            max_bytes: 16 << 20,
            max_delay: Duration::from_millis(100),
        },
        retries: Retries { attempts: 2, backoff },
        parking: Retries { attempts: 5, backoff },
        workers: 2,
        publish_timeout: Duration::from_secs(10),
        folder: folder.to_owned(),
        folder_size: 64 << 20,
        grace: Duration::from_secs(5),
    })
}

/// A sink that notes when it began and when everything was there.
struct Timed {
    inner: PostgresSink,
    wanted: u64,
    stored: AtomicU64,
    times: Mutex<(Option<Instant>, Option<Instant>)>,
    all: Notify,
}

impl Timed {
    fn new(url: &str, records: u32) -> anyhow::Result<Self> {
        Ok(Self {
            inner: PostgresSink::new(url, decision::table()?, Duration::from_secs(30))?,
            wanted: records.into(),
            stored: AtomicU64::new(0),
            times: Mutex::default(),
            all: Notify::new(),
        })
    }

    fn took(&self) -> Option<Duration> {
        let times = self.times.lock().unwrap_or_else(PoisonError::into_inner);
        Some(times.1?.duration_since(times.0?))
    }
}

#[async_trait]
impl Sink for Timed {
    async fn write(&self, rows: &[Row<'_>]) -> Result<(), Failure> {
        self.inner.write(rows).await
    }

    async fn store(&self, rows: &[Row<'_>]) -> Stored {
        self.times.lock().unwrap_or_else(PoisonError::into_inner).0.get_or_insert_with(Instant::now);
        let stored = self.inner.store(rows).await;
        let many = (rows.len() - stored.poison.len() - stored.undecided.len()) as u64;
        if self.stored.fetch_add(many, Ordering::Relaxed) + many >= self.wanted {
            self.times.lock().unwrap_or_else(PoisonError::into_inner).1 = Some(Instant::now());
            self.all.notify_one();
        }
        stored
    }

    async fn probe(&self) -> Result<(), Failure> {
        self.inner.probe().await
    }
}
