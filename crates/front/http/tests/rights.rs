//! Every route with every kind of client, against a table of the answers' statuses.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use accounts::{ChangeAuthor, Database, Keeper, announce};
use http::config::HttpConfig;
use proxy::TrustedProxies;
use service::account_changes::{AccountChange, AccountStore, Changed, LinkWish};
use service::accounts::{Accounts, FolderRights, OpenRights, Rights};
use service::contents::ContentPath;
use tempfile::TempDir;

use crate::support::{Harness, password_hash, pattern};

pub(crate) fn given(folder: &str, rights: &str) -> FolderRights {
    FolderRights { folder: ContentPath::parse(folder).expect("a path"), rights: rights.parse().expect("rights") }
}

/// A server at which only accounts read: `ada` has all rights; `bob` reads and writes below `/films`; `eve` reads everything. All have the
/// password `p`.
pub(crate) struct Closed {
    pub(crate) harness: Harness,
    state: TempDir,
}

impl Closed {
    pub(crate) fn start() -> Self {
        let state = tempfile::tempdir().expect("a folder");
        let accounts = Arc::<Accounts>::default();
        accounts.open(OpenRights { all_read: false, local_writes: true });
        let keeper = Keeper::start(state.path(), &[], &accounts).expect("started");
        let harness = Harness::with_account_store(HttpConfig::default(), accounts, keeper as Arc<dyn AccountStore>);
        let closed = Self { harness, state };
        for (name, held) in
            [("ada", FolderRights::all()), ("bob", given("/films", "read,write")), ("eve", given("/", "read"))]
        {
            let (name, password_hash) = (name.to_owned(), password_hash("p"));
            closed.change(AccountChange::AddAccount { name: name.clone(), password_hash, rights: Rights::default() });
            let to = service::account_changes::Grantee::Account(name);
            closed.change(AccountChange::Grant { to, given: held });
        }
        for name in ["films/a.ts", "other/b.ts"] {
            closed.harness.store.put(name, &pattern(1000));
        }
        closed
    }

    /// Makes a change, as a command does. Gives the text of what is new.
    pub(crate) fn change(&self, change: AccountChange) -> String {
        let mut database = Database::open(self.state.path()).expect("a database");
        let made = database
            .apply(std::slice::from_ref(&change), ChangeAuthor::Operator, 1_800_000_000)
            .expect("applied")
            .remove(0);
        let changed = made.expect("changed");
        assert!(announce(self.state.path(), Some(&change)));
        match changed {
            Changed::New { text, .. } => text,
            Changed::Done => String::new(),
        }
    }

    pub(crate) fn token(&self, account: &str, within: FolderRights) -> String {
        let (account, label) = (account.to_owned(), String::new());
        let token = self.change(AccountChange::AddToken { account, label, within, expires: None });
        format!("Authorization: Bearer {token}\r\n")
    }

    fn status(&self, request: &str, credentials: &str) -> u16 {
        self.harness.one(&format!("{request} HTTP/1.1\r\nHost: localhost\r\n{credentials}\r\n")).status
    }
}

pub(crate) fn wish(folder: &str, rights: &str) -> LinkWish {
    LinkWish {
        given: given(folder, rights),
        expires: u64::MAX >> 1,
        rate: None,
        uses: None,
        from: Vec::new(),
        stored: None,
        by: None,
    }
}

pub(crate) const ADA: &str = "Authorization: Basic YWRhOnA=\r\n";
pub(crate) const BOB: &str = "Authorization: Basic Ym9iOnA=\r\n";
pub(crate) const EVE: &str = "Authorization: Basic ZXZlOnA=\r\n";
/// The right name with another password.
pub(crate) const GUESS: &str = "Authorization: Basic YWRhOnE=\r\n";

/// Kinds of principals: no login, a wrong password, `bob`, a token of `ada` that reads `/films`, a link to read `/films`, one to store
/// there, `eve`, `ada`.
pub(crate) const KINDS: usize = 8;

/// A request, and the status that it has for each kind of principal.
const TABLE: [(&str, [u16; KINDS]); 90] = [
    ("GET /health", [200; KINDS]),
    ("GET /ready", [200; KINDS]),
    ("GET /api/v1/openapi.json", [200; KINDS]),
    ("GET /nothing", [404; KINDS]),
    ("GET /", [200; KINDS]),
    ("OPTIONS /media/films/", [200; KINDS]),
    ("GET /metrics", [401, 401, 403, 403, 403, 403, 200, 200]),
    ("GET /api/v1/streams", [401, 401, 403, 403, 403, 403, 200, 200]),
    ("GET /api/v1/streams/7", [401, 401, 403, 403, 403, 403, 404, 404]),
    ("GET /api/v1/disks", [401, 401, 403, 403, 403, 403, 200, 200]),
    ("GET /api/v1/system", [401, 401, 403, 403, 403, 403, 200, 200]),
    ("GET /api/v1/history?seconds=60", [401, 401, 403, 403, 403, 403, 200, 200]),
    ("GET /api/v1/jobs", [401, 401, 403, 403, 403, 403, 200, 200]),
    ("GET /api/v1/volumes", [401, 401, 403, 403, 403, 403, 200, 200]),
    ("GET /api/v1/alarms", [401, 401, 403, 403, 403, 403, 200, 200]),
    ("GET /api/v1/quotas", [401, 401, 403, 403, 403, 403, 200, 200]),
    ("GET /api/v1/webhooks", [401, 401, 403, 403, 403, 403, 200, 200]),
    ("GET /api/v1/settings", [401, 401, 403, 403, 403, 403, 403, 200]),
    ("PATCH /api/v1/settings", [401, 401, 403, 403, 403, 403, 403, 415]),
    ("GET /api/v1/budgets", [401, 401, 200, 200, 403, 403, 200, 200]),
    ("PUT /api/v1/budgets/user:bob", [401, 401, 403, 403, 403, 403, 403, 415]),
    ("GET /api/v1/forecasts", [401, 401, 403, 403, 403, 403, 200, 200]),
    ("GET /api/v1/contents/search?text=ts", [401, 401, 403, 403, 403, 403, 200, 200]),
    ("GET /api/v1/contents/search?text=ts&folder=films", [401, 401, 200, 200, 200, 403, 200, 200]),
    ("GET /api/v1/contents/zip?path=films/a.ts", [401, 401, 200, 200, 200, 403, 200, 200]),
    ("GET /api/v1/contents/zip?path=films/a.ts&path=other/b.ts", [401, 401, 403, 403, 403, 403, 200, 200]),
    ("HEAD /api/v1/contents/zip?path=films/none.ts", [401, 401, 404, 404, 404, 403, 404, 404]),
    ("GET /api/v1/contents/details?path=films/a.ts", [401, 401, 200, 200, 200, 403, 200, 200]),
    ("GET /api/v1/contents/details?path=films/none.ts", [401, 401, 404, 404, 404, 403, 404, 404]),
    ("GET /api/v1/contents/thumbnail?path=films/a.ts", [401, 401, 200, 200, 200, 403, 200, 200]),
    ("GET /api/v1/contents/thumbnail?path=other/b.ts", [401, 401, 403, 403, 403, 403, 404, 404]),
    ("GET /api/v1/uploads", [401, 401, 403, 403, 403, 403, 200, 200]),
    ("GET /api/v1/trash", [401, 401, 403, 403, 403, 403, 403, 200]),
    ("GET /api/v1/trash?folder=films", [401, 401, 403, 403, 403, 403, 403, 200]),
    ("POST /api/v1/trash/4102444800000-1-2-4/restore", [401, 401, 403, 403, 403, 403, 403, 204]),
    ("DELETE /api/v1/trash/4102444800000-2-2-4", [401, 401, 403, 403, 403, 403, 403, 204]),
    ("POST /api/v1/trash/4102444800000-3-2-4/restore", [401, 401, 404, 403, 403, 404, 403, 404]),
    ("DELETE /api/v1/trash/4102444800000-3-2-4", [401, 401, 403, 403, 403, 403, 403, 404]),
    ("POST /api/v1/contents/remove?trash=true&path=films/none.ts", [401, 401, 403, 403, 403, 403, 403, 404]),
    ("POST /api/v1/contents/remove?path=films/none.ts", [401, 401, 403, 403, 403, 403, 403, 404]),
    ("GET /api/v1/removals?job=keep", [401, 401, 403, 403, 403, 403, 200, 200]),
    ("GET /api/v1/removals?job=copy", [401, 401, 403, 403, 403, 403, 404, 404]),
    ("GET /api/v1/live", [401, 401, 403, 403, 403, 403, 200, 200]),
    ("GET /api/v1/events", [401, 401, 403, 403, 403, 403, 200, 200]),
    ("POST /api/v1/streams/7/stop", [401, 401, 403, 403, 403, 403, 403, 404]),
    ("POST /api/v1/jobs/copy/stop", [401, 401, 403, 403, 403, 403, 403, 202]),
    ("POST /api/v1/jobs/copy/run", [401, 401, 403, 403, 403, 403, 403, 409]),
    ("POST /api/v1/webhooks/takes/test", [401, 401, 403, 403, 403, 403, 403, 202]),
    ("POST /api/v1/webhooks/none/test", [401, 401, 403, 403, 403, 403, 403, 404]),
    ("POST /api/v1/volumes/none/scrub", [401, 401, 403, 403, 403, 403, 403, 404]),
    ("GET /api/v1/session", [200, 401, 200, 200, 200, 200, 200, 200]),
    ("POST /api/v1/session", [415; KINDS]),
    ("DELETE /api/v1/session", [204; KINDS]),
    ("POST /api/v1/first-account", [415; KINDS]),
    ("GET /api/v1/users", [401, 401, 403, 403, 403, 403, 403, 200]),
    ("POST /api/v1/users", [401, 401, 403, 403, 403, 403, 403, 415]),
    ("PATCH /api/v1/users", [405; KINDS]),
    ("DELETE /api/v1/users/none", [401, 401, 403, 403, 403, 403, 403, 404]),
    ("PUT /api/v1/users/none/password", [401, 401, 415, 403, 401, 401, 415, 415]),
    ("POST /api/v1/users/none/grant", [401, 401, 403, 403, 403, 403, 403, 415]),
    ("POST /api/v1/users/none/revoke", [401, 401, 403, 403, 403, 403, 403, 415]),
    ("GET /api/v1/groups", [401, 401, 403, 403, 403, 403, 403, 200]),
    ("POST /api/v1/groups/cut/grant", [401, 401, 403, 403, 403, 403, 403, 415]),
    ("POST /api/v1/groups/cut/revoke", [401, 401, 403, 403, 403, 403, 403, 415]),
    ("PUT /api/v1/groups/cut/members/none", [401, 401, 403, 403, 403, 403, 403, 404]),
    ("DELETE /api/v1/groups/cut/members/none", [401, 401, 403, 403, 403, 403, 403, 404]),
    ("GET /api/v1/tokens", [401, 401, 200, 403, 401, 401, 200, 200]),
    ("POST /api/v1/tokens", [401, 401, 415, 403, 401, 401, 415, 415]),
    ("DELETE /api/v1/tokens/99", [401, 401, 404, 403, 401, 401, 404, 404]),
    ("GET /api/v1/shares", [401, 401, 200, 403, 401, 401, 200, 200]),
    ("POST /api/v1/shares", [401, 401, 415, 415, 401, 401, 415, 415]),
    ("GET /api/v1/reservations", [401, 401, 200, 403, 401, 401, 200, 200]),
    ("POST /api/v1/reservations", [401, 401, 415, 403, 401, 401, 415, 415]),
    ("DELETE /api/v1/reservations/99", [401, 401, 404, 403, 401, 401, 404, 404]),
    ("DELETE /api/v1/shares/99", [401, 401, 404, 403, 401, 401, 404, 404]),
    ("GET /media", [401, 401, 403, 403, 403, 403, 301, 301]),
    ("GET /media/", [401, 401, 403, 403, 403, 403, 200, 200]),
    ("GET /media/films/", [401, 401, 200, 200, 200, 403, 200, 200]),
    ("GET /media/films", [401, 401, 301, 301, 301, 403, 301, 301]),
    ("GET /media/films/a.ts", [401, 401, 200, 200, 200, 403, 200, 200]),
    ("HEAD /media/films/a.ts", [401, 401, 200, 200, 200, 403, 200, 200]),
    ("GET /media/films/../other/b.ts", [400; KINDS]),
    ("GET /media/films/%2e%2e/other/b.ts", [400; KINDS]),
    ("GET /media/other/b.ts", [401, 401, 403, 403, 403, 403, 200, 200]),
    ("GET /media/other/none.ts", [401, 401, 403, 403, 403, 403, 404, 404]),
    ("PUT /media/films/c.ts", [401, 401, 201, 403, 403, 412, 403, 204]),
    ("PUT /media/other/c.ts", [401, 401, 403, 403, 403, 403, 403, 201]),
    ("POST /media/films/c.ts", [405; KINDS]),
    ("DELETE /media/films/c.ts", [401, 401, 403, 403, 403, 403, 403, 204]),
    ("DELETE /media/other/c.ts", [401, 401, 403, 403, 403, 403, 403, 204]),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_route_asks_for_its_right() {
    let closed = Closed::start();
    let token = closed.token("ada", given("/films", "read"));
    let [reads, stores] = ["read", "write"].map(|rights| closed.change(AccountChange::AddLink(wish("/films", rights))));
    let kinds: [(&str, &str); KINDS] =
        [("", ""), ("", GUESS), ("", BOB), ("", &token), (&reads, ""), (&stores, ""), ("", EVE), ("", ADA)];
    for number in [1, 2] {
        // Of the year 2100: old items would go.
        closed
            .harness
            .store
            .put(&format!(".isocast-upload-kept-trash/4102444800000-{number}-2-4/other/{number}.ts"), b"film");
    }
    let mut wrong = Vec::new();
    for (request, expected) in TABLE {
        for ((link, credentials), status) in kinds.into_iter().zip(expected) {
            let length = if request.starts_with("PUT") { "Content-Length: 0\r\n" } else { "" };
            let mark = if request.contains('?') { '&' } else { '?' };
            let target = if link.is_empty() { request.to_owned() } else { format!("{request}{mark}share={link}") };
            let head = format!("{target} HTTP/1.1\r\nHost: localhost\r\n{credentials}{length}\r\n");
            let answer = closed.harness.one(&head);
            if answer.status != status {
                wrong.push(format!("{target} {credentials:?}: {} for {status}: {}", answer.status, answer.text()));
            }
            assert_eq!(answer.status == 401, answer.field("www-authenticate").is_some(), "{target} {credentials}");
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let present =
        format!("PUT /media/films/a.ts?share={stores} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    let refused = closed.harness.one(&present);
    assert!(
        refused.status == 412 && refused.text().contains("uploads by a link overwrite nothing"),
        "{}",
        refused.text()
    );
    let store = &closed.harness.store;
    assert_eq!(store.bytes("films/a.ts").map(|bytes| bytes.len()), Some(1000), "nothing else was changed");
    let access = &closed.harness.access;
    access.wait_until(|text| text.contains(" - bob [") && text.contains("GET /media/films/a.ts HTTP/1.1\" 200"));
    access.wait_until(|text| !text.contains("GET /media/films/a.ts HTTP/1.1\" 200 0"));
    access.wait_until(|text| text.contains(" - link:1 [") && !text.contains(&reads));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_as_they_happen_need_the_right_to_see_them() {
    let closed = Closed::start();
    for path in ["/api/v1/events", "/api/v1/live"] {
        let follow =
            |login: &str| format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n{login}\r\n");
        assert_eq!(closed.harness.one(&follow("")).status, 401);
        assert_eq!(closed.harness.one(&follow(BOB)).status, 403);
        let mut follower = closed.harness.connect();
        follower.send(follow(ADA));
        assert_eq!(follower.head().status, 200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_is_used_as_often_as_it_may_and_at_its_rate() {
    let closed = Closed::start();
    let limited = LinkWish { uses: Some(2), rate: Some(units::BitRate(3_000_000)), ..wish("/films/a.ts", "read") };
    let link = closed.change(AccountChange::AddLink(limited));
    let get = |fields: &str| {
        let target = format!("GET /media/films/a.ts?rate=9M&share={link}");
        closed.harness.one(&format!("{target} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"))
    };
    assert_eq!(get("Range: bytes=5-9\r\n").status, 206);
    assert_eq!(get("Range: bytes=7-\r\n").status, 206, "the same use");
    let whole = get("");
    assert_eq!((whole.status, whole.field("x-isocast-rate")), (200, Some("3000000")));
    assert_eq!(get("").status, 403);
    assert_eq!(get("Range: bytes=7-\r\n").status, 206, "of a use that began");
    assert_eq!(get("Range: bytes=7-\r\nUser-Agent: other\r\n").status, 403);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_stores_new_contents_up_to_its_room() {
    let closed = Closed::start();
    let link = closed.change(AccountChange::AddLink(LinkWish { stored: Some(10), ..wish("/in", "write") }));
    let put = |target: &str, head: &str, body: &str| {
        let target = format!("PUT /media/{target}share={link}");
        closed.harness.one(&format!("{target} HTTP/1.1\r\nHost: localhost\r\n{head}\r\n{body}")).status
    };
    assert_eq!(put("in/a.ts?", "Content-Length: 6\r\n", "abcdef"), 201);
    assert_eq!(put("in/a.ts?", "Content-Length: 1\r\n", "x"), 412, "it overwrites nothing");
    assert_eq!(put("in/b.ts?", "Content-Length: 6\r\n", "abcdef"), 507);
    assert_eq!(put("in/b.ts?", "Transfer-Encoding: chunked\r\n", "0\r\n\r\n"), 411);
    assert_eq!(put("in/b.ts?", "Content-Length: 4\r\n", "abcd"), 201, "the one that was refused took no room");
    assert_eq!(put("in/c.ts?rate=1M&", "Content-Length: 0\r\n", ""), 403);
    assert_eq!(
        put("in/c.ts?on_break=keep&", "Content-Length: 0\r\n", ""),
        403,
        "a part would be stored, and not counted"
    );
    assert_eq!(put("films/a.ts?", "Content-Length: 0\r\n", ""), 403);
    assert_eq!(closed.harness.store.bytes("films/a.ts").map(|bytes| bytes.len()), Some(1000));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_stores_as_many_contents_as_it_has_uses() {
    let closed = Closed::start();
    let link = closed.change(AccountChange::AddLink(LinkWish { uses: Some(2), ..wish("/in", "write") }));
    let put = |name: &str| {
        let target = format!("PUT /media/in/{name}?share={link}");
        closed.harness.one(&format!("{target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx"))
    };
    assert_eq!(put("a").status, 201);
    let again = put("a");
    assert!(again.status == 412 && again.text().contains("by a link overwrite nothing"), "{}", again.text());
    assert_eq!(put("b").status, 201, "a refused upload is no use");
    let beyond = put("c");
    assert_eq!((beyond.status, closed.harness.store.bytes("in/c")), (403, None), "{}", beyond.text());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_upload_that_may_be_stored_yet_is_a_use_of_its_link() {
    let closed = Closed::start();
    let link = closed.change(AccountChange::AddLink(LinkWish { uses: Some(1), ..wish("/in", "write") }));
    let put = |name: &str| {
        let target = format!("PUT /media/in/{name}?share={link}");
        closed.harness.one(&format!("{target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx")).status
    };
    closed.harness.store.unsettled.store(true, Ordering::SeqCst);
    assert_eq!(put("a"), 504);
    closed.harness.store.unsettled.store(false, Ordering::SeqCst);
    assert_eq!((put("b"), closed.harness.store.bytes("in/b")), (403, None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_that_was_altered_is_refused_with_a_login_too() {
    let closed = Closed::start();
    let link = closed.change(AccountChange::AddLink(wish("/films", "read")));
    let of_others = LinkWish { from: vec!["192.0.2.0/24".parse().expect("a network")], ..wish("/films", "read") };
    let elsewhere = closed.change(AccountChange::AddLink(of_others));
    let get = |link: &str, credentials| closed.status(&format!("GET /media/films/a.ts?share={link}"), credentials);
    assert_eq!(get(&link, ""), 200);
    assert_eq!(get(&elsewhere, ""), 403);
    for altered in [link[..link.len() - 1].to_owned(), format!("{link}0"), link.replacen('1', "2", 1), String::new()] {
        assert_eq!((get(&altered, ""), get(&altered, ADA)), (403, 403), "{altered}");
    }
    assert_eq!(closed.status(&format!("GET /media/films/a.ts?share={link}&share={link}"), ""), 400);
    assert_eq!(
        closed.status(&format!("GET /media/other/b.ts?share={link}"), ADA),
        200,
        "a login gives what it does not"
    );
    closed.change(AccountChange::RotateKeys);
    assert_eq!(get(&link, ""), 403);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn passwords_from_afar_are_taken_encrypted_only() {
    let networks = || vec!["127.0.0.0/8".parse().expect("a network")];
    let trusted = || TrustedProxies { networks: networks(), ..TrustedProxies::default() };
    let status = |config: HttpConfig, fields: &str| {
        let accounts = Arc::<Accounts>::default();
        accounts.put(crate::support::users(&[("ada", "p", FolderRights::all())]));
        accounts.open(OpenRights { all_read: false, local_writes: false });
        let harness = Harness::with_accounts(config, accounts);
        harness.store.put("a.ts", &pattern(10));
        let answer = harness.one(&format!("GET /media/a.ts HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n"));
        let challenge = answer.field("www-authenticate").map(|challenge| challenge.split(' ').next() == Some("Basic"));
        (answer.status, challenge)
    };
    let proxied = || HttpConfig { trusted_proxies: trusted(), ..HttpConfig::default() };
    let far = "X-Forwarded-For: 192.0.2.1\r\n";
    assert_eq!(status(HttpConfig::default(), ADA), (200, None), "from this machine");
    assert_eq!(status(proxied(), &format!("{far}{ADA}")), (403, None));
    assert_eq!(status(proxied(), far), (401, Some(false)), "it is not asked for");
    assert_eq!(status(proxied(), &format!("{far}X-Forwarded-Proto: https\r\n{ADA}")), (200, None));
    assert_eq!(status(proxied(), &format!("{far}X-Forwarded-Proto: https\r\n")), (401, Some(true)));
    let plain = HttpConfig { plain_passwords: true, ..proxied() };
    assert_eq!(status(plain, &format!("{far}{ADA}")), (200, None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_see_no_names_of_others() {
    let closed = Closed::start();
    closed.harness.plane.close_gate();
    let mut viewers = Vec::new();
    for (login, name) in [(ADA, "other/b.ts"), (EVE, "films/a.ts")] {
        let mut viewer = closed.harness.connect();
        viewer.send(format!("GET /media/{name}?rate=5M HTTP/1.1\r\nHost: localhost\r\n{login}\r\n"));
        assert_eq!(viewer.head().status, 200);
        viewers.push(viewer);
    }
    assert_eq!(closed.status("GET /media/films/a.ts?rate=200M", ADA), 503, "an event with names");
    let member = |member: &str, path: &str, login: &str| {
        let answer = closed.harness.one(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{login}\r\n"));
        let value: serde_json::Value = serde_json::from_slice(&answer.body).expect("JSON");
        let texts =
            value.as_array().expect("a list").iter().filter_map(|item| Some(item.get(member)?.as_str()?.to_owned()));
        let mut texts: Vec<String> = texts.collect();
        texts.sort();
        texts
    };
    let seen = |path: &str, login: &str| member("path", path, login);
    assert_eq!(member("user", "/api/v1/streams", ADA), ["ada", "eve"]);
    assert_eq!(member("user", "/api/v1/streams", EVE), ["eve"]);
    assert_eq!(seen("/api/v1/streams", ADA), ["films/a.ts", "other/b.ts"]);
    assert_eq!(seen("/api/v1/streams", EVE), ["", "films/a.ts"]);
    assert_eq!(seen("/api/v1/events", ADA), ["films/a.ts"]);
    assert!(seen("/api/v1/events", EVE).is_empty());
    closed.harness.plane.open_gate();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_finds_names_below_the_folder_of_the_right() {
    let closed = Closed::start();
    for name in ["films/Alps/day 1.ts", "films/Alps/day 2.ts", "films/day.ts", "alps/other day.ts"] {
        closed.harness.store.put(name, &pattern(10));
    }
    let found = |query: &str, login: &str| {
        let target = format!("GET /api/v1/contents/search?{query} HTTP/1.1\r\nHost: localhost\r\n{login}\r\n");
        let answer = closed.harness.one(&target);
        let found: api::FoundNames = serde_json::from_slice(&answer.body).expect("a document");
        (found.entries.into_iter().map(|entry| entry.path).collect::<Vec<_>>(), found.is_part)
    };
    let films = ["films/Alps/day 1.ts", "films/Alps/day 2.ts"].map(str::to_owned).to_vec();
    assert_eq!(found("text=alps+DAY", ADA).0.len(), 3);
    assert_eq!(found("text=alps+day&folder=films", BOB), (films, false));
    assert_eq!(found("text=day&folder=films&limit=1", BOB), (vec!["films/day.ts".to_owned()], true));
    assert_eq!(found("text=alps&folder=films/Alps", BOB), (vec![], false), "the folder itself is not below it");
    assert_eq!(found("text=alps", EVE).0, ["alps", "films/Alps"]);
}
