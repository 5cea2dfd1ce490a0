//! The files and documents of the repository, as its checks read them: those in `tests/` here, which need nothing of the product and
//! so are quickly built, and those of other crates that compare a program with its documents.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The root of the repository.
pub fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.."))
}

/// The folder of each of our crates, relative to the root: `crates/FLOOR/NAME`.
pub fn crate_folders() -> BTreeMap<String, PathBuf> {
    let folders = |folder: &Path| {
        let entries = fs::read_dir(root().join(folder)).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let names = entries.map(|entry| entry.expect("the working tree can be read").file_name());
        let paths: Vec<PathBuf> = names.map(|name| folder.join(name)).collect();
        paths.into_iter().filter(|path| root().join(path).is_dir())
    };
    let crates = folders(Path::new("crates")).flat_map(|floor| folders(&floor));
    let crates = crates.filter(|path| root().join(path).join("Cargo.toml").exists());
    crates.filter_map(|path| Some((path.file_name()?.to_string_lossy().into_owned(), path))).collect()
}

/// A file that every check may rely on.
pub fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path} is needed: {error}"))
}

/// Every text file of the repository, relative to its root: tracked files, and new files that git does not ignore. In an exported
/// archive, which has no repository and nothing built or fetched yet, every file.
pub fn all_files() -> Vec<(PathBuf, String)> {
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

/// The text files with names that end in `.extension`.
pub fn sources(extension: &str) -> Vec<(PathBuf, String)> {
    let wanted = |path: &Path| path.extension().is_some_and(|found| found == extension);
    all_files().into_iter().filter(|(path, _)| wanted(path)).collect()
}

/// Lines with their numbers, without comments, attributes of lints and texts in quotes.
pub fn code_lines(text: &str) -> impl Iterator<Item = (usize, String)> {
    text.lines().enumerate().map(|(index, line)| {
        let code = line.split("//").next().unwrap_or("");
        (index + 1, code.split('"').step_by(2).collect::<Vec<_>>().join("\"\""))
    })
}

/// Fails with all problems that a check found.
pub fn report(problems: &[String]) {
    assert!(problems.is_empty(), "\n  {}\n", problems.join("\n  "));
}

/// Lines with their numbers that are not in a ``` block.
pub fn outside_fences(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let fence = line.starts_with("```");
        fenced ^= fence;
        (!fenced && !fence).then_some((index + 1, line))
    })
}

/// In code of a document (between back-quotes, or a line of a ``` block): the word after each `command`.
pub fn words_after(text: &str, command: &str) -> impl Iterator<Item = (usize, String)> {
    let prose: BTreeSet<usize> = outside_fences(text).map(|(number, _)| number).collect();
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let code: Vec<&str> =
            if prose.contains(&(index + 1)) { line.split('`').skip(1).step_by(2).collect() } else { vec![line] };
        for piece in code {
            let Some(rest) = piece.trim_start().trim_start_matches("sudo ").strip_prefix(command) else { continue };
            let word: String = rest.chars().take_while(|c| c.is_ascii_lowercase() || *c == '-').collect();
            if !word.is_empty() && !word.starts_with('-') {
                found.push((index + 1, word));
            }
        }
    }
    found.into_iter()
}
