//! The server: its configuration, the parts that it is made of, jobs, webhooks and SNMP.
//!
//! Not here: any of the parts that serve (they are crates).

// They panic where nobody reads any more.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod config;
mod jobs;
mod serve;
mod snmp;
mod webhooks;

pub use config::{ConfigArgs, ServeArgs};
pub use serve::run;
