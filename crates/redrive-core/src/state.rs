//! Every legal transition, in one `match` per machine. Nothing else compares states.
//!
//! The stores express the same tables in SQL (`… WHERE status = 'running' AND lease = ?`); the
//! conformance suite drives every (state, step) pair through each store and compares with
//! [`Machine::next`]. `docs/state_machine.md` is printed from these tables.

use std::fmt;

use crate::dead_letter::Status;

/// Something that is done to a piece of work or to a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// A worker takes it, because it is due.
    Claim,
    /// A worker takes it, because its holder's lease ran out.
    TakeOver,
    /// Its holder delivered it.
    Succeed,
    /// Its holder failed, and it is tried again later.
    Retry,
    /// Its holder failed, for good.
    Bury,
    /// Its holder hands it back untried.
    Release,
    /// A person or a policy sends the dead letter back to work.
    Redrive,
    /// A person closes the dead letter.
    Resolve,
}

impl Step {
    /// Every step.
    pub const ALL: [Self; 8] = [
        Self::Claim,
        Self::TakeOver,
        Self::Succeed,
        Self::Retry,
        Self::Bury,
        Self::Release,
        Self::Redrive,
        Self::Resolve,
    ];
}

/// A table of states and steps.
pub trait Machine: Copy + Eq + fmt::Debug + Sized + 'static {
    /// What the machine is about, for the documentation.
    const NAME: &'static str;
    /// Every state.
    const ALL: &'static [Self];

    /// The state after `step`, or nothing when the step is not allowed and must change nothing.
    fn next(self, step: Step) -> Option<Self>;

    /// The word for it on every screen, or nothing while it is not a dead letter.
    fn status(self) -> Option<Status>;
}

/// An event in an outbox: `outbox_event`, and `outbox_event_dlq` once it is dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OutboxState {
    /// Waiting until it is due.
    Ready,
    /// In the hands of a worker.
    Leased,
    /// Delivered.
    Processed,
    /// A dead letter.
    Dead,
    /// A dead letter that went back into the outbox as a new event.
    Redriven,
    /// A dead letter that a person closed.
    Resolved,
}

impl Machine for OutboxState {
    const NAME: &'static str = "outbox";
    const ALL: &'static [Self] =
        &[Self::Ready, Self::Leased, Self::Processed, Self::Dead, Self::Redriven, Self::Resolved];

    fn next(self, step: Step) -> Option<Self> {
        match (self, step) {
            (Self::Ready, Step::Claim) | (Self::Leased, Step::TakeOver) => Some(Self::Leased),
            (Self::Leased, Step::Succeed) => Some(Self::Processed),
            (Self::Leased, Step::Retry | Step::Release) => Some(Self::Ready),
            (Self::Leased, Step::Bury) => Some(Self::Dead),
            (Self::Dead, Step::Redrive) => Some(Self::Redriven),
            (Self::Dead, Step::Resolve) => Some(Self::Resolved),
            _ => None,
        }
    }

    fn status(self) -> Option<Status> {
        match self {
            Self::Dead => Some(Status::Open),
            Self::Redriven => Some(Status::Redriven),
            Self::Resolved => Some(Status::Resolved),
            Self::Ready | Self::Leased | Self::Processed => None,
        }
    }
}

/// A job. Dead jobs stay in their table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JobState {
    /// Waiting until it is due.
    Pending,
    /// In the hands of a worker.
    Running,
    /// Delivered.
    Completed,
    /// Written by others only: failed, and nobody will retry it. Needs a person.
    Failed,
    /// A dead letter.
    DeadLetter,
    /// A dead letter that a person closed; its status column stays `dead_letter`.
    Resolved,
}

impl JobState {
    /// What the `status` column says.
    #[must_use]
    pub const fn column(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::DeadLetter | Self::Resolved => "dead_letter",
        }
    }
}

impl Machine for JobState {
    const NAME: &'static str = "jobs";
    const ALL: &'static [Self] =
        &[Self::Pending, Self::Running, Self::Completed, Self::Failed, Self::DeadLetter, Self::Resolved];

    fn next(self, step: Step) -> Option<Self> {
        match (self, step) {
            (Self::Pending, Step::Claim) | (Self::Running, Step::TakeOver) => Some(Self::Running),
            (Self::Running, Step::Succeed) => Some(Self::Completed),
            (Self::Running, Step::Retry | Step::Release) => Some(Self::Pending),
            (Self::Running, Step::Bury) => Some(Self::DeadLetter),
            (Self::Failed | Self::DeadLetter, Step::Redrive) => Some(Self::Pending),
            (Self::Failed | Self::DeadLetter, Step::Resolve) => Some(Self::Resolved),
            _ => None,
        }
    }

    fn status(self) -> Option<Status> {
        match self {
            Self::DeadLetter => Some(Status::Open),
            Self::Failed => Some(Status::Failed),
            Self::Resolved => Some(Status::Resolved),
            Self::Pending | Self::Running | Self::Completed => None,
        }
    }
}

/// A row of `failed_events`: every one of them is a dead letter of the persist pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailedEventState {
    /// Waiting for the next run of the schedule.
    Pending,
    /// Being retried.
    Processing,
    /// Saved after all, or closed by a person.
    Resolved,
    /// Retried in vain: a person must act.
    Failed,
}

impl FailedEventState {
    /// What the `status` column says.
    #[must_use]
    pub const fn column(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Processing => "PROCESSING",
            Self::Resolved => "RESOLVED",
            Self::Failed => "FAILED",
        }
    }
}

impl Machine for FailedEventState {
    const NAME: &'static str = "failed_events";
    const ALL: &'static [Self] = &[Self::Pending, Self::Processing, Self::Resolved, Self::Failed];

    fn next(self, step: Step) -> Option<Self> {
        match (self, step) {
            (Self::Pending, Step::Claim) | (Self::Processing, Step::TakeOver) => Some(Self::Processing),
            (Self::Processing, Step::Succeed) => Some(Self::Resolved),
            (Self::Processing, Step::Retry | Step::Release) => Some(Self::Pending),
            (Self::Processing, Step::Bury) => Some(Self::Failed),
            (Self::Failed, Step::Redrive) => Some(Self::Pending),
            (Self::Pending | Self::Failed, Step::Resolve) => Some(Self::Resolved),
            _ => None,
        }
    }

    fn status(self) -> Option<Status> {
        Some(match self {
            Self::Pending => Status::Open,
            Self::Processing => Status::Retrying,
            Self::Resolved => Status::Resolved,
            Self::Failed => Status::Failed,
        })
    }
}

/// A letter that redrive keeps itself: handed in by a service, or indexed from a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LetterState {
    /// Waiting for a person or a policy.
    Open,
    /// To be sent, as soon as a worker takes it.
    Queued,
    /// Being sent by a worker.
    Sending,
    /// Sent to where it came from.
    Redriven,
    /// Closed by a person.
    Resolved,
    /// Could not be sent: a person must act.
    Failed,
}

impl LetterState {
    /// What the `state` column says.
    #[must_use]
    pub const fn column(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Queued => "queued",
            Self::Sending => "sending",
            Self::Redriven => "redriven",
            Self::Resolved => "resolved",
            Self::Failed => "failed",
        }
    }
}

impl Machine for LetterState {
    const NAME: &'static str = "letters";
    const ALL: &'static [Self] =
        &[Self::Open, Self::Queued, Self::Sending, Self::Redriven, Self::Resolved, Self::Failed];

    fn next(self, step: Step) -> Option<Self> {
        match (self, step) {
            (Self::Queued, Step::Claim) | (Self::Sending, Step::TakeOver) => Some(Self::Sending),
            (Self::Sending, Step::Succeed) => Some(Self::Redriven),
            (Self::Sending, Step::Retry | Step::Release) => Some(Self::Queued),
            (Self::Sending, Step::Bury) => Some(Self::Failed),
            (Self::Open | Self::Failed, Step::Redrive) => Some(Self::Queued),
            (Self::Open | Self::Failed, Step::Resolve) => Some(Self::Resolved),
            _ => None,
        }
    }

    fn status(self) -> Option<Status> {
        Some(match self {
            Self::Open => Status::Open,
            Self::Queued | Self::Sending => Status::Retrying,
            Self::Redriven => Status::Redriven,
            Self::Resolved => Status::Resolved,
            Self::Failed => Status::Failed,
        })
    }
}

/// The tables as a page for people: the content of `docs/state_machine.md`.
#[must_use]
pub fn document() -> String {
    let mut page = String::from(
        "# State machines\n\nPrinted from `redrive_core::state`; a test fails when this page is stale. \
         A dot is a step that is refused and changes nothing.\n",
    );
    table::<OutboxState>(&mut page);
    table::<JobState>(&mut page);
    table::<FailedEventState>(&mut page);
    table::<LetterState>(&mut page);
    page
}

fn table<M: Machine>(page: &mut String) {
    use fmt::Write as _;
    let steps: Vec<String> = Step::ALL.iter().map(|step| format!("{step:?}")).collect();
    let _ = write!(page, "\n## {}\n\n| state | shown as | {} |\n", M::NAME, steps.join(" | "));
    let _ = writeln!(page, "|{}", "---|".repeat(steps.len() + 2));
    for &state in M::ALL {
        let cells: Vec<String> = Step::ALL
            .iter()
            .map(|&step| state.next(step).map_or("·".into(), |next| format!("{next:?}")))
            .collect();
        let shown = state.status().map_or("–", Status::name);
        let _ = writeln!(page, "| {state:?} | {shown} | {} |", cells.join(" | "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documented_tables_are_the_real_ones() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/state_machine.md");
        if std::env::var_os("REDRIVE_BLESS").is_some() {
            std::fs::write(path, document()).unwrap();
        }
        let page = std::fs::read_to_string(path).unwrap_or_default();
        assert_eq!(page, document(), "stale: REDRIVE_BLESS=1 cargo test -p redrive-core state");
    }

    /// Whatever holds a lease can be settled in every way, and nothing else can.
    fn only_one_state_is_settled<M: Machine>() {
        let settled = |state: &M| state.next(Step::Succeed).is_some();
        assert_eq!(M::ALL.iter().filter(|state| settled(state)).count(), 1);
        for state in M::ALL {
            for step in [Step::TakeOver, Step::Retry, Step::Bury, Step::Release] {
                assert_eq!(state.next(step).is_some(), settled(state), "{state:?} {step:?}");
            }
        }
    }

    #[test]
    fn in_every_machine_only_a_held_piece_of_work_can_be_settled() {
        only_one_state_is_settled::<OutboxState>();
        only_one_state_is_settled::<JobState>();
        only_one_state_is_settled::<FailedEventState>();
        only_one_state_is_settled::<LetterState>();
    }
}
