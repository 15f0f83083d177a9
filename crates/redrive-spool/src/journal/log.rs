//! The files of a journal as its one writer has them: groups of records go in, and what is acknowledged goes.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

use super::frame::{self, Kind};
use super::mark::{Mark, MarkFile};
use super::segment::Segment;
use super::state::Shared;
use super::{Position, Span};
use crate::error::Error;
use crate::filesystem::{File, remove_if_there};

/// What the first frame of a segment carries, for whoever looks at the file.
const TITLE: &[u8] = b"redrive journal 1";

/// The files, and the one that is open.
pub(super) struct Log {
    shared: Arc<Shared>,
    active: Option<Active>,
    buffer: Vec<u8>,
    /// How many frames are in it.
    frames: u32,
    /// The disk was full when it was last written to.
    is_stuck: bool,
    mark: MarkFile,
}

/// The segment that is being written: the last one of the state.
struct Active {
    file: Box<dyn File>,
    /// Whether the folder knows it for good.
    is_named: bool,
}

impl Log {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        let mark = MarkFile::new(&shared.dir);
        Self { shared, active: None, buffer: Vec::new(), frames: 0, is_stuck: false, mark }
    }

    /// Whether so many bytes more are allowed.
    pub(super) fn check_room(&self, more: u64) -> Result<(), Error> {
        let (size, limit) = (self.shared.state().size(), self.shared.options.max_size);
        if size.saturating_add(more) <= limit {
            return Ok(());
        }
        Err(Error::Full { dir: self.shared.dir.clone(), more, size, limit })
    }

    /// Writes a group of appends, one sync for all of them. Each gets its span, or all the same error.
    ///
    /// After an error nothing of the group counts: its numbers are nobody's, its bytes are cut if the disk
    /// lets us, and the next group goes to a new file. The file whose sync failed is not synced again.
    pub(super) fn append(&mut self, group: &[&[Bytes]]) -> Result<Vec<Span>, Error> {
        let first = self.shared.state().next;
        let spans = spans(first, group);
        let next = spans.last().map_or(first, |span| span.last.0 + 1);
        self.write(first, next, |log| {
            for (number, record) in (first..).zip(group.iter().copied().flatten()) {
                log.encode(Kind::Record, number, record);
            }
            log.encode_acknowledged();
        })?;
        Ok(spans)
    }

    /// Whether something was acknowledged that is not written down.
    pub(super) fn has_untold(&self) -> bool {
        self.shared.state().untold
    }

    /// Writes down what was acknowledged, if anything was.
    pub(super) fn tell_acknowledged(&mut self) -> Result<(), Error> {
        let (untold, next) = {
            let state = self.shared.state();
            (state.untold, state.next)
        };
        if !untold {
            return Ok(());
        }
        self.write(next, next, Self::encode_acknowledged)
    }

    /// At a proper end: what was acknowledged is written down, and if there were records, which number comes
    /// next. So nobody takes damage to the last of them for a write that a crash interrupted.
    pub(super) fn seal(&mut self) -> Result<(), Error> {
        if self.active.is_none() {
            return self.tell_acknowledged();
        }
        let next = self.shared.state().next;
        self.write(next, next, |log| {
            log.encode_acknowledged();
            log.encode(Kind::Start, next, TITLE);
        })
    }

    /// Removes segments that hold nothing but acknowledged records, oldest first, and one durably before
    /// the next: an older one must not come back without the acknowledgements of a newer one.
    pub(super) fn tidy(&mut self) -> Result<(), Error> {
        loop {
            let Some(path) = self.spent() else { return Ok(()) };
            // A batch of which one part goes with this segment must not be remembered by its other part:
            // so first it is written down that all of it is done. On a full disk room comes first.
            match self.tell_acknowledged() {
                Err(error) if !error.is_full() => return Err(error),
                _ => {}
            }
            if self.shared.state().segments.len() == 1 {
                let filesystem = self.shared.filesystem.as_ref();
                self.mark.clear(filesystem).map_err(Error::io("clear the mark of", &self.shared.dir))?;
            }
            remove_if_there(self.shared.filesystem.as_ref(), &path)?;
            self.shared.state().segments.pop_front();
            let dir = &self.shared.dir;
            self.shared.filesystem.sync_dir(dir).map_err(Error::io("sync", dir))?;
        }
    }

    /// The oldest segment that is not needed. The last one is kept for its numbers, unless the disk is so
    /// full that no other can be begun.
    fn spent(&self) -> Option<PathBuf> {
        let state = self.shared.state();
        let last =
            state.segments.front().filter(|_| self.is_stuck && self.active.is_none() && state.is_done());
        state.spent().or(last).map(|segment| segment.path.clone())
    }

    /// One write: whatever fills the buffer is durable, and counts from now on; or none of it does.
    fn write(&mut self, first: u64, next: u64, fill: impl FnOnce(&mut Self)) -> Result<(), Error> {
        let written = self.try_write(first, fill);
        match &written {
            Ok(()) => self.admit(next),
            Err(error) => self.give_up(next, error),
        }
        written
    }

    fn try_write(&mut self, first: u64, fill: impl FnOnce(&mut Self)) -> Result<(), Error> {
        self.buffer.clear();
        self.frames = 0;
        self.roll(first)?;
        fill(self);
        self.store()
    }

    /// Sees to it that there is a segment with room.
    fn roll(&mut self, first: u64) -> Result<(), Error> {
        let full = |segment: &Segment| segment.length >= self.shared.options.segment_size();
        if self.active.is_some() && self.shared.state().segments.back().is_some_and(full) {
            self.active = None;
        }
        if self.active.is_none() {
            self.active = Some(self.start(first)?);
        }
        Ok(())
    }

    fn start(&mut self, first: u64) -> Result<Active, Error> {
        let path = Segment::path(&self.shared.dir, first);
        let begun = Segment::unnamed(&path);
        let file = self.shared.filesystem.create(&begun).map_err(Error::io("create", &begun))?;
        self.encode(Kind::Start, first, TITLE);
        let last = first.saturating_sub(1);
        self.shared.state().segments.push_back(Segment { first, last, length: 0, path, has_holes: false });
        Ok(Active { file, is_named: false })
    }

    fn encode_acknowledged(&mut self) {
        let mut state = self.shared.state();
        if !std::mem::take(&mut state.untold) {
            return;
        }
        let (up_to, islands) = (state.acknowledged.up_to(), state.acknowledged.encode());
        drop(state);
        self.encode(Kind::Acknowledged, up_to, &islands);
    }

    fn encode(&mut self, kind: Kind, number: u64, payload: &[u8]) {
        frame::encode(kind, number, self.frames, payload, &mut self.buffer);
        self.frames = self.frames.saturating_add(1);
    }

    /// Writes the buffer and makes it durable.
    fn store(&mut self) -> Result<(), Error> {
        let Some(active) = &mut self.active else { return Ok(()) };
        let path = match self.shared.state().segments.back() {
            Some(segment) => segment.path.clone(),
            None => self.shared.dir.clone(),
        };
        active.file.append(&self.buffer).map_err(Error::io("write", &path))?;
        active.file.sync().map_err(Error::io("sync", &path))?;
        if !active.is_named {
            let (dir, filesystem) = (&self.shared.dir, &self.shared.filesystem);
            filesystem.rename(&Segment::unnamed(&path), &path).map_err(Error::io("rename", &path))?;
            filesystem.sync_dir(dir).map_err(Error::io("sync", dir))?;
            active.is_named = true;
        }
        Ok(())
    }

    /// What was written counts from now on.
    fn admit(&mut self, next: u64) {
        self.is_stuck = false;
        let mut state = self.shared.state();
        state.next = next;
        if let Some(segment) = state.segments.back_mut() {
            segment.length += self.buffer.len() as u64;
            segment.last = next - 1;
        }
        let mark = Mark::of(&state);
        drop(state);
        if let Some(mark) = mark {
            self.mark.write(self.shared.filesystem.as_ref(), mark);
        }
        self.shared.durable.send_replace(next - 1);
    }

    /// Forgets the file that failed, and the numbers of what should have been in it.
    fn give_up(&mut self, next: u64, error: &Error) {
        self.is_stuck = error.is_full();
        let active = self.active.take();
        let mut state = self.shared.state();
        let first = state.next;
        // One more, so that the next segment has another name even if nothing was to be numbered.
        state.next = next.max(first + 1);
        let last = state.next - 1;
        state.acknowledged.add(first, last);
        state.untold = true;
        let Some(mut active) = active else { return };
        let Some(segment) = state.segments.back_mut() else { return };
        if segment.length > 0 {
            // It may fail like the write did; then recovery cuts it, or finds records that nobody was
            // told of.
            let _ = active.file.truncate(segment.length);
        } else {
            for path in [Segment::unnamed(&segment.path), segment.path.clone()] {
                let _ = self.shared.filesystem.remove(&path);
            }
            state.segments.pop_back();
        }
    }
}

/// The numbers of each append.
fn spans(mut first: u64, group: &[&[Bytes]]) -> Vec<Span> {
    let numbered = group.iter().map(|records| {
        let span = Span { first: Position(first), last: Position(first + records.len() as u64 - 1) };
        first = span.last.0 + 1;
        span
    });
    numbered.collect()
}
