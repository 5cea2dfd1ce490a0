//! State of jobs that outlives the server: the time up to which their runs are accounted for, and the outcome of the last run.

use std::collections::BTreeMap;
use std::path::Path;

use api::JobRun;
use serde::{Deserialize, Serialize};

use crate::state_documents::keep;

const FILE: &str = "jobs.json";

/// The kept state of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct KeptJob {
    /// Runs until then (seconds since 1970) were begun or counted as missed.
    pub(super) accounted: i64,
    pub(super) last: Option<JobRun>,
    #[serde(default)]
    pub(super) last_success: Option<f64>,
}

/// The states in the state folder; none if it cannot be read: then nothing counts as missed.
pub(super) fn load(state: &Path) -> BTreeMap<String, KeptJob> {
    let text = std::fs::read(state.join(FILE)).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

pub(super) fn save(state: &Path, kept: &BTreeMap<String, KeptJob>) {
    let path = state.join(FILE);
    if !kept.is_empty() || path.exists() {
        keep(&path, kept, "when jobs ran");
    }
}
