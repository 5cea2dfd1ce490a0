//! The media service: the rights of principals to read and write contents, the rates of these, and the streams that carry them.
//!
//! Promise: it speaks no protocol. A front end (`http` is one) turns its requests into the calls below, and the errors, which
//! are enums, into its answers; nothing here knows a head field, a status or a path of the API. Events, disks' failures and
//! jobs' runs have the words of `api`, which every front end shares; a refusal may name the setting that would change it. It
//! touches no disk itself (it asks the store) and does nothing for a stream between its start and its end.
//!
//! The calls: [`MediaService::permit`] judges whether a principal has a right over a path, and every other call takes such a permit:
//! [`reads::open_content`] opens a content, [`reads::open`] starts its delivery at its rate, to the client's socket or into a pipe that
//! stages follow; [`ingest::begin`] takes an upload or a recording.

pub mod access;
pub mod account_changes;
pub mod accounts;
pub mod administration;
mod alarm_texts;
pub mod alarms;
pub mod budget_use;
pub mod budgets;
pub mod clock_watch;
pub mod config;
pub mod connections;
pub mod content_details;
pub mod contents;
pub mod credentials;
pub mod delivery;
pub mod events;
pub mod figures;
pub mod file_names;
pub mod guard;
pub mod history;
pub mod ingest;
pub mod line_journal;
pub mod listing;
pub mod lock;
pub mod log;
pub mod logins;
pub mod machine;
pub mod name_index;
pub mod namespace;
pub mod operations;
pub mod pipeline;
pub mod plane_client;
pub mod quota;
pub mod rate;
pub mod reads;
pub mod recent_events;
pub mod refusals;
pub mod remedies;
pub mod requests;
pub mod reservation_ahead;
pub mod reservations;
pub mod resumable;
pub mod resumable_parts;
pub mod running;
pub mod search;
pub mod session;
pub mod session_account;
pub mod shares;
pub mod shortage;
pub mod stream_explanation;
pub mod trash;

mod blocked_streams;
mod budget_meter;
mod client;
mod clock_lead;
mod content_writer;
mod counts;
mod disk_states;
mod ingest_error;
mod lifecycle;
mod link_uses;
mod links;
mod login_queue;
mod media_service;
mod open_ahead;
mod piece_cache;
mod recording;
mod recording_files;
mod recording_names;
mod recording_pace;
mod right_kinds;
mod session_request;
mod session_table;
mod small_reads;
mod start;
mod stats;
mod stored_parts;
mod viewer_reservation;
mod volumes;

pub use media_service::{MediaService, ServiceParts};
pub use plane_client::PlaneQueue;
pub use recording_pace::RecordingProgress;
pub use running::StopError;
pub use stats::ServiceStats;
