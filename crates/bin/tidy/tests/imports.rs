//! Imports between the files of a crate, and that they run in no circles.
//!
//! Promise: a name counts as imported from the file that defines it, also where modules above re-export it. Not here: the crates that
//! one crate may use (`crates`); the names that a file uses from the modules that it lies in, which are its own room; tests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use tidy::{code_lines, crate_folders, report, sources};

type ModulePath = Vec<String>;

#[test]
fn files_do_not_import_each_other_in_circles() {
    let mut problems = Vec::new();
    for folder in crate_folders().values() {
        let modules = modules(folder);
        let imports = imports(&modules);
        for (module, others) in circles(&imports) {
            let by_way_of: Vec<String> = others.iter().map(|other| other.join("::")).collect();
            problems.push(format!(
                "{}: in a circle of imports by way of {by_way_of:?}; move what both need to a third file",
                modules[&module].path.display()
            ));
        }
    }
    report(&problems);
}

/// Folders may import each other in circles where no files do.
#[test]
fn folders_do_not_import_each_other_in_circles() {
    let mut problems = Vec::new();
    for (name, folder) in crate_folders() {
        let mut by_folder: BTreeMap<ModulePath, BTreeSet<ModulePath>> = BTreeMap::new();
        for (module, imported) in imports(&modules(&folder)) {
            let top = |module: &ModulePath| module.first().map(|first| vec![first.clone()]);
            let Some(home) = top(&module) else { continue };
            let others = imported.iter().filter_map(top).filter(|other| *other != home);
            by_folder.entry(home.clone()).or_default().extend(others);
        }
        problems.extend(circles(&by_folder).map(|(module, others)| {
            format!(
                "{name}: `{}` is in a circle of imports by way of {others:?}; move what both need to a third",
                module[0]
            )
        }));
    }
    report(&problems);
}

/// A file of a crate.
struct Module {
    path: PathBuf,
    /// Its code, without comments, texts and tests.
    code: String,
    /// Names that it re-exports, each with the path behind it.
    exports: BTreeMap<String, ModulePath>,
}

/// The modules of a crate that have files of their own, tests left out.
fn modules(folder: &Path) -> BTreeMap<ModulePath, Module> {
    let source = folder.join("src");
    let mut modules = BTreeMap::new();
    for (path, text) in sources("rs") {
        let Ok(inner) = path.strip_prefix(&source) else { continue };
        let mut module: ModulePath =
            inner.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
        if module.iter().any(|part| part == "tests" || part.ends_with("_tests") || part == "bin") {
            continue;
        }
        module.pop_if(|last| ["lib", "main", "mod"].contains(&last.as_str()));
        let text = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
        let code = code_lines(text).map(|(_, line)| line).collect::<Vec<_>>().join("\n");
        modules.insert(module, Module { path, code, exports: BTreeMap::new() });
    }
    let known: BTreeSet<ModulePath> = modules.keys().cloned().collect();
    for (module, file) in &mut modules {
        for use_tree in file.code.split(';').filter_map(|statement| {
            let (visibility, tree) = statement.rsplit_once("use ")?;
            visibility.rsplit('\n').next().is_some_and(|line| line.starts_with("pub")).then_some(tree)
        }) {
            for leaf in leaves(use_tree) {
                if let (Some(path), Some(name)) = (absolute(&leaf, module, &known), leaf.last()) {
                    file.exports.insert(name.clone(), path);
                }
            }
        }
    }
    modules
}

/// For each module the others that it imports from, but for those that it lies in.
fn imports(modules: &BTreeMap<ModulePath, Module>) -> BTreeMap<ModulePath, BTreeSet<ModulePath>> {
    let known: BTreeSet<ModulePath> = modules.keys().cloned().collect();
    modules
        .iter()
        .map(|(module, file)| {
            let paths = paths(&file.code).into_iter().filter_map(|leaf| absolute(&leaf, module, &known));
            let homes = paths.map(|path| home_of(&path, modules));
            (module.clone(), homes.filter(|home| !module.starts_with(home)).collect())
        })
        .collect()
}

/// The modules that reach themselves, each with the others of its circles.
fn circles(
    imports: &BTreeMap<ModulePath, BTreeSet<ModulePath>>,
) -> impl Iterator<Item = (ModulePath, BTreeSet<ModulePath>)> {
    let reached: BTreeMap<&ModulePath, BTreeSet<&ModulePath>> = imports
        .keys()
        .map(|start| {
            let (mut reached, mut open) = (BTreeSet::new(), vec![start]);
            while let Some(module) = open.pop() {
                open.extend(imports.get(module).into_iter().flatten().filter(|next| reached.insert(*next)));
            }
            (start, reached)
        })
        .collect();
    let circles = imports.keys().filter(|module| reached[module].contains(module)).map(|module| {
        let others = reached[module].iter().filter(|other| **other != module);
        let others = others.filter(|other| reached.get(*other).is_some_and(|back| back.contains(module)));
        (module.clone(), others.map(|other| (*other).clone()).collect())
    });
    circles.collect::<Vec<_>>().into_iter()
}

/// The module that defines the item of a path, re-exports followed.
fn home_of(path: &[String], modules: &BTreeMap<ModulePath, Module>) -> ModulePath {
    let mut path = path.to_vec();
    // As many steps as re-exports can follow each other.
    for _ in 0..8 {
        let depth = (0..=path.len()).rev().find(|depth| modules.contains_key(&path[..*depth])).unwrap_or(0);
        let (home, rest) = path.split_at(depth);
        let exported = rest.first().and_then(|name| modules.get(home)?.exports.get(name));
        match exported.filter(|exported| **exported != path) {
            Some(exported) => path = [exported, &rest[1..]].concat(),
            None => return home.to_vec(),
        }
    }
    path
}

/// A path as seen from the crate's root; `None` if it leads out of the crate.
fn absolute(path: &[String], module: &[String], known: &BTreeSet<ModulePath>) -> Option<ModulePath> {
    let (first, rest) = path.split_first()?;
    let supers = path.iter().take_while(|part| *part == "super").count();
    match first.as_str() {
        "crate" => Some(rest.to_vec()),
        "self" => Some([module, rest].concat()),
        "super" => Some([module.get(..module.len().checked_sub(supers)?)?, &path[supers..]].concat()),
        _ => Some([module, path].concat()).filter(|path| known.contains(&path[..=module.len()])),
    }
}

/// All paths of code with more than one part, groups in braces taken apart.
fn paths(code: &str) -> Vec<ModulePath> {
    let mut paths = Vec::new();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    for (at, _) in code.match_indices("::") {
        let first = &code[code[..at].rfind(|c| !is_word(c)).map_or(0, |end| end + 1)..at];
        let before = &code[..at - first.len()];
        if !first.is_empty() && !before.ends_with("::") && !before.ends_with('$') {
            paths.extend(leaves(&code[at - first.len()..]));
        }
    }
    paths
}

/// The paths of a tree of a `use` that `text` begins with: `a::{b, c::{d, e}}`.
fn leaves(text: &str) -> Vec<ModulePath> {
    let text = text.trim_start();
    if let Some(group) = text.strip_prefix('{') {
        return items(group).flat_map(leaves).collect();
    }
    let word: String = text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    match text[word.len()..].strip_prefix("::") {
        _ if word.is_empty() => Vec::new(),
        Some(rest) if rest.starts_with(|c: char| c.is_alphanumeric() || "_{".contains(c)) => {
            leaves(rest).into_iter().map(|leaf| [vec![word.clone()], leaf].concat()).collect()
        }
        _ => vec![vec![word]],
    }
}

/// The texts between commas up to the brace that closes the group.
fn items(group: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    let end = group.find(|c: char| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        depth < 0
    });
    let mut depth = 0;
    group[..end.unwrap_or(0)].split(move |c: char| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    })
}
