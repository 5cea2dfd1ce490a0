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
    let alarm = json!({ "severity": "serious", "kind": "job_failed", "about": "backup", "text": "its last run failed", "why": "", "remedy": "" });
    let member = |state: &str| json!({ "disk": 0, "path": "/dev/sdb", "state": state, "error": null, "wrong_copies": 0, "size_bytes": 1, "units": 36, "free_units": 29 });
    let volume = json!({
        "name": "films", "layout": "mirror", "folder_layouts": {}, "unit_bytes": 8 << 20, "contents": 231, "degraded": true,
        "missing_contents": 0, "damaged_contents": 0, "free_bytes": 232 << 20, "disks": [member("active"), member("filling"), member("left")],
        "moved_copies": 0, "last_upkeep": null, "last_scrub": null,
        "upkeep": { "kind": "fill", "seen_bytes": 1 << 20, "total_bytes": 8 << 20, "copies_written": 0, "copies_lost": 0, "contents_unknown": 0, "disks_away": [], "error": null },
    });
    let job = json!({
        "name": "nightly", "kind": "copy", "schedule": "@daily", "time_zone": null, "next": null, "last": null, "last_success": null,
        "running": { "started": 0.0, "bytes": 3 << 20, "bytes_total": 0, "stopping": false },
        "succeeded": 0, "failed": 0, "stopped": 0, "missed": 0,
    });
    Figures {
        system: serde_json::from_value(system).expect("a system"),
        alarms: vec![serde_json::from_value(alarm).expect("an alarm")],
        disks: vec![serde_json::from_value(disk).expect("a disk")],
        volumes: vec![serde_json::from_value(volume).expect("a volume")],
        jobs: vec![serde_json::from_value(job).expect("a job")],
        streams,
        at,
    }
}

fn drawn(screen: &mut Screen) -> String {
    drawn_on(screen, 140, 30)
}

fn drawn_on(screen: &mut Screen, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a screen in memory");
    terminal.draw(|frame| screen.draw(frame)).expect("drawn");
    let buffer = terminal.backend().buffer();
    let lines = buffer
        .content()
        .chunks(usize::from(width))
        .map(|line| line.iter().map(|cell| cell.symbol()).collect::<String>());
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
        "volume films (mirror): 231 contents, 232.0 MiB free, disk 1 filling, fill 1.0 MiB of 8.0 MiB",
        "job nightly (copy): 3.0 MiB done",
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

#[test]
fn a_small_screen_drops_columns_and_graphs_and_cuts_nothing_else() {
    let path = "a/folder/with/a/long/name/beside/others/1.ts";
    let mut figures = figures(vec![stream(1, path, 2)], Instant::now());
    figures.alarms[0].text =
        format!("its last run failed: {} 500: it is full", "backup.example answers and ".repeat(3));
    let mut screen = Screen::new("http://server", figures);
    let text = drawn_on(&mut screen, 80, 24);
    assert!(text.contains("500: it is full"), "an alarm is shown to its end:\n{text}");
    for part in ["promised of 0 B", "interfaces 0.0 Mbit/s", "q end", "others/1.ts", "PROMISED %", "MISSES", "10.0.0.1"]
    {
        assert!(text.contains(part), "`{part}` is not in\n{text}");
    }
    assert!(!text.contains("SESSION") && !text.contains("MORE"), "{text}");
    let text = drawn_on(&mut screen, 20, 5);
    for part in ["RATE", "PATH", "8.8", "…thers/1.ts"] {
        assert!(text.contains(part), "`{part}` is not in\n{text}");
    }
}

#[test]
fn advices_leave_a_small_screen_to_the_streams() {
    let streams = (1..=6).map(|id| stream(id, &format!("{id}.ts"), 0)).collect();
    let mut figures = figures(streams, Instant::now());
    let advice = |disk: &str| {
        let text = "is not measured: streams are admitted by figures of another disk; ".repeat(3);
        json!({ "severity": "advice", "kind": "disk_assumed", "doubt": "virtual", "about": disk, "text": text, "why": "", "remedy": "" })
    };
    figures.alarms = ["sda", "sdb", "sdc"].map(|disk| serde_json::from_value(advice(disk)).expect("an alarm")).into();
    let mut screen = Screen::new("http://server", figures);
    let text = drawn_on(&mut screen, 80, 24);
    for part in ["sda: is not measured", "sdc: is not measured", " …", "1.ts", "4.ts"] {
        assert!(text.contains(part), "`{part}` is not in\n{text}");
    }
    let text = drawn_on(&mut screen, 30, 12);
    assert!(text.contains("1.ts"), "a stream's row:\n{text}");
    let text = drawn_on(&mut screen, 80, 40);
    assert!(!text.contains(" …"), "a high screen shows all of an advice:\n{text}");
}

#[test]
fn figures_of_a_server_that_went_look_old() {
    let begun = Instant::now();
    let mut screen = Screen::new("http://server", figures(vec![stream(1, "a.ts", 0)], begun));
    screen.update(figures(vec![stream(1, "a.ts", 0)], begun + Duration::from_secs(1)));
    screen.lose("no answer", begun + Duration::from_secs(8));
    let text = drawn(&mut screen);
    assert!(text.contains("NOT LIVE  figures of 7 s ago: no answer"), "{text}");
    let row = text.lines().find(|line| line.contains("a.ts")).expect("its row stays");
    assert!(row.contains("8.8               0.125"), "no rate of now: {row}");
    screen.update(figures(vec![stream(1, "a.ts", 0)], begun + Duration::from_secs(9)));
    assert!(!drawn(&mut screen).contains("NOT LIVE"));
}
