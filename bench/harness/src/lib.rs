//! What the benches share.
//!
//! | item | is |
//! |---|---|
//! | [`on_scratch`], [`conclude`], [`ended`] | what every bench does around its measuring |
//! | [`race()`] | contestants that take turns, round by round, on a noisy machine |
//! | [`Rates`], [`Ratio`] | what came out: medians, and how far the rounds lie apart |
//! | [`Raw`] | the yardstick: a loop with the best SQL and nothing else |
//! | [`Stage`], [`events`] | the same tables and events for everybody |
//! | [`Target`] | what we want to reach, and the table of what was reached |
//! | [`Memory`] | what this process occupies |
//! | [`Scratch`] | a Postgres database that is dropped afterwards |
//! | [`machine()`] | where all this was measured |

pub mod events;
mod machine;
mod memory;
mod postgres;
mod processor;
mod race;
mod rates;
mod raw;
mod run;
mod stage;
mod stop;
mod table;
mod target;

pub use machine::{file_system, load, machine};
pub use memory::Memory;
pub use postgres::Scratch;
pub use race::{Contestant, race};
pub use rates::{Rates, Ratio, median, thousands};
pub use raw::{Form, Kind, Raw, RawPace, Settle};
pub use run::{conclude, ended, on_scratch};
pub use stage::{Hand, Stage, tidy_postgres, tidy_sqlite};
pub use table::Table;
pub use target::{Target, verdict};
