//! The benchmarks that are tables (`bench access`, `buffer`, `ageing`, `disks`), tiny: each way is measured, and everything is kept.

mod common;

use std::fs;
use std::process::Command;

use common::skip::skipped;
use common::{disk, program_with_lab};
use serde_json::Value;

fn measured(arguments: &[&str]) -> Value {
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let folder = scratch.path().join("results");
    let mut command = Command::new(program_with_lab());
    command.arg("bench").args(arguments).args(["--quick", "--json"]);
    if ["access", "buffer"].contains(&arguments[0]) {
        command.arg("--root").arg(scratch.path());
    }
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

/// What a figure was at each number on the way.
fn figures_of(measured: &Value, way: &str, name: &str) -> Vec<(f64, f64)> {
    let rows = measured["rows"].as_array().expect("rows").iter();
    rows.filter(|row| row["way"] == way).map(|row| (row["x"].as_f64().expect("a number"), figure(row, name))).collect()
}

#[test]
fn two_files_are_read_from_one_disk_and_from_two() {
    if !disk::possible(256 << 20) {
        return;
    }
    let measured = measured(&["disks", "--part", "files"]);
    for way in ["two files, from disk", "two files, from memory"] {
        let figures = figures_of(&measured, way, "seconds");
        assert!(matches!(figures[..], [(1.0, one), (2.0, two)] if one > 0.0 && two > 0.0), "{way}: {measured}");
    }
}
