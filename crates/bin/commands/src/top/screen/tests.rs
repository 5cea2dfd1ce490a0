//! The screen in memory: its display, and the effect of keys.

use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde_json::json;

use super::*;

fn stream(id: u64, path: &str, misses: u64) -> Stream {
    let value = json!({
        "id": id, "path": path, "client": format!("10.0.0.{id}"), "class": "constant", "rate_bps": 8_800_000,
        "sent_bytes": id * 1_000_000, "j_percent": 0.125, "misses": misses, "buffered_bytes": 0, "blocked": false,
        "held_up_by": (misses > 0).then_some("disk"), "disk": 0, "started": 0.0,
    });
    serde_json::from_value(value).expect("a stream")
}

fn figures(streams: Vec<Stream>, at: Instant) -> Figures {
    let system = json!({
        "version": "1", "uptime_seconds": 5.0, "streams": 2, "uploads": 0, "connections": 3, "promised_bps": 17_600_000,
        "network_bps": 17_600_000, "lent_bps": 0, "upload_bps": 0, "disk_bps": 0, "cpu_share": 0.25, "process_cpu": 0.1,
        "memory_bytes": 1, "memory_total_bytes": 2, "interfaces_bps": 0,
        "buffers": { "used_bytes": 0, "promised_bytes": 0, "total_bytes": 0 }, "misses": 0, "refused": 0,
    });
    let disk = json!({
        "id": 0, "name": "sda", "model": "M", "rotational": true, "capacity_bytes": 1, "free_bytes": 1, "failing": false,
        "phases": { "real_time": 0.5, "best_effort": 0.25, "idle": 0.25 }, "rt_bytes": 0, "be_bytes": 0, "rt_queued": 0,
        "be_queued": 0, "commits": 0, "errors": 0, "promised_share": 0.6, "free_share": 0.3, "slowdown": 1.0,
        "lateness": [], "streams": 2, "more_streams": 17, "more_recordings": 21,
    });
    let alarm =
        json!({ "severity": "serious", "kind": "job_failed", "about": "backup", "text": "its last run failed" });
    Figures {
        system: serde_json::from_value(system).expect("a system"),
        alarms: vec![serde_json::from_value(alarm).expect("an alarm")],
        disks: vec![serde_json::from_value(disk).expect("a disk")],
        streams,
        at,
    }
}

fn drawn(screen: &mut Screen) -> String {
    let mut terminal = Terminal::new(TestBackend::new(140, 24)).expect("a screen in memory");
    terminal.draw(|frame| screen.draw(frame)).expect("drawn");
    let buffer = terminal.backend().buffer();
    let lines = buffer.content().chunks(140).map(|line| line.iter().map(|cell| cell.symbol()).collect::<String>());
    lines.collect::<Vec<_>>().join("\n")
}

fn press(screen: &mut Screen, keys: &str) -> KeyAction {
    keys.chars().fold(KeyAction::Nothing, |_, key| {
        let code = match key {
            '\n' => KeyCode::Enter,
            'v' => KeyCode::Down,
            key => KeyCode::Char(key),
        };
        screen.key(code.into())
    })
}

#[test]
fn streams_disks_and_the_machine_are_shown() {
    let begun = Instant::now();
    let mut screen = Screen::new("http://server", figures(vec![stream(1, "a.ts", 0), stream(2, "b.ts", 3)], begun));
    let mut later = figures(vec![stream(1, "a.ts", 0), stream(2, "b.ts", 3)], begun + Duration::from_secs(1));
    later.streams[0].sent_bytes += 1_100_000;
    screen.update(later);
    let text = drawn(&mut screen);
    for part in [
        "17 viewers of 8.8, or 21 cameras of 4 Mbit/s",
        "sda",
        "50    25    25",
        "0.125",
        "disk",
        "10.0.0.2",
        "busiest disk",
        "2 of 2 streams",
    ] {
        assert!(text.contains(part), "`{part}` is not in\n{text}");
    }
    assert_eq!(text.lines().filter(|line| line.contains("a.ts") && line.contains("8.8      8.8")).count(), 1, "{text}");
}

#[test]
fn keys_sort_filter_and_stop() {
    let begun = Instant::now();
    let streams = vec![stream(1, "news.ts", 0), stream(2, "film.ts", 3), stream(3, "film2.ts", 1)];
    let mut screen = Screen::new("http://server", figures(streams, begun));
    let order = |screen: &Screen| screen.shown().iter().map(|stream| stream.id).collect::<Vec<_>>();
    assert_eq!(press(&mut screen, "ssss"), KeyAction::Nothing);
    assert_eq!((SORTINGS[screen.sorting].0, order(&screen)), ("misses", vec![2, 3, 1]));
    press(&mut screen, "r");
    assert_eq!(order(&screen), [1, 3, 2]);
    press(&mut screen, "/FILM\n");
    assert_eq!(order(&screen), [3, 2]);
    assert_eq!(press(&mut screen, "x"), KeyAction::Nothing, "nothing is chosen yet");
    assert!(drawn(&mut screen).contains("choose a stream first"));
    assert_eq!(press(&mut screen, "vvx"), KeyAction::Nothing, "it is asked for first");
    assert!(drawn(&mut screen).contains("stop stream 2?"));
    assert_eq!(press(&mut screen, "n"), KeyAction::Nothing);
    assert_eq!(press(&mut screen, "xy"), KeyAction::Stop(2));
    assert_eq!(press(&mut screen, "q"), KeyAction::End);
}

#[test]
fn the_chosen_one_of_many_is_in_view() {
    let streams = (1..=1000).map(|id| stream(id, "film.ts", 0)).collect();
    let mut screen = Screen::new("http://server", figures(streams, Instant::now()));
    for _ in 0..40 {
        assert_eq!(screen.key(KeyCode::PageDown.into()), KeyAction::Nothing);
    }
    let text = drawn(&mut screen);
    assert!(text.contains("10.0.0.781") && !text.contains("10.0.0.782 "), "{text}");
}
