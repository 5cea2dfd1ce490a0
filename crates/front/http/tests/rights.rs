//! Every route with every kind of client, against a table of the answers' statuses.

use std::sync::Arc;

use crate::support::{Harness, password_hash, pattern};
use http::config::HttpConfig;
use service::accounts::{Account, Accounts, FolderRights, Holder, Right, Rights};
use service::contents::ContentPath;

/// `ada` has all rights; `bob` reads and writes below `/films`; no other account has any. Both have the password `p`.
struct Closed(String);

impl Accounts for Closed {
    fn account(&self, name: &str) -> Option<Account> {
        let known = ["ada", "bob"].contains(&name);
        known.then(|| Account { name: name.to_owned(), password_hash: self.0.clone() })
    }

    fn any(&self) -> Option<Account> {
        self.account("ada")
    }

    fn rights(&self, holder: Holder<'_>) -> Arc<[FolderRights]> {
        let films = ContentPath::parse_encoded("/films").expect("a path");
        let (folder, rights) = match holder {
            Holder::Account("ada") => (ContentPath::root(), Rights::ALL),
            Holder::Account("bob") => (films, Rights::of(&[Right::Read, Right::Write])),
            _ => return Arc::from([]),
        };
        Arc::from([FolderRights { folder, rights }])
    }
}

const ADA: &str = "Authorization: Basic YWRhOnA=\r\n";
const BOB: &str = "Authorization: Basic Ym9iOnA=\r\n";
/// The right name with another password.
const GUESS: &str = "Authorization: Basic YWRhOnE=\r\n";

/// A request, and the status that it has without login, after a wrong one, and of `bob` and `ada`.
const TABLE: [(&str, [u16; 4]); 30] = [
    ("GET /health", [200, 200, 200, 200]),
    ("GET /ready", [200, 200, 200, 200]),
    ("GET /api/v1/openapi.json", [200, 200, 200, 200]),
    ("GET /nothing", [404, 404, 404, 404]),
    ("GET /metrics", [401, 401, 403, 200]),
    ("GET /api/v1/streams", [401, 401, 403, 200]),
    ("GET /api/v1/disks", [401, 401, 403, 200]),
    ("GET /api/v1/system", [401, 401, 403, 200]),
    ("GET /api/v1/jobs", [401, 401, 403, 200]),
    ("GET /api/v1/volumes", [401, 401, 403, 200]),
    ("GET /api/v1/webhooks", [401, 401, 403, 200]),
    ("GET /api/v1/events", [401, 401, 403, 200]),
    ("POST /api/v1/streams/7/stop", [401, 401, 403, 404]),
    ("POST /api/v1/jobs/copy/stop", [401, 401, 403, 202]),
    ("POST /api/v1/jobs/copy/run", [401, 401, 403, 409]),
    ("POST /api/v1/volumes/none/scrub", [401, 401, 403, 404]),
    ("GET /media", [401, 401, 403, 301]),
    ("GET /media/", [401, 401, 403, 200]),
    ("GET /media/films/", [401, 401, 200, 200]),
    ("GET /media/films", [401, 401, 301, 301]),
    ("GET /media/films/a.ts", [401, 401, 200, 200]),
    ("HEAD /media/films/a.ts", [401, 401, 200, 200]),
    ("GET /media/films/../other/b.ts", [400, 400, 400, 400]),
    ("GET /media/films/%2e%2e/other/b.ts", [400, 400, 400, 400]),
    ("GET /media/other/b.ts", [401, 401, 403, 200]),
    ("GET /media/other/none.ts", [401, 401, 403, 404]),
    ("PUT /media/films/c.ts", [401, 401, 201, 204]),
    ("PUT /media/other/c.ts", [401, 401, 403, 201]),
    ("DELETE /media/films/c.ts", [401, 401, 403, 204]),
    ("DELETE /media/other/c.ts", [401, 401, 403, 204]),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_route_asks_for_its_right() {
    let harness = Harness::with_accounts(HttpConfig::default(), Arc::new(Closed(password_hash("p"))));
    for name in ["films/a.ts", "other/b.ts"] {
        harness.store.put(name, &pattern(1000));
    }
    let mut wrong = Vec::new();
    for (request, expected) in TABLE {
        for (client, status) in ["", GUESS, BOB, ADA].into_iter().zip(expected) {
            let length = if request.starts_with("PUT") { "Content-Length: 0\r\n" } else { "" };
            let answer = harness.one(&format!("{request} HTTP/1.1\r\nHost: localhost\r\n{client}{length}\r\n"));
            if answer.status != status {
                wrong.push(format!("{request} {client:?}: {} for {status}: {}", answer.status, answer.text()));
            }
            assert_eq!(answer.status == 401, answer.field("www-authenticate").is_some(), "{request} {client}");
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(harness.store.bytes("films/a.ts").map(|bytes| bytes.len()), Some(1000), "nothing else was changed");
    harness
        .access
        .wait_until(|text| text.contains(" - bob [") && text.contains("GET /media/films/a.ts HTTP/1.1\" 200"));
    harness.access.wait_until(|text| !text.contains("GET /media/films/a.ts HTTP/1.1\" 200 0"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_as_they_happen_need_the_right_to_see_them() {
    let harness = Harness::with_accounts(HttpConfig::default(), Arc::new(Closed(password_hash("p"))));
    let follow = |login: &str| {
        format!("GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n{login}\r\n")
    };
    assert_eq!(harness.one(&follow("")).status, 401);
    assert_eq!(harness.one(&follow(BOB)).status, 403);
    let mut follower = harness.connect();
    follower.send(follow(ADA));
    assert_eq!(follower.head().status, 200);
}
