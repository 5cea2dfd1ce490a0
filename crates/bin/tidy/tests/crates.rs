//! Dependencies of crates as docs/ARCHITECTURE.md says, floor by floor; one compiler for all.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use tidy::{all_files, crate_folders, read, report, root};

#[test]
fn crates_depend_as_the_architecture_says() {
    let table = crate_table();
    let mut problems = Vec::new();
    for (name, Dependencies { ours, outside, .. }) in dependencies() {
        let Some(row) = table.get(&name) else {
            problems.push(format!(
                "crate `{name}` is missing in the table of docs/ARCHITECTURE.md; add a row with its fact"
            ));
            continue;
        };
        for edge in ours.difference(&row.ours) {
            problems.push(format!(
                "Cargo.toml of `{name}` depends on `{edge}`, which the table of docs/ARCHITECTURE.md does not allow; \
                 remove the edge, or add it to the table together with a decision note (docs/decisions)"
            ));
        }
        for edge in outside.difference(row.outside.as_ref().unwrap_or(&outside)) {
            problems.push(format!(
                "Cargo.toml of `{name}` depends on `{edge}` from outside, but the table of docs/ARCHITECTURE.md keeps \
                 this crate pure; do without, or move the code to a crate that does things"
            ));
        }
        let unused = row.outside.iter().flat_map(|allowed| allowed.difference(&outside));
        for edge in row.ours.difference(&ours).chain(unused) {
            problems.push(format!(
                "docs/ARCHITECTURE.md lets `{name}` depend on `{edge}`, but it does not; take it out of the table"
            ));
        }
    }
    let found: BTreeSet<String> = dependencies().into_keys().collect();
    for name in table.keys().filter(|name| !found.contains(*name)) {
        problems.push(format!("docs/ARCHITECTURE.md lists a crate `{name}` that does not exist; remove its row"));
    }
    report(&problems);
}

/// A crate lies in the folder of its floor, and uses crates of its own floor and of those above it only, also in its tests.
#[test]
fn crates_use_their_own_floor_and_those_above() {
    let table = crate_table();
    let floors = table.values().map(|row| (row.floor, row.folder.clone())).collect::<BTreeMap<_, _>>();
    let mut problems = Vec::new();
    for (name, path) in crate_folders() {
        let Some(row) = table.get(&name) else { continue };
        if path.parent() != Some(&Path::new("crates").join(&row.folder)) {
            problems.push(format!(
                "{}: docs/ARCHITECTURE.md lists `{name}` on the floor {}; move it, or its row",
                path.display(),
                row.folder
            ));
        }
    }
    for (name, Dependencies { in_tests, ours, .. }) in dependencies() {
        let Some(row) = table.get(&name) else { continue };
        for other in
            ours.union(&in_tests).filter(|other| table.get(*other).is_some_and(|other| other.floor > row.floor))
        {
            problems.push(format!(
                "Cargo.toml of `{name}` (floor {}) depends on `{other}`, a floor below: one of {:?}; turn the arrow round, or \
                 move what both need up",
                row.folder,
                floors.range(row.floor + 1..).map(|(_, folder)| folder).collect::<Vec<_>>()
            ));
        }
    }
    report(&problems);
}

#[test]
fn the_oldest_compiler_is_the_one_it_is_built_with() {
    let (workspace, toolchain) = (read("Cargo.toml"), read("rust-toolchain.toml"));
    let value = |text: &str, key: &str| -> String {
        let line = text.lines().find(|line| line.starts_with(key)).unwrap_or_else(|| panic!("`{key}` is needed"));
        line.split('"').nth(1).unwrap_or_default().to_owned()
    };
    let (oldest, pinned) = (value(&workspace, "rust-version"), value(&toolchain, "channel"));
    assert_eq!(
        format!("{oldest}.0"),
        pinned,
        "give Cargo.toml's rust-version and rust-toolchain.toml's channel one version"
    );
    let manifests =
        all_files().into_iter().filter(|(path, _)| path.starts_with("crates") && path.ends_with("Cargo.toml"));
    for (path, text) in manifests {
        assert!(
            text.contains("rust-version.workspace = true"),
            "{}: take the workspace's rust-version",
            path.display()
        );
    }
}

/// The fuzzer is a workspace of its own, and built at night only: its lock names all that our crates are built from, in the same versions.
#[test]
fn the_lock_of_the_fuzzer_agrees_with_that_of_the_workspace() {
    let (workspace, fuzzer, crates) = (locked("Cargo.lock"), locked("fuzz/Cargo.lock"), dependencies());
    let mut problems = Vec::new();
    for ((name, version), (is_ours, edges)) in &fuzzer {
        let is_shared = workspace.keys().any(|(other, _)| other == name);
        if is_shared && !workspace.contains_key(&(name.clone(), version.clone())) {
            problems.push(format!("`{name}` {version} is no version of the workspace"));
        }
        let built_from = crates.get(name).filter(|_| *is_ours).map(|found| found.ours.union(&found.outside));
        for edge in built_from.into_iter().flatten().filter(|edge| !edges.contains(*edge)) {
            problems.push(format!("`{name}` is locked without `{edge}`"));
        }
    }
    assert!(fuzzer.len() > 50, "{} packages are not all", fuzzer.len());
    if !problems.is_empty() {
        problems.push("cp Cargo.lock fuzz/ && cd fuzz && cargo metadata --format-version 1 >/dev/null".to_owned());
    }
    report(&problems);
}

/// The packages of a lock, by name and version: whether each is ours, and the names of those that it is built from.
fn locked(path: &str) -> BTreeMap<(String, String), (bool, BTreeSet<String>)> {
    let text = read(path);
    let packages = text.split("[[package]]").skip(1).map(|package| {
        let value = |key: &str| {
            let line = package.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
            line.trim_matches(['=', ' ', '"']).to_owned()
        };
        let edges = package.lines().filter_map(|line| line.strip_prefix(" \"")?.split([' ', '"']).next());
        let is_ours = value("source").is_empty();
        ((value("name"), value("version")), (is_ours, edges.map(str::to_owned).collect()))
    });
    packages.collect()
}

/// Dependencies that the table of docs/ARCHITECTURE.md allows one crate.
struct Row {
    /// Counted from the top of the table.
    floor: usize,
    /// The floor's folder.
    folder: String,
    ours: BTreeSet<String>,
    /// Crates from outside; `None`: any.
    outside: Option<BTreeSet<String>>,
}

/// The rows between the markers, `| crate | fact | ours | outside |`, below the headings of their floors, `| **folder/** | …`.
fn crate_table() -> BTreeMap<String, Row> {
    let text = read("docs/ARCHITECTURE.md");
    let table = text.split("<!-- crates:begin -->").nth(1).and_then(|rest| rest.split("<!-- crates:end -->").next());
    let table =
        table.expect("docs/ARCHITECTURE.md keeps the table between <!-- crates:begin --> and <!-- crates:end -->");
    let names = |cell: &str| -> BTreeSet<String> {
        cell.split('`').skip(1).step_by(2).flat_map(str::split_whitespace).map(str::to_owned).collect()
    };
    let (mut rows, mut floor, mut folder) = (BTreeMap::new(), 0, String::new());
    for line in table.lines() {
        if let Some((heading, _)) = line.strip_prefix("| **").and_then(|rest| rest.split_once("/**")) {
            (floor, folder) = (floor + 1, heading.to_owned());
        }
        if line.starts_with("| `") {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            assert_eq!(cells.len(), 4, "docs/ARCHITECTURE.md: four cells are needed in `{line}`");
            let outside = (cells[3] != "any").then(|| names(cells[3]));
            let row = Row { floor, folder: folder.clone(), ours: names(cells[2]), outside };
            rows.insert(cells[0].trim_matches('`').to_owned(), row);
        }
    }
    rows
}

/// Crates that a crate is built from.
struct Dependencies {
    ours: BTreeSet<String>,
    outside: BTreeSet<String>,
    /// Ours that its tests alone use.
    in_tests: BTreeSet<String>,
}

/// Dependencies of each of our crates and of its tests. Crates from outside that only tests use are free.
fn dependencies() -> BTreeMap<String, Dependencies> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline", "--locked"])
        .current_dir(root())
        .output()
        .expect("cargo runs these tests, so it is there");
    assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    let packages = metadata["packages"].as_array().expect("metadata lists packages");
    packages
        .iter()
        .map(|package| {
            let edges = package["dependencies"].as_array().expect("a package lists dependencies");
            let names = |is_built: bool, is_ours: bool| -> BTreeSet<String> {
                let wanted = edges.iter().filter(|edge| {
                    (edge["kind"].as_str() != Some("dev")) == is_built && edge["path"].is_string() == is_ours
                });
                wanted.filter_map(|edge| edge["name"].as_str()).map(str::to_owned).collect()
            };
            let found =
                Dependencies { ours: names(true, true), outside: names(true, false), in_tests: names(false, true) };
            (package["name"].as_str().unwrap_or("").to_owned(), found)
        })
        .collect()
}
