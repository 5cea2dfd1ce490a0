//! The HTTP front end: connections, routes, answers, the page, figures. Turns requests into calls of the service, and its
//! errors into answers.
//!
//! Promise: nothing unbounded, nothing a client sends panics; between the start and the end of a stream it does nothing for
//! it. Not here: admission and delivery (`service`), disks.

mod access_log;
mod actions;
mod archive;
mod body;
mod client_stream;
mod connection;
mod content;
mod cors;
mod dav;
mod dav_state;
mod draft_upload;
mod event_feed;
mod exchange;
mod forwarded;
mod frame_limit;
mod generated_answers;
mod hosts;
mod http2;
mod listing;
mod live;
mod login;
mod management;
mod memory;
mod metrics;
mod names;
mod page;
mod plan;
mod playlist;
mod precondition;
mod problem;
mod rate_request;
mod removals;
mod rest;
mod route_table;
mod router;
mod routes;
mod server;
mod share;
mod shared;
mod starting;
mod streamed;
mod tus;
mod upload;
mod upload_part;
mod viewer_name;

pub mod config;
pub mod message;

/// Protocols that a client can choose within TLS (ALPN), the preferred one first.
pub const PROTOCOLS: &[&str] = &["h2", "http/1.1"];

pub use server::{HttpListener, ListenAddress, Server, ServerParts};
pub use starting::Starting;
