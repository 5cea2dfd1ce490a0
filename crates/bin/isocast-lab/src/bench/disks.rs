//! `bench disks`: gain from several disks.
//!
//! The second experiment of the study of disk parallelism (docs/references.md): two files read at once, from one disk and from two, from
//! memory and not; it found 57 % of the time with two. Then our volume: one content read from all its disks, and the streams that stripes
//! and mirrors of 1 to 8 disks carry.

use std::io::Write;
use std::path::Path;
use std::thread;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use units::{BitRate, ByteCount, real};

use super::admitted::{self, RequestedStreams, StartsPerMinute};
use super::contents::{self, KeptContent};
use super::figure_table::{FigureOutput, FigureTable, TableFigure, median};
use super::lab_disk::{DiskTiming, LabDisk};
use super::server::RunningServer;
use super::store_site::{StoreSite, UNIT};
use super::{Stop, clock, files, joined, plan_count};
use crate::say;

/// See the module.
#[derive(Debug, Clone, Args)]
pub(crate) struct DisksCommand {
    /// Parts to measure.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = DisksPart::ALL)]
    part: Vec<DisksPart>,
    /// Numbers of disks a volume lies on.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8", value_parser = clap::value_parser!(u8).range(1..=16))]
    disks: Vec<u8>,
    /// Rate of a stream on the slow drives.
    #[arg(long, default_value = "2M", value_parser = units::parse_rate)]
    rate: BitRate,
    /// Whole seconds for which the streams that were admitted run.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=600))]
    run: u64,
    /// Small and short, to see that it works.
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    output: FigureOutput,
}

/// A part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DisksPart {
    /// Two files at once, by two threads, from one disk and from two.
    Files,
    /// One content of a striped volume, as fast as the server gives it.
    Content,
    /// Streams of striped and mirrored volumes.
    Streams,
}

impl DisksPart {
    const ALL: [Self; 3] = [Self::Files, Self::Content, Self::Streams];
}

/// The study read files of 512 MB in pieces of 128 MB, ten times.
const FILE_BYTES: u64 = 512 << 20;
const READ_BYTES: u64 = 128 << 20;
const REPEATS: usize = 5;
const DRIVE: &str = "desktop";
/// The drive `desktop` with a tenth of its rate at both edges: the processor that carries the streams of one whole drive then carries
/// those of eight. Seeks and turns take as long as before.
const SLOW_DRIVE: [&str; 2] = ["outer=18000000B", "inner=8500000B"];
/// The rate at its outer edge: more streams than it gives without a seek need not be requested.
const SLOW_OUTER: BitRate = BitRate(18_000_000 * 8);
/// Streams that begin in a minute on each disk.
const STARTS_PER_DISK: u64 = 30;
const QUICK_STARTS: u64 = 1200;
/// The stream of the other experiments, on whole drives.
const WHOLE_RATE: BitRate = BitRate(8_800_000);
/// Memory for blocks, for each disk: it grows with the disks, so that disks are compared.
const MEMORY_PER_DISK: u64 = 1 << 30;
/// Each stream's own content: in six units, with its checksums behind it.
const CONTENT_BYTES: u64 = 47 << 20;
const CONTENT_ROOM: u64 = 6 * UNIT.0;
/// Room for more contents on a mirror than it carries.
const SLOW_DISK_SIZE: &str = "size=7GiB";
/// Uploads at once while a volume is filled.
const UPLOADS: usize = 2;

impl DisksCommand {
    /// Runs it.
    ///
    /// # Errors
    /// No emulated disk can be made, the server fails, or interrupted.
    pub(crate) fn run(mut self, stop: &Stop, out: &mut dyn Write) -> anyhow::Result<()> {
        if self.quick {
            (self.disks, self.run) = (vec![1, 2], 2);
        }
        let figures = [
            TableFigure::new("seconds", "s", 2),
            TableFigure::new("mb_per_s", "10^6 bytes/s", 1),
            TableFigure::new("streams", "streams", 0),
            TableFigure::new("times_one", "times one disk's", 2),
            TableFigure::new("stalled", "of these stalled", 0),
        ];
        let mut table = FigureTable::new("disks", "Gain of several disks", "disks", &figures, None);
        for part in self.part.clone() {
            match part {
                DisksPart::Files => self.files(&mut table, stop)?,
                DisksPart::Content => self.content(&mut table, stop)?,
                DisksPart::Streams => self.streams(&mut table, stop)?,
            }
            table.keep(&self.output)?;
        }
        table.finish(&self.output, out)
    }

    /// Two files at once, from one disk and from two.
    fn files(&self, table: &mut FigureTable, stop: &Stop) -> anyhow::Result<()> {
        let (bytes, repeats) = if self.quick { (8 << 20, 1) } else { (FILE_BYTES, REPEATS) };
        let disks = [0, 1].map(|n| LabDisk::up(&disk_name(n), &["--profile", DRIVE, "--set", "size=8GiB"]));
        let [first, second] = disks;
        let (first, second) = (first?, second?);
        let paths = [first.mount()?.join("a"), first.mount()?.join("b"), second.mount()?.join("b")];
        paths.iter().try_for_each(|path| files::write(path, bytes, 1, stop))?;
        let of_one: [&Path; 2] = [&paths[0], &paths[1]];
        let of_two: [&Path; 2] = [&paths[0], &paths[2]];
        table.note(format!(
            "Two files of {} each, by two threads at once through the page cache, {} at a time: the median of {repeats}, on emulated drives `{DRIVE}`",
            ByteCount(bytes), ByteCount(READ_BYTES.min(bytes))
        ));
        for (way, is_cached) in [("two files, from disk", false), ("two files, from memory", true)] {
            let mut alone = None;
            for (disks, files) in [(1.0, of_one), (2.0, of_two)] {
                stop.check()?;
                let seconds = median(repeats, || read_both(files, bytes, is_cached))?;
                say(format_args!("{way}, {disks} disks: {seconds:.2} s"));
                let times_one = alone.get_or_insert(seconds).to_owned() / seconds;
                let rate = real(bytes) * 2.0 / seconds / 1e6;
                table.add(way, disks, &[("seconds", seconds), ("mb_per_s", rate), ("times_one", times_one)]);
            }
        }
        Ok(())
    }

    /// One content as fast as the server gives it.
    fn content(&self, table: &mut FigureTable, stop: &Stop) -> anyhow::Result<()> {
        let (bytes, repeats) = if self.quick { (32 << 20, 1) } else { (FILE_BYTES, REPEATS) };
        let mut site = self.site(&["--set", "size=8GiB"], stop)?;
        table.note(format!(
            "One content of {} from a striped volume, one client, `rate=max`: the median of {repeats}, on emulated drives `{DRIVE}`",
            ByteCount(bytes)
        ));
        let content = KeptContent { name: "content".to_owned(), bytes };
        let mut alone = None;
        for &disks in &self.disks {
            site.make_volume("stripe", disks.into())?;
            let seconds = site.serve(&[], stop, |server| {
                contents::put_all(server, std::slice::from_ref(&content), stop)?;
                median(repeats, || {
                    site.drop_buffers()?;
                    let begun = clock::now();
                    contents::read_whole(server, &content, stop)?;
                    Ok(clock::now().saturating_sub(begun).as_secs_f64())
                })
            })?;
            say(format_args!("one content, {disks} disks: {seconds:.2} s"));
            let times_one = alone.get_or_insert(seconds).to_owned() / seconds;
            let values = [("seconds", seconds), ("mb_per_s", real(bytes) / seconds / 1e6), ("times_one", times_one)];
            table.add("one content, stripe", disks.into(), &values);
        }
        Ok(())
    }

    /// Streams of stripes and mirrors: counted for whole drives, admitted and run on slow ones.
    fn streams(&self, table: &mut FigureTable, stop: &Stop) -> anyhow::Result<()> {
        table.note(format!(
            "Streams, counted: of {WHOLE_RATE}, by `isocast plan` for the drive `{DRIVE}`, with {} of memory for each disk",
            ByteCount(MEMORY_PER_DISK)
        ));
        table.note(format!(
            "Streams, run: of {}, each of another content of {}, from full volumes on drives with a tenth of its rate ({}), as many as one machine's \
             processors can feed; admitted before the first refusal, and then run alone for {} s. A mirror is read from all disks while all are well \
             (survive_disk_loss = false)",
            self.rate, ByteCount(CONTENT_BYTES), SLOW_DRIVE.join(" "), self.run
        ));
        let mut more = vec!["--set", if self.quick { "size=1GiB" } else { SLOW_DISK_SIZE }];
        more.extend(SLOW_DRIVE.iter().flat_map(|parameter| ["--set", parameter]));
        let mut site = self.site(&more, stop)?;
        let (mut counted_alone, mut run_alone) = (None, None);
        table.add("streams, folder, counted", 1.0, &[("streams", counted("span", 1)?)]);
        for layout in ["stripe", "mirror"] {
            for &disks in self.disks.iter().filter(|disks| layout == "stripe" || **disks > 1) {
                let count = counted(layout, disks)?;
                let alone: f64 = *counted_alone.get_or_insert(count);
                let values = [("streams", count), ("times_one", count / alone)];
                table.add(&format!("streams, {layout}, counted"), disks.into(), &values);
                let found = self.run_streams(&mut site, layout, disks, table, stop)?;
                let count = real(found.streams as u64);
                let alone: f64 = *run_alone.get_or_insert(count);
                let stalled = real(found.stalled as u64);
                let values = [("streams", count), ("times_one", count / alone), ("stalled", stalled)];
                table.add(&format!("streams, {layout}, run"), disks.into(), &values);
            }
        }
        Ok(())
    }

    fn run_streams(
        &self,
        site: &mut StoreSite,
        layout: &str,
        disks: u8,
        table: &mut FigureTable,
        stop: &Stop,
    ) -> anyhow::Result<admitted::AdmittedStreams> {
        site.make_volume(layout, disks.into())?;
        let memory = format!("plane.memory={}B", MEMORY_PER_DISK * u64::from(disks));
        let more = ["--set", &memory, "--set", "schedule.survive_disk_loss=false"].map(str::to_owned);
        let room = site.free_bytes()?;
        site.set_timing(DiskTiming::None)?;
        let all = site.serve(&more, stop, |server| fill(server, room, stop))?;
        // The volume is full, and viewers watch contents anywhere on it: the first contents alone would all lie in the outer halves of a
        // stripe's disks, as on a mirror. Neighbours begin on disks in turn, so that whole groups of them load all disks alike.
        let groups: Vec<_> = all.chunks(usize::from(disks)).collect();
        let asked = usize::try_from(SLOW_OUTER.0.div_ceil(self.rate.0))?.min(groups.len());
        let contents = (0..asked).flat_map(|n| groups[n * groups.len() / asked]).cloned().collect();
        site.set_timing(DiskTiming::Drive)?;
        let starts = StartsPerMinute(if self.quick { QUICK_STARTS } else { STARTS_PER_DISK * u64::from(disks) });
        let asked = RequestedStreams {
            rate: self.rate,
            starts,
            contents,
            seconds: self.run,
            lab_disk: site.disk().map(str::to_owned),
        };
        let needed = starts.bytes_needed(self.rate, asked.contents.len(), self.run);
        if needed > CONTENT_BYTES {
            bail!(
                "contents of {} do not last for {} s of {} streams: give a lower --rate or a shorter --run",
                ByteCount(CONTENT_BYTES),
                self.run,
                asked.contents.len()
            );
        }
        let found = admitted::admitted(&site.ground(self.rate, &more), &asked, stop)?;
        say(format_args!("{layout} of {disks}: {} streams, {} stalled", found.streams, found.stalled));
        for remark in found.notes() {
            table.note(format!("{layout} of {disks}: {remark}"));
        }
        Ok(found)
    }

    /// A volume on as many raw disks as are ever needed, which the server measures now, at their drives' pace.
    fn site(&self, more: &[&str], stop: &Stop) -> anyhow::Result<StoreSite> {
        let count = self.disks.iter().max().copied().context("--disks names none")?;
        let arguments = [&["--profile", DRIVE, "--fs", "none"], more].concat();
        let disks = (0..count).map(|n| LabDisk::up(&disk_name(n), &arguments)).collect::<anyhow::Result<_>>()?;
        let site = StoreSite::volume(disks, "stripe")?;
        site.serve(&[], stop, |_| Ok(()))?;
        Ok(site)
    }
}

/// No other benchmark's, since that may run at the same time.
fn disk_name(n: u8) -> String {
    format!("disks-{}-{n}", std::process::id())
}

/// Fills `room` with contents of one size, and returns their names.
fn fill(server: &RunningServer, room: u64, stop: &Stop) -> anyhow::Result<Vec<String>> {
    let all: Vec<KeptContent> = (0..room / CONTENT_ROOM)
        .map(|n| KeptContent { name: format!("content-{n:04}"), bytes: CONTENT_BYTES })
        .collect();
    all.chunks(UPLOADS).try_for_each(|batch| contents::put_all(server, batch, stop))?;
    Ok(all.into_iter().map(|one| one.name).collect())
}

/// Streams that `isocast plan` counts for whole drives.
fn counted(layout: &str, disks: u8) -> anyhow::Result<f64> {
    let (count, memory) = (disks.to_string(), MEMORY_PER_DISK * u64::from(disks));
    let mut more = vec!["--disk", DRIVE, "--disks", &count, "--layout", layout];
    if layout == "mirror" {
        more.extend(["--survive-disk-loss", "false"]);
    }
    Ok(f64::from(plan_count::count(WHOLE_RATE.0, memory, &more)?.streams))
}

/// Seconds until both are read.
fn read_both(files: [&Path; 2], bytes: u64, is_cached: bool) -> anyhow::Result<f64> {
    let size = usize::try_from(READ_BYTES.min(bytes))?;
    let mut buffers = [vec![0_u8; size], vec![0_u8; size]];
    files.iter().try_for_each(|path| files::set_cached(path, is_cached))?;
    let begun = clock::now();
    thread::scope(|scope| {
        let pairs = files.into_iter().zip(&mut buffers);
        let both: Vec<_> = pairs.map(|(path, buffer)| scope.spawn(move || files::read_through(path, buffer))).collect();
        both.into_iter().try_for_each(joined)
    })?;
    Ok(clock::now().saturating_sub(begun).as_secs_f64())
}
