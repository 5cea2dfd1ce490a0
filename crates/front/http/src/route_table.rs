//! The calls of the API, as one table: the call of a request is found in it, and the description (OpenAPI) is made of it.
//!
//! Promise: pure; a call that is not in the table is neither answered nor described. Not here: the form of an entry (`routes`).

use percent_encoding::percent_decode_str;

use crate::routes::CallAnswer::{Begun, Jpeg, List, Made, One, Zip};
use crate::routes::{API, Call, CallRight, FoundCall, Route};

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

/// All calls.
pub(crate) const ROUTES: &[Route] = &[
    Route::get("/openapi.json", Call::Document, "This description.").right(CallRight::Open),
    Route::get("/system", Call::System, "The machine and the server.").answer(One("System")),
    Route::get(
        "/live",
        Call::Live,
        "The figures of one second; of every second where `Accept` wants `text/event-stream`.",
    )
    .answer(One("LiveFigures")),
    Route::get("/history", Call::History, "Figures of the last hour, or days.")
        .answer(One("FiguresHistory"))
        .query(&[("seconds", "So many of the last, 2592000 at most; without it 3600.")]),
    Route::get("/disks", Call::Disks, "The disks.").answer(List("Disk")),
    Route::get("/streams", Call::Streams, "The streams and recordings under way.")
        .answer(List("Stream"))
        .query(STREAMS_PART),
    Route::get("/streams/{id}", Call::ExplainStream, "A stream, with the reasons for its rate and its delay.")
        .answer(One("StreamExplanation"))
        .refusals(&[NO_STREAM]),
    Route::post("/streams/{id}/stop", Call::StopStream, "Ends a stream to a client.")
        .answer(Begun)
        .refusals(&[NO_STREAM, (409, "It is a recording: its own client ends it.")]),
    Route::get("/jobs", Call::Jobs, "The jobs of the configuration.").answer(List("JobStatus")),
    Route::post("/jobs/{name}/run", Call::RunJob, "Begins a job now.")
        .answer(Begun)
        .refusals(&[NO_JOB, (409, "It runs already.")]),
    Route::post("/jobs/{name}/stop", Call::StopJob, "Ends a job's run.")
        .answer(Begun)
        .refusals(&[NO_JOB, (409, "It does not run.")]),
    Route::get("/volumes", Call::Volumes, "The volumes that are served.").answer(List("VolumeStatus")),
    Route::post("/volumes/{name}/scrub", Call::Scrub, "Reads and mends every copy of a volume.")
        .answer(Begun)
        .refusals(NO_VOLUME),
    Route::post("/volumes/{name}/rebalance", Call::Rebalance, "Fills the disks of a volume equally.")
        .answer(Begun)
        .refusals(NO_VOLUME),
    Route::post("/volumes/{name}/disks/add", Call::AddDisk, "Adds a disk to a volume.")
        .answer(Begun)
        .query(DEVICE)
        .refusals(NO_VOLUME),
    Route::post(
        "/volumes/{name}/disks/{number}/remove",
        Call::RemoveDisk,
        "Empties a disk of a volume and removes it.",
    )
    .answer(Begun)
    .refusals(NO_VOLUME),
    Route::post("/volumes/{name}/disks/{number}/replace", Call::ReplaceDisk, "Replaces a disk of a volume.")
        .answer(Begun)
        .query(DEVICE)
        .refusals(NO_VOLUME),
    Route::get("/alarms", Call::Alarms, "Conditions that need attention.").answer(List("Alarm")),
    Route::get("/quotas", Call::Quotas, "Quotas of folders, and the room that is used.").answer(List("QuotaStatus")),
    Route::get("/budgets", Call::Budgets, "Budgets that have limits of their own or are in use.")
        .answer(List("BudgetStatus")),
    Route::put(
        "/budgets/{holder}",
        Call::SetBudget,
        "Sets the limits of a user, group, token or signed link in place of those that it has; null: none.",
    )
    .body("BudgetAmounts")
    .refusals(&[(404, "There is no such user, token or link."), FULL]),
    Route::get(
        "/settings",
        Call::Settings,
        "The settings in force, with their sources; `ETag` names this state of them.",
    )
    .answer(List("SettingEntry"))
    .right(CallRight::Administer),
    Route::patch("/settings", Call::ChangeSettings, "Changes settings, in the configuration file and in force.")
        .answer(List("SettingEntry"))
        .body("SettingsPatch")
        .refusals(&[
            (409, "A setting is not changed here, or there is no configuration file that can be written."),
            (412, "`If-Match` names another state of the settings."),
        ]),
    Route::get("/forecasts", Call::Forecasts, "When disks, volumes and quotas are full.").answer(List("Forecast")),
    Route::get("/removals", Call::Removals, "The contents that a rule would remove now.")
        .answer(One("Removals"))
        .query(RULE)
        .refusals(&[(404, "There is no such job or ring."), (409, "Another look is under way.")]),
    Route::get("/uploads", Call::Uploads, "Uploads that their clients can continue.").answer(List("UploadStatus")),
    Route::get("/contents/search", Call::Search, "Contents and folders of this name, of all or below a folder.")
        .answer(One("FoundNames"))
        .right(CallRight::Read)
        .query(SEARCH),
    Route::get("/contents/details", Call::Details, "The container of a content, and the disks that it lies on.")
        .answer(One("ContentDetails"))
        .right(CallRight::Read)
        .query(ONE_PATH)
        .refusals(&[(404, "There is no such content.")]),
    Route::get("/contents/thumbnail", Call::Thumbnail, "A picture of a film, made when it is first wanted.")
        .answer(Jpeg)
        .right(CallRight::Read)
        .query(ONE_PATH)
        .refusals(&[(404, "It has none, or none can be made now.")]),
    Route::get("/contents/zip", Call::Archive, "Contents and folders as one archive, as best effort.")
        .answer(Zip)
        .right(CallRight::Read)
        .query(&[("path", "A content or folder; may be given several times.")])
        .refusals(&[(404, "There is no such item."), (413, "It would hold too many.")]),
    Route::post("/contents/move", Call::MoveItem, "Gives a content, or a folder with all in it, another path.")
        .right(CallRight::Write)
        .query(TWO_PATHS)
        .refusals(TAKEN),
    Route::post("/contents/copy", Call::CopyItem, "Copies a content, or a folder with all in it.")
        .right(CallRight::Write)
        .query(TWO_PATHS)
        .refusals(TAKEN),
    Route::post("/contents/folder", Call::MakeFolder, "Makes an empty folder.")
        .right(CallRight::Write)
        .query(ONE_PATH)
        .refusals(&[(405, "Something has the path."), (409, "The folder that it would lie in is not there."), LOCKED]),
    Route::post("/contents/remove", Call::RemoveItem, "Removes a content, or a folder with all in it, in one step.")
        .right(CallRight::Write)
        .query(&[
            ("path", "The item, by its path below `/media/`."),
            ("trash", "Into the trash: `Location` names it there."),
            ("empty", "Only a folder with nothing in it, hidden contents included."),
        ])
        .refusals(&[
            (404, "There is no such item."),
            (409, "With `empty=true`: it is no empty folder."),
            LOCKED,
            (507, "It is larger than the trash may be."),
        ]),
    Route::get("/trash", Call::Trash, "Removed items that can be restored.")
        .answer(List("TrashEntry"))
        .right(CallRight::Write)
        .query(&[("folder", "Only what was below this folder.")]),
    Route::post("/trash/{item}/restore", Call::RestoreTrash, "Gives an item of the trash its path back.")
        .right(CallRight::Write)
        .refusals(&[NO_TRASH, (412, "Something has the path."), LOCKED, (507, "A quota or budget has no room.")]),
    Route::delete("/trash/{item}", Call::RemoveTrash, "Removes an item of the trash for good.")
        .right(CallRight::Write)
        .refusals(&[NO_TRASH]),
    Route::get("/webhooks", Call::Webhooks, "The webhooks.").answer(List("WebhookStatus")),
    Route::get("/certificates", Call::Certificates, "The certificates that serve TLS.")
        .answer(List("CertificateStatus")),
    Route::post("/webhooks/{name}/test", Call::TestWebhook, "Sends a webhook the event `webhook_test`.")
        .answer(Begun)
        .refusals(&[(404, "There is no webhook of this name.")]),
    Route::get("/events", Call::Events, "The latest events; as they happen where `Accept` wants `text/event-stream`."),
    Route::get("/session", Call::Session, "The account of this request, and its rights.")
        .answer(One("LoginStatus"))
        .right(CallRight::Open),
    Route::post("/session", Call::BeginSession, "Logs a browser in: its cookie is the login.")
        .answer(One("LoginStatus"))
        .right(CallRight::Open)
        .body("PasswordLogin")
        .refusals(&[
            (401, "The name or the password is wrong."),
            (403, "Passwords are taken over TLS only."),
            (429, "Too many passwords are being verified."),
        ]),
    Route::delete("/session", Call::EndSession, "Logs the browser out.").right(CallRight::Open),
    Route::post(
        "/first-account",
        Call::AddFirstUser,
        "Makes the first user, who administers the server, by the code that the server printed.",
    )
    .right(CallRight::Open)
    .body("FirstAccount")
    .refusals(&[(403, "The code is wrong."), (409, "There is an administrator already, or a user of this name.")]),
    Route::get("/users", Call::Users, "The users, by name.")
        .answer(List("AccountEntry"))
        .right(CallRight::Administer)
        .query(PART),
    Route::post("/users", Call::AddUser, "Adds a user.")
        .body("NewAccount")
        .refusals(&[(409, "There is one of this name."), FULL]),
    Route::delete("/users/{name}", Call::RemoveUser, "Removes a user with tokens, logins and links.")
        .refusals(&[NO_USER, LAST_ADMINISTRATOR]),
    Route::put("/users/{name}/password", Call::SetPassword, "Sets another password, and logs the user's browsers out.")
        .right(CallRight::Own)
        .body("NewPassword")
        .refusals(&[NO_USER, (403, "The present password is wrong."), (429, "Too many passwords are being verified.")]),
    Route::post("/users/{name}/grant", Call::GrantUser, "Gives a user rights over a folder.")
        .body("GrantEntry")
        .refusals(&[NO_USER, FULL]),
    Route::post("/users/{name}/revoke", Call::RevokeUser, "Takes rights over a folder back.")
        .body("GrantEntry")
        .refusals(&[
            NO_USER,
            (409, "The user has none of these rights over this very folder, or is the last administrator."),
        ]),
    Route::get("/groups", Call::Groups, "The groups that have members or rights, by name.")
        .answer(List("GroupEntry"))
        .right(CallRight::Administer)
        .query(PART),
    Route::post("/groups/{name}/grant", Call::GrantGroup, "Gives a group rights over a folder.")
        .body("GrantEntry")
        .refusals(&[FULL]),
    Route::post("/groups/{name}/revoke", Call::RevokeGroup, "Takes rights over a folder back.")
        .body("GrantEntry")
        .refusals(&[(
            409,
            "The group has none of these rights over this very folder, or the last administrator is by it.",
        )]),
    Route::put("/groups/{name}/members/{user}", Call::Join, "Puts a user into a group.").refusals(&[NO_USER, FULL]),
    Route::delete("/groups/{name}/members/{user}", Call::Leave, "Takes a user out of a group.")
        .refusals(&[NO_USER, LAST_ADMINISTRATOR]),
    Route::get("/tokens", Call::Tokens, "Tokens, and logins of browsers: the user's own, or those of all.")
        .answer(List("TokenEntry"))
        .right(CallRight::Own)
        .query(PART),
    Route::post("/tokens", Call::AddToken, "Makes a token; its text is shown this once.")
        .answer(Made("TokenText"))
        .right(CallRight::Own)
        .body("NewToken")
        .refusals(&[NO_USER, (409, "The user has nowhere in the folder a right that it asks for."), FULL]),
    Route::delete("/tokens/{id}", Call::RevokeToken, "Ends a token or a login.")
        .right(CallRight::Own)
        .refusals(&[(404, "There is no such token.")]),
    Route::get("/shares", Call::Shares, "Signed links: the user's own, or those of all.")
        .answer(List("LinkEntry"))
        .right(CallRight::Own)
        .query(PART),
    Route::post("/shares", Call::AddShare, "Makes a signed link to a content or folder.")
        .answer(Made("LinkText"))
        .right(CallRight::Share)
        .body("NewLink")
        .refusals(&[
            (404, "There is nothing of the path that would be read."),
            (409, "A content has the path at which uploads would be stored."),
            FULL,
        ]),
    Route::delete("/shares/{id}", Call::RevokeShare, "Ends a signed link.")
        .right(CallRight::Own)
        .refusals(&[(404, "There is no such link.")]),
    Route::get("/reservations", Call::Reservations, "Reservations ahead: the user's own, or those of all.")
        .answer(List("ReservationEntry"))
        .right(CallRight::Own)
        .query(PART),
    Route::post(
        "/reservations",
        Call::AddReservation,
        "Reserves a rate for a content or folder, from one time until another.",
    )
    .answer(Made("ReservationEntry"))
    .right(CallRight::Own)
    .body("NewReservation")
    .refusals(&[
        (404, "There is no such content."),
        (429, "The user's budget has no room for it."),
        (503, "There is no room for it; `grantable_bps` would fit."),
        FULL,
    ]),
    Route::delete(
        "/reservations/{id}",
        Call::RemoveReservation,
        "Removes a reservation ahead, and gives its room back.",
    )
    .right(CallRight::Own)
    .refusals(&[(404, "There is no such reservation.")]),
    Route::post("/shares/rotate", Call::RotateShares, "Ends all signed links, and signs with another key."),
];

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
