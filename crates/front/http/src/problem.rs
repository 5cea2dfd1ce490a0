//! The one table from errors to answers.

use std::time::Duration;

use dataplane::control::Outcome;
use http_types::StatusCode;
use http_types::header::{ALLOW, HeaderName, RETRY_AFTER, WWW_AUTHENTICATE};
use openid::OpenIdError;
use service::StopError;
use service::access::Denied;
use service::account_changes::ChangeError;
use service::administration::WishError;
use service::budgets::{BudgetLimit, BudgetRefusal};
use service::contents::{StoreError, UpkeepError};
use service::delivery::DeliveryError;
use service::ingest::IngestError;
use service::logins::{CredentialError, LoginError};
use service::namespace::NamespaceError;
use service::operations::{JobError, SettingsError};
use service::pipeline::{PipeError, StageError};
use service::reservations::ReservationError;
use service::resumable::ResumeError;
use service::shortage::Shortage;
use webdav::DavCondition;

use crate::body::BodyError;
use crate::message::digest::DigestError;
use crate::message::head::HeadError;
use crate::message::problem_type::{self, ProblemType};
use crate::message::reply::{Reply, problem_with};

macro_rules! answers {
    ($($error:ty: $answer:ident;)*) => {
        $(
            impl From<$error> for Reply {
                fn from(error: $error) -> Self {
                    $answer(&error)
                }
            }
        )*
    };
}

answers! {
    BodyError: of_body;
    BudgetRefusal: of_budget;
    ChangeError: of_change;
    DigestError: of_digest;
    HeadError: of_head;
    IngestError: of_ingest;
    JobError: of_job;
    NamespaceError: of_namespace;
    ReservationError: of_reservation;
    ResumeError: of_resume;
    SettingsError: of_settings;
    StopError: of_stop;
    StoreError: of_store;
    UpkeepError: of_upkeep;
    WishError: of_wish;
}

/// `Retry-After` for refused clients.
const RETRY_AFTER_SECONDS: &str = "10";

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
    Reply::malformed(detail)
}

/// Answer to a head that is no acceptable request.
pub(crate) fn of_head(error: &HeadError) -> Reply {
    let status = match error {
        HeadError::TooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        HeadError::TargetTooLong => StatusCode::URI_TOO_LONG,
        HeadError::Malformed(_)
        | HeadError::Host
        | HeadError::ContentLength
        | HeadError::TwoLengths
        | HeadError::TransferEncoding => StatusCode::BAD_REQUEST,
        HeadError::LengthTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        HeadError::UnknownMethod | HeadError::UnknownCoding => StatusCode::NOT_IMPLEMENTED,
        HeadError::Version => StatusCode::HTTP_VERSION_NOT_SUPPORTED,
        HeadError::Expectation => StatusCode::EXPECTATION_FAILED,
    };
    Reply::problem(status, error)
}

/// Answer where no more of a body comes.
pub(crate) fn of_body(error: &BodyError) -> Reply {
    let status = match error {
        BodyError::NoMemory => return not_now(&error.to_string()),
        BodyError::TimedOut => StatusCode::REQUEST_TIMEOUT,
        BodyError::Unwanted | BodyError::TooLong(_) => StatusCode::PAYLOAD_TOO_LARGE,
        BodyError::BrokenOff | BodyError::Coding(_) => StatusCode::BAD_REQUEST,
    };
    Reply::problem(status, error)
}

/// The methods of paths below `/media/`.
pub(crate) const MEDIA_METHODS: &str =
    "GET, HEAD, PUT, DELETE, OPTIONS, PROPFIND, PROPPATCH, MKCOL, COPY, MOVE, LOCK, UNLOCK";

/// 405 with the allowed methods.
pub(crate) fn not_allowed(methods: &str) -> Reply {
    Reply::problem(StatusCode::METHOD_NOT_ALLOWED, format!("the methods for this path are {methods}"))
        .field(ALLOW, methods)
}

/// 405 to a form: contents are stored by PUT.
pub(crate) fn form_refused() -> Reply {
    let detail = "contents are uploaded with PUT, not as a form: `curl -T FILE ADDRESS`; the methods for this path are";
    Reply::problem(StatusCode::METHOD_NOT_ALLOWED, format!("{detail} {MEDIA_METHODS}")).field(ALLOW, MEDIA_METHODS)
}

/// 503: `resource` is short, whatever the rate; `name` is that of a disk.
fn unavailable(kind: ProblemType, title: &str, detail: &str, (resource, name): (&str, Option<&str>)) -> Reply {
    let mut members = vec![("resource", resource.into()), ("grantable_bps", 0.into())];
    members.extend(name.map(|name| ("name", name.into())));
    problem_with(kind, StatusCode::SERVICE_UNAVAILABLE, title, detail, &members).field(RETRY_AFTER, RETRY_AFTER_SECONDS)
}

/// 500: the request met a fault of the server.
pub(crate) fn fault() -> Reply {
    let detail = "the server failed at this request, which is a fault of the server; its log says where";
    Reply::problem(StatusCode::INTERNAL_SERVER_ERROR, detail)
}

/// 503: a queue or table is full.
pub(crate) fn busy() -> Reply {
    unavailable(problem_type::BUSY, "Busy", "too many requests are under way; try again later", ("table", None))
}

/// 429: a client has as much as one may have; `detail` names the limit.
pub(crate) fn client_busy(detail: &str) -> Reply {
    Reply::problem(StatusCode::TOO_MANY_REQUESTS, detail).field(RETRY_AFTER, RETRY_AFTER_SECONDS)
}

/// 429, or 507 where it is room for bytes: a budget is used up. `frees_in_seconds` is null where the end of a stream frees it.
pub(crate) fn of_budget(refusal: &BudgetRefusal) -> Reply {
    let status = match refusal.limit {
        BudgetLimit::Stored => StatusCode::INSUFFICIENT_STORAGE,
        BudgetLimit::Streams
        | BudgetLimit::Reserved
        | BudgetLimit::Download
        | BudgetLimit::Upload
        | BudgetLimit::Requests => StatusCode::TOO_MANY_REQUESTS,
    };
    let frees_in = refusal.frees_in.map(|time| Duration::from_nanos(time.0).as_secs() + 1);
    let members = [
        ("budget", refusal.budget.to_string().into()),
        ("limit", refusal.limit.to_string().into()),
        ("most", refusal.most.into()),
        ("used", refusal.used.into()),
        ("needed", refusal.more.into()),
        ("frees_in_seconds", frees_in.map_or(serde_json::Value::Null, Into::into)),
    ];
    let retry_after = frees_in.map_or_else(|| RETRY_AFTER_SECONDS.to_owned(), |seconds| seconds.to_string());
    problem_with(problem_type::BUDGET, status, "Budget used up", &refusal.to_string(), &members)
        .field(RETRY_AFTER, retry_after)
}

/// 503: no change is begun any more.
pub(crate) fn stopping() -> Reply {
    unavailable(problem_type::STOPPING, "Stopping", "the server is about to stop; try again later", ("draining", None))
}

/// 503 for now, with the reason.
fn not_now(detail: &str) -> Reply {
    Reply::problem(StatusCode::SERVICE_UNAVAILABLE, detail).field(RETRY_AFTER, RETRY_AFTER_SECONDS)
}

/// 503: no stream is admitted, whichever it is.
pub(crate) fn not_ready(why: &str) -> Reply {
    not_now(&format!("streams are not admitted ({why})"))
}

/// 503: the server starts; `step` names its present work.
pub(crate) fn starting(step: &str) -> Reply {
    let detail = format!("the server is starting: {step}");
    problem_with(
        problem_type::STARTING,
        StatusCode::SERVICE_UNAVAILABLE,
        "Starting",
        &detail,
        &[("resource", "starting".into())],
    )
    .field(RETRY_AFTER, "1")
}

/// Answer where a delivery was not started.
pub(crate) fn of_open(error: &DeliveryError) -> Reply {
    match error {
        DeliveryError::NoRoom(short) => of_shortage(short),
        DeliveryError::Budget(refusal) => of_budget(refusal),
        DeliveryError::Busy => busy(),
    }
}

/// Answer where a delivery through stages breaks off before its first byte.
pub(crate) fn of_pipe(error: &PipeError) -> Reply {
    match error {
        PipeError::Stage(error) => of_stage(error),
        PipeError::Delivery(error) => of_open(error),
        PipeError::BrokenOff(outcome) => {
            let detail = match outcome {
                Outcome::Stopped => {
                    "the stream was stopped: the server is about to stop, or its viewer reads elsewhere"
                }
                Outcome::ContentChanged => "the content became shorter while it was read",
                _ => "the stream broke off before a stage let anything of it pass",
            };
            not_now(detail)
        }
    }
}

fn of_stage(error: &StageError) -> Reply {
    Reply::problem(StatusCode::UNPROCESSABLE_ENTITY, error)
}

/// Answer to bytes that their checksum does not prove.
fn of_digest(error: &DigestError) -> Reply {
    match error {
        // tus: 460 Checksum Mismatch.
        DigestError::Different(_) => {
            let status = StatusCode::from_u16(460).unwrap_or(StatusCode::BAD_REQUEST);
            Reply::problem(status, error)
        }
        DigestError::Malformed(_) | DigestError::Unknown(_) => Reply::malformed(error),
    }
}

/// Answer where a name is not changed.
pub(crate) fn of_namespace(error: &NamespaceError) -> Reply {
    match error {
        NamespaceError::Store(error) => of_store(error),
        NamespaceError::Ingest(error) => of_ingest(error),
        NamespaceError::Read(error) => of_pipe(error),
        NamespaceError::NoParent => Reply::problem(StatusCode::CONFLICT, error),
        NamespaceError::Exists => Reply::problem(StatusCode::PRECONDITION_FAILED, error),
        NamespaceError::Overlap => Reply::problem(StatusCode::FORBIDDEN, error),
        NamespaceError::TooMany | NamespaceError::NoTrash => Reply::problem(StatusCode::INSUFFICIENT_STORAGE, error),
    }
}

/// Answer where an upload is not begun or continued.
pub(crate) fn of_resume(error: &ResumeError) -> Reply {
    let status = match error {
        ResumeError::Ingest(error) => return of_ingest(error),
        ResumeError::Namespace(error) => return of_namespace(error),
        ResumeError::Unknown => StatusCode::NOT_FOUND,
        ResumeError::Offset(offset) => {
            let name = HeaderName::from_static("upload-offset");
            return Reply::problem(StatusCode::CONFLICT, error).field(name, offset.to_string());
        }
        ResumeError::TooLong(_) => StatusCode::PAYLOAD_TOO_LARGE,
        ResumeError::LengthKnown | ResumeError::NoPart(_) => StatusCode::BAD_REQUEST,
        ResumeError::InUse => StatusCode::LOCKED,
        ResumeError::TooMany => return client_busy(&error.to_string()),
        ResumeError::NotKept => StatusCode::INSUFFICIENT_STORAGE,
    };
    Reply::problem(status, error)
}

/// Answer where nothing has the name of the request.
pub(crate) fn of_missing(error: &StoreError) -> Reply {
    match error {
        StoreError::NotADirectory => of_store(&StoreError::NotFound),
        error => of_store(error),
    }
}

/// Answer where a content is not stored.
pub(crate) fn of_ingest(error: &IngestError) -> Reply {
    match error {
        IngestError::Store(error) => of_store(error),
        // As where the disk is full (RFC 4918 §11.5).
        IngestError::Quota(refusal) => {
            Reply::problem_of(problem_type::QUOTA, StatusCode::INSUFFICIENT_STORAGE, refusal)
                .failing(DavCondition::QuotaNotExceeded)
        }
        IngestError::NoRoom(short) => of_shortage(short),
        IngestError::Budget(refusal) => of_budget(refusal),
        IngestError::Claim(error) => of_change(error),
        IngestError::Busy => busy(),
        IngestError::Stopping => stopping(),
        IngestError::RightTaken => Reply::problem(StatusCode::FORBIDDEN, error),
        IngestError::PresentByLink => Reply::problem(StatusCode::PRECONDITION_FAILED, error),
        IngestError::NameTaken | IngestError::Superseded => {
            Reply::problem(StatusCode::CONFLICT, error).field(RETRY_AFTER, RETRY_AFTER_SECONDS)
        }
        IngestError::ClientBusy(_) => client_busy(&error.to_string()),
        IngestError::Durable(_) | IngestError::Names(_) => Reply::malformed(error),
        IngestError::TooLarge(_) => Reply::problem(StatusCode::PAYLOAD_TOO_LARGE, error),
        IngestError::Stage(error) => of_stage(error),
    }
}

/// Answer where a content is not removed.
pub(crate) fn of_delete(error: &StoreError) -> Reply {
    match error {
        // Contents there cannot be removed by any client; an upload could go to the next disk.
        StoreError::ReadOnly => Reply::problem(StatusCode::FORBIDDEN, "the file system it lies on is read-only"),
        error => of_missing(error),
    }
}

/// Answer where a stream is not stopped.
pub(crate) fn of_stop(error: &StopError) -> Reply {
    match error {
        StopError::Unknown => {
            Reply::problem(StatusCode::NOT_FOUND, format!("{error}; /api/v1/streams lists those that do"))
        }
        StopError::Incoming => Reply::problem(StatusCode::CONFLICT, error),
        StopError::Busy => busy(),
    }
}

/// Answer where a job is not begun or stopped.
pub(crate) fn of_job(error: &JobError) -> Reply {
    match error {
        JobError::Unknown | JobError::NoRing => Reply::problem(StatusCode::NOT_FOUND, error),
        JobError::Runs | JobError::RunsNot | JobError::RemovesNot | JobError::LooksAlready => {
            Reply::problem(StatusCode::CONFLICT, error)
        }
        JobError::Stopping => stopping(),
    }
}

/// Answer where a volume's upkeep is not begun.
pub(crate) fn of_upkeep(error: &UpkeepError) -> Reply {
    match error {
        UpkeepError::Store(error) => of_store(error),
        UpkeepError::Unknown => Reply::problem(StatusCode::NOT_FOUND, error),
        error => Reply::problem(StatusCode::CONFLICT, error),
    }
}

/// The answer to a client that may not do that; `passwords`: a client with an account may send its password.
pub(crate) fn of_denied(denied: Denied, passwords: bool) -> Reply {
    match denied {
        Denied::UserNeeded(_) => challenged(Reply::problem(StatusCode::UNAUTHORIZED, denied), passwords),
        Denied::LocalOnly(..) | Denied::NoWriters | Denied::NoRight(_) | Denied::NotByLink(_) | Denied::ByToken => {
            Reply::problem_of(problem_type::NO_RIGHT, StatusCode::FORBIDDEN, denied)
        }
    }
}

/// The answer to a token that is not valid (RFC 6750 §3.1).
pub(crate) fn of_token(error: &CredentialError) -> Reply {
    let challenge = "Bearer realm=\"isocast\", error=\"invalid_token\"";
    let reply = Reply::problem_of(problem_type::TOKEN_INVALID, StatusCode::UNAUTHORIZED, error);
    reply.field(WWW_AUTHENTICATE, challenge)
}

/// The answer to a link that is not valid: another one is needed, and no login.
pub(crate) fn of_link(error: &CredentialError) -> Reply {
    Reply::problem_of(problem_type::LINK_INVALID, StatusCode::FORBIDDEN, error)
}

/// Answer where accounts, tokens or links are not changed, or a link is used up.
pub(crate) fn of_change(error: &ChangeError) -> Reply {
    let status = match error {
        ChangeError::NoAccount(_)
        | ChangeError::NoToken(_)
        | ChangeError::NoLink(_)
        | ChangeError::NoReservation(_) => StatusCode::NOT_FOUND,
        ChangeError::AccountExists(_)
        | ChangeError::NotHeld(..)
        | ChangeError::BeyondUser(..)
        | ChangeError::NotFirst
        | ChangeError::LastAdministrator => StatusCode::CONFLICT,
        ChangeError::UsedUp(_) => {
            return Reply::problem_of(problem_type::LINK_INVALID, StatusCode::FORBIDDEN, error);
        }
        ChangeError::NotAdded(_) | ChangeError::OtherIdentity(_) => StatusCode::FORBIDDEN,
        ChangeError::StoredFull { .. } | ChangeError::TooMany(..) => StatusCode::INSUFFICIENT_STORAGE,
        ChangeError::Budget(refusal) => return of_budget(refusal),
        ChangeError::Unavailable(_) => return not_now(&error.to_string()),
    };
    Reply::problem(status, error)
}

/// Answer where a wish about accounts is none, or is not done.
pub(crate) fn of_wish(error: &WishError) -> Reply {
    match error {
        WishError::Change(error) => of_change(error),
        WishError::Present(LoginError::Busy) => of_login(LoginError::Busy, false),
        WishError::Code | WishError::Present(LoginError::Wrong) => Reply::problem(StatusCode::FORBIDDEN, error),
        WishError::NothingToShare(_) => Reply::problem(StatusCode::NOT_FOUND, error),
        WishError::UploadsOverContent(_) => Reply::problem(StatusCode::CONFLICT, error),
        error => bad_request(error),
    }
}

/// Answer where a reservation ahead is none, or is not made.
pub(crate) fn of_reservation(error: &ReservationError) -> Reply {
    match error {
        ReservationError::Terms => bad_request(error),
        ReservationError::Denied(_) => Reply::problem_of(problem_type::NO_RIGHT, StatusCode::FORBIDDEN, error),
        ReservationError::Store(error) => of_store(error),
        ReservationError::Delivery(error) => of_open(error),
        ReservationError::Change(error) => of_change(error),
    }
}

/// Answer where settings are not changed.
pub(crate) fn of_settings(error: &SettingsError) -> Reply {
    let status = match error {
        SettingsError::Outdated => StatusCode::PRECONDITION_FAILED,
        SettingsError::Invalid(_) => StatusCode::BAD_REQUEST,
        SettingsError::NotHere(_)
        | SettingsError::SetBy(..)
        | SettingsError::SeveralFiles(_)
        | SettingsError::NoFile
        | SettingsError::File(_) => StatusCode::CONFLICT,
        SettingsError::Busy => return busy(),
    };
    Reply::problem(status, error)
}

/// The answer to a login by the provider of identities that came to nothing.
pub(crate) fn of_openid(error: &OpenIdError) -> Reply {
    match error {
        OpenIdError::Unreached(_) | OpenIdError::Document(..) => not_now(&error.to_string()),
        OpenIdError::Refused(_) | OpenIdError::OtherLogin | OpenIdError::Token(_) | OpenIdError::Claim(..) => {
            Reply::problem_of(problem_type::LOGIN_WRONG, StatusCode::FORBIDDEN, error)
        }
    }
}

fn challenged(reply: Reply, passwords: bool) -> Reply {
    let basic = "Basic realm=\"isocast\", charset=\"UTF-8\"";
    reply.field(WWW_AUTHENTICATE, if passwords { basic } else { "Bearer realm=\"isocast\"" })
}

/// The answer to a login that is wrong or was not verified; `passwords`: with a challenge for another one.
pub(crate) fn of_login(error: LoginError, passwords: bool) -> Reply {
    let detail = error.to_string();
    match error {
        LoginError::Wrong => {
            challenged(Reply::problem_of(problem_type::LOGIN_WRONG, StatusCode::UNAUTHORIZED, detail), passwords)
        }
        LoginError::Busy => Reply::problem(StatusCode::TOO_MANY_REQUESTS, detail).field(RETRY_AFTER, "1"),
    }
}

/// 503: a disk, a link or another part has no room; the first two are named.
fn of_shortage(short: &Shortage) -> Reply {
    let mut members = vec![("resource", short.kind().into()), ("grantable_bps", short.refusal.grantable.0.into())];
    members.extend(short.name().map(|name| ("name", name.into())));
    members.extend(short.left().map(|left| ("left_bps", left.0.into())));
    let (kind, title) = (problem_type::NO_ROOM, "No room for this stream");
    problem_with(kind, StatusCode::SERVICE_UNAVAILABLE, title, &short.to_string(), &members)
        .field(RETRY_AFTER, RETRY_AFTER_SECONDS)
}

/// Answer to a refusal of the store.
pub(crate) fn of_store(error: &StoreError) -> Reply {
    let (status, detail) = match error {
        StoreError::NotFound => (StatusCode::NOT_FOUND, "there is nothing of this name".to_owned()),
        StoreError::ParentMissing => (
            StatusCode::CONFLICT,
            "the directory that it was to be put into was removed or replaced meanwhile; send it again".to_owned(),
        ),
        StoreError::NotEmpty => {
            (StatusCode::CONFLICT, "this folder is not empty (hidden files count): remove its contents first".to_owned())
        }
        StoreError::IsDirectory => (StatusCode::CONFLICT, "this is a directory; name a content in it".to_owned()),
        StoreError::NotADirectory => {
            (StatusCode::CONFLICT, "a part of the path is a content, not a directory".to_owned())
        }
        StoreError::BelowContent(_) => (StatusCode::CONFLICT, error.to_string()),
        StoreError::Exists | StoreError::PreconditionFailed => {
            (StatusCode::PRECONDITION_FAILED, "the present content does not meet the request's condition".to_owned())
        }
        StoreError::NoSpace => {
            let detail = "the disk is full (a content that replaces another needs room beside it until it is stored), or no file may be so large there";
            (StatusCode::INSUFFICIENT_STORAGE, detail.to_owned())
        }
        StoreError::Full(_) => {
            let detail = format!("{error} (a content that replaces another needs room beside it until it is stored)");
            (StatusCode::INSUFFICIENT_STORAGE, detail)
        }
        // Not the client's fault, and not for it to mend: 507, as for a disk that is full (RFC 4918 §11.5).
        StoreError::ReadOnly => (
            StatusCode::INSUFFICIENT_STORAGE,
            "the file system is read-only: it was mounted so, or became so after an error of its disk (see the system's log)"
                .to_owned(),
        ),
        StoreError::VolumeReadOnly(_) => (StatusCode::INSUFFICIENT_STORAGE, format!("{error}")),
        StoreError::Forbidden(_) => (StatusCode::FORBIDDEN, format!("{error}")),
        // A change that is answered with 503 is not made later either.
        StoreError::Unsettled(_) => (StatusCode::GATEWAY_TIMEOUT, format!("{error}; look again when the disk answers")),
        StoreError::DiskFailing(_)
        | StoreError::PartAway(_)
        | StoreError::RootAway(_)
        | StoreError::UploadMemory
        | StoreError::NoBuffers { .. }
        | StoreError::Busy
        | StoreError::Closed => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}")),
        StoreError::TooManyNames(most) => (
            StatusCode::INSUFFICIENT_STORAGE,
            format!("this folder holds more than {most} names: ask for parts of it, with limit= and after="),
        ),
        StoreError::NameTooLong | StoreError::TooDeep => (StatusCode::BAD_REQUEST, "a name in the path is too long".to_owned()),
        StoreError::TooLong | StoreError::TooShort => (StatusCode::BAD_REQUEST, format!("{error}")),
        StoreError::Io(cause) => (StatusCode::INTERNAL_SERVER_ERROR, format!("the store failed: {cause}")),
    };
    if status != StatusCode::SERVICE_UNAVAILABLE {
        let reply = Reply::problem(status, detail);
        let is_full = matches!(error, StoreError::NoSpace | StoreError::Full(_));
        return if is_full { reply.failing(DavCondition::SufficientDiskSpace) } else { reply };
    }
    let resource = match error {
        StoreError::DiskFailing(disk) => ("disk_failing", Some(disk.strip_prefix("disk ").unwrap_or(disk))),
        StoreError::PartAway(away) => ("disk_away", Some(away.disk.as_str())),
        StoreError::RootAway(_) => ("folder_away", None),
        StoreError::UploadMemory => ("upload_memory", None),
        StoreError::NoBuffers { .. } => ("memory", None),
        _ => ("table", None),
    };
    unavailable(ProblemType::of(status), "Service Unavailable", &detail, resource)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use service::contents::AwayDisk;

    use super::*;

    #[test]
    fn whatever_is_short_is_named() {
        let no_buffers = StoreError::NoBuffers { needed: 8, free: 3 };
        let failing = StoreError::DiskFailing("disk sdd".into());
        let away = AwayDisk { volume: "films".to_owned(), disk: "/dev/sdc".to_owned(), state: "missing" };
        let away = (StoreError::PartAway(Arc::new(away)), "disk_away", Some("/dev/sdc"));
        let failing = (failing, "disk_failing", Some("sdd"));
        for (error, resource, name) in [failing, (no_buffers, "memory", None), (StoreError::Busy, "table", None), away]
        {
            let reply = of_store(&error);
            assert_eq!(reply.status, StatusCode::SERVICE_UNAVAILABLE);
            assert!(reply.fields.iter().any(|(name, _)| name == RETRY_AFTER));
            let problem: serde_json::Value = serde_json::from_slice(&reply.body).expect("JSON");
            assert_eq!((&problem["resource"], &problem["grantable_bps"]), (&resource.into(), &0.into()));
            assert_eq!(problem["name"].as_str(), name);
        }
    }
}
