//! The `command` handler with real processes.
#![allow(clippy::unwrap_used, reason = "the helpers of these tests fail as the tests do")]

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use redrive_core::event::{Event, WorkId};
use redrive_core::failure::{Class, Code, Failure};
use redrive_core::handler::Handler as _;
use redrive_engine::handlers::{CommandHandler, CommandOptions, SetupError};
use rustix::process::{Pid, Signal, kill_process};

const LONG: Duration = Duration::from_secs(60);

fn event(payload: impl Into<Vec<u8>>) -> Event {
    Event {
        id: WorkId(7),
        origin: WorkId(3),
        event_type: "OrderCreated".into(),
        aggregate_type: "Order".into(),
        key: "42".into(),
        payload: payload.into(),
        created_at: Timestamp::UNIX_EPOCH,
        attempt: 2,
    }
}

fn handler(command: &[&str], timeout: Duration) -> CommandHandler {
    let command = command.iter().map(OsString::from).collect();
    CommandHandler::new("orders", CommandOptions { command, timeout }).unwrap()
}

/// A shell that gets `folder` as `$1`.
fn shell(script: &str, folder: &Path, timeout: Duration) -> CommandHandler {
    handler(&["sh", "-c", script, "sh", folder.to_str().unwrap()], timeout)
}

async fn run(script: &str, payload: impl Into<Vec<u8>>) -> Result<(), Failure> {
    handler(&["sh", "-c", script], LONG).handle(&[event(payload)]).await.remove(0)
}

/// Whether a process is gone, or dead and only waiting for its parent.
fn is_dead(pid: i32) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z')),
        Err(_) => true,
    }
}

/// Waits for a signal that only another process can give.
async fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + LONG;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "{what} did not happen");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn pid(file: &PathBuf) -> Option<i32> {
    std::fs::read_to_string(file).ok()?.strip_suffix('\n')?.parse().ok()
}

#[tokio::test]
async fn the_program_gets_the_payload_and_the_envelope() {
    let folder = tempfile::tempdir().unwrap();
    let script = r#"cat > "$1/body"; env | grep '^REDRIVE_' | sort > "$1/env""#;
    let payload = b"\x00\xff{\"id\": 1}\r\n".to_vec();
    let event = Event { key: "a\0b $(touch x) `x`".into(), ..event(payload.clone()) };
    assert_eq!(shell(script, folder.path(), LONG).handle(&[event]).await, [Ok(())]);
    assert_eq!(std::fs::read(folder.path().join("body")).unwrap(), payload);
    let environment = std::fs::read_to_string(folder.path().join("env")).unwrap();
    for line in [
        "REDRIVE_ATTEMPT=2",
        "REDRIVE_EVENT_ID=7",
        "REDRIVE_EVENT_TYPE=OrderCreated",
        "REDRIVE_IDEMPOTENCY_KEY=orders:3",
        "REDRIVE_KEY=a\u{FFFD}b $(touch x) `x`",
        "REDRIVE_PIPELINE=orders",
    ] {
        assert!(environment.lines().any(|found| found == line), "{line} is not in\n{environment}");
    }
}

#[tokio::test]
async fn the_exit_status_decides() {
    assert_eq!(run("exit 0", "").await, Ok(()));
    for (status, class) in [(75, Class::Transient), (1, Class::Permanent), (127, Class::Permanent)] {
        let failure = run(&format!("echo because >&2; exit {status}"), "").await.unwrap_err();
        assert_eq!((failure.class, failure.code), (class, Some(Code::Exit(status))));
        assert_eq!(failure.message, format!("\"sh\" ended with status {status}: because"));
    }
}

#[tokio::test]
async fn death_by_a_signal_is_unclassified() {
    let failure = run("kill -9 $$", "").await.unwrap_err();
    assert_eq!((failure.class, failure.code), (Class::Unclassified, Some(Code::Exit(-9))));
    assert_eq!(failure.kind, "CommandKilled");
}

#[tokio::test]
async fn a_program_that_cannot_be_started_is_not_the_events_fault() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("audit.sh");
    std::fs::write(&file, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    for (program, code) in [("/no/such/program", "NotFound"), (file.to_str().unwrap(), "PermissionDenied")] {
        let outcome = handler(&[program, "--password=hunter2"], LONG).handle(&[event("{}")]).await.remove(0);
        let failure = outcome.unwrap_err();
        assert_eq!((failure.class, failure.code), (Class::Transient, Some(Code::Io(code.into()))));
        assert!(failure.message.contains(program) && failure.message.contains("check that"));
        assert!(!failure.message.contains("hunter2"));
    }
    let empty = CommandHandler::new("orders", CommandOptions { command: Vec::new(), timeout: LONG });
    assert!(matches!(empty, Err(SetupError::EmptyCommand)));
}

#[tokio::test]
async fn a_program_need_not_read_its_input() {
    let large = vec![b'x'; 4 * 1024 * 1024];
    assert_eq!(run("exit 0", large.clone()).await, Ok(()));
    assert_eq!(run("exec 0<&-; sleep 0.1; exit 0", large.clone()).await, Ok(()));
    let failure = run("head -c 10 > /dev/null; echo wrong >&2; exit 1", large).await.unwrap_err();
    assert_eq!(failure.message, "\"sh\" ended with status 1: wrong");
}

#[tokio::test]
async fn endless_output_neither_blocks_nor_is_kept() {
    assert_eq!(run("head -c 100000000 /dev/zero", "").await, Ok(()));
    let script = "head -c 50000000 /dev/zero | tr '\\0' x >&2; echo the end >&2; exit 1";
    let failure = run(script, "").await.unwrap_err();
    assert!(failure.message.ends_with("the end") && failure.message.len() < 1200);
}

#[tokio::test]
async fn at_the_time_out_the_whole_process_group_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let script = r#"echo working >&2; echo $$ > "$1/leader"
        sh -c 'echo $$ > "$1/grandchild"; trap "" TERM HUP INT; while :; do sleep 300; done' sh "$1" &
        wait"#;
    let handler = shell(script, folder.path(), LONG);
    let files = ["leader", "grandchild"].map(|name| folder.path().join(name));
    let batch = [event("{}")];
    // The time runs out when both are there.
    let runs_out = async {
        let pids = eventually("the start", || Some([pid(&files[0])?, pid(&files[1])?])).await;
        tokio::time::pause();
        tokio::time::advance(LONG).await;
        tokio::time::resume();
        pids
    };
    let (outcomes, [leader, grandchild]) = tokio::join!(handler.handle(&batch), runs_out);
    let failure = outcomes.into_iter().next().unwrap().unwrap_err();
    assert_eq!((failure.class, failure.code, &*failure.kind), (Class::Unclassified, None, "Timeout"));
    assert_eq!(failure.message, "\"sh\" did not finish within 60s: working");
    assert!(!Path::new(&format!("/proc/{leader}")).exists(), "the leader is reaped");
    eventually("the grandchild's death", || is_dead(grandchild).then_some(())).await;
}

#[tokio::test]
async fn a_cancelled_call_leaves_nothing_running() {
    let folder = tempfile::tempdir().unwrap();
    let script = r#"echo $$ > "$1/leader"; sh -c 'echo $$ > "$1/grandchild"; sleep 300' sh "$1"; :"#;
    let handler = shell(script, folder.path(), LONG);
    let files = ["leader", "grandchild"].map(|name| folder.path().join(name));
    let batch = [event("{}")];
    let pids = tokio::select! {
        _ = handler.handle(&batch) => panic!("it sleeps"),
        pids = eventually("the start", || Some([pid(&files[0])?, pid(&files[1])?])) => pids,
    };
    eventually("the grandchild's death", || is_dead(pids[1]).then_some(())).await;
    let leader = format!("/proc/{}", pids[0]);
    eventually("the reaping of the leader", || (!Path::new(&leader).exists()).then_some(())).await;
}

#[tokio::test]
async fn what_runs_on_in_the_background_is_neither_waited_for_nor_killed() {
    let folder = tempfile::tempdir().unwrap();
    let handler = shell(r#"sleep 300 & echo $! > "$1/background"; exit 0"#, folder.path(), LONG);
    // Had it been waited for, that would have been a time-out.
    assert_eq!(handler.handle(&[event(vec![b'x'; 1024 * 1024])]).await, [Ok(())]);
    let background = pid(&folder.path().join("background")).unwrap();
    assert!(!is_dead(background));
    kill_process(Pid::from_raw(background).unwrap(), Signal::KILL).unwrap();
}

#[tokio::test]
async fn a_batch_has_one_outcome_for_each_event_in_order() {
    let handler = handler(&["sh", "-c", "read status; exit $status"], LONG);
    let batch: Vec<_> = [0, 1, 75, 0, 2, 0].map(|status| event(format!("{status}\n"))).into();
    let codes: Vec<_> = handler.handle(&batch).await.into_iter().map(|outcome| outcome.err()?.code).collect();
    let exit = |status| Some(Code::Exit(status));
    assert_eq!(codes, [None, exit(1), exit(75), None, exit(2), None]);
}
