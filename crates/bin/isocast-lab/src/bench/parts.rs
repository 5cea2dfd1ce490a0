//! The parts of `bench all`, read from `parts.txt`: title, store and command line of each.
//!
//! Promise: each part is a command line that a user could type. Not here: running the parts (`all`).

use units::Nanos;

/// One experiment.
#[derive(Debug, Clone)]
pub(super) struct BenchPart {
    /// Its name, and that of its files of results.
    pub label: &'static str,
    /// Title of its results.
    pub title: &'static str,
    /// Profile of the emulated disk that holds the contents; `None`: they are in memory.
    pub disk: Option<&'static str>,
    /// Estimated duration, including the making of its store if the part before has another one.
    pub length: Nanos,
    /// Its command line behind `bench`, without store, name and title.
    pub line: String,
}

const PARTS: &str = include_str!("parts.txt");

/// Abbreviations in the file.
const WORDS: [(&str, &str); 6] = [
    // Without writers, no disk time is kept for them.
    ("$NO_UPLOADS", "$SET=schedule.be_share=0%"),
    // Contents on a disk are cold. The peer's read-ahead (2 MiB) is the best of several that were measured.
    ("$COLD", "--cold --peer-read-ahead 2048 $SET=plane.memory=3GiB"),
    // A search counts the streams admitted until the first refusal, and a nearly full disk has little time for starts: with
    // four starts a second, one is refused after a wait of 5 s when 92 run; with one start a second, 103 run.
    ("$STARTS_SEARCH", "--starts-per-second 1 --warm-up 15s"),
    // A long run does not measure its starts.
    ("$STARTS_SOAK", "--starts-per-second 2 --warm-up 30s"),
    // Streams begin as fast as a disk can start them, and all have begun when measuring begins; the time to first byte has a
    // column of its own.
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
    /// True if `name` is its label, with or without the number, or a beginning of the label.
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
