//! Parts that programs of Isocast share: their output, other programs that they start, the folder of their state.

// They panic once their reader has gone.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod output;
pub mod process;
pub mod sibling_programs;
mod state;

pub use state::{default_state, state_of_service};
