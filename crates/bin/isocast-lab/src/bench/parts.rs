//! The parts of `bench all`: subject, place and command line of each.
//!
//! Promise: each is one line that could be typed. Not here: running them (`all`).

/// Place of contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PartGround {
    /// In memory.
    Memory,
    /// On an emulated disk of this profile.
    Disk(&'static str),
}

/// One experiment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BenchPart {
    /// Its name: of its results' files.
    pub label: String,
    /// Its headline.
    pub title: String,
    /// Place of its contents.
    pub ground: PartGround,
    /// `streams` or `jitter`.
    pub experiment: &'static str,
    /// Whether nginx is measured beside.
    pub peer: bool,
    /// The rest of its command line.
    pub arguments: String,
}

impl BenchPart {
    /// Whether `name` is its label, with or without its number, or how that begins.
    pub(super) fn is_named(&self, name: &str) -> bool {
        let bare = self.label.split_once('-').map_or("", |(_, bare)| bare);
        !name.is_empty() && (self.label.starts_with(name) || bare.starts_with(name))
    }
}

/// Contents on a disk are cold; the peer's read-ahead is the best of those tried (2 MiB).
const COLD: &str = "--cold --peer-read-ahead 2048 --serve-arg=--set --serve-arg=plane.memory=3GiB";
/// Streams begin at a rate that a disk can follow, and the last have begun when measuring begins: how long that took
/// stands in its own column.
const STARTS: &str = "--starts-per-second 4 --warm-up 15s";
/// A search counts the streams admitted until the first refusal, and a nearly full disk gives few first bytes in between: with
/// four starts a second one is refused that waited for 5 s, and 92 are counted of the 103 that run when one begins each second.
const STARTS_SEARCH: &str = "--starts-per-second 1 --warm-up 15s";
/// A soak does not measure its starts.
const STARTS_SOAK: &str = "--starts-per-second 2 --warm-up 30s";
/// Without writers nothing is kept for them.
const NO_UPLOADS: &str = "--serve-arg=--set --serve-arg=schedule.be_share=0%";

/// The parts that the README shows, in its order: they compare the servers. Its picture has all searches.
pub(super) const SHOWN: [&str; 4] = ["20-desktop-most-8.8M", "11-disk-uploads", "13-disk-jitter", "01-memory-8.8M"];

/// The set of less than 15 minutes.
pub(super) fn quick() -> Vec<BenchPart> {
    let mut parts = memory("--streams 100,400 --duration 15s", "--streams 2000 --duration 15s");
    parts.extend([
        system_calls("--streams 400 --duration 15s"),
        streams("10-disk-8.8M", "7200 rpm disk, each stream another file, 8.8 Mbit/s", "desktop")
            .with(&format!("--streams 25,75 --duration 15s {STARTS} {COLD} {NO_UPLOADS}")),
        streams("11-disk-uploads", "7200 rpm disk, 8.8 Mbit/s, uploads of 10 MB without pause", "desktop")
            .with(&format!("--streams 50 --duration 20s --writers 1 {STARTS} {COLD}")),
        jitter_ample("--alone 10s --duration 30s"),
        jitter("--alone 10s --duration 30s"),
    ]);
    parts
}

/// The set of about two and a half hours.
pub(super) fn full() -> Vec<BenchPart> {
    let mut parts = memory("--streams 100,400,800 --duration 15s --repeat 2", "--streams 500,2000,4000 --duration 15s");
    parts.push(
        on_memory("03-memory-stalled", "400 streams of 8.8 Mbit/s beside 1,000 clients that take nothing")
            // They would lose their streams after 30 s, before measuring ends.
            .with("--streams 400 --stalled-clients 1000 --duration 40s --ramp 20s --serve-arg=--set --serve-arg=streams.stall=5min"),
    );
    let veth = on_memory("04-veth-8.8M", "Contents in memory, 8.8 Mbit/s, over a cable between two network namespaces");
    parts.push(veth.with("--streams 200 --duration 20s --network veth"));
    let tbf = on_memory("05-veth-500M", "Contents in memory, 8.8 Mbit/s, over a cable shaped to 500 Mbit/s (TBF)");
    parts.push(tbf.with("--find-max --max 100 --probe 30s --starts-per-second 20 --network veth --shape 500M"));
    parts.push(
        on_memory("06-memory-5000", "Contents in memory, 1 Mbit/s, up to 5,000 streams")
            .alone()
            .with("--rate 1M --streams 1000,2500,5000 --duration 15s --ramp 10s"),
    );
    parts.push(system_calls("--streams 100,400,800 --duration 15s --repeat 2"));
    for (number, tick) in [(7, "125ms"), (8, "250ms")] {
        let of = |name: &str, words: &str, load: &str| {
            let title = format!("Contents in memory, {words}, fed every {tick} (`schedule.tick`)");
            on_memory(&format!("0{number}-memory-{name}-tick-{tick}"), &title)
                .alone()
                .with(&format!("{load} --duration 15s --serve-arg=--set --serve-arg=schedule.tick={tick}"))
        };
        parts.push(of("8.8M", "8.8 Mbit/s", "--streams 400"));
        parts.push(of("2M", "2 Mbit/s", "--rate 2M --ramp 10s --streams 2000"));
    }
    parts.push(
        streams("09-flash-8.8M", "Flash (SATA), each stream another file that is in no memory, 8.8 Mbit/s", "ssd-sata")
            .with(&format!("--streams 100 --duration 15s {COLD} {NO_UPLOADS}")),
    );
    parts.push(
        streams("16-disk-herd", "7200 rpm disk, 76 viewers of 76 files come back within 5 s", "desktop")
            .with(&format!("--streams 76 --ramp 5s --duration 30s {COLD} {NO_UPLOADS}")),
    );
    parts.push(
        streams("17-disk-sharing", "7200 rpm disk, 200 viewers of 40 films by Zipf's law, 0.3 s apart", "desktop")
            .alone()
            .with(
                "--streams 200 --ramp 60s --warm-up 12s --duration 30s --spread zipf:40 --cold --serve-arg=--set \
             --serve-arg=plane.memory=4GiB",
            ),
    );
    parts.push(
        streams("18-disk-sharing-seeks", "7200 rpm disk, the viewers of 17, of whom a tenth pauses and a tenth seeks each minute", "desktop")
            .alone()
            .with(
                "--streams 200 --ramp 60s --warm-up 12s --duration 120s --spread zipf:40 --pause 10%/min --seek 10%/min --cold \
             --serve-arg=--set --serve-arg=plane.memory=4GiB",
            ),
    );
    parts.push(
        streams("10-disk-8.8M", "7200 rpm disk, each stream another file, 8.8 Mbit/s", "desktop")
            .with(&format!("--streams 25,50,75 --duration 20s {STARTS} {COLD} {NO_UPLOADS}")),
    );
    parts.push(
        streams("11-disk-uploads", "7200 rpm disk, 8.8 Mbit/s, uploads of 10 MB without pause", "desktop")
            .with(&format!("--streams 50 --duration 20s --repeat 2 --writers 1 {STARTS} {COLD}")),
    );
    parts.push(jitter_ample("--alone 15s --duration 45s"));
    parts.push(
        streams("14-disk-table", "7200 rpm disk, few streams of 25 Mbit/s (the tables of HPSM/AVFS)", "desktop")
            .with(&format!("--rate 25M --streams 1,2,3,4,5 --duration 15s {COLD} {NO_UPLOADS}")),
    );
    parts.push(
        streams("15-disk-starts", "7200 rpm disk, streams begin at 4 a second", "desktop")
            .with(&format!("--streams 75 --duration 15s {STARTS} {COLD} {NO_UPLOADS}")),
    );
    parts.extend(most("desktop", "7200 rpm disk", 20));
    parts.push(
        streams("30-disk-slower", "7200 rpm disk that takes 1.3 times as long as its profile says", "desktop")
            .alone()
            .with(&format!("--streams 128 --duration 60s --slow 1.3 --slow-after 5s {STARTS} {COLD} {NO_UPLOADS}")),
    );
    parts.push(
        streams("31-disk-soak", "7200 rpm disk, 90 % of what it carries with uploads, ten minutes", "desktop")
            .alone()
            .with(&format!("--load 90% --max 128 --duration 600s --writers 1 {STARTS_SOAK} {COLD}")),
    );
    parts.push(jitter("--alone 15s --duration 45s --repeat 2"));
    parts.extend(most("t7k250", "Drive of 2005", 40));
    parts.extend(most("surveillance", "5400 rpm disk", 50).into_iter().map(BenchPart::alone));
    parts
}

/// The most streams of a drive: two rates, without and with uploads; labels are numbered from `number`. With uploads ours
/// is alone: a peer that stalls at a handful of streams is shown beside it at one number (11 and 13), not searched for.
fn most(profile: &'static str, drive: &str, number: u32) -> Vec<BenchPart> {
    let of = |n, rate: &str, max: usize, uploads: bool| {
        let (name, words, arguments) =
            if uploads { ("-uploads", ", with uploads of 10 MB", "--writers 1") } else { ("", "", NO_UPLOADS) };
        let part = streams(
            &format!("{}-{profile}-most-{rate}{name}", number + n),
            &format!("{drive}, the most streams of {rate}bit/s, each another file{words}"),
            profile,
        )
        .with(&format!("--rate {rate} --find-max --max {max} {STARTS_SEARCH} {COLD} {arguments}"));
        if uploads { part.alone() } else { part }
    };
    // Each stream its own file, and more streams than the drive can carry.
    let files = if profile == "t7k250" { 64 } else { 128 };
    vec![
        of(0, "8.8M", files, false),
        of(1, "8.8M", files, true),
        of(2, "25M", files * 2 / 5, false),
        of(3, "25M", files * 2 / 5, true),
    ]
}

fn memory(fast: &str, many: &str) -> Vec<BenchPart> {
    vec![
        on_memory("01-memory-8.8M", "Contents in memory, 8.8 Mbit/s").with(fast),
        on_memory("02-memory-2M", "Contents in memory, 2 Mbit/s").with(&format!("--rate 2M --ramp 10s {many}")),
    ]
}

/// Cost of ordinary system calls instead of io_uring, to compare with the first part of all.
fn system_calls(streams: &str) -> BenchPart {
    on_memory("07-memory-system-calls", "Contents in memory, 8.8 Mbit/s, on ordinary system calls instead of io_uring")
        .alone()
        .with(&format!("{streams} --serve-arg=--set --serve-arg=plane.engine=threads"))
}

fn on_memory(label: &str, title: &str) -> BenchPart {
    BenchPart {
        label: label.to_owned(),
        title: title.to_owned(),
        ground: PartGround::Memory,
        experiment: "streams",
        peer: true,
        arguments: String::new(),
    }
}

fn streams(label: &str, title: &str, profile: &'static str) -> BenchPart {
    BenchPart { ground: PartGround::Disk(profile), ..on_memory(label, title) }
}

/// The second experiment of HiTactix (§5.2). Its disk (27 MB/s, 18 of them streams) spends 370 ms, more than one of its cycles of
/// 256 ms, on one write of 10 MB, its buffers hold a cycle or two, and its writer does not wait for its writes. The
/// drive of 2005 is the nearest to it (68…33 MB/s): two thirds of it are 28 streams of 8.8 Mbit/s; rounds of 250 ms and
/// little memory keep blocks to a few rounds; 16 uploads at once keep writes waiting.
fn jitter(times: &str) -> BenchPart {
    let title =
        "HiTactix's second experiment: 31 MB/s of streams, two thirds of a drive of 2005, then 16 uploads at once";
    let part = BenchPart { experiment: "jitter", ..streams("13-disk-jitter", title, "t7k250") };
    part.with(&format!(
        "--cold --peer-read-ahead 2048 --streams 28 --rate 8.8M --writers 16 --starts-per-second 2 --warm-up 10s \
         --serve-arg=--set --serve-arg=plane.memory=256MiB --serve-arg=--set --serve-arg=schedule.round=250ms {times}"
    ))
}

/// The same where there is plenty of everything: a present disk, blocks of seconds and one writer at a time.
fn jitter_ample(times: &str) -> BenchPart {
    let title = "7200 rpm disk, 18 MB/s of streams, large blocks, then one upload of 10 MB at a time";
    let part = BenchPart { experiment: "jitter", ..streams("12-disk-jitter-ample", title, "desktop") };
    part.with(&format!("--cold --peer-read-ahead 2048 {times}"))
}

impl BenchPart {
    fn with(self, arguments: &str) -> Self {
        Self { arguments: arguments.to_owned(), ..self }
    }

    /// Without the peer.
    fn alone(self) -> Self {
        Self { peer: false, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_has_its_own_name() {
        for parts in [quick(), full()] {
            for (n, part) in parts.iter().enumerate() {
                assert!(!parts[..n].iter().any(|other| other.label == part.label), "{}", part.label);
            }
        }
    }

    #[test]
    fn a_part_is_named_by_its_number_or_its_words() {
        let part = on_memory("07-veth-8.8M", "x");
        assert!(part.is_named("07") && part.is_named("veth") && part.is_named("07-veth-8.8M"));
        assert!(!part.is_named("") && !part.is_named("8.8M"));
    }
}
