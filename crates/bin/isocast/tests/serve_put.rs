//! Uploads, recordings and deletions on the real program: an acknowledged content is there, an upload that breaks off leaves nothing.

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use rustix::fs::XattrFlags;

use crate::common::client::pattern;
use crate::common::server::{Server, Setup};
use crate::common::small::Small;
use crate::common::until;

#[test]
fn created_read_replaced_deleted() {
    let server = Server::start();
    // Around sectors, pieces of 128 KiB and chunks of 1 MiB.
    for length in [0, 1, 511, 512, 4097, 131_072, 131_073, 1_048_575, 2_500_000] {
        let (name, body) = (format!("{length}.ts"), pattern(length));
        let created = server.put(&format!("/media/{name}"), "", &body);
        assert_eq!((created.status, created.field("location")), (201, Some(format!("/media/{name}").as_str())));
        assert!(fs::read(server.root.join(&name)).expect("the file") == body, "{length} bytes on disk");
        let read = server.get(&format!("/media/{name}?rate=max"));
        assert_eq!((read.status, read.field("etag")), (200, created.field("etag")));
        assert!(read.body == body, "{length} bytes read");
    }
    let shorter = pattern(1000);
    assert_eq!(server.put("/media/2500000.ts", "", &shorter).status, 204);
    assert!(server.get("/media/2500000.ts").body == shorter);
    let delete = "DELETE /media/2500000.ts HTTP/1.1\r\nHost: localhost\r\n\r\n";
    assert_eq!((server.ask(delete).status, server.ask(delete).status), (204, 404));
    assert_eq!(server.names().len(), 8, "nothing hidden is left: {:?}", server.names());
}

#[test]
fn an_upload_that_may_be_durable_later_is_visible_when_it_is_answered() {
    let server = Server::start();
    for wrong in ["0s", "61s", "5", "soon"] {
        assert_eq!(server.put(&format!("/media/a.ts?durable={wrong}"), "", b"x").status, 400, "{wrong}");
    }
    assert_eq!(server.names(), [""; 0], "what is refused leaves nothing");
    let body = pattern(1_048_575);
    let created = server.put("/media/a.ts?durable=1s", "", &body);
    assert_eq!(created.status, 201);
    assert!(matches!(created.field("x-isocast-durable-within"), None | Some("1")), "{created:?}");
    assert!(server.get("/media/a.ts").body == body);
    assert!(fs::read(server.root.join("a.ts")).expect("the file") == body);
    assert_eq!(server.put("/media/a.ts?durable=1s", "", b"other").status, 204);
    assert_eq!(server.get("/media/a.ts").text(), "other");
    assert_eq!(server.put("/media/b.ts", "", &body).field("x-isocast-durable-within"), None);
}

#[test]
fn conditions_on_existing_contents_hold() {
    let server = Server::start();
    let first = server.put("/media/a.ts", "If-None-Match: *\r\n", b"first");
    assert_eq!(first.status, 201);
    assert_eq!(server.put("/media/a.ts", "If-None-Match: *\r\n", b"second").status, 412);
    assert_eq!(server.put("/media/a.ts", "If-Match: \"other\"\r\n", b"second").status, 412);
    assert_eq!(server.put("/media/none.ts", "If-Match: *\r\n", b"second").status, 412);
    assert_eq!(server.get("/media/a.ts").text(), "first");
    let matching = format!("If-Match: {}\r\n", first.field("etag").expect("a tag"));
    assert_eq!(server.put("/media/a.ts", &matching, b"second").status, 204);
    assert_eq!(server.put("/media/a.ts", &matching, b"third").status, 412, "the tag is another now");
    assert_eq!(server.get("/media/a.ts").text(), "second");
    assert_eq!(server.put("/media/no/folder.ts", "If-Match: *\r\n", b"x").status, 412);
    assert_eq!(server.get("/media/no/").status, 404, "what is refused makes no folder");
    let delete = |name: &str| server.ask(&format!("DELETE /media/{name} HTTP/1.1\r\nHost: localhost\r\n\r\n")).status;
    assert_eq!(server.put("/media/no/folder.ts", "", b"x").status, 201);
    let statuses = ["no/folder.ts/", "no/", "no/folder.ts", "no/"].map(delete);
    assert_eq!(statuses, [409, 204, 404, 404], "a folder goes with all in it");
    assert_eq!(server.put("/media/a.ts/below", "", b"x").status, 409);
    assert_eq!(server.get("/media/a.ts/below").status, 404, "only for a write it is in the way");
    assert_eq!(server.get("/media/a.ts/below/").status, 404);
    assert_eq!(server.put("/media/a.ts", "If-Unmodified-Since: Sat, 01 Jan 2000 00:00:00 GMT\r\n", b"x").status, 412);
    let delete =
        "DELETE /media/a.ts HTTP/1.1\r\nHost: localhost\r\nIf-Unmodified-Since: Sat, 01 Jan 2000 00:00:00 GMT\r\n\r\n";
    assert_eq!(server.ask(delete).status, 412);
    until("the end of the removed folder", || {
        let names = server.names();
        if names == ["a.ts"] { Ok(()) } else { Err(format!("{names:?}")) }
    });
}

#[test]
fn in_chunks_of_any_size() {
    let server = Server::start();
    let body = pattern(300_000);
    let mut client = server.connect();
    client.send(b"PUT /media/a.ts HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    let mut rest = body.as_slice();
    for length in [1, 2, 7, 511, 4096, 100_000, 1].into_iter().cycle() {
        let (piece, left) = rest.split_at(length.min(rest.len()));
        client.send(format!("{:x}\r\n", piece.len()).as_bytes());
        client.send([piece, b"\r\n"].concat());
        rest = left;
        if rest.is_empty() {
            break;
        }
    }
    client.send(b"0\r\n\r\n");
    assert_eq!(client.answer(true).status, 201);
    assert!(fs::read(server.root.join("a.ts")).expect("the file") == body);
}

#[test]
fn an_upload_that_breaks_off_leaves_no_content() {
    let server = Server::start();
    server.file("old.ts", b"old");
    for (target, framing) in [
        ("/media/new.ts", "Content-Length: 9000000"),
        ("/media/old.ts", "Content-Length: 9000000"),
        ("/media/chunked.ts", "Transfer-Encoding: chunked"),
        ("/media/recording.ts?rate=8M&on_break=discard", "Content-Length: 9000000"),
    ] {
        let mut client = server.connect();
        client.send(format!("PUT {target} HTTP/1.1\r\nHost: localhost\r\n{framing}\r\n\r\n").as_bytes());
        // The size of a chunk that will not be whole, where there are chunks; else more of the body.
        client.send(b"c3500\r\n");
        client.send(pattern(700_000));
        server.wait_for("the upload", |server| server.metric("isocast_uploads") >= 1.0);
        drop(client);
        server.wait_for("its end", |server| server.metric("isocast_uploads") == 0.0);
        server.wait_for("its removal", |server| server.names() == ["old.ts"]);
    }
    assert_eq!(server.get("/media/old.ts").text(), "old");
    server.wait_for("the recording's room", |server| server.metric("isocast_promised_bytes_per_second") == 0.0);
}

#[test]
fn a_recording_that_breaks_off_is_kept_as_far_as_it_came() {
    let server = Server::start();
    let body = pattern(1_500_000);
    for (target, name) in [("/media/talk.ts?rate=8M", "talk.ts"), ("/media/plain.ts?on_break=keep", "plain.ts")] {
        let mut client = server.connect();
        client.send(format!("PUT {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000000\r\n\r\n").as_bytes());
        client.send(&body);
        server.wait_for("the upload", |server| server.metric("isocast_uploads") >= 1.0);
        drop(client);
        server.wait_for("its own name, and no other", |server| server.names().contains(&name.to_owned()));
        assert!(fs::read(server.root.join(name)).expect("the file") == body, "{name}");
    }
    server.wait_event(&["recording_kept", "talk.ts", "1500000"]);
    server.wait_event(&["recording_kept", "plain.ts", "1500000"]);
    assert_eq!(server.names(), ["plain.ts", "talk.ts"]);
    let wrong = server.put("/media/a.ts?on_break=maybe", "", b"x");
    assert_eq!((wrong.status, wrong.text().contains("`keep` or `discard`")), (400, true));
}

/// The real program: it closes right after its last chunk, and waits for no answer.
#[test]
fn a_live_upload_of_ffmpeg_is_stored() {
    let server = Server::start();
    let ffmpeg = |target: &str, seconds: u32| {
        let source = format!("testsrc=size=320x180:rate=25:duration={seconds}");
        let mut command = Command::new("ffmpeg");
        command.args([
            "-v",
            "error",
            "-nostdin",
            "-re",
            "-f",
            "lavfi",
            "-i",
            &source,
            "-c:v",
            "mpeg2video",
            "-b:v",
            "1M",
        ]);
        command.args(["-f", "mpegts", "-method", "PUT"]).arg(format!("http://{}{target}", server.address));
        command
    };
    for (target, name) in [("/media/live.ts?rate=4M", "live.ts"), ("/media/best-effort.ts", "best-effort.ts")] {
        let output = match ffmpeg(target, 3).output() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return crate::common::skip::skipped("there is no ffmpeg");
            }
            other => other.expect("ffmpeg"),
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        server.wait_for("the recording", |server| server.names().contains(&name.to_owned()));
        server.wait_event(&["upload_ended", "Stored", name]);
        let probed = Command::new("ffprobe")
            .args(["-v", "error", "-count_packets", "-show_entries", "stream=nb_read_packets", "-of", "csv=p=0"])
            .arg(server.root.join(name))
            .output()
            .expect("ffprobe comes with ffmpeg");
        let said = String::from_utf8_lossy(&probed.stdout).into_owned();
        // The log has it once of the stream and once of its program.
        assert_eq!(said.split([',', '\n']).next(), Some("75"), "all pictures of three seconds: {said}");
    }
    // A recorder that dies: the bytes received are kept.
    let before = server.metric("isocast_upload_bytes_total");
    let mut recorder = ffmpeg("/media/died.ts?rate=4M", 600).spawn().expect("ffmpeg");
    server.wait_for("some of it", |server| server.metric("isocast_upload_bytes_total") > before + 150_000.0);
    recorder.kill().expect("it was ours to kill");
    recorder.wait().expect("our child");
    server.wait_for("what came of it", |server| server.names().contains(&"died.ts".to_owned()));
    assert!(fs::metadata(server.root.join("died.ts")).expect("the file").len() > 100_000);
}

#[test]
fn a_recording_is_written_while_its_viewers_read() {
    let server = Server::start();
    let body = pattern(3_000_000);
    server.file("film.ts", &body);
    let mut viewer = server.connect();
    viewer.get("/media/film.ts?rate=8M");
    assert_eq!(viewer.head().status, 200);
    assert_eq!(server.put("/media/recording.ts?rate=16M", "", &body).status, 201);
    assert!(fs::read(server.root.join("recording.ts")).expect("the file") == body);
    assert!(viewer.take(body.len()) == body);
}

#[test]
fn a_full_disk_is_507_and_leaves_no_rest() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(small) = Small::mount(folder.path(), "4m") else {
        // Without the right to mount there is no small disk: an upload larger than any disk shows the same answer.
        let server = Server::start();
        let mut client = server.connect();
        let length = 1u64 << 39;
        client.send(format!("PUT /media/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n").as_bytes());
        assert_eq!(client.answer(true).status, 507);
        return;
    };
    let server = Setup::default().root(&small.0).start();
    assert_eq!(server.put("/media/fits.ts", "", &pattern(1_000_000)).status, 201);
    let announced = server.put("/media/big.ts", "", &pattern(6_000_000));
    assert!(announced.status == 507 && announced.text().contains("has no room for it"), "{}", announced.text());
    let mut client = server.connect();
    client.send(b"PUT /media/chunked.ts HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    for _ in 0..60 {
        // The refusal may come before all is sent.
        let piece = [b"186a0\r\n".as_slice(), &pattern(100_000), b"\r\n"].concat();
        if client.stream.write_all(&piece).is_err() {
            break;
        }
    }
    let _ = client.stream.write_all(b"0\r\n\r\n");
    assert_eq!(client.answer(true).status, 507);
    server.wait_for("the removal", |server| server.names() == ["fits.ts"]);
    assert_eq!(server.put("/media/again.ts", "", &pattern(2_000_000)).status, 201, "its room is free again");
    assert!(server.get("/media/again.ts").body == pattern(2_000_000));

    let remount = Command::new("mount").args(["-o", "remount,ro"]).arg(&small.0).status().expect("mount is there");
    assert!(remount.success());
    let refused = server.put("/media/more.ts", "", b"x");
    assert_eq!(refused.status, 507);
    assert!(refused.text().contains("read-only"), "{}", refused.text());
    assert_eq!(server.ask("DELETE /media/again.ts HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 403);
    assert_eq!(server.get("/media/fits.ts").body.len(), 1_000_000, "reading goes on");
    drop(server);
}

#[test]
fn open_uploads_take_no_space_beyond_their_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(small) = Small::mount(folder.path(), "96m") else {
        crate::common::skip::skipped("a small disk needs the right to mount");
        return;
    };
    // They are idle for as long as a busy machine takes for the other upload.
    let server = Setup::default().root(&small.0).set("limits.upload_idle=1h").start();
    let piece = [b"200000\r\n".as_slice(), &pattern(1 << 21), b"\r\n"].concat();
    let mut open: Vec<_> = (0..4).map(|_| server.connect()).collect();
    for (client, number) in open.iter_mut().zip(0..) {
        let head = format!("PUT /media/{number}.ts HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
        client.send(head.as_bytes());
        client.send(&piece);
    }
    server.wait_for("space to be taken for what came", |_| {
        let space = rustix::fs::statvfs(&small.0).expect("a file system");
        (space.f_blocks - space.f_bfree) * space.f_frsize >= 4 << 21
    });
    assert_eq!(server.put("/media/known.ts", "", &pattern(64 << 20)).status, 201);
    for client in &mut open {
        client.send(b"0\r\n\r\n");
        assert_eq!(client.answer(true).status, 201);
    }
    drop(server);
}

/// `ulimit -f`: a write beyond it is an answer of that request, and ends neither the server nor a command.
#[test]
fn a_limit_of_file_sizes_ends_nothing() {
    let logs = tempfile::tempdir().expect("a folder");
    let (access, said) = (logs.path().join("access.log"), logs.path().join("said"));
    for log in [&access, &said] {
        File::create(log).and_then(|file| file.set_len(4_000_000)).expect("as long as a file may be, and longer");
    }
    // Blocks of 512 bytes, in some shells of 1024.
    let setup = Setup::default().set(&format!("log.access={}", access.display()));
    let server = setup.limits("ulimit -f 2000;").start();
    let (large, small) = (pattern(4_000_000), pattern(1_000_000));
    assert_eq!(server.put("/media/large.ts", "", &large).status, 507);
    assert_eq!(server.put("/media/recording.ts?rate=80M", "", &large).status, 507);
    let mut client = server.connect();
    client.send(b"PUT /media/large.ts HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3d0900\r\n");
    client.send(&large);
    client.send(b"\r\n0\r\n\r\n");
    assert_eq!(client.answer(true).status, 507);
    assert_eq!(server.put("/media/small.ts", "", &small).status, 201, "the disk is none the worse");
    assert!(server.get("/media/small.ts?rate=max").body == small);
    // The log's own thread counts them.
    let dropped = "isocast_log_lines_dropped_total{log=\"access\"}";
    server.wait_for("the lines without room", |server| server.metric(dropped) >= 4.0);
    assert_eq!(fs::metadata(&access).expect("there").len(), 4_000_000);

    let from = server.file("from.ts", &large);
    let script = format!("ulimit -f 2000; exec 2>>{}; exec \"$@\"", said.display());
    let mut copy = Command::new("sh");
    copy.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_isocast"), "cp", "--alone"]).arg(from);
    let status = copy.arg(logs.path().join("to.ts")).status().expect("a shell");
    assert_eq!(status.code(), Some(1), "it says so and ends, though standard error takes nothing either");
}

/// A new file or folder has the permissions of the umask, the setgid folder and its default ACL; a replaced file keeps its
/// mode.
#[test]
fn permissions_are_those_that_the_system_says() {
    let server = Setup::default().limits("umask 002;").start();
    let mode = |name: &str| fs::metadata(server.root.join(name)).expect("there").permissions().mode() & 0o7777;
    let set = |name: &str, mode: u32| {
        fs::set_permissions(server.root.join(name), Permissions::from_mode(mode)).expect("set");
    };
    for name in ["plain", "listed"] {
        fs::create_dir(server.root.join(name)).expect("made");
    }
    set("plain", 0o2775);
    assert_eq!(server.put("/media/plain/new/a.ts", "", b"abc").status, 201);
    assert_eq!((mode("plain/new"), mode("plain/new/a.ts")), (0o2775, 0o664));
    assert_eq!(server.put("/media/recording.ts?rate=1M&on_break=keep", "", b"abc").status, 201);
    assert_eq!(mode("recording.ts"), 0o664);

    for kept in [0o640, 0o606, 0o600] {
        set("plain/new/a.ts", kept);
        assert_eq!(server.put("/media/plain/new/a.ts", "", b"abcd").status, 204);
        assert_eq!(mode("plain/new/a.ts"), kept);
    }
    set("plain/new/a.ts", 0o4755);
    assert_eq!(server.put("/media/plain/new/a.ts", "", b"abcd").status, 204);
    assert_eq!(mode("plain/new/a.ts"), 0o755, "what was sent runs as nobody else");

    // Version 2, then tag, permissions and id: owner rwx, group rx, group 12345 rwx, mask rwx, others nothing.
    let entries = [(1u16, 7u16, !0u32), (4, 5, !0), (8, 7, 12345), (16, 7, !0), (32, 0, !0)];
    let mut list = 2u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        list.extend_from_slice(&tag.to_le_bytes());
        list.extend_from_slice(&permissions.to_le_bytes());
        list.extend_from_slice(&id.to_le_bytes());
    }
    let (folder, file) = (server.root.join("listed"), server.root.join("listed/new/a.ts"));
    if rustix::fs::setxattr(&folder, "system.posix_acl_default", &list, XattrFlags::empty()).is_err() {
        crate::common::skip::skipped("this file system has no access control lists");
        return;
    }
    assert_eq!(server.put("/media/listed/new/a.ts", "", b"abc").status, 201);
    assert_eq!((mode("listed/new"), mode("listed/new/a.ts")), (0o770, 0o660), "the list says so, and no umask");
    let list_of = |path: &Path| {
        let mut list = vec![0; 1024];
        let length = rustix::fs::getxattr(path, "system.posix_acl_access", &mut list).expect("a list");
        list.truncate(length);
        list
    };
    let before = list_of(&file);
    fs::set_permissions(&file, Permissions::from_mode(0o640)).expect("set");
    let narrowed = list_of(&file);
    assert_ne!(narrowed, before);
    assert_eq!(server.put("/media/listed/new/a.ts", "", b"abcd").status, 204);
    assert_eq!((mode("listed/new/a.ts"), list_of(&file)), (0o640, narrowed));
}
