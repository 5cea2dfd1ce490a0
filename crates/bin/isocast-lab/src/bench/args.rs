//! Arguments of the command line, checked.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use units::{BitRate, ByteCount, Nanos};

use super::client::STREAMS_MAX;
use super::content_choice::ContentSpread;
use super::experiment::{RunRequest, Slower, Writers};
use super::network;
use super::server::{Choice, ServerGround, parts_of};
use super::writer::UPLOAD_PREFIX;

/// Most seconds one run may measure: the series of 5,000 streams then still fit in memory.
pub(crate) const SECONDS_MAX: u64 = 3_600;
/// Streams started per second unless said otherwise.
pub(crate) const STARTS_PER_SECOND: u64 = 100;

/// The stream of HiTactix.
const RATE: BitRate = BitRate(8_800_000);
const DURATION: Nanos = Nanos::from_secs(20);

fn spread(text: &str) -> Result<ContentSpread, String> {
    let zipf = |text: &str| text.strip_prefix("zipf:")?.parse().ok().filter(|&contents| contents > 0);
    match text {
        "turn" => Ok(ContentSpread::Turn),
        "random" => Ok(ContentSpread::Random),
        "one" => Ok(ContentSpread::One),
        _ => {
            zipf(text).map(ContentSpread::Zipf).ok_or_else(|| format!("`{text}`: write turn, random, one, or zipf:40"))
        }
    }
}

/// Our servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OwnServer {
    /// This program's `serve`, started and stopped by the benchmark.
    Isocast,
}

/// Other servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Peer {
    /// nginx, set up for this job.
    Nginx,
}

impl Peer {
    /// Our server, and then `peer`, if there is one, which reads contents that are cold.
    pub(crate) fn beside(peer: Option<Self>) -> Vec<Choice> {
        let peer = peer.map(|Self::Nginx| Choice::Nginx { threads: true });
        [Choice::Isocast].into_iter().chain(peer).collect()
    }
}

/// Whether nginx reads files in a thread pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PeerReads {
    /// In a thread pool with --cold, directly otherwise.
    Auto,
    /// In a thread pool.
    Threads,
    /// Directly.
    Direct,
}

/// Connection of server and client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Cable {
    /// A virtual one, MTU 1500.
    Veth,
}

/// A factor by which a disk becomes slower.
fn slower(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(factor) if (1.0..=100.0).contains(&factor) => Ok(factor),
        _ => Err(format!("`{text}` is no factor from 1 to 100; write for example 1.3")),
    }
}

/// A span that a run may be made of.
fn span(text: &str) -> Result<Nanos, String> {
    match units::parse_duration(text) {
        Ok(span) if span <= Nanos::from_secs(SECONDS_MAX) => Ok(span),
        Ok(_) => Err(format!("`{text}` is more than {SECONDS_MAX}s")),
        Err(error) => Err(error.to_string()),
    }
}

/// A number of clients.
fn clients(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count) if count <= STREAMS_MAX => Ok(count),
        _ => Err(format!("`{text}` is no number up to {STREAMS_MAX}")),
    }
}

/// Arguments of every experiment.
#[derive(Debug, Clone, Args)]
pub(crate) struct ExperimentArgs {
    /// Measure a server that runs already. `{content}`, `{rate}` and `{number}` (of the stream) are filled in where they
    /// stand.
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// Start this server, measure it, stop it.
    #[arg(long, value_enum)]
    pub server: Option<OwnServer>,
    /// Measure this one beside, in turn, over the same files.
    #[arg(long, value_enum)]
    pub peer: Option<Peer>,
    /// A folder of contents for the servers started (repeatable), and the list of contents.
    #[arg(long, value_name = "DIR")]
    pub root: Vec<PathBuf>,
    /// A content by name (repeatable); all files of the folders unless given.
    #[arg(long, value_name = "NAME")]
    pub content: Vec<String>,
    /// Distribution of contents to streams.
    #[arg(long, value_name = "turn|random|one|zipf:N", default_value = "turn", value_parser = spread)]
    pub spread: ContentSpread,
    /// Rate of a stream [default: 8.8M; for jitter 9M]; of a camera [default: 4M].
    #[arg(long, value_parser = units::parse_rate)]
    pub rate: Option<BitRate>,
    /// Time to measure, in whole seconds [default: 20s; for jitter 90s, for recorder 60s].
    #[arg(long, value_parser = units::parse_duration)]
    pub duration: Option<Nanos>,
    /// Time without measuring after the last stream began.
    #[arg(long, default_value = "6s", value_parser = span)]
    pub warm_up: Nanos,
    /// Span over which the streams begin evenly [default: as --starts-per-second says].
    #[arg(long, value_parser = span, conflicts_with = "starts_per_second")]
    pub ramp: Option<Nanos>,
    /// Streams that begin in a second.
    #[arg(long, default_value_t = STARTS_PER_SECOND, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub starts_per_second: u64,
    /// Media a player wants before it starts.
    #[arg(long, default_value = "2s", value_parser = span)]
    pub start: Nanos,
    /// Media a player wants after a stall.
    #[arg(long, default_value = "2s", value_parser = span)]
    pub rebuffer: Nanos,
    /// Number of runs of everything; median and spread are reported.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub repeat: u32,
    /// Disturbed runs are repeated once while that takes no longer than this altogether [default: no limit].
    #[arg(long, value_name = "SPAN", value_parser = units::parse_duration)]
    pub repeats_within: Option<Nanos>,
    /// Writers that upload without pause.
    #[arg(long, default_value_t = 0)]
    pub writers: usize,
    /// Size of one upload.
    #[arg(long, default_value = "10MB", value_parser = units::parse_size)]
    pub upload_size: ByteCount,
    /// Drop cached pages of the contents before each run.
    #[arg(long)]
    pub cold: bool,
    /// Whether nginx reads files in a thread pool.
    #[arg(long, value_enum, default_value = "auto")]
    pub nginx_reads: PeerReads,
    /// Read the streams by TLS, with a certificate made for it, from the servers started; all else goes without.
    #[arg(long, conflicts_with = "url")]
    pub tls: bool,
    /// One more argument for the server started by --server (repeatable).
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    pub serve_arg: Vec<String>,
    /// The process to account for with --url [default: the one that listens there].
    #[arg(long)]
    pub pid: Option<u32>,
    /// Number that reproduces random choices.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The contents are on this emulated disk (`isocast lab disk`): its own figures are kept, and tell whether the
    /// machine disturbed it.
    #[arg(long, value_name = "NAME")]
    pub lab_disk: Option<String>,
    /// Set the disk's read-ahead (KiB) while a peer runs, and set it back after (needs root).
    #[arg(long, value_name = "KIB")]
    pub peer_read_ahead: Option<u64>,
    /// Keep our server's disk profile here between runs [default: a temporary folder].
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Server and client in network namespaces of their own, with a cable between (needs root).
    #[arg(long, value_enum)]
    pub network: Option<Cable>,
    /// Rate of that cable from the server, by a token bucket [default: as fast as the machine can].
    #[arg(long, value_name = "RATE", requires = "network", value_parser = units::parse_rate)]
    pub shape: Option<BitRate>,
    /// Given by a benchmark that has made the network to itself.
    #[arg(long, hide = true, value_name = "NAMESPACE")]
    pub inside: Option<String>,
    /// Factor by which the emulated disk becomes slower than its profile says.
    #[arg(long, value_name = "FACTOR", requires = "lab_disk", value_parser = slower)]
    pub slow: Option<f64>,
    /// Span after the first stream began in which it becomes so.
    #[arg(long, default_value = "0s", requires = "slow", value_parser = span)]
    pub slow_after: Nanos,
    /// Clients beside that ask for a stream and then take nothing.
    #[arg(long, default_value_t = 0, value_parser = clients)]
    pub stalled_clients: usize,
    /// Hostile clients beside the streams: heads and bodies of a byte a second, garbage, storms of connections, answers
    /// unread.
    #[arg(long, default_value_t = 0, value_parser = clients)]
    pub hostile_clients: usize,
    /// A shell command that runs once a second beside the streams, `{address}` being the server's (repeatable).
    #[arg(long, value_name = "COMMAND")]
    pub beside: Vec<String>,
    /// Do not measure first the rate of one sequential durable writer where there are writers.
    #[arg(long)]
    pub no_yardstick: bool,
    /// Name of the results' files [default: the experiment's].
    #[arg(long)]
    pub label: Option<String>,
    /// Headline of the results.
    #[arg(long)]
    pub title: Option<String>,
    /// Write raw results, plots and a report to this folder.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

impl ExperimentArgs {
    /// The rate of a stream.
    pub(crate) fn rate(&self) -> BitRate {
        self.rate.unwrap_or(RATE)
    }

    /// Time to measure.
    pub(crate) fn duration(&self) -> Nanos {
        self.duration.unwrap_or(DURATION)
    }

    /// The servers to measure, in the order they take turns.
    ///
    /// # Errors
    /// None is named, or one that is started has nothing to serve.
    pub(crate) fn choices(&self) -> anyhow::Result<Vec<Choice>> {
        let mut choices = Vec::new();
        if let Some(url) = &self.url {
            parts_of(url)?;
            choices.push(Choice::Url(url.clone()));
        }
        if self.server == Some(OwnServer::Isocast) {
            choices.push(Choice::Isocast);
        }
        if self.peer == Some(Peer::Nginx) {
            let threads = match self.nginx_reads {
                PeerReads::Auto => self.cold,
                PeerReads::Threads => true,
                PeerReads::Direct => false,
            };
            choices.push(Choice::Nginx { threads });
        }
        if choices.is_empty() {
            bail!(crate::wrong_usage(
                "name a server to measure: --url URL, --server isocast, --peer nginx, or several of them"
            ));
        }
        if self.root.is_empty() && choices.iter().any(|c| !matches!(c, Choice::Url(_))) {
            bail!(crate::wrong_usage("a server that is started needs contents: give --root DIR"));
        }
        Ok(choices)
    }

    /// Folders and settings of the servers started. Folders are made absolute: servers may run elsewhere.
    ///
    /// # Errors
    /// A folder is not there, or the process to account for.
    pub(crate) fn ground(&self) -> anyhow::Result<ServerGround> {
        let absolute = |root: &PathBuf| {
            root.canonicalize().with_context(|| format!("the folder of contents `{}`", root.display()))
        };
        if let Some(pid) = self.pid.filter(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            bail!("--pid {pid}: there is no such process");
        }
        Ok(ServerGround {
            roots: self.root.iter().map(absolute).collect::<anyhow::Result<_>>()?,
            serve_args: self.serve_args(),
            rates: vec![self.rate()],
            pid: self.pid,
            state: self.state.clone(),
            peer_read_ahead: self.peer_read_ahead,
            namespace: self.inside.clone(),
            uploads: self.writers > 0,
            tls: self.tls,
        })
    }

    /// The run for one number of streams.
    ///
    /// # Errors
    /// No contents, or a figure out of range.
    pub(crate) fn job(&self, streams: usize) -> anyhow::Result<RunRequest> {
        if streams == 0 || streams > STREAMS_MAX {
            bail!(crate::wrong_usage(format_args!("{streams} streams: this client carries 1 to {STREAMS_MAX}")));
        }
        let seconds = self.duration().0 / 1_000_000_000;
        if seconds == 0 || seconds > SECONDS_MAX || self.duration() != Nanos::from_secs(seconds) {
            bail!(crate::wrong_usage(format_args!("--duration must be whole seconds, from 1s to {SECONDS_MAX}s")));
        }
        Ok(RunRequest {
            streams,
            rate: self.rate(),
            contents: self.contents()?,
            spread: self.spread,
            ramp: self.ramp(streams),
            warm_up: self.warm_up,
            seconds,
            start: self.start,
            rebuffer: self.rebuffer,
            seed: self.seed,
            writers: Writers { count: self.writers, upload_bytes: self.upload_size.0, after: Nanos::ZERO },
            cold: self.cold,
            lab_disk: self.lab_disk.clone(),
            slower: self.slow.map(|factor| Slower { factor, after: self.slow_after }),
            stalled_clients: self.stalled_clients,
            hostile_clients: self.hostile_clients,
            beside: self.beside.clone(),
            ..RunRequest::default()
        })
    }

    /// Span within which `streams` begin.
    fn ramp(&self, streams: usize) -> Nanos {
        self.ramp.unwrap_or_else(|| Nanos::from_secs((streams as u64).div_ceil(self.starts_per_second)))
    }

    /// Our server's own arguments: those given, and the rate of the network where there is one.
    fn serve_args(&self) -> Vec<String> {
        let mut arguments = self.serve_arg.clone();
        if self.inside.is_some() {
            arguments.extend(["--set".to_owned(), network::link_setting(self.shape)]);
        }
        arguments
    }

    /// Warns of contents that a server does not send at the rate: what lasts less than 30 s is taken for a segment.
    pub(crate) fn warn_of_short_contents(&self) {
        let bytes_min = self.rate().bytes_in(SEGMENT_MAX);
        let sizes = self.root.iter().filter_map(|root| fs::read_dir(root).ok()).flatten().filter_map(Result::ok);
        let sizes = sizes.filter_map(|entry| entry.metadata().ok()).filter(|about| about.is_file() && about.len() > 0);
        let (short, shortest) = sizes
            .map(|about| about.len())
            .filter(|size| *size < bytes_min)
            .fold((0u32, u64::MAX), |(count, least), size| (count + 1, least.min(size)));
        if let Some(warning) = short_contents(self.rate(), short, shortest) {
            crate::say(format_args!("{warning}"));
        }
    }

    /// Whether this has still to be run again in a network of its own.
    pub(crate) fn wants_network(&self) -> bool {
        self.network.is_some() && self.inside.is_none()
    }

    /// The contents named, or all files of the folders.
    fn contents(&self) -> anyhow::Result<Vec<String>> {
        if !self.content.is_empty() {
            return Ok(self.content.clone());
        }
        if self.root.is_empty() {
            if self.url.as_deref().is_some_and(|u| !u.ends_with('/') && u.matches('/').count() > 2) {
                return Ok(vec![String::new()]);
            }
            bail!(crate::wrong_usage(
                "name the contents: --content NAME (repeatable), or --root DIR with the same files"
            ));
        }
        let mut names = Vec::new();
        for root in &self.root {
            for entry in fs::read_dir(root).with_context(|| format!("listing `{}`", root.display()))? {
                let entry = entry?;
                let name = entry.file_name().to_string_lossy().into_owned();
                // An upload left by a benchmark that was killed is no content.
                let is_content = !name.starts_with('.') && !name.starts_with(UPLOAD_PREFIX);
                if is_content && entry.file_type()?.is_file() && entry.metadata()?.len() > 0 {
                    names.push(name);
                }
            }
        }
        names.sort();
        if names.is_empty() {
            bail!("no files in {:?}: make some, for example 64 of 256 MiB with `isocast lab disk fill`", self.root);
        }
        Ok(names)
    }
}

/// A content that lasts less is sent as players of segments want it: four times as fast as it plays, then nothing.
const SEGMENT_MAX: Nanos = Nanos::from_secs(30);

/// What to say where `short` contents last less than [`SEGMENT_MAX`] at `rate`, the shortest of `bytes`.
fn short_contents(rate: BitRate, short: u32, bytes: u64) -> Option<String> {
    let millis = u128::from(bytes) * 8_000 / u128::from(rate.0.max(1));
    (short > 0).then(|| {
        format!(
            "{short} contents last less than 30 s at {rate}, the shortest {}.{} s: Isocast sends such as segments, four times as fast as they play, and J \
             says nothing; take contents of {} or more",
            millis / 1000,
            millis % 1000 / 100,
            units::ByteCount(rate.bytes_in(SEGMENT_MAX))
        )
    })
}

#[cfg(test)]
mod short_content_tests {
    use super::*;

    #[test]
    fn contents_that_are_sent_as_segments_are_warned_of_with_their_seconds() {
        let rate = BitRate(25_000_000);
        assert_eq!(short_contents(rate, 0, u64::MAX), None);
        let warning = short_contents(rate, 2, 60_000_000).expect("60 MB last 19 s");
        assert!(
            warning.contains("2 contents") && warning.contains("19.2 s") && warning.contains("89.4 MiB"),
            "{warning}"
        );
    }
}
