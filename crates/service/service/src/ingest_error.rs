//! The reasons for which an upload is not stored, as its client may see them.

use units::Nanos;

use crate::account_changes::ChangeError;
use crate::budgets::BudgetRefusal;
use crate::config::RECORDING_DURABLE_MAX;
use crate::contents::StoreError;
use crate::file_names::PatternError;
use crate::pipeline::StageError;
use crate::quota::QuotaRefusal;
use crate::shortage::Shortage;

/// Why something is not stored.
#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    /// A budget does not admit it.
    #[error(transparent)]
    Budget(#[from] BudgetRefusal),
    /// The store does not take it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A quota does not take it.
    #[error(transparent)]
    Quota(#[from] QuotaRefusal),
    /// Its rate cannot be reserved.
    #[error("there is no room for a recording at this rate: {0}")]
    NoRoom(Shortage),
    /// Its bytes cannot be claimed from its budgets.
    #[error(transparent)]
    Claim(#[from] ChangeError),
    /// A queue or table is full.
    #[error("too many requests are under way")]
    Busy,
    /// Its client sends as many as it may at once; with how many these are.
    #[error("this client sends {0} uploads already, the most that one may at once; let one of them end first")]
    ClientBusy(usize),
    /// Longer than an upload may be; with how long that is.
    #[error("an upload has at most {0} bytes here")]
    TooLarge(u64),
    /// No names can be made of a pattern.
    #[error(transparent)]
    Names(#[from] PatternError),
    /// No recording is durable so soon, or may be so late; with the least time.
    #[error(
        "durable= of a recording is from {0}, three rounds of the disk's schedule here, to {RECORDING_DURABLE_MAX}"
    )]
    Durable(Nanos),
    /// Another client sends a recording of this name.
    #[error("a recording of this name is being sent by another client; two cameras need two names")]
    NameTaken,
    /// Another client has come to the name of a recording that was silent.
    #[error("nothing came for some time, and another client goes on with this recording")]
    Superseded,
    /// An upload by a signed link finds a content of its name, or the request's condition does not hold.
    #[error(
        "a content has this name, and uploads by a link overwrite nothing; or the request's condition does not hold"
    )]
    PresentByLink,
    /// The server ends.
    #[error("the server ended before all of it had come")]
    Stopping,
    /// An operator took the right back.
    #[error("the right to store this was taken back before all of it had come")]
    RightTaken,
    /// A stage refused.
    #[error(transparent)]
    Stage(#[from] StageError),
}
