//! Webhooks as the configuration describes them.

use std::path::PathBuf;

use units::Nanos;

/// A webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookConfig {
    /// Its name, once among all webhooks.
    pub name: String,
    /// Kinds of events that it gets.
    pub events: Vec<String>,
    /// A target that takes longer has failed.
    pub timeout: Nanos,
    /// The receiver of the events.
    pub target: WebhookTarget,
}

/// The receiver of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebhookTarget {
    /// An address that the event is posted to.
    Url {
        /// The address.
        url: String,
        /// A file with the secret that signs.
        secret: PathBuf,
    },
    /// A program that reads the event from its standard input.
    Command(Vec<String>),
}
