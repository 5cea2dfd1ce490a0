//! The calls of the API below `/api/v1`: the form of their entries in the table.
//!
//! Not here: the table (`route_table`), the calls (`rest`, `management`, `actions`).

/// Before the paths of all calls.
pub(crate) const API: &str = "/api/v1";

/// A call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Document,
    System,
    Live,
    History,
    Disks,
    Streams,
    ExplainStream,
    StopStream,
    Jobs,
    RunJob,
    StopJob,
    Volumes,
    Scrub,
    Rebalance,
    AddDisk,
    RemoveDisk,
    ReplaceDisk,
    Alarms,
    Quotas,
    Budgets,
    SetBudget,
    Forecasts,
    Settings,
    ChangeSettings,
    Removals,
    Uploads,
    Search,
    Archive,
    Details,
    Thumbnail,
    MoveItem,
    CopyItem,
    MakeFolder,
    RemoveItem,
    Trash,
    RestoreTrash,
    RemoveTrash,
    Webhooks,
    Certificates,
    TestWebhook,
    Events,
    Session,
    BeginSession,
    EndSession,
    AddFirstUser,
    Users,
    AddUser,
    RemoveUser,
    SetPassword,
    GrantUser,
    RevokeUser,
    Groups,
    GrantGroup,
    RevokeGroup,
    Join,
    Leave,
    Tokens,
    AddToken,
    RevokeToken,
    Shares,
    AddShare,
    Reservations,
    AddReservation,
    RemoveReservation,
    RevokeShare,
    RotateShares,
}

/// The right that a call needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallRight {
    /// None.
    Open,
    /// To read everything.
    Observe,
    /// To read the contents that the query names.
    Read,
    /// To change the items that the query names.
    Write,
    /// To administer the server.
    Administer,
    /// A login: the call is about the account's own credentials.
    Own,
    /// To share the path that the body names.
    Share,
}

/// The answer to a call that succeeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallAnswer {
    /// A document.
    One(&'static str),
    /// A list of documents.
    List(&'static str),
    /// A document about what was made.
    Made(&'static str),
    /// Any JSON.
    Json,
    /// An archive.
    Zip,
    /// A picture.
    Jpeg,
    /// 202: it begins.
    Begun,
    /// 204.
    Done,
}

/// A call with its path, and its description.
pub(crate) struct Route {
    pub(crate) method: &'static str,
    /// Below [`API`]; `{name}` stands for any name.
    pub(crate) path: &'static str,
    pub(crate) call: Call,
    pub(crate) right: CallRight,
    pub(crate) summary: &'static str,
    /// Keys of the query, each with its meaning.
    pub(crate) query: &'static [(&'static str, &'static str)],
    /// The document that the body is.
    pub(crate) body: Option<&'static str>,
    pub(crate) answer: CallAnswer,
    /// Statuses of its own refusals, each with its meaning.
    pub(crate) refusals: &'static [(u16, &'static str)],
}

impl Route {
    const fn new(method: &'static str, path: &'static str, call: Call, summary: &'static str) -> Self {
        let (right, answer) = (CallRight::Administer, CallAnswer::Done);
        Self { method, path, call, right, summary, query: &[], body: None, answer, refusals: &[] }
    }

    /// A GET, for those that may read everything.
    pub(crate) const fn get(path: &'static str, call: Call, summary: &'static str) -> Self {
        Self { right: CallRight::Observe, answer: CallAnswer::Json, ..Self::new("GET", path, call, summary) }
    }

    /// A POST, for administrators.
    pub(crate) const fn post(path: &'static str, call: Call, summary: &'static str) -> Self {
        Self::new("POST", path, call, summary)
    }

    /// A PUT, for administrators.
    pub(crate) const fn put(path: &'static str, call: Call, summary: &'static str) -> Self {
        Self::new("PUT", path, call, summary)
    }

    /// A PATCH, for administrators.
    pub(crate) const fn patch(path: &'static str, call: Call, summary: &'static str) -> Self {
        Self::new("PATCH", path, call, summary)
    }

    /// A DELETE, for administrators.
    pub(crate) const fn delete(path: &'static str, call: Call, summary: &'static str) -> Self {
        Self::new("DELETE", path, call, summary)
    }

    pub(crate) const fn right(self, right: CallRight) -> Self {
        Self { right, ..self }
    }

    pub(crate) const fn query(self, query: &'static [(&'static str, &'static str)]) -> Self {
        Self { query, ..self }
    }

    pub(crate) const fn body(self, document: &'static str) -> Self {
        Self { body: Some(document), ..self }
    }

    pub(crate) const fn answer(self, answer: CallAnswer) -> Self {
        Self { answer, ..self }
    }

    pub(crate) const fn refusals(self, refusals: &'static [(u16, &'static str)]) -> Self {
        Self { refusals, ..self }
    }

    /// True if it changes users, groups, tokens, logins or links; other orders have events of their own.
    pub(crate) fn changes_access(&self) -> bool {
        // Changes of contents have events of their own.
        let of_contents =
            [Call::MoveItem, Call::CopyItem, Call::MakeFolder, Call::RemoveItem, Call::RestoreTrash, Call::RemoveTrash];
        self.method != "GET" && self.answer != CallAnswer::Begun && !of_contents.contains(&self.call)
    }
}

/// A call that was found, and the names in its path, decoded.
pub(crate) struct FoundCall {
    pub(crate) route: &'static Route,
    pub(crate) names: Vec<String>,
}

impl FoundCall {
    /// The name at this place.
    pub(crate) fn name(&self, place: usize) -> &str {
        self.names.get(place).map_or("", String::as_str)
    }
}
