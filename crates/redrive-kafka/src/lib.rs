//! The Kafka pipeline of redrive: records of a topic are stored in batches; poison goes to a dead-letter
//! topic, and what a database cannot take right now to a parking lot.
//!
//! | module | is |
//! |---|---|
//! | [`record`], [`headers`] | a record byte for byte; what a dead letter says about itself |
//! | [`seal`] | proof that a redriven record is the one it says it is |
//! | [`mod@column`], [`decode`], [`row`] | from a record to a row, or a failure with path and reason |
//! | [`plan`] | what to park and what to bury; pure |
//! | [`sink`] | where rows go: Postgres, MySQL, SQLite, HTTP, or yours |
//! | `consumer`, `assignment`, `lane`, `writer` | the thread that polls, its partitions, a lane for each, what a lane does with a batch |
//! | [`publisher`], [`ladder`], [`outgoing`] | letters to topics, and to disk while Kafka is away |
//! | [`index`] (with `place`), [`letter`], [`redriver`] | letters in topics, searchable in redrive's own store, and back again |
//! | [`pipeline`] | all of it together |
//!
//! **Promise.** An offset is committed only after every record before it is stored, in a topic of letters,
//! or durable on this disk. A crash between any two lines loses nothing; a record that is read again is
//! stored once, by its topic, partition and offset, and a letter that is published again is one letter for
//! the index.

mod assignment;
mod client;
mod consumer;
mod defect;
mod exception;
mod health;
mod lag;
mod lane;
mod observer;
mod pause;
mod place;
mod writer;

pub mod decode;
pub mod error_name;
pub mod headers;
pub mod index;
pub mod ladder;
pub mod letter;
pub mod outgoing;
pub mod pipeline;
pub mod plan;
pub mod publisher;
pub mod record;
pub mod redriver;
pub mod refused;
pub mod row;
pub mod seal;
pub mod settings;
pub mod sink;
pub mod topics;

pub use redrive_core::column;

pub use client::{Cluster, PARTITIONER, failure};
pub use health::Health;
pub use lane::BatchOptions;
pub use observer::{NewLetterNotice, Observer, Silent};
pub use pipeline::{KafkaPipeline, KafkaPipelineOptions};
pub use settings::RefusedSettings;
pub use writer::{LetterTopics, Retries};
