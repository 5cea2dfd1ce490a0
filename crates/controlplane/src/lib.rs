//! The control plane: HTTP, sessions, management. Decides who is served how; the data plane serves.
//!
//! Promise: no disk access (it asks the store), nothing unbounded, nothing a client sends panics. Between the start
//! and the end of a stream it does nothing for it.

mod auth;
mod broker;
mod connection;
mod events;
mod figures;
mod listing;
mod management;
mod media;
mod page;
mod problem;
mod recording;

mod replay;
mod router;
mod seats;
mod server;

mod shared;
mod upload;

pub mod config;
pub mod contents;
pub mod log;
pub mod manager;
pub mod message;
pub mod rate;
pub mod returns;
pub mod session;

pub use broker::Plane;
pub use server::{ControlPlane, Parts, Reload, listen};
