//! Types of problems (RFC 9457): the names of kinds of refusals, which do not change.
//!
//! Promise: pure; each status has a name, and kinds of refusals that a client treats in another way have their own.

use http_types::StatusCode;

/// The type of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProblemType(&'static str);

/// A stream does not fit: `resource` is short, `grantable_bps` would be granted.
pub const NO_ROOM: ProblemType = ProblemType("urn:isocast:no-room");
/// Too many requests are under way.
pub const BUSY: ProblemType = ProblemType("urn:isocast:busy");
/// The server is about to stop.
pub const STOPPING: ProblemType = ProblemType("urn:isocast:stopping");
/// The server starts.
pub const STARTING: ProblemType = ProblemType("urn:isocast:starting");
/// The request needs a login.
pub const LOGIN_NEEDED: ProblemType = ProblemType("urn:isocast:login-needed");
/// The name or the password is wrong.
pub const LOGIN_WRONG: ProblemType = ProblemType("urn:isocast:login-wrong");
/// The token is not valid.
pub const TOKEN_INVALID: ProblemType = ProblemType("urn:isocast:token-invalid");
/// The signed link is not valid.
pub const LINK_INVALID: ProblemType = ProblemType("urn:isocast:link-invalid");
/// The client has no right to that.
pub const NO_RIGHT: ProblemType = ProblemType("urn:isocast:no-right");
/// A quota is full.
pub const QUOTA: ProblemType = ProblemType("urn:isocast:quota");

/// A budget is used up: `budget`, its `limit`, `most`, `used`.
pub const BUDGET: ProblemType = ProblemType("urn:isocast:budget");

const KINDS: [ProblemType; 11] = [
    NO_ROOM,
    BUSY,
    STOPPING,
    STARTING,
    LOGIN_NEEDED,
    LOGIN_WRONG,
    TOKEN_INVALID,
    LINK_INVALID,
    NO_RIGHT,
    QUOTA,
    BUDGET,
];

/// Types of the other problems, by status.
const STATUSES: [(u16, ProblemType); 25] = [
    (400, ProblemType("urn:isocast:bad-request")),
    (401, LOGIN_NEEDED),
    (403, ProblemType("urn:isocast:forbidden")),
    (404, ProblemType("urn:isocast:not-found")),
    (405, ProblemType("urn:isocast:method")),
    (408, ProblemType("urn:isocast:too-slow")),
    (409, ProblemType("urn:isocast:conflict")),
    (411, ProblemType("urn:isocast:length-needed")),
    (412, ProblemType("urn:isocast:precondition")),
    (413, ProblemType("urn:isocast:too-large")),
    (414, ProblemType("urn:isocast:address-too-long")),
    (415, ProblemType("urn:isocast:media-type")),
    (416, ProblemType("urn:isocast:range")),
    (417, ProblemType("urn:isocast:expectation")),
    (421, ProblemType("urn:isocast:other-host")),
    (422, ProblemType("urn:isocast:stage")),
    (423, ProblemType("urn:isocast:locked")),
    (429, ProblemType("urn:isocast:too-many")),
    (431, ProblemType("urn:isocast:head-too-large")),
    (500, ProblemType("urn:isocast:fault")),
    (501, ProblemType("urn:isocast:unknown-method")),
    (503, ProblemType("urn:isocast:unavailable")),
    (504, ProblemType("urn:isocast:unsettled")),
    (505, ProblemType("urn:isocast:version")),
    (507, ProblemType("urn:isocast:storage-full")),
];

impl ProblemType {
    /// The type of a problem that has no other than its status.
    #[must_use]
    pub fn of(status: StatusCode) -> Self {
        let known = STATUSES.iter().find(|(known, _)| *known == status.as_u16());
        known.map_or(Self("urn:isocast:refused"), |(_, kind)| *kind)
    }

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.0
    }

    /// The names of all.
    #[must_use]
    pub fn names() -> Vec<&'static str> {
        let mut names: Vec<_> = KINDS.iter().chain(STATUSES.iter().map(|(_, kind)| kind)).map(|kind| kind.0).collect();
        names.push("urn:isocast:refused");
        names.sort_unstable();
        names.dedup();
        names
    }
}
