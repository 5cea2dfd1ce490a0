//! The program `sim`: its output, and its end.

use std::process::Command;

fn sim(arguments: &[&str]) -> (Option<i32>, String) {
    let said = Command::new(env!("CARGO_BIN_EXE_sim")).args(arguments).output().expect("the program runs");
    (said.status.code(), String::from_utf8_lossy(&said.stdout).into_owned())
}

#[test]
fn the_canary_fails_as_a_seed_that_breaks_a_law_does() {
    let (code, said) = sim(&["--canary"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("meets each deadline"), "{said}");
}

#[test]
fn a_range_of_seeds_counts_only_behind_a_canary_that_failed() {
    let (code, said) = sim(&["--seeds", "0..2"]);
    assert_eq!(code, Some(0), "{said}");
    let canary = said.find("the canary broke a law, as it must");
    assert!(canary.is_some() && canary < said.find("2 runs, 0 broke a law"), "{said}");
}
