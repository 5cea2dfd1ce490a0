//! Who may depend on whom: crates as docs/ARCHITECTURE.md says, modules without circles, one compiler.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use tidy::{all_files, code_lines, read, report, root, sources};

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

/// The program has a command that `serve` has nothing to do with: a plan, which is simulated.
#[test]
fn only_the_command_that_needs_it_uses_the_simulator() {
    let source = Path::new("crates/isocast/src");
    let mut problems = Vec::new();
    for (path, text) in sources("rs").into_iter().filter(|(path, _)| path.starts_with(source)) {
        let names = |line: &str| line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "sim");
        let uses = code_lines(&text).filter(|(_, line)| names(line) && !path.starts_with(source.join("plan")));
        problems.extend(uses.map(|(number, _)| format!("{}:{number}: `sim` is for one command alone", path.display())));
    }
    report(&problems);
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
