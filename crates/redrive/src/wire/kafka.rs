//! A Kafka pipeline from its settings: the consumers, the index of their letters, and the way back.

#[cfg(feature = "kafka")]
pub(super) use with::launch;
#[cfg(feature = "kafka")]
pub(crate) use with::{refused, refused_handler};
#[cfg(not(feature = "kafka"))]
pub(super) use without::launch;
#[cfg(not(feature = "kafka"))]
pub(crate) use without::{refused, refused_handler};

#[cfg(not(feature = "kafka"))]
mod without {
    use redrive::config::{KafkaConfig, KafkaHandler};
    use redrive_store::Letters;

    use crate::wire::Launch;
    use crate::wire::plant::Surroundings;
    use crate::wire::stores::Wired;

    /// Nothing can be asked of librdkafka in this build.
    pub(crate) const fn refused(_: &KafkaConfig) -> Option<String> {
        None
    }

    /// The same of a handler.
    pub(crate) const fn refused_handler(_: &KafkaHandler) -> Option<String> {
        None
    }

    pub(crate) fn launch(
        _: &Wired<'_, KafkaConfig, Letters>,
        _: &Surroundings<'_>,
    ) -> anyhow::Result<Launch> {
        anyhow::bail!("kafka pipelines are not part of this build: build with the feature `kafka`")
    }
}

#[cfg(feature = "kafka")]
mod with {
    use std::sync::Arc;
    use std::time::Duration;

    use async_trait::async_trait;
    use jiff::Timestamp;
    use redrive::config::{
        Backend, Brokers, CreateTopics, KafkaConfig, KafkaHandler, KafkaPlace, KafkaPosition, KafkaSink,
        Secret,
    };
    use redrive_core::backoff::{Backoff, Jitter};
    use redrive_core::dead_letter::PipelineKind;
    use redrive_core::event::Event;
    use redrive_core::failure::Failure;
    use redrive_core::fingerprint::Fingerprint;
    use redrive_core::handler::Handler;
    use redrive_core::policy::Policy;
    use redrive_core::trouble::{Reason, Trouble};
    use redrive_engine::alerts::{AlertService, DeadLetterAlert, HandlerDown, HandlerUp, Inert};
    use redrive_engine::{Pace, Pipeline, Route, Routes, Switch, findings};
    use redrive_kafka::decode::Decoder;
    use redrive_kafka::index::{IndexOptions, index};
    use redrive_kafka::plan::Destination;
    use redrive_kafka::redriver::Redriver;
    use redrive_kafka::refused::index_refused;
    use redrive_kafka::seal::Seal;
    use redrive_kafka::sink::{
        HttpSink, HttpSinkOptions, MySqlSink, PostgresSink, Sink, SinkTable, SqliteSink,
    };
    use redrive_kafka::topics::Missing;
    use redrive_kafka::{
        BatchOptions, Cluster, KafkaPipeline, KafkaPipelineOptions, LetterTopics, NewLetterNotice, Observer,
        RefusedSettings, Retries,
    };
    use redrive_server::Gate;
    use redrive_spool::Journal;
    use redrive_store::Letters;
    use tokio_util::sync::CancellationToken;

    use crate::retention::Retention;
    use crate::wire::launch::Beside;
    use crate::wire::plant::Surroundings;
    use crate::wire::stores::Wired;
    use crate::wire::{Launch, pace};

    /// A batch holds at most so many bytes, however few records that are.
    const MAX_BATCH_BYTES: usize = 16 << 20;
    /// How often a redrive is tried that fails for a reason that may pass.
    const REDRIVE_ATTEMPTS: u32 = 10;

    pub(crate) fn launch(
        wired: &Wired<'_, KafkaConfig, Letters>,
        surroundings: &Surroundings<'_>,
    ) -> anyhow::Result<Launch> {
        let Wired { config, store, .. } = wired;
        let switch = Switch::default();
        let kafka = consumers(config, surroundings, &switch);
        let (redriver, beside): (Arc<dyn Handler>, Arc<dyn Beside>) = match kafka {
            Ok(kafka) => {
                let (publisher, topic) = (Arc::clone(kafka.publisher()), config.topic.as_str());
                let redriver = Redriver::new(store.clone(), publisher, topic, seal(config));
                (Arc::new(redriver), Arc::new(Consumers { kafka, letters: Arc::clone(store) }))
            }
            // Its letters are there, and the other pipelines work.
            Err(error) => {
                let refused = Arc::new(Refused(format!("[kafka.{}] cannot start: {error:#}", config.name)));
                tracing::error!(pipeline = %config.name, error = %refused.0, "the pipeline does not work");
                (Arc::clone(&refused) as Arc<dyn Handler>, refused)
            }
        };
        let backoff = Backoff::new(Duration::from_secs(1), 2.0, Duration::from_secs(60))?;
        let policy = Policy::new(REDRIVE_ATTEMPTS, backoff);
        let pipeline = Pipeline::new(&config.name, PipelineKind::Kafka, store.clone(), store.clone(), policy)
            .handled_by(Routes::All(Route::new("redrive", redriver)))
            .at(Pace {
                poll_interval: Duration::from_secs(1),
                handler_timeout: pace::patience([config.publish_timeout]),
                grace: surroundings.grace,
                ..Pace::default()
            })
            .alerting(Arc::clone(&surroundings.alerts))
            .switched_by(switch);
        Ok(Launch {
            pipeline: Arc::new(pipeline),
            persister: None,
            watch: surroundings.watch(config.alert_threshold.get()),
            rules: Vec::new(),
            retention: config
                .keep_resolved
                .map(|keep| Retention::of_closed(store.clone(), keep))
                .into_iter()
                .collect(),
            gate: Gate::default(),
            beside: Some(beside),
        })
    }

    fn consumers(
        config: &KafkaConfig,
        surroundings: &Surroundings<'_>,
        switch: &Switch,
    ) -> anyhow::Result<Arc<KafkaPipeline>> {
        cluster(&config.brokers, &config.properties).check()?;
        let observer = Alerting { pipeline: config.name.clone(), alerts: Arc::clone(&surroundings.alerts) };
        let kafka = KafkaPipeline::new(
            options(config, surroundings.grace)?,
            Decoder::new(config.sink.columns.clone()),
            sink(&config.sink)?,
            Arc::new(observer),
        )?;
        Ok(Arc::new(kafka.sealed_by(seal(config)).paused_by(switch.follow())))
    }

    /// What librdkafka does not accept of these settings.
    pub(crate) fn refused(config: &KafkaConfig) -> Option<RefusedSettings> {
        cluster(&config.brokers, &config.properties).check().err()
    }

    /// The same of a handler.
    pub(crate) fn refused_handler(handler: &KafkaHandler) -> Option<RefusedSettings> {
        cluster(&handler.brokers, &handler.properties).check().err()
    }

    /// The settings cannot be used: nothing is consumed, and nothing is redriven.
    struct Refused(String);

    #[async_trait]
    impl Beside for Refused {
        async fn run(self: Arc<Self>, stop: CancellationToken) {
            stop.cancelled().await;
        }

        fn health(&self) -> Result<(), Trouble> {
            Err(Trouble::new(Reason::KafkaUnavailable, self.0.clone()))
        }
    }

    #[async_trait]
    impl Handler for Refused {
        async fn handle(&self, batch: &[Event]) -> Vec<Result<(), Failure>> {
            batch.iter().map(|_| Err(Failure::permanent("Settings", self.0.clone()))).collect()
        }
    }

    /// The consumers of a pipeline, and the index of what they wrote.
    struct Consumers {
        kafka: Arc<KafkaPipeline>,
        letters: Arc<Letters>,
    }

    #[async_trait]
    impl Beside for Consumers {
        async fn run(self: Arc<Self>, stop: CancellationToken) {
            let options = self.kafka.options();
            let index_options = IndexOptions {
                pipeline: options.name.clone(),
                cluster: options.cluster.clone(),
                topics: options.letters.clone(),
                parking_group: options.parking_group.clone(),
            };
            let health = self.kafka.health().clone();
            let indexed = index(index_options, Arc::clone(&self.letters), health, stop.clone());
            let refused = index_refused(Arc::clone(&self.kafka), Arc::clone(&self.letters), stop.clone());
            tokio::join!(Arc::clone(&self.kafka).run(stop), indexed, refused);
        }

        fn health(&self) -> Result<(), Trouble> {
            self.kafka.health().check()
        }
    }

    /// Tells people what the consumers did.
    struct Alerting {
        pipeline: String,
        alerts: Arc<dyn AlertService>,
    }

    impl Observer for Alerting {
        fn letter(&self, letter: &NewLetterNotice<'_>) {
            let NewLetterNotice { position, key, destination, topic, failure, attempts } = letter;
            let pipeline = &self.pipeline;
            if *destination == Destination::Parking {
                tracing::debug!(pipeline, %position, topic, error = %failure, "parked");
                return;
            }
            tracing::warn!(pipeline, %position, topic, attempts, error = %failure, "dead letter");
            self.alerts.dead_letter(DeadLetterAlert {
                pipeline: Inert::new(pipeline),
                event_id: Inert::new(&position.to_string()),
                event_type: Inert::new(topic),
                aggregate_type: Inert::new(&position.topic),
                aggregate_id: Inert::new(key),
                retry_count: attempts.saturating_sub(1),
                error: DeadLetterAlert::error_of(failure),
                failed_at: Timestamp::now(),
                fingerprint: Fingerprint::of(pipeline, topic, failure),
            });
        }

        fn opened(&self, journal: &Journal) {
            findings::tell(&self.pipeline, journal, &*self.alerts);
        }

        fn down(&self, part: &str, error: &str) {
            tracing::warn!(pipeline = %self.pipeline, part, error, "down");
            self.alerts.handler_down(HandlerDown {
                pipeline: Inert::new(&self.pipeline),
                handler: Inert::new(part),
                error: Inert::new(error),
            });
        }

        fn up(&self, part: &str) {
            tracing::info!(pipeline = %self.pipeline, part, "back");
            let (pipeline, handler) = (Inert::new(&self.pipeline), Inert::new(part));
            self.alerts.handler_up(HandlerUp { pipeline, handler });
        }
    }

    fn cluster(brokers: &Brokers, properties: &[(String, Secret)]) -> Cluster {
        let exposed = |(key, value): &(String, Secret)| (key.clone(), value.expose().to_owned());
        Cluster { brokers: brokers.as_str().to_owned(), properties: properties.iter().map(exposed).collect() }
    }

    fn options(config: &KafkaConfig, grace: Duration) -> anyhow::Result<KafkaPipelineOptions> {
        let topic = config.topic.as_str().to_owned();
        Ok(KafkaPipelineOptions {
            name: config.name.clone(),
            cluster: cluster(&config.brokers, &config.properties),
            group: config.group.clone(),
            parking_group: config.parking.group.clone(),
            letters: LetterTopics {
                dlq: format!("{topic}{}", config.dlq_suffix),
                parking: format!("{topic}{}", config.parking_suffix),
                parking_dlq: format!("{topic}{}", config.parking_dlq_suffix),
            },
            topic,
            missing: match config.create_topics {
                CreateTopics::Auto => Missing::Create,
                CreateTopics::Never => Missing::Refuse,
            },
            batch: BatchOptions {
                max_records: config.batch.max_records.get() as usize,
                max_bytes: MAX_BATCH_BYTES,
                max_delay: config.batch.max_delay,
            },
            retries: Retries {
                attempts: config.retry.attempts,
                // Exactly as configured: a lane waits alone, so there is nobody to be spread from.
                backoff: pace::backoff(&config.retry.backoff)?.with_jitter(Jitter::None),
            },
            parking: Retries {
                attempts: config.parking.retry.attempts,
                backoff: pace::backoff(&config.parking.retry.backoff)?,
            },
            workers: config.workers.get() as usize,
            publish_timeout: config.publish_timeout,
            folder: config.fallback.dir.clone(),
            folder_size: config.fallback.max_size.bytes(),
            grace: grace.min(Duration::from_secs(10)),
        })
    }

    /// Of everything in the settings that producers need not know: all instances have the same.
    fn seal(config: &KafkaConfig) -> Seal {
        let mut secrets = vec![config.topic.as_str(), config.group.as_str()];
        secrets.extend(config.properties.iter().flat_map(|(name, value)| [name.as_str(), value.expose()]));
        match &config.sink.place {
            KafkaPlace::Table { database, .. } => secrets.push(database.expose()),
            KafkaPlace::Http { url, headers } => {
                secrets.push(url.as_url().as_str());
                secrets.extend(headers.iter().flat_map(|(name, value)| [name.as_str(), value.expose()]));
            }
        }
        Seal::from_secrets(secrets)
    }

    fn sink(sink: &KafkaSink) -> anyhow::Result<Arc<dyn Sink>> {
        let columns: Vec<&str> = sink.columns.iter().map(|column| column.name.as_str()).collect();
        let (database, table, position) = match &sink.place {
            KafkaPlace::Table { database, table, position } => (database, table, position),
            KafkaPlace::Http { url, headers } => {
                let options = HttpSinkOptions {
                    url: url.as_url().to_string(),
                    timeout: sink.timeout,
                    headers: headers
                        .iter()
                        .map(|(name, value)| (name.clone(), value.expose().to_owned()))
                        .collect(),
                };
                let columns = columns.into_iter().map(str::to_owned).collect();
                return Ok(Arc::new(HttpSink::new(&options, columns).map_err(anyhow::Error::msg)?));
            }
        };
        let KafkaPosition { topic, partition, offset } = position;
        let table = SinkTable::new(table.as_str(), &columns)?.with_position(
            topic.as_str(),
            partition.as_str(),
            offset.as_str(),
        )?;
        let (url, timeout) = (database.expose(), sink.timeout);
        Ok(match database.backend() {
            Backend::Postgres => Arc::new(PostgresSink::new(url, table, timeout)?),
            Backend::MySql => Arc::new(MySqlSink::new(url, table, timeout)?),
            Backend::Sqlite => Arc::new(SqliteSink::new(url, table, timeout)?),
        })
    }
}
