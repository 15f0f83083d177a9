//! `bench/run outbox`: see `bench_pipelines`.

use std::process::ExitCode;

use bench_pipelines::Subject;

#[tokio::main]
async fn main() -> ExitCode {
    bench_pipelines::main(Subject::Outbox).await
}
