//! A server that dies, stops, or is told to go.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};

use crate::support::redrive;

/// A `redrive serve` of its own; it does not outlive the test.
pub(crate) struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a server in the folder; several in one folder share its configuration, not its log nor its state.
    pub(crate) fn serve(folder: &Path, name: &str) -> Self {
        let state = folder.join(name).display().to_string();
        let listen = "127.0.0.1:0".to_owned();
        let variables = [("REDRIVE__SERVER__LISTEN", listen), ("REDRIVE__SERVER__DATA_DIR", state)];
        Self::serve_with(folder, name, &variables)
    }

    /// Starts a server in the folder, with these variables.
    pub(crate) fn serve_with(folder: &Path, name: &str, variables: &[(&str, String)]) -> Self {
        let log = folder.join(format!("{name}.log"));
        let stderr = File::options().create(true).append(true).open(&log).unwrap();
        let mut command = redrive(folder);
        command.arg("serve").envs(variables.iter().cloned()).stderr(stderr);
        Self { child: command.spawn().unwrap(), log }
    }

    /// SIGKILL, and waits for the end.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn signal(&self, name: &str) {
        let process = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &process]).status().unwrap().success());
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            let lines: Vec<_> = log.lines().collect();
            let end = &lines[lines.len().saturating_sub(40)..];
            eprintln!("the end of {}:\n{}", self.log.display(), end.join("\n"));
        }
    }
}
