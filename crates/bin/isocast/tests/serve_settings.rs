//! Settings by the API: shown with their sources, changed in force and in the file, with its comments.

use std::fs;

use serde_json::Value;

use crate::common::client::Answer;
use crate::common::server::{Server, Setup};

const FILE: &str =
    "# the office\n[limits]\n# as many as seats\nconnections = 700 # and some\n\n[sessions]\nhold = \"40s\"\n";

fn patch(server: &Server, fields: &str, body: &str) -> Answer {
    let fields = format!("Content-Type: application/json\r\nContent-Length: {}\r\n{fields}", body.len());
    server.ask(&format!("PATCH /api/v1/settings HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n{body}"))
}

/// The settings with this key, and the tag of all.
fn setting(server: &Server, key: &str) -> (Value, String) {
    let answer = server.get("/api/v1/settings");
    assert_eq!(answer.status, 200, "{}", answer.text());
    let tag = answer.field("etag").expect("a tag").to_owned();
    let all = answer.json();
    let found = all.as_array().expect("a list").iter().find(|one| one["key"] == key).cloned();
    (found.unwrap_or_default(), tag)
}

#[test]
fn settings_are_changed_in_force_and_in_the_file() {
    let server = Setup::default().config(FILE).set("access.local_writes=true").set("streams.stall=20s").start();
    let file = || fs::read_to_string(server.config_file()).expect("a file");
    let (limit, tag) = setting(&server, "limits.connections");
    assert_eq!((&limit["value"], &limit["source"], &limit["changeable"]), (&700.into(), &"file".into(), &true.into()));
    assert!(limit["written_at"].as_str().is_some_and(|at| at.ends_with(":4")), "{limit}");
    assert!(limit["default"].as_u64().is_some_and(|default| default > 700), "{limit}");
    let (round, _) = setting(&server, "schedule.round");
    assert_eq!((&round["changeable"], &round["needs_restart"]), (&false.into(), &true.into()));

    let body = r#"{"limits.connections": 800, "path_rates.films/": "2M", "sessions.hold": null}"#;
    let stale = patch(&server, "If-Match: \"0000\"\r\n", body);
    assert_eq!((stale.status, file().as_str()), (412, FILE), "{}", stale.text());
    let changed = patch(&server, &format!("If-Match: {tag}\r\n"), body);
    assert_eq!(changed.status, 200, "{}", changed.text());
    assert_ne!(changed.field("etag"), Some(tag.as_str()));
    let expected = "# the office\n[limits]\n# as many as seats\nconnections = 800 # and some\n\n[sessions]\n\n\
                    [path_rates]\n\"films/\" = \"2M\"\n";
    assert_eq!(file(), expected);
    assert_eq!(setting(&server, "limits.connections").0["value"], 800);
    assert_eq!(setting(&server, "sessions.hold").0["source"], "default");
    assert_eq!(patch(&server, &format!("If-Match: {tag}\r\n"), body).status, 412, "they are others now");
    server.wait_for("the event", |server| server.stderr_text().contains("configuration_reloaded"));

    let kept = file();
    for (body, status, text) in [
        (r#"{"limits.connections": "many"}"#, 400, "limits.connections"),
        (r#"{"limits.connection": 5}"#, 400, "did you mean"),
        (r#"{"limits.connections": {"a": 1}}"#, 400, "a text, a number"),
        (r#"{"limits.connections": [[1]]}"#, 400, "not the document"),
        (r#"{"listen": "127.0.0.1:1"}"#, 409, "is not changed here"),
        (r#"{"users.eve": "$argon2"}"#, 409, "is not changed here"),
        (r#"{"log.events": "/etc/passwd"}"#, 409, "is not changed here"),
        (r#"{"streams.stall": "9s"}"#, 409, "goes before the configuration file"),
    ] {
        let refused = patch(&server, "", body);
        assert!(
            refused.status == status && refused.text().contains(text),
            "{body}: {} {}",
            refused.status,
            refused.text()
        );
    }
    assert_eq!(file(), kept, "what is refused changes nothing");
    assert_eq!(setting(&server, "limits.connections").0["value"], 800);
}

#[test]
fn entries_of_arrays_are_added_changed_and_removed() {
    let file = "# nights\n[[job]]\nname = \"old\" # the first\nkind = \"measure\"\nschedule = \"0 4 1 1 *\"\n\n\
                [[job]]\nname = \"mine\"\nkind = \"command\"\nschedule = \"0 4 1 1 *\"\ncommand = [\"/bin/true\"]\n";
    let server = Setup::default().config(file).set("access.local_writes=true").start();
    let text = || fs::read_to_string(server.config_file()).expect("a file");
    let names = |list: &str, member: &str| -> Vec<String> {
        let all = server.json(list);
        all.as_array().expect("a list").iter().filter_map(|one| Some(one[member].as_str()?.to_owned())).collect()
    };
    let (job, _) = setting(&server, "job.old");
    assert_eq!(
        (&job["changeable"], &job["source"], &job["value"]["kind"]),
        (&true.into(), &"file".into(), &"measure".into())
    );
    assert!(job["written_at"].as_str().is_some_and(|at| at.ends_with(":2")), "{job}");
    assert_eq!(setting(&server, "job.mine").0["changeable"], false);

    let added = r#"{"job.old": {"name": "old", "kind": "measure", "schedule": "@monthly"},
                    "job.tidy": {"name": "tidy", "kind": "keep", "schedule": "@daily", "folder": "x", "max_age": "30d"},
                    "quota.x": {"folder": "x", "max_size": "500GB"}, "budget.address": {"of": "address", "streams": 9}}"#;
    let answer = patch(&server, "", added);
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(
        text().starts_with(
            "# nights\n[[job]]\nname = \"old\" # the first\nkind = \"measure\"\nschedule = \"@monthly\"\n"
        ),
        "{}",
        text()
    );
    assert_eq!(names("/api/v1/jobs", "name"), ["old", "mine", "tidy"]);
    assert_eq!(
        (names("/api/v1/quotas", "folder"), setting(&server, "quota.x").0["value"]["max_size"].clone()),
        (vec!["x".to_owned()], "500GB".into())
    );

    let kept = text();
    for (body, status, part) in [
        (
            r#"{"job.tidy": {"name": "tidy", "kind": "keep", "schedule": "61 * * * *", "folder": "x", "max_age": "1d"}}"#,
            400,
            "is no minute",
        ),
        (r#"{"job.tidy": {"name": "old", "kind": "measure", "schedule": "@daily"}}"#, 400, "the name of two"),
        (r#"{"job.new": {"name": "other", "kind": "measure", "schedule": "@daily"}}"#, 400, "`new` there"),
        (r#"{"job.new": "daily"}"#, 400, "an object"),
        (r#"{"quota.x": {"folder": "x", "max_size": {"of": "1"}}}"#, 400, "a text, a number"),
        (
            r#"{"job.new": {"name": "new", "kind": "command", "schedule": "@daily", "command": ["/bin/true"]}}"#,
            409,
            "not changed here",
        ),
        (
            r#"{"job.new": {"name": "new", "kind": "copy", "schedule": "@daily", "from": "x", "to": "rclone:s3:x"}}"#,
            409,
            "not changed here",
        ),
        (
            r#"{"job.new": {"name": "new", "kind": "copy", "schedule": "@daily", "from": "x", "to": "http://h:1/media/x", "login": "/etc/shadow"}}"#,
            409,
            "not changed here",
        ),
        (r#"{"job.mine": {"name": "mine", "kind": "measure", "schedule": "@daily"}}"#, 409, "not changed here"),
        (r#"{"job.mine": null}"#, 409, "not changed here"),
    ] {
        let refused = patch(&server, "", body);
        assert!(
            refused.status == status && refused.text().contains(part),
            "{body}: {} {}",
            refused.status,
            refused.text()
        );
    }
    assert_eq!(text(), kept, "what is refused changes nothing");

    // A folder of digits, by its name and as a number of the file.
    let quota = |folder: &str| format!(r#"{{"quota.{folder}": {{"folder": "{folder}", "max_size": "1GB"}}}}"#);
    assert_eq!((patch(&server, "", &quota("2026")).status, patch(&server, "", &quota("0012")).status), (200, 200));
    assert_eq!(names("/api/v1/quotas", "folder"), ["x", "2026", "0012"]);
    let as_number = text().replace("folder = \"2026\"", "folder = 2026");
    assert_ne!(as_number, text());
    fs::write(server.config_file(), as_number).expect("it is written");
    assert_eq!(patch(&server, "", r#"{"quota.2026": null, "quota.0012": null}"#).status, 200);
    assert_eq!((names("/api/v1/quotas", "folder"), text()), (vec!["x".to_owned()], kept.clone()));

    assert_eq!(patch(&server, "", r#"{"job.tidy": null, "quota.x": null, "budget.address": null}"#).status, 200);
    assert_eq!(
        (names("/api/v1/jobs", "name"), names("/api/v1/quotas", "folder")),
        (vec!["old".to_owned(), "mine".to_owned()], vec![])
    );
    assert_eq!(text(), file.replace("0 4 1 1 *\"\n\n", "@monthly\"\n\n"));
}

#[test]
fn a_change_refused_for_a_certificate_leaves_the_webhooks() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let secret = folder.path().join("secret");
    fs::write(&secret, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("written");
    let tls = "[tls]\nlisten = \"127.0.0.1:0\"\nself_signed = true\n";
    let server = Setup::default().config(tls).set("access.local_writes=true").start();
    // The operator's next change, which is not in force yet.
    let missing =
        tls.replace("self_signed = true", "certificate = \"/nonexistent/a.pem\"\nkey = \"/nonexistent/a.key\"");
    fs::write(server.config_file(), &missing).expect("written");
    let hook = serde_json::json!({"webhook.chat": {
        "name": "chat", "events": ["job_failed"], "url": "http://127.0.0.1:1/", "secret": secret,
    }});
    let refused = patch(&server, "", &hook.to_string());
    assert!(refused.status == 400 && refused.text().contains("/nonexistent"), "{} {}", refused.status, refused.text());
    assert_eq!(server.json("/api/v1/webhooks"), serde_json::json!([]));
    assert_eq!(fs::read_to_string(server.config_file()).expect("a file"), missing);
    fs::write(server.config_file(), tls).expect("written");
    assert_eq!(patch(&server, "", &hook.to_string()).status, 200);
    assert_eq!(server.json("/api/v1/webhooks")[0]["name"], "chat");
}

#[test]
fn without_a_file_settings_are_shown() {
    let server = Setup::default().set("access.local_writes=true").start();
    let (limit, _) = setting(&server, "limits.connections");
    assert_eq!((&limit["source"], &limit["changeable"]), (&"default".into(), &false.into()));
    let refused = patch(&server, "", r#"{"limits.connections": 800}"#);
    assert!(refused.status == 409 && refused.text().contains("--config"), "{}", refused.text());
}
