//! Names on a server: `isocast ls`, `mv`, `rm` and `mkdir`, and the requests behind them.

use std::process::{Command, Output};

use crate::common::program;
use crate::common::server::{Server, Setup};

fn isocast(arguments: &[&str]) -> Output {
    Command::new(program()).args(arguments).output().expect("the program runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(if output.status.success() { &output.stdout } else { &output.stderr }).into_owned()
}

fn post(server: &Server, target: &str) -> u16 {
    server.ask(&format!("POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")).status
}

#[test]
fn commands_list_rename_make_and_remove() {
    let server = Setup::default().start();
    server.file("a b.ts", b"bytes");
    let at = |path: &str| format!("http://{}/media/{path}", server.address);
    let done = |arguments: &[&str]| {
        let output = isocast(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", said(&output));
        said(&output)
    };
    let fails = |arguments: &[&str], part: &str| {
        let output = isocast(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(said(&output).contains(part), "{arguments:?}: {}", said(&output));
    };
    done(&["mkdir", "-p", &at("x/y%20z"), &at("x")]);
    fails(&["mkdir", &at("x"), &at("y")], "1 not made: ");
    fails(&["mkdir", &at("x"), &at("y")], "there is already a folder of this name");
    fails(&["mkdir", &at("no/parent")], "409");
    done(&["mv", &at("a%20b.ts"), &at("x/y%20z/")]);
    let listed = done(&["ls", &at("x/y%20z")]);
    assert!(listed.contains("a b.ts") && listed.contains(" 5 "), "{listed}");
    let listed: serde_json::Value = serde_json::from_str(&done(&["ls", "--json", &at("")])).expect("JSON");
    assert!(listed[0]["name"] == "x" && listed[0]["kind"] == "directory", "{listed}");
    let one: serde_json::Value = serde_json::from_str(&done(&["ls", "--json", &at("x/y%20z/a%20b.ts")])).expect("JSON");
    assert_eq!((&one[0]["name"], &one[0]["size"]), (&"a b.ts".into(), &5.into()));
    let moved: serde_json::Value =
        serde_json::from_str(&done(&["mv", "--json", &at("x/y%20z"), &at("x/w")])).expect("JSON");
    assert_eq!(moved["to"], at("x/w"));
    server.file("other", b"other");
    fails(&["mv", &at("other"), &at("x/w/a%20b.ts")], &format!("{}: not moved: 412", at("x/w/a%20b.ts")));
    done(&["mv", "--replace", &at("other"), &at("x/w/a%20b.ts")]);
    assert_eq!(server.get("/media/x/w/a%20b.ts").text(), "other");
    fails(&["rm", &at("x")], "-r");
    fails(&["rm", "-r", &at("nothing"), &at("y")], "1 not removed: ");
    assert_eq!(server.get("/media/y/").status, 404);
    fails(&["rm", &at("nothing")], "404");
    fails(&["ls", &at("nothing")], "nothing of this name");
    fails(&["mv", &at("x"), "http://other.example/media/x"], "");
    done(&["rm", "-r", "--json", &at("x")]);
    assert_eq!(server.get("/media/x/").status, 404);
}

#[test]
fn requests_change_names_and_wrong_ones_nothing() {
    let server = Setup::default().start();
    server.file("a", b"a");
    let api = "/api/v1/contents";
    assert_eq!(post(&server, &format!("{api}/folder?path=f")), 204);
    assert_eq!(post(&server, &format!("{api}/copy?from=a&to=f/b")), 204);
    assert_eq!(post(&server, &format!("{api}/copy?from=a&to=f/b")), 412);
    assert_eq!(post(&server, &format!("{api}/copy?from=a&to=f/b&replace=true")), 204);
    assert_eq!(post(&server, &format!("{api}/move?from=f&to=g%20h")), 204);
    assert_eq!(server.get("/media/g%20h/b").text(), "a");
    for (query, status) in [
        ("move?from=a", 400),
        ("move?from=../a&to=b", 400),
        ("move?from=a&to=b&replace=perhaps", 400),
        ("move?from=a&to=none/b", 409),
        ("move?from=none&to=b", 404),
        ("move?from=g%20h&to=g%20h/in", 403),
        ("move?from=&to=b", 403),
        ("copy?from=a&to=a", 403),
        ("folder?path=a", 405),
        ("folder", 400),
        ("remove?path=", 403),
        ("remove?path=none", 404),
        ("burn?path=a", 404),
    ] {
        assert_eq!(post(&server, &format!("{api}/{query}")), status, "{query}");
    }
    assert_eq!(server.get(&format!("{api}/move?from=a&to=b")).status, 405);
    let locked = "<?xml version=\"1.0\"?><D:lockinfo xmlns:D=\"DAV:\"><D:lockscope><D:exclusive/></D:lockscope>\
                  <D:locktype><D:write/></D:locktype></D:lockinfo>";
    let lock = format!("LOCK /media/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{locked}", locked.len());
    assert_eq!(server.ask(&lock).status, 200);
    assert_eq!(post(&server, &format!("{api}/remove?path=a")), 423);
    assert_eq!(server.get("/media/a").text(), "a");
    assert_eq!(post(&server, &format!("{api}/remove?path=g%20h")), 204);
    server.wait_for("the space of the removed folder", |server| server.names() == ["a"]);
}
