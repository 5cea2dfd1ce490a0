//! Documents in the state folder that outlive the server.

use std::path::Path;

use device::state_file;
use program::output::say;
use serde::Serialize;

/// Puts `document` in the place of the one at `path`. A failure is logged, with the `purpose` of the document ("when jobs ran").
pub(crate) fn keep(path: &Path, document: &impl Serialize, purpose: &str) {
    if let Err(error) = state_file::replace(path, |writer| Ok(serde_json::to_writer(writer, document)?)) {
        say(format_args!("cannot keep {purpose}, in {}: {error}", path.display()));
    }
}
