//! Commands of `isocast` other than the server: each is a module with `Args` and a `run`.

// These macros panic once the reader has closed its end.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod accounts;
mod budget;
pub mod disk;
pub mod doctor;
pub mod names;
mod password;
pub mod share;
pub mod state;
pub mod token;
pub mod top;
pub mod user;
pub mod volume;
