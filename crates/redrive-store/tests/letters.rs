//! Dead letters: one suite for every queue on every backend, and what only one of them has.
