//! Checks of the house that no compiler makes: who may depend on whom, where `unsafe` may stand, sizes, heads, links.
//!
//! Promise: every failure names the file and line, and says what to do. Reads only the working tree and
//! `cargo metadata`; needs no network. The table it enforces is in docs/ARCHITECTURE.md.

mod crates;
mod documents;
mod sources;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path} is needed: {error}"))
}

/// Every text file of the repository, relative to its root: tracked files and new ones that git does not ignore. In an exported
/// archive, which has no repository and nothing built or fetched yet, every file.
fn all_files() -> Vec<(PathBuf, String)> {
    let git = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output();
    let mut paths = match git {
        Ok(listed) if listed.status.success() && root().join(".git").exists() => {
            let listed = String::from_utf8(listed.stdout).expect("names in the repository are UTF-8");
            listed.split_terminator('\0').map(PathBuf::from).collect()
        }
        _ => exported_files(),
    };
    paths.sort();
    paths.into_iter().filter_map(|path| Some((path.clone(), fs::read_to_string(root().join(path)).ok()?))).collect()
}

/// Files below the root that the root's `.gitignore` does not name.
fn exported_files() -> Vec<PathBuf> {
    let ignored: Vec<String> = read(".gitignore").lines().map(|line| line.trim_matches('/').to_owned()).collect();
    let mut files = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).expect("the working tree can be read") {
            let entry = entry.expect("the working tree can be read");
            let path = folder.join(entry.file_name());
            let kind = entry.file_type().expect("the kind of an entry is known");
            if path == Path::new(".git") || ignored.iter().any(|pattern| path.ends_with(pattern)) {
                continue;
            }
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file() {
                files.push(path);
            }
        }
    }
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
