//! Dead letters in a SQL table, whichever: stats, groups, lists and actions, told by its columns.

use jiff::Timestamp;
use redrive_core::dead_letter::{
    Acted, Cursor, Filter, Group, Letter, LetterId, Listing, Operator, Origin, Page, PipelineKind, Resolution,
    Stats, Status, Summary,
};
use redrive_core::failure::{Class, Failure};
use redrive_core::fingerprint::Fingerprint;

use crate::act::Act;
use crate::database::Database;
use crate::error::Error;
use crate::filter::Where;
use crate::queue::history;
use crate::row::Row;
use crate::statement::{Names, Statement};
use crate::value::Value;

/// How a table keeps the time of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Times {
    /// In the dialect's own type.
    Native,
    /// In milliseconds since 1970.
    Millis,
}

/// Which column of a table says what about a letter. All are of the row `t`.
#[derive(Debug)]
pub(crate) struct Columns {
    pub(crate) id: &'static str,
    /// Which rows are letters at all.
    pub(crate) scope: String,
    pub(crate) event_type: &'static str,
    pub(crate) key: String,
    pub(crate) payload: String,
    pub(crate) message: &'static str,
    pub(crate) class: &'static str,
    pub(crate) code: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) attempts: &'static str,
    pub(crate) failed_at: &'static str,
    pub(crate) first_failed_at: &'static str,
    pub(crate) times: Times,
    pub(crate) redrive_count: &'static str,
    pub(crate) fingerprint: &'static str,
    pub(crate) resolved_at: &'static str,
    /// JSON texts, or NULL where the table itself is the origin and there are no headers.
    pub(crate) headers: &'static str,
    pub(crate) origin: &'static str,
    pub(crate) origin_id: &'static str,
    /// The table that an event was in before it died.
    pub(crate) origin_table: String,
    /// Which rows are in which status.
    pub(crate) statuses: [(Status, &'static str); 5],
}

impl Columns {
    pub(crate) fn in_status(&self, status: Status) -> &'static str {
        self.statuses.iter().find(|(of, _)| *of == status).map_or("FALSE", |(_, condition)| *condition)
    }

    fn waiting(&self) -> String {
        format!("({}) OR ({})", self.in_status(Status::Open), self.in_status(Status::Failed))
    }

    fn status_name(&self) -> String {
        let cases = self.statuses.iter().map(|(status, condition)| format!("WHEN {condition} THEN '{status}'"));
        format!("CASE {} ELSE 'open' END", cases.collect::<Vec<_>>().join(" "))
    }

    /// The columns of a [`Summary`], in the order that [`DeadLetters::summary`] reads.
    fn summary(&self) -> String {
        [
            self.id,
            self.event_type,
            &self.key,
            self.message,
            self.class,
            self.code,
            self.kind,
            self.attempts,
            self.failed_at,
            &self.status_name(),
            self.redrive_count,
            self.fingerprint,
        ]
        .join(", ")
    }
}

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
    redrive: Act,
    resolve: Act,
}

impl DeadLetters {
    pub(crate) const fn new(
        database: Database,
        names: Names,
        pipeline: String,
        kind: PipelineKind,
        columns: Columns,
        redrive: Act,
        resolve: Act,
    ) -> Self {
        Self { database, names, pipeline, kind, columns, redrive, resolve }
    }

    pub(crate) async fn stats(&self) -> Result<Stats, Error> {
        let columns = &self.columns;
        let text = format!("SELECT {}, count(*) FROM {{letters}} AS t", columns.status_name());
        let rows = self.query(&text, self.all(), "GROUP BY 1").await?;
        let mut stats = Stats::default();
        for row in &rows {
            let name = row.text(0)?;
            if let Some(status) = Status::ALL.into_iter().find(|status| status.name() == name) {
                stats.by_status.push((status, u64::try_from(row.int(1)?).unwrap_or(0)));
            }
        }
        stats.by_status.sort_unstable();
        let text = format!("SELECT {}, count(*), MIN({}) FROM {{letters}} AS t", columns.event_type, columns.failed_at);
        for row in self.query(&text, self.waiting(), "GROUP BY 1 ORDER BY 2 DESC").await? {
            stats.waiting_by_type.push((row.text(0)?, u64::try_from(row.int(1)?).unwrap_or(0)));
            let oldest = self.time(&row, 2)?;
            stats.oldest_waiting = Some(stats.oldest_waiting.map_or(oldest, |other| other.min(oldest)));
        }
        Ok(stats)
    }

    pub(crate) async fn groups(&self, limit: u32) -> Result<Vec<Group>, Error> {
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
        let rows = self.database.rows(&statement, waiting.values).await?;
        rows.iter().map(|row| self.group(row)).collect()
    }

    pub(crate) async fn list(&self, filter: &Filter, page: Page) -> Result<Listing, Error> {
        let columns = &self.columns;
        let mut condition = self.all().filter(columns, filter);
        if let Some(cursor) = page.cursor() {
            condition = condition.after(columns, cursor);
        }
        let limit = condition.parameter(Value::Int(i64::from(page.limit()) + 1));
        let text = format!("SELECT {} FROM {{letters}} AS t", columns.summary());
        let tail = format!("ORDER BY {} DESC, {} DESC LIMIT {limit}", columns.failed_at, columns.id);
        let rows = self.query(&text, condition, &tail).await?;
        let mut letters = rows.iter().map(|row| self.summary(row)).collect::<Result<Vec<_>, _>>()?;
        let more = letters.len() > page.limit() as usize;
        letters.truncate(page.limit() as usize);
        let next = letters.last().filter(|_| more).map(cursor);
        Ok(Listing { letters, next })
    }

    pub(crate) async fn get(&self, id: &str) -> Result<Option<Letter>, Error> {
        let Ok(number) = id.parse() else { return Ok(None) };
        let columns = &self.columns;
        let mut condition = self.all();
        let parameter = condition.parameter(Value::Int(number));
        let text = format!(
            "SELECT {}, {}, {}, {}, {}, t.history, {}, {}, t.resolved_by, t.resolution_note FROM {{letters}} AS t",
            columns.summary(),
            columns.payload,
            columns.headers,
            columns.origin,
            columns.origin_id,
            columns.first_failed_at,
            columns.resolved_at,
        );
        let rows = self.query(&text, condition, &format!("AND {} = {parameter}", columns.id)).await?;
        rows.first().map(|row| self.letter(row)).transpose()
    }

    pub(crate) async fn redrive(&self, ids: &[String], operator: &Operator, note: &str) -> Result<Acted, Error> {
        self.redrive.run(&self.database, ids, operator, note).await
    }

    pub(crate) async fn resolve(&self, ids: &[String], operator: &Operator, note: &str) -> Result<Acted, Error> {
        self.resolve.run(&self.database, ids, operator, note).await
    }

    pub(crate) async fn purge(&self, closed_before: Timestamp) -> Result<u64, Error> {
        let columns = &self.columns;
        let closed = format!("({}) OR ({})", columns.in_status(Status::Resolved), columns.in_status(Status::Redriven));
        let mut condition = Where::new(self.database.dialect(), &closed);
        let before = condition.parameter(Value::Time(closed_before));
        // Without the alias: SQLite and MySQL disagree on one in a DELETE.
        let text = format!(
            "DELETE FROM {{letters}} WHERE ({}) AND {} AND {} < {before}",
            columns.scope,
            condition.text(),
            columns.resolved_at
        );
        let text = self.names.fill(&text).replace("t.", "");
        let statement = Statement::new(self.database.dialect(), &text);
        self.database.change(&statement, condition.values).await
    }

    fn all(&self) -> Where {
        Where::new(self.database.dialect(), &self.columns.scope)
    }

    fn waiting(&self) -> Where {
        let condition = format!("({}) AND ({})", self.columns.scope, self.columns.waiting());
        Where::new(self.database.dialect(), &condition)
    }

    async fn query(&self, select: &str, condition: Where, tail: &str) -> Result<Vec<Row>, Error> {
        let text = format!("{select} WHERE {} {tail}", condition.text());
        let statement = Statement::new(self.database.dialect(), &self.names.fill(&text));
        self.database.rows(&statement, condition.values).await
    }

    fn time(&self, row: &Row, at: usize) -> Result<Timestamp, Error> {
        match self.columns.times {
            Times::Native => row.time(at),
            Times::Millis => Ok(Timestamp::from_millisecond(row.int(at)?).unwrap_or(Timestamp::UNIX_EPOCH)),
        }
    }

    fn summary(&self, row: &Row) -> Result<Summary, Error> {
        let failure = Failure {
            class: Class::from_name(&row.opt_text(4)?.unwrap_or_default()),
            code: row.opt_text(5)?.and_then(|code| code.parse().ok()),
            kind: row.opt_text(6)?.unwrap_or_default(),
            message: row.opt_text(3)?.unwrap_or_default(),
        };
        let event_type = row.opt_text(1)?.unwrap_or_default();
        let status = row.text(9)?;
        // A letter that another program wrote has no group yet: it gets the one it would have had.
        let fingerprint = row.opt_text(11)?.and_then(|text| text.trim().parse().ok());
        Ok(Summary {
            id: LetterId::new(self.pipeline.clone(), row.int(0)?),
            kind: self.kind,
            fingerprint: fingerprint.unwrap_or_else(|| Fingerprint::of(&self.pipeline, &event_type, &failure)),
            event_type,
            key: row.opt_text(2)?.unwrap_or_default(),
            failure,
            attempts: row.count(7)?,
            failed_at: self.time(row, 8)?,
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
            count: u64::try_from(row.int(SUMMARY)?).unwrap_or(0),
            first_seen: self.time(row, SUMMARY + 1)?,
            last_seen: self.time(row, SUMMARY + 2)?,
        })
    }

    fn letter(&self, row: &Row) -> Result<Letter, Error> {
        let summary = self.summary(row)?;
        let history = history(row.opt_text(SUMMARY + 4)?.as_deref());
        let headers = row.opt_text(SUMMARY + 1)?.and_then(|text| serde_json::from_str(&text).ok());
        let origin = row.opt_text(SUMMARY + 2)?.and_then(|text| serde_json::from_str(&text).ok());
        let table = || -> Result<Origin, Error> {
            Ok(Origin::Table { table: self.columns.origin_table.clone(), id: row.int(SUMMARY + 3)? })
        };
        let first = history.first_failed_at();
        Ok(Letter {
            payload: row.opt_bytes(SUMMARY)?.unwrap_or_default(),
            headers: headers.unwrap_or_default(),
            origin: origin.map_or_else(table, Ok)?,
            first_failed_at: first.map_or_else(|| self.time(row, SUMMARY + 5), Ok)?,
            resolution: self.resolution(row, summary.status)?,
            history,
            summary,
        })
    }

    fn resolution(&self, row: &Row, status: Status) -> Result<Option<Resolution>, Error> {
        if !matches!(status, Status::Resolved | Status::Redriven) {
            return Ok(None);
        }
        Ok(Some(Resolution {
            by: row.opt_text(SUMMARY + 7)?.unwrap_or_default(),
            at: row.time(SUMMARY + 6)?,
            note: row.opt_text(SUMMARY + 8)?.unwrap_or_default(),
        }))
    }
}

fn cursor(last: &Summary) -> Cursor {
    let id = last.id.local.parse().unwrap_or(0);
    Cursor { failed_at: last.failed_at.as_microsecond(), id }
}

/// [`redrive_core::dead_letter::DeadLetterQueue`] for a store whose field `dead_letters` is one.
macro_rules! dead_letter_queue {
    ($store:ty) => {
        #[async_trait::async_trait]
        impl redrive_core::dead_letter::DeadLetterQueue for $store {
            fn pipeline(&self) -> &str {
                &self.dead_letters.pipeline
            }

            fn kind(&self) -> redrive_core::dead_letter::PipelineKind {
                self.dead_letters.kind
            }

            async fn stats(&self) -> Result<Stats, Unavailable> {
                self.dead_letters.stats().await.map_err(|error| error.for_queue(self.pipeline()))
            }

            async fn groups(&self, limit: u32) -> Result<Vec<Group>, Unavailable> {
                self.dead_letters.groups(limit).await.map_err(|error| error.for_queue(self.pipeline()))
            }

            async fn list(&self, filter: &Filter, page: Page) -> Result<Listing, Unavailable> {
                self.dead_letters.list(filter, page).await.map_err(|error| error.for_queue(self.pipeline()))
            }

            async fn get(&self, id: &str) -> Result<Option<Letter>, Unavailable> {
                self.dead_letters.get(id).await.map_err(|error| error.for_queue(self.pipeline()))
            }

            async fn redrive(&self, ids: &[String], operator: &Operator) -> Result<Acted, Unavailable> {
                let note = format!("redriven by {}", operator.name());
                let acted = self.dead_letters.redrive(ids, operator, &note).await;
                acted.map_err(|error| error.for_queue(self.pipeline()))
            }

            async fn resolve(&self, ids: &[String], operator: &Operator, note: &str) -> Result<Acted, Unavailable> {
                let acted = self.dead_letters.resolve(ids, operator, &redrive_core::failure::clean(note)).await;
                acted.map_err(|error| error.for_queue(self.pipeline()))
            }

            async fn purge(&self, closed_before: Timestamp) -> Result<u64, Unavailable> {
                self.dead_letters.purge(closed_before).await.map_err(|error| error.for_queue(self.pipeline()))
            }
        }
    };
}
pub(crate) use dead_letter_queue;
