//! Servers that die, stop and are told to go, and the service that they deliver to.
#![allow(dead_code, unused_imports, reason = "not every suite uses all of it")]

pub(crate) mod ingest;
mod process;
mod receiver;
pub(crate) mod s3;

pub(crate) use process::Process;
pub(crate) use receiver::Receiver;
