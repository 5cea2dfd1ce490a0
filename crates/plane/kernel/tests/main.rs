//! The ports of the data plane on the real kernel, with both engines.

mod common;
mod delivery;
mod kernel;
mod lend;
mod plane;
mod streams;
