//! Tests that this machine or user cannot run: said to be skipped, where `make test` counts them.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use std::io::Write as _;

/// Says that the test that calls this is not run, and why, past the capture of its output: a test that returns early is
/// shown as passed.
pub fn skipped(why: &str) {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    // In one write: the names of other tests would come between its parts.
    let _ = std::io::stderr().write_all(format!("SKIPPED {test}: {why}\n").as_bytes());
}
