//! Dead letters in a SQL table, whichever: stats, groups, lists and actions, told by its columns.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use jiff::Timestamp;
use redrive_core::books::Balance;
use redrive_core::dead_letter::{
    Acted, Arrivals, Cursor, Filter, Group, Ids, Letter, LetterId, Listing, Operator, Order, Origin, Outcome,
    Page, PipelineKind, Redelivery, RedeliveryState, Resolution, Stats, Status, Summary,
};
use redrive_core::failure::{Class, Failure, clean};
use redrive_core::fingerprint::Fingerprint;
use redrive_core::history::History;

use crate::act::{Act, Edit, number, pick, rows};
use crate::columns::Columns;
use crate::database::Database;
use crate::dialect::Dialect;
use crate::error::Error;
use crate::filter::Where;
use crate::queue::history;
use crate::row::Row;
use crate::search::{Search, next_window, schemes};
use crate::statement::{Names, Sql, Statement, sql};
use crate::value::{Column, Value};

/// How many columns a summary has.
const SUMMARY: usize = 12;

/// The dead letters in one table.
#[derive(Debug)]
pub(crate) struct DeadLetters {
    database: Database,
    names: Names,
    pub(crate) pipeline: String,
    pub(crate) kind: PipelineKind,
    columns: Columns,
    actions: Actions,
    outcomes: Statement,
    redelivery: Statement,
    group: Statement,
    purge: Statement,
}

/// What a queue of dead letters is known by.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) pipeline: String,
    pub(crate) kind: PipelineKind,
    /// How many portions of letters are sent back at a time.
    pub(crate) lanes: usize,
}

impl Identity {
    /// Two portions at a time on Postgres, unless they have an order: one keeps one of its processes busy. Elsewhere
    /// writers wait for each other.
    pub(crate) fn new(database: &Database, pipeline: &str, kind: PipelineKind, is_parallel: bool) -> Self {
        let is_parallel = is_parallel && database.dialect() == Dialect::Postgres;
        Self { pipeline: pipeline.to_owned(), kind, lanes: if is_parallel { 2 } else { 1 } }
    }
}

/// What can be done to the letters of a table.
#[derive(Debug)]
pub(crate) struct Actions {
    pub(crate) redrive: Act,
    pub(crate) edit: Edit,
    pub(crate) resolve: Act,
    /// Of `t`: nobody follows this closed letter any more, so it may be purged.
    pub(crate) settled: &'static str,
    /// Where everything is: accepted, in flight, delivered, open, parked, resolved, expired, dropped.
    pub(crate) balance: &'static str,
    /// What has become of letters that were sent back, if their own rows do not say it: number, outcome,
    /// history; the ids are `$1`.
    pub(crate) outcomes: Option<Statement>,
    /// What became of the letter `$1` since it was redriven: the state, when it was delivered or handed over, when it
    /// failed again, as which letter, and which letter it was redriven from.
    pub(crate) redelivery: Sql,
}

const GROUP: Sql = sql!(each "letters/group.sql");
pub(crate) const PURGE: Sql = sql!(each "letters/purge.sql");
/// The most letters that one statement groups or purges: it must not keep others waiting for long.
const CHUNK: u32 = 1_000;

impl DeadLetters {
    pub(crate) fn new(
        database: Database,
        names: Names,
        pipeline: String,
        kind: PipelineKind,
        columns: Columns,
        mut actions: Actions,
    ) -> Self {
        // What was closed so long ago failed before that: so the index of failures finds it. One that another
        // program closed may not say when.
        let old = format!(
            "{{scope}} AND {failed_at} < $1 AND ({closed_at} IS NULL OR {closed_at} < $2)",
            closed_at = columns.resolved_at,
            failed_at = columns.failed_at
        );
        let purge = names
            .clone()
            .with_sql("purged", "{letters}")
            .with_sql("purged_id", "{letter_id}")
            .with_sql("closed", &format!("({}) AND {}", columns.closed(), actions.settled))
            .with_sql("old", &old)
            .with_sql("limit", "$3")
            .statement(PURGE);
        let group = names.statement(GROUP);
        let own = || pick(&names, &format!("{}, t.history", columns.outcome));
        let outcomes = actions.outcomes.take().unwrap_or_else(own);
        let redelivery = names.statement(actions.redelivery);
        Self { database, names, pipeline, kind, columns, actions, outcomes, redelivery, group, purge }
    }

    pub(crate) async fn stats(&self) -> Result<Stats, Error> {
        // By group, and a group has one type: that is the order of an index that has all of this.
        self.group_strangers().await?;
        let columns = &self.columns;
        let closed: Vec<Status> = Status::ALL.into_iter().filter(|status| *status != Status::Open).collect();
        let count = |status: &Status| format!("count(CASE WHEN {} THEN 1 END)", columns.in_status(*status));
        let text = format!(
            "SELECT MIN({}), MIN(CASE WHEN {} THEN {} END), count(*), {} FROM {{letters}} AS t",
            columns.event_type,
            columns.waiting(),
            columns.failed_at,
            closed.iter().map(count).collect::<Vec<_>>().join(", "),
        );
        let mut by_status: BTreeMap<Status, u64> = BTreeMap::new();
        let mut by_type: BTreeMap<String, u64> = BTreeMap::new();
        let mut oldest_waiting = None;
        for row in self.count_all(&text, self.all(), &format!("GROUP BY {}", columns.fingerprint)).await? {
            let mut open = row.total(2)?;
            let mut waiting = 0;
            for (at, status) in closed.iter().enumerate() {
                let count = row.total(3 + at)?;
                open = open.saturating_sub(count);
                waiting += if *status == Status::Failed { count } else { 0 };
                *by_status.entry(*status).or_default() += count;
            }
            *by_status.entry(Status::Open).or_default() += open;
            waiting += open;
            if waiting > 0 {
                *by_type.entry(row.text(0)?).or_default() += waiting;
            }
            if !row.is_null(1)? {
                let oldest = row.time_of(columns.times, 1)?;
                oldest_waiting = Some(oldest_waiting.map_or(oldest, |other: Timestamp| other.min(oldest)));
            }
        }
        by_status.retain(|_, count| *count > 0);
        let mut waiting_by_type: Vec<(String, u64)> = by_type.into_iter().collect();
        waiting_by_type.sort_by_key(|(_, count)| Reverse(*count));
        Ok(Stats { by_status: by_status.into_iter().collect(), waiting_by_type, oldest_waiting })
    }

    pub(crate) async fn groups(&self, limit: u32) -> Result<Vec<Group>, Error> {
        self.group_strangers().await?;
        let columns = &self.columns;
        let mut waiting = self.waiting();
        let limit = waiting.parameter(Value::Int(i64::from(limit)));
        let inner = format!(
            "SELECT {fingerprint} AS fingerprint, count(*) AS letters, MIN({at}) AS first_seen, \
             MAX({at}) AS last_seen, MAX({id}) AS sample FROM {{letters}} AS t WHERE {condition} \
             GROUP BY {fingerprint} ORDER BY count(*) DESC, {fingerprint} LIMIT {limit}",
            fingerprint = columns.fingerprint,
            at = columns.failed_at,
            id = columns.id,
            condition = waiting.text(),
        );
        let text = format!(
            "SELECT {}, g.letters, g.first_seen, g.last_seen FROM ({inner}) AS g \
             JOIN {{letters}} AS t ON {} = g.sample ORDER BY g.letters DESC, g.fingerprint",
            columns.summary(),
            columns.id,
        );
        let statement = Statement::new(self.database.dialect(), &self.names.fill(&text));
        let rows = self.database.count_rows(&statement, waiting.values).await?;
        rows.iter().map(|row| self.group(row)).collect()
    }

    pub(crate) async fn arrivals(&self, since: Timestamp) -> Result<Vec<Arrivals>, Error> {
        let columns = &self.columns;
        let mut condition = self.all();
        let from = condition.parameter(columns.times.value(since));
        let text = format!(
            "SELECT {}, {}, count(*) FROM {{letters}} AS t",
            columns.fingerprint,
            columns.times.hour(self.database.dialect(), columns.failed_at)
        );
        let tail = format!(
            "AND {} >= {from} AND {} IS NOT NULL GROUP BY 1, 2",
            columns.failed_at, columns.fingerprint
        );
        let mut arrivals = Vec::new();
        for row in self.count_all(&text, condition, &tail).await? {
            let hour =
                Timestamp::from_second(row.int(1)?.saturating_mul(3600)).unwrap_or(Timestamp::UNIX_EPOCH);
            if let Ok(fingerprint) = row.text(0)?.trim().parse() {
                arrivals.push(Arrivals { fingerprint, hour, count: row.total(2)? });
            }
        }
        Ok(arrivals)
    }

    pub(crate) async fn list(&self, filter: &Filter, page: Page) -> Result<Listing, Error> {
        self.group_strangers_for(filter).await?;
        let Some(filter) = self.with_scheme(filter).await? else {
            return Ok(Listing { letters: Vec::new(), next: None });
        };
        let search = Search::of(&filter);
        if !search.is_direct {
            return self.walk(&filter, &search.lead, page).await;
        }
        let letters = self.select(&filter, &search.lead, (page.cursor(), None), page.limit() + 1).await?;
        Ok(cut(letters, page))
    }

    /// Searches window by window along the index of one part of the filter.
    async fn walk(&self, filter: &Filter, lead: &Filter, page: Page) -> Result<Listing, Error> {
        let begun = Instant::now();
        let (mut letters, mut after, mut window) = (Vec::new(), page.cursor(), 0);
        loop {
            window = next_window(window);
            let end = self.end_of_window(lead, after, window).await?;
            let wanted = page.limit() + 1 - u32::try_from(letters.len()).unwrap_or(page.limit());
            letters.extend(self.select(filter, lead, (after, end), wanted).await?);
            if end.is_none() || letters.len() > page.limit() as usize {
                return Ok(cut(letters, page));
            }
            after = end;
            if page.time().is_some_and(|time| begun.elapsed() >= time) {
                return Ok(Listing { letters, next: end });
            }
        }
    }

    /// The last letter of a window after this place; nothing if there are not so many.
    async fn end_of_window(
        &self,
        lead: &Filter,
        after: Option<Cursor>,
        window: u32,
    ) -> Result<Option<Cursor>, Error> {
        let columns = &self.columns;
        let mut condition = self.led_by(lead).filter(columns, lead);
        if let Some(after) = after {
            condition = condition.after(columns, after);
        }
        let before = condition.parameter(Value::Int(i64::from(window) - 1));
        let text = format!("SELECT {}, {} FROM {{letters}} AS t", columns.id, columns.failed_at);
        let tail = format!("{} LIMIT 1 OFFSET {before}", condition.newest_first(columns));
        let rows = self.query(&text, condition, &tail).await?;
        let place = |row: &Row| {
            let failed_at = row.time_of(columns.times, 1)?.as_microsecond();
            Ok(Cursor { failed_at, id: row.int(0)? })
        };
        rows.first().map(place).transpose()
    }

    /// The letters of a filter between two places, newest first.
    async fn select(
        &self,
        filter: &Filter,
        lead: &Filter,
        (after, up_to): (Option<Cursor>, Option<Cursor>),
        limit: u32,
    ) -> Result<Vec<Summary>, Error> {
        let columns = &self.columns;
        let mut condition = self.led_by(lead).filter(columns, filter);
        if let Some(after) = after {
            condition = condition.after(columns, after);
        }
        if let Some(up_to) = up_to {
            condition = condition.up_to(columns, up_to);
        }
        let limit = condition.parameter(Value::Int(i64::from(limit)));
        let text = format!("SELECT {} FROM {{letters}} AS t", columns.summary());
        let tail = format!("{} LIMIT {limit}", condition.newest_first(columns));
        let rows = self.query(&text, condition, &tail).await?;
        rows.iter().map(|row| self.summary(row)).collect()
    }

    /// The filter with its code as it is stored, if only one scheme has it: an index has that in order. Nothing when no
    /// letter has it.
    async fn with_scheme(&self, filter: &Filter) -> Result<Option<Filter>, Error> {
        let Some(code) = filter.code.as_ref().filter(|code| !code.contains(':')) else {
            return Ok(Some(filter.clone()));
        };
        let mut found = Vec::new();
        for code in schemes(code) {
            let with = Filter { code: Some(code), ..Filter::default() };
            if !self
                .query("SELECT 1 FROM {letters} AS t", self.all().filter(&self.columns, &with), "LIMIT 1")
                .await?
                .is_empty()
            {
                found.extend(with.code);
            }
        }
        let code =
            if found.len() == 1 { found.pop() } else { filter.code.clone().filter(|_| !found.is_empty()) };
        Ok(code.map(|code| Filter { code: Some(code), ..filter.clone() }))
    }

    pub(crate) async fn get(&self, id: &str) -> Result<Option<Letter>, Error> {
        let Some(number) = number(id) else { return Ok(None) };
        let columns = &self.columns;
        let mut condition = Where::new(self.database.dialect(), "{known}");
        let parameter = condition.parameter(Value::Int(number));
        let text = format!(
            "SELECT {}, {}, {}, {}, {}, t.history, {}, {}, t.resolved_by, t.resolution_note, {} \
             FROM {{letters}} AS t",
            columns.summary(),
            columns.payload,
            columns.headers,
            columns.origin,
            columns.origin_id,
            columns.first_failed_at,
            columns.resolved_at,
            columns.target,
        );
        let rows = self.query(&text, condition, &format!("AND {} = {parameter}", columns.id)).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let mut letter = self.letter(row)?;
        for row in self.database.rows(&self.redelivery, vec![Value::Int(number)]).await? {
            letter.redelivery = self.redelivery(&row, &letter)?;
            letter.redriven_from = row.opt_int(4)?.map(|id| LetterId::new(self.pipeline.clone(), id));
        }
        Ok(Some(letter))
    }

    pub(crate) async fn count(&self, filter: &Filter) -> Result<u64, Error> {
        self.group_strangers_for(filter).await?;
        let condition = self.waiting().filter(&self.columns, filter);
        let rows = self.count_all("SELECT count(*) FROM {letters} AS t", condition, "").await?;
        rows.first().map_or(Ok(0), |row| row.total(0))
    }

    pub(crate) async fn ids(&self, filter: &Filter, after: Option<Cursor>, limit: u32) -> Result<Ids, Error> {
        self.group_strangers_for(filter).await?;
        let columns = &self.columns;
        let mut condition = self.waiting().filter(columns, filter);
        if let Some(cursor) = after {
            condition = condition.since(columns, cursor);
        }
        let most = condition.parameter(Value::Int(i64::from(limit)));
        let text = format!("SELECT {}, {} FROM {{letters}} AS t", columns.id, columns.failed_at);
        let tail = format!("ORDER BY {}, {} LIMIT {most}", columns.failed_at, columns.id);
        let rows = self.query(&text, condition, &tail).await?;
        let full = rows.len() >= limit as usize;
        let next = match rows.last().filter(|_| full) {
            Some(row) => {
                let failed_at = row.time_of(columns.times, 1)?.as_microsecond();
                Some(Cursor { failed_at, id: row.int(0)? })
            }
            None => None,
        };
        let ids = rows.iter().map(|row| Ok(row.int(0)?.to_string())).collect::<Result<_, Error>>()?;
        Ok(Ids { ids, next })
    }

    pub(crate) async fn redrive(&self, ids: &[String], order: &Order) -> Result<Acted, Error> {
        self.actions.redrive.run(&self.database, ids, order.operator(), order.note()).await
    }

    pub(crate) async fn redrive_edited(
        &self,
        id: &str,
        payload: &[u8],
        order: &Order,
    ) -> Result<Acted, Error> {
        let Actions { redrive, edit, .. } = &self.actions;
        redrive.run_edited(&self.database, id, (edit, payload), order.operator(), order.note()).await
    }

    /// What resolves letters, to be part of another transaction.
    pub(crate) const fn resolving(&self) -> &Act {
        &self.actions.resolve
    }

    pub(crate) async fn resolve(
        &self,
        ids: &[String],
        operator: &Operator,
        note: &str,
    ) -> Result<Acted, Error> {
        self.actions.resolve.run(&self.database, ids, operator, &clean(note)).await
    }

    pub(crate) async fn outcomes(&self, ids: &[String]) -> Result<Vec<Outcome>, Error> {
        let numbers: Vec<i64> = ids.iter().filter_map(|id| number(id)).collect();
        let mut found = HashMap::new();
        for row in self.database.rows(&self.outcomes, vec![rows(numbers)]).await? {
            found.insert(row.int(0)?.to_string(), outcome(&row)?);
        }
        // One that is gone was purged, after it was done with.
        Ok(ids.iter().map(|id| found.remove(id).unwrap_or(Outcome::HandedOver)).collect())
    }

    pub(crate) async fn balance(&self) -> Result<Balance, Error> {
        let text = self.names.fill(self.actions.balance);
        let statement = Statement::new(self.database.dialect(), &text);
        let rows = self.database.count_rows(&statement, Vec::new()).await?;
        let Some(row) = rows.first() else { return Ok(Balance::default()) };
        Ok(Balance {
            accepted: row.total(0)?,
            in_flight: row.total(1)?,
            delivered: row.total(2)?,
            open: row.total(3)?,
            parked: row.total(4)?,
            resolved: row.total(5)?,
            expired: row.total(6)?,
            dropped: row.total(7)?,
        })
    }

    pub(crate) async fn purge(&self, closed_before: Timestamp) -> Result<u64, Error> {
        let mut purged = 0;
        loop {
            let values = vec![
                self.columns.times.value(closed_before),
                Value::Time(closed_before),
                Value::Int(i64::from(CHUNK)),
            ];
            let count = self.database.change(&self.purge, values).await?;
            purged += count;
            if count < u64::from(CHUNK) {
                return Ok(purged);
            }
        }
    }

    async fn group_strangers_for(&self, filter: &Filter) -> Result<(), Error> {
        if filter.group.is_none() {
            return Ok(());
        }
        self.group_strangers().await
    }

    /// Letters that another program wrote have no fingerprint: they get the one that ours would have,
    /// so that they are found in their group.
    async fn group_strangers(&self) -> Result<(), Error> {
        let text = format!("SELECT {} FROM {{letters}} AS t", self.columns.summary());
        loop {
            let strangers = Where::new(self.database.dialect(), "{scope} AND t.fingerprint IS NULL");
            let rows = self.query(&text, strangers, &format!("LIMIT {CHUNK}")).await?;
            let letters = rows.iter().map(|row| self.summary(row)).collect::<Result<Vec<_>, _>>()?;
            let ids = rows.iter().map(|row| row.int(0)).collect::<Result<Vec<_>, _>>()?;
            let groups = letters.iter().map(|letter| letter.fingerprint.to_string()).collect();
            let values = vec![Value::Rows(vec![Column::Ints(ids), Column::Texts(groups)])];
            if letters.is_empty() || self.database.change(&self.group, values).await? == 0 {
                return Ok(());
            }
        }
    }

    fn all(&self) -> Where {
        Where::new(self.database.dialect(), "{scope}")
    }

    /// All letters, in the order of the index that has those of this part of a filter.
    fn led_by(&self, lead: &Filter) -> Where {
        self.all().led_by(self.columns.leading(self.database.dialect(), lead))
    }

    fn waiting(&self) -> Where {
        let condition = format!("({{scope}}) AND ({})", self.columns.waiting());
        Where::new(self.database.dialect(), &condition)
    }

    async fn query(&self, select: &str, condition: Where, tail: &str) -> Result<Vec<Row>, Error> {
        let text = format!("{select} WHERE {} {tail}", condition.text());
        let statement = Statement::new(self.database.dialect(), &self.names.fill(&text));
        self.database.rows(&statement, condition.values).await
    }

    /// A query that may look at every letter.
    async fn count_all(&self, select: &str, condition: Where, tail: &str) -> Result<Vec<Row>, Error> {
        let text = format!("{select} WHERE {} {tail}", condition.text());
        let statement = Statement::new(self.database.dialect(), &self.names.fill(&text));
        self.database.count_rows(&statement, condition.values).await
    }

    fn summary(&self, row: &Row) -> Result<Summary, Error> {
        let failure = Failure {
            class: Class::from_name(&row.text(4)?),
            code: row.opt_text(5)?.and_then(|code| code.parse().ok()),
            kind: row.text(6)?,
            message: row.text(3)?,
        };
        let event_type = row.text(1)?;
        let status = row.text(9)?;
        // A letter that another program wrote has no group yet: it gets the one it would have had.
        let fingerprint = row.opt_text(11)?.and_then(|text| text.trim().parse().ok());
        Ok(Summary {
            id: LetterId::new(self.pipeline.clone(), row.int(0)?),
            kind: self.kind,
            fingerprint: fingerprint
                .unwrap_or_else(|| Fingerprint::of(&self.pipeline, &event_type, &failure)),
            event_type,
            key: row.text(2)?,
            failure,
            attempts: row.count(7)?,
            failed_at: row.time_of(self.columns.times, 8)?,
            status: Status::ALL.into_iter().find(|known| known.name() == status).unwrap_or(Status::Open),
            redrive_count: row.count(10)?,
        })
    }

    fn group(&self, row: &Row) -> Result<Group, Error> {
        let sample = self.summary(row)?;
        Ok(Group {
            fingerprint: sample.fingerprint,
            event_type: sample.event_type,
            failure: sample.failure,
            count: row.total(SUMMARY)?,
            first_seen: row.time_of(self.columns.times, SUMMARY + 1)?,
            last_seen: row.time_of(self.columns.times, SUMMARY + 2)?,
        })
    }

    fn letter(&self, row: &Row) -> Result<Letter, Error> {
        let summary = self.summary(row)?;
        let history = history(&row.text(SUMMARY + 4)?);
        let headers = row.opt_text(SUMMARY + 1)?.and_then(|text| serde_json::from_str(&text).ok());
        let origin = row.opt_text(SUMMARY + 2)?.and_then(|text| serde_json::from_str(&text).ok());
        let table = || -> Result<Origin, Error> {
            Ok(Origin::Table { table: self.columns.origin_table.clone(), id: row.int(SUMMARY + 3)? })
        };
        // A letter from elsewhere first failed before it came here, and its history begins here.
        let stored = row.time_of(self.columns.times, SUMMARY + 5)?;
        let first_failed_at = history.first_failed_at().map_or(stored, |first| first.min(stored));
        Ok(Letter {
            payload: row.bytes(SUMMARY)?,
            headers: headers.unwrap_or_default(),
            origin: origin.map_or_else(table, Ok)?,
            target: row.opt_text(SUMMARY + 9)?,
            first_failed_at,
            resolution: self.resolution(row, summary.status)?,
            redelivery: None,
            redriven_from: None,
            history,
            summary,
        })
    }

    fn redelivery(&self, row: &Row, letter: &Letter) -> Result<Option<Redelivery>, Error> {
        let Some(state) = row.opt_text(0)? else { return Ok(None) };
        let state = match state.as_str() {
            "delivered" => RedeliveryState::Delivered,
            "handed-over" => RedeliveryState::HandedOver,
            "failed" => RedeliveryState::Failed,
            _ => RedeliveryState::Pending,
        };
        let (at, failed_as) = match state {
            RedeliveryState::Pending => (None, None),
            RedeliveryState::Delivered | RedeliveryState::HandedOver => (row.opt_time(1)?, None),
            RedeliveryState::Failed => {
                let other = row.opt_int(3)?.map(|id| LetterId::new(self.pipeline.clone(), id));
                let last = letter.history.attempts().last().map(|last| last.at);
                (row.opt_time(2)?.or(last), Some(other.unwrap_or_else(|| letter.summary.id.clone())))
            }
        };
        Ok(Some(Redelivery { state, at, letter: failed_as }))
    }

    fn resolution(&self, row: &Row, status: Status) -> Result<Option<Resolution>, Error> {
        // A job that was redriven is no closed letter, but work again.
        let is_closed = match status {
            Status::Resolved => true,
            Status::Redriven => !row.is_null(SUMMARY + 6)?,
            Status::Open | Status::Retrying | Status::Failed => false,
        };
        if !is_closed {
            return Ok(None);
        }
        Ok(Some(Resolution {
            by: row.text(SUMMARY + 7)?,
            at: row.time(SUMMARY + 6)?,
            note: row.text(SUMMARY + 8)?,
        }))
    }
}

/// Number, outcome, history.
fn outcome(row: &Row) -> Result<Outcome, Error> {
    Ok(match row.text(1)?.as_str() {
        "delivered" => Outcome::Delivered,
        "handed-over" => Outcome::HandedOver,
        "failed" => Outcome::Failed(last_failure(&history(&row.text(2)?))),
        _ => Outcome::Pending,
    })
}

fn last_failure(history: &History) -> Failure {
    match history.attempts().last() {
        Some(last) => Failure::clone(&last.failure),
        None => Failure::unclassified("Unknown", "it failed again, and nothing says why"),
    }
}

/// A page of these letters, of which one more was asked for.
fn cut(mut letters: Vec<Summary>, page: Page) -> Listing {
    let more = letters.len() > page.limit() as usize;
    letters.truncate(page.limit() as usize);
    let next = letters.last().filter(|_| more).map(cursor);
    Listing { letters, next }
}

fn cursor(last: &Summary) -> Cursor {
    let id = last.id.local.parse().unwrap_or(0);
    Cursor { failed_at: last.failed_at.as_microsecond(), id }
}

/// [`redrive_core::dead_letter::DeadLetterQueue`] for a store that has an `identity` and `dead_letters()`.
macro_rules! dead_letter_queue {
    ($store:ty) => {
        const _: () = {
            use redrive_core::dead_letter::{
                Acted, Arrivals, Cursor, DeadLetterQueue, Filter, Group, Ids, Letter, Listing, Operator,
                Order, Outcome, Page, PipelineKind, Stats, Unavailable,
            };

            impl $store {
                /// A refusal may mean that the table is not what it was.
                fn not_done(&self, error: $crate::error::Error) -> Unavailable {
                    if matches!(error, $crate::error::Error::Rejected { .. }) {
                        self.refused();
                    }
                    error.for_queue(&self.identity.pipeline)
                }
            }

            #[async_trait::async_trait]
            impl DeadLetterQueue for $store {
                fn pipeline(&self) -> &str {
                    &self.identity.pipeline
                }

                fn kind(&self) -> PipelineKind {
                    self.identity.kind
                }

                fn lanes(&self) -> usize {
                    self.identity.lanes
                }

                async fn stats(&self) -> Result<Stats, Unavailable> {
                    let letters = self.dead_letters().await.map_err(|error| self.not_done(error))?;
                    letters.stats().await.map_err(|error| self.not_done(error))
                }

                async fn groups(&self, limit: u32) -> Result<Vec<Group>, Unavailable> {
                    let letters = self.dead_letters().await.map_err(|error| self.not_done(error))?;
                    letters.groups(limit).await.map_err(|error| self.not_done(error))
                }

                async fn arrivals(&self, since: jiff::Timestamp) -> Result<Vec<Arrivals>, Unavailable> {
                    let letters = self.dead_letters().await.map_err(|error| self.not_done(error))?;
                    letters.arrivals(since).await.map_err(|error| self.not_done(error))
                }

                async fn list(&self, filter: &Filter, page: Page) -> Result<Listing, Unavailable> {
                    let letters = self.dead_letters().await.map_err(|error| self.not_done(error))?;
                    let listing = letters.list(filter, page).await;
                    listing.map_err(|error| self.not_done(error))
                }

                async fn get(&self, id: &str) -> Result<Option<Letter>, Unavailable> {
                    let letters = self.dead_letters().await.map_err(|error| self.not_done(error))?;
                    letters.get(id).await.map_err(|error| self.not_done(error))
                }

                async fn count(&self, filter: &Filter) -> Result<u64, Unavailable> {
                    let letters = self.dead_letters().await.map_err(|error| self.not_done(error))?;
                    letters.count(filter).await.map_err(|error| self.not_done(error))
                }

                async fn ids(
                    &self,
                    filter: &Filter,
                    after: Option<Cursor>,
                    limit: u32,
                ) -> Result<Ids, Unavailable> {
                    let letters = self.dead_letters().await.map_err(|error| self.not_done(error))?;
                    let ids = letters.ids(filter, after, limit).await;
                    ids.map_err(|error| self.not_done(error))
                }

                async fn redrive(&self, ids: &[String], order: &Order) -> Result<Acted, Unavailable> {
                    let letters = self.dead_letters().await.map_err(|error| self.not_done(error))?;
                    let acted = letters.redrive(ids, order).await;
                    acted.map_err(|error| self.not_done(error))
                }

                async fn redrive_edited(
                    &self,
                    id: &str,
                    payload: &[u8],
                    order: &Order,
                ) -> Result<Acted, Unavailable> {
                    let letters = self.dead_letters().await.map_err(|error| self.not_done(error))?;
                    let acted = letters.redrive_edited(id, payload, order).await;
                    acted.map_err(|error| self.not_done(error))
                }

                async fn outcomes(&self, ids: &[String]) -> Result<Vec<Outcome>, Unavailable> {
                    let letters = self.dead_letters().await.map_err(|error| self.not_done(error))?;
                    letters.outcomes(ids).await.map_err(|error| self.not_done(error))
                }

                async fn resolve(
                    &self,
                    ids: &[String],
                    operator: &Operator,
                    note: &str,
                ) -> Result<Acted, Unavailable> {
                    let letters = self.dead_letters().await.map_err(|error| self.not_done(error))?;
                    let acted = letters.resolve(ids, operator, note).await;
                    acted.map_err(|error| self.not_done(error))
                }

                async fn balance(&self) -> Result<redrive_core::books::Balance, Unavailable> {
                    let letters = self.dead_letters().await.map_err(|error| self.not_done(error))?;
                    letters.balance().await.map_err(|error| self.not_done(error))
                }

                async fn purge(&self, closed_before: jiff::Timestamp) -> Result<u64, Unavailable> {
                    let letters = self.dead_letters().await.map_err(|error| self.not_done(error))?;
                    let purged = letters.purge(closed_before).await;
                    purged.map_err(|error| self.not_done(error))
                }
            }
        };
    };
}
pub(crate) use dead_letter_queue;
