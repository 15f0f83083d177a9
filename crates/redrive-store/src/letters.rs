//! Letters that redrive keeps itself: handed in by a service, or indexed from a topic.

use jiff::Timestamp;
use redrive_core::dead_letter::{DeadLetterQueue, Operator, Origin, PipelineKind, Status};
use redrive_core::event::{MAX_KEY, MAX_TYPE, Refused, WorkId, required, storable};
use redrive_core::failure::{Failure, clean};
use redrive_core::fingerprint::Fingerprint;
use redrive_core::history::History;
use redrive_core::state::LetterState;

use crate::act::{Act, Edit};
use crate::adoption::Plan;
use crate::batch::cut;
use crate::columns::{Columns, LeadingStatus};
use crate::database::Database;
use crate::dead_letters::{Actions, DeadLetters, Identity, dead_letter_queue};
use crate::dialect::Dialect;
use crate::error::{Error, again};
use crate::index::{Index, Left, Place, Reading};
use crate::insert::{Insert, Kind, OnConflict, chunks};
use crate::merge::merge;
use crate::queue::{Queue, work_store};
use crate::row::Times;
use crate::schema;
use crate::session::Session;
use crate::shape::{Dead, Done, Shape};
use crate::statement::{Names, Sql, Statement, sql};
use crate::value::{Column, Value};

/// A letter on its way in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewLetter {
    /// What makes it one and the same letter, such as `topic/3/42`: it comes in once.
    pub source: String,
    /// The type of the event.
    pub event_type: String,
    /// The key of the event.
    pub key: String,
    /// The body, byte for byte.
    pub payload: Vec<u8>,
    /// The headers, in order, byte for byte.
    pub headers: Vec<(String, Vec<u8>)>,
    /// Where it was.
    pub origin: Origin,
    /// Where to redrive it to: a target from the configuration, by name.
    pub target: Option<String>,
    /// What went wrong.
    pub failure: Failure,
    /// How many attempts failed.
    pub attempts: u32,
    /// When the first of them failed.
    pub first_failed_at: Timestamp,
    /// When the latest of them failed.
    pub failed_at: Timestamp,
}

impl NewLetter {
    /// About how many bytes it takes on its way; SQLite is told bytes in hex.
    fn size(&self) -> usize {
        let headers: usize = self.headers.iter().map(|(name, value)| name.len() + 4 * value.len()).sum();
        2 * self.payload.len() + headers
    }

    pub(crate) fn check(&self) -> Result<(), Refused> {
        required("source", &self.source, MAX_KEY)?;
        storable("event_type", &self.event_type, MAX_TYPE)?;
        storable("key", &self.key, MAX_KEY)?;
        storable("target", self.target.as_deref().unwrap_or_default(), MAX_KEY)
    }
}

/// The letters of one pipeline in redrive's own table, `redrive_letter`.
#[derive(Debug)]
pub struct Letters {
    database: Database,
    names: Names,
    insert: Insert,
    queue: Queue,
    identity: Identity,
    dead_letters: DeadLetters,
    /// Of letters that lie in topics.
    index: Index,
}

const SCHEMA: Sql = sql!(each "letters/schema.sql");
const COLUMNS: [(&str, Kind); 19] = [
    ("pipeline", Kind::Text),
    ("kind", Kind::Text),
    ("source", Kind::Text),
    ("event_type", Kind::Text),
    ("event_key", Kind::Text),
    ("payload", Kind::Bytes),
    ("headers", Kind::Text),
    ("origin", Kind::Text),
    ("target", Kind::Text),
    ("error_message", Kind::Text),
    ("error_class", Kind::Text),
    ("error_code", Kind::Text),
    ("error_kind", Kind::Text),
    ("fingerprint", Kind::Text),
    ("attempts", Kind::Int),
    ("history", Kind::Text),
    ("first_failed_at", Kind::Time),
    ("failed_at", Kind::Time),
    ("record_key", Kind::Text),
];

/// A letter on its way into the table.
#[derive(Clone, Copy)]
struct Entry<'a> {
    letter: &'a NewLetter,
    source: &'a str,
    /// Which record failed, of letters that lie in topics.
    record: Option<&'a str>,
}

impl Letters {
    /// The letters of this pipeline. Nothing is asked of the database yet.
    #[must_use]
    pub fn new(database: Database, pipeline: &str, kind: PipelineKind) -> Self {
        Self::of(database, pipeline, kind, None)
    }

    /// The letters of a pipeline that consumes this topic: only those that came from it can be redriven.
    #[must_use]
    pub fn of_topic(database: Database, pipeline: &str, topic: &str) -> Self {
        Self::of(database, pipeline, PipelineKind::Kafka, Some(topic))
    }

    fn of(database: Database, pipeline: &str, kind: PipelineKind, topic: Option<&str>) -> Self {
        let dialect = database.dialect();
        let home = topic.map_or_else(|| "%".to_owned(), |topic| format!("%\"topic\":\"{topic}\"%"));
        let foreign = format!(
            "its record did not come from topic {}, to which this pipeline redrives: redrive it where that topic is \
             consumed, or resolve it",
            topic.unwrap_or_default()
        );
        let names = Names::new(dialect)
            .with_table("table", "table_name", &database.own_table("redrive_letter"))
            .with("letters", &database.own_table("redrive_letter"))
            .with("letter_id", "id")
            .with_sql("source_key", if dialect == Dialect::MySql { "source_key" } else { "source" })
            .with_literal("pipeline", pipeline)
            .with_literal("home", &home)
            .with_literal("foreign", &foreign)
            .with_sql("scope", SCOPE)
            .with_sql("known", SCOPE);
        Self {
            insert: Insert::new(&names, dialect, "id", &COLUMNS, OnConflict::Skip),
            queue: Queue::new(database.clone(), &names, &shape(dialect, kind)),
            identity: Identity::new(&database, pipeline, kind, true),
            dead_letters: dead_letters(&database, &names, pipeline, kind),
            index: Index::new(&database, &names, pipeline),
            names,
            database,
        }
    }

    /// Makes the table if it is missing; for letters that lie in topics also those of their index.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached or refuses.
    pub async fn migrate(&self) -> Result<(), Error> {
        schema::migrate(&self.database, &self.names, &[self.names.text(SCHEMA)]).await?;
        if self.kind() == PipelineKind::Kafka {
            self.index.migrate(&self.database).await?;
        }
        Ok(())
    }

    /// What a migration would do; nothing is changed.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn plan(&self) -> Result<Plan, Error> {
        let plan = schema::plan_of(&self.database, &self.names, &[self.names.text(SCHEMA)]).await?;
        match self.kind() {
            PipelineKind::Kafka => Ok(plan.and(self.index.plan(&self.database).await?)),
            _ => Ok(plan),
        }
    }

    /// Takes letters in, all or none; one that is here already is left as it is. Returns how many
    /// were new.
    ///
    /// # Errors
    /// [`Error::Refused`] names the first letter that cannot be kept; none is stored then.
    pub async fn add(&self, letters: &[NewLetter]) -> Result<usize, Error> {
        for (item, letter) in letters.iter().enumerate() {
            letter.check().map_err(|source| Error::Refused { item, source })?;
        }
        let entry = |letter| Entry { letter, source: &letter.source, record: None };
        again(async || {
            let mut session = self.database.begin().await?;
            let added = self.insert_all(&mut session, letters.iter().map(entry).collect()).await?;
            session.commit().await?;
            Ok(added)
        })
        .await
    }

    /// Takes in what was read of topics, and remembers where to go on: all of it or nothing. A message that was taken in
    /// before is passed over, and one of a record that a letter waits for merges into that letter. A place moves forward
    /// only. Returns how many letters are new.
    ///
    /// # Errors
    /// [`Error::Refused`] names the first letter or place that cannot be kept.
    pub async fn add_read(&self, reading: &Reading) -> Result<usize, Error> {
        reading.check()?;
        again(async || {
            let mut session = self.database.begin().await?;
            let unread = self.index.unread(&mut session, reading).await?;
            let known = self.index.known(&mut session, &unread).await?;
            let merged = merge(&unread, known);
            let entries = merged.new.iter().map(|(read, source)| Entry {
                letter: &read.letter,
                source,
                record: Some(&read.record),
            });
            let added = self.insert_all(&mut session, entries.collect()).await?;
            self.index.keep(&mut session, &merged, &reading.next).await?;
            session.commit().await?;
            Ok(added)
        })
        .await
    }

    /// Where to go on reading, in each partition of which something was read.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn places(&self) -> Result<Vec<Place>, Error> {
        self.index.places(&self.database).await
    }

    /// A topic was made anew, and its offsets begin again: what was known of this partition is forgotten. Its
    /// letters stay as they are.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn begin_again(&self, topic: &str, partition: i32) -> Result<(), Error> {
        again(async || {
            let mut session = self.database.begin().await?;
            self.index.begin_again(&mut session, topic, partition).await?;
            session.commit().await
        })
        .await
    }

    /// Closes letters that wait and lie before this place of a parking lot, which is done with them; some at a
    /// time. Those that somebody has dealt with stay as they are.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn close_parked(&self, before: &Place, operator: &Operator, note: &str) -> Result<Left, Error> {
        let resolve = self.dead_letters.resolving();
        again(async || {
            let mut session = self.database.begin().await?;
            let left = self.index.close(&mut session, before, (resolve, operator, note)).await?;
            session.commit().await?;
            Ok(left)
        })
        .await
    }

    /// The text of the statement that finds what a parking lot is done with; for tests of its plan.
    #[doc(hidden)]
    #[must_use]
    pub fn done_statement(&self) -> String {
        self.index.done_statement()
    }

    async fn insert_all(&self, session: &mut Session, mut entries: Vec<Entry<'_>>) -> Result<usize, Error> {
        let mut added = 0;
        // In the order of the sources: two that hand the same letters in would otherwise wait for each other.
        entries.sort_by_key(|entry| entry.source);
        for chunk in chunks(&entries, |entry| entry.letter.size()) {
            added += self.insert.run(session, self.columns(chunk)).await?.len();
        }
        Ok(added)
    }

    /// The number of the letter from this source.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn number_of(&self, source: &str) -> Result<Option<WorkId>, Error> {
        let text = self.names.fill("SELECT t.id FROM {table} AS t WHERE {scope} AND t.{source_key} = $1");
        let statement = Statement::new(self.database.dialect(), &text);
        let rows = self.database.rows(&statement, vec![Value::Text(source.to_owned())]).await?;
        rows.first().map(|row| row.int(0).map(WorkId)).transpose()
    }

    /// Where a letter is now.
    ///
    /// # Errors
    /// [`Error`] when the store cannot be reached.
    pub async fn state(&self, letter: WorkId) -> Result<Option<LetterState>, Error> {
        let text = self.names.fill("SELECT t.state FROM {table} AS t WHERE {scope} AND t.id = $1");
        let statement = Statement::new(self.database.dialect(), &text);
        let rows = self.database.rows(&statement, vec![Value::Int(letter.0)]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let state = row.text(0)?;
        let states = [
            LetterState::Open,
            LetterState::Queued,
            LetterState::Sending,
            LetterState::Redriven,
            LetterState::Resolved,
            LetterState::Failed,
        ];
        Ok(states.into_iter().find(|known| known.column() == state))
    }

    fn columns(&self, entries: &[Entry<'_>]) -> Vec<Column> {
        let letters = || entries.iter().map(|entry| entry.letter);
        let texts = |of: &dyn Fn(&NewLetter) -> String| Column::Texts(letters().map(of).collect());
        let opt = |of: &dyn Fn(&NewLetter) -> Option<String>| Column::OptTexts(letters().map(of).collect());
        let pipeline = self.pipeline();
        let history = |letter: &NewLetter| History::default().with(letter.failure.clone(), letter.failed_at);
        vec![
            texts(&|_| pipeline.to_owned()),
            texts(&|_| self.kind().name().to_owned()),
            Column::Texts(entries.iter().map(|entry| entry.source.to_owned()).collect()),
            texts(&|letter| letter.event_type.clone()),
            texts(&|letter| letter.key.clone()),
            Column::Bytes(letters().map(|letter| letter.payload.clone()).collect()),
            texts(&|letter| serde_json::to_string(&letter.headers).unwrap_or_default()),
            texts(&|letter| serde_json::to_string(&letter.origin).unwrap_or_default()),
            opt(&|letter| letter.target.clone()),
            texts(&|letter| clean(&letter.failure.message)),
            texts(&|letter| letter.failure.class.name().to_owned()),
            opt(&|letter| letter.failure.code.as_ref().map(|code| cut(&code.to_string(), 100))),
            texts(&|letter| cut(&letter.failure.kind, 255)),
            texts(&|letter| Fingerprint::of(pipeline, &letter.event_type, &letter.failure).to_string()),
            Column::Ints(letters().map(|letter| i64::from(letter.attempts)).collect()),
            texts(&|letter| serde_json::to_string(&history(letter)).unwrap_or_default()),
            Column::Times(letters().map(|letter| letter.first_failed_at).collect()),
            Column::Times(letters().map(|letter| letter.failed_at).collect()),
            Column::OptTexts(entries.iter().map(|entry| entry.record.map(str::to_owned)).collect()),
        ]
    }
}

impl Letters {
    #[expect(clippy::unused_async, reason = "as the stores of tables that an application may have made")]
    async fn queue(&self) -> Result<&Queue, Error> {
        Ok(&self.queue)
    }

    #[expect(clippy::unused_async, reason = "as the stores of tables that an application may have made")]
    async fn dead_letters(&self) -> Result<&DeadLetters, Error> {
        Ok(&self.dead_letters)
    }

    /// The table is ours: it does not change.
    #[expect(clippy::unused_self, reason = "as the stores of tables that an application may have made")]
    const fn refused(&self) {}
}

work_store!(Letters);
dead_letter_queue!(Letters);

const SCOPE: &str = "t.pipeline = {pipeline}";
const WAITING: &str = "t.pipeline = {pipeline} AND t.state IN ('open', 'failed')";

const LEADS: [LeadingStatus; 4] = [
    leading(Status::Open, "t.state BETWEEN 'open' AND 'open'", "'open'"),
    leading(Status::Redriven, "t.state BETWEEN 'redriven' AND 'redriven'", "'redriven'"),
    leading(Status::Resolved, "t.state BETWEEN 'resolved' AND 'resolved'", "'resolved'"),
    leading(Status::Failed, "t.state BETWEEN 'failed' AND 'failed'", "'failed'"),
];

const fn leading(status: Status, condition: &'static str, value: &'static str) -> LeadingStatus {
    LeadingStatus { status, column: "t.state", condition, value: Some(value) }
}

/// Whoever hands a letter in says when it failed, and a topic may be read long after that. Numbers are in the order of
/// arrival: only the latest are looked at, so that this costs the same however many letters there are.
const ARRIVED: &str = "t.id IN (SELECT n.id FROM (SELECT l.id, l.created_at FROM {table} AS l \
     ORDER BY l.id DESC LIMIT 10000) AS n WHERE n.created_at >= {since})";

/// A letter that was handed in goes to the target that it names, any other to where it was: a record to the topic that the
/// pipeline consumes. What its headers say of another topic anybody may have written.
const HAS_WAY_BACK: &str =
    "(t.kind <> 'intake' OR t.target IS NOT NULL) AND (t.kind <> 'kafka' OR t.origin LIKE {home})";
const SENDABLE: &str = "t.pipeline = {pipeline} AND t.state IN ('open', 'failed') \
     AND (t.kind <> 'intake' OR t.target IS NOT NULL) AND (t.kind <> 'kafka' OR t.origin LIKE {home})";
/// Why a letter that has no way back is not redriven.
const NO_TARGET: &str = "CASE WHEN t.kind = 'intake' AND t.target IS NULL \
     THEN 'it was handed in without a target, so there is nowhere to redrive it to: deal with it and resolve it' \
     WHEN t.kind = 'kafka' AND t.origin NOT LIKE {home} THEN {foreign} END";

fn shape(dialect: Dialect, kind: PipelineKind) -> Shape {
    // A topic takes a record and says no more. A target handles what was handed in, or fails.
    let (retry, dead) = match kind {
        PipelineKind::Intake => (
            include_str!("../sql/letters/handed_in/retry.sql"),
            include_str!("../sql/letters/handed_in/dead.sql"),
        ),
        _ => (include_str!("../sql/letters/retry.sql"), include_str!("../sql/letters/dead.sql")),
    };
    Shape {
        id: "id",
        live: match dialect {
            Dialect::MySql => "e.pipeline = {pipeline} AND e.live = 1",
            Dialect::Postgres | Dialect::Sqlite => {
                "e.pipeline = {pipeline} AND e.state IN ('queued', 'sending')"
            }
        },
        leased: "e.state = 'sending'",
        held: "t.state = 'sending'",
        take: "interrupted = (t.state = 'sending'), state = 'sending'",
        order: "e.due_at, e.id",
        index: "_due",
        in_order: String::new(),
        work: "id, lease, due_at, id, event_type, target, event_key, payload, created_at, retry_count, NULL, \
               {interrupted}, history, 0",
        created: Times::Native,
        done: Done::Set(include_str!("../sql/letters/done.sql")),
        retry,
        release: include_str!("../sql/letters/release.sql"),
        dead: Dead::Set(dead),
    }
}

fn dead_letters(database: &Database, names: &Names, pipeline: &str, kind: PipelineKind) -> DeadLetters {
    let dialect = database.dialect();
    let columns = Columns {
        id: "t.id",
        event_type: "t.event_type".to_owned(),
        key: "t.event_key".to_owned(),
        payload: "t.payload".to_owned(),
        message: "t.error_message",
        class: "t.error_class",
        code: "t.error_code",
        kind: "t.error_kind",
        attempts: "t.attempts",
        failed_at: "t.failed_at",
        first_failed_at: "t.first_failed_at",
        times: Times::Native,
        redrive_count: "t.redrive_count",
        redrivable: HAS_WAY_BACK,
        fingerprint: "t.fingerprint",
        resolved_at: "t.resolved_at",
        headers: "t.headers",
        origin: "t.origin",
        target: "t.target",
        arrived_since: Some(ARRIVED),
        origin_id: "t.id",
        origin_table: "redrive_letter".to_owned(),
        // A topic takes a record, and says no more, unless it comes back as another letter; a handler has
        // done its work.
        outcome: "CASE WHEN t.state = 'redriven' AND t.kind = 'kafka' AND EXISTS (SELECT 1 FROM {table} AS again \
                  WHERE again.pipeline = t.pipeline AND again.failed_at >= t.failed_at AND again.id > t.id \
                  AND again.origin = t.origin) THEN 'failed' \
                  WHEN t.state = 'redriven' AND t.kind = 'kafka' THEN 'handed-over' \
                  WHEN t.state = 'redriven' THEN 'delivered' \
                  WHEN t.state = 'failed' OR t.retry_count > 0 THEN 'failed' ELSE 'pending' END",
        statuses: [
            (Status::Open, "t.state = 'open'"),
            (Status::Retrying, "t.state IN ('queued', 'sending')"),
            (Status::Redriven, "t.state = 'redriven'"),
            (Status::Resolved, "t.state = 'resolved'"),
            (Status::Failed, "t.state = 'failed'"),
        ],
        leads: &LEADS,
    };
    let redrive = Act::update_once(names, dialect, SENDABLE, include_str!("../sql/letters/redrive.sql"));
    let actions = Actions {
        redrive: redrive.explained(names, NO_TARGET),
        edit: Edit::of_bytes(names, "payload"),
        balance: include_str!("../sql/letters/balance.sql"),
        resolve: Act::update(names, dialect, WAITING, include_str!("../sql/letters/resolve.sql")),
        settled: "1 = 1",
        outcomes: None,
        redelivery: sql!("letters/redelivery.sql"),
    };
    DeadLetters::new(database.clone(), names.clone(), pipeline.to_owned(), kind, columns, actions)
}
