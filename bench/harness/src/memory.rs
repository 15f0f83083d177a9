//! What this process occupies, as Linux counts it.

use std::fs;

use anyhow::Context as _;

/// The resident memory of this process, in MiB.
#[derive(Debug, Clone, Copy)]
pub struct Memory {
    /// Now.
    pub now: f64,
    /// The most since [`Memory::forget_peak`].
    pub peak: f64,
}

impl Memory {
    /// As it is now.
    ///
    /// # Errors
    /// Where there is no `/proc/self/status`.
    pub fn read() -> anyhow::Result<Self> {
        let status = fs::read_to_string("/proc/self/status").context("reading /proc/self/status")?;
        Ok(Self { now: mebibytes(&status, "VmRSS:")?, peak: mebibytes(&status, "VmHWM:")? })
    }

    /// Starts the peak anew.
    ///
    /// # Errors
    /// Where there is no `/proc/self/clear_refs`.
    pub fn forget_peak() -> anyhow::Result<()> {
        // 5 resets VmHWM: see proc(5).
        fs::write("/proc/self/clear_refs", "5").context("writing /proc/self/clear_refs")
    }
}

fn mebibytes(status: &str, field: &str) -> anyhow::Result<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let number = line.and_then(|line| line.split_whitespace().next());
    let kibibytes: f64 = number.with_context(|| format!("no {field} in /proc/self/status"))?.parse()?;
    Ok(kibibytes / 1024.0)
}
