//! redrive: one dead-letter layer for every pipeline.
//!
//! This crate is the binary `redrive` and the front door for library users: [`config`] reads and
//! checks `redrive.toml`, [`core`] decides, [`store`] keeps.

pub mod config;

pub use redrive_core as core;
pub use redrive_engine as engine;
pub use redrive_store as store;
