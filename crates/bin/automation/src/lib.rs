//! Jobs at set times, webhooks for events, certificates that an authority signs, thumbnails: the work of a server without a request for it.
//!
//! Not here: the form of jobs and webhooks in the configuration (`server`), the times of jobs (crate `jobs`).

// These macros panic once their reader has gone.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod authority;
mod forecast;
mod job_config;
mod jobs;
mod room;
mod state_documents;
mod thumbnails;
mod webhook_config;
mod webhooks;

pub use self::authority::{AuthorityConfig, ProofKind, keep_signed};
pub use self::job_config::{CopyEnd, JobConfig, JobWork};
pub use self::jobs::{Jobs, MeasuredDisks, Surroundings, removal_limits};
pub use self::thumbnails::Thumbnails;
pub use self::webhook_config::{WebhookConfig, WebhookTarget};
pub use self::webhooks::{ReadWebhooks, Webhooks};
