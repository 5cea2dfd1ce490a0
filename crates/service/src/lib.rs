//! The media service: who may read and write which content, at which rate, and the streams that carry it.
//!
//! Promise: it speaks no protocol. A front end (`http` is one) turns its requests into the calls below, and the errors, which
//! are enums, into its answers; nothing here knows a header, a status or a URL. It touches no disk itself (it asks the
//! store) and does nothing for a stream between its start and its end.
//!
//! The calls: [`access::may_write`] says whether somebody may change something, [`delivery::open`] starts the paced
//! delivery of a content to a socket, [`pipeline::open`] into a pipe that stages may follow, [`ingest::begin`] takes an upload
//! or a recording.

pub mod access;
pub mod config;
pub mod contents;
pub mod delivery;
pub mod events;
pub mod ingest;
pub mod latest;
pub mod listing;
pub mod lock;
pub mod log;
pub mod logins;
pub mod pipeline;
pub mod plane_client;
pub mod quota;
pub mod rate;
pub mod refusals;
pub mod session;
pub mod small_reads;

mod media_service;
mod piece_cache;
mod recording;
mod session_table;

pub use media_service::{MediaService, RunningStream, ServiceParts, ServiceStats, StopError};
pub use plane_client::PlaneQueue;
