//! The one table from what went wrong to what is answered.

use http::StatusCode;
use http::header::RETRY_AFTER;
use units::DiskId;

use crate::config::Config;
use crate::contents::StoreError;
use crate::message::reply::{Reply, problem_with};

/// 400 with the reason.
pub(crate) fn bad_request(error: impl std::error::Error) -> Reply {
    let mut detail = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !detail.contains(&cause_text) {
            detail = format!("{detail}: {cause_text}");
        }
        source = cause.source();
    }
    Reply::problem(StatusCode::BAD_REQUEST, &detail)
}

/// 503: a queue or table is full.
pub(crate) fn busy(config: &Config) -> Reply {
    let members = [("resource", "table".into()), ("grantable_bps", 0.into())];
    problem_with(StatusCode::SERVICE_UNAVAILABLE, "Busy", "too many requests are under way; try again later", &members)
        .field(RETRY_AFTER, config.retry_after_seconds.to_string())
}

/// 503: what would change something is not begun any more.
pub(crate) fn stopping(config: &Config) -> Reply {
    let members = [("resource", "draining".into()), ("grantable_bps", 0.into())];
    let detail = "the server is about to stop; try again later";
    problem_with(StatusCode::SERVICE_UNAVAILABLE, "Stopping", detail, &members)
        .field(RETRY_AFTER, config.retry_after_seconds.to_string())
}

/// What a store's refusal is answered with.
pub(crate) fn of_store(error: &StoreError) -> Reply {
    let (status, detail) = match error {
        StoreError::NotFound => (StatusCode::NOT_FOUND, "there is nothing of this name".to_owned()),
        StoreError::ParentMissing => (
            StatusCode::CONFLICT,
            "the directory it would be put into does not exist; create it in the served folder first".to_owned(),
        ),
        StoreError::IsDirectory => (StatusCode::CONFLICT, "this is a directory; name a content in it".to_owned()),
        StoreError::NotADirectory => {
            (StatusCode::CONFLICT, "a part of the path is a content, not a directory".to_owned())
        }
        StoreError::Exists | StoreError::PreconditionFailed => {
            (StatusCode::PRECONDITION_FAILED, "what is there is not what the request's condition asks for".to_owned())
        }
        StoreError::NoSpace => {
            (StatusCode::INSUFFICIENT_STORAGE, "the disk is full; nothing of the upload was kept".to_owned())
        }
        // Not the client's fault, and not for it to mend: 507, as for a disk that is full (RFC 4918 §11.5).
        StoreError::ReadOnly => (
            StatusCode::INSUFFICIENT_STORAGE,
            "the file system is read-only: it was mounted so, or became so after an error of its disk (see the system's log)"
                .to_owned(),
        ),
        StoreError::Forbidden => (
            StatusCode::FORBIDDEN,
            "the file system does not permit it, or a link on the path leads out of the served folder or begins with `/`"
                .to_owned(),
        ),
        StoreError::DiskFailing(disk) => {
            (StatusCode::SERVICE_UNAVAILABLE, format!("disk {} errs or does not answer", disk.0))
        }
        StoreError::Busy | StoreError::Closed => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}")),
        StoreError::NameTooLong => (StatusCode::BAD_REQUEST, "a name in the path is too long".to_owned()),
        StoreError::TooLong | StoreError::TooShort => (StatusCode::BAD_REQUEST, format!("{error}")),
        StoreError::Io(cause) => (StatusCode::INTERNAL_SERVER_ERROR, format!("the store failed: {cause}")),
    };
    if status != StatusCode::SERVICE_UNAVAILABLE {
        return Reply::problem(status, &detail);
    }
    let resource = match error {
        StoreError::DiskFailing(disk) => failing(*disk),
        _ => "table".to_owned(),
    };
    let members = [("resource", resource.into()), ("grantable_bps", 0.into())];
    problem_with(status, "Service Unavailable", &detail, &members).field(RETRY_AFTER, "10")
}

/// How a failing disk is named as a resource.
pub(crate) fn failing(disk: DiskId) -> String {
    format!("disk {} failing", disk.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_short_is_named() {
        for (error, resource) in [(StoreError::DiskFailing(DiskId(3)), "disk 3 failing"), (StoreError::Busy, "table")] {
            let reply = of_store(&error);
            assert_eq!(reply.status, StatusCode::SERVICE_UNAVAILABLE);
            assert!(reply.fields.iter().any(|(name, _)| name == RETRY_AFTER));
            let problem: serde_json::Value = serde_json::from_slice(&reply.body).expect("JSON");
            assert_eq!((&problem["resource"], &problem["grantable_bps"]), (&resource.into(), &0.into()));
        }
    }
}
