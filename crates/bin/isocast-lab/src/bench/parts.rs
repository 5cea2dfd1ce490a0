//! The parts of `bench all`, from the text file beside this one: subject, place and command line of each.
//!
//! Promise: each is one line that could be typed. Not here: running them (`all`).

use units::Nanos;

/// One experiment.
#[derive(Debug, Clone)]
pub(super) struct BenchPart {
    /// Its name: of its results' files.
    pub label: &'static str,
    /// Its headline.
    pub title: &'static str,
    /// Profile of the emulated disk of its contents; they are in memory if `None`.
    pub disk: Option<&'static str>,
    /// Estimated duration, making the place of the contents included where the part before has another.
    pub length: Nanos,
    /// Its command line behind `bench`, without place, name and headline.
    pub line: String,
}

const PARTS: &str = include_str!("parts.txt");

/// Abbreviations in the file.
const WORDS: [(&str, &str); 6] = [
    // Without writers nothing is kept for them.
    ("$NO_UPLOADS", "$SET=schedule.be_share=0%"),
    // Contents on a disk are cold; the peer's read-ahead is the best of those tried (2 MiB).
    ("$COLD", "--cold --peer-read-ahead 2048 $SET=plane.memory=3GiB"),
    // A search counts the streams admitted until the first refusal, and a nearly full disk gives few first bytes in between: with four starts a second
    // one is refused that waited for 5 s, and 92 are counted of the 103 that run when one begins each second.
    ("$STARTS_SEARCH", "--starts-per-second 1 --warm-up 15s"),
    // A soak does not measure its starts.
    ("$STARTS_SOAK", "--starts-per-second 2 --warm-up 30s"),
    // Streams begin at a rate that a disk can follow, and the last have begun when measuring begins: how long that took stands in its own column.
    ("$STARTS", "--starts-per-second 4 --warm-up 15s"),
    ("$SET=", "--serve-arg=--set --serve-arg="),
];

/// The parts of a set, `quick` or `full`, in their order.
pub(super) fn of_set(name: &str) -> Vec<BenchPart> {
    let section = PARTS.split("\n[").find_map(|section| section.strip_prefix(name)?.strip_prefix("]\n"));
    let lines: Vec<&'static str> = section.unwrap_or_default().lines().filter(|line| !line.is_empty()).collect();
    lines.chunks_exact(2).filter_map(|pair| part(pair[0], pair[1])).collect()
}

fn part(head: &'static str, line: &str) -> Option<BenchPart> {
    let mut fields = head.splitn(4, " | ");
    let (label, place) = (fields.next()?, fields.next()?);
    let (length, title) = (Nanos::from_secs(fields.next()?.parse().ok()?), fields.next()?);
    let line = WORDS.iter().fold(line.trim().to_owned(), |line, (word, words)| line.replace(word, words));
    Some(BenchPart { label, title, disk: Some(place).filter(|place| *place != "memory"), length, line })
}

impl BenchPart {
    /// Whether `name` is its label, with or without its number, or how that begins.
    pub(super) fn is_named(&self, name: &str) -> bool {
        let bare = self.label.split_once('-').map_or("", |(_, bare)| bare);
        !name.is_empty() && (self.label.starts_with(name) || bare.starts_with(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_has_its_own_name() {
        for (set, count) in [("quick", 7), ("full", 35)] {
            let parts = of_set(set);
            assert_eq!(parts.len(), count);
            for (n, part) in parts.iter().enumerate() {
                assert!(!parts[..n].iter().any(|other| other.label == part.label), "{}", part.label);
            }
        }
    }

    #[test]
    fn a_part_is_named_by_its_number_or_its_words() {
        let part = part("07-veth-8.8M | memory | 10 | x", "  streams $SET=a.b=c").expect("a part");
        assert_eq!(part.line, "streams --serve-arg=--set --serve-arg=a.b=c");
        assert!(part.is_named("07") && part.is_named("veth") && part.is_named("07-veth-8.8M"));
        assert!(!part.is_named("") && !part.is_named("8.8M"));
    }
}
