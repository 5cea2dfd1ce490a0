//! `bench load`: load of the server while streams come and go, from a folder and from a volume.
//!
//! Makes HPSM's tables 4.2 and 4.3 and figures 4.1 to 4.6: processor, memory, disk and network, as a mean for each number of
//! streams, and for each second. The figures are the server's own (`/api/v1/system`); the streams are separate clients
//! (`isocast cp`).

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use anyhow::{Context, bail};
use clap::Args;
use units::{BitRate, Nanos, real};

use super::figure_table::{FigureOutput, FigureTable, TableFigure};
use super::server::{self, Choice, RunningServer, ServerGround};
use super::{Stop, child, clock, files, scratch};

/// See the module.
#[derive(Debug, Clone, Args)]
pub(crate) struct LoadCommand {
    /// A folder on the disk from which the server serves.
    #[arg(long, value_name = "DIR")]
    root: PathBuf,
    /// Greatest number of streams.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    streams: u32,
    /// Rate of a stream.
    #[arg(long, default_value = "25M", value_parser = units::parse_rate)]
    rate: BitRate,
    /// Time after which a stream is added, or, after the greatest number, removed.
    #[arg(long, default_value = "10s", value_parser = units::parse_duration)]
    step: Nanos,
    /// A quick trial with steps of 4 s.
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    output: FigureOutput,
}

/// Seconds at the beginning of a step that do not count for its mean: a stream's start burst.
const SETTLING: u64 = 2;
const SECOND: Nanos = Nanos::from_secs(1);
/// Longest time of an answer.
const ANSWER_MAX: Nanos = Nanos::from_secs(1);
/// The figures of the tables.
const FIGURES: [TableFigure; 4] = [
    TableFigure::new("cpu_percent", "CPU, % of one", 2),
    TableFigure::new("mib", "memory, MiB", 1),
    TableFigure::new("disk_mbps", "disk, Mbit/s", 1),
    TableFigure::new("network_mbps", "network, Mbit/s", 1),
];

/// The store from which the server serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServedFrom {
    Folder,
    Volume,
}

/// A second of a run.
struct LoadSecond {
    at: u64,
    streams: u32,
    /// The figures, in the order of [`FIGURES`].
    figures: [f64; 4],
    /// True if the second counts for the mean of its number of streams.
    counts: bool,
}

impl LoadCommand {
    /// Runs it.
    ///
    /// # Errors
    /// The server cannot be started, or the folder has no room.
    pub(crate) fn run(mut self, stop: &Stop, out: &mut dyn Write) -> anyhow::Result<()> {
        if self.quick {
            self.step = SECOND.saturating_mul(4);
        }
        if self.step.0 / SECOND.0 <= SETTLING {
            bail!(crate::wrong_usage(format_args!(
                "--step {} is too short: its first {SETTLING} s do not count",
                self.step
            )));
        }
        let mut means = self.table("load", "Load of the server by the number of its streams", "streams", &FIGURES);
        let over_time = [&FIGURES[..], &[TableFigure::new("streams", "streams", 0)]].concat();
        let mut times =
            self.table("load-over-time", "Load of the server while streams come and go", "second", &over_time);
        for (place, name) in [(ServedFrom::Folder, "folder"), (ServedFrom::Volume, "volume")] {
            let seconds = self.measure(place, stop).with_context(|| format!("serving from a {name}"))?;
            for second in &seconds {
                let mut values = named(&second.figures).to_vec();
                values.push(("streams", f64::from(second.streams)));
                times.add(name, real(second.at), &values);
            }
            for streams in 1..=self.streams {
                let steady: Vec<_> = seconds.iter().filter(|one| one.streams == streams && one.counts).collect();
                let mean = |at: usize| {
                    steady.iter().map(|one| one.figures[at]).sum::<f64>() / real(steady.len().max(1) as u64)
                };
                means.add(name, f64::from(streams), &named(&std::array::from_fn(mean)));
            }
        }
        times.keep(&self.output)?;
        means.finish(&self.output, out)
    }

    fn table(&self, name: &'static str, title: &'static str, x: &'static str, figures: &[TableFigure]) -> FigureTable {
        let mut table = FigureTable::new(name, title, x, figures, Some(&self.root)).linear();
        table.note(format!(
            "1 to {} streams of {}, cold, one more or less each {}; the server's own figures of each second (CPU of its process, its \
             memory, bytes of its disk's schedule, bytes sent). The means leave out the first {SETTLING} s of each step",
            self.streams, self.rate, self.step
        ));
        table
    }

    /// Runs the server and the clients; returns the figures of each second.
    fn measure(&self, place: ServedFrom, stop: &Stop) -> anyhow::Result<Vec<LoadSecond>> {
        let folder = scratch::folder_in(&self.root)?;
        let (films, media) = (folder.path().join("films"), folder.path().join("media"));
        [&films, &media].into_iter().try_for_each(std::fs::create_dir)?;
        let steps = 2 * u64::from(self.streams);
        let bytes = self.rate.bytes_in(self.step.saturating_mul(steps) + SECOND.saturating_mul(10));
        let names: Vec<_> = (0..self.streams).map(|number| format!("film-{number}.bin")).collect();
        let ground = match place {
            ServedFrom::Folder => {
                names.iter().try_for_each(|name| files::write_cold(&media.join(name), bytes, stop))?;
                ServerGround { roots: vec![media], ..ServerGround::default() }
            }
            ServedFrom::Volume => {
                names.iter().try_for_each(|name| files::write_cold(&films.join(name), bytes, stop))?;
                let disk = folder.path().join("volume");
                make_volume(&disk, &films, bytes * u64::from(self.streams), stop)?;
                std::fs::remove_dir_all(&films)?;
                ServerGround {
                    serve_args: vec!["--volume".to_owned(), disk.display().to_string()],
                    ..ServerGround::default()
                }
            }
        };
        let server = RunningServer::start(&Choice::Isocast, &ground, stop)?;
        let seconds = self.watch(&server, &names, stop);
        server.end()?;
        seconds
    }

    fn watch(&self, server: &RunningServer, names: &[String], stop: &Stop) -> anyhow::Result<Vec<LoadSecond>> {
        let mut viewers = RateClients(Vec::new());
        let (mut seconds, begun) = (Vec::new(), clock::now());
        let in_step = self.step.0 / SECOND.0;
        for at in 0..2 * u64::from(self.streams) * in_step {
            stop.check()?;
            let (step, second) = (at / in_step, at % in_step);
            if second == 0 && step < u64::from(self.streams) {
                let url = format!("http://{}{}", server.address, server.path_of(&names[viewers.0.len()], self.rate, 0));
                viewers.0.push(view(&url, self.rate)?);
            } else if second == 0 && step > u64::from(self.streams) {
                viewers.one_goes();
            }
            clock::sleep_until(begun + SECOND.saturating_mul(at + 1));
            let text = server::get(server.address, "/api/v1/system", clock::now() + ANSWER_MAX, stop);
            let system: api::System = serde_json::from_str(&text.context("the server does not answer in a second")?)?;
            let figures = [
                system.process_cpu.unwrap_or(0.0) * 100.0,
                real(system.memory_bytes.unwrap_or(0)) / 1_048_576.0,
                real(system.disk_bps) / 1e6,
                real(system.network_bps) / 1e6,
            ];
            let streams = u32::try_from(viewers.0.len())?;
            seconds.push(LoadSecond { at: at + 1, streams, figures, counts: second >= SETTLING });
        }
        Ok(seconds)
    }
}

fn named(figures: &[f64; 4]) -> [(&'static str, f64); 4] {
    std::array::from_fn(|at| (FIGURES[at].name(), figures[at]))
}

/// Makes a volume in a file with room for this number of bytes, and imports the folder's files.
fn make_volume(disk: &Path, films: &Path, bytes: u64, stop: &Stop) -> anyhow::Result<()> {
    // Additional room for the catalogue and the checksums.
    files::write_cold(disk, (bytes + bytes / 8 + (128 << 20)).next_multiple_of(1 << 20), stop)?;
    let disk = disk.display().to_string();
    child::isocast(&["volume", "create", "--yes", "--name", "load", "--layout", "span", &disk])?;
    for film in std::fs::read_dir(films)? {
        child::isocast(&["volume", "import", &disk, &film?.path().display().to_string()])?;
    }
    Ok(())
}

/// Starts a client that reads at the rate and drops the bytes.
fn view(url: &str, rate: BitRate) -> anyhow::Result<Child> {
    let mut command = child::command(&crate::isocast()?);
    command.args(["cp", "--rate"]).arg(format!("{}bit/s", rate.0)).arg(url.split('?').next().unwrap_or(url));
    command.arg("/dev/null").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().context("starting a client")
}

/// Running clients; dropping this ends them.
struct RateClients(Vec<Child>);

impl RateClients {
    fn one_goes(&mut self) {
        if let Some(mut viewer) = self.0.pop() {
            // The client may have ended by itself.
            let _ = viewer.kill();
            let _ = viewer.wait();
        }
    }
}

impl Drop for RateClients {
    fn drop(&mut self) {
        while !self.0.is_empty() {
            self.one_goes();
        }
    }
}
