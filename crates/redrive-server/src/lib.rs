//! The HTTP face of redrive.
//!
//! Whoever uses this crate brings a bound listener, a [`Readiness`] and a token that ends the show;
//! [`serve`] answers until the token is cancelled, finishes what is in flight, and gives up at the
//! deadline. Every error leaves as a problem document (RFC 9457), whoever caused it: a route of ours,
//! axum, a limit, or a panic.

mod health;
mod problem;
mod readiness;
mod router;
mod serve;

pub use problem::Problem;
pub use readiness::{Component, Readiness};
pub use router::{Limits, router};
pub use serve::{Error, serve};
