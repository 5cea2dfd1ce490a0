//! Recordings in files of a chosen length: cut without a loss, named by the clock, each durable and listed as soon as it ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::common::client::pattern;
use crate::common::server::{Server, Setup};

/// A recording that sends chunks.
const CHUNKED: &str = "HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";

/// All contents below a folder, by their names.
fn below(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut all: Vec<PathBuf> = paths.flat_map(|path| if path.is_dir() { below(&path) } else { vec![path] }).collect();
    all.retain(|path| !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.')));
    all.sort();
    all
}

fn bytes_of(files: &[PathBuf]) -> Vec<u8> {
    files.iter().flat_map(|file| fs::read(file).expect("it is there")).collect()
}

#[test]
fn names_and_lengths_that_make_no_files_are_refused_with_the_reason() {
    let server = Server::start();
    for (target, reason) in [
        ("cam.ts?rate=4M&every=10m", "has no part of the time"),
        ("%Y.ts?rate=4M&every=10m", "tells the time to the year, but a file is to last"),
        ("%Q.ts?rate=4M&every=10m", "`%Q` means nothing in a name"),
        ("%d0.ts?rate=4M&every=1d", "not UTF-8"),
        ("..%2f%H-%M.ts?rate=4M&every=10m", "slash"),
        ("../%H-%M.ts?rate=4M&every=10m", ". and .."),
        ("%H-%M.ts?rate=4M&every=0s", "lasts 1s to 7d"),
        ("%H-%M.ts?rate=4M&every=soon", "every="),
        ("%H-%M.ts?every=10m", "give the rate too"),
        ("%H-%M.ts?rate=4M", "two hexadecimal digits"),
    ] {
        let answer = server.put(&format!("/media/cam7/{target}"), "", b"x");
        assert_eq!((answer.status, answer.text().contains(reason)), (400, true), "{target}: {}", answer.text());
    }
    let conditional = server.put("/media/%H-%M.ts?rate=4M&every=10m", "If-None-Match: *\r\n", b"x");
    assert_eq!((conditional.status, conditional.text().contains("replace nothing")), (400, true));
    assert_eq!(server.names(), [""; 0]);
}

#[test]
fn a_recording_continues_in_the_next_file_without_a_loss() {
    let server = Server::start();
    let mut client = server.connect();
    client.send(format!("PUT /media/cam7/%Y-%m-%d/%H-%M-%S.bin?rate=80M&every=1s {CHUNKED}"));
    let folder = server.root.join("cam7");
    let (mut sent, mut listed) = (Vec::new(), 0);
    server.wait_for("three files", |server| {
        let piece = pattern(20_001);
        client.send(format!("{:x}\r\n", piece.len()));
        client.send([&piece, &b"\r\n"[..]].concat());
        sent.extend(piece);
        let files = below(&folder);
        // An ended file is whole, and is listed while the recording continues.
        assert!(sent.starts_with(&bytes_of(&files)), "{files:?}");
        listed = files.len();
        if let Some(last) = files.last() {
            let day = last.parent().and_then(Path::file_name).expect("a folder").to_string_lossy().into_owned();
            let names = server.get(&format!("/media/cam7/{day}/?format=json")).text();
            let name = last.file_name().expect("a name").to_string_lossy().into_owned();
            assert!(names.contains(&name), "{name} in {names}");
        }
        files.len() >= 3
    });
    let running = server.json("/api/v1/streams");
    assert!(running[0]["path"].as_str().is_some_and(|path| path.starts_with("cam7/20")), "{running}");
    client.send("0\r\n\r\n");
    let answer = client.answer(true);
    let files = below(&folder);
    assert_eq!(answer.status, 201);
    let last = files.last().expect("several").strip_prefix(&server.root).expect("below");
    assert_eq!(answer.field("location"), Some(format!("/media/{}", last.display()).as_str()));
    assert!(files.len() > listed && bytes_of(&files) == sent, "{} of {} bytes", bytes_of(&files).len(), sent.len());
    for file in &files {
        let name = file.file_name().expect("a name").to_string_lossy().into_owned();
        server.wait_event(&["upload_ended", "Stored", &name]);
    }
    server.wait_for("its room", |server| server.metric("isocast_promised_bytes_per_second") == 0.0);
}

#[test]
fn a_camera_that_breaks_off_and_comes_back_to_its_names_replaces_nothing() {
    let server = Server::start();
    let bodies: Vec<Vec<u8>> = (1..=3).map(|count| pattern(100_000 * count)).collect();
    for (number, body) in bodies.iter().enumerate() {
        let mut client = server.connect();
        client.send(format!("PUT /media/cam7/%d.ts?rate=8M&every=1d {CHUNKED}"));
        client.send(format!("{:x}\r\n", body.len() + 1));
        client.send(body);
        let total: usize = bodies[..=number].iter().map(Vec::len).sum();
        let total = u32::try_from(total).expect("small");
        server.wait_for("all of it", |server| server.metric("isocast_upload_bytes_total") >= f64::from(total));
        drop(client);
        server.wait_for("its file", |server| below(&server.root).len() == number + 1);
    }
    let files = below(&server.root.join("cam7"));
    let stored: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).expect("it is there")).collect();
    assert!(stored == bodies, "{files:?}: in the folder's order");
}

/// The packets of the picture in a file, and whether it begins with a key frame.
fn pictures(file: &Path) -> (usize, bool) {
    let probed = Command::new("ffprobe")
        .args(["-v", "error", "-select_streams", "v", "-show_entries", "packet=flags", "-of", "csv=p=0"])
        .arg(file)
        .output()
        .expect("ffprobe comes with ffmpeg");
    let said = String::from_utf8_lossy(&probed.stdout).into_owned();
    let flags: Vec<&str> = said.lines().filter(|line| !line.is_empty()).collect();
    assert!(probed.stderr.is_empty(), "{}: {}", file.display(), String::from_utf8_lossy(&probed.stderr));
    (flags.len(), flags.first().is_some_and(|flags| flags.starts_with('K')))
}

/// Cuts a recording from ffmpeg: each file plays by itself, and all of them are the whole.
fn cut_from_ffmpeg(ending: &str, format: &[&str]) {
    let server = Server::start();
    let mut command = Command::new("ffmpeg");
    let picture = "testsrc=size=320x180:rate=25:duration=7";
    command.args(["-v", "error", "-nostdin", "-re", "-f", "lavfi", "-i", picture]);
    command.args(["-f", "lavfi", "-i", "sine=duration=7", "-c:v", "mpeg4", "-g", "10", "-c:a", "mp2"]);
    command.args(format).args(["-method", "PUT", "-chunked_post", "1"]);
    command.arg(format!("http://{}/media/cam/%H-%M-%S.{ending}?rate=8M&every=2s", server.address));
    let begun = Instant::now();
    let output = match command.output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return crate::common::skip::skipped("there is no ffmpeg");
        }
        other => other.expect("ffmpeg"),
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    server.wait_for("its end", |server| server.metric("isocast_uploads") == 0.0);
    let files = below(&server.root.join("cam"));
    // Cut each two seconds of the clock: on a busy machine the picture comes late, and all of it takes longer.
    let most = usize::try_from(begun.elapsed().as_secs() / 2).expect("few") + 2;
    assert!((3..=most).contains(&files.len()), "{files:?}");
    let found: Vec<(usize, bool)> = files.iter().map(|file| pictures(file)).collect();
    assert!(found.iter().all(|(_, is_key)| *is_key), "{found:?}");
    assert_eq!(found.iter().map(|(count, _)| count).sum::<usize>(), 175, "all pictures of seven seconds: {found:?}");
    // One fragment alone does not state its duration.
    for (file, _) in files.iter().zip(&found).filter(|(_, (count, _))| *count > 20) {
        let target = format!("/media/{}", file.strip_prefix(&server.root).expect("below").display());
        let played = server.get(&target);
        assert!(played.status == 200 && played.field("x-isocast-rate").is_some(), "{target}: {}", played.status);
    }
}

#[test]
fn a_transport_stream_of_ffmpeg_is_cut_into_files_that_each_play() {
    cut_from_ffmpeg("ts", &["-f", "mpegts"]);
}

#[test]
fn a_fragmented_mp4_of_ffmpeg_is_cut_into_files_that_each_play() {
    cut_from_ffmpeg("mp4", &["-f", "mp4", "-movflags", "frag_keyframe+empty_moov+default_base_moof"]);
}

#[test]
fn a_full_quota_ends_a_recording_and_keeps_its_bytes() {
    let quota = "[[quota]]\nfolder = \"cam\"\nmax_size = \"3MiB\"\n";
    let server = Setup::default().config(quota).start();
    let mut client = server.connect();
    client.send(format!("PUT /media/cam/%H-%M-%S.bin?rate=80M&every=1s {CHUNKED}"));
    let chunk = |bytes| [format!("{bytes:x}\r\n").as_bytes(), &pattern(bytes), b"\r\n"].concat();
    server.wait_for("two files", |server| {
        client.send(chunk(1000));
        below(&server.root.join("cam")).len() >= 2
    });
    // A refusal may come, and the connection end, before all of it is sent.
    let _ = std::io::Write::write_all(&mut client.stream, &chunk(4 << 20));
    let refused = client.answer(true);
    assert_eq!((refused.status, refused.text().contains("the quota of `cam`")), (507, true), "{}", refused.text());
    server.wait_stderr_line("recording_kept");
    let stored = bytes_of(&below(&server.root.join("cam"))).len();
    assert!((2 << 20..=3 << 20).contains(&stored), "{stored}");
}
