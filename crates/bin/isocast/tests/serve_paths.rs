//! Names and paths on the real program: nothing outside the folder is reached, everything inside is.

use std::fs;
use std::os::unix::fs::symlink;

use crate::common::server::Server;

#[test]
fn nothing_outside_the_folder_is_reached() {
    let server = Server::start();
    let outside = server.folders.path();
    fs::write(outside.join("secret.ts"), "secret").expect("a file beside the root");
    server.file("inside/film.ts", b"inside");
    symlink(outside.join("secret.ts"), server.root.join("link.ts")).expect("a link");
    symlink("../secret.ts", server.root.join("relative.ts")).expect("a link");
    symlink(outside, server.root.join("folder")).expect("a link");
    symlink("/etc", server.root.join("etc")).expect("a link");
    for path in [
        "../secret.ts",
        "inside/../../secret.ts",
        "%2e%2e/secret.ts",
        "%2E%2e/secret.ts",
        ".%2e/secret.ts",
        "..%2fsecret.ts",
        "inside%2f..%2f..%2fsecret.ts",
        "%2fetc/passwd",
        "/etc/passwd",
        "..%5csecret.ts",
        "%252e%252e/secret.ts",
        "inside/film.ts%00.txt",
        "%00",
        "link.ts",
        "relative.ts",
        "folder/secret.ts",
        "folder/",
        "etc/passwd",
        "etc/",
        "%ff%fe",
    ] {
        for method in ["GET", "HEAD", "DELETE"] {
            let answer = server.ask(&format!("{method} /media/{path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
            assert!((400..500).contains(&answer.status), "{method} {path}: {}", answer.status);
            assert!(!answer.text().contains("secret\n") && !answer.text().contains("root:"), "{method} {path}");
        }
        let put = server.put(&format!("/media/{path}"), "", b"written");
        // A path that merely looks like a way out is a name like any other.
        let is_name = ["..%5csecret.ts", "%252e%252e/secret.ts"].contains(&path);
        assert!(is_name || (400..500).contains(&put.status), "PUT {path}: {}", put.status);
    }
    assert_eq!(fs::read_to_string(outside.join("secret.ts")).expect("untouched"), "secret");
    assert_eq!(fs::read_to_string(server.root.join("inside/film.ts")).expect("untouched"), "inside");
    let mut beside: Vec<String> = fs::read_dir(outside)
        .expect("the folder")
        .map(|e| e.expect("an entry").file_name().into_string().expect("text"))
        .collect();
    beside.sort();
    assert_eq!(beside, ["events.jsonl", "root", "secret.ts", "state"], "nothing new beside the root");
    assert_eq!(server.get("/media/inside/film.ts").text(), "inside", "and it still serves");
}

#[test]
fn names_in_any_script() {
    let server = Server::start();
    let names = [
        "film mit Leerzeichen.ts",
        "100% sicher.ts",
        "%41.ts",
        "映画.ts",
        "Ελληνικά.mp4",
        "e\u{301}.ts",
        "é.ts",
        "🎬 + & = # ? ; , @.ts",
        "\"quoted\" 'it' <b>.ts",
        "dots...",
        "back\\slash.ts",
        "-",
    ];
    for name in names {
        let encoded: String = name.bytes().map(|byte| format!("%{byte:02x}")).collect();
        assert_eq!(server.put(&format!("/media/{encoded}"), "", name.as_bytes()).status, 201, "{name}");
        assert_eq!(fs::read(server.root.join(name)).expect(name), name.as_bytes());
        for rate in ["", "?rate=1M"] {
            let read = server.get(&format!("/media/{encoded}{rate}"));
            assert_eq!((read.status, read.text().as_str()), (200, name));
        }
    }
    // Each one can be reached from the listing, as a browser would.
    let listing = server.get("/media/");
    assert_eq!(listing.status, 200);
    let page = listing.text();
    assert!(!page.contains("<b>"), "names are escaped: {page}");
    for link in page.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
        if !link.starts_with(['.', '/', '#', '?', 'h']) {
            assert_eq!(server.get(&format!("/media/{link}")).status, 200, "{link}");
        }
    }
    let list = server.ask("GET /media/ HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n\r\n");
    let text = list.json().to_string();
    for name in names {
        assert!(text.contains(&serde_json::Value::from(name).to_string()), "{name} in {text}");
    }
}

#[test]
fn a_refusal_names_the_content_in_the_way() {
    let server = Server::start();
    server.file("a/b", b"x");
    server.file("film.ts", b"film");
    let ask = |request: &str, fields: &str| {
        server.ask(&format!("{request} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n{fields}\r\n"))
    };
    // The path is `a/b/new.ts`.
    let tus = "Tus-Resumable: 1.0.0\r\nUpload-Length: 5\r\nUpload-Metadata: path YS9iL25ldy50cw==\r\n";
    for (request, fields) in [
        ("PUT /media/a/b/new.ts", ""),
        ("PUT /media/a/b/c/d/new.ts", ""),
        ("PUT /media/a/b/camera.ts?rate=1M", ""),
        ("POST /upload/", tus),
        ("MKCOL /media/a/b/new", ""),
        ("MKCOL /media/a/b/c/new", ""),
        ("MOVE /media/film.ts", "Destination: /media/a/b/new.ts\r\n"),
        ("COPY /media/film.ts", "Destination: /media/a/b/c/new.ts\r\n"),
        ("POST /api/v1/contents/folder?path=a/b/new", ""),
        ("POST /api/v1/contents/move?from=film.ts&to=a/b/new.ts", ""),
        ("POST /api/v1/contents/copy?from=film.ts&to=a/b/new.ts", ""),
    ] {
        let refused = ask(request, fields);
        assert_eq!(refused.status, 409, "{request}: {}", refused.text());
        assert_eq!(refused.json()["detail"], "`a/b` is a content, so there can be no name below it", "{request}");
    }
    for request in [
        "GET /media/a/b/c",
        "DELETE /media/a/b/c",
        "DELETE /media/a/b/c/",
        "DELETE /media/a/b/c/d",
        "MOVE /media/a/b/c",
        "COPY /media/a/b/c",
        "POST /api/v1/contents/remove?path=a/b/c",
    ] {
        assert_eq!(ask(request, "Destination: /media/new.ts\r\n").status, 404, "{request}");
    }
    let kept = [("a/b", "x"), ("film.ts", "film")]
        .map(|(name, bytes)| server.get(&format!("/media/{name}")).body == bytes.as_bytes());
    assert_eq!((kept, server.names()), ([true, true], vec!["a".to_owned(), "film.ts".to_owned()]));
}
