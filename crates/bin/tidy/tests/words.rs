//! Words of comments and headings: the subject of a sentence is a noun, its verb an active technical verb.
//!
//! Promise: of 1,000 words of a crate's comments at most two stand for a missing noun; no head of a module and no heading begins with a
//! question. Not here: whether a sentence is clear.

use std::collections::BTreeMap;

use tidy::{crate_folders, outside_fences, report, sources};

/// Words that stand where a noun is missing.
const VAGUE: [&str; 8] = ["what", "who", "whoever", "whom", "whose", "nobody", "somebody", "told"];
/// Largest number of them in 1,000 words of a crate's comments. May only fall.
const VAGUE_MAX: usize = 2;
const QUESTIONS: [&str; 8] = ["What", "Who", "How", "Which", "Where", "Whether", "Why", "When"];

/// The comments of a source, without their marks.
fn comments(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let (before, comment) = line.split_once("//")?;
        // An address is no comment.
        (!before.ends_with(':')).then(|| comment.trim_start_matches(['/', '!']))
    })
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_ascii_alphabetic() && letter != '\'').filter(|word| !word.is_empty())
}

#[test]
fn comments_name_their_subjects() {
    let mut counts: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    let folders = crate_folders();
    for (path, text) in sources("rs") {
        let Some((name, _)) = folders.iter().find(|(_, folder)| path.starts_with(folder)) else { continue };
        let count = counts.entry(name.clone()).or_default();
        for word in comments(&text).flat_map(words) {
            count.0 += 1;
            count.1 += usize::from(VAGUE.iter().any(|vague| word.eq_ignore_ascii_case(vague)));
        }
    }
    let all: usize = counts.values().map(|(words, _)| words).sum();
    assert!(all > 100_000, "{all} words are not all");
    let is_vague = |(words, vague): (usize, usize)| vague * 1_000 > VAGUE_MAX * words;
    let problems: Vec<String> = counts
        .into_iter()
        .filter(|(_, count)| is_vague(*count))
        .map(|(name, (words, vague))| {
            let list = VAGUE.join(", ");
            format!(
                "crate {name} has {vague} of {words} words of comments that stand for a noun ({list}): name the noun"
            )
        })
        .collect();
    report(&problems);
}

#[test]
fn heads_and_headings_begin_with_nouns() {
    let is_question = |text: &str| words(text).next().is_some_and(|first| QUESTIONS.contains(&first));
    let heads = sources("rs").into_iter().filter_map(|(path, text)| {
        let head = text.lines().next()?.strip_prefix("//! ")?.to_owned();
        Some((format!("{}:1", path.display()), head))
    });
    let headings = sources("md").into_iter().flat_map(|(path, text)| {
        let headings = outside_fences(&text).filter(|(_, line)| line.starts_with('#'));
        let headings: Vec<_> =
            headings.map(|(number, line)| (format!("{}:{number}", path.display()), line.to_owned())).collect();
        headings
    });
    let all: Vec<_> = heads.chain(headings).collect();
    assert!(all.len() > 700, "{} are not all", all.len());
    let problems: Vec<String> = all
        .into_iter()
        .filter(|(_, text)| is_question(text))
        .map(|(place, text)| format!("{place}: `{text}`: begin it with the noun of its subject"))
        .collect();
    report(&problems);
}
