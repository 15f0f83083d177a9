//! The processor time of this process: what others do on the machine hardly moves it.

use std::fs;
use std::time::Duration;

use anyhow::Context as _;

/// What Linux counts processor time in, for programs.
const TICK: Duration = Duration::from_millis(10);

/// The time that all threads of this process have spent on a processor so far.
pub(crate) fn spent() -> anyhow::Result<Duration> {
    let stat = fs::read_to_string("/proc/self/stat").context("reading /proc/self/stat")?;
    ticks(&stat).map(|ticks| TICK * ticks).context("/proc/self/stat does not look as in proc(5)")
}

/// Fields 14 and 15, counted behind the name, which may contain anything.
fn ticks(stat: &str) -> Option<u32> {
    let (_, behind) = stat.rsplit_once(')')?;
    let mut times = behind.split_whitespace().skip(11).map(|field| field.parse::<u32>().ok());
    Some(times.next()?? + times.next()??)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_system_time_are_added_up() {
        assert_eq!(ticks("42 (a) b) S 1 1 1 0 -1 0 10 0 0 0 120 30 0 0 20"), Some(150));
    }
}
