//! The one table from errors of the service to replies (RFC 959 §4.2.2).
//!
//! Promise: a refusal names the thing that is short; codes of 5xx are for good, those of 4xx for now.

use service::access::Denied;
use service::contents::{PathError, StoreError};
use service::delivery::DeliveryError;
use service::ingest::IngestError;
use service::namespace::NamespaceError;
use service::pipeline::PipeError;

use crate::command::CommandError;
use crate::control::FtpReply;

macro_rules! replies {
    ($($error:ty: $reply:ident;)*) => {
        $(
            impl From<$error> for FtpReply {
                fn from(error: $error) -> Self {
                    $reply(&error)
                }
            }
        )*
    };
}

replies! {
    DeliveryError: of_delivery;
    IngestError: of_ingest;
    NamespaceError: of_namespace;
    PipeError: of_pipe;
    StoreError: of_store;
}

pub(crate) fn of_command(error: &CommandError) -> FtpReply {
    let code = match error {
        CommandError::Unknown | CommandError::TooLong | CommandError::Http => 500,
        CommandError::Unused => 502,
        CommandError::Argument(_) => 501,
        CommandError::Parameter(_) => 504,
    };
    FtpReply::new(code, error.to_string())
}

pub(crate) fn of_path(error: PathError) -> FtpReply {
    FtpReply::new(553, error.to_string())
}

pub(crate) fn of_denied(denied: Denied) -> FtpReply {
    let code = if matches!(denied, Denied::UserNeeded(_)) { 530 } else { 550 };
    FtpReply::new(code, denied.to_string())
}

fn of_store(error: &StoreError) -> FtpReply {
    let code = match error {
        StoreError::NotFound
        | StoreError::ParentMissing
        | StoreError::NotEmpty
        | StoreError::IsDirectory
        | StoreError::NotADirectory
        | StoreError::BelowContent(_)
        | StoreError::Exists
        | StoreError::PreconditionFailed
        | StoreError::ReadOnly
        | StoreError::VolumeReadOnly(_)
        | StoreError::Forbidden(_)
        | StoreError::TooManyNames(_) => 550,
        StoreError::NoSpace | StoreError::Full(_) => 552,
        StoreError::NameTooLong | StoreError::TooDeep => 553,
        StoreError::UploadMemory | StoreError::NoBuffers { .. } | StoreError::Busy | StoreError::Closed => 450,
        StoreError::DiskFailing(_)
        | StoreError::Unsettled(_)
        | StoreError::PartAway(_)
        | StoreError::RootAway(_)
        | StoreError::TooLong
        | StoreError::TooShort
        | StoreError::Io(_) => 451,
    };
    FtpReply::new(code, error.to_string())
}

fn of_ingest(error: &IngestError) -> FtpReply {
    let code = match error {
        IngestError::Store(error) => return of_store(error),
        IngestError::Quota(_) | IngestError::TooLarge(_) | IngestError::Claim(_) => 552,
        IngestError::NoRoom(_) | IngestError::Busy | IngestError::ClientBusy(_) | IngestError::Stopping => 450,
        IngestError::NameTaken | IngestError::Superseded | IngestError::Budget(_) => 450,
        IngestError::RightTaken => 550,
        IngestError::Names(_) | IngestError::Durable(_) | IngestError::Stage(_) | IngestError::PresentByLink => 553,
    };
    FtpReply::new(code, error.to_string())
}

fn of_namespace(error: &NamespaceError) -> FtpReply {
    let code = match error {
        NamespaceError::Store(error) => return of_store(error),
        NamespaceError::Ingest(error) => return of_ingest(error),
        NamespaceError::Read(error) => return of_pipe(error),
        NamespaceError::NoParent | NamespaceError::Exists => 550,
        NamespaceError::Overlap | NamespaceError::TooMany | NamespaceError::NoTrash => 553,
    };
    FtpReply::new(code, error.to_string())
}

fn of_delivery(error: &DeliveryError) -> FtpReply {
    match error {
        DeliveryError::NoRoom(_) | DeliveryError::Budget(_) | DeliveryError::Busy => {
            FtpReply::new(450, error.to_string())
        }
    }
}

/// Where a content breaks off while it is sent.
fn of_pipe(error: &PipeError) -> FtpReply {
    match error {
        PipeError::Delivery(error) => of_delivery(error),
        PipeError::Stage(_) | PipeError::BrokenOff(_) => FtpReply::new(451, error.to_string()),
    }
}
