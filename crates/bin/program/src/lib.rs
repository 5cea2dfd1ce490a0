//! Parts that programs of Isocast share: their output, other programs that they start, the folder of their state.

// They panic once their reader has gone.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod beside;
pub mod output;
pub mod process;
mod state;

pub use state::{default_state, state_of_service};
