//! How far topics of letters are read, and which of those letters lie in a parking lot.
//!
//! Both are in the database that has the letters, and change in their transaction: a place says that every letter
//! before it is *here*. A database that is new, or that an older copy was put back in place of, has no place or an
//! earlier one, and gets what it lacks.
//!
//! A message is taken in once: who reads it holds the place of its partition, and what lies before that was here
//! already. What it is then, a new letter or one with a letter that is here, [`crate::merge`] decides.
//!
//! Parked letters have a table of their own beside the letters: it has rows only while a parking lot has work, it
//! names the topic in full, and reading a topic again completes it for letters that are here already. Nobody has to
//! remember them in memory.

use std::collections::{BTreeMap, BTreeSet};

use redrive_core::dead_letter::Operator;
use redrive_core::event::{Refused, required};
use redrive_core::state::LetterState;

use crate::act::{Act, rows};
use crate::adoption::Plan;
use crate::database::Database;
use crate::error::Error;
use crate::insert::{Insert, Kind, OnConflict};
use crate::letters::NewLetter;
use crate::merge::{Found, Known, Merged};
use crate::row::Row;
use crate::schema;
use crate::session::Session;
use crate::statement::{Names, Sql, Statement, sql};
use crate::value::{Column, Value};

/// A place in a partition of a topic.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The offset.
    pub offset: i64,
}

impl Place {
    /// This place.
    #[must_use]
    pub fn new(topic: &str, partition: i32, offset: i64) -> Self {
        Self { topic: topic.to_owned(), partition, offset }
    }
}

/// A letter as a message of a topic is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadLetter {
    /// The letter. Its source is the one that the first version gave it: letters of that time are known by it.
    pub letter: NewLetter,
    /// Where the message lies.
    pub at: Place,
    /// Which record failed, and for whom: `group:topic/3/42`, at most [`MAX_RECORD`] characters.
    pub record: String,
    /// When that was written, in milliseconds.
    pub written: Option<i64>,
    /// How often it was redriven.
    pub redrives: u32,
    /// Whether the message lies in a parking lot.
    pub is_parked: bool,
}

/// The longest name of a record.
pub const MAX_RECORD: usize = 150;

/// What was read of topics: it is kept as a whole or not at all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reading {
    /// The messages, in the order of their partitions.
    pub letters: Vec<ReadLetter>,
    /// Where to go on, in each partition that was read.
    pub next: Vec<Place>,
}

impl Reading {
    pub(crate) fn check(&self) -> Result<(), Error> {
        let refused = |item| move |source| Error::Refused { item, source };
        for (item, place) in self.next.iter().enumerate() {
            check_topic(&place.topic).map_err(refused(item))?;
        }
        for (item, letter) in self.letters.iter().enumerate() {
            check_topic(&letter.at.topic).map_err(refused(item))?;
            required("record", &letter.record, MAX_RECORD).map_err(refused(item))?;
            letter.letter.check().map_err(refused(item))?;
        }
        Ok(())
    }
}

/// What is left of a partition of a parking lot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// Perhaps more letters that it is done with: ask again.
    More,
    /// Letters that it is not done with.
    Waiting,
    /// No letter.
    Nothing,
}

/// The longest name of a topic that Kafka takes.
const MAX_TOPIC: usize = 249;

fn check_topic(topic: &str) -> Result<(), Refused> {
    required("topic", topic, MAX_TOPIC)
}

/// The most letters that are closed at a time: a statement must not keep others waiting for long.
const PORTION: usize = 500;

const SCHEMA: Sql = sql!(each "index/schema.sql");
const PARKED: [(&str, Kind); 5] = [
    ("pipeline", Kind::Text),
    ("topic", Kind::Text),
    ("partition_id", Kind::Int),
    ("record_offset", Kind::Int),
    ("source", Kind::Text),
];

/// The tables `redrive_index_place` and `redrive_parked_letter`, for one pipeline.
#[derive(Debug)]
pub(crate) struct Index {
    names: Names,
    pipeline: String,
    park: Insert,
    places: Statement,
    hold: Statement,
    advance: Statement,
    found: [Statement; 2],
    link: Statement,
    done: Statement,
    forget: Statement,
    waiting: Statement,
    begin_again: [Statement; 2],
}

impl Index {
    /// The index of the letters that `names` names.
    pub(crate) fn new(database: &Database, names: &Names, pipeline: &str) -> Self {
        let (dialect, parked) = (database.dialect(), database.own_table("redrive_parked_letter"));
        let names = names
            .clone()
            .with("places", &database.own_table("redrive_index_place"))
            .with_table("parked", "parked_name", &parked)
            .with_sql("portion", &PORTION.to_string());
        let of_parked = Names::new(dialect).with("table", &parked);
        Self {
            pipeline: pipeline.to_owned(),
            park: Insert::new(&of_parked, dialect, "id", &PARKED, OnConflict::Skip),
            places: names.statement(sql!("index/places.sql")),
            hold: names.statement(sql!(each "index/hold.sql")),
            advance: names.statement(sql!(each "index/move.sql")),
            found: ["record_key", "{source_key}"]
                .map(|by| names.clone().with_sql("by", by).statement(sql!(each "index/found.sql"))),
            link: names.statement(sql!(each "index/link.sql")),
            done: names.statement(sql!("index/done.sql")),
            forget: names.statement(sql!(each "index/forget.sql")),
            waiting: names.statement(sql!("index/waiting.sql")),
            begin_again: [
                names.statement(sql!("index/begin_again.sql")),
                names.statement(sql!("index/begin_again_parked.sql")),
            ],
            names,
        }
    }

    pub(crate) async fn migrate(&self, database: &Database) -> Result<(), Error> {
        schema::migrate(database, &self.names, &[self.names.text(SCHEMA)]).await
    }

    pub(crate) async fn plan(&self, database: &Database) -> Result<Plan, Error> {
        schema::plan_of(database, &self.names, &[self.names.text(SCHEMA)]).await
    }

    pub(crate) async fn places(&self, database: &Database) -> Result<Vec<Place>, Error> {
        let rows = database.rows(&self.places, Vec::new()).await?;
        rows.iter().map(place).collect()
    }

    /// The messages of this reading that nobody has read yet. Others who read the same wait for the end of this
    /// transaction: of two that read a message one takes it in.
    pub(crate) async fn unread<'a>(
        &self,
        session: &mut Session,
        reading: &'a Reading,
    ) -> Result<Vec<&'a ReadLetter>, Error> {
        let places = furthest(&reading.next);
        if places.is_empty() {
            return Ok(reading.letters.iter().collect());
        }
        let [topics, partitions, _] = columns_of(&places);
        session.run(&self.hold, vec![Value::Rows(vec![topics, partitions])]).await?;
        let rows = session.rows(&self.places, Vec::new()).await?;
        let next: BTreeMap<(String, i32), i64> = rows
            .iter()
            .map(|row| place(row).map(|place| ((place.topic, place.partition), place.offset)))
            .collect::<Result<_, _>>()?;
        let is_unread = |letter: &&ReadLetter| {
            let read = next.get(&(letter.at.topic.clone(), letter.at.partition));
            read.is_none_or(|next| letter.at.offset >= *next)
        };
        Ok(reading.letters.iter().filter(is_unread).collect())
    }

    /// The letters that are here of the records of these messages.
    pub(crate) async fn known(&self, session: &mut Session, read: &[&ReadLetter]) -> Result<Known, Error> {
        let mut known = Known::default();
        let records = read.iter().map(|letter| letter.record.as_str()).collect();
        for (record, found) in self.found(session, 0, records).await? {
            known.by_record.entry(record).or_default().push(found);
        }
        let sources = read.iter().map(|letter| letter.letter.source.as_str()).collect();
        known.by_source.extend(self.found(session, 1, sources).await?);
        Ok(known)
    }

    async fn found(
        &self,
        session: &mut Session,
        by: usize,
        names: BTreeSet<&str>,
    ) -> Result<Vec<(String, Found)>, Error> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let names = Column::Texts(names.into_iter().map(str::to_owned).collect());
        let rows = session.rows(&self.found[by], vec![Value::Rows(vec![names])]).await?;
        let is_open = |state: String| {
            ![LetterState::Redriven, LetterState::Resolved].iter().any(|closed| closed.column() == state)
        };
        let found =
            |row: &Row| Ok((row.text(0)?, Found { source: row.text(1)?, is_open: is_open(row.text(2)?) }));
        rows.iter().map(found).collect()
    }

    /// Writes down what was read, as part of the transaction that stores its letters.
    pub(crate) async fn keep(
        &self,
        session: &mut Session,
        merged: &Merged<'_>,
        next: &[Place],
    ) -> Result<(), Error> {
        if !merged.links.is_empty() {
            let (letters, previous) = merged.links.iter().cloned().unzip();
            let links = Value::Rows(vec![Column::Texts(letters), Column::Texts(previous)]);
            session.run(&self.link, vec![links]).await?;
        }
        let mut parked: Vec<&(String, &Place)> = merged.parked.iter().collect();
        // Always in the same order: two that read the same topic would otherwise wait for each other.
        parked.sort_by_key(|(_, at)| *at);
        for chunk in parked.chunks(PORTION) {
            self.park.run(session, self.columns(chunk)).await?;
        }
        let places = furthest(next);
        if !places.is_empty() {
            session.run(&self.advance, vec![Value::Rows(columns_of(&places).to_vec())]).await?;
        }
        Ok(())
    }

    /// Closes a portion of the letters before this place that still wait.
    pub(crate) async fn close(
        &self,
        session: &mut Session,
        before: &Place,
        (resolve, operator, note): (&Act, &Operator, &str),
    ) -> Result<Left, Error> {
        let partition = [Value::Text(before.topic.clone()), Value::Int(before.partition.into())];
        let mut values = partition.to_vec();
        values.push(Value::Int(before.offset));
        let found = session.rows(&self.done, values).await?;
        // A letter that was purged has no number any more.
        let letters = found.iter().filter_map(|row| row.opt_int(1).transpose()).collect::<Result<_, _>>()?;
        resolve.run_in(session, &letters, operator, note).await?;
        if !found.is_empty() {
            let done = found.iter().map(|row| row.int(0)).collect::<Result<_, _>>()?;
            session.run(&self.forget, vec![rows(done)]).await?;
        }
        if found.len() == PORTION {
            return Ok(Left::More);
        }
        let waiting = session.rows(&self.waiting, partition.to_vec()).await?;
        Ok(if waiting.is_empty() { Left::Nothing } else { Left::Waiting })
    }

    /// Forgets a partition that begins anew.
    pub(crate) async fn begin_again(
        &self,
        session: &mut Session,
        topic: &str,
        partition: i32,
    ) -> Result<(), Error> {
        for statement in &self.begin_again {
            let values = vec![Value::Text(topic.to_owned()), Value::Int(partition.into())];
            session.run(statement, values).await?;
        }
        Ok(())
    }

    pub(crate) fn done_statement(&self) -> String {
        self.done.as_str().to_owned()
    }

    fn columns(&self, parked: &[&(String, &Place)]) -> Vec<Column> {
        vec![
            Column::Texts(parked.iter().map(|_| self.pipeline.clone()).collect()),
            Column::Texts(parked.iter().map(|(_, at)| at.topic.clone()).collect()),
            Column::Ints(parked.iter().map(|(_, at)| at.partition.into()).collect()),
            Column::Ints(parked.iter().map(|(_, at)| at.offset).collect()),
            Column::Texts(parked.iter().map(|(source, _)| source.clone()).collect()),
        ]
    }
}

/// Of each partition the last place, in order.
fn furthest(places: &[Place]) -> BTreeSet<Place> {
    let mut furthest: BTreeMap<(&str, i32), &Place> = BTreeMap::new();
    for place in places {
        let known = furthest.entry((&place.topic, place.partition)).or_insert(place);
        *known = place.max(known);
    }
    furthest.into_values().cloned().collect()
}

fn columns_of(places: &BTreeSet<Place>) -> [Column; 3] {
    [
        Column::Texts(places.iter().map(|place| place.topic.clone()).collect()),
        Column::Ints(places.iter().map(|place| place.partition.into()).collect()),
        Column::Ints(places.iter().map(|place| place.offset).collect()),
    ]
}

fn place(row: &Row) -> Result<Place, Error> {
    let partition = i32::try_from(row.int(1)?).unwrap_or(i32::MAX);
    Ok(Place { topic: row.text(0)?, partition, offset: row.int(2)? })
}
