//! Statements of documents: links, paths, commands and citations that lead somewhere; the same in both languages.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use tidy::{all_files, crate_folders, outside_fences, read, report, root, sources, words_after};

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

/// Released results are raw figures, and of the files made from them only the tables and the picture that the README shows. Later
/// runs write elsewhere.
#[test]
fn results_are_those_that_the_readme_cites() {
    let readme = read("README.md");
    let mut problems = Vec::new();
    for (path, _) in all_files().into_iter().filter(|(path, _)| path.starts_with("docs/results")) {
        let folder = path.parent().unwrap_or(Path::new("")).display().to_string();
        if !readme.contains(&format!("({folder}/")) {
            problems.push(format!("{}: README.md cites no result of this folder; remove it", path.display()));
        } else if path.extension().is_none_or(|end| end != "json") && !readme.contains(&format!("({})", path.display()))
        {
            problems.push(format!("{}: it can be made again from the raw results; remove it", path.display()));
        }
    }
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
fn targets_of_make_in_the_documents_exist() {
    let makefile = read("Makefile");
    let targets: BTreeSet<&str> = makefile
        .lines()
        .filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()))
        .filter_map(|line| line.split_once(':').map(|(target, _)| target))
        .collect();
    let mut problems = Vec::new();
    for (path, text) in sources("md") {
        if path.starts_with("docs/decisions") {
            continue;
        }
        for (number, word) in words_after(&text, "make ").filter(|(_, word)| !targets.contains(word.as_str())) {
            problems.push(format!("{}:{number}: `make {word}` is not a target of the Makefile", path.display()));
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
fn the_changelog_has_unreleased_entries() {
    let text = read("CHANGELOG.md");
    let entries =
        text.lines().skip_while(|line| *line != "## Unreleased").filter(|line| line.starts_with("- ")).count();
    assert!(entries > 0, "CHANGELOG.md needs a section `## Unreleased` with what a user sees of the changes");
}

/// Checks that the modules of a path exist, and that the last of them has an item of the name that follows. Paths that begin with no
/// crate of ours pass unchecked.
fn item_exists(code: &str) -> Result<(), String> {
    let mut parts = code.split("::");
    let Some(folder) = crate_folders().remove(parts.next().unwrap_or_default()) else { return Ok(()) };
    let mut folder = root().join(folder).join("src");
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

/// The targets of `[text](target)` in a line.
fn link_targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

/// True if `line` names the folder `path` itself, not a longer path that ends in the same word.
fn holds_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-/}".contains(c)))
}
