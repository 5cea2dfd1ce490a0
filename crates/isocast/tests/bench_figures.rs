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
fn ageing_is_measured_on_a_volume_and_on_ext4() {
    if !disk::possible(256 << 20) {
        return;
    }
    let measured = measured(&["ageing", "--store", "volume,ext4"]);
    for way in ["volume", "ext4"] {
        for name in ["mb_per_s", "streams", "run_mib", "contents"] {
            let figures = figures_of(&measured, way, name);
            assert!(
                matches!(figures[..], [(0.0, fresh), (1.0, aged)] if fresh > 0.0 && aged > 0.0),
                "{name}: {measured}"
            );
        }
    }
}

#[test]
fn what_several_disks_bring_is_measured() {
    if !disk::possible(512 << 20) {
        return;
    }
    let measured = measured(&["disks"]);
    for way in ["two files, from disk", "two files, from memory", "one content, stripe"] {
        let figures = figures_of(&measured, way, "seconds");
        assert!(matches!(figures[..], [(1.0, one), (2.0, two)] if one > 0.0 && two > 0.0), "{way}: {measured}");
    }
    // Counted, so that no machine disturbs it: two disks carry nearly twice what one does, a mirror's outer halves more than that.
    let counted = |layout| figures_of(&measured, &format!("streams, {layout}, counted"), "times_one");
    assert!(matches!(counted("stripe")[..], [(1.0, 1.0), (2.0, times)] if times > 1.8), "{measured}");
    assert!(matches!(counted("mirror")[..], [(2.0, times)] if times > 2.0), "{measured}");
    // The slow drives have fewer contents than they carry streams: all of them are admitted.
    let run = |layout| figures_of(&measured, &format!("streams, {layout}, run"), "streams");
    assert!(matches!(run("stripe")[..], [(1.0, one), (2.0, two)] if one > 0.0 && two > one), "{measured}");
    assert!(matches!(run("mirror")[..], [(2.0, two)] if two > 0.0), "{measured}");
}
