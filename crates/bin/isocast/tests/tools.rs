//! Real tools around the real program: nginx in front of it as a plain reverse proxy, promtool on its metrics.

use std::fs;
use std::io::Write as _;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::client::{Answer, Client, pattern};
use crate::common::server::{Server, Setup};
use crate::common::skip::skipped;
use crate::common::{PATIENCE, free_address};
use tempfile::TempDir;

/// Debian has them where only root looks.
const PATHS: &str = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin";

fn tool(name: &str) -> Option<Command> {
    let place = PATHS.split(':').map(|folder| format!("{folder}/{name}")).find(|path| fs::metadata(path).is_ok());
    if place.is_none() {
        skipped(&format!("{name} is not installed"));
    }
    place.map(Command::new)
}

/// nginx as people put it in front of a server on the same machine. Dropped, it ends.
struct Proxy {
    child: Child,
    address: SocketAddr,
    _folder: TempDir,
}

impl Proxy {
    /// With `more` lines in its `server` block; nothing if nginx is not there.
    fn before(server: &Server, more: &str) -> Option<Self> {
        let mut nginx = tool("nginx")?;
        let folder = tempfile::tempdir().expect("a folder");
        let address = free_address();
        let place = folder.path().display();
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("{kind}_temp_path {place}/{kind};"))
            .concat();
        let text = format!(
            "daemon off; master_process off; pid {place}/pid; error_log stderr; events {{}} http {{ access_log off; {temporary} \
             server {{ listen {address}; client_max_body_size 0; proxy_request_buffering off; proxy_http_version 1.1; {more} \
             location / {{ proxy_pass http://{}; }} }} }}",
            server.address
        );
        let config = folder.path().join("nginx.conf");
        fs::write(&config, text).expect("written");
        let child = nginx.arg("-c").arg(&config).stderr(Stdio::null()).spawn().expect("nginx starts");
        let proxy = Self { child, address, _folder: folder };
        let deadline = Instant::now() + PATIENCE;
        while std::net::TcpStream::connect(address).is_err() {
            assert!(Instant::now() < deadline, "nginx does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(proxy)
    }

    /// A large upload, as a client sends it that waits for no answer first.
    fn put(&self, target: &str) -> Answer {
        let mut client = Client::to(self.address);
        let body = pattern(8_000_000);
        client
            .send(format!("PUT {target} HTTP/1.1\r\nHost: proxy\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes());
        // A proxy may take no more of it once it has an answer.
        let _ = client.stream.write_all(&body);
        client.answer(true)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_plain_proxy_passes_the_pace_of_a_read() {
    const BYTES: usize = 2_000_000;
    let server = Server::start();
    server.file("film.ts", &pattern(BYTES));
    let Some(proxy) = Proxy::before(&server, "") else { return };
    let begun = Instant::now();
    let mut client = Client::to(proxy.address);
    client.get("/media/film.ts?rate=8M&burst=0");
    let answer = client.answer(true);
    assert_eq!((answer.status, answer.body.len()), (200, BYTES));
    // Two seconds at its rate: no pace could be quicker, and none would take a quarter of that.
    assert!(begun.elapsed() > Duration::from_secs(1), "{:?}", begun.elapsed());
}

#[test]
fn a_proxied_upload_is_refused_as_of_unknown_origin() {
    let server = Setup::default().set("limits.upload_size=1M").start();
    let Some(proxy) = Proxy::before(&server, "proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;") else {
        return;
    };
    assert_eq!(proxy.put("/media/new.ts").status, 403, "nobody knows where it comes from");
    let Some(proxy) = Proxy::before(&server, "") else { return };
    assert_eq!(
        proxy.put("/media/new.ts").status,
        413,
        "a proxy that says for nobody that it speaks is a program of this machine"
    );
    assert_eq!(server.names(), Vec::<String>::new());
}

#[test]
fn folders_with_odd_names_have_a_series_each() {
    let folders = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let roots = ["a\"b", "a\\b", "ab"].map(|name| folders.path().join(name));
    roots.iter().for_each(|root| fs::create_dir(root).expect("made"));
    let all: Vec<&std::path::Path> = roots.iter().map(std::path::PathBuf::as_path).collect();
    let server = Setup::on(&all, &folders.path().join("state"), &[]).start();
    for name in ["a\\\"b", "a\\\\b", "ab"] {
        let label = format!("folder=\"{}/{name}\"", folders.path().display());
        assert_eq!(server.metric(&format!("isocast_folder_away{{{label}}}")), 0.0, "{label}");
    }
}

#[test]
fn prometheus_finds_nothing_wrong_with_the_metrics() {
    let server = Server::start();
    server.file("film.ts", &pattern(100_000));
    assert_eq!(server.get("/media/film.ts?rate=80M").status, 200);
    let Some(mut promtool) = tool("promtool") else { return };
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = promtool.spawn().expect("promtool starts");
    let metrics = server.get("/metrics").body;
    child.stdin.take().expect("piped").write_all(&metrics).expect("taken");
    let output = child.wait_with_output().expect("ended");
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.is_empty(), "{said}");
}

#[test]
fn the_alerts_and_the_dashboard_read_existing_figures() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let reference = std::fs::read_to_string(root.join("docs/reference/metrics.md")).expect("the reference");
    let rules = root.join("packaging/prometheus-rules.yml");
    for file in [rules.clone(), root.join("packaging/grafana-dashboard.json")] {
        let text = std::fs::read_to_string(&file).expect("a file");
        let words = text.split(|letter: char| !letter.is_ascii_lowercase() && letter != '_');
        let names: std::collections::BTreeSet<_> = words.filter(|word| word.starts_with("isocast_")).collect();
        assert!(names.len() > 5, "{}: {names:?}", file.display());
        for name in names {
            assert!(reference.contains(&format!("`{name}`")), "{}: {name}", file.display());
        }
    }
    let Some(mut promtool) = tool("promtool") else { return };
    let output = promtool.args(["check", "rules"]).arg(&rules).output().expect("promtool starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Tests the alert rules by promtool: with these series, this alert is to be as expected.
fn test_rules(series: &str, (alert, at): (&str, &str), expected: &str) {
    let Some(mut promtool) = tool("promtool") else { return };
    let rules = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../packaging/prometheus-rules.yml");
    let test = format!(
        "rule_files: ['{}']\ntests:\n  - interval: 1m\n    input_series:\n{series}    alert_rule_test:\n      \
         - alertname: {alert}\n        eval_time: {at}\n        exp_alerts:\n{expected}",
        rules.display(),
    );
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("test.yml");
    fs::write(&file, test).expect("written");
    let output = promtool.args(["test", "rules"]).arg(&file).output().expect("promtool starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// Labels as Prometheus has them after a scrape, where `job` names the scrape.
#[test]
fn the_alert_of_a_late_job_names_it_and_spares_a_weekly_job_in_time() {
    let series = |series: &str, name: &str, value: u64| {
        format!(
            "      - {{ series: 'isocast_job_{series}{{instance=\"a\",job=\"isocast\",name=\"{name}\"}}', values: '{value}x20000' }}\n"
        )
    };
    let (day, week) = (86_400, 7 * 86_400);
    let all = [
        series("due_timestamp_seconds", "nightly", day),
        series("due_timestamp_seconds", "weekly", week),
        series("running", "nightly", 0),
        series("due_timestamp_seconds", "runs", day),
        series("running", "runs", 1),
    ];
    test_rules(
        &all.concat(),
        ("IsocastJobLate", "3d"),
        "          - exp_labels: { instance: a, job: isocast, name: nightly, severity: warning }\n            \
         exp_annotations: { summary: 'job nightly has not succeeded since it was due 2d 0h 0m 0s ago' }\n",
    );
}

#[test]
fn the_alert_of_a_scrub_names_a_volume_that_never_had_one() {
    let series = |name: &str, volume: &str| {
        format!("      - {{ series: '{name}{{instance=\"a\",volume=\"{volume}\"}}', values: '1x20000' }}\n")
    };
    let all = [
        series("isocast_volume_contents", "films"),
        series("isocast_volume_contents", "tapes"),
        series("isocast_volume_last_scrub_timestamp_seconds", "tapes"),
    ];
    test_rules(
        &all.concat(),
        ("IsocastVolumeNeverScrubbed", "8d"),
        "          - exp_labels: { instance: a, volume: films, severity: warning }\n            \
         exp_annotations: { summary: 'volume films was never scrubbed: isocast volume scrub reads every copy' }\n",
    );
}

#[test]
fn the_alert_of_a_refused_configuration_lasts_until_one_is_in_force() {
    // Server `a` is mended after ten minutes, `b` is not.
    let series = |instance: &str, values: &str| {
        format!(
            "      - {{ series: 'isocast_config_last_reload_successful{{instance=\"{instance}\"}}', values: '{values}' }}\n"
        )
    };
    let all = series("a", "0x10 1x20") + &series("b", "0x30");
    let alert = |instance: &str| {
        format!(
            "          - exp_labels: {{ instance: {instance}, severity: critical }}\n            exp_annotations: {{ summary: \
             '{instance} refused its configuration: no change in it is in force, and the next start fails' }}\n"
        )
    };
    test_rules(&all, ("IsocastConfigRefused", "5m"), &(alert("a") + &alert("b")));
    test_rules(&all, ("IsocastConfigRefused", "15m"), &alert("b"));
}
