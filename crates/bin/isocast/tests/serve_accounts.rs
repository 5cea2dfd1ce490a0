//! Users, tokens and links by the program's commands, while a server runs: each change is in force when its command ends.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::client::{Client, pattern};
use crate::common::program;
use crate::common::server::{Server, Setup};

/// Runs a command of the program for this state folder. Gives its output, without the last line feed.
pub(crate) fn isocast(state: &Path, arguments: &[&str], input: &str) -> String {
    let mut command = Command::new(program());
    command
        .args(arguments)
        .arg("--state")
        .arg(state)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program");
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("taken");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text").trim_end().to_owned()
}

/// Two folders, `films` and `other`, with a content each; `ada`, who has all rights, `bob`, who reads and writes below `films`, and `eve`, who
/// reads everything, all with the password `p`.
pub(crate) fn ada_bob_and_eve(folder: &Path) -> Setup {
    let (root, state) = (folder.join("root"), folder.join("state"));
    for (folder, name) in [("films", "a.ts"), ("other", "b.ts")] {
        fs::create_dir_all(root.join(folder)).expect("a folder");
        fs::write(root.join(folder).join(name), pattern(1000)).expect("written");
    }
    isocast(&state, &["user", "add", "ada", "--admin", "--password-stdin"], "p\n");
    for name in ["bob", "eve"] {
        isocast(&state, &["user", "add", name, "--password-stdin"], "p\n");
    }
    isocast(&state, &["user", "grant", "bob", "read,write", "films"], "");
    isocast(&state, &["user", "grant", "eve", "read"], "");
    Setup::on(&[&root], &state, &[]).set("access.anonymous=none")
}

fn status(server: &Server, request: &str, fields: &str) -> u16 {
    let mut client = Client::to(server.address);
    client.send(format!("{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{fields}\r\n"));
    client.answer(true).status
}

const LOCK: &str =
    "<lockinfo xmlns=\"DAV:\"><lockscope><exclusive/></lockscope><locktype><write/></locktype></lockinfo>";

#[test]
fn changes_by_commands_are_in_force_when_they_end() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let (root, state) = (folder.path().join("root"), folder.path().join("state"));
    fs::create_dir_all(root.join("films")).expect("a folder");
    fs::write(root.join("films/a.ts"), pattern(1000)).expect("written");
    fs::write(root.join("b.ts"), pattern(1000)).expect("written");
    isocast(&state, &["user", "add", "ada", "--admin", "--password-stdin"], "secret\n");
    let server = Setup::on(&[&root], &state, &[]).set("access.anonymous=none").start();
    let get = |path: &str, fields: &str| status(&server, &format!("GET /media/{path}"), fields);
    let (ada, bob) = ("Authorization: Basic YWRhOnNlY3JldA==\r\n", "Authorization: Basic Ym9iOnB3\r\n");
    assert_eq!((get("films/a.ts", ""), get("films/a.ts", ada), get("films/a.ts", bob)), (401, 200, 401));

    isocast(&state, &["user", "add", "bob", "--password-stdin"], "pw\n");
    assert_eq!(get("films/a.ts", bob), 403);
    isocast(&state, &["user", "grant", "bob", "read", "films"], "");
    server.wait_stderr_line(
        "\"about\":\"/users/bob/grant\",\"call\":\"GrantUser\",\"client\":null,\"event\":\"access_changed\"",
    );
    assert_eq!((get("films/a.ts", bob), get("b.ts", bob)), (200, 403));
    let token = isocast(&state, &["token", "add", "bob", "--rights", "read", "--folder", "films"], "");
    let bearer = format!("Authorization: Bearer {token}\r\n");
    assert_eq!((get("films/a.ts", &bearer), get("b.ts", &bearer)), (200, 403));
    isocast(&state, &["user", "revoke", "bob", "read", "films"], "");
    assert_eq!((get("films/a.ts", bob), get("films/a.ts", &bearer)), (403, 403));

    let url = isocast(&state, &["share", "films/a.ts", "--expires", "1h", "--uses", "1", "--url", "http://h"], "");
    let target = url.strip_prefix("http://h/media/").expect("an address of the content");
    assert_eq!((get(target, ""), get(target, "")), (200, 403), "once");
    let refused =
        Command::new(program()).args(["share", "films/none.ts", "--state"]).arg(&state).output().expect("it ends");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("there is no `films/none.ts`"), "{said}");
    isocast(&state, &["share", "inbox", "--upload", "--expires", "1s"], "");
    let url = isocast(&state, &["share", "films", "--url", "http://h"], "");
    let (_, share) = url.split_once('?').expect("the right is in the query");
    assert_eq!(get(&format!("films/a.ts?{share}"), ""), 200);
    isocast(&state, &["share", "revoke", "3"], "");
    assert_eq!(get(&format!("films/a.ts?{share}"), ""), 403);
    assert_eq!(isocast(&state, &["share", "rotate", "--json"], ""), r#"{"rotated":true}"#);

    // An empty content with a lock, and an upload that is not finished, are in a backup as well.
    let length = format!("{ada}Content-Length: {}\r\n", LOCK.len());
    assert_eq!(status(&server, "LOCK /media/films/locked.ts", &format!("{length}\r\n{LOCK}")), 201);
    let of_tus = "Tus-Resumable: 1.0.0\r\nUpload-Length: 9\r\nUpload-Metadata: path Yw==\r\nContent-Length: 0\r\n";
    assert_eq!(status(&server, "POST /upload/", &format!("{ada}{of_tus}")), 201);
    let copy = folder.path().join("copy.db");
    isocast(&state, &["state", "backup", copy.to_str().expect("text")], "");
    isocast(&state, &["user", "remove", "ada"], "");
    assert_eq!(get("films/a.ts", ada), 401);
    assert!(server.stop().0.success());
    for ending in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(state.join(format!("state.db{ending}")));
    }
    fs::rename(copy, state.join("state.db")).expect("restored");
    let server = Setup::on(&[&root], &state, &[]).set("access.anonymous=none").start();
    assert_eq!(status(&server, "GET /media/films/a.ts", ada), 200, "as it was when the copy was made");
    assert_eq!(status(&server, "DELETE /media/films/locked.ts", ada), 423);
    let uploads = server.ask(&format!("GET /api/v1/uploads HTTP/1.1\r\nHost: localhost\r\n{ada}\r\n"));
    assert_eq!(uploads.json()[0]["path"], "c");
}

#[test]
fn users_of_the_configuration_are_taken_over_once() {
    let hash = "$argon2id$v=19$m=8,t=1,p=1$ZWlnaHRieXRlcw$+YoFLvFW+uS8lMXMKdCWsg";
    let server = Setup::default().config(&format!("[users]\nada = \"{hash}\"\n")).start();
    let state = server.folders.path().join("state");
    assert_eq!(isocast(&state, &["user", "list"], ""), "ada\n    /: read,write,delete,share,admin");
    isocast(&state, &["user", "remove", "ada"], "");
    server.signal(rustix::process::Signal::HUP);
    server.wait_stderr_line("configuration read again");
    assert_eq!(isocast(&state, &["user", "list"], ""), "");
}

#[test]
fn an_emptied_database_is_reported_where_it_is_begun_anew() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let (root, state) = (folder.path().join("root"), folder.path().join("state"));
    let reported = |server: Server| server.stop().1.contains("are an empty file");
    fs::create_dir_all(&root).expect("a folder");
    assert!(!reported(Setup::on(&[&root], &state, &[]).start()), "there was none");
    assert!(!reported(Setup::on(&[&root], &state, &[]).start()), "and now there is one");
    fs::write(state.join("state.db"), b"").expect("emptied");
    assert!(reported(Setup::on(&[&root], &state, &[]).start()));
}
