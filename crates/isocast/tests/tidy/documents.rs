//! What documents say: links, paths, commands and citations that lead somewhere; the same in both languages.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{all_files, read, report, root, sources};

#[test]
fn no_path_of_one_machine_is_written_down() {
    let banned = [("/wor", "k/"), ("/roo", "t/"), ("../sha", "red")].map(|(a, b)| format!("{a}{b}"));
    let mut problems = Vec::new();
    for (path, text) in all_files() {
        for (index, line) in text.lines().enumerate() {
            for word in banned.iter().filter(|word| holds_path(line, word)) {
                problems.push(format!(
                    "{}:{}: `{word}` exists on one machine only; use a relative path",
                    path.display(),
                    index + 1
                ));
            }
        }
    }
    report(&problems);
}

#[test]
fn sources_are_cited_by_names_that_the_reader_can_look_up() {
    // Spelled in two parts, so that this file does not find itself.
    let banned = [("seed ", "00"), ("Seed ", "00"), ("DESIGN ", "§"), ("STYLE ", "§")].map(|(a, b)| format!("{a}{b}"));
    let mut problems = Vec::new();
    // Raw results keep the titles under which they were measured, and tables made from them as well.
    for (path, text) in all_files().into_iter().filter(|(path, _)| !path.starts_with("docs/results")) {
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.starts_with('|')) {
            for word in banned.iter().filter(|word| line.contains(word.as_str())) {
                problems.push(format!(
                    "{}:{}: `{word}…` cannot be looked up here; cite a name of docs/references.md",
                    path.display(),
                    index + 1
                ));
            }
        }
    }
    report(&problems);
}

/// Results are raw; the pictures that the READMEs show are kept with them, any other can be drawn again. Folders from before this was
/// held stay as they are: what was measured is not changed in place.
#[test]
fn no_picture_is_kept_that_the_readme_does_not_show() {
    let readme = read("README.md");
    let pictures = all_files().into_iter().map(|(path, _)| path).filter(|path| path.starts_with("docs/results"));
    let drawn = |path: &PathBuf| path.extension().is_some_and(|end| ["svg", "html"].iter().any(|drawn| end == *drawn));
    let problems: Vec<String> = pictures
        .filter(|path| drawn(path) && !readme.contains(&path.display().to_string()))
        .filter(|path| path.as_path() >= Path::new("docs/results/2026-11-26"))
        .map(|path| format!("{}: it can be made again from the raw results; remove it", path.display()))
        .collect();
    report(&problems);
}

#[test]
fn links_in_the_documents_resolve() {
    let mut problems = Vec::new();
    for (path, text) in sources("md") {
        let folder = path.parent().unwrap_or(Path::new(""));
        for (number, line) in outside_fences(&text) {
            for target in link_targets(line) {
                let file = target.split('#').next().unwrap_or("");
                let remote = target.contains("://") || target.starts_with("mailto:");
                if !remote && !file.is_empty() && !root().join(folder).join(file).exists() {
                    problems.push(format!(
                        "{}:{number}: the link `{target}` leads nowhere; correct or remove it",
                        path.display()
                    ));
                }
            }
        }
    }
    report(&problems);
}

/// `crate::module::item` in the documents about the code.
#[test]
fn paths_of_code_in_the_documents_exist() {
    let mut problems = Vec::new();
    for (path, text) in sources("md").into_iter().filter(|(path, _)| path.parent() == Some(Path::new("docs"))) {
        for (number, line) in outside_fences(&text) {
            for code in line.split('`').skip(1).step_by(2).filter(|code| code.contains("::") && !code.contains(' ')) {
                if let Err(missing) = item_exists(code) {
                    problems.push(format!("{}:{number}: `{code}`: there is no `{missing}` in it", path.display()));
                }
            }
        }
    }
    report(&problems);
}

#[test]
fn commands_in_the_documents_exist() {
    let makefile = read("Makefile");
    let targets: BTreeSet<&str> = makefile
        .lines()
        .filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()))
        .filter_map(|line| line.split_once(':').map(|(target, _)| target))
        .collect();
    let help = Command::new(env!("CARGO_BIN_EXE_isocast")).arg("--help").output().expect("the program was just built");
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    let subcommands: BTreeSet<&str> = help
        .lines()
        .skip_while(|line| !line.starts_with("Commands:"))
        .filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next())
        .collect();
    let mut problems = Vec::new();
    for (path, text) in sources("md") {
        if path.starts_with("docs/decisions") {
            continue;
        }
        for (number, word) in words_after(&text, "make ").filter(|(_, word)| !targets.contains(word.as_str())) {
            problems.push(format!("{}:{number}: `make {word}` is not a target of the Makefile", path.display()));
        }
        for (number, word) in words_after(&text, "isocast ").filter(|(_, word)| !subcommands.contains(word.as_str())) {
            problems
                .push(format!("{}:{number}: `isocast {word}` is not a subcommand (`isocast --help`)", path.display()));
        }
    }
    report(&problems);
}

#[test]
fn the_two_readmes_have_the_same_sections_and_commands() {
    let (english, japanese) = (read("README.md"), read("README.ja.md"));
    let levels = |text: &str| -> Vec<usize> {
        outside_fences(text)
            .filter(|(_, line)| line.starts_with('#'))
            .map(|(_, line)| line.find(' ').unwrap_or(0))
            .collect()
    };
    assert_eq!(levels(&english), levels(&japanese), "give README.md and README.ja.md the same sections");
    let commands = |text: &str| -> Vec<String> {
        let fenced: BTreeSet<usize> = outside_fences(text).map(|(number, _)| number).collect();
        text.lines()
            .enumerate()
            .filter(|(index, line)| !fenced.contains(&(index + 1)) && !line.starts_with("```"))
            .map(|(_, line)| line.split(" #").next().unwrap_or("").trim().to_owned())
            .collect()
    };
    assert_eq!(commands(&english), commands(&japanese), "give README.md and README.ja.md the same commands");
}

#[test]
fn every_decision_has_a_number_of_its_own() {
    let mut problems = Vec::new();
    let mut taken: BTreeMap<String, PathBuf> = BTreeMap::new();
    for (path, text) in sources("md").into_iter().filter(|(path, _)| path.starts_with("docs/decisions")) {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let number: String = name.chars().take(4).collect();
        if number != "0000" && !text.starts_with(&format!("# {number}: ")) {
            problems.push(format!("{}:1: begin with `# {number}: ` and the decision as a sentence", path.display()));
        }
        if let Some(other) = taken.insert(number, path.clone()) {
            problems.push(format!("{} and {} have the same number; take the next", path.display(), other.display()));
        }
    }
    report(&problems);
}

#[test]
fn the_changelog_has_an_entry_for_what_is_not_released() {
    let text = read("CHANGELOG.md");
    let entries =
        text.lines().skip_while(|line| *line != "## Unreleased").filter(|line| line.starts_with("- ")).count();
    assert!(entries > 0, "CHANGELOG.md needs a section `## Unreleased` with what a user sees of the changes");
}

/// Whether the modules of a path are there, and the last of them has an item of the name that follows. What begins with no crate of
/// ours is not looked for.
fn item_exists(code: &str) -> Result<(), String> {
    let mut parts = code.split("::");
    let mut folder = root().join("crates").join(parts.next().unwrap_or_default()).join("src");
    if !folder.exists() {
        return Ok(());
    }
    let mut file = folder.join("lib.rs");
    for part in parts {
        let (as_file, as_folder) = (folder.join(format!("{part}.rs")), folder.join(part).join("mod.rs"));
        folder = folder.join(part);
        file = match (as_file.exists(), as_folder.exists()) {
            (true, _) => as_file,
            (_, true) => as_folder,
            _ => {
                let text = fs::read_to_string(&file).unwrap_or_default();
                let words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
                let keywords = ["fn", "struct", "enum", "trait", "const", "type", "mod"];
                let is_defined = words.windows(2).any(|pair| keywords.contains(&pair[0]) && pair[1] == part);
                return if is_defined { Ok(()) } else { Err(part.to_owned()) };
            }
        };
    }
    Ok(())
}

/// Lines with their numbers that are not in a ``` block.
fn outside_fences(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let fence = line.starts_with("```");
        fenced ^= fence;
        (!fenced && !fence).then_some((index + 1, line))
    })
}

/// The targets of `[text](target)` in a line.
fn link_targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

/// In code of a document (between back-quotes, or a line of a ``` block): the word after each `command`.
fn words_after(text: &str, command: &str) -> impl Iterator<Item = (usize, String)> {
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

/// Whether `line` names the folder `path` itself, not a longer path that ends in the same word.
fn holds_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-/}".contains(c)))
}
