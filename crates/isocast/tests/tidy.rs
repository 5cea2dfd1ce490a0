//! Checks of the house that no compiler makes: who may depend on whom, where `unsafe` may stand, sizes, heads, links.
//!
//! Promise: every failure names the file and line, and says what to do. Reads only the working tree and
//! `cargo metadata`; needs no network. The table it enforces is in docs/ARCHITECTURE.md.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file longer than this has a seam somewhere; the style asks for less (600).
const LINES_MAX: usize = 800;
/// The crate that may hold `unsafe`, each block with its SAFETY sentence.
const UNSAFE_CRATE: &str = "kernel";
/// What is generated or fetched.
const SKIPPED: [&str; 8] =
    [".git", "target", "demo", "state", "web/node_modules", "web/dist", "fuzz/target", "tests/players/node_modules"];

#[test]
fn crates_depend_as_the_architecture_says() {
    let table = crate_table();
    let mut problems = Vec::new();
    for (name, (ours, outside)) in dependencies() {
        let Some(row) = table.get(&name) else {
            problems.push(format!(
                "crate `{name}` is missing in the table of docs/ARCHITECTURE.md; add a row with its fact"
            ));
            continue;
        };
        for edge in ours.difference(&row.ours) {
            problems.push(format!(
                "crates/{name}/Cargo.toml depends on `{edge}`, which the table of docs/ARCHITECTURE.md does not allow; \
                 remove the edge, or add it to the table together with a decision note (docs/decisions)"
            ));
        }
        for edge in outside.difference(row.outside.as_ref().unwrap_or(&outside)) {
            problems.push(format!(
                "crates/{name}/Cargo.toml depends on `{edge}` from outside, but the table of docs/ARCHITECTURE.md keeps \
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

/// What the server's program is linked from, by way of others too.
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
    for tool in ["isocast-lab", "plotters", "indicatif"] {
        assert!(!linked.contains(tool), "`isocast` is linked with `{tool}`: it belongs to `isocast-lab` alone");
    }
}

/// Modules of a crate, each with the modules it imports. A folder is one module.
#[test]
fn modules_do_not_import_each_other_in_circles() {
    let mut problems = Vec::new();
    for name in dependencies().keys() {
        let mut imports = module_imports(name);
        // What imports nothing that is left is in no circle, nor is what nothing left imports.
        loop {
            let left: BTreeSet<String> = imports.keys().cloned().collect();
            let imported: BTreeSet<String> = imports.values().flatten().cloned().collect();
            imports.retain(|module, of| imported.contains(module) && of.iter().any(|other| left.contains(other)));
            if imports.len() == left.len() {
                break;
            }
        }
        let left: BTreeSet<String> = imports.keys().cloned().collect();
        problems.extend(imports.iter().map(|(module, of)| {
            let of: Vec<&String> = of.intersection(&left).collect();
            format!(
                "crates/{name}: `{module}` is in a circle of imports, by way of {of:?}; move what both need to a third"
            )
        }));
    }
    report(&problems);
}

#[test]
fn unsafe_stands_only_where_it_may() {
    let mut problems = Vec::new();
    for (path, text) in sources("rs") {
        let home = path.components().nth(1).map(|part| part.as_os_str().to_string_lossy().into_owned());
        if home.is_some_and(|name| name == UNSAFE_CRATE) {
            continue;
        }
        for (number, line) in code_lines(&text) {
            if line.split(|c: char| !(c.is_alphanumeric() || "_-".contains(c))).any(|word| word == "unsafe") {
                problems.push(format!(
                    "{}:{number}: `unsafe` stands only in crate `{UNSAFE_CRATE}`; move it there",
                    path.display()
                ));
            }
        }
    }
    report(&problems);
}

/// What an associated type is called is not ours to choose; those are indented and `type`s.
#[test]
fn one_type_name_has_one_meaning() {
    let mut defined: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (path, text) in sources("rs") {
        if path.components().nth(2).is_none_or(|part| part.as_os_str() != "src") {
            continue;
        }
        for (number, line) in code_lines(&text) {
            let line = line.trim_end();
            let bare = line.trim_start();
            let declared = bare.strip_prefix("pub").map_or(bare, |rest| {
                rest.strip_prefix('(').and_then(|rest| rest.split_once(')')).map_or(rest, |(_, rest)| rest).trim_start()
            });
            let Some((keyword @ ("struct" | "enum" | "trait" | "type"), rest)) = declared.split_once(' ') else {
                continue;
            };
            if keyword == "type" && bare != line {
                continue;
            }
            let name: String = rest.chars().take_while(|c| c.is_alphanumeric()).collect();
            defined.entry(name).or_default().push(format!("{}:{number}", path.display()));
        }
    }
    assert!(defined.len() > 500, "{} types are not all", defined.len());
    let problems: Vec<String> = defined
        .into_iter()
        .filter(|(_, places)| places.len() > 1)
        .map(|(name, places)| format!("`{name}` is defined at {}; give each a name of its own", places.join(", ")))
        .collect();
    report(&problems);
}

#[test]
fn nothing_is_left_unfinished() {
    // Spelled in two parts, so that this file does not find itself.
    let banned =
        [("tod", "o!("), ("unimplement", "ed!("), ("#[igno", "re"), ("db", "g!(")].map(|(a, b)| format!("{a}{b}"));
    let mut problems = Vec::new();
    for (path, text) in sources("rs") {
        for (number, line) in code_lines(&text) {
            for word in banned.iter().filter(|word| line.contains(word.as_str())) {
                problems
                    .push(format!("{}:{number}: `{word}…` is not for main; finish it or take it out", path.display()));
            }
        }
    }
    report(&problems);
}

#[test]
fn no_file_is_too_long() {
    let mut problems = Vec::new();
    for (path, text) in ["rs", "ts", "css"].into_iter().flat_map(sources) {
        let lines = text.lines().count();
        if lines > LINES_MAX {
            problems
                .push(format!("{}: {lines} lines, {LINES_MAX} at most; find the seam and split it", path.display()));
        }
    }
    report(&problems);
}

#[test]
fn every_file_says_what_it_is() {
    let mut problems = Vec::new();
    for (path, text) in sources("rs") {
        let head = text.lines().next().unwrap_or("");
        if !head.starts_with("//!") || head.len() < 12 || head.contains("filled in by the commits") {
            problems
                .push(format!("{}:1: begin with `//! ` and a sentence that says what this module is", path.display()));
        }
    }
    for (path, text) in sources("ts") {
        if !text.starts_with("//") {
            problems.push(format!("{}:1: begin with `// ` and a sentence that says what this file is", path.display()));
        }
    }
    for (path, text) in all_files().into_iter().filter(|(path, _)| path.starts_with("scripts")) {
        let mut lines = text.lines();
        if !lines.next().is_some_and(|line| line.starts_with("#!"))
            || !lines.next().is_some_and(|line| line.starts_with("# "))
        {
            problems.push(format!(
                "{}:1: begin with `#!` and, on line 2, a comment that says what it does",
                path.display()
            ));
        }
    }
    report(&problems);
}

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

#[test]
fn the_changelog_has_an_entry_for_what_is_not_released() {
    let text = read("CHANGELOG.md");
    let entries =
        text.lines().skip_while(|line| *line != "## Unreleased").filter(|line| line.starts_with("- ")).count();
    assert!(entries > 0, "CHANGELOG.md needs a section `## Unreleased` with what a user sees of the changes");
}

/// What the table of docs/ARCHITECTURE.md allows one crate.
struct Row {
    ours: BTreeSet<String>,
    /// Crates from outside; `None`: any.
    outside: Option<BTreeSet<String>>,
}

/// The rows between the markers: `| crate | fact | ours | outside |`.
fn crate_table() -> BTreeMap<String, Row> {
    let text = read("docs/ARCHITECTURE.md");
    let table = text.split("<!-- crates:begin -->").nth(1).and_then(|rest| rest.split("<!-- crates:end -->").next());
    let table =
        table.expect("docs/ARCHITECTURE.md keeps the table between <!-- crates:begin --> and <!-- crates:end -->");
    let names = |cell: &str| -> BTreeSet<String> {
        cell.split('`').skip(1).step_by(2).flat_map(str::split_whitespace).map(str::to_owned).collect()
    };
    table
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            assert_eq!(cells.len(), 4, "docs/ARCHITECTURE.md: four cells are needed in `{line}`");
            let outside = (cells[3] != "any").then(|| names(cells[3]));
            (cells[0].trim_matches('`').to_owned(), Row { ours: names(cells[2]), outside })
        })
        .collect()
}

/// Of each of our crates: what it is built from, ours and from outside. What only tests use is free.
fn dependencies() -> BTreeMap<String, (BTreeSet<String>, BTreeSet<String>)> {
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
            let built = |edge: &&serde_json::Value| edge["kind"].as_str() != Some("dev");
            let edges = package["dependencies"].as_array().expect("a package lists dependencies");
            let (ours, outside): (Vec<_>, Vec<_>) =
                edges.iter().filter(built).partition(|edge| edge["path"].is_string());
            let names = |edges: Vec<&serde_json::Value>| {
                edges.iter().filter_map(|edge| edge["name"].as_str()).map(str::to_owned).collect()
            };
            (package["name"].as_str().unwrap_or("").to_owned(), (names(ours), names(outside)))
        })
        .collect()
}

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

/// The modules right below the root of a crate, each with those that it imports, tests left out.
fn module_imports(name: &str) -> BTreeMap<String, BTreeSet<String>> {
    let source = Path::new("crates").join(name).join("src");
    let mut code: BTreeMap<String, Vec<(usize, String)>> = BTreeMap::new();
    let mut exported = BTreeMap::new();
    for (path, text) in sources("rs") {
        let Ok(inner) = path.strip_prefix(&source) else { continue };
        let parts: Vec<String> = inner.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        let text = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
        let text = code_lines(text).map(|(_, line)| line).collect::<Vec<_>>().join("\n");
        let module = parts[0].trim_end_matches(".rs").to_owned();
        match module.as_str() {
            "lib" | "main" => exported = root_exports(&text),
            _ if parts.iter().any(|part| part.ends_with("tests.rs") || part == "tests") => {}
            // By so many `super` a file reaches the root.
            _ => code.entry(module).or_default().push((parts.iter().filter(|part| *part != "mod.rs").count(), text)),
        }
    }
    let known: BTreeSet<String> = code.keys().cloned().collect();
    code.into_iter()
        .map(|(module, files)| {
            let named = files.iter().flat_map(|(depth, text)| {
                ["crate::".to_owned(), "super::".repeat(*depth)].into_iter().flat_map(|root| names_behind(text, &root))
            });
            let homes = named.filter_map(|name| exported.get(&name).cloned().or(Some(name)));
            let imports = homes.filter(|home| known.contains(home) && *home != module).collect();
            (module, imports)
        })
        .collect()
}

/// What the root of a crate gives on from its modules: each name with its module.
fn root_exports(text: &str) -> BTreeMap<String, String> {
    let uses = text.split(';').filter_map(|statement| statement.split_once("use ")?.1.split_once("::"));
    let names = uses.flat_map(|(module, names)| {
        let names = names.split([',', '{', '}']).map(|name| name.trim().to_owned());
        names.map(|name| (name, module.trim().to_owned()))
    });
    names.collect()
}

/// The first component of each path that follows `root`, in `root::a::b` as in `root::{a, b::{c, d}}`.
fn names_behind(text: &str, root: &str) -> Vec<String> {
    let word = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let mut names = Vec::new();
    for (at, _) in text.match_indices(root) {
        if text[..at].ends_with("::") {
            continue;
        }
        let rest = &text[at + root.len()..];
        let Some(group) = rest.strip_prefix('{') else {
            names.push(word(rest));
            continue;
        };
        let mut depth = 0;
        let end = group.find(|c: char| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            depth < 0
        });
        let mut depth = 0;
        let items = group[..end.unwrap_or(0)].split(|c: char| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            c == ',' && depth == 0
        });
        names.extend(items.map(|item| word(item.trim())));
    }
    names
}

/// Lines with their numbers, without comments, attributes of lints and texts in quotes.
fn code_lines(text: &str) -> impl Iterator<Item = (usize, String)> {
    text.lines().enumerate().map(|(index, line)| {
        let code = line.split("//").next().unwrap_or("");
        (index + 1, code.split('"').step_by(2).collect::<Vec<_>>().join("\"\""))
    })
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

fn report(problems: &[String]) {
    assert!(problems.is_empty(), "\n  {}\n", problems.join("\n  "));
}
