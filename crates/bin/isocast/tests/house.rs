//! Checks of the house that need the program built (the others: crate `tidy`): commands that documents name, packages that it links.

use std::collections::BTreeSet;
use std::process::Command;

use tidy::{report, root, sources, words_after};

#[test]
fn commands_in_the_documents_exist() {
    let help = Command::new(crate::common::program()).arg("--help").output().expect("the program was just built");
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    let subcommands: BTreeSet<&str> = help
        .lines()
        .skip_while(|line| !line.starts_with("Commands:"))
        .filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next())
        .collect();
    let mut problems = Vec::new();
    for (path, text) in sources("md").into_iter().filter(|(path, _)| !path.starts_with("docs/decisions")) {
        for (number, word) in words_after(&text, "isocast ").filter(|(_, word)| !subcommands.contains(word.as_str())) {
            problems
                .push(format!("{}:{number}: `isocast {word}` is not a subcommand (`isocast --help`)", path.display()));
        }
    }
    report(&problems);
}

/// Checks the crates that the server's program is linked from, by way of others too.
#[test]
fn the_server_links_no_measuring_tools() {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "-p", "isocast", "--edges", "normal", "--prefix", "none", "--offline", "--locked"])
        .current_dir(root())
        .output()
        .expect("cargo runs these tests, so it is there");
    let tree = String::from_utf8_lossy(&output.stdout);
    let linked: BTreeSet<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(output.status.success() && linked.contains("units"), "{}", String::from_utf8_lossy(&output.stderr));
    for tool in ["isocast-lab", "isocast-mount", "net", "sim", "hdrhistogram", "plotters", "indicatif", "fuser"] {
        assert!(
            !linked.contains(tool),
            "`isocast` is linked with `{tool}`: it belongs to `isocast-lab` or `isocast-mount`"
        );
    }
}
