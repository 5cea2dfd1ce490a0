//! The calls of the API below `/api/v1`, as one table: it finds the call of a request, and its description (OpenAPI) is made of it.
//!
//! Promise: pure; a call that is not in the table is neither answered nor described. Not here: the calls (`rest`, `management`, `actions`).

use percent_encoding::percent_decode_str;

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
    /// True if it changes users, groups, tokens, logins or links; other orders have events of their own.
    pub(crate) fn changes_access(&self) -> bool {
        // Changes of contents have events of their own.
        let of_contents =
            [Call::MoveItem, Call::CopyItem, Call::MakeFolder, Call::RemoveItem, Call::RestoreTrash, Call::RemoveTrash];
        self.method != "GET" && self.answer != CallAnswer::Begun && !of_contents.contains(&self.call)
    }
}

/// Keys of queries that a call cannot do without.
pub(crate) const REQUIRED_KEYS: &[&str] = &["device", "from", "to", "path", "text"];
/// Keys of the query of a list that comes in parts.
const PART: &[(&str, &str)] = &[
    ("limit", "Most entries, 1 to 1000; without it 1000. `Link` names the next part."),
    ("after", "Key of the last entry of the part before it."),
];
const STREAMS_PART: &[(&str, &str)] = &[
    ("limit", "Most entries, 1 to 1000; without it all. `Link` names the next part."),
    ("after", "Number of the last stream of the part before it."),
];
const DEVICE: &[(&str, &str)] = &[("device", "The disk that comes.")];
const RULE: &[(&str, &str)] = &[
    ("job", "A `keep` job, by its name."),
    ("quota", "A ring, by its folder."),
    ("folder", "The folder of a rule that is written out."),
    ("max_age", "Contents that are older go, `30d` for example."),
    ("max_size", "The oldest contents go while there is more, `5G` for example."),
    ("min_age", "Contents that are younger stay; `1h` without it, as in a job."),
    ("protected", "A path or pattern that stays; may be given several times."),
];
const TWO_PATHS: &[(&str, &str)] = &[
    ("from", "The item, by its path below `/media/`."),
    ("to", "The path that it gets."),
    ("replace", "In the place of the item that has the path."),
];
const ONE_PATH: &[(&str, &str)] = &[("path", "The item, by its path below `/media/`.")];
const SEARCH: &[(&str, &str)] = &[
    ("text", "Words: each is in the path of what is found, and one in its name."),
    ("folder", "Only below this folder."),
    ("limit", "Most entries, 1 to 1000; without it 200."),
];
const NO_TRASH: (u16, &str) = (404, "There is no such item in the trash.");
const LOCKED: (u16, &str) = (423, "The item, or the folder that it lies in, is locked.");
const TAKEN: &[(u16, &str)] = &[
    (404, "There is no such item."),
    (409, "The folder that it would lie in is not there."),
    (412, "Something has the path, and `replace=` is not `true`."),
    LOCKED,
];
const NO_STREAM: (u16, &str) = (404, "No stream of this number runs.");
const NO_USER: (u16, &str) = (404, "There is no such user.");
const LAST_ADMINISTRATOR: (u16, &str) = (409, "No user would administer the server any more.");
const NO_VOLUME: &[(u16, &str)] =
    &[(404, "There is no such volume or disk."), (409, "Another upkeep is under way, or the disk does not fit.")];
const NO_JOB: (u16, &str) = (404, "There is no job of this name.");
const FULL: (u16, &str) = (507, "There are as many as there may be.");

const fn get(path: &'static str, call: Call, summary: &'static str, answer: CallAnswer) -> Route {
    let right = CallRight::Observe;
    Route { method: "GET", path, call, right, summary, query: &[], body: None, answer, refusals: &[] }
}

const fn change(
    (method, path): (&'static str, &'static str),
    call: Call,
    summary: &'static str,
    refusals: &'static [(u16, &'static str)],
) -> Route {
    let (right, answer) = (CallRight::Administer, CallAnswer::Done);
    Route { method, path, call, right, summary, query: &[], body: None, answer, refusals }
}

const fn names(
    path: &'static str,
    call: Call,
    summary: &'static str,
    refusals: &'static [(u16, &'static str)],
) -> Route {
    Route { right: CallRight::Write, query: ONE_PATH, ..change(("POST", path), call, summary, refusals) }
}

const fn order(
    path: &'static str,
    call: Call,
    summary: &'static str,
    refusals: &'static [(u16, &'static str)],
) -> Route {
    Route { answer: CallAnswer::Begun, ..change(("POST", path), call, summary, refusals) }
}

/// All calls.
pub(crate) const ROUTES: &[Route] = &[
    Route { right: CallRight::Open, ..get("/openapi.json", Call::Document, "This description.", CallAnswer::Json) },
    get("/system", Call::System, "The machine and the server.", CallAnswer::One("System")),
    get(
        "/live",
        Call::Live,
        "The figures of one second; of every second where `Accept` wants `text/event-stream`.",
        CallAnswer::One("LiveFigures"),
    ),
    Route {
        query: &[("seconds", "So many of the last, 2592000 at most; without it 3600.")],
        ..get("/history", Call::History, "Figures of the last hour, or days.", CallAnswer::One("FiguresHistory"))
    },
    get("/disks", Call::Disks, "The disks.", CallAnswer::List("Disk")),
    Route {
        query: STREAMS_PART,
        ..get("/streams", Call::Streams, "The streams and recordings under way.", CallAnswer::List("Stream"))
    },
    Route {
        refusals: &[NO_STREAM],
        ..get(
            "/streams/{id}",
            Call::ExplainStream,
            "A stream, with the reasons for its rate and its delay.",
            CallAnswer::One("StreamExplanation"),
        )
    },
    order(
        "/streams/{id}/stop",
        Call::StopStream,
        "Ends a stream to a client.",
        &[NO_STREAM, (409, "It is a recording: its own client ends it.")],
    ),
    get("/jobs", Call::Jobs, "The jobs of the configuration.", CallAnswer::List("JobStatus")),
    order("/jobs/{name}/run", Call::RunJob, "Begins a job now.", &[NO_JOB, (409, "It runs already.")]),
    order("/jobs/{name}/stop", Call::StopJob, "Ends a job's run.", &[NO_JOB, (409, "It does not run.")]),
    get("/volumes", Call::Volumes, "The volumes that are served.", CallAnswer::List("VolumeStatus")),
    order("/volumes/{name}/scrub", Call::Scrub, "Reads and mends every copy of a volume.", NO_VOLUME),
    order("/volumes/{name}/rebalance", Call::Rebalance, "Fills the disks of a volume equally.", NO_VOLUME),
    Route { query: DEVICE, ..order("/volumes/{name}/disks/add", Call::AddDisk, "Adds a disk to a volume.", NO_VOLUME) },
    order(
        "/volumes/{name}/disks/{number}/remove",
        Call::RemoveDisk,
        "Empties a disk of a volume and removes it.",
        NO_VOLUME,
    ),
    Route {
        query: DEVICE,
        ..order("/volumes/{name}/disks/{number}/replace", Call::ReplaceDisk, "Replaces a disk of a volume.", NO_VOLUME)
    },
    get("/alarms", Call::Alarms, "Conditions that need attention.", CallAnswer::List("Alarm")),
    get("/quotas", Call::Quotas, "Quotas of folders, and the room that is used.", CallAnswer::List("QuotaStatus")),
    get(
        "/budgets",
        Call::Budgets,
        "Budgets that have limits of their own or are in use.",
        CallAnswer::List("BudgetStatus"),
    ),
    Route {
        body: Some("BudgetAmounts"),
        ..change(
            ("PUT", "/budgets/{holder}"),
            Call::SetBudget,
            "Sets the limits of a user, group, token or signed link in place of those that it has; null: none.",
            &[(404, "There is no such user, token or link."), FULL],
        )
    },
    Route {
        right: CallRight::Administer,
        ..get(
            "/settings",
            Call::Settings,
            "The settings in force, with their sources; `ETag` names this state of them.",
            CallAnswer::List("SettingEntry"),
        )
    },
    Route {
        body: Some("SettingsPatch"),
        answer: CallAnswer::List("SettingEntry"),
        refusals: &[
            (409, "A setting is not changed here, or there is no configuration file that can be written."),
            (412, "`If-Match` names another state of the settings."),
        ],
        ..change(
            ("PATCH", "/settings"),
            Call::ChangeSettings,
            "Changes settings, in the configuration file and in force.",
            &[],
        )
    },
    get("/forecasts", Call::Forecasts, "When disks, volumes and quotas are full.", CallAnswer::List("Forecast")),
    Route {
        query: RULE,
        refusals: &[(404, "There is no such job or ring."), (409, "Another look is under way.")],
        ..get("/removals", Call::Removals, "The contents that a rule would remove now.", CallAnswer::One("Removals"))
    },
    get("/uploads", Call::Uploads, "Uploads that their clients can continue.", CallAnswer::List("UploadStatus")),
    Route {
        right: CallRight::Read,
        query: SEARCH,
        ..get(
            "/contents/search",
            Call::Search,
            "Contents and folders of this name, of all or below a folder.",
            CallAnswer::One("FoundNames"),
        )
    },
    Route {
        right: CallRight::Read,
        query: ONE_PATH,
        refusals: &[(404, "There is no such content.")],
        ..get(
            "/contents/details",
            Call::Details,
            "The container of a content, and the disks that it lies on.",
            CallAnswer::One("ContentDetails"),
        )
    },
    Route {
        right: CallRight::Read,
        query: ONE_PATH,
        refusals: &[(404, "It has none, or none can be made now.")],
        ..get(
            "/contents/thumbnail",
            Call::Thumbnail,
            "A picture of a film, made when it is first wanted.",
            CallAnswer::Jpeg,
        )
    },
    Route {
        right: CallRight::Read,
        query: &[("path", "A content or folder; may be given several times.")],
        refusals: &[(404, "There is no such item."), (413, "It would hold too many.")],
        ..get("/contents/zip", Call::Archive, "Contents and folders as one archive, as best effort.", CallAnswer::Zip)
    },
    Route {
        query: TWO_PATHS,
        ..names("/contents/move", Call::MoveItem, "Gives a content, or a folder with all in it, another path.", TAKEN)
    },
    Route {
        query: TWO_PATHS,
        ..names("/contents/copy", Call::CopyItem, "Copies a content, or a folder with all in it.", TAKEN)
    },
    names(
        "/contents/folder",
        Call::MakeFolder,
        "Makes an empty folder.",
        &[(405, "Something has the path."), (409, "The folder that it would lie in is not there."), LOCKED],
    ),
    Route {
        query: &[
            ("path", "The item, by its path below `/media/`."),
            ("trash", "Into the trash: `Location` names it there."),
            ("empty", "Only a folder with nothing in it, hidden contents included."),
        ],
        ..names(
            "/contents/remove",
            Call::RemoveItem,
            "Removes a content, or a folder with all in it, in one step.",
            &[
                (404, "There is no such item."),
                (409, "With `empty=true`: it is no empty folder."),
                LOCKED,
                (507, "It is larger than the trash may be."),
            ],
        )
    },
    Route {
        right: CallRight::Write,
        query: &[("folder", "Only what was below this folder.")],
        ..get("/trash", Call::Trash, "Removed items that can be restored.", CallAnswer::List("TrashEntry"))
    },
    Route {
        right: CallRight::Write,
        ..change(
            ("POST", "/trash/{item}/restore"),
            Call::RestoreTrash,
            "Gives an item of the trash its path back.",
            &[NO_TRASH, (412, "Something has the path."), LOCKED, (507, "A quota or budget has no room.")],
        )
    },
    Route {
        right: CallRight::Write,
        ..change(("DELETE", "/trash/{item}"), Call::RemoveTrash, "Removes an item of the trash for good.", &[NO_TRASH])
    },
    get("/webhooks", Call::Webhooks, "The webhooks.", CallAnswer::List("WebhookStatus")),
    get("/certificates", Call::Certificates, "The certificates that serve TLS.", CallAnswer::List("CertificateStatus")),
    order(
        "/webhooks/{name}/test",
        Call::TestWebhook,
        "Sends a webhook the event `webhook_test`.",
        &[(404, "There is no webhook of this name.")],
    ),
    get(
        "/events",
        Call::Events,
        "The latest events; as they happen where `Accept` wants `text/event-stream`.",
        CallAnswer::Json,
    ),
    Route {
        right: CallRight::Open,
        ..get("/session", Call::Session, "The account of this request, and its rights.", CallAnswer::One("LoginStatus"))
    },
    Route {
        right: CallRight::Open,
        body: Some("PasswordLogin"),
        answer: CallAnswer::One("LoginStatus"),
        refusals: &[
            (401, "The name or the password is wrong."),
            (403, "Passwords are taken over TLS only."),
            (429, "Too many passwords are being verified."),
        ],
        ..change(("POST", "/session"), Call::BeginSession, "Logs a browser in: its cookie is the login.", &[])
    },
    Route { right: CallRight::Open, ..change(("DELETE", "/session"), Call::EndSession, "Logs the browser out.", &[]) },
    Route {
        right: CallRight::Open,
        body: Some("FirstAccount"),
        ..change(
            ("POST", "/first-account"),
            Call::AddFirstUser,
            "Makes the first user, who administers the server, by the code that the server printed.",
            &[(403, "The code is wrong."), (409, "There is an administrator already, or a user of this name.")],
        )
    },
    Route {
        right: CallRight::Administer,
        query: PART,
        ..get("/users", Call::Users, "The users, by name.", CallAnswer::List("AccountEntry"))
    },
    Route {
        body: Some("NewAccount"),
        ..change(("POST", "/users"), Call::AddUser, "Adds a user.", &[(409, "There is one of this name."), FULL])
    },
    change(
        ("DELETE", "/users/{name}"),
        Call::RemoveUser,
        "Removes a user with tokens, logins and links.",
        &[NO_USER, LAST_ADMINISTRATOR],
    ),
    Route {
        right: CallRight::Own,
        body: Some("NewPassword"),
        ..change(
            ("PUT", "/users/{name}/password"),
            Call::SetPassword,
            "Sets another password, and logs the user's browsers out.",
            &[NO_USER, (403, "The present password is wrong."), (429, "Too many passwords are being verified.")],
        )
    },
    Route {
        body: Some("GrantEntry"),
        ..change(
            ("POST", "/users/{name}/grant"),
            Call::GrantUser,
            "Gives a user rights over a folder.",
            &[NO_USER, FULL],
        )
    },
    Route {
        body: Some("GrantEntry"),
        ..change(
            ("POST", "/users/{name}/revoke"),
            Call::RevokeUser,
            "Takes rights over a folder back.",
            &[NO_USER, (409, "The user has none of these rights over this very folder, or is the last administrator.")],
        )
    },
    Route {
        right: CallRight::Administer,
        query: PART,
        ..get(
            "/groups",
            Call::Groups,
            "The groups that have members or rights, by name.",
            CallAnswer::List("GroupEntry"),
        )
    },
    Route {
        body: Some("GrantEntry"),
        ..change(("POST", "/groups/{name}/grant"), Call::GrantGroup, "Gives a group rights over a folder.", &[FULL])
    },
    Route {
        body: Some("GrantEntry"),
        ..change(
            ("POST", "/groups/{name}/revoke"),
            Call::RevokeGroup,
            "Takes rights over a folder back.",
            &[(409, "The group has none of these rights over this very folder, or the last administrator is by it.")],
        )
    },
    change(("PUT", "/groups/{name}/members/{user}"), Call::Join, "Puts a user into a group.", &[NO_USER, FULL]),
    change(
        ("DELETE", "/groups/{name}/members/{user}"),
        Call::Leave,
        "Takes a user out of a group.",
        &[NO_USER, LAST_ADMINISTRATOR],
    ),
    Route {
        right: CallRight::Own,
        query: PART,
        ..get(
            "/tokens",
            Call::Tokens,
            "Tokens, and logins of browsers: the user's own, or those of all.",
            CallAnswer::List("TokenEntry"),
        )
    },
    Route {
        right: CallRight::Own,
        body: Some("NewToken"),
        answer: CallAnswer::Made("TokenText"),
        ..change(
            ("POST", "/tokens"),
            Call::AddToken,
            "Makes a token; its text is shown this once.",
            &[NO_USER, (409, "The user has nowhere in the folder a right that it asks for."), FULL],
        )
    },
    Route {
        right: CallRight::Own,
        ..change(
            ("DELETE", "/tokens/{id}"),
            Call::RevokeToken,
            "Ends a token or a login.",
            &[(404, "There is no such token.")],
        )
    },
    Route {
        right: CallRight::Own,
        query: PART,
        ..get("/shares", Call::Shares, "Signed links: the user's own, or those of all.", CallAnswer::List("LinkEntry"))
    },
    Route {
        right: CallRight::Share,
        body: Some("NewLink"),
        answer: CallAnswer::Made("LinkText"),
        ..change(
            ("POST", "/shares"),
            Call::AddShare,
            "Makes a signed link to a content or folder.",
            &[
                (404, "There is nothing of the path that would be read."),
                (409, "A content has the path at which uploads would be stored."),
                FULL,
            ],
        )
    },
    Route {
        right: CallRight::Own,
        ..change(
            ("DELETE", "/shares/{id}"),
            Call::RevokeShare,
            "Ends a signed link.",
            &[(404, "There is no such link.")],
        )
    },
    Route {
        right: CallRight::Own,
        query: PART,
        ..get(
            "/reservations",
            Call::Reservations,
            "Reservations ahead: the user's own, or those of all.",
            CallAnswer::List("ReservationEntry"),
        )
    },
    Route {
        right: CallRight::Own,
        body: Some("NewReservation"),
        answer: CallAnswer::Made("ReservationEntry"),
        ..change(
            ("POST", "/reservations"),
            Call::AddReservation,
            "Reserves a rate for a content or folder, from one time until another.",
            &[
                (404, "There is no such content."),
                (429, "The user's budget has no room for it."),
                (503, "There is no room for it; `grantable_bps` would fit."),
                FULL,
            ],
        )
    },
    Route {
        right: CallRight::Own,
        ..change(
            ("DELETE", "/reservations/{id}"),
            Call::RemoveReservation,
            "Removes a reservation ahead, and gives its room back.",
            &[(404, "There is no such reservation.")],
        )
    },
    change(("POST", "/shares/rotate"), Call::RotateShares, "Ends all signed links, and signs with another key.", &[]),
];

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

/// The call of `method` at `path`.
///
/// # Errors
/// The methods that there are at `path`; none: it is the path of no call.
pub(crate) fn find(method: &str, path: &str) -> Result<FoundCall, Vec<&'static str>> {
    let mut methods = Vec::new();
    let is_literal = ROUTES.iter().any(|route| path.strip_prefix(API) == Some(route.path));
    for route in ROUTES {
        let Some(names) = matched(route.path, path).filter(|names| names.is_empty() || !is_literal) else { continue };
        if route.method == method || (route.method == "GET" && method == "HEAD") {
            return Ok(FoundCall { route, names });
        }
        methods.push(route.method);
        if route.method == "GET" {
            methods.push("HEAD");
        }
    }
    Err(methods)
}

/// The names in `path`, if it has this form.
fn matched(form: &str, path: &str) -> Option<Vec<String>> {
    let path = path.strip_prefix(API)?;
    let (mut forms, mut parts) = (form.split('/'), path.split('/'));
    let mut names = Vec::new();
    loop {
        match (forms.next(), parts.next()) {
            (None, None) => return Some(names),
            (Some(form), Some(part)) if form.starts_with('{') => {
                names.push(percent_decode_str(part).decode_utf8_lossy().into_owned());
            }
            (Some(form), Some(part)) if form == part => {}
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_found_by_its_method_and_path() {
        let found = |method, path| find(method, path).map(|found| (found.route.call, found.names));
        let own = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(found("HEAD", "/api/v1/users"), Ok((Call::Users, vec![])));
        assert_eq!(found("DELETE", "/api/v1/users/a%2Fb"), Ok((Call::RemoveUser, own(&["a/b"]))));
        assert_eq!(found("PUT", "/api/v1/groups/g/members/u"), Ok((Call::Join, own(&["g", "u"]))));
        assert_eq!(found("POST", "/api/v1/streams//stop"), Ok((Call::StopStream, own(&[""]))));
        assert_eq!(found("DELETE", "/api/v1/shares/rotate"), Err(vec!["POST"]), "the number of no link");
        assert_eq!(found("PATCH", "/api/v1/session"), Err(vec!["GET", "HEAD", "POST", "DELETE"]));
        for other in ["/api/v1", "/api/v1/", "/api/v1/users/", "/api/v2/users", "/api/v1/users/a/b", "/media/users"] {
            assert_eq!(found("GET", other).ok(), None, "{other}");
        }
    }
}
