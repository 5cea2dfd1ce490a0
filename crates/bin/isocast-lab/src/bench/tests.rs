//! The whole benchmark, tiny, against a server of a few threads: that it cannot rot. The tests assert bytes and streams
//! delivered, refused and broken, never how fast: other programs share the machine. They may even leave no time for the
//! event in question, so a run in which it did not come is made again, twice as long: see [`longer`].

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use units::{BitRate, Nanos};

use super::client::crowd::{self, Crowd};
use super::client::habits::{HabitFigures, ViewerHabits};
use super::client::{
    self, ClientLateness, ClientPlan, ClientReport, RunProgress, StreamFate, StreamResult, ViewerTerms,
};
use super::experiment::{self, RunRequest, Writers};
use super::server::{Choice, RunningServer, ServerGround};
use super::summary::Run;
use super::{Stop, clock};

const RATE: BitRate = BitRate(2_000_000);
const TICK: Nanos = Nanos::from_millis(20);
const LONG_BYTES: u64 = 100_000_000;
const SHORT_BYTES: u64 = 40_000;

/// Paces bytes by a thread per connection. The name of a content selects its behaviour.
struct PacingServer {
    address: SocketAddr,
    over: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

impl PacingServer {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, over) = (listener.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
        let flag = Arc::clone(&over);
        let accepting = thread::spawn(move || {
            let mut connections = Vec::new();
            while let Ok((socket, _)) = listener.accept() {
                if flag.load(Ordering::Relaxed) {
                    break;
                }
                let flag = Arc::clone(&flag);
                connections.push(thread::spawn(move || {
                    // A client that went away ends its connection; that is how a run ends.
                    let _ = converse(socket, &flag);
                }));
            }
            for connection in connections {
                connection.join().unwrap();
            }
        });
        Self { address, over, accepting: Some(accepting) }
    }
}

impl Drop for PacingServer {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // Wakes the accepting thread.
        let _ = TcpStream::connect(self.address);
        if let Some(accepting) = self.accepting.take() {
            accepting.join().unwrap();
        }
    }
}

fn converse(mut socket: TcpStream, over: &AtomicBool) -> std::io::Result<()> {
    socket.set_read_timeout(Some(std::time::Duration::from_secs(10)))?;
    while let Some(head) = read_head(&mut socket)? {
        let (method, path) = head.split_once(' ').unwrap_or_default();
        if method == "PUT" {
            let length = head.split("Content-Length: ").nth(1).and_then(|l| l.lines().next()?.parse().ok());
            std::io::copy(&mut (&mut socket).take(length.unwrap_or(0)), &mut std::io::sink())?;
            socket.write_all(b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")?;
        } else if method == "DELETE" {
            socket.write_all(b"HTTP/1.1 204 No Content\r\n\r\n")?;
        } else if path.contains("refuse") || path.contains("once") && path.contains("Range: bytes=") {
            let body = r#"{"title":"no room","grantable_bps":1500000}"#;
            let length = body.len();
            write!(socket, "HTTP/1.1 503 Service Unavailable\r\nContent-Length: {length}\r\n\r\n{body}")?;
        } else if path.starts_with("/health") {
            socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n")?;
        } else if path.contains("missing") {
            socket.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")?;
        } else if path.contains("rubbish") {
            return socket.write_all(b"220 mail.example ESMTP\r\n");
        } else if path.contains("closes") {
            write!(socket, "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nthe beginning")?;
            return Ok(());
        } else if path.contains("silent") {
            while !over.load(Ordering::Relaxed) && socket.peek(&mut [0]).is_ok_and(|n| n > 0) {}
            return Ok(());
        } else {
            let bytes = if path.contains("short") { SHORT_BYTES } else { LONG_BYTES };
            write!(socket, "HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n")?;
            pace(&mut socket, bytes, over)?;
        }
    }
    Ok(())
}

/// Sends `bytes`, at each tick the part that is due.
fn pace(socket: &mut TcpStream, bytes: u64, over: &AtomicBool) -> std::io::Result<()> {
    let (start, zeros, mut sent) = (clock::now(), vec![0; 65_536], 0);
    for tick in 1.. {
        clock::sleep_until(start + TICK.saturating_mul(tick));
        let due = RATE.bytes_in(TICK.saturating_mul(tick)).min(bytes);
        while sent < due {
            let piece = usize::try_from(due - sent).unwrap().min(zeros.len());
            socket.write_all(&zeros[..piece])?;
            sent += piece as u64;
        }
        if sent == bytes || over.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(())
}

/// A request's head; `None` when the client is gone.
fn read_head(socket: &mut TcpStream) -> std::io::Result<Option<String>> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        if socket.read(&mut byte)? == 0 {
            return Ok(None);
        }
        head.extend_from_slice(&byte);
    }
    Ok(Some(String::from_utf8_lossy(&head).into_owned()))
}

/// Runs for one second, then two, up to 16, until a result `shows` the event in question; the last one if none does.
fn longer<T>(run: impl Fn(u64) -> T, shows: impl Fn(&T) -> bool) -> T {
    [1, 2, 4, 8].into_iter().map(&run).find(&shows).unwrap_or_else(|| run(16))
}

fn plan(server: &PacingServer, contents: &[&str], seconds: u64) -> ClientPlan {
    let begin = clock::now();
    ClientPlan {
        terms: ViewerTerms {
            address: server.address,
            sealed: None,
            rate: RATE,
            start: Nanos::from_millis(200),
            rebuffer: Nanos::from_millis(200),
            buffer_bytes: 1 << 20,
        },
        authority: server.address.to_string(),
        habits: ViewerHabits::default(),
        paths: contents.iter().map(|c| format!("/media/{c}?rate=2000k")).collect(),
        seed: 1,
        begin,
        ramp: Nanos::from_millis(100),
        measure: begin + Nanos::from_millis(600).saturating_mul(seconds),
        seconds,
        give_up: false,
    }
}

fn run_client(
    server: &PacingServer,
    contents: &[&str],
    seconds: u64,
    stop: &Stop,
) -> anyhow::Result<Vec<StreamResult>> {
    Ok(client::run(&plan(server, contents, seconds), stop, &RunProgress::default())?.streams)
}

#[test]
fn each_segment_of_a_crowd_has_one_outcome() {
    let server = PacingServer::start();
    let crowd = |content: &str, seconds| {
        let segment = Nanos::from_secs(1);
        let crowd = Crowd { viewers: 3, rate: BitRate(SHORT_BYTES * 8), segment, contents: vec![content.to_owned()] };
        let path_of = |content: &str| format!("/media/{content}?rate=320k");
        let found =
            crowd::run(&crowd, &plan(&server, &[content], seconds), path_of, &Stop::default(), &RunProgress::default());
        let found = found.unwrap();
        let outcomes = found.in_time + found.late + found.skipped + found.refused + found.failed;
        assert!(found.due > 0 && found.due == outcomes, "{content}: {found:?}");
        found
    };
    thread::scope(|scope| {
        let others = ["refuse.ts", "closes.ts", "silent.ts"].map(|content| scope.spawn(move || crowd(content, 3)));
        let whole = longer(|seconds| crowd("short.ts", seconds + 2), |found| found.in_time > 0);
        assert!(whole.goodput_bps > 0.0 && whole.refused + whole.failed == 0, "{whole:?}");
        let [refused, broken, silent] = others.map(|other| other.join().unwrap());
        assert!(refused.refused > 0 && refused.refused_unexplained + refused.in_time == 0, "{refused:?}");
        assert!(broken.failed > 0 && broken.in_time == 0 && broken.reasons[0].contains("closed"), "{broken:?}");
        assert_eq!((silent.skipped, silent.goodput_bps), (silent.due, 0.0), "{silent:?}");
    });
}

#[test]
fn every_kind_of_answer_has_its_fate() {
    let server = PacingServer::start();
    let contents = ["long.ts", "refuse.ts", "rubbish.ts", "closes.ts", "silent.ts", "short.ts", "long2.ts"];
    let streams = longer(
        |seconds| run_client(&server, &contents, seconds, &Stop::default()).unwrap(),
        |streams| {
            let heard = |stream: &&StreamResult| stream.fate != StreamFate::Silent;
            streams.iter().filter(heard).count() == contents.len() - 1
                && streams[0].grid.total() > 0
                && streams[5].restarts > 0
        },
    );
    assert_eq!(streams.len(), contents.len());
    assert_eq!(streams[0].fate, StreamFate::Delivered);
    assert!(streams[0].grid.total() > 0 && streams[0].first_byte.is_some());
    let refused = |fate: &StreamFate| match fate {
        StreamFate::Refused { status: 503, reason, .. } => reason.grantable_bps,
        _ => None,
    };
    assert_eq!(refused(&streams[1].fate), Some(1_500_000));
    let reason = |n: usize| match &streams[n].fate {
        StreamFate::Failed { reason } => reason.clone(),
        other => panic!("{other:?}"),
    };
    assert!(reason(2).contains("not an HTTP answer") && reason(2).contains("220 mail"), "{}", reason(2));
    assert!(reason(3).contains("closed the connection"), "{}", reason(3));
    assert_eq!(streams[4].fate, StreamFate::Silent);
    assert_eq!(streams[5].fate, StreamFate::Delivered);
    assert!(streams[5].restarts > 0, "a content that is over is asked for again");
    let report = ClientReport { streams, lateness: ClientLateness::default(), cpu: Nanos::ZERO, seconds: 1 };
    let run = Run::of("any", RATE, &report, &[]);
    assert_eq!((run.admitted, run.refused, run.before_first_no()), (6, 1, Some(1)), "one came before the refusal");
}

#[test]
fn a_viewer_that_seeks_gets_a_new_delivery_or_is_refused() {
    let server = PacingServer::start();
    let contents: Vec<&str> = (0..64).map(|n| if n % 2 == 0 { "long.ts" } else { "once.ts" }).collect();
    let habits = ViewerHabits { pause_percent: 0, seek_percent: 100 };
    let run = |seconds| {
        let plan = ClientPlan { habits, ..plan(&server, &contents, seconds) };
        client::run(&plan, &Stop::default(), &RunProgress::default()).unwrap().streams
    };
    let both = |streams: &Vec<StreamResult>| {
        let again = |stream: &StreamResult| stream.actions.seeks > 0 && stream.grid.all_short().count() > 0;
        streams.iter().any(|stream| stream.actions.refused) && streams.iter().any(|s| !s.actions.refused && again(s))
    };
    let streams = longer(run, both);
    let figures = HabitFigures::of(&streams);
    assert!(both(&streams) && figures.refused_seeks > 0 && figures.seeks > figures.refused_seeks, "{figures:?}");
    for stream in &streams {
        assert_eq!(stream.fate, StreamFate::Delivered, "{stream:?}");
        assert_eq!(stream.actions.refused, stream.index % 2 == 1 && stream.actions.seeks > 0, "{stream:?}");
        let answered = stream.actions.seeks - u64::from(stream.actions.refused);
        assert_eq!(stream.actions.first_bytes.len() as u64, answered, "{stream:?}");
    }
}

#[test]
fn a_run_without_admitted_streams_gives_the_reason() {
    let server = PacingServer::start();
    let run = |content| {
        let streams = |seconds| run_client(&server, &[content, content], seconds, &Stop::default()).unwrap();
        let refused = |streams: &Vec<StreamResult>| streams.iter().all(|stream| stream.fate.is_refusal());
        let report = ClientReport {
            streams: longer(streams, refused),
            lateness: ClientLateness::default(),
            cpu: Nanos::ZERO,
            seconds: 1,
        };
        Run::of("any", RATE, &report, &[])
    };
    let full = run("refuse.ts");
    assert_eq!((full.admitted, full.failed), (0, 0));
    assert_eq!(full.why_none(), "answered 503, no room; 1.50 Mbit/s could have been granted");
    assert_eq!(run("missing.ts").why_none(), "answered 404; is the URL right?");
}

#[test]
fn a_stopped_run_ends_with_an_error() {
    let server = PacingServer::start();
    let stop = Stop::default();
    stop.set();
    let error = run_client(&server, &["long.ts"], 1, &stop).unwrap_err();
    assert!(error.to_string().contains("interrupted"));
}

fn job(contents: &[&str], seconds: u64) -> RunRequest {
    RunRequest {
        streams: 4,
        rate: RATE,
        contents: contents.iter().map(ToString::to_string).collect(),
        ramp: Nanos::from_millis(100),
        warm_up: Nanos::from_millis(500).saturating_mul(seconds),
        seconds,
        start: Nanos::from_millis(200),
        rebuffer: Nanos::from_millis(200),
        seed: 1,
        writers: Writers { count: 1, upload_bytes: 1_000_000, after: Nanos::ZERO },
        stalled_clients: 2,
        hostile_clients: 16,
        beside: vec!["test -n {address}".to_owned(), "sleep 1000".to_owned(), "exit 3".to_owned()],
        ..RunRequest::default()
    }
}

/// All four streams and an upload got through.
fn is_whole(run: &super::summary::Run) -> bool {
    (run.admitted, run.failed) == (4, 0) && run.uploads.as_ref().is_some_and(|u| u.done > 0)
}

#[test]
fn four_streams_and_a_writer_against_a_url() {
    let server = PacingServer::start();
    let choice = Choice::Url(format!("http://{}/media/", server.address));
    let stop = Stop::default();
    let started = RunningServer::start(&choice, &ServerGround::default(), &stop).unwrap();
    assert_eq!(started.pid, Some(std::process::id()));
    let measure = |seconds| {
        let job = job(&["a.ts", "b.ts"], seconds);
        experiment::measure(&started, &ServerGround::default(), &job, &stop).unwrap()
    };
    let run = longer(measure, is_whole);
    assert_eq!((run.admitted, run.refused, run.failed), (4, 0, 0), "{:?}", run.reasons);
    assert!(run.delivered_bps > 0.0);
    let hostile = run.hostile.expect("there were some");
    assert!(hostile.connections >= 16 && hostile.failed == 0, "{hostile:?}");
    assert!(hostile.health_requests > 0 && hostile.health_answered == hostile.health_requests, "{hostile:?}");
    let beside: Vec<_> = run.beside.iter().map(|one| (one.runs > 0, one.failed == one.runs)).collect();
    assert_eq!(beside, [(true, false), (false, true), (true, true)], "{:?}", run.beside);
    assert!(run.series.len().is_power_of_two(), "one for each second");
    assert!(run.uploads.as_ref().is_some_and(|u| u.done > 0 && u.failed == 0), "{:?}", run.uploads);
    let read: super::summary::Run = serde_json::from_str(&serde_json::to_string(&run).unwrap()).unwrap();
    assert_eq!(read.admitted, run.admitted);
    assert!(super::table::text(&super::group::groups(&[run])).lines().count() >= 2);
}

/// nginx is a peer, not a dependency: where it is not installed, the test checks the message that says so.
#[test]
fn four_streams_from_nginx_and_nothing_left() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("a b.ts"), vec![0; 4_000_000]).unwrap();
    let ground = ServerGround { roots: vec![root.path().to_owned()], rates: vec![RATE], ..ServerGround::default() };
    let stop = Stop::default();
    let choice = Choice::Nginx { threads: true };
    let server = match RunningServer::start(&choice, &ground, &stop) {
        Ok(server) => server,
        Err(error) => {
            assert!(super::nginx::find().is_none() && format!("{error:#}").contains("install it"), "{error:#}");
            return;
        }
    };
    let pid = server.pid.unwrap();
    let measure = |seconds| experiment::measure(&server, &ground, &job(&["a b.ts"], seconds), &stop).unwrap();
    let run = longer(measure, is_whole);
    server.end().unwrap();
    assert_eq!((run.admitted, run.failed), (4, 0), "{:?}", run.reasons);
    assert!(run.uploads.as_ref().is_some_and(|u| u.done > 0 && u.failed == 0), "{:?}", run.uploads);
    assert!(run.cost.server_rss_bytes.is_some_and(|b| b > 0));
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    let left: Vec<_> = std::fs::read_dir(root.path()).unwrap().flatten().map(|e| e.file_name()).collect();
    assert_eq!(left, ["a b.ts"], "uploads and temporary folders are removed");
}
