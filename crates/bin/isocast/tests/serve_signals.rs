//! Signals to the real program: SIGHUP reloads, SIGTERM drains, a second one ends at once; and the notifications to systemd.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

use crate::common::client::{Client, pattern};
use crate::common::server::{Server, Setup};
use rustix::process::Signal;

/// Writes a configuration with the event log where `Server::events` looks: next to the file itself.
fn written(server: &Server, text: &str) {
    let events = server.folders.path().join("events.jsonl");
    fs::write(server.config_file(), format!("{text}\n[log]\nevents = {events:?}\n")).expect("a configuration");
}

fn with_config(text: &str) -> Server {
    let server = Setup::default().config(text).start();
    written(&server, text);
    server.signal(Signal::HUP);
    server.wait_event(&["configuration_reloaded"]);
    server
}

#[test]
fn a_hang_up_puts_new_settings_in_force_and_names_the_others() {
    let server = with_config("");
    server.file("a.ts", &pattern(3000));
    assert_eq!(server.get("/media/a.ts").field("x-isocast-rate"), None);
    written(&server, "[path_rates]\n\"a\" = \"2M\"\n[schedule]\nround = \"500ms\"\n[limits]\nupload_size = \"1KiB\"");
    server.signal(Signal::HUP);
    let event = server.wait_event(&["configuration_reloaded", "path_rates.a", "limits.upload_size", "schedule.round"]);
    let event: serde_json::Value = serde_json::from_str(&event).expect("JSON");
    assert_eq!(event["restart_needed"], serde_json::json!(["schedule.round"]));
    assert!(event["time"].is_f64());
    server.wait_stderr_line("these changes need a restart: schedule.round");
    let answer = server.get("/media/a.ts");
    assert_eq!((answer.field("x-isocast-rate"), answer.body == pattern(3000)), (Some("2000000"), true));
    assert_eq!(server.put("/media/b.ts", "", &pattern(2000)).status, 413);
}

#[test]
fn events_that_wait_for_a_webhook_that_is_removed_are_noted_as_failed() {
    let server = with_config("[[webhook]]\nname = \"chat\"\nevents = [\"upload_ended\"]\ncommand = [\"/bin/false\"]\n");
    assert_eq!(server.put("/media/film.ts", "", b"film").status, 201);
    server.wait_for("an event that waits", |server| server.metric("isocast_webhook_waiting{webhook=\"chat\"}") == 1.0);
    written(&server, "");
    server.signal(Signal::HUP);
    server.wait_event(&["webhook_failed", "chat", "upload_ended", "no webhook of this name is configured any more"]);
}

#[test]
fn a_link_and_the_patience_with_clients_change_without_a_restart() {
    let server = with_config("");
    server.file("film.ts", &pattern(8_000_000));
    let status = |server: &Server, rate: &str| {
        let mut client = server.connect();
        client.get(&format!("/media/film.ts?rate={rate}"));
        client.head().status
    };
    assert_eq!(status(&server, "6M"), 200);
    // As a part of its own, next to the file.
    let parts = server.folders.path().join("conf.d");
    fs::create_dir(&parts).expect("a folder");
    fs::write(parts.join("10-narrow.toml"), "[links]\nlo = \"5M\"\n[streams]\nstall = \"1s\"\n").expect("a part");
    server.signal(Signal::HUP);
    let event = server.wait_event(&["configuration_reloaded", "links.lo", "streams.stall"]);
    assert!(event.contains("\"restart_needed\":[]"), "{event}");
    // The command is on its way to the plane when the event is written.
    server.wait_for("the narrow link", |server| status(server, "6M") == 503);
    let mut stalled = server.connect();
    server.wait_for("room on it", |server| {
        stalled = server.connect();
        stalled.get("/media/film.ts?rate=2M");
        stalled.head().status == 200
    });
    server.wait_event(&["stream_ended", "ClientStalled"]);
}

#[test]
fn a_wrong_configuration_changes_nothing_and_names_errors() {
    let server = with_config("[limits]\nupload_size = \"1KiB\"");
    written(&server, "[limits]\nupload_size = \"5\"\nfoo = 1");
    server.signal(Signal::HUP);
    let event = server.wait_event(&["configuration_refused"]);
    assert!(
        event.contains("limits.upload_size") && event.contains("has no unit") && event.contains("limits.foo"),
        "{event}"
    );
    server.wait_stderr_line("the configuration in force stays");
    assert_eq!(server.put("/media/b.ts", "", &pattern(2000)).status, 413, "the old limit");
    fs::remove_file(server.config_file()).expect("removed");
    server.signal(Signal::HUP);
    server.wait_event(&["configuration_refused", "cannot read"]);
    assert_eq!(server.get("/ready").status, 200);
}

#[test]
fn a_closed_server_stays_closed_when_its_file_is_emptied() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let closed = format!("roots = [{:?}]\n[access]\nanonymous = \"none\"\n", folder.path());
    let server = Setup::default().root(folder.path()).config(&closed).start();
    let file = server.config_file();
    server.file("a.ts", &pattern(3000));
    assert_eq!(server.get("/media/a.ts").status, 403);
    for (times, text) in [(1, ""), (2, "[access]\nanonymous = \"read\"\n")] {
        fs::write(&file, text).expect("a configuration");
        server.signal(Signal::HUP);
        let refused = |server: &Server| server.stderr_text().matches("\"configuration_refused\"").count();
        server.wait_for("a refusal", |server| refused(server) == times);
        assert!(server.stderr_text().contains("roots: no folder is named"), "{}", server.stderr_text());
        assert_eq!(server.get("/media/a.ts").status, 403, "{text}");
    }
    fs::write(&file, closed).expect("a configuration");
    server.signal(Signal::HUP);
    server.wait_stderr_line("configuration read again, 0 settings changed");
}

#[test]
fn an_emptied_file_changes_nothing_with_a_folder_on_the_command_line() {
    let closed = "[limits]\nupload_size = \"1KiB\"\n";
    let server = Setup::default().config(closed).start();
    let file = server.config_file();
    let part = server.folders.path().join("conf.d/10-part.toml");
    fs::create_dir(part.parent().expect("a folder")).expect("a folder");
    let put = || server.put("/media/a.ts", "", &pattern(2000)).status;
    let reloads = |server: &Server, event: &str| server.stderr_text().matches(&format!("\"{event}\"")).count();
    let mut refused = 0;
    for (text, part_text) in [("", ""), ("# [limits]\n[limits]\n", ""), ("", "limits.connections = 99\n")] {
        fs::write(&file, text).and_then(|()| fs::write(&part, part_text)).expect("a configuration");
        server.signal(Signal::HUP);
        refused += 1;
        server.wait_for("a refusal", |server| reloads(server, "configuration_refused") == refused);
        let said = format!("{} held settings and is empty of them now", file.display());
        assert!(server.stderr_text().contains(&said), "{}", server.stderr_text());
        assert_eq!(put(), 413, "{text:?}");
    }
    // Settings may go, as far as the file still has one, and a part that is removed.
    let rest = "[streams]\nstall = \"9s\"\n";
    for (number, (text, is_there)) in [(closed, true), (closed, false), (rest, false)].into_iter().enumerate() {
        fs::write(&file, text).expect("a configuration");
        if !is_there {
            let _ = fs::remove_file(&part);
        }
        server.signal(Signal::HUP);
        server.wait_for("a reload", |server| reloads(server, "configuration_reloaded") == number + 1);
    }
    assert_eq!(put(), 201);
    assert_eq!(reloads(&server, "configuration_refused"), refused);
}

#[test]
fn a_refused_configuration_is_an_alarm_until_one_is_in_force() {
    let server = with_config("");
    let successful = |server: &Server| server.metric("isocast_config_last_reload_successful");
    let since = |server: &Server| server.metric("isocast_config_last_reload_success_timestamp_seconds");
    let read = since(&server);
    assert_eq!((successful(&server), server.json("/api/v1/alarms")), (1.0, serde_json::json!([])));
    let parts = server.folders.path().join("conf.d");
    fs::create_dir(&parts).expect("a folder");
    fs::write(parts.join("10-limits.toml"), "[limits]\ndrain = \"5\"\n").expect("a part");
    server.signal(Signal::HUP);
    server.wait_for("the alarm", |server| successful(server) == 0.0);
    let alarms = server.json("/api/v1/alarms");
    let (alarm, said) = (&alarms[0], alarms[0]["text"].as_str().unwrap_or_default());
    assert_eq!((&alarm["kind"], &alarm["severity"]), (&"configuration_refused".into(), &"serious".into()), "{alarms}");
    assert!(said.contains("10-limits.toml:2: limits.drain: `5` has no unit") && !said.contains('\n'), "{said}");
    let ready = server.get("/ready").text();
    assert!(ready.contains("alarm: configuration: ") && ready.contains("limits.drain"), "{ready}");
    let remedy = alarm["remedy"].as_str().unwrap_or_default();
    assert!(remedy.starts_with("isocast config check ") && ready.contains(remedy), "{alarm}: {ready}");
    assert_eq!((server.metric("isocast_alarms{severity=\"serious\"}"), since(&server)), (1.0, read));
    fs::remove_file(parts.join("10-limits.toml")).expect("removed");
    server.signal(Signal::HUP);
    server.wait_for("its end", |server| successful(server) == 1.0);
    assert_eq!(server.json("/api/v1/alarms"), serde_json::json!([]));
    assert!(since(&server) > read);
}

#[test]
fn rotated_logs_are_opened_anew_and_a_running_stream_continues() {
    let server = with_config("");
    let log = server.folders.path().join("events.jsonl");
    // More than the kernel's buffers hold: it cannot end before it is read on.
    let film = pattern(2_000_000);
    server.file("film.ts", &film);
    let mut viewer = server.connect();
    viewer.get("/media/film.ts?rate=4M");
    assert_eq!(viewer.head().status, 200);
    fs::rename(&log, log.with_extension("1")).expect("rotated");
    server.signal(Signal::HUP);
    server.wait_event(&["configuration_reloaded"]);
    assert!(viewer.take(film.len()) == film, "not a byte is missing");
    server.wait_event(&["stream_ended", "film.ts", "Complete"]);
    let old = fs::read_to_string(log.with_extension("1")).expect("the rotated log");
    assert!(!old.contains("stream_ended"), "{old}");
}

#[test]
fn with_nothing_running_it_ends_by_itself() {
    let mut server = Setup::default().set("limits.drain=1h").start();
    let mut idle = server.connect();
    idle.get("/media/none");
    assert_eq!(idle.answer(true).status, 404);
    server.signal(Signal::TERM);
    // An hour is the time for running requests; an idle connection has none.
    assert!(idle.is_closed());
    assert_eq!(server.ended().code(), Some(0));
}

#[test]
fn a_drain_lets_the_running_finish_and_refuses_the_new() {
    let mut server = Setup::default().set("limits.drain=1h").start();
    // More than the kernel's buffers hold: it runs until it is read.
    let film = pattern(2_500_000);
    server.file("film.ts", &film);
    let mut viewer = server.connect();
    viewer.get("/media/film.ts?rate=4M");
    assert_eq!(viewer.head().status, 200);
    server.signal(Signal::TERM);
    server.wait_for("the drain", |server| server.drains());
    let refused = server.get("/media/film.ts?rate=4M");
    assert_eq!((refused.status, refused.field("retry-after").is_some()), (503, true), "{}", refused.text());
    assert_eq!(refused.json()["resource"], "draining");
    assert_eq!(server.put("/media/new.ts", "", b"x").status, 503);
    assert!(viewer.take(film.len()) == film, "the running stream gets every byte");
    assert!(viewer.is_closed());
    assert_eq!(server.ended().code(), Some(0));
    assert_eq!(server.names(), ["film.ts"]);
}

#[test]
fn a_drain_ends_at_its_limit() {
    let mut server = Setup::default().set("limits.drain=100ms").start();
    let film = pattern(8_000_000);
    server.file("film.ts", &film);
    let mut viewer = server.connect();
    viewer.get("/media/film.ts?rate=500k");
    assert_eq!(viewer.head().status, 200);
    server.signal(Signal::TERM);
    let taken = viewer.take(film.len());
    assert!(taken.len() < film.len() && film.starts_with(&taken), "what came is right");
    assert_eq!(server.ended().code(), Some(0));
    server.wait_event(&["stream_ended", "Stopped"]);
}

#[test]
fn a_second_signal_ends_it_at_once() {
    for signals in [[Signal::TERM, Signal::TERM], [Signal::INT, Signal::INT], [Signal::TERM, Signal::INT]] {
        let mut server = Setup::default().set("limits.drain=1h").start();
        server.file("film.ts", &pattern(8_000_000));
        let mut viewer = server.connect();
        viewer.get("/media/film.ts?rate=500k");
        assert_eq!(viewer.head().status, 200);
        server.signal(signals[0]);
        server.wait_stderr_line("stopping");
        assert!(server.is_running());
        server.signal(signals[1]);
        assert_eq!(server.ended().code(), Some(0));
    }
}

/// A recording continues until the server ends; the bytes received are there before the program is gone.
#[test]
fn a_recording_that_the_end_breaks_off_has_its_name_before_the_program_is_gone() {
    for signals in [&[Signal::TERM][..], &[Signal::TERM, Signal::TERM]] {
        let drain = if signals.len() == 1 { "100ms" } else { "1h" };
        let mut server = Setup::default().set(&format!("limits.drain={drain}")).start();
        server.file("old.ts", b"old");
        let body = pattern(1_500_000);
        let mut clients: Vec<Client> = ["talk.ts?rate=8M", "gone.ts?rate=8M&on_break=discard", "old.ts", "new.ts"]
            .into_iter()
            .map(|target| {
                let mut client = server.connect();
                let head =
                    format!("PUT /media/{target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000000\r\n\r\n");
                client.send(head.as_bytes());
                client.send(&body);
                client
            })
            .collect();
        server.wait_for("all of it", |server| server.metric("isocast_upload_bytes_total") >= 6_000_000.0);
        for signal in signals {
            server.signal(*signal);
            server.wait_stderr_line("stopping");
        }
        assert_eq!(server.ended().code(), Some(0));
        assert_eq!(server.names(), ["old.ts", "talk.ts"], "what is not whole left nothing, but for the recording");
        assert!(fs::read(server.root.join("talk.ts")).expect("the file") == body);
        assert_eq!(fs::read(server.root.join("old.ts")).expect("the file"), b"old");
        server.wait_event(&["recording_kept", "talk.ts", "1500000", "\"after_restart\":false"]);
        for client in &mut clients {
            let answer = client.answer(true);
            assert_eq!((answer.status, answer.json()["resource"].as_str()), (503, Some("draining")));
        }
    }
}

#[test]
fn the_service_manager_gets_each_state() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("notify");
    let manager = UnixDatagram::bind(&path).expect("a socket");
    manager.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    let told = || {
        let mut bytes = [0; 4096];
        let length = manager.recv(&mut bytes).expect("something is told");
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    };
    let mut server = Setup::default().environment("NOTIFY_SOCKET", path_text(&path)).start();
    assert!(told().contains("READY=1"));
    server.signal(Signal::HUP);
    let reloading = told();
    assert!(reloading.contains("RELOADING=1") && reloading.contains("MONOTONIC_USEC="), "{reloading}");
    assert!(told().contains("READY=1"));
    server.signal(Signal::TERM);
    assert!(told().contains("STOPPING=1"));
    assert_eq!(server.ended().code(), Some(0));
}

fn path_text(path: &Path) -> &str {
    path.to_str().expect("text")
}
