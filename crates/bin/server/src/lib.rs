//! The server: its configuration, and the parts that it is made of.
//!
//! Not here: any of the parts that serve (they are crates).

// They panic where nobody reads any more.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod config;
mod serve;

pub use config::{ConfigArgs, ServeArgs};
pub use serve::run;
