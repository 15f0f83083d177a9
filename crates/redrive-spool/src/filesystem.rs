//! The seam to the disk: the few operations that decide what survives.
//!
//! Everything durable in this crate goes through [`Filesystem`], so that [`crate::model`] can stand in
//! for the disk and take away, at any moment, whatever was not synced. A kill of the process cannot find
//! a missing sync: the page cache outlives the process.

use std::ffi::OsString;
use std::fmt::Debug;
use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use jiff::Timestamp;

use crate::error::Error;

/// A place for files.
pub trait Filesystem: Debug + Send + Sync + 'static {
    /// Makes a folder and those above it; what is there already is fine.
    ///
    /// # Errors
    /// What the system says.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;

    /// Whether a folder is there.
    fn is_dir(&self, dir: &Path) -> bool;

    /// The names in a folder, in no order. Reads as it is iterated: a caller may stop early.
    ///
    /// # Errors
    /// What the system says.
    fn names(&self, dir: &Path) -> io::Result<Names>;

    /// Makes a file that was not there, for writing.
    ///
    /// # Errors
    /// `AlreadyExists`, or what the system says.
    fn create(&self, path: &Path) -> io::Result<Box<dyn File>>;

    /// Opens a file that is there, for reading and truncating.
    ///
    /// # Errors
    /// `NotFound`, or what the system says.
    fn open(&self, path: &Path) -> io::Result<Box<dyn File>>;

    /// Gives a file another name; a file of that name is replaced.
    ///
    /// # Errors
    /// What the system says.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Takes a name away.
    ///
    /// # Errors
    /// What the system says.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes the names of a folder durable: until then a new, renamed or removed file may come back as
    /// it was.
    ///
    /// # Errors
    /// What the system says. The same must not be tried again: see [`File::sync`].
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Takes a lock that ends with the process, or with the value returned.
    ///
    /// # Errors
    /// `WouldBlock` when somebody else holds it.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>>;

    /// How large a file is.
    ///
    /// # Errors
    /// What the system says.
    fn size(&self, path: &Path) -> io::Result<u64> {
        self.open(path)?.length()
    }

    /// How large a file is, and when it was last written to. Whoever writes to it changes that.
    ///
    /// # Errors
    /// What the system says.
    fn stamp(&self, path: &Path) -> io::Result<Stamp>;

    /// The bytes of a whole file.
    ///
    /// # Errors
    /// What the system says.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.open(path)?.read_from(0, u64::MAX)
    }
}

/// What tells whether a file has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// How large it is.
    pub size: u64,
    /// When it was last written to.
    pub written: Timestamp,
}

/// The names in a folder.
pub type Names = Box<dyn Iterator<Item = io::Result<Name>> + Send>;

/// A name in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// The name.
    pub name: OsString,
    /// What has it, if that is no file: to read it may take for ever, or read something elsewhere.
    pub other: Option<&'static str>,
}

impl Name {
    /// The name of a file.
    #[must_use]
    pub fn of_file(name: OsString) -> Self {
        Self { name, other: None }
    }

    /// The name of a file, if it is one and the name is text.
    #[must_use]
    pub fn as_file(&self) -> Option<&str> {
        if self.other.is_none() { self.name.to_str() } else { None }
    }
}

/// What has a name, if that is no file. Links are not followed.
fn other(kind: fs::FileType) -> Option<&'static str> {
    if kind.is_file() {
        return None;
    }
    Some(match kind {
        kind if kind.is_dir() => "a folder",
        kind if kind.is_symlink() => "a symbolic link",
        _ => "a pipe, a socket or a device",
    })
}

/// What is known of a file, and nothing else: whatever is not one is refused.
fn file_metadata(path: &Path) -> io::Result<fs::Metadata> {
    let metadata = fs::symlink_metadata(path)?;
    match other(metadata.file_type()) {
        None => Ok(metadata),
        Some(what) => Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is {what}, and no file"))),
    }
}

/// An open file.
pub trait File: Send {
    /// Adds bytes at the end.
    ///
    /// # Errors
    /// What the system says; some of the bytes may be there.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Makes the contents durable.
    ///
    /// # Errors
    /// What the system says. After an error the system may have dropped the bytes and report success the
    /// next time, so the same file must never be synced again: write it anew.
    fn sync(&mut self) -> io::Result<()>;

    /// Cuts the file to this length.
    ///
    /// # Errors
    /// What the system says.
    fn truncate(&mut self, length: u64) -> io::Result<()>;

    /// At most so many bytes from a place; fewer only at the end.
    ///
    /// # Errors
    /// What the system says.
    fn read_from(&mut self, offset: u64, limit: u64) -> io::Result<Vec<u8>>;

    /// How long it is.
    ///
    /// # Errors
    /// What the system says.
    fn length(&self) -> io::Result<u64>;
}

/// The disk of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct Disk;

impl Filesystem for Disk {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        fs::create_dir_all(dir)
    }

    fn is_dir(&self, dir: &Path) -> bool {
        dir.is_dir()
    }

    fn names(&self, dir: &Path) -> io::Result<Names> {
        // The kind of an entry comes with its name: no further look at the disk.
        let name = |entry: fs::DirEntry| {
            let other = entry.file_type().ok().and_then(other);
            Name { name: entry.file_name(), other }
        };
        Ok(Box::new(fs::read_dir(dir)?.map(move |entry| entry.map(name))))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let file = private().read(true).append(true).create_new(true).open(path)?;
        Ok(Box::new(DiskFile(file)))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let file = OpenOptions::new().read(true).append(true).open(path)?;
        Ok(Box::new(DiskFile(file)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        fs::File::open(dir)?.sync_all()
    }

    /// Also files that may only be read.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        file_metadata(path)?;
        fs::read(path)
    }

    fn size(&self, path: &Path) -> io::Result<u64> {
        file_metadata(path).map(|metadata| metadata.len())
    }

    fn stamp(&self, path: &Path) -> io::Result<Stamp> {
        let metadata = file_metadata(path)?;
        let written = Timestamp::try_from(metadata.modified()?).unwrap_or_default();
        Ok(Stamp { size: metadata.len(), written })
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        let file = private().create(true).truncate(false).write(true).open(path)?;
        file.try_lock().map_err(io::Error::from)?;
        Ok(Box::new(file))
    }
}

/// A file that is made is for this user only: it holds payloads.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

/// Makes a folder and those above it, durably: whatever is synced within a folder is gone with it, if its
/// own name is not.
pub(crate) fn make_folder(filesystem: &dyn Filesystem, dir: &Path) -> io::Result<()> {
    let above = match dir.parent() {
        None => return Ok(()),
        Some(above) if above.as_os_str().is_empty() => Path::new("."),
        Some(above) => above,
    };
    if filesystem.is_dir(dir) {
        // Whoever made it may have been interrupted here; a folder above that is not ours may be unreadable.
        let _ = filesystem.sync_dir(above);
        return Ok(());
    }
    if above != Path::new(".") {
        make_folder(filesystem, above)?;
    }
    filesystem.create_dir_all(dir)?;
    filesystem.sync_dir(above)
}

/// Takes a name away. Whether it was there.
pub(crate) fn remove_if_there(filesystem: &dyn Filesystem, path: &Path) -> Result<bool, Error> {
    match filesystem.remove(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Error::io("remove", path)(error)),
    }
}

/// Writes a whole file, durably but for its name. What somebody left there who was interrupted is replaced.
pub(crate) fn write_anew(filesystem: &dyn Filesystem, path: &Path, bytes: &[u8]) -> Result<(), Error> {
    remove_if_there(filesystem, path)?;
    let mut file = filesystem.create(path).map_err(Error::io("create", path))?;
    file.append(bytes).map_err(Error::io("write", path))?;
    file.sync().map_err(Error::io("sync", path))
}

struct DiskFile(fs::File);

impl File for DiskFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn read_from(&mut self, offset: u64, limit: u64) -> io::Result<Vec<u8>> {
        self.0.seek(SeekFrom::Start(offset))?;
        let expected = self.length()?.saturating_sub(offset).min(limit);
        let mut bytes = Vec::with_capacity(usize::try_from(expected).unwrap_or_default());
        (&mut self.0).take(limit).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn length(&self) -> io::Result<u64> {
        self.0.metadata().map(|metadata| metadata.len())
    }
}
