//! Jobs and webhooks of the real program: jobs at set times or on request, and the receivers of their events.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::common::client::{Answer, pattern};
use crate::common::server::{Server, Setup};
use crate::common::skip::skipped;
use serde_json::Value;

fn post(server: &Server, target: &str) -> Answer {
    server.ask(&format!("POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"))
}

fn job(server: &Server, name: &str) -> Value {
    let jobs = server.json("/api/v1/jobs");
    let found = jobs.as_array().and_then(|jobs| jobs.iter().find(|job| job["name"] == name));
    found.unwrap_or_else(|| panic!("no {name} in {jobs}")).clone()
}

/// Begins a job and waits for the end of its run; how that came out.
fn run(server: &Server, name: &str) -> Value {
    let answer = post(server, &format!("/api/v1/jobs/{name}/run"));
    assert_eq!(answer.status, 202, "{}", answer.text());
    server.wait_for("the end of a job", |server| {
        let job = job(server, name);
        job["running"].is_null() && !job["last"].is_null()
    });
    job(server, name)["last"].clone()
}

#[test]
fn a_job_runs_at_its_time_and_on_request_and_is_stopped() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let notes = folder.path().join("notes");
    let config = format!(
        r#"
        [[job]]
        name = "often"
        kind = "command"
        schedule = "* * * * * *"
        command = ["/bin/sh", "-c", "echo $ISOCAST_JOB >>{}"]
        [[job]]
        name = "long"
        kind = "command"
        schedule = "@monthly"
        command = ["/bin/sleep", "600"]
        [[job]]
        name = "fails"
        kind = "command"
        schedule = "@monthly"
        command = ["/bin/sh", "-c", "echo no room >&2; exit 3"]
        "#,
        notes.display()
    );
    let server = Setup::default().config(&config).start();
    let noted = || fs::read_to_string(&notes).unwrap_or_default();
    server.wait_for("two runs", |_| noted().starts_with("often\noften\n"));
    assert!(server.metric("isocast_job_runs_total{name=\"often\",outcome=\"succeeded\"}") >= 1.0);
    // Of one moment: a run may end between two requests.
    let metrics = server.metrics();
    let due = metrics.value("isocast_job_due_timestamp_seconds{name=\"often\"}")
        - metrics.value("isocast_job_last_success_timestamp_seconds{name=\"often\"}");
    assert!((0.0..=1.0).contains(&due), "the next second: {due}");
    assert_eq!(post(&server, "/api/v1/jobs/long/run").status, 202);
    server.wait_for("a run", |server| job(server, "long")["running"].is_object());
    let twice = post(&server, "/api/v1/jobs/long/run");
    assert!(twice.status == 409 && twice.text().contains("runs already"), "{}", twice.text());
    assert_eq!(post(&server, "/api/v1/jobs/long/stop").status, 202);
    server.wait_for("its end", |server| job(server, "long")["running"].is_null());
    assert_eq!(job(&server, "long")["last"]["outcome"], "Stopped");
    let failed = run(&server, "fails");
    assert_eq!(failed["outcome"], "Failed");
    assert!(failed["reason"].as_str().is_some_and(|reason| reason.contains("no room")), "{failed}");
    assert_eq!(post(&server, "/api/v1/jobs/none/run").status, 404);
    assert_eq!(server.get("/api/v1/jobs/long/run").status, 405);
}

#[test]
fn a_command_over_its_time_ends_with_its_children() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let started = folder.path().join("started");
    // The inner shell ignores SIGTERM, and so does the program it becomes.
    let script = format!("echo begun; sh -c 'trap \"\" TERM; echo $$ >{}; exec sleep 600' & wait", started.display());
    let config = format!(
        "[[job]]\nname = \"long\"\nkind = \"command\"\nschedule = \"@monthly\"\ntime_limit = \"5s\"\n\
         command = [\"/bin/sh\", \"-c\", {}]\n",
        toml::Value::from(script)
    );
    let server = Setup::default().config(&config).start();
    let last = run(&server, "long");
    assert_eq!(last["outcome"], "Failed");
    let reason = last["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("was not done within 5.000 s") && reason.ends_with(": begun"), "{last}");
    let id = fs::read_to_string(&started).expect("it was started");
    server.wait_for("the end of what it started", |_| {
        let state = fs::read_to_string(format!("/proc/{}/stat", id.trim())).unwrap_or_default();
        state.is_empty() || state.contains(") Z ")
    });
}

#[test]
fn runs_that_end_at_the_same_time_are_all_kept() {
    let config = |number: u32| {
        format!(
            "[[job]]\nname = \"{number}\"\nkind = \"command\"\nschedule = \"* * * * * *\"\ncommand = [\"/bin/true\"]\n"
        )
    };
    let server = Setup::default().config(&(0..16).map(config).collect::<String>()).start();
    server.wait_for("three runs of each", |server| {
        (0..16).all(|number| job(server, &number.to_string())["succeeded"].as_u64() >= Some(3))
    });
    assert!(!server.stderr_text().contains("cannot keep"), "{}", server.stderr_text());
}

#[test]
fn a_folder_is_kept_small_read_through_and_copied_to_another_server() {
    let other = Server::start();
    let config = format!(
        r#"
        [[job]]
        name = "expire"
        kind = "keep"
        schedule = "@monthly"
        folder = "tapes"
        max_size = "2MB"
        min_age = "0s"
        [[job]]
        name = "copy"
        kind = "copy"
        schedule = "@monthly"
        from = "tapes"
        to = "http://{}/media/archive"
        rate = "80M"
        [[job]]
        name = "scrub"
        kind = "scrub"
        schedule = "@monthly"
        [[job]]
        name = "scrub-tapes"
        kind = "scrub"
        schedule = "@monthly"
        folder = "tapes"
        rate = "80M"
        [[job]]
        name = "copy-to-nobody"
        kind = "copy"
        schedule = "@monthly"
        from = "tapes"
        to = "http://127.0.0.1:1/media/archive"
        "#,
        other.address
    );
    let server = Setup::default().config(&config).start();
    for name in ["one", "two", "three"] {
        assert_eq!(server.put(&format!("/media/tapes/{name}.ts"), "", &pattern(1_000_000)).status, 201);
    }
    let kept = run(&server, "expire");
    assert_eq!((&kept["outcome"], &kept["files"]), (&"Succeeded".into(), &1.into()), "{kept}");
    assert_eq!(server.get("/media/tapes/one.ts").status, 404, "the oldest goes");
    let copied = run(&server, "copy");
    assert_eq!((&copied["outcome"], &copied["files"]), (&"Succeeded".into(), &2.into()), "{copied}");
    assert_eq!(other.get("/media/archive/three.ts").body, pattern(1_000_000));
    let again = run(&server, "copy");
    assert_eq!((&again["outcome"], &again["bytes"]), (&"Succeeded".into(), &0.into()), "{again}");
    server.file("beside.ts", &pattern(300_000));
    for (name, files, bytes) in [("scrub", 3, 2_300_000), ("scrub-tapes", 2, 2_000_000)] {
        let read = run(&server, name);
        let told = (&read["outcome"], &read["files"], &read["bytes"]);
        assert_eq!(told, (&"Succeeded".into(), &files.into(), &bytes.into()), "{read}");
    }
    // A name that no address can have is left out by neither in silence; the others are read and copied.
    let odd = server.root.join(OsStr::from_bytes(b"tapes/caf\xe9.ts"));
    fs::write(&odd, pattern(100_000)).expect("there is room");
    for (name, files) in [("copy", 0), ("scrub-tapes", 2)] {
        let last = run(&server, name);
        assert_eq!((&last["outcome"], &last["files"]), (&"Failed".into(), &files.into()), "{last}");
        assert!(last["reason"].as_str().is_some_and(|reason| reason.contains(".ts: its name is not UTF-8")), "{last}");
    }
    let refused = run(&server, "copy-to-nobody");
    assert_eq!(refused["outcome"], "Failed");
    assert!(refused["reason"].as_str().is_some_and(|reason| reason.contains("127.0.0.1:1")), "{refused}");
}

#[test]
fn a_scrub_that_misses_a_served_folder_fails() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let [one, two, state] = ["one", "two", "state"].map(|name| folder.path().join(name));
    for (root, name) in [(&one, "a.ts"), (&two, "b.ts")] {
        fs::create_dir(root).expect("made");
        fs::write(root.join(name), pattern(1000)).expect("written");
    }
    let config = "[[job]]\nname = \"scrub\"\nkind = \"scrub\"\nschedule = \"@monthly\"\n";
    let server = Setup::on(&[&one, &two], &state, &[]).config(config).start();
    assert_eq!(run(&server, "scrub")["outcome"], "Succeeded");
    fs::rename(&two, folder.path().join("elsewhere")).expect("moved");
    server.wait_for("the folder's loss", |server| server.metric("isocast_alarms{severity=\"serious\"}") > 0.0);
    let last = run(&server, "scrub");
    assert_eq!((&last["outcome"], &last["files"]), (&"Failed".into(), &1.into()), "{last}");
    assert!(last["reason"].as_str().is_some_and(|reason| reason.contains("two: this served folder is away")), "{last}");
    fs::rename(&one, folder.path().join("elsewhere as well")).expect("moved");
    server.wait_for("the other's loss", |server| server.metric("isocast_alarms{severity=\"serious\"}") > 2.0);
    let last = run(&server, "scrub");
    assert!(last["reason"].as_str().is_some_and(|reason| reason.starts_with("/: the served folder")), "{last}");
}

#[test]
fn a_scrub_at_a_refused_rate_ends_with_the_grantable_one() {
    let config = "[[job]]\nname = \"scrub\"\nkind = \"scrub\"\nschedule = \"@monthly\"\nrate = \"30M\"\n";
    let server = Setup::default().set("links.lo=20M").config(config).start();
    for name in ["one", "two"] {
        server.file(&format!("{name}.ts"), &pattern(100_000));
    }
    let last = run(&server, "scrub");
    let reason = last["reason"].as_str().unwrap_or_default();
    assert!(reason.starts_with("1 not read whole, 0 were: one.ts: there is no room"), "{last}");
    assert!(reason.ends_with("would be granted; no other was asked for after it"), "{last}");
    assert_eq!(server.metric("isocast_streams_refused_total"), 1.0, "the second one is not asked for");
}

#[test]
fn a_copy_is_stopped_though_the_other_end_is_silent() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let config = format!(
        r#"
        [[job]]
        name = "copy"
        kind = "copy"
        schedule = "@monthly"
        from = "tapes"
        to = "http://{}/media/archive"
        "#,
        silent.local_addr().expect("an address")
    );
    let server = Setup::default().config(&config).start();
    assert_eq!(server.put("/media/tapes/one.ts", "", &pattern(100_000)).status, 201);
    assert_eq!(post(&server, "/api/v1/jobs/copy/run").status, 202);
    let (_taken, _) = silent.accept().expect("it connects");
    assert_eq!(post(&server, "/api/v1/jobs/copy/stop").status, 202);
    server.wait_for("its end", |server| job(server, "copy")["running"].is_null());
    let last = job(&server, "copy")["last"].clone();
    assert_eq!(last["outcome"], "Stopped", "{last}");
    // A silent server is given up after 60 s.
    assert!(last["seconds"].as_f64().expect("a number") < 30.0, "{last}");
}

#[test]
fn a_copy_reports_the_loss_of_its_target() {
    let other = Server::start();
    let config = format!(
        "[[job]]\nname = \"push\"\nkind = \"copy\"\nschedule = \"@monthly\"\nfrom = \"films\"\nrate = \"8M\"\n\
         to = \"http://{}/media/films\"\n",
        other.address
    );
    let server = Setup::default().config(&config).start();
    server.file("films/a.ts", &pattern(1000));
    server.file("films/long.ts", &pattern(60_000_000));
    assert_eq!(post(&server, "/api/v1/jobs/push/run").status, 202);
    server.wait_for("bytes", |server| job(server, "push")["running"]["bytes"].as_u64() > Some(1_000_000));
    drop(other);
    server.wait_for("its end", |server| job(server, "push")["running"].is_null());
    let last = job(&server, "push")["last"].clone();
    assert!(last["reason"].as_str().is_some_and(|reason| reason.contains("no program listens there")), "{last}");
    assert_eq!(last["files"], 1, "{last}");
}

#[test]
fn a_copy_says_why_the_other_server_does_not_take_it() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let [root, state] = ["films", "state"].map(|name| folder.path().join(name));
    fs::create_dir(&root).expect("made");
    let other = Setup::on(&[&root], &state, &[]).start();
    let config = format!(
        "[[job]]\nname = \"pull\"\nkind = \"copy\"\nschedule = \"@monthly\"\nfrom = \"http://{}/media/films\"\n\
         to = \"films\"\n",
        other.address
    );
    let server = Setup::default().config(&config).start();
    fs::rename(&root, folder.path().join("elsewhere")).expect("moved");
    other.wait_for("the folder's loss", |other| other.metric("isocast_alarms{severity=\"serious\"}") > 0.0);
    let last = run(&server, "pull");
    let reason = last["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("/media/films") && reason.contains("the served folder is not there"), "{last}");
}

#[test]
fn a_pull_makes_empty_folders() {
    let source = Server::start();
    source.file("films/a.ts", b"film");
    fs::create_dir_all(source.root.join("films/empty/deep")).expect("made");
    let config = format!(
        "[[job]]\nname = \"pull\"\nkind = \"copy\"\nschedule = \"@monthly\"\nfrom = \"http://{}/media/films\"\n\
         to = \"pulled\"\n",
        source.address
    );
    let server = Setup::default().config(&config).start();
    for files in [1, 0] {
        let pulled = run(&server, "pull");
        assert_eq!((&pulled["outcome"], &pulled["files"]), (&"Succeeded".into(), &files.into()), "{pulled}");
        assert!(server.root.join("pulled/empty/deep").is_dir());
    }
}

#[test]
fn a_pull_that_was_stopped_continues_within_the_file() {
    let source = Server::start();
    let film = pattern(6_000_000);
    source.file("films/long.ts", &film);
    let config = format!(
        r#"
        # A pull at a rate gathers blocks as a recording does; without this nothing of six seconds would be written before its end.
        recordings.durable = "3s"

        [[job]]
        name = "pull"
        kind = "copy"
        schedule = "@monthly"
        from = "http://{}/media/films"
        to = "pulled"
        rate = "8M"
        "#,
        source.address
    );
    let server = Setup::default().config(&config).start();
    let folder = server.root.join("pulled");
    let part = || fs::read_dir(&folder).ok()?.flatten().find(|entry| entry.file_name() != "long.ts");
    assert_eq!(post(&server, "/api/v1/jobs/pull/run").status, 202);
    server.wait_for("a part that is written", |_| {
        part().is_some_and(|part| part.metadata().expect("it is there").len() >= 2 << 20)
    });
    assert_eq!(post(&server, "/api/v1/jobs/pull/stop").status, 202);
    server.wait_for("its end", |server| job(server, "pull")["running"].is_null());
    assert_eq!(server.get("/media/pulled/long.ts").status, 404, "a content has its name when it is whole");
    assert_eq!(server.get("/media/pulled/?format=json").text(), "[]");
    let pulled = run(&server, "pull");
    assert_eq!((&pulled["outcome"], &pulled["files"]), (&"Succeeded".into(), &1.into()), "{pulled}");
    assert!(pulled["bytes"].as_u64() <= Some(6_000_000 - (2 << 20)), "what was there came again: {pulled}");
    assert_eq!(server.get("/media/pulled/long.ts").body, film);
    assert!(part().is_none(), "nothing is left");
}

/// `rclone serve webdav`, which ends with the test.
struct WebDav {
    child: Child,
    url: String,
}

impl WebDav {
    /// None if rclone is not installed.
    fn serve(folder: &Path) -> Option<Self> {
        let mut command = Command::new("rclone");
        command.args(["serve", "webdav", "--config", "/dev/null", "--addr", "127.0.0.1:0"]).arg(folder);
        let Ok(mut child) = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn() else {
            skipped("rclone is not installed (Debian: rclone)");
            return None;
        };
        let said = BufReader::new(child.stderr.take().expect("piped"));
        let mut lines = said.lines().map_while(Result::ok);
        let url = lines
            .find_map(|line| Some(format!("http://{}", line.split_once("http://")?.1.trim_end_matches([']', '/']))));
        let Some(url) = url else {
            let _ = child.kill();
            panic!("rclone does not serve: {:?}", child.wait());
        };
        // Its later output is of no interest, but must be read.
        std::thread::spawn(move || lines.for_each(drop));
        Some(Self { child, url })
    }
}

impl Drop for WebDav {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_folder_is_copied_by_rclone_to_webdav() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let Some(target) = WebDav::serve(folder.path()) else { return };
    let config = "[[job]]\nname = \"copy\"\nkind = \"copy\"\nschedule = \"@monthly\"\nfrom = \"tapes\"\n\
                  to = \"rclone:dav:kept/tapes\"\nrate = \"80M\"\n";
    let server = Setup::default()
        .config(config)
        .environment("RCLONE_CONFIG", "/dev/null")
        .environment("RCLONE_CONFIG_DAV_TYPE", "webdav")
        .environment("RCLONE_CONFIG_DAV_URL", &target.url)
        .start();
    for (name, bytes) in [("one.ts", 3_000_001), ("old/two & three.ts", 700_000), ("empty.ts", 0)] {
        server.file(&format!("tapes/{name}"), &pattern(bytes));
    }
    let copied = run(&server, "copy");
    let told = (&copied["outcome"], &copied["files"], &copied["bytes"]);
    assert_eq!(told, (&"Succeeded".into(), &3.into(), &3_700_001.into()), "{copied}");
    let there = |name: &str| fs::read(folder.path().join("kept/tapes").join(name)).expect("copied");
    assert!(there("one.ts") == pattern(3_000_001) && there("old/two & three.ts") == pattern(700_000));
    server.file("tapes/four.ts", &pattern(10));
    let again = run(&server, "copy");
    assert_eq!((&again["files"], &again["bytes"]), (&1.into(), &10.into()), "only what is new: {again}");
    server.file("tapes/five.ts", &pattern(10));
    drop(target);
    let gone = run(&server, "copy");
    let reason = gone["reason"].as_str().unwrap_or_default();
    assert!(
        gone["outcome"] == "Failed" && reason.contains("rclone cannot list") && reason.contains("refused"),
        "{gone}"
    );
}
