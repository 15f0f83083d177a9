//! How far topics of letters are read, and which of those letters lie in a parking lot.
//!
//! Both are in the database that has the letters, and change in their transaction: a place says that every letter
//! before it is *here*. A database that is new, or that an older copy was put back in place of, has no place or an
//! earlier one, and gets what it lacks.
//!
//! Parked letters have a table of their own beside the letters: it has rows only while a parking lot has work, it
//! names the topic in full, and reading a topic again completes it for letters that are here already. Nobody has to
//! remember them in memory.

use std::collections::{BTreeMap, BTreeSet};

use redrive_core::dead_letter::Operator;
use redrive_core::event::{Refused, required};

use crate::act::{Act, rows};
use crate::adoption::Plan;
use crate::database::Database;
use crate::error::Error;
use crate::insert::{Insert, Kind, OnConflict};
use crate::letters::NewLetter;
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

/// A letter that lies in a parking lot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parked {
    /// The source of the letter.
    pub source: String,
    /// Where it lies.
    pub at: Place,
}

/// What was read of topics: it is kept as a whole or not at all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reading {
    /// The letters.
    pub letters: Vec<NewLetter>,
    /// Those of them that lie in a parking lot.
    pub parked: Vec<Parked>,
    /// Where to go on, in each partition that was read.
    pub next: Vec<Place>,
}

impl Reading {
    pub(crate) fn check(&self) -> Result<(), Error> {
        let parked = self.parked.iter().map(|parked| &parked.at);
        for (item, place) in self.next.iter().chain(parked).enumerate() {
            check_topic(&place.topic).map_err(|source| Error::Refused { item, source })?;
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
    advance: Statement,
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
            advance: names.statement(sql!(each "index/move.sql")),
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

    /// Writes down what was read, as part of the transaction that stores its letters.
    pub(crate) async fn keep(&self, session: &mut Session, reading: &Reading) -> Result<(), Error> {
        if !reading.parked.is_empty() {
            let mut parked: Vec<&Parked> = reading.parked.iter().collect();
            // Always in the same order: two that read the same topic would otherwise wait for each other.
            parked.sort_by_key(|parked| &parked.at);
            for chunk in parked.chunks(PORTION) {
                self.park.run(session, self.columns(chunk)).await?;
            }
        }
        let places = furthest(&reading.next);
        if !places.is_empty() {
            session.run(&self.advance, vec![columns_of(&places)]).await?;
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

    fn columns(&self, parked: &[&Parked]) -> Vec<Column> {
        vec![
            Column::Texts(parked.iter().map(|_| self.pipeline.clone()).collect()),
            Column::Texts(parked.iter().map(|parked| parked.at.topic.clone()).collect()),
            Column::Ints(parked.iter().map(|parked| parked.at.partition.into()).collect()),
            Column::Ints(parked.iter().map(|parked| parked.at.offset).collect()),
            Column::Texts(parked.iter().map(|parked| parked.source.clone()).collect()),
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

fn columns_of(places: &BTreeSet<Place>) -> Value {
    Value::Rows(vec![
        Column::Texts(places.iter().map(|place| place.topic.clone()).collect()),
        Column::Ints(places.iter().map(|place| place.partition.into()).collect()),
        Column::Ints(places.iter().map(|place| place.offset).collect()),
    ])
}

fn place(row: &Row) -> Result<Place, Error> {
    let partition = i32::try_from(row.int(1)?).unwrap_or(i32::MAX);
    Ok(Place { topic: row.text(0)?, partition, offset: row.int(2)? })
}
