//! The data plane on ports in memory, stepped by hand.

mod best_effort;
mod common;
mod crowd;
mod layout;
mod links;
mod little_memory;
mod profiles;
mod unreadable;
mod waiting_starts;
