//! `isocast top` and `isocast doctor` with the real program and a running server.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::common::client::Client;
use crate::common::server::Server;
use crate::common::{program, until};

#[test]
fn top_shows_streams_disks_and_system() {
    let scratch = tempfile::tempdir().expect("a folder");
    let (root, state) = (scratch.path().join("root"), scratch.path().join("state"));
    fs::create_dir_all(&root).expect("made");
    fs::write(root.join("film.ts"), vec![7; 40_000_000]).expect("written");
    let server = Server::on(&[&root], &state, &["--set", "sessions.hold=1h"]);
    let mut viewer = Client::to(server.address);
    viewer.get("/media/film.ts?rate=2M&burst=0");
    assert_eq!(viewer.head().status, 200);
    let url = format!("http://{}", server.address);
    let run = |arguments: &[&str]| Command::new(program()).args(arguments).output().expect("the program runs");

    let once = run(&["top", "--once", "--json", "--url", &url]);
    assert!(once.status.success(), "{}", String::from_utf8_lossy(&once.stderr));
    let figures: Value = serde_json::from_slice(&once.stdout).expect("JSON");
    let stream = &figures["streams"][0];
    assert_eq!((&stream["path"], &stream["rate_bps"]), (&"film.ts".into(), &2_000_000.into()), "{figures}");
    assert!(figures["disks"][0]["more_streams"].is_u64() && figures["system"]["streams"] == 1, "{figures}");

    let page = String::from_utf8(run(&["top", "--once", "--url", &url]).stdout).expect("text");
    for words in ["HELD UP BY", "film.ts", "2.0", " viewers of 8.8, or ", "processors"] {
        assert!(page.contains(words), "`{words}` is not in\n{page}");
    }
    // The tests' output is a pipe.
    let screen = run(&["top", "--url", &url]);
    assert!(String::from_utf8_lossy(&screen.stderr).contains("--once"), "{screen:?}");

    let looked = run(&["doctor", "--json", "--url", &url, root.to_str().expect("plain")]);
    let findings: Value = serde_json::from_slice(&looked.stdout).expect("JSON");
    let serious = findings.as_array().expect("a list").iter().filter(|one| one["severity"] == "serious").count();
    assert_eq!(looked.status.code(), Some(i32::from(serious > 0)), "{findings}");
    for one in findings.as_array().expect("a list") {
        for member in ["check", "about", "seen", "why", "mend"] {
            assert!(one[member].as_str().is_some_and(|text| !text.is_empty()), "{one}");
        }
    }

    let id = stream["id"].as_u64().expect("a number");
    let mut operator = Client::to(server.address);
    operator.send(format!("POST /api/v1/streams/{id}/stop HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    assert_eq!(operator.answer(false).status, 202);
    let rest = viewer.take(40_000_000).len();
    assert!(rest < 40_000_000, "it ended before its length");
    until("its room", || {
        let now = run(&["top", "--once", "--json", "--url", &url]).stdout;
        let now: Value = serde_json::from_slice(&now).expect("JSON");
        if now["system"]["promised_bps"] == 0 { Ok(()) } else { Err(now.to_string()) }
    });

    let nobody = run(&["top", "--once", "--url", "http://127.0.0.1:1"]);
    assert_eq!(nobody.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&nobody.stderr).contains("no program listens there"), "{nobody:?}");
    let nobody = run(&["doctor", "--json", "--url", "http://127.0.0.1:1"]);
    assert_eq!(nobody.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&nobody.stderr).contains("no program listens there"), "{nobody:?}");
    let missing = run(&["doctor", "/nowhere/at/all"]);
    assert!(missing.status.code() == Some(1) && String::from_utf8_lossy(&missing.stderr).contains("/nowhere/at/all"));
}

#[test]
fn top_shows_uploads_while_they_come() {
    let scratch = tempfile::tempdir().expect("a folder");
    let (root, state) = (scratch.path().join("root"), scratch.path().join("state"));
    fs::create_dir_all(&root).expect("made");
    let server = Server::on(&[&root], &state, &[]);
    let top = |form: &str| {
        let top = ["top", form, "--url", &format!("http://{}", server.address)].map(str::to_owned);
        String::from_utf8(Command::new(program()).args(top).output().expect("the program runs").stdout).expect("text")
    };
    let mut client = Client::to(server.address);
    client.send("PUT /media/new.ts HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nabc");
    until("a row of the upload", || {
        let figures: Value = serde_json::from_str(&top("--json")).expect("JSON");
        let row = &figures["streams"][0];
        let is_shown = row["path"] == "new.ts" && row["direction"] == "in" && row["received_bytes"] == 3;
        if is_shown { Ok(()) } else { Err(figures.to_string()) }
    });
    let page = top("--once");
    assert!(page.contains("< new.ts") && page.contains("uploads 1"), "{page}");
    client.send("defghi");
    assert_eq!(client.answer(true).status, 201);
    until("its end", || {
        let page = top("--once");
        if page.contains("new.ts") { Err(page) } else { Ok(()) }
    });
}
