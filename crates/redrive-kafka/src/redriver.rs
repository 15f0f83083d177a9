//! The redriver: letters of the index go back to the topic they came from.
//!
//! With their key, value, headers and partition as they were, plus how often they were redriven and who
//! they are: a redriven record is still the record that was first produced, so a sink that has it already
//! takes it for stored. A [seal](crate::seal) proves that it is one of ours.

use std::sync::Arc;

use async_trait::async_trait;
use redrive_core::dead_letter::{DeadLetterQueue, Letter, Origin};
use redrive_core::event::Event;
use redrive_core::failure::Failure;
use redrive_core::handler::Handler;

use crate::headers::{self, REDRIVE_COUNT};
use crate::letter::restored;
use crate::outgoing::Outgoing;
use crate::publisher::Publisher;
use crate::record::{Header, Position};
use crate::seal::Seal;

const MAX_BATCH: usize = 100;

/// Publishes letters to the topic they came from.
pub struct Redriver {
    letters: Arc<dyn DeadLetterQueue>,
    publisher: Arc<Publisher>,
    topic: String,
    seal: Seal,
}

impl Redriver {
    /// A redriver of letters that came from this topic, with the seal of the pipeline that consumes it.
    #[must_use]
    pub fn new(
        letters: Arc<dyn DeadLetterQueue>,
        publisher: Arc<Publisher>,
        topic: &str,
        seal: Seal,
    ) -> Self {
        Self { letters, publisher, topic: topic.to_owned(), seal }
    }

    /// Nothing was confirmed, though Kafka answers: nobody else would replace the producer while no letter is on disk.
    async fn replace_stuck(&self, published: &[Result<(), Failure>]) {
        if let Some(Err(failure)) = published.first()
            && published.iter().all(Result::is_err)
            && failure.class.is_retryable()
            && self.publisher.is_answered(&self.topic).await
        {
            self.publisher.replace_stuck(failure);
        }
    }

    async fn outgoing(&self, event: &Event) -> Result<Outgoing, Failure> {
        let id = event.id.to_string();
        let found = self.letters.get(&id).await;
        let found = found.map_err(|error| Failure::transient("Store", error.to_string()))?;
        let letter = found.ok_or_else(|| Failure::permanent("Gone", format!("letter {id} was purged")))?;
        self.back(letter)
    }

    fn back(&self, letter: Letter) -> Result<Outgoing, Failure> {
        let Origin::Topic { topic, partition, offset } = letter.origin else {
            return Err(Failure::permanent("NoOrigin", "the letter did not come from a topic"));
        };
        // A header names the topic, and anybody may have written it.
        if topic != self.topic {
            let message = format!(
                "the letter says that it came from topic {topic}; this pipeline redrives to {} only",
                self.topic
            );
            return Err(Failure::permanent("ForeignOrigin", message));
        }
        let was = restored(letter.payload, letter.headers);
        let count = |header: &&Header| header.name == REDRIVE_COUNT;
        let redrives = was.headers.iter().rev().find(count).and_then(Header::text);
        let redrives: u32 = redrives.and_then(|text| text.parse().ok()).unwrap_or(0);
        let mut headers = headers::original(&was.headers);
        headers.push(Header::new(REDRIVE_COUNT, redrives.saturating_add(1).to_string()));
        let origin = Position::new(topic.as_str(), partition, offset);
        headers.extend(self.seal.headers(&origin, was.key.as_deref(), was.value.as_deref()));
        Ok(Outgoing {
            topic,
            partition: Some(partition),
            timestamp: None,
            key: was.key,
            value: was.value,
            headers,
        })
    }
}

#[async_trait]
impl Handler for Redriver {
    async fn handle(&self, batch: &[Event]) -> Vec<Result<(), Failure>> {
        let mut results = Vec::with_capacity(batch.len());
        let mut outgoing = Vec::with_capacity(batch.len());
        for event in batch {
            let made = self.outgoing(event).await;
            results.push(made.map(|record| outgoing.push(record)));
        }
        let published = self.publisher.publish(&outgoing).await;
        self.replace_stuck(&published).await;
        let mut published = published.into_iter();
        let settled = |result: Result<(), Failure>| result.and_then(|()| published.next().unwrap_or(Ok(())));
        results.into_iter().map(settled).collect()
    }

    fn max_batch(&self) -> usize {
        MAX_BATCH
    }
}
