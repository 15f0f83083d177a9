//! What a caller can do about a disk that did not do as asked.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The disk did not do as asked. Nothing is acknowledged.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The disk failed: mend it, and try again.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// There is no room left that the settings allow: try again when some has been freed.
    #[error("{} is full: {more} bytes more do not fit, {size} of at most {limit} are used", dir.display())]
    Full {
        /// Which folder.
        dir: PathBuf,
        /// How much more it should hold.
        more: u64,
        /// How much it holds.
        size: u64,
        /// How much it may hold.
        limit: u64,
    },
    /// A record is larger than may be stored: send it in parts.
    #[error("record {item} has {size} bytes, at most {limit} can be stored")]
    TooLarge {
        /// Which one of those given, from 0.
        item: usize,
        /// How large it is.
        size: usize,
        /// How large it may be.
        limit: usize,
    },
    /// Another process uses the folder: stop it, or give this one a folder of its own.
    #[error("{} is in use by another process: stop that, or give this one a folder of its own", dir.display())]
    InUse {
        /// Which folder.
        dir: PathBuf,
    },
    /// It was closed.
    #[error("{} was closed", dir.display())]
    Closed {
        /// Which folder.
        dir: PathBuf,
    },
}

impl Error {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, path: path.to_owned(), source: Arc::new(source) }
    }

    /// Whether there was no room: by the settings, or on the disk.
    #[must_use]
    pub fn is_full(&self) -> bool {
        match self {
            Self::Full { .. } => true,
            Self::Io { source, .. } => {
                matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            }
            _ => false,
        }
    }
}
