//! Letters that Kafka refuses lie on this disk: they are in the store, too, so that they are listed and counted.
//!
//! They are known as the index knows them ([`letter`]): once a topic takes such a letter, its message merges into the
//! letter that is here. A letter that is read again at the next start is the same one, whatever became of it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use redrive_spool::journal::{Reader, Record as Entry};
use redrive_store::{Letters, ReadLetter, Reading};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::letter::letter;
use crate::outgoing::Outgoing;
use crate::pipeline::KafkaPipeline;
use crate::record::{Position, Record};

/// How many are read at a time, and how many bytes.
const CHUNK: usize = 100;
const CHUNK_BYTES: usize = 8 << 20;
/// The pause before what failed is tried again.
const PAUSE: Duration = Duration::from_secs(2);
/// What the store says of where such a letter lies.
const ON_DISK: &str = "redrive:on-disk";

/// A journal of refused letters, as this reads it.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) reader: Reader,
    pub(crate) dir: PathBuf,
}

/// Takes letters that Kafka refused into the store until it is told to stop.
pub async fn index_refused(kafka: Arc<KafkaPipeline>, letters: Arc<Letters>, stop: CancellationToken) {
    let _ = stop.run_until_cancelled(follow(&kafka, &letters)).await;
}

async fn follow(kafka: &KafkaPipeline, letters: &Letters) {
    let Refused { mut reader, dir } = opened(kafka).await;
    let pipeline = &kafka.options().name;
    loop {
        reader.wait().await;
        match reader.next(CHUNK, CHUNK_BYTES).await {
            Ok(entries) => {
                let letters_read = entries.into_iter().filter_map(|entry| of_entry(entry, &dir)).collect();
                let reading = Reading { letters: letters_read, next: Vec::new() };
                while let Err(error) = letters.add_read(&reading).await {
                    tracing::warn!(pipeline, %error, "letters on disk could not be indexed");
                    sleep(PAUSE).await;
                }
            }
            Err(error) => {
                tracing::warn!(pipeline, %error, "letters on disk could not be read");
                sleep(PAUSE).await;
            }
        }
    }
}

async fn opened(kafka: &KafkaPipeline) -> Refused {
    loop {
        if let Some(refused) = kafka.refused() {
            return refused;
        }
        sleep(PAUSE).await;
    }
}

/// Nothing for an entry that is no letter: that is reported by whoever tries to publish it.
fn of_entry(entry: Entry, dir: &std::path::Path) -> Option<ReadLetter> {
    let outgoing = Outgoing::decode(entry.payload).ok()?;
    let offset = i64::try_from(entry.position.0).unwrap_or(i64::MAX);
    let record = Record {
        position: Position::new(outgoing.topic, -1, offset),
        timestamp: None,
        key: outgoing.key,
        value: outgoing.value,
        headers: outgoing.headers,
    };
    let mut read = letter(&record, false);
    read.letter.headers.push((ON_DISK.to_owned(), dir.display().to_string().into_bytes()));
    Some(read)
}
