//! The benchmarks that are tables, `bench access`, `bench buffer`, `bench segments` and `bench live`, and `bench recorder`, tiny:
//! each way is measured, and everything is kept.

use std::fs;
use std::process::Command;

use crate::common::program_and_others;
use crate::common::skip::skipped;
use serde_json::Value;

fn measured(arguments: &[&str]) -> Value {
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let folder = scratch.path().join("results");
    let mut command = Command::new(program_and_others());
    command.arg("bench").args(arguments).args(["--quick", "--json", "--root"]).arg(scratch.path());
    // A server that it starts takes such a variable for a setting.
    command.env_remove("ISOCAST_BIN");
    let output = command.arg("--out").arg(&folder).output().expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let kept = fs::read(folder.join(format!("{}.json", arguments[0]))).expect("kept");
    assert_eq!(serde_json::from_slice::<Value>(&kept).expect("JSON"), printed);
    assert!(folder.join(format!("{}.md", arguments[0])).is_file());
    printed
}

fn figure(row: &Value, name: &str) -> f64 {
    row["values"][name].as_f64().unwrap_or_else(|| panic!("{row}"))
}

#[test]
fn access_is_measured_in_every_way() {
    if Command::new("fio").arg("--version").output().is_err() {
        return skipped("fio is not installed");
    }
    let measured = measured(&["access", "--rates", "8M"]);
    let rows = measured["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 8, "{measured}");
    assert!(rows.iter().all(|row| figure(row, "mbps") > 0.0 && figure(row, "cpu_percent") >= 0.0), "{measured}");
}

#[test]
fn buffers_are_measured_from_disk_and_memory() {
    let measured = measured(&["buffer"]);
    let rows = measured["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 3 * 2 * 5, "{measured}");
    assert!(rows.iter().all(|row| figure(row, "mb_per_s") > 0.0), "{measured}");
}

/// With sound apart, and with pictures as ranges of one file.
#[test]
fn viewers_of_segments_are_counted_once_each() {
    let measured = measured(&["segments", "--audio", "--ranges"]);
    let rows = measured["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 2, "{measured}");
    for row in rows {
        let watched = figure(row, "smooth") + figure(row, "stalled");
        assert_eq!((watched, figure(row, "refused")), (row["x"].as_f64().expect("a number"), 0.0), "{measured}");
        assert!(figure(row, "segment_max_s") > 0.0 && figure(row, "first_max_s") > 0.0, "{measured}");
    }
    let remarks = measured["notes"].as_array().expect("notes");
    assert_eq!(remarks.len(), 1, "nothing was refused, and nothing broke: {measured}");
}

#[test]
fn live_channels_are_published_and_watched() {
    let measured = measured(&["live"]);
    let rows = measured["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 1, "{measured}");
    let row = &rows[0];
    assert_eq!(figure(row, "smooth") + figure(row, "stalled"), 4.0, "{measured}");
    assert_eq!((figure(row, "puts_failed"), figure(row, "gets_failed")), (0.0, 0.0), "{measured}");
    assert!(figure(row, "published_max_s") > 0.0 && figure(row, "segment_max_s") > 0.0, "{measured}");
}

#[test]
fn cameras_are_recorded_with_a_viewer() {
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    fs::write(scratch.path().join("film"), vec![1; 4_000_000]).expect("written");
    let mut command = Command::new(program_and_others());
    command.args([
        "bench",
        "recorder",
        "--cameras",
        "2",
        "--rate",
        "400k",
        "--vary",
        "--viewers",
        "1",
        "--viewer-rate",
    ]);
    command
        .env_remove("ISOCAST_BIN")
        .args(["1M", "--duration", "2s", "--warm-up", "0s", "--json", "--root"])
        .arg(scratch.path());
    let output = command.output().expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let cameras = &printed["runs"][0]["cameras"];
    assert_eq!((&cameras["recorded"], &cameras["lost_bytes"]), (&Value::from(2), &Value::from(0)), "{cameras}");
    assert!(cameras["sent_bytes"].as_u64() > Some(100_000), "{cameras}");
    assert_eq!(fs::read_dir(scratch.path()).expect("a folder").count(), 1, "recordings are removed");
}
