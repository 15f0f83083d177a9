//! Waiting for something that another task or process does.

use std::time::{Duration, Instant};

/// How long a test waits for something that must happen. It costs nothing where it happens, so it is longer than a
/// machine can be busy: a test that runs into it has found a defect.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Between two looks; each may cost a query.
const PAUSE: Duration = Duration::from_millis(10);

/// Waits until it holds; a test that waits in vain fails instead of hanging.
pub async fn eventually(within: Duration, what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + within;
    while !holds().await {
        assert!(Instant::now() < deadline, "not within {within:?}: {what}");
        tokio::time::sleep(PAUSE).await;
    }
}
