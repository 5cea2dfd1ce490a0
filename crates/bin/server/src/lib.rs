//! The server: its configuration, and the parts that it is made of.
//!
//! Not here: any of the parts that serve (they are crates).

// These macros panic once the reader has closed its end.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod config;
mod serve;

pub use config::{ConfigArgs, ServeArgs};
pub use serve::run;
