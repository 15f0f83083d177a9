//! A disk in memory that can lose its power.
//!
//! It keeps what was synced apart from what was not. [`ModelDisk::lose_power`] takes away what was not:
//! of each unsynced write nothing, a part, zeros or all of it survives; of each unsynced change of a folder
//! nothing or all; of a folder whose own name is not synced nothing or all that is in it. Which, is decided by
//! a seed. It can also fail at a chosen operation ([`Fault`]), and keeps the habit of real systems that a sync
//! which failed has dropped the bytes, and reports success when asked again. It is as slow as a test needs:
//! [`ModelDisk::hold_syncs`] keeps every sync waiting until it is released.
//!
//! It is not a stand-in for a real disk elsewhere: everything is in memory.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use crate::filesystem::{File, Filesystem, Name, Names, Stamp};

/// What reaches the disk as a whole, in some losses of power. So small that a record can be several.
const PAGE: usize = 64;

/// A disk in memory. Clones are one disk.
#[derive(Debug, Clone, Default)]
pub struct ModelDisk(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    world: Mutex<World>,
    /// Tells that a sync waits, or that syncs are released.
    syncs: Condvar,
}

/// Syncs wait as long as this is there.
#[derive(Debug)]
#[must_use = "the syncs are released when it is dropped"]
pub struct HeldSyncs(ModelDisk);

impl HeldSyncs {
    /// Blocks until a sync waits.
    pub fn wait_for_one(&self) {
        let world = self.0.world();
        drop(self.0.0.syncs.wait_while(world, |world| world.waiting_syncs == 0));
    }
}

impl Drop for HeldSyncs {
    fn drop(&mut self) {
        self.0.world().are_syncs_held = false;
        self.0.0.syncs.notify_all();
    }
}

/// What goes wrong, and when: operations are counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// From this operation on nothing works: the process was killed.
    KilledAt(u64),
    /// This operation fails with this error, and nothing else does.
    FailsAt(u64, ErrorKind),
    /// From this operation on, whatever needs room fails.
    FullAt(u64),
}

#[derive(Debug, Default)]
struct World {
    files: HashMap<u64, Contents>,
    /// The names as everybody sees them.
    names: BTreeMap<PathBuf, u64>,
    /// The names that survive for sure.
    durable_names: BTreeMap<PathBuf, u64>,
    /// What was done to the names of a folder since it was synced.
    changes: Vec<Change>,
    folders: BTreeSet<PathBuf>,
    /// Folders that survive for sure.
    durable_folders: BTreeSet<PathBuf>,
    locks: BTreeSet<PathBuf>,
    next_file: u64,
    operations: u64,
    fault: Option<Fault>,
    are_syncs_held: bool,
    waiting_syncs: usize,
    /// Counts restarts: locks and open files of an earlier life are void.
    life: u64,
}

#[derive(Debug, Clone, Default)]
struct Contents {
    bytes: Vec<u8>,
    durable: Vec<u8>,
    /// A sync failed: what was not durable then never will be.
    is_lost: bool,
}

#[derive(Debug, Clone)]
struct Change {
    folder: PathBuf,
    removed: Option<PathBuf>,
    added: Option<(PathBuf, u64)>,
}

impl ModelDisk {
    /// Arms a fault; the operations are counted anew.
    pub fn arm(&self, fault: Option<Fault>) {
        let mut world = self.world();
        world.operations = 0;
        world.fault = fault;
    }

    /// How many operations there were since the last [`Self::arm`].
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.world().operations
    }

    /// The process ends, and another one starts: open files and locks are gone, everything else is there.
    pub fn restart(&self) {
        let mut world = self.world();
        world.locks.clear();
        world.life += 1;
        world.fault = None;
    }

    /// The power fails: what was not synced survives or not, as the seed has it.
    pub fn lose_power(&self, seed: u64) {
        self.restart();
        self.world().lose(&mut Dice(seed));
    }

    /// Keeps every sync of a file waiting until what is returned is dropped.
    pub fn hold_syncs(&self) -> HeldSyncs {
        self.world().are_syncs_held = true;
        HeldSyncs(self.clone())
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.0.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_for_release(&self) {
        let mut world = self.world();
        world.waiting_syncs += 1;
        self.0.syncs.notify_all();
        let released = self.0.syncs.wait_while(world, |world| world.are_syncs_held);
        released.unwrap_or_else(PoisonError::into_inner).waiting_syncs -= 1;
    }

    /// Counts an operation, and fails it if it is its turn.
    fn operate(&self, need: Need) -> io::Result<MutexGuard<'_, World>> {
        let mut world = self.world();
        world.operations += 1;
        let now = world.operations;
        let kind = match world.fault {
            Some(Fault::KilledAt(at)) if now >= at => ErrorKind::Other,
            Some(Fault::FailsAt(at, kind)) if now == at => kind,
            Some(Fault::FullAt(at)) if now >= at && need == Need::Room => ErrorKind::StorageFull,
            _ => return Ok(world),
        };
        Err(kind.into())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Room,
    Nothing,
}

impl World {
    fn lose(&mut self, dice: &mut Dice) {
        let mut names = self.durable_names.clone();
        for change in std::mem::take(&mut self.changes) {
            if dice.roll(2) == 0 {
                change.apply(&mut names);
            }
        }
        // A folder goes with everything in it, however well that was synced.
        for folder in self.folders.difference(&self.durable_folders) {
            if dice.roll(2) == 0 {
                names.retain(|path, _| !path.starts_with(folder));
            }
        }
        let survives = |folder: &PathBuf| names.keys().any(|path| path.starts_with(folder));
        self.folders.retain(|folder| self.durable_folders.contains(folder) || survives(folder));
        self.durable_folders.clone_from(&self.folders);
        self.durable_names.clone_from(&names);
        self.names = names;
        for contents in self.files.values_mut() {
            contents.lose(dice);
        }
    }

    fn change(&mut self, removed: Option<&Path>, added: Option<(&Path, u64)>) {
        let path = added.map(|(path, _)| path).or(removed);
        let folder = path.and_then(Path::parent).unwrap_or(Path::new("")).to_owned();
        let added = added.map(|(path, file)| (path.to_owned(), file));
        let change = Change { folder, removed: removed.map(Path::to_owned), added };
        change.apply(&mut self.names);
        self.changes.push(change);
    }

    fn file(&self, path: &Path) -> io::Result<u64> {
        self.names.get(path).copied().ok_or_else(|| ErrorKind::NotFound.into())
    }
}

impl Change {
    fn apply(&self, names: &mut BTreeMap<PathBuf, u64>) {
        if let Some(removed) = &self.removed {
            names.remove(removed);
        }
        if let Some((path, file)) = &self.added {
            names.insert(path.clone(), *file);
        }
    }
}

impl Contents {
    fn lose(&mut self, dice: &mut Dice) {
        let mut survives = self.durable.clone();
        // What was synced and cut since may be cut, or not.
        if self.bytes.len() < survives.len() && dice.roll(2) == 0 {
            survives.truncate(self.bytes.len());
        }
        let unsynced = self.bytes.get(survives.len()..).unwrap_or_default();
        if !self.is_lost && !unsynced.is_empty() {
            let part = &unsynced[..dice.roll(unsynced.len() as u64 + 1) as usize];
            match dice.roll(5) {
                0 => {}
                1 => survives.extend(part),
                2 => survives.extend(part.iter().map(|_| 0)),
                // Pages are written in no order: the length is there, some of the bytes are not.
                3 => survives.extend(part.iter().map(|byte| if dice.roll(8) == 0 { 0 } else { *byte })),
                _ => part.chunks(PAGE).for_each(|page| {
                    let is_written = u8::from(dice.roll(4) > 0);
                    survives.extend(page.iter().map(|byte| byte * is_written));
                }),
            }
        }
        *self = Self { bytes: survives.clone(), durable: survives, is_lost: false };
    }
}

impl Filesystem for ModelDisk {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.operate(Need::Room)?.folders.insert(dir.to_owned());
        Ok(())
    }

    fn is_dir(&self, dir: &Path) -> bool {
        dir.parent().is_none() || self.world().folders.contains(dir)
    }

    fn names(&self, dir: &Path) -> io::Result<Names> {
        let world = self.operate(Need::Nothing)?;
        let within = world.names.keys().filter(|path| path.parent() == Some(dir));
        let names: Vec<Name> =
            within.filter_map(|path| Some(Name::of_file(path.file_name()?.to_owned()))).collect();
        Ok(Box::new(names.into_iter().map(Ok)))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let mut world = self.operate(Need::Room)?;
        if world.names.contains_key(path) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        world.next_file += 1;
        let file = world.next_file;
        world.files.insert(file, Contents::default());
        world.change(None, Some((path, file)));
        let life = world.life;
        Ok(Box::new(ModelFile { disk: self.clone(), file, life }))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let world = self.operate(Need::Nothing)?;
        let (file, life) = (world.file(path)?, world.life);
        Ok(Box::new(ModelFile { disk: self.clone(), file, life }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut world = self.operate(Need::Nothing)?;
        let file = world.file(from)?;
        world.change(Some(from), Some((to, file)));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut world = self.operate(Need::Nothing)?;
        world.file(path)?;
        world.change(Some(path), None);
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut world = self.operate(Need::Nothing)?;
        let (here, elsewhere) = std::mem::take(&mut world.changes)
            .into_iter()
            .partition::<Vec<_>, _>(|change| change.folder == dir);
        world.changes = elsewhere;
        let within = world.folders.iter().filter(|folder| folder.parent() == Some(dir));
        let within: Vec<PathBuf> = within.cloned().collect();
        world.durable_folders.extend(within);
        here.iter().for_each(|change| change.apply(&mut world.durable_names));
        Ok(())
    }

    /// It has no clock: every file is old.
    fn stamp(&self, path: &Path) -> io::Result<Stamp> {
        Ok(Stamp { size: self.size(path)?, written: Timestamp::UNIX_EPOCH })
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        let mut world = self.operate(Need::Nothing)?;
        if !world.locks.insert(path.to_owned()) {
            return Err(ErrorKind::WouldBlock.into());
        }
        let life = world.life;
        Ok(Box::new(ModelLock { disk: self.clone(), path: path.to_owned(), life }))
    }
}

struct ModelLock {
    disk: ModelDisk,
    path: PathBuf,
    life: u64,
}

impl Drop for ModelLock {
    fn drop(&mut self) {
        let mut world = self.disk.world();
        if world.life == self.life {
            world.locks.remove(&self.path);
        }
    }
}

struct ModelFile {
    disk: ModelDisk,
    file: u64,
    life: u64,
}

impl ModelFile {
    fn with<T>(&self, need: Need, act: impl FnOnce(&mut Contents) -> T) -> io::Result<T> {
        let mut world = self.disk.operate(need)?;
        if world.life != self.life {
            return Err(ErrorKind::Other.into());
        }
        world.files.get_mut(&self.file).map(act).ok_or_else(|| ErrorKind::NotFound.into())
    }
}

impl File for ModelFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let written = self.with(Need::Room, |contents| contents.bytes.extend(bytes));
        if written.is_err() {
            // A write that fails, or is interrupted, may have written some of it.
            let mut world = self.disk.world();
            let part = world.operations as usize % (bytes.len() + 1);
            if world.life == self.life
                && let Some(contents) = world.files.get_mut(&self.file)
            {
                contents.bytes.extend(&bytes[..part]);
            }
        }
        written
    }

    fn sync(&mut self) -> io::Result<()> {
        self.disk.wait_for_release();
        let synced = self.with(Need::Nothing, |contents| {
            if !contents.is_lost {
                contents.durable.clone_from(&contents.bytes);
            }
        });
        let mut world = self.disk.world();
        let killed = matches!(world.fault, Some(Fault::KilledAt(_)));
        if synced.is_err()
            && !killed
            && let Some(contents) = world.files.get_mut(&self.file)
        {
            contents.is_lost = true;
        }
        synced
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.with(Need::Nothing, |contents| {
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            contents.bytes.resize(length, 0);
        })
    }

    fn read_from(&mut self, offset: u64, limit: u64) -> io::Result<Vec<u8>> {
        self.with(Need::Nothing, |contents| {
            let start = usize::try_from(offset).unwrap_or(usize::MAX).min(contents.bytes.len());
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            let end = start.saturating_add(limit).min(contents.bytes.len());
            contents.bytes[start..end].to_vec()
        })
    }

    fn length(&self) -> io::Result<u64> {
        self.with(Need::Nothing, |contents| contents.bytes.len() as u64)
    }
}

/// Numbers that look random and are the same for the same seed (splitmix64).
struct Dice(u64);

impl Dice {
    /// A number below the given one.
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % sides.max(1)
    }
}
