//! Removals by `keep` and rings, with the real program: only files in the folder itself, each once, never a protected one.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::common::client::pattern;
use crate::common::server::{Server, Setup};
use rustix::fs::IFlags;
use serde_json::Value;

/// One of the files, in the order of their numbers.
fn old(path: &Path, number: u64, bytes: usize) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    fs::write(path, pattern(bytes)).expect("written");
    let time = UNIX_EPOCH + Duration::from_secs(1_600_000_000 + number);
    File::options().write(true).open(path).and_then(|file| file.set_modified(time)).expect("dated");
}

/// Makes `count` files of 1,000 bytes.
fn fill(folder: &Path, count: u64) {
    (0..count).for_each(|number| old(&folder.join(format!("{number}.ts")), number, 1000));
}

fn keep(name: &str, folder: &str, more: &str) -> String {
    format!(
        "[[job]]\nname = \"{name}\"\nkind = \"keep\"\nschedule = \"@yearly\"\nfolder = \"{folder}\"\nmin_age = \"0s\"\n{more}\n"
    )
}

/// Runs a job; how it came out, and why.
fn run(server: &Server, name: &str) -> (String, String) {
    let request = format!("POST /api/v1/jobs/{name}/run HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(server.ask(&request).status, 202);
    let last = |server: &Server| -> Value {
        let jobs = server.json("/api/v1/jobs");
        let found = jobs.as_array().and_then(|jobs| jobs.iter().find(|job| job["name"] == name));
        found.map(|job| job["last"].clone()).unwrap_or_default()
    };
    server.wait_for("the end of a job", |server| !last(server).is_null());
    let run = last(server);
    let text = |key: &str| run[key].as_str().unwrap_or_default().to_owned();
    (text("outcome"), text("reason"))
}

/// Waits for an event with all of these parts.
fn wait_for_event(server: &Server, events: &Path, parts: &[&str]) {
    server.wait_for("an event", |_| {
        let text = fs::read_to_string(events).unwrap_or_default();
        text.lines().any(|line| parts.iter().all(|part| line.contains(part)))
    });
}

fn left(folder: &Path) -> BTreeSet<OsString> {
    fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").file_name()).collect()
}

fn set(names: &[&str]) -> BTreeSet<OsString> {
    names.iter().map(OsString::from).collect()
}

#[test]
fn links_lead_nowhere_and_every_file_counts_once() {
    let config = [
        keep("twice", "twice", "max_size = \"6kB\""),
        keep("elsewhere", "elsewhere", "max_age = \"1h\""),
        keep("alias", "alias", "max_age = \"1h\"\nprotected = [\"alias/gold\"]"),
        keep("reverse", "reverse", "max_age = \"1h\"\nprotected = [\"reverse/best\"]"),
        keep("loop", "loop", "max_size = \"10kB\""),
        keep("names", "names", "max_size = \"8kB\""),
        keep("odd", "odd", "max_size = \"2kB\""),
    ]
    .concat();
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let events = scratch.path().join("events");
    let server = Setup::default().config(&config).set(&format!("log.events={}", events.display())).start();
    let at = |name: &str| server.root.join(name);
    let link = |target: &str, name: &str| symlink(target, at(name)).expect("linked");
    fill(&at("twice/day1"), 5);
    link("day1", "twice/latest");
    fill(&at("archive"), 3);
    fill(&at("elsewhere"), 2);
    link("../archive", "elsewhere/archive");
    for folder in ["alias", "reverse"] {
        fill(&at(&format!("{folder}/gold")), 3);
        fill(&at(&format!("{folder}/day")), 2);
    }
    link("gold", "alias/alias");
    link("gold", "reverse/best");
    fill(&at("loop"), 5);
    link(".", "loop/self");
    fill(&at("names"), 6);
    for number in 0..6 {
        fs::hard_link(at(&format!("names/{number}.ts")), at(&format!("names/h{number}.ts"))).expect("linked");
    }
    for number in 0..4_u8 {
        let name = [b"caf\xe9", &[b'0' + number][..], b".ts"].concat();
        old(&at("odd").join(OsStr::from_bytes(&name)), number.into(), 1000);
    }
    old(&at("odd/plain.ts"), 9, 1000);
    for name in ["twice", "elsewhere", "alias", "reverse", "loop", "names", "odd"] {
        assert_eq!(run(&server, name).0, "Succeeded", "{name}");
    }
    assert_eq!(left(&at("twice/day1")).len(), 5);
    assert_eq!((left(&at("archive")).len(), left(&at("elsewhere"))), (3, set(&["archive"])));
    for folder in ["alias", "reverse"] {
        let folder = |name: &str| left(&at(&format!("{folder}/{name}"))).len();
        assert_eq!((folder("gold"), folder("day")), (3, 0));
    }
    assert_eq!(left(&at("loop")).len(), 6);
    assert_eq!(left(&at("names")).len(), 12, "6 kB in 12 names");
    let odd = left(&at("odd"));
    assert!(odd.len() == 2 && odd.contains(OsStr::new("plain.ts")), "{odd:?}");
    wait_for_event(
        &server,
        &events,
        &["content_deleted", "\"path\":\"elsewhere/0.ts\"", "\"job\":\"elsewhere\"", "\"reason\":\"max_age\""],
    );
}

#[test]
fn a_protected_pattern_without_a_match_fails_the_job() {
    let protected = ["rec/ke*", "rec/kept/*", "rec/k?pt", "*/kept/0.ts", "Rec/kept", "rec/kept ", "rec/none*"];
    let job = |(number, pattern): (usize, &&str)| {
        keep(&number.to_string(), "rec", &format!("max_age = \"1h\"\nprotected = [\"{pattern}\"]"))
    };
    let config: String = protected.iter().enumerate().map(job).collect();
    let server = Setup::default().config(&config).start();
    let kept = server.root.join("rec/kept");
    for (number, pattern) in protected.iter().enumerate() {
        fill(&kept, 1);
        fill(&server.root.join("rec"), 1);
        let (outcome, reason) = run(&server, &number.to_string());
        assert!(kept.join("0.ts").exists(), "{pattern}");
        let is_there = server.root.join("rec/0.ts").exists();
        if number < 4 {
            assert_eq!((outcome.as_str(), is_there), ("Succeeded", false), "{pattern}: {reason}");
        } else {
            assert!(reason.contains(&format!("protected: `{pattern}` names nothing")), "{reason}");
            assert_eq!((outcome.as_str(), is_there), ("Failed", true), "{pattern}");
        }
    }
}

#[test]
fn a_failed_removal_stops_no_other() {
    let server = Setup::default().config(&keep("k", "rec", "max_size = \"3kB\"")).start();
    let rec = server.root.join("rec");
    fill(&rec, 6);
    let pinned = File::open(rec.join("0.ts")).expect("there");
    if rustix::fs::ioctl_setflags(&pinned, IFlags::IMMUTABLE).is_err() {
        return crate::common::skip::skipped("no file can be made immutable here (needs root, and ext4 or xfs)");
    }
    let (outcome, reason) = run(&server, "k");
    rustix::fs::ioctl_setflags(&pinned, IFlags::empty()).expect("as before");
    assert_eq!(left(&rec), set(&["0.ts", "4.ts", "5.ts"]));
    assert!(outcome == "Failed" && reason.contains("0.ts: the file system does not permit it"), "{outcome} {reason}");
}

#[test]
fn contents_dated_after_now_count_from_when_they_were_stored() {
    let job = "[[job]]\nname = \"k\"\nkind = \"keep\"\nschedule = \"@yearly\"\nfolder = \"rec\"\nmax_size = \"2kB\"\n";
    let server = Setup::default().config(job).start();
    fill(&server.root.join("rec"), 4);
    for number in 0..4 {
        let file = File::options().write(true).open(server.root.join(format!("rec/{number}.ts"))).expect("there");
        file.set_modified(SystemTime::now() + Duration::from_secs(400 * 86_400)).expect("dated");
    }
    let (outcome, reason) = run(&server, "k");
    assert!(outcome == "Failed" && reason.contains("4 contents, dated after now"), "{outcome} {reason}");
    assert_eq!(left(&server.root.join("rec")).len(), 4, "younger than an hour");
}

#[test]
fn nothing_goes_for_an_upload_that_cannot_be_stored() {
    let ring = |folder: &str, more: &str| {
        format!("[[quota]]\nfolder = \"{folder}\"\nmax_size = \"200kB\"\nwhen_full = \"overwrite_oldest\"\n{more}\n")
    };
    let root = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    for (folder, bytes) in [("cams", 20_000), ("kept", 21_000), ("links", 20_000)] {
        (0..9).for_each(|number| old(&root.path().join(format!("{folder}/{number}.ts")), number, bytes));
    }
    symlink("cams", root.path().join("alias")).expect("linked");
    symlink("../cams", root.path().join("links/cams")).expect("linked");
    let config =
        [ring("cams", ""), ring("links", ""), ring("kept", "protected = [\"kept/[0-7].ts\", \"kept/?.ts\"]")].concat();
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let events = scratch.path().join("events");
    let events_setting = format!("log.events={}", events.display());
    let server = Setup::default().root(root.path()).config(&config).set(&events_setting).start();
    // The last folder of the first look: the files of the others are known.
    server.wait_stderr_line("the quota of `kept`: protected: `kept/[0-7].ts` names nothing");
    let names = |folder: &str| left(&root.path().join(folder));
    let put = |target: &str, bytes: usize| server.put(target, "", &pattern(bytes));
    let chunked = |target: &str, bytes: usize| {
        let body = String::from_utf8_lossy(&vec![b'x'; bytes]).into_owned();
        server.ask(&format!(
            "PUT {target} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n{bytes:x}\r\n{body}\r\n0\r\n\r\n"
        ))
    };
    let refused = chunked("/media/cams/huge.ts", 300_000);
    assert_eq!(refused.status, 507, "{}", refused.text());
    assert!(refused.text().contains("of which a content may take 24.4 KiB, as its length"), "{}", refused.text());
    let large = put("/media/cams/large.ts", 100_001);
    assert!(
        large.status == 507 && large.text().contains("the quota of `cams` is 195.3 KiB, of which"),
        "{}",
        large.text()
    );
    assert_eq!(names("cams").len(), 9, "nothing was removed");
    // Room is made for a content that fits, also by another way to the folder.
    assert_eq!(put("/media/alias/new.ts", 60_000).status, 201);
    let cams = names("cams");
    assert!(cams.contains(OsStr::new("new.ts")) && !cams.contains(OsStr::new("0.ts")), "{cams:?}");
    let stored: u64 =
        cams.iter().map(|name| fs::metadata(root.path().join("cams").join(name)).expect("there").len()).sum();
    assert!(stored <= 200_000, "{stored}");
    wait_for_event(
        &server,
        &events,
        &["content_deleted", "\"path\":\"cams/0.ts\"", "\"quota\":\"cams\"", "\"reason\":\"max_size\""],
    );
    // Nothing goes while a pattern names nothing.
    let stuck = put("/media/kept/new.ts", 60_000);
    assert!(stuck.status == 507 && stuck.text().contains("0 B may be removed now"), "{}", stuck.text());
    assert_eq!(names("kept").len(), 9);
    // The target of a link in a ring does not belong to the ring.
    assert_eq!(put("/media/links/new.ts", 20_000).status, 201);
    assert_eq!(names("cams"), cams);
}

#[test]
fn a_quota_holds_by_every_way_into_its_folder_and_counts_every_name() {
    let root = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let at = |name: &str| root.path().join(name);
    old(&at("sub/rec/a.ts"), 1, 3000);
    old(&at("sub/rec/.hidden"), 1, 1000);
    old(&at("sub").join(OsStr::from_bytes(b"caf\xe9.ts")), 1, 1000);
    symlink("sub", at("alias")).expect("linked");
    symlink(".", at("sub/again")).expect("linked");
    old(&at("other/b.ts"), 1, 1000);
    let quotas = "[[quota]]\nfolder = \"sub\"\nmax_size = \"6kB\"\n[[quota]]\nfolder = \"other\"\nmax_size = \"1kB\"\n\
                  when_full = \"overwrite_oldest\"\nprotected = [\"none\"]\n";
    let server = Setup::default().root(root.path()).config(quotas).start();
    // The last folder of the first look: the files of the other are known.
    server.wait_stderr_line("the quota of `other`: protected: `none` names nothing");
    for target in ["/media/sub/rec/0.ts", "/media/alias/rec/2.ts", "/media/alias/new/2.ts", "/media/sub/again/3.ts"] {
        let refused = server.put(target, "", &pattern(1500));
        let is_named = refused.text().contains("the quota of `sub` has no room: ");
        assert!(refused.status == 507 && is_named, "{target}: {}", refused.text());
    }
    // A content is replaced by one of its own size, though both would not fit.
    assert_eq!(server.put("/media/sub/rec/a.ts", "", &pattern(3000)).status, 204);
    assert_eq!(server.put("/media/alias/rec/a.ts", "", &pattern(3900)).status, 204);
    assert_eq!(server.put("/media/sub/rec/a.ts", "", &pattern(5000)).status, 507);
}

#[test]
fn a_dry_run_names_the_removals_of_a_run() {
    let config = keep("week", "cams", "max_size = \"3500B\"\nprotected = [\"cams/1.ts\"]");
    let server = Setup::default().config(&config).start();
    let cams = server.root.join("cams");
    fill(&cams, 6);
    let removals = server.json("/api/v1/removals?job=week");
    let paths = |removals: &Value| -> BTreeSet<String> {
        let first = removals["first"].as_array().expect("a list");
        first.iter().map(|one| one["path"].as_str().expect("a path").to_owned()).collect()
    };
    let named = paths(&removals);
    assert_eq!((removals["contents"].as_u64(), removals["bytes"].as_u64()), (Some(3), Some(3000)), "{removals}");
    assert_eq!(named, ["cams/0.ts", "cams/2.ts", "cams/3.ts"].map(str::to_owned).into());
    assert_eq!(left(&cams).len(), 6, "nothing is removed");

    // A rule that is not in force yet: by the command, from its file.
    let file = server.folders.path().join("planned.toml");
    let ring = "[[quota]]\nfolder = \"cams\"\nmax_size = \"3200B\"\nwhen_full = \"overwrite_oldest\"\n";
    fs::write(&file, format!("{ring}{}", keep("lost", "cams", "max_age = \"1d\"\nprotected = [\"cams/none\"]")))
        .expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_isocast"));
    command.args(["config", "removals", "--url", &format!("http://{}", server.address)]).arg(&file);
    let output = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("quota cams: would remove 3 contents with 2.9 KiB of the 5.9 KiB in `cams`"), "{said}");
    assert!(said.contains("job lost: would remove 6 contents") && said.contains("it would fail: "), "{said}");
    assert_eq!(
        (output.status.code(), left(&cams).len()),
        (Some(1), 6),
        "a protected name that names nothing is a fault"
    );
    for (query, status) in [("job=none", 404), ("quota=cams", 404), ("folder=none&max_age=1d", 409), ("", 400)] {
        assert_eq!(server.get(&format!("/api/v1/removals?{query}")).status, status, "{query}");
    }

    assert_eq!(run(&server, "week").0, "Succeeded");
    let gone: BTreeSet<String> =
        (0..6).map(|number| format!("cams/{number}.ts")).filter(|path| !server.root.join(path).exists()).collect();
    assert_eq!(gone, named);
}

/// The looks of a day and of a week ago are kept in the state folder; the server joins them with its own.
#[test]
fn a_quota_that_fills_up_has_an_event_a_day_before() {
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let (root, state) = (scratch.path().join("media"), scratch.path().join("state"));
    let quota = |folder: &str| format!("[[quota]]\nfolder = \"{folder}\"\nmax_size = \"10kB\"\n");
    for folder in ["soon", "later", "still"] {
        fill(&root.join(folder), 6);
    }
    fs::create_dir(&state).expect("made");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64();
    let look = |days: f64, free: u64| serde_json::json!({ "at": now - days * 86_400.0, "free": free });
    let kept = serde_json::json!({
        "quota soon of 10000": [look(6.0, 9500), look(1.1, 9500)],
        "quota later of 10000": [look(6.0, 9500)],
        "quota still of 10000": [look(6.0, 4000)],
    });
    fs::write(state.join("room.json"), kept.to_string()).expect("written");
    let setup = Setup::on(&[&root], &state, &[]).config(&["soon", "later", "still"].map(quota).concat());
    let server = setup.start();
    server.wait_for("the event", |server| {
        let events = server.json("/api/v1/events");
        let mut events = events.as_array().expect("a list").iter();
        events.any(|event| event["event"] == "full_soon" && event["name"] == "soon" && event["free_bytes"] == 4000)
    });
    let alarms = server.json("/api/v1/alarms");
    let of = |folder: &str| {
        let alarms = alarms.as_array().expect("a list").iter();
        let found = alarms.filter(|alarm| alarm["kind"] == "full_soon").find(|alarm| alarm["about"] == folder);
        found.map(|alarm| (alarm["severity"].clone(), alarm["text"].as_str().expect("a text").to_owned()))
    };
    let (severity, text) = of("soon").expect("an alarm");
    assert_eq!(severity, "serious");
    // 5,500 bytes in 1.1 days leave 0.8 days for 4,000.
    assert!(text.starts_with("the quota is full in 19 h at the rate of the last 26 h"), "{text}");
    let (severity, text) = of("later").expect("an alarm");
    assert!(severity == "advice" && text.starts_with("the quota is full in 4 days"), "{text}");
    assert!(of("still").is_none(), "{alarms}");
    let left = server.metric("isocast_full_timestamp_seconds{kind=\"quota\",name=\"soon\"}") - now;
    assert!((left / 86_400.0 - 0.8).abs() < 0.01, "{left}");
    let forecasts = server.json("/api/v1/forecasts");
    assert!(forecasts.as_array().is_some_and(|all| all.iter().any(|one| one["kind"] == "disk")), "{forecasts}");
}
