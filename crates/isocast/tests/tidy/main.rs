//! Checks of the house that no compiler makes: who may depend on whom, where `unsafe` may stand, sizes, heads, links.
//!
//! Promise: every failure names the file and line, and says what to do. Reads only the working tree and
//! `cargo metadata`; needs no network. The table it enforces is in docs/ARCHITECTURE.md.

mod crates;
mod documents;
mod sources;

use std::fs;
use std::path::{Path, PathBuf};

/// What is generated or fetched.
const SKIPPED: [&str; 8] =
    [".git", "target", "demo", "state", "web/node_modules", "web/dist", "fuzz/target", "tests/players/node_modules"];

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path} is needed: {error}"))
}

/// Every text file of the working tree that somebody wrote, relative to its root.
fn all_files() -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).expect("the working tree can be read") {
            let entry = entry.expect("the working tree can be read");
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = folder.join(&name);
            let kind = entry.file_type().expect("the kind of an entry is known");
            if SKIPPED.iter().any(|skipped| path == Path::new(skipped)) {
                continue;
            }
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file()
                && let Ok(text) = fs::read_to_string(entry.path())
            {
                files.push((path, text));
            }
        }
    }
    files.sort();
    files
}

/// Those whose names end in `.extension`.
fn sources(extension: &str) -> Vec<(PathBuf, String)> {
    let wanted = |path: &Path| path.extension().is_some_and(|found| found == extension);
    all_files().into_iter().filter(|(path, _)| wanted(path)).collect()
}

/// Lines with their numbers, without comments, attributes of lints and texts in quotes.
fn code_lines(text: &str) -> impl Iterator<Item = (usize, String)> {
    text.lines().enumerate().map(|(index, line)| {
        let code = line.split("//").next().unwrap_or("");
        (index + 1, code.split('"').step_by(2).collect::<Vec<_>>().join("\"\""))
    })
}

fn report(problems: &[String]) {
    assert!(problems.is_empty(), "\n  {}\n", problems.join("\n  "));
}
