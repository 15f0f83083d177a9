//! A process with all its descendants, as one process group.

use std::process::ExitStatus;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, ChildStderr, ChildStdin, Command};

/// A running program that leads its own process group. Dropping it kills the whole group.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    /// None once the leader has been reaped: its number may then belong to somebody else.
    group: Option<Pid>,
}

impl Process {
    /// Starts a program in a group of its own.
    pub(super) fn start(command: &mut Command) -> std::io::Result<Self> {
        // The leader is reaped in the background when its handle is dropped.
        let child = command.process_group(0).kill_on_drop(true).spawn()?;
        let group = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
        Ok(Self { child, group })
    }

    /// Its standard input and error, once, where they are pipes.
    pub(super) fn pipes(&mut self) -> (Option<ChildStdin>, Option<ChildStderr>) {
        (self.child.stdin.take(), self.child.stderr.take())
    }

    /// Waits until the leader ends, and reaps it.
    pub(super) async fn wait(&mut self) -> std::io::Result<ExitStatus> {
        let status = self.child.wait().await;
        if status.is_ok() {
            self.group = None;
        }
        status
    }

    /// Kills the leader and every descendant that has not left the group.
    pub(super) fn kill(&self) {
        if let Some(group) = self.group {
            // An error means that nobody is left.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Before the child's handle is dropped and reaped: until then the number is ours.
        self.kill();
    }
}
