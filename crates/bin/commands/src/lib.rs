//! Commands of `isocast` beside the server: each is a module with `Args` and a `run`.

// They panic where nobody reads any more.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod disk;
pub mod doctor;
pub mod top;
pub mod user;
pub mod volume;
