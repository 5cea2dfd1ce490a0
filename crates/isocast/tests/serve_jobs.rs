//! Jobs and webhooks of the real program: what is done at a time or when somebody asks, and who is told.

mod fixtures;

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;

use fixtures::{Answer, PATIENCE, Server, Setup, pattern};
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
fn a_job_runs_at_its_time_and_when_asked_for_and_is_stopped() {
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
    assert!(server.metric("isocast_job_runs_total{job=\"often\",outcome=\"succeeded\"}") >= 1.0);
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
fn a_folder_is_kept_small_and_copied_to_another_server() {
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
        name = "copy-to-nobody"
        kind = "copy"
        schedule = "@monthly"
        from = "tapes"
        to = "http://127.0.0.1:1/media/archive"
        "#,
        other.address
    );
    let server = Setup::default().config(&config).start();
    for folder in [server.root.join("tapes"), other.root.join("archive")] {
        fs::create_dir(folder).expect("made");
    }
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
    let refused = run(&server, "copy-to-nobody");
    assert_eq!(refused["outcome"], "Failed");
    assert!(refused["reason"].as_str().is_some_and(|reason| reason.contains("127.0.0.1:1")), "{refused}");
}

/// Reads one request and answers it.
fn take(mut connection: TcpStream, status: &str) -> String {
    connection.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let (mut request, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let count = connection.read(&mut buffer).expect("a request");
        request.extend(&buffer[..count]);
        let text = String::from_utf8_lossy(&request).into_owned();
        if count == 0 || text.split_once("\r\n\r\n").is_some_and(|(_, body)| body.ends_with('}')) {
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            connection.write_all(answer.as_bytes()).expect("an answer");
            return text;
        }
    }
}

#[test]
fn a_webhook_is_told_signed_and_again_until_it_takes_it_and_one_that_hangs_holds_up_nobody() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let (secret, told) = (folder.path().join("secret"), folder.path().join("told"));
    fs::write(&secret, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("written");
    let [target, hanging] = [0, 1].map(|_| TcpListener::bind("127.0.0.1:0").expect("a port"));
    let [at, hanging_at] = [&target, &hanging].map(|listener| listener.local_addr().expect("an address"));
    let config = format!(
        r#"
        [[webhook]]
        name = "hangs"
        events = ["upload_ended"]
        url = "http://{hanging_at}/"
        secret = "{secret}"
        timeout = "200ms"
        [[webhook]]
        name = "takes"
        events = ["upload_ended"]
        url = "http://{at}/hook"
        secret = "{secret}"
        [[webhook]]
        name = "program"
        events = ["upload_ended"]
        command = ["/bin/sh", "-c", "cat >>{told}"]
        "#,
        secret = secret.display(),
        told = told.display(),
    );
    let server = Setup::default().config(&config).start();
    let (tell, requests) = mpsc::channel();
    std::thread::spawn(move || {
        for (connection, status) in target.incoming().zip(["503 Service Unavailable", "204 No Content"]) {
            let _ = tell.send(take(connection.expect("a connection"), status));
        }
    });
    assert_eq!(server.put("/media/film.ts", "", b"film").status, 201);
    let [first, second] = [0, 1].map(|_| requests.recv_timeout(PATIENCE).expect("a request"));
    let field = |request: &str, name: &str| {
        let line = request.lines().find(|line| line.starts_with(&format!("{name}: ")));
        line.unwrap_or_else(|| panic!("no {name} in {request}")).to_owned()
    };
    assert!(first.starts_with("POST /hook HTTP/1.1\r\n") && first.contains("film.ts"), "{first}");
    assert!(field(&first, "webhook-signature").starts_with("webhook-signature: v1,"));
    assert_eq!(field(&first, "webhook-id"), field(&second, "webhook-id"), "the same event");
    server.wait_for("delivery", |server| {
        server.metric("isocast_webhook_events_total{webhook=\"takes\",outcome=\"delivered\"}") == 1.0
    });
    server.wait_for("the program", |_| fs::read_to_string(&told).is_ok_and(|told| told.contains("film.ts")));
    server.wait_for("a retry", |server| server.metric("isocast_webhook_retries_total{webhook=\"hangs\"}") >= 1.0);
    assert_eq!(server.metric("isocast_webhook_waiting{webhook=\"hangs\"}"), 1.0);
}
