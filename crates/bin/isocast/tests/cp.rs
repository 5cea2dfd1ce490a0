//! `isocast cp` with the real program: local files and a server's, at a rate and without, whole folders, broken off and continued.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt, PermissionsExt as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::common::client::pattern;
use crate::common::program;
use crate::common::server::{Server, Setup};

fn cp(arguments: &[&str]) -> Output {
    Command::new(program()).arg("cp").args(arguments).output().expect("the program runs")
}

fn figures(arguments: &[&str]) -> Value {
    let output = cp(&[&["--json"][..], arguments].concat());
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn refused(arguments: &[&str]) -> String {
    let output = cp(arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("listed").map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<String> = entries.map(|name| name.into_string().expect("plain")).collect();
    names.sort();
    names
}

#[test]
fn local_files_and_folders_are_copied_whole() {
    let scratch = tempfile::tempdir().expect("a folder");
    let (from, to) = (scratch.path().join("from"), scratch.path().join("to"));
    fs::create_dir_all(from.join("series/one")).expect("made");
    for (name, length) in [("empty.ts", 0), ("small.ts", 5), ("series/one/long.ts", 3_000_001)] {
        fs::write(from.join(name), pattern(length)).expect("written");
    }
    let done = figures(&["--verify", text(&from), text(&to)]);
    assert_eq!(
        (&done["files"], &done["bytes"], &done["compared"]),
        (&3.into(), &3_000_006.into(), &3.into()),
        "{done}"
    );
    assert!(fs::read(to.join("series/one/long.ts")).expect("there") == pattern(3_000_001));
    assert_eq!((names(&to), fs::read(to.join("empty.ts")).expect("there").len()), (names(&from), 0));
    let again = figures(&["--resume", text(&from), text(&to)]);
    assert_eq!((&again["files"], &again["left_as_they_are"]), (&0.into(), &3.into()));
    // A file keeps its name in a folder that is there; a device keeps nothing.
    assert_eq!(figures(&[text(&from.join("small.ts")), text(scratch.path())])["bytes"], 5);
    assert!(scratch.path().join("small.ts").is_file());
    assert_eq!(figures(&[text(&from), "/dev/null"])["bytes"], 3_000_006);
    assert!(refused(&[text(&from), text(&from.join("series/copy"))]).contains("lies in the source of the copy"));
    assert!(refused(&["/nowhere/at/all", text(&to)]).contains("/nowhere/at/all"));
    let small = from.join("small.ts");
    assert!(refused(&[text(&small), "/nowhere/at/all"]).contains("cannot write in /nowhere/at"));
    assert!(refused(&["http://127.0.0.1:9/media/small.ts", "/dev/null"]).contains("no program listens there"));
    assert!(refused(&["--verify", text(&from), "/dev/null"]).contains("keeps nothing"));
    let usage = cp(&["--rate", "15", text(&from), text(&to)]);
    assert_eq!(usage.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&usage.stderr).contains("15"), "{usage:?}");
}

#[test]
fn one_file_that_cannot_be_copied_keeps_no_other_from_being_so() {
    let scratch = tempfile::tempdir().expect("a folder");
    let (from, root, state) = (scratch.path().join("from"), scratch.path().join("root"), scratch.path().join("state"));
    fs::create_dir_all(from.join("sub")).expect("made");
    fs::create_dir_all(&root).expect("made");
    let odd = OsStr::from_bytes(b"caf\xe9.ts");
    fs::write(from.join(".kept"), "hidden").expect("written");
    fs::write(from.join(".DS_Store"), "of Finder").expect("written");
    fs::write(from.join(odd), "odd").expect("written");
    (0..4).for_each(|number| fs::write(from.join(format!("sub/{number}.ts")), "12345").expect("written"));
    std::os::unix::fs::symlink(".", from.join("self")).expect("linked");
    let server = Server::on(&[&root], &state, &[]);
    let url = |name: &str| format!("http://{}/media/{name}", server.address);
    let said = refused(&[text(&from), &url("up")]);
    assert!(said.contains("2 not copied: "), "{said}");
    assert!(said.contains(".kept: not copied: 403") && said.contains("its name is not UTF-8"), "{said}");
    assert_eq!(names(&root.join("up/sub")).len(), 4);
    for (target, more, to_copy) in [("up", &["--resume"][..], "1 file to copy"), ("new", &[], "6 files to copy")] {
        let dry = cp(&[&["--dry-run", text(&from), &url(target)], more].concat());
        let said = String::from_utf8_lossy(&dry.stdout).into_owned();
        assert!(said.contains("cannot  ") && said.contains(to_copy), "{said}");
        let error = String::from_utf8_lossy(&dry.stderr).into_owned();
        assert_eq!(dry.status.code(), Some(1), "as the copy ends: {said}{error}");
        assert!(error.contains("1 cannot be copied: ") && error.contains("its name is not UTF-8"), "{error}");
    }
    let up = cp(&["--json", text(&from), &url("again")]);
    let up: Value = serde_json::from_slice(&up.stdout).expect("JSON");
    assert_eq!((&up["files"], &up["hidden"], &up["failed"]), (&5.into(), &1.into(), &2.into()), "{up}");
    // Between folders names stay as they are; a link to a folder is passed over.
    let to = scratch.path().join("to");
    let done = figures(&[text(&from), text(&to)]);
    assert_eq!((&done["files"], &done["passed_over"], &done["failed"]), (&7.into(), &1.into(), &0.into()), "{done}");
    assert_eq!(fs::read(to.join(odd)).expect("there"), b"odd");
    // A file that was changed since is copied again, though it has the same length.
    let changed = from.join("sub/3.ts");
    fs::write(&changed, "54321").expect("written");
    let file = fs::File::options().write(true).open(&changed).expect("there");
    let changed_at = std::time::SystemTime::now() + Duration::from_secs(5);
    file.set_modified(changed_at).expect("dated");
    for (target, copy) in [(text(&to), to.join("sub/3.ts")), (&*url("up"), root.join("up/sub/3.ts"))] {
        let again = cp(&["--json", "--resume", text(&from), target]);
        let again: Value = serde_json::from_slice(&again.stdout).expect("JSON");
        assert_eq!(&again["files"], 1, "{again}");
        assert_eq!(fs::read(&copy).expect("there"), b"54321");
        assert_eq!(fs::metadata(&copy).expect("there").modified().ok(), Some(changed_at));
    }
    // So is a file that changed again within the second.
    fs::write(&changed, "67890").expect("written");
    file.set_modified(changed_at + Duration::from_nanos(1)).expect("dated");
    for (target, copy) in [(text(&to), to.join("sub/3.ts")), (&*url("up"), root.join("up/sub/3.ts"))] {
        let again = cp(&["--json", "--resume", text(&from), target]);
        let again: Value = serde_json::from_slice(&again.stdout).expect("JSON");
        assert_eq!((&again["files"], fs::read(copy).expect("there")), (&1.into(), b"67890".to_vec()), "{again}");
    }
    let down = scratch.path().join("down");
    assert_eq!(figures(&[&url("up"), text(&down)])["files"], 4);
    assert_eq!(
        fs::metadata(down.join("sub/3.ts")).expect("there").modified().ok(),
        file.metadata().expect("there").modified().ok()
    );
    assert_eq!(figures(&["--resume", &url("up"), text(&down)])["files"], 0);
    let within = refused(&[&url("up"), &url("up/backup")]);
    assert!(within.contains("lies in the source of the copy"), "{within}");
    let within = refused(&[&url("")[..url("").len() - 1], text(&root.join("up/backup"))]);
    assert!(within.contains("lies in the source of the copy"), "its server is asked for DST: {within}");
    let within =
        refused(&["--url", &url("")[..url("").len() - "media/".len()], text(&root.join("up")), &url("up/backup")]);
    assert!(within.contains("lies in the source of the copy"), "{within}");
}

#[test]
fn the_rate_is_kept() {
    let scratch = tempfile::tempdir().expect("a folder");
    let (from, to) = (scratch.path().join("from.ts"), scratch.path().join("to.ts"));
    fs::write(&from, pattern(1_500_000)).expect("written");
    let done = figures(&["--rate", "8Mbit/s", text(&from), text(&to)]);
    // Never faster, on any machine.
    let bps = done["throughput_bps"].as_f64().expect("a number");
    assert!(bps <= 8_080_000.0 && done["rate_bps"] == 8_000_000, "{done}");
    assert!(fs::read(&to).expect("there") == pattern(1_500_000));
}

/// A copy that no machine makes in its time reports the rate that it reached.
#[test]
fn a_copy_below_its_rate_is_reported() {
    let scratch = tempfile::tempdir().expect("a folder");
    let (from, to) = (scratch.path().join("from.ts"), scratch.path().join("to.ts"));
    fs::write(&from, pattern(3_000_000)).expect("written");
    let done = cp(&["--json", "--rate", "1000Gbit/s", text(&from), text(&to)]);
    let said: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    assert!(done.status.success() && said["rate_kept"] == false, "{said}");
    let warned = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(warned.contains("was not kept") && warned.contains("were reached"), "{warned}");
    let done = cp(&["--json", "--rate", "8Mbit/s", text(&from), "/dev/null"]);
    let said: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    assert!(said["rate_kept"].is_boolean(), "{said}");
    let done = cp(&["--json", text(&from), "/dev/null"]);
    let said: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    assert!(said["rate_kept"].is_null(), "no rate was asked for: {said}");
}

/// A server of two files of 200 kB that takes its time to look one up.
fn slow_to_look_up() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let head: Vec<String> =
                BufReader::new(&stream).lines().map_while(Result::ok).take_while(|l| !l.is_empty()).collect();
            let entry =
                |name| format!(r#"{{"name":"{name}","kind":"file","size":200000,"modified":"","rate_bps":null}}"#);
            let (status, body) = match head.first().map_or("", |line| line.as_str()) {
                line if line.starts_with("HEAD /media/films ") => ("301 There\r\nLocation: /media/films/", Vec::new()),
                line if line.contains("format=json") => {
                    ("200 OK", format!("[{},{}]", entry("a"), entry("b")).into_bytes())
                }
                line => {
                    if line.starts_with("HEAD") {
                        std::thread::sleep(Duration::from_millis(300));
                    }
                    ("200 OK\r\nX-Isocast-Rate: 8000000", pattern(200_000))
                }
            };
            let head_only = head.first().is_some_and(|line| line.starts_with("HEAD"));
            let _ = write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            let _ = stream.write_all(if head_only { &[] } else { &body });
        }
    });
    address
}

#[test]
fn catching_up_between_files_stays_within_the_rate() {
    let scratch = tempfile::tempdir().expect("a folder");
    let from = format!("http://{}/media/films", slow_to_look_up());
    let done = figures(&["--rate", "8Mbit/s", &from, text(&scratch.path().join("films"))]);
    assert_eq!((&done["files"], &done["bytes"]), (&2.into(), &400_000.into()), "{done}");
    assert!(done["throughput_bps"].as_f64() <= Some(8_080_000.0), "{done}");
}

#[test]
fn a_server_is_read_and_written_at_a_rate_it_admits() {
    let scratch = tempfile::tempdir().expect("a folder");
    let (root, state, here) = (scratch.path().join("root"), scratch.path().join("state"), scratch.path().join("here"));
    fs::create_dir_all(root.join("series")).expect("made");
    fs::write(root.join("series/a b?.ts"), pattern(2_000_000)).expect("written");
    fs::write(root.join("film.ts"), pattern(1_000_000)).expect("written");
    let server = Server::on(&[&root], &state, &[]);
    let url = |name: &str| format!("http://{}/media/{name}", server.address);

    let done = figures(&["--verify", &url(""), text(&here)]);
    assert_eq!((&done["files"], &done["compared"]), (&2.into(), &2.into()), "{done}");
    assert!(fs::read(here.join("series/a b?.ts")).expect("there") == pattern(2_000_000));

    let film = here.join("paced.ts");
    let done = figures(&["--rate", "4M", &url("film.ts"), text(&film)]);
    // Never faster than asked, though a server's first bytes are a tick ahead.
    assert!(done["throughput_bps"].as_f64().expect("a number") <= 4_040_000.0, "{done}");
    assert!(fs::read(&film).expect("there") == pattern(1_000_000));

    // A copy that was broken off continues as long as its source is the same.
    let before = names(&here);
    let part = here.join("resumed.ts");
    fs::write(root.join("resumed.ts"), pattern(30_000_000)).expect("written");
    let mut child = Command::new(program())
        .args(["cp", "--rate", "40M", &url("resumed.ts"), text(&part)])
        .spawn()
        .expect("the program runs");
    let hidden = crate::common::until("a part of the copy", || {
        let part = names(&here).into_iter().find(|name| name.contains(".isocast-cp-")).ok_or("none yet")?;
        let length = fs::metadata(here.join(&part)).map_err(|error| error.to_string())?.len();
        if length > 2_000_000 { Ok(part) } else { Err(format!("{length} bytes")) }
    });
    child.kill().expect("it is ours");
    child.wait().expect("it is ours");
    let there = fs::metadata(here.join(&hidden)).expect("it stays").len();
    let done = figures(&["--resume", "--verify", &url("resumed.ts"), text(&part)]);
    assert!(done["resumed_bytes"].as_u64().expect("a number") + 4096 >= there, "{there}: {done}");
    assert!(fs::read(&part).expect("there") == pattern(30_000_000));
    assert_eq!(names(&here).len(), before.len() + 1, "nothing is left behind: {:?}", names(&here));

    // Up again, into a folder that is there, at a rate and without.
    let done = figures(&["--verify", "--rate", "20M", text(&film), &url("series")]);
    assert_eq!((&done["files"], &done["compared"]), (&1.into(), &1.into()), "{done}");
    assert!(fs::read(root.join("series/paced.ts")).expect("there") == pattern(1_000_000));
    figures(&[text(&film), &url("up.ts")]);
    assert!(fs::read(root.join("up.ts")).expect("there") == pattern(1_000_000));
    let again = figures(&["--resume", text(&film), &url("up.ts")]);
    assert_eq!(again["left_as_they_are"], 1);

    let there = format!("http://{}/film.ts", server.address);
    for (source, rate, words) in [
        (url("none.ts"), "max", "there is nothing of this name"),
        (url("film.ts"), "900G", "503"),
        (there, "max", "/media/"),
        ("ftp://localhost/media/film.ts".to_owned(), "max", "http://"),
    ] {
        let said = refused(&["--rate", rate, &source, text(&scratch.path().join("none"))]);
        assert!(said.contains(words), "{source}: {said}");
    }
    assert!(refused(&[text(&film), &url("film.ts/x.ts")]).contains("409"));
    // A folder goes up with all that is below it, into folders that are made for it.
    let done = figures(&["--verify", text(&here.join("series")), &url("a/new/one")]);
    assert_eq!((&done["files"], &done["compared"]), (&1.into(), &1.into()), "{done}");
    assert!(fs::read(root.join("a/new/one/a b?.ts")).expect("there") == pattern(2_000_000));
    assert!(!scratch.path().join("none").exists());
}

#[test]
fn a_server_that_speaks_tls_is_written_and_read() {
    let server = Setup::default().set("tls.listen=127.0.0.1:0").set("tls.self_signed=true").start();
    let started: Value = serde_json::from_str(&server.wait_event(&["server_started"])).expect("JSON");
    let address = started["addresses"][1].as_str().expect("the second is of TLS");
    let (folder, url) = (server.folders.path(), format!("https://{address}/media/up.ts"));
    let [film, back] = ["film.ts", "back.ts"].map(|name| folder.join(name));
    fs::write(&film, pattern(3_000_000)).expect("written");
    let said = refused(&[text(&film), &url]);
    assert!(said.contains("update-ca-certificates"), "its certificate is not trusted here: {said}");
    for ends in [[text(&film), &url], [&url, text(&back)]] {
        let trusted = folder.join("state/tls/self-signed.pem");
        let done = Command::new(program()).arg("cp").args(ends).env("SSL_CERT_FILE", trusted).output();
        let done = done.expect("the program runs");
        assert!(done.status.success(), "{ends:?}: {}", String::from_utf8_lossy(&done.stderr));
    }
    assert!(fs::read(&back).expect("there") == pattern(3_000_000));
}

#[test]
fn a_copy_continues_when_its_source_is_started_again() {
    let scratch = tempfile::tempdir().expect("a folder");
    let (root, state, here) = (scratch.path().join("root"), scratch.path().join("state"), scratch.path().join("here"));
    fs::create_dir_all(&root).expect("made");
    fs::create_dir(&here).expect("made");
    fs::write(root.join("film.ts"), pattern(20_000_000)).expect("written");
    let server = Server::on(&[&root], &state, &[]);
    let address = server.address.to_string();
    let from = format!("http://{address}/media/film.ts");
    let begin = |to: &Path| {
        let mut child = Command::new(program())
            .args(["cp", "--rate", "40M", "--json", &from, text(to)])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program runs");
        crate::common::until("a part of the copy", || {
            let part = names(&here).into_iter().find(|name| name.contains(".isocast-cp-")).ok_or("none yet")?;
            let length = fs::metadata(here.join(&part)).map_err(|error| error.to_string())?.len();
            if child.try_wait().expect("it is ours").is_some() || length > 2_000_000 {
                Ok(())
            } else {
                Err(format!("{length} bytes"))
            }
        });
        child
    };
    let copying = begin(&here.join("film.ts"));
    server.kill();
    let server = Setup::on(&[&root], &state, &[]).listen(&address).start();
    let done = copying.wait_with_output().expect("it is ours");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(fs::read(here.join("film.ts")).expect("there") == pattern(20_000_000));

    // Another version is no part of it.
    let copying = begin(&here.join("mixed.ts"));
    server.kill();
    fs::write(root.join("film.ts"), pattern(20_000_001)).expect("written");
    let _server = Setup::on(&[&root], &state, &[]).listen(&address).start();
    let done = copying.wait_with_output().expect("it is ours");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.code() == Some(1) && said.contains("changed meanwhile; copy it again"), "{said}");
    assert!(!here.join("mixed.ts").exists());
}

/// A path below a served folder is read and written through the running server.
#[test]
fn served_paths_go_through_their_server() {
    let scratch = tempfile::tempdir().expect("a folder");
    let (root, state, here) = (scratch.path().join("root"), scratch.path().join("state"), scratch.path().join("here"));
    fs::create_dir_all(root.join("series")).expect("made");
    fs::create_dir(&here).expect("made");
    fs::write(root.join("series/film.ts"), pattern(1_000_000)).expect("written");
    fs::write(root.join("series/.hidden.ts"), pattern(10_000)).expect("written");
    let server = Server::on(&[&root], &state, &[]);
    let url = format!("http://{}", server.address);
    let copied = |from: &Path, to: &Path| figures(&["--url", &url, "--verify", text(from), text(to)]);

    // Through a link, too; files that the server does not show are read directly.
    std::os::unix::fs::symlink(&root, scratch.path().join("link")).expect("made");
    let done = copied(&scratch.path().join("link/series"), &here.join("series"));
    assert_eq!(done["files"], 2, "{done}");
    assert_eq!(names(&here.join("series")), [".hidden.ts", "film.ts"]);
    let ended = |path: &str| {
        let line = format!("\"path\":\"{path}\"");
        server.stderr_text().lines().filter(|said| said.contains("stream_ended") && said.contains(&line)).count()
    };
    crate::common::until("the streams' end", || {
        if ended("series/film.ts") == 2 { Ok(()) } else { Err(server.stderr_text()) }
    });
    assert_eq!(ended("series/.hidden.ts"), 0, "{}", server.stderr_text());

    copied(&here.join("series/film.ts"), &root.join("new/folder/copy.ts"));
    assert!(fs::read(root.join("new/folder/copy.ts")).expect("there") == pattern(1_000_000));
    crate::common::until("the upload's event", || {
        let said = server.stderr_text();
        if said.contains("new/folder/copy.ts") { Ok(()) } else { Err(said) }
    });

    let before = ended("series/film.ts");
    figures(&["--alone", text(&root.join("series/film.ts")), text(&here.join("alone.ts"))]);
    assert_eq!(ended("series/film.ts"), before);
    let said = refused(&["--url", "http://127.0.0.1:9", text(&here.join("alone.ts")), "/dev/null"]);
    assert!(said.contains("127.0.0.1:9"), "{said}");
}

#[test]
fn verify_finds_the_first_different_byte() {
    let scratch = tempfile::tempdir().expect("a folder");
    let (from, to) = (scratch.path().join("from.ts"), scratch.path().join("to.ts"));
    fs::write(&from, pattern(2_000_000)).expect("written");
    figures(&[text(&from), text(&to)]);
    let copy = fs::File::options().write(true).open(&to).expect("there");
    copy.write_all_at(b"x", 1_234_567).expect("written");
    // Nothing but its bytes tells that it was changed, as where a disk lost some.
    copy.set_modified(fs::metadata(&from).and_then(|of| of.modified()).expect("dated")).expect("dated");
    drop(copy);
    let said = refused(&["--resume", "--verify", text(&from), text(&to)]);
    assert!(said.contains("differs from byte 1234567"), "{said}");
}

#[test]
fn files_are_left_out_and_removed_and_a_dry_run_only_tells() {
    let scratch = tempfile::tempdir().expect("a folder");
    let [from, other, to] = ["from", "other", "to"].map(|name| scratch.path().join(name));
    for name in ["keep/a.ts", "keep/b.tmp", "cache/c.ts", "empty/deep/.keep", ".DS_Store"] {
        fs::create_dir_all(from.join(name).parent().expect("a folder")).expect("made");
        fs::write(from.join(name), name).expect("written");
    }
    fs::remove_file(from.join("empty/deep/.keep")).expect("removed");
    fs::create_dir(&other).expect("made");
    fs::write(other.join("d.ts"), "d").expect("written");
    fs::create_dir_all(to.join("from/keep")).expect("made");
    for name in ["from/keep/old.ts", "from/keep/old.tmp"] {
        fs::write(to.join(name), name).expect("written");
    }
    let options = ["--alone", "--exclude", "*.tmp", "--exclude", "cache", "--exclude", ".DS_Store", "--delete"];
    let ends = [text(&from), text(&other), text(&to)];
    let dry = cp(&[&options[..], &["--dry-run"], &ends].concat());
    let said = String::from_utf8_lossy(&dry.stdout).into_owned();
    assert!(dry.status.success(), "{}", String::from_utf8_lossy(&dry.stderr));
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 5, "{said}");
    assert!(lines[0].starts_with("copy") && lines[0].contains("to/from/keep/a.ts"), "{said}");
    assert!(lines[1].starts_with("remove") && lines[1].ends_with("to/from/keep/old.ts"), "{said}");
    assert!(lines[2].starts_with("1 file to copy") && lines[2].ends_with("1 to remove"), "{said}");
    assert_eq!(names(&to.join("from")), ["keep"], "nothing was done");
    let done = figures(&[&options[..], &ends].concat());
    let counts = ["files", "removed", "excluded", "failed"].map(|name| done[name].as_u64().expect("a count"));
    assert_eq!(counts, [2, 1, 4, 0], "the folder `cache`, the file in it, and two files are left out: {done}");
    assert_eq!(names(&to.join("from/keep")), ["a.ts", "old.tmp"], "excluded files stay");
    assert!(to.join("from/empty/deep").is_dir() && to.join("other/d.ts").is_file());
    let said = refused(&["--alone", text(&from), text(&other), text(&scratch.path().join("nowhere"))]);
    assert_eq!(said.matches("several sources go into a folder").count(), 1, "{said}");
}

#[test]
fn sources_of_one_name_are_refused_and_a_missing_one_keeps_no_other_from_being_copied() {
    let scratch = tempfile::tempdir().expect("a folder");
    let [one, two, to] = ["1/x", "2/x", "to"].map(|name| scratch.path().join(name));
    [&one, &two, &to].iter().for_each(|folder| fs::create_dir_all(folder).expect("made"));
    fs::write(one.join("f"), "one").expect("written");
    fs::write(two.join("f"), "two").expect("written");
    for option in ["--delete", "--resume"] {
        let said = refused(&["--alone", option, text(&one), text(&two), text(&to)]);
        assert!(said.contains("have one name") && names(&to).is_empty(), "{said}");
    }
    let said = refused(&["--alone", "/nowhere/at/all", text(&one), text(&to)]);
    assert!(said.contains("1 not copied: /nowhere/at/all") && to.join("x/f").is_file(), "{said}");
    assert!(refused(&["--alone", "--dry-run", "/nowhere/at/all", text(&one), text(&to)]).contains("/nowhere/at/all"));
}

#[test]
fn an_item_of_the_other_kind_is_replaced_and_emptied_folders_go_with_delete_only() {
    let scratch = tempfile::tempdir().expect("a folder");
    let [from, to] = ["from", "to"].map(|name| scratch.path().join(name));
    for name in ["from/folder/f", "to/file/old", "to/gone/deep/old", "to/kept/cache/old"] {
        let file = scratch.path().join(name);
        fs::create_dir_all(file.parent().expect("a folder")).expect("made");
        fs::write(file, name).expect("written");
    }
    fs::write(from.join("file"), "new").expect("written");
    fs::write(to.join("folder"), "old").expect("written");
    let said = refused(&["--alone", "--resume", text(&from), text(&to)]);
    assert!(said.contains("to/file is a folder, which --delete would replace"), "{said}");
    assert_eq!(names(&to), ["file", "folder", "gone", "kept"], "nothing is left behind");
    let whole = ["--alone", "--delete", "--exclude", "cache/", text(&from), text(&to)];
    assert_eq!(figures(&whole)["files"], 2);
    assert_eq!(names(&to), ["file", "folder", "kept"]);
    assert_eq!(fs::read(to.join("file")).expect("a file"), b"new");
    assert!(to.join("folder/f").is_file() && to.join("kept/cache/old").is_file());
    let again = figures(&whole);
    assert_eq!((&again["files"], &again["removed"]), (&0.into(), &0.into()), "{again}");
}

#[test]
fn permissions_are_copied() {
    let scratch = tempfile::tempdir().expect("a folder");
    let [from, to] = ["from", "to"].map(|name| scratch.path().join(name));
    fs::create_dir_all(from.join("folder")).expect("made");
    let modes = [("folder/run", 0o700), ("folder/read", 0o400), ("folder", 0o700), ("", 0o700)];
    for (name, mode) in modes {
        if name.contains('/') {
            fs::write(from.join(name), name).expect("written");
        }
        fs::set_permissions(from.join(name), fs::Permissions::from_mode(mode)).expect("it is ours");
    }
    figures(&["--alone", text(&from), text(&to)]);
    for (name, mode) in modes {
        assert_eq!(fs::metadata(to.join(name)).expect("there").permissions().mode() & 0o777, mode, "{name}");
    }
}

#[test]
fn a_server_gets_empty_folders_and_a_failing_copy_foretells_no_removal() {
    let scratch = tempfile::tempdir().expect("a folder");
    let [root, state, from] = ["root", "state", "from"].map(|name| scratch.path().join(name));
    fs::create_dir_all(from.join("empty/deep")).expect("made");
    fs::create_dir(&root).expect("made");
    let server = Server::on(&[&root], &state, &[]);
    let url = format!("http://{}/media/new/up", server.address);
    figures(&[text(&from), &url]);
    assert!(root.join("new/up/empty/deep").is_dir());
    fs::write(root.join("new/up/other.ts"), "other").expect("written");
    fs::write(from.join(OsStr::from_bytes(b"caf\xe9.ts")), "odd").expect("written");
    let dry = cp(&["--dry-run", "--delete", text(&from), &url]);
    let said = String::from_utf8_lossy(&dry.stdout).into_owned();
    assert!(said.contains("cannot  ") && said.contains(", 0 to remove"), "{said}");
}

#[test]
fn delete_at_a_server_removes_emptied_folders_and_swaps_files_and_folders() {
    let scratch = tempfile::tempdir().expect("a folder");
    let [root, state, from] = ["root", "state", "from"].map(|name| scratch.path().join(name));
    let up = root.join("up");
    for name in ["from/folder/f", "file/old", "gone/deep/old", "kept/cache/old", "hides/.hidden"] {
        let file = if name.starts_with("from") { scratch.path().join(name) } else { up.join(name) };
        fs::create_dir_all(file.parent().expect("a folder")).expect("made");
        fs::write(file, name).expect("written");
    }
    fs::write(from.join("file"), "new").expect("written");
    fs::write(up.join("folder"), "old").expect("written");
    let server = Server::on(&[&root], &state, &[]);
    let url = format!("http://{}/media/up", server.address);
    let whole = ["--delete", "--exclude", "cache/", text(&from), &url];
    let done = figures(&whole);
    assert_eq!((&done["files"], &done["removed"]), (&2.into(), &6.into()), "three contents, three folders: {done}");
    assert_eq!(names(&up), ["file", "folder", "hides", "kept"]);
    assert_eq!(fs::read(up.join("file")).expect("a file"), b"new");
    for name in ["folder/f", "kept/cache/old", "hides/.hidden"] {
        assert!(up.join(name).is_file(), "{name}");
    }
    let again = figures(&whole);
    assert_eq!((&again["files"], &again["removed"]), (&0.into(), &0.into()), "{again}");
    let remove = |query: &str| {
        server
            .ask(&format!(
                "POST /api/v1/contents/remove?{query} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
            ))
            .status
    };
    assert_eq!(["up", "up/file", "up/nothing"].map(|path| remove(&format!("path={path}&empty=true"))), [409, 409, 404]);
    assert_eq!(remove("path=up&empty=true&trash=true"), 400);
    assert!(up.join("folder/f").is_file());
}

#[test]
fn a_server_that_is_started_again_between_two_files_is_waited_for() {
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let [root, state, to] = ["root", "state", "to"].map(|name| scratch.path().join(name));
    fs::create_dir_all(root.join("many")).expect("made");
    for number in 0..200 {
        fs::write(root.join(format!("many/{number:03}.bin")), pattern(20_000)).expect("written");
    }
    let server = Setup::on(&[&root], &state, &[]).start();
    let address = server.address.to_string();
    let mut copy = Command::new(program());
    let url = format!("http://{address}/media/many");
    // Slowly, so that the server ends amid the files.
    copy.args(["cp", "--rate", "8M", "--json", &url, text(&to)]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let copy = copy.spawn().expect("the program starts");
    server.wait_for("the first files", |_| to.is_dir() && names(&to).len() > 20);
    server.kill();
    let server = Setup::on(&[&root], &state, &[]).listen(&address).start();
    let output = copy.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let done: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&done["files"], &done["bytes"]), (&200.into(), &4_000_000.into()), "{done}");
    assert!(server.stop().0.success());
}
