//! `bench ageing`: effect of repeated filling and deleting on a volume and on file systems.
//!
//! AVFS (docs/references.md) promised a read rate that stays the same through any amount of writing and erasing, and left the
//! proof for later. Age is counted as by Sears and van Ingen: in turns, each of which writes as many bytes as the store keeps.
//! Emulated disks answer at once while they age, and take the time of their drive while they are measured.

use std::io::Write;

use clap::{Args, ValueEnum};
use units::{BitRate, ByteCount, real};

use super::admitted::{self, RequestedStreams, StartsPerMinute};
use super::contents::{self, ContentTurnover, KeptContent, SizeMix};
use super::figure_table::{FigureOutput, FigureTable, TableFigure};
use super::lab_disk::{DiskTiming, LabDisk};
use super::store_site::StoreSite;
use super::{Stop, clock};
use crate::say;

/// See the module.
#[derive(Debug, Clone, Args)]
pub(crate) struct AgeingCommand {
    /// Stores to measure, in this order.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = AgedStore::ALL)]
    store: Vec<AgedStore>,
    /// Drive to emulate.
    #[arg(long, value_name = "PROFILE", default_value = "desktop")]
    profile: String,
    /// A drive parameter (repeatable) [default: one rate, 65 MB/s, from the outer edge to the inner one].
    #[arg(long = "set", value_name = "KEY=VALUE", default_values = ["outer=65000000B", "inner=65000000B"])]
    parameters: Vec<String>,
    /// Size of the emulated disk.
    #[arg(long, default_value = "16GiB", value_parser = units::parse_size)]
    size: ByteCount,
    /// The smallest content.
    #[arg(long, default_value = "1MiB", value_parser = units::parse_size)]
    smallest: ByteCount,
    /// The largest content.
    #[arg(long, default_value = "128MiB", value_parser = units::parse_size)]
    largest: ByteCount,
    /// Number of turns, each of which replaces all contents.
    #[arg(long, default_value_t = 10)]
    turns: u32,
    /// Rate of the streams that are counted.
    #[arg(long, default_value = "8.8M", value_parser = units::parse_rate)]
    rate: BitRate,
    /// Run time of the admitted streams, whole seconds.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=600))]
    run: u64,
    /// Bytes to read for the rate of reading.
    #[arg(long, default_value = "4GiB", value_parser = units::parse_size)]
    read: ByteCount,
    /// Seed of the sizes and the deletions.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A quick trial: one turn on a disk of 1 GiB, and at most two seconds of streams.
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    output: FigureOutput,
}

/// The store that ages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum AgedStore {
    /// A volume (span) on the raw disk.
    Volume,
    /// A folder on ext4.
    Ext4,
    /// A folder on XFS.
    Xfs,
    /// A folder on XFS with its files on a realtime device in extents of 8 MiB.
    XfsRealtime,
}

/// Percent of the empty store's free bytes that the contents fill.
const FULL_PERCENT: u64 = 90;
/// Streams that begin per minute: faster starts would be refused on a disk near its limit, and the first refusal ends the
/// count.
const STARTS: StartsPerMinute = StartsPerMinute(60);
const QUICK_BYTES: ByteCount = ByteCount(1 << 30);
const QUICK_LARGEST: ByteCount = ByteCount(16 << 20);
const QUICK_STREAMS: usize = 8;
/// Size of the data section, with the log, of the XFS that has a realtime device.
const XFS_DATA: &str = "size=1GiB";

/// Figures of a store at one age.
struct MeasuredAge {
    mb_per_s: f64,
    streams: usize,
    stalled: usize,
}

impl AgedStore {
    const ALL: [Self; 4] = [Self::Volume, Self::Ext4, Self::Xfs, Self::XfsRealtime];

    fn name(self) -> &'static str {
        match self {
            Self::Volume => "volume",
            Self::Ext4 => "ext4",
            Self::Xfs => "XFS",
            Self::XfsRealtime => "XFS, realtime device",
        }
    }
}

impl AgeingCommand {
    /// Runs it.
    ///
    /// # Errors
    /// An emulated disk or a volume cannot be made, the server fails, or the benchmark is interrupted. A file system that this
    /// machine does not support is left out.
    pub(crate) fn run(mut self, stop: &Stop, out: &mut dyn Write) -> anyhow::Result<()> {
        if self.smallest.0 < 4096 || self.smallest > self.largest || self.largest.0 > self.size.0 / 16 {
            anyhow::bail!(crate::wrong_usage(format_args!(
                "--smallest {} and --largest {} must be from 4 KiB to a sixteenth of the disk",
                self.smallest, self.largest
            )));
        }
        if self.quick {
            (self.size, self.largest, self.read) = (QUICK_BYTES, QUICK_LARGEST, ByteCount(64 << 20));
            (self.turns, self.run) = (1, 2);
        }
        let figures = [
            TableFigure::new("mb_per_s", "read, 10^6 bytes/s", 1),
            TableFigure::new("run_mib", "mean run, MiB", 1),
            TableFigure::new("streams", "streams admitted", 0),
            TableFigure::new("stalled", "of these stalled", 0),
            TableFigure::new("contents", "contents", 0),
        ];
        let mut table =
            FigureTable::new("ageing", "Filling and deleting again and again", "turns", &figures, None).linear();
        table.note(format!(
            "Emulated disk `{}` of {}, {}; {FULL_PERCENT} % of the room that the store offers when empty is taken by contents from {} to {} (as many in \
             each doubling, seed {}), uploaded two at a time. A turn deletes at random and writes until as much was written as is kept",
            self.profile, self.size, self.parameters.join(" "), self.smallest, self.largest, self.seed
        ));
        table.note(format!(
            "Read: {} of whole contents, one after the other, by `rate=max` through the server. Streams: of {}, each of another content, admitted before \
             the first refusal and then run alone for {} s; stalled are players that ran dry",
            self.read, self.rate, self.run
        ));
        for &store in &self.store {
            let site = match (self.make(store), store) {
                (Ok(site), _) => site,
                (Err(error), AgedStore::Volume) => return Err(error),
                (Err(error), _) => {
                    stop.check()?;
                    say(format_args!("{} is left out: {error:#}", store.name()));
                    table.note(format!("{} is left out, since it cannot be had here: {error:#}", store.name()));
                    continue;
                }
            };
            self.age(store, &site, &mut table, stop)?;
            table.keep(&self.output)?;
        }
        table.finish(&self.output, out)
    }

    fn make(&self, store: AgedStore) -> anyhow::Result<StoreSite> {
        let size = format!("size={}B", self.size.0);
        match store {
            AgedStore::Volume => StoreSite::volume(vec![self.disk("volume", &size, &["--fs", "none"])?], "span"),
            AgedStore::Ext4 => StoreSite::folder(vec![self.disk("ext4", &size, &["--fs", "ext4"])?]),
            AgedStore::Xfs => StoreSite::folder(vec![self.disk("xfs", &size, &["--fs", "xfs"])?]),
            AgedStore::XfsRealtime => {
                let realtime = self.disk("xfs-realtime", &size, &["--fs", "none"])?;
                let device = format!("rtdev={}", realtime.device.display());
                let make = format!("-d rtinherit=1 -r extsize=8m,{device}");
                let mounted = ["--fs", "xfs", &format!("--mkfs={make}"), &format!("--options={device}")];
                StoreSite::folder(vec![self.disk("xfs-data", XFS_DATA, &mounted)?, realtime])
            }
        }
    }

    fn disk(&self, name: &str, size: &str, more: &[&str]) -> anyhow::Result<LabDisk> {
        let mut arguments = vec!["--profile", &self.profile, "--set", size];
        arguments.extend(self.parameters.iter().flat_map(|parameter| ["--set", parameter]));
        // A name of its own: another benchmark may run at the same time.
        LabDisk::up(&format!("ageing-{}-{name}", std::process::id()), &[&arguments, more].concat())
    }

    fn age(&self, store: AgedStore, site: &StoreSite, table: &mut FigureTable, stop: &Stop) -> anyhow::Result<()> {
        let sizes = SizeMix { smallest: self.smallest.0, largest: self.largest.0 };
        say(format_args!("{}: the server measures the disk; then it is filled", store.name()));
        // Calibrated at the speed of its drive; the profile is kept for all later runs.
        site.serve(&[], stop, |_| Ok(()))?;
        let room = site.free_bytes()? / 100 * FULL_PERCENT;
        let mut kept = ContentTurnover::new(sizes, site.grain(), room, self.seed);
        for turn in 0..=self.turns {
            let begun = clock::now();
            site.set_timing(DiskTiming::None)?;
            site.serve(&[], stop, |server| match turn {
                0 => kept.fill(server, stop),
                _ => kept.turn(server, stop),
            })?;
            site.set_timing(DiskTiming::Drive)?;
            let bytes: u64 = kept.kept().iter().map(|one| one.bytes).sum();
            let run_mib = real(bytes) / real(site.runs(kept.kept())?) / real(1 << 20);
            let took = clock::now().saturating_sub(begun).as_secs_f64();
            say(format_args!(
                "{}: turn {turn} of {}, {took:.0} s, mean run {run_mib:.1} MiB",
                store.name(),
                self.turns
            ));
            let mut values = vec![("run_mib", run_mib), ("contents", real(kept.kept().len() as u64))];
            if turn == 0 || turn == self.turns {
                let measured = self.measure((store, turn), site, kept.kept(), table, stop)?;
                values.extend([
                    ("mb_per_s", measured.mb_per_s),
                    ("streams", real(measured.streams as u64)),
                    ("stalled", real(measured.stalled as u64)),
                ]);
            }
            table.add(store.name(), f64::from(turn), &values);
        }
        Ok(())
    }

    fn measure(
        &self,
        (store, turn): (AgedStore, u32),
        site: &StoreSite,
        kept: &[KeptContent],
        table: &mut FigureTable,
        stop: &Stop,
    ) -> anyhow::Result<MeasuredAge> {
        site.drop_buffers()?;
        let mb_per_s = site.serve(&[], stop, |server| contents::reading_rate(server, kept, self.read.0, stop))?;
        say(format_args!("{}: {mb_per_s:.1} MB/s of reading", store.name()));
        let asked = RequestedStreams {
            rate: self.rate,
            starts: STARTS,
            contents: self.long_enough(kept),
            seconds: self.run,
            lab_disk: site.disk().map(str::to_owned),
        };
        if asked.contents.is_empty() {
            anyhow::bail!("no content lasts for {} s at {}: give a larger --largest", self.run, self.rate);
        }
        let found = admitted::admitted(&site.ground(self.rate, &[]), &asked, stop)?;
        say(format_args!("{}: {} streams, {} stalled", store.name(), found.streams, found.stalled));
        let age = if turn == 0 { "fresh" } else { "aged" };
        for remark in found.notes() {
            table.note(format!("{}, {age}: {remark}", store.name()));
        }
        Ok(MeasuredAge { mb_per_s, streams: found.streams, stalled: found.stalled })
    }

    /// The names of the largest contents, as many as can all be streamed until the end of the run.
    fn long_enough(&self, kept: &[KeptContent]) -> Vec<String> {
        let name = |one: &KeptContent| one.name.clone();
        if self.quick {
            return kept.iter().take(QUICK_STREAMS).map(name).collect();
        }
        let mut largest_first: Vec<u64> = kept.iter().map(|one| one.bytes).collect();
        largest_first.sort_unstable_by(|a, b| b.cmp(a));
        let lasts = |(before, bytes): &(usize, u64)| *bytes >= STARTS.bytes_needed(self.rate, before + 1, self.run);
        let least = largest_first.into_iter().enumerate().take_while(lasts).last();
        least.map_or_else(Vec::new, |(_, least)| kept.iter().filter(|one| one.bytes >= least).map(name).collect())
    }
}
