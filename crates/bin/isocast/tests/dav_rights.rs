//! Every method of WebDAV with every kind of client, against a table of the answers.

use crate::serve_accounts::{ada_bob_and_eve, isocast};

/// Kinds of clients: no login, a wrong password, `bob`, who reads and writes below `films`, a token of `ada` that reads there, a link to
/// read there, one to store there, `eve`, who reads everything, `ada`, who has all rights.
const KINDS: usize = 8;

/// A method, its path, its destination or none, and the status for each kind. In this order: later rows need the items of earlier ones.
const TABLE: [(&str, &str, &str, [u16; KINDS]); 17] = [
    ("OPTIONS", "films/", "", [200; KINDS]),
    ("PROPFIND", "", "", [401, 401, 403, 403, 403, 403, 207, 207]),
    ("PROPFIND", "films/", "", [401, 401, 207, 207, 207, 403, 207, 207]),
    ("PROPFIND", "other/b.ts", "", [401, 401, 403, 403, 403, 403, 207, 207]),
    ("PROPFIND", "films/../other/b.ts", "", [400; KINDS]),
    ("PROPPATCH", "films/a.ts", "", [401, 401, 207, 403, 403, 403, 403, 207]),
    ("PROPPATCH", "other/b.ts", "", [401, 401, 403, 403, 403, 403, 403, 207]),
    ("MKCOL", "films/new", "", [401, 401, 201, 403, 403, 403, 403, 405]),
    ("MKCOL", "other/new", "", [401, 401, 403, 403, 403, 403, 403, 201]),
    ("COPY", "films/a.ts", "films/c.ts", [401, 401, 201, 403, 403, 403, 403, 412]),
    ("COPY", "films/a.ts", "other/c.ts", [401, 401, 403, 403, 403, 403, 403, 201]),
    ("COPY", "other/b.ts", "films/d.ts", [401, 401, 403, 403, 403, 403, 403, 201]),
    ("LOCK", "films/a.ts", "", [401, 401, 200, 403, 403, 403, 403, 423]),
    ("UNLOCK", "films/a.ts", "", [401, 401, 400, 403, 403, 403, 403, 400]),
    ("MOVE", "films/c.ts", "films/e.ts", [401, 401, 403, 403, 403, 403, 403, 201]),
    ("MOVE", "other/b.ts", "films/%2e%2e/e.ts", [400; KINDS]),
    ("DELETE", "films/new", "", [401, 401, 403, 403, 403, 403, 403, 204]),
];

const PATCH: &str = "<propertyupdate xmlns=\"DAV:\"><set><prop><x xmlns=\"urn:x\">1</x></prop></set></propertyupdate>";
const LOCK: &str =
    "<lockinfo xmlns=\"DAV:\"><lockscope><exclusive/></lockscope><locktype><write/></locktype></lockinfo>";

#[test]
fn each_method_asks_for_its_right() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let (server, state) = (ada_bob_and_eve(folder.path()).start(), folder.path().join("state"));
    let token = isocast(&state, &["token", "add", "ada", "--rights", "read", "--folder", "films"], "");
    let link = |arguments: &[&str]| {
        let url = isocast(&state, &[&["share", "films", "--url", "http://h"], arguments].concat(), "");
        url.split_once('?').expect("the right is in the query").1.to_owned()
    };
    let (reads, stores, bearer) = (link(&[]), link(&["--upload"]), format!("Bearer {token}"));
    let kinds = [
        ("", ""),
        ("", "Basic YWRhOnE="),
        ("", "Basic Ym9iOnA="),
        ("", &*bearer),
        (&*reads, ""),
        (&*stores, ""),
        ("", "Basic ZXZlOnA="),
        ("", "Basic YWRhOnA="),
    ];
    let mut wrong = Vec::new();
    for (method, path, destination, expected) in TABLE {
        for (number, ((query, login), status)) in kinds.into_iter().zip(expected).enumerate() {
            let target = if query.is_empty() { format!("/media/{path}") } else { format!("/media/{path}?{query}") };
            let login = if login.is_empty() { String::new() } else { format!("Authorization: {login}\r\n") };
            let destination =
                if destination.is_empty() { String::new() } else { format!("Destination: /media/{destination}\r\n") };
            let body = match method {
                "PROPPATCH" => PATCH,
                "LOCK" => LOCK,
                _ => "",
            };
            let fields = format!("Depth: 0\r\nOverwrite: F\r\nContent-Length: {}\r\n{login}{destination}", body.len());
            let answer = server.ask(&format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n{body}"));
            if answer.status != status {
                wrong.push(format!("{method} {path} {number}: {} for {status}: {}", answer.status, answer.text()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
