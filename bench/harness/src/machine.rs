//! Where it was measured: figures without it say nothing.

use std::fs;
use std::path::Path;

/// One line about the machine.
#[must_use]
pub fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let model = field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown processor".into());
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{cores} cores ({model}), {}, Linux {}", memory(), kernel.trim())
}

/// How busy the machine was in the last 1, 5 and 15 minutes, ourselves included.
#[must_use]
pub fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}

/// The kind of file system that a folder is on: on tmpfs, durability costs nothing.
#[must_use]
pub fn file_system(folder: &Path) -> String {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mounts = mounts.lines().filter_map(|line| {
        let mut parts = line.split(' ').skip(1);
        Some((parts.next()?, parts.next()?))
    });
    let nearest = mounts.filter(|(point, _)| folder.starts_with(point)).max_by_key(|(point, _)| point.len());
    nearest.map_or_else(|| "unknown".into(), |(_, kind)| kind.to_owned())
}

fn memory() -> String {
    let total =
        field("/proc/meminfo", "MemTotal").and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
    total.map_or_else(|| "unknown memory".into(), |kibibytes| format!("{} GiB", kibibytes / 1024 / 1024))
}

fn field(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}
