//! Configuration of webhooks.

use std::path::PathBuf;

use units::Nanos;

/// A webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookConfig {
    /// Its name, unique among all webhooks.
    pub name: String,
    /// Kinds of events that it receives.
    pub events: Vec<String>,
    /// Time after which an attempt counts as failed.
    pub timeout: Nanos,
    /// The receiver of the events.
    pub target: WebhookTarget,
}

/// The receiver of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebhookTarget {
    /// An address to which the event is sent by POST.
    Url {
        /// The address.
        url: String,
        /// A file with the secret that signs the request.
        secret: PathBuf,
    },
    /// A program that reads the event from its standard input.
    Command(Vec<String>),
}
