//! Events that wait for webhooks, as the state folder keeps them over the end of the server.

use std::collections::BTreeMap;
use std::path::Path;

use program::output::say;

use super::queue::WaitingEvent;
use crate::state_documents::keep;

const FILE: &str = "webhooks.json";

/// The events of each webhook by its name.
pub(super) type KeptEvents = BTreeMap<String, Vec<WaitingEvent>>;

/// The kept events; none if the file cannot be read, which is reported.
pub(super) fn load(state: &Path) -> KeptEvents {
    let path = state.join(FILE);
    let read = match std::fs::read(&path) {
        Ok(text) => serde_json::from_slice(&text).map_err(anyhow::Error::from),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return KeptEvents::default(),
        Err(error) => Err(error.into()),
    };
    read.unwrap_or_else(|error| {
        say(format_args!("the events that waited for webhooks are lost, {}: {error}", path.display()));
        KeptEvents::default()
    })
}

pub(super) fn save(state: &Path, kept: &KeptEvents) {
    let path = state.join(FILE);
    if !kept.is_empty() || path.exists() {
        keep(&path, kept, "the events that wait for webhooks");
    }
}
