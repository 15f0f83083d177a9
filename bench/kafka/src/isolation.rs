//! Poison rows in a batch: how long until all good rows are stored and all bad ones are named.

use std::time::{Duration, Instant};

use bench_harness::{Scratch, Table, Target, median};
use redrive_kafka::record::{Position, Record};
use redrive_kafka::row::{Cell, Row};
use redrive_kafka::sink::{Isolation, PostgresSink, Sink as _};
use sqlx::{Connection as _, Executor as _, PgConnection};

use crate::{Args, decision};

const ROWS: u32 = 5_000;
const POISON: [u32; 3] = [0, 1, 50];
/// The slow ways take seconds a batch: two rounds tell enough.
const SLOW_ROUNDS: usize = 2;

const INSERT: &str = r#"INSERT INTO decision_log (topic, partition, "offset", id, decided_at, amount, body)
    VALUES ($1, $2, $3, $4, $5::timestamptz, $6::bigint, $7::jsonb)
    ON CONFLICT (topic, partition, "offset") DO NOTHING"#;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Ours,
    Bisect,
    Savepoints,
    RowByRow,
}

impl Way {
    const ALL: [Self; 4] = [Self::Ours, Self::Bisect, Self::Savepoints, Self::RowByRow];

    fn name(self) -> &'static str {
        match self {
            Self::Ours => "redrive",
            Self::Bisect => "plain bisect over UNNEST",
            Self::Savepoints => "savepoint per row",
            Self::RowByRow => "row by row",
        }
    }
}

pub(crate) async fn measure(args: &Args, scratch: &Scratch) -> anyhow::Result<Vec<Target>> {
    println!("\n## Isolating poison in batches of {ROWS} rows (CHECK violations, spread evenly)\n");
    let mut medians = [[0.0; POISON.len()]; Way::ALL.len()];
    let sinks = Sinks::new(scratch)?;
    for (column, poison) in POISON.into_iter().enumerate() {
        let records = records(poison);
        let decoder = decision::decoder()?;
        let rows = records.iter().map(|record| decoder.decode(record)).collect::<Result<Vec<_>, _>>();
        let rows = rows.map_err(|failure| anyhow::anyhow!("{failure}"))?;
        let mut times = vec![Vec::new(); Way::ALL.len()];
        for round in 0..args.rounds.max(SLOW_ROUNDS) {
            for (at, way) in Way::ALL.into_iter().enumerate() {
                let is_slow = matches!(way, Way::Savepoints | Way::RowByRow);
                if is_slow && round >= SLOW_ROUNDS {
                    continue;
                }
                decision::empty_table(scratch).await?;
                let (took, found) = sinks.run(way, &rows, scratch).await?;
                anyhow::ensure!(found == poison as usize, "{} found {found} of {poison}", way.name());
                let stored = decision::count_rows(scratch).await?;
                anyhow::ensure!(stored == i64::from(ROWS - poison), "{} stored {stored}", way.name());
                times[at].push(took.as_secs_f64() * 1e3);
            }
        }
        for (at, times) in times.into_iter().enumerate() {
            medians[at][column] = median(times);
        }
    }
    let mut table = Table::new(&["ms per batch, median", "0 poison", "1", "50"]);
    for (way, medians) in Way::ALL.into_iter().zip(&medians) {
        let cells = medians.iter().map(|ms| format!("{ms:.0}"));
        table.row(std::iter::once(way.name().to_owned()).chain(cells));
    }
    println!("{table}");
    Ok(targets(&medians))
}

fn targets(medians: &[[f64; POISON.len()]; Way::ALL.len()]) -> Vec<Target> {
    let ours = medians[0];
    let mut targets = Vec::new();
    for (column, poison) in POISON.into_iter().enumerate() {
        let next = medians[1..].iter().map(|row| row[column]).fold(f64::INFINITY, f64::min);
        let name = format!("{poison} poison rows, ours / the best of the others");
        targets.push(Target::at_most(name, 1.0, ours[column] / next));
    }
    targets.push(Target::at_most("1 poison row, ours / our clean batch", 2.0, ours[1] / ours[0]));
    targets.push(Target::at_most("50 poison rows, ours / our clean batch", 4.0, ours[2] / ours[0]));
    targets
}

struct Sinks {
    ours: PostgresSink,
    bisect: PostgresSink,
}

impl Sinks {
    fn new(scratch: &Scratch) -> anyhow::Result<Self> {
        let sink =
            || anyhow::Ok(PostgresSink::new(&scratch.url()?, decision::table()?, Duration::from_secs(60))?);
        Ok(Self { ours: sink()?, bisect: sink()?.isolating_by(Isolation::Bisect) })
    }

    async fn run(&self, way: Way, rows: &[Row<'_>], scratch: &Scratch) -> anyhow::Result<(Duration, usize)> {
        let sink = match way {
            Way::Ours => &self.ours,
            Way::Bisect => &self.bisect,
            Way::Savepoints => {
                let mut connection = scratch.connect().await?;
                let began = Instant::now();
                let found = by_savepoints(&mut connection, rows).await?;
                return Ok((began.elapsed(), found));
            }
            Way::RowByRow => {
                let mut connection = scratch.connect().await?;
                let began = Instant::now();
                let mut found = 0;
                for row in rows {
                    found += usize::from(insert(&mut connection, row).await.is_err());
                }
                return Ok((began.elapsed(), found));
            }
        };
        let began = Instant::now();
        let stored = sink.store(rows).await;
        anyhow::ensure!(stored.undecided.is_empty(), "{:?}", stored.cause);
        Ok((began.elapsed(), stored.poison.len()))
    }
}

async fn by_savepoints(connection: &mut PgConnection, rows: &[Row<'_>]) -> anyhow::Result<usize> {
    let mut found = 0;
    let mut transaction = connection.begin().await?;
    for row in rows {
        transaction.execute("SAVEPOINT one").await?;
        if insert(&mut transaction, row).await.is_err() {
            transaction.execute("ROLLBACK TO SAVEPOINT one").await?;
            found += 1;
        } else {
            transaction.execute("RELEASE SAVEPOINT one").await?;
        }
    }
    transaction.commit().await?;
    Ok(found)
}

async fn insert(connection: &mut PgConnection, row: &Row<'_>) -> Result<(), sqlx::Error> {
    let mut query = sqlx::query(INSERT)
        .bind(row.identity.topic.to_string())
        .bind(row.identity.partition)
        .bind(row.identity.offset);
    for cell in &row.cells {
        query = query.bind(match cell {
            Cell::Null => None,
            Cell::Bool(bool) => Some(bool.to_string()),
            Cell::Number(text) | Cell::Text(text) => Some(text.to_string()),
            Cell::Json(text) => Some((*text).to_owned()),
            Cell::Time(time) => Some(time.to_string()),
        });
    }
    query.execute(connection).await.map(drop)
}

fn records(poison: u32) -> Vec<Record> {
    let is_poison = |number: u32| poison > 0 && number % (ROWS / poison) == ROWS / poison / 2;
    let record = |number: u32| Record {
        position: Position::new("decision-logs", 0, number.into()),
        timestamp: None,
        key: None,
        value: Some(decision::value(number, if is_poison(number) { -1 } else { number.into() }).into_bytes()),
        headers: Vec::new(),
    };
    (0..ROWS).map(record).collect()
}
