//! Uploads that continue, with every kind of client: who may begin one where, and whose it is then.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use service::account_changes::AccountChange;

use crate::rights::{ADA, BOB, Closed, EVE, GUESS, KINDS, given, wish};

/// The upload is begun below `films`, below `other`, and outside of its folder by an encoding.
const BEGUN: [(&str, [u16; KINDS]); 3] = [
    ("films", [401, 401, 201, 403, 403, 403, 403, 201]),
    ("other", [401, 401, 403, 403, 403, 403, 403, 201]),
    ("films/../other", [400; KINDS]),
];
/// An upload of `bob` below `films`: each request on it. It is there for him alone, whoever else may write.
const OF_BOB: [(&str, [u16; KINDS]); 3] = [
    ("HEAD", [401, 401, 200, 403, 403, 403, 403, 404]),
    ("PATCH", [401, 401, 409, 403, 403, 403, 403, 404]),
    ("DELETE", [401, 401, 204, 403, 403, 403, 403, 404]),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_request_for_an_upload_asks_for_its_right() {
    let closed = Closed::start();
    let token = closed.token("ada", given("/films", "read"));
    let [reads, stores] = ["read", "write"].map(|rights| closed.change(AccountChange::AddLink(wish("/films", rights))));
    let kinds: [(&str, &str); KINDS] =
        [("", ""), ("", GUESS), ("", BOB), ("", &token), (&reads, ""), (&stores, ""), ("", EVE), ("", ADA)];
    let ask = |method: &str, target: &str, (link, login): (&str, &str), fields: &str| {
        let target = if link.is_empty() { target.to_owned() } else { format!("{target}?share={link}") };
        let head = format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\nTus-Resumable: 1.0.0\r\n");
        closed.harness.one(&format!("{head}Content-Length: 0\r\n{login}{fields}\r\n"))
    };
    let begin = |kind: (&str, &str), path: &str| {
        let fields = format!("Upload-Length: 5\r\nUpload-Metadata: path {}\r\n", STANDARD.encode(path));
        ask("POST", "/upload/", kind, &fields)
    };
    let mut wrong = Vec::new();
    for (folder, expected) in BEGUN {
        for (number, (kind, status)) in kinds.into_iter().zip(expected).enumerate() {
            let begun = begin(kind, &format!("{folder}/u{number}.ts"));
            if begun.status != status {
                wrong.push(format!("POST {folder} {number}: {} for {status}: {}", begun.status, begun.text()));
            }
        }
    }
    let begun = begin(("", BOB), "films/of-bob.ts");
    let upload = begun.field("location").expect("an address").to_owned();
    for (method, expected) in OF_BOB {
        // The client that may remove it comes last.
        let order = [0, 1, 3, 4, 5, 6, 2, 7];
        for number in order {
            let fields = "Upload-Offset: 3\r\nContent-Type: application/offset+octet-stream\r\n";
            let answer = ask(method, &upload, kinds[number], if method == "PATCH" { fields } else { "" });
            if answer.status != expected[number] {
                wrong.push(format!("{method} {number}: {} for {}", answer.status, expected[number]));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
