//! Form of sources: `unsafe`, names of types, sizes, heads, code that is not for main.

use std::collections::BTreeMap;
use std::path::Path;

use tidy::{all_files, code_lines, report, sources};

/// A file longer than this has a seam somewhere; the style asks for less (600).
const LINES_MAX: usize = 800;
/// Lines of `impl` that a type may have, over all files of its crate: more is an object with fields that too many functions touch.
const IMPL_LINES_MAX: usize = 600;
/// Crates with constants that decide when a disk or a socket is served.
const SCHEDULING: [&str; 2] = ["crates/core/schedule/src", "crates/plane/dataplane/src"];
/// The crate that may hold `unsafe`, each block with its SAFETY sentence.
const UNSAFE_CRATE: &str = "kernel";

#[test]
fn unsafe_stands_only_where_it_may() {
    let mut problems = Vec::new();
    for (path, text) in sources("rs") {
        let home = path.components().nth(2).map(|part| part.as_os_str().to_string_lossy().into_owned());
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

/// The names of associated types are not ours to choose; those are indented and `type`s.
#[test]
fn one_type_name_has_one_meaning() {
    let mut defined: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (path, text) in sources("rs") {
        if path.components().nth(3).is_none_or(|part| part.as_os_str() != "src") {
            continue;
        }
        for (number, line) in code_lines(&text) {
            let line = line.trim_end();
            let bare = line.trim_start();
            let Some((keyword @ ("struct" | "enum" | "trait" | "type"), rest)) =
                without_visibility(bare).split_once(' ')
            else {
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

/// A line without the `pub` or `pub(…)` that it begins with.
fn without_visibility(line: &str) -> &str {
    line.strip_prefix("pub").map_or(line, |rest| {
        rest.strip_prefix('(').and_then(|rest| rest.split_once(')')).map_or(rest, |(_, rest)| rest).trim_start()
    })
}

/// Answers for requests that cannot be served now, and for failures of the server, are made in `problem.rs` alone, complete with all
/// fields of its table.
#[test]
fn failures_become_answers_in_one_table() {
    let source = Path::new("crates/front/http/src");
    let (mut problems, mut found) = (Vec::new(), 0);
    for (path, text) in sources("rs").into_iter().filter(|(path, _)| path.starts_with(source)) {
        let text = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
        for (number, _) in code_lines(text).filter(|(_, line)| {
            ["SERVICE_UNAVAILABLE", "INTERNAL_SERVER_ERROR"].iter().any(|status| line.contains(status))
        }) {
            found += 1;
            if path != source.join("problem.rs") {
                problems.push(format!("{}:{number}: make this answer in `problem`", path.display()));
            }
        }
    }
    assert!(found > 3, "{found} are not all");
    report(&problems);
}

/// Only the server's own work has a permit without a principal (decision 0064).
#[test]
fn front_ends_ask_for_permits() {
    let mut problems = Vec::new();
    for (path, text) in sources("rs").into_iter().filter(|(path, _)| path.starts_with("crates/front")) {
        for (number, line) in code_lines(&text) {
            if line.contains("::of_configuration(") || line.contains("::of_server(") {
                problems.push(format!("{}:{number}: ask `service` for this permit", path.display()));
            }
        }
    }
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

/// A number of the schedule and of the plane is measured, has a source, follows from others, or is chosen. Tags need no origin.
#[test]
fn each_number_of_the_schedule_and_the_plane_has_an_origin() {
    let origins = ["ecision 0", "easured", "RFC ", "Chosen", "Follows"];
    let (mut problems, mut found) = (Vec::new(), 0);
    for (path, text) in
        sources("rs").into_iter().filter(|(path, _)| SCHEDULING.iter().any(|crate_of| path.starts_with(crate_of)))
    {
        let text = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
        let mut said = String::new();
        for (index, line) in text.lines().enumerate().filter(|_| !path.to_string_lossy().ends_with("tests.rs")) {
            let declared = without_visibility(line).strip_prefix("const ");
            if let Some((name, value)) = declared.and_then(|rest| rest.split_once(": "))
                && !name.contains(' ')
                && !value.contains("::MAX")
                && name != "_"
                && !name.ends_with("_TAG")
            {
                found += 1;
                if !origins.iter().any(|origin| said.contains(origin)) {
                    problems.push(format!(
                        "{}:{}: say where the value of `{name}` is from: a decision, a measurement, or that it is chosen",
                        path.display(),
                        index + 1
                    ));
                }
            }
            // The comment of one holds for those that follow it directly.
            match line.strip_prefix("///") {
                Some(more) => said.push_str(more),
                None if declared.is_none() => said.clear(),
                None => {}
            }
        }
    }
    assert!(found > 30, "{found} are not all");
    report(&problems);
}

/// A factor, and every fraction, is a decision: it has a name, and so an origin (above). Of those with 2, a half of a duration or of an amount
/// needs one; doubling, other halves and the fields of samples do not.
#[test]
fn each_factor_of_the_schedule_and_the_plane_has_a_name() {
    let amounts = ["period", "round", "capacity", "limit", "window", "obtainable", "MAX"];
    let (mut problems, mut found) = (Vec::new(), 0);
    for (path, text) in sources("rs").into_iter().filter(|(path, _)| {
        SCHEDULING.iter().any(|crate_of| path.starts_with(crate_of)) && !path.to_string_lossy().ends_with("tests.rs")
    }) {
        let text = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
        for (number, line) in code_lines(text) {
            let line = line.trim();
            let is_sample = line.ends_with(',') && line.split_once(": ").is_some_and(|(name, _)| word_of(name) == name);
            if is_sample || without_visibility(line).starts_with("const ") {
                continue;
            }
            found += 1;
            let half = line.match_indices(" / 2").any(|(at, _)| {
                let whole = line[..at].rsplit(' ').next().unwrap_or_default();
                amounts.iter().any(|amount| whole.contains(amount))
            });
            if let Some(factor) = factors(line).find(|factor| *factor != "2" || half) {
                problems.push(format!("{}:{number}: give `{factor}` a name in `{line}`", path.display()));
            }
        }
    }
    assert!(found > 5_000, "{found} lines are not all");
    report(&problems);
}

/// The numbers of a line that multiply, divide or bound something, and its fractions; but 0, 1 and powers of ten that change a unit.
fn factors(line: &str) -> impl Iterator<Item = &str> {
    let signs = ["* ", "/ ", "*= ", "/= ", "_mul(", ".max(", ".min(", "scaled("];
    let behind = signs.into_iter().flat_map(|sign| line.match_indices(sign).map(|(at, sign)| &line[at + sign.len()..]));
    let before = line.match_indices(" * ").filter_map(|(at, _)| line[..at].rsplit(|c| !is_of_word(c)).next());
    let fractions = line.split(|c: char| !is_of_word(c)).filter(|word| word.contains('.') && !word.contains(".."));
    let numbers = behind.map(word_of).chain(before).chain(fractions).map(|word| word.trim_end_matches("f64"));
    let plain = ["0", "1", "0.0", "1.0", "1_000_000", "1e6"];
    let is_number = |word: &&str| {
        word.starts_with(|c: char| c.is_ascii_digit())
            && !word.contains("..")
            && word.chars().all(|c| c.is_ascii_digit() || "_.e-".contains(c))
    };
    numbers.filter(is_number).filter(move |word| !plain.contains(word))
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || "_.".contains(c)
}

/// The word or number that a text begins with.
fn word_of(text: &str) -> &str {
    &text[..text.find(|c| !is_of_word(c)).unwrap_or(text.len())]
}

/// The output of a passing test is captured: a skip that is only printed would stay unseen.
#[test]
fn a_skipped_test_says_so_where_it_is_counted() {
    // Spelled in two parts, so that this file does not find itself.
    let word = ["\"SKIP", "PED "].concat();
    let mut problems = Vec::new();
    for (path, text) in sources("rs").into_iter().filter(|(path, _)| !path.ends_with("common/skip.rs")) {
        for (index, line) in text.lines().enumerate().filter(|(_, line)| line.contains(&word)) {
            problems.push(format!("{}:{}: call `skip::skipped`: `{}`", path.display(), index + 1, line.trim()));
        }
    }
    report(&problems);
}

/// Each crate links its tests into one program, and into one more for each set that needs a process of its own: cargo would
/// build and link a program for every file. A file that no program names would never run.
#[test]
fn every_file_of_tests_belongs_to_a_program() {
    let files = sources("rs");
    let mut problems = Vec::new();
    for (manifest, text) in all_files().into_iter().filter(|(path, _)| path.ends_with("Cargo.toml")) {
        let folder = manifest.parent().expect("a file has a folder").join("tests");
        let tests: Vec<_> = files.iter().filter(|(path, _)| path.parent() == Some(&folder)).collect();
        let is_program = |path: &Path| {
            let name = path.file_name().expect("a file has a name").to_string_lossy();
            text.contains(&format!("path = \"tests/{name}\"")) || tests.len() == 1
        };
        let programs: Vec<_> = tests.iter().filter(|(path, _)| is_program(path)).collect();
        for (path, _) in tests.iter().filter(|(path, _)| !is_program(path)) {
            let module = format!("mod {};", path.file_stem().expect("a file has a name").to_string_lossy());
            if !programs.iter().any(|(_, text)| text.lines().any(|line| line == module)) {
                problems.push(format!("{}: add `{module}` to {}", path.display(), folder.join("main.rs").display()));
            }
        }
        if tests.len() > 1 && !text.contains("autotests = false") {
            problems.push(format!("{}: add `autotests = false`", manifest.display()));
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
fn no_type_is_too_large() {
    let mut lines: BTreeMap<(String, String), usize> = BTreeMap::new();
    for (path, text) in
        sources("rs").into_iter().filter(|(path, _)| !path.components().any(|part| part.as_os_str() == "tests"))
    {
        let Some(home) = path.components().nth(2).map(|part| part.as_os_str().to_string_lossy().into_owned()) else {
            continue;
        };
        let text = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
        let mut of_type = None;
        for (_, line) in code_lines(text) {
            of_type = implemented(&line).or(of_type);
            if let Some(name) = of_type.clone().filter(|_| !line.trim().is_empty()) {
                *lines.entry((home.clone(), name)).or_default() += 1;
            }
            if line.starts_with('}') || line.ends_with("{}") && line.contains("impl") {
                of_type = None;
            }
        }
    }
    assert!(lines.len() > 500, "{} are not all types", lines.len());
    let too_large = lines.iter().filter(|(_, lines)| **lines > IMPL_LINES_MAX);
    let problems = too_large.map(|((home, name), lines)| {
        format!(
            "`{name}` of `{home}`: {lines} lines of `impl`, {IMPL_LINES_MAX} at most; give a part with fields of its own a type"
        )
    });
    report(&problems.collect::<Vec<_>>());
}

/// The type that an `impl` block which begins in this line is for.
fn implemented(line: &str) -> Option<String> {
    let head = line.strip_prefix("unsafe ").unwrap_or(line).strip_prefix("impl")?.split('{').next()?;
    let mut depth = 0;
    // Generic parameters of the block itself hold no name that is looked for.
    let head = match head.strip_prefix('<') {
        None => head,
        Some(generic) => {
            let end = generic.char_indices().find(|(_, c)| {
                depth += i32::from(*c == '<') - i32::from(*c == '>');
                depth < 0
            });
            &generic[end?.0 + 1..]
        }
    };
    let name = head.rsplit(" for ").next()?.trim_start().trim_start_matches(['&', '\'']);
    let name = name.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).next()?.rsplit("::").next()?;
    (!name.is_empty()).then(|| name.to_owned())
}

#[test]
fn every_file_begins_with_its_description() {
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
