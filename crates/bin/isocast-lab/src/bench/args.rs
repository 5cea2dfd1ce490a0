//! Checked arguments of the command line.

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

/// Longest measurement of a run, seconds: the series of 5,000 streams then still fit in memory.
pub(crate) const SECONDS_MAX: u64 = 3_600;
/// Default of the streams that begin per second.
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
    /// `isocast serve`, started and stopped by the benchmark.
    Isocast,
}

/// Other servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Peer {
    /// nginx, set up for this job.
    Nginx,
}

impl Peer {
    /// Our server, and then `peer`, if given. Contents are cold, so nginx reads them in its thread pool.
    pub(crate) fn beside(peer: Option<Self>) -> Vec<Choice> {
        let peer = peer.map(|Self::Nginx| Choice::Nginx { threads: true });
        [Choice::Isocast].into_iter().chain(peer).collect()
    }
}

/// The threads in which nginx reads files.
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

/// Parses a factor by which a disk becomes slower.
fn slower(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(factor) if (1.0..=100.0).contains(&factor) => Ok(factor),
        _ => Err(format!("`{text}` is no factor from 1 to 100; write for example 1.3")),
    }
}

/// Parses a span of at most [`SECONDS_MAX`].
fn span(text: &str) -> Result<Nanos, String> {
    match units::parse_duration(text) {
        Ok(span) if span <= Nanos::from_secs(SECONDS_MAX) => Ok(span),
        Ok(_) => Err(format!("`{text}` is more than {SECONDS_MAX}s")),
        Err(error) => Err(error.to_string()),
    }
}

/// Parses a number of clients.
fn clients(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count) if count <= STREAMS_MAX => Ok(count),
        _ => Err(format!("`{text}` is no number up to {STREAMS_MAX}")),
    }
}

/// Arguments of every experiment.
#[derive(Debug, Clone, Args)]
pub(crate) struct ExperimentArgs {
    /// Measure a running server. `{content}`, `{rate}` and `{number}` (of the stream) are replaced in the URL.
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,
    /// Start this server, measure it, stop it.
    #[arg(long, value_enum)]
    pub server: Option<OwnServer>,
    /// Measure this server too, in turn with the other, on the same files.
    #[arg(long, value_enum)]
    pub peer: Option<Peer>,
    /// A folder of contents for the started servers (repeatable); its files are the contents.
    #[arg(long, value_name = "DIR")]
    pub root: Vec<PathBuf>,
    /// A content by name (repeatable) [default: all files of the folders].
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
    /// Span over which the streams begin evenly [default: by --starts-per-second].
    #[arg(long, value_parser = span, conflicts_with = "starts_per_second")]
    pub ramp: Option<Nanos>,
    /// Streams that begin per second.
    #[arg(long, default_value_t = STARTS_PER_SECOND, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub starts_per_second: u64,
    /// Media that a player holds before it starts.
    #[arg(long, default_value = "2s", value_parser = span)]
    pub start: Nanos,
    /// Media that a player holds before it continues after a stall.
    #[arg(long, default_value = "2s", value_parser = span)]
    pub rebuffer: Nanos,
    /// Number of runs of everything; median and spread are reported.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub repeat: u32,
    /// Most time for the repetition of disturbed runs, in all [default: no limit].
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
    /// The threads in which nginx reads files.
    #[arg(long, value_enum, default_value = "auto")]
    pub nginx_reads: PeerReads,
    /// Read the streams over TLS from the started servers, with a certificate made for the run; other requests are not encrypted.
    #[arg(long, conflicts_with = "url")]
    pub tls: bool,
    /// A further argument for the server started by --server (repeatable).
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    pub serve_arg: Vec<String>,
    /// The process whose resources are counted with --url [default: the one that listens there].
    #[arg(long)]
    pub pid: Option<u32>,
    /// Seed of the random choices.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The emulated disk of the contents (`isocast lab disk`): its figures are kept, and show whether the machine disturbed it.
    #[arg(long, value_name = "NAME")]
    pub lab_disk: Option<String>,
    /// Set the disk's read-ahead (KiB) while a peer runs, and set it back after (needs root).
    #[arg(long, value_name = "KIB")]
    pub peer_read_ahead: Option<u64>,
    /// Keep our server's disk profile here between runs [default: a temporary folder].
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Run server and client in network namespaces of their own, joined by a cable (needs root).
    #[arg(long, value_enum)]
    pub network: Option<Cable>,
    /// Rate of that cable from the server, by a token bucket [default: as fast as the machine can].
    #[arg(long, value_name = "RATE", requires = "network", value_parser = units::parse_rate)]
    pub shape: Option<BitRate>,
    /// Set by a benchmark that runs itself again inside the network that it made.
    #[arg(long, hide = true, value_name = "NAMESPACE")]
    pub inside: Option<String>,
    /// Factor by which the emulated disk becomes slower than its profile says.
    #[arg(long, value_name = "FACTOR", requires = "lab_disk", value_parser = slower)]
    pub slow: Option<f64>,
    /// Time from the beginning of the first stream until the disk becomes slower.
    #[arg(long, default_value = "0s", requires = "slow", value_parser = span)]
    pub slow_after: Nanos,
    /// Further clients that request a stream and then take no bytes.
    #[arg(long, default_value_t = 0, value_parser = clients)]
    pub stalled_clients: usize,
    /// Hostile clients during the streams: they send heads and bodies at a byte a second and garbage, open many connections,
    /// and leave answers unread.
    #[arg(long, default_value_t = 0, value_parser = clients)]
    pub hostile_clients: usize,
    /// A shell command that runs once a second during the streams; `{address}` is the server's (repeatable).
    #[arg(long, value_name = "COMMAND")]
    pub beside: Vec<String>,
    /// With writers, do not measure the rate of one sequential durable writer first.
    #[arg(long)]
    pub no_yardstick: bool,
    /// Name of the files of results [default: the experiment's].
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
    /// No server is named, or a started server has no contents.
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

    /// Folders and settings of the started servers. Paths are made absolute, since servers may run in another folder.
    ///
    /// # Errors
    /// A folder, or the process whose resources are counted, does not exist.
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

    /// Warns of contents that a server does not send at the rate: it takes a content of less than 30 s for a segment.
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

    /// True if the benchmark has to run itself again in a network of its own.
    pub(crate) fn wants_network(&self) -> bool {
        self.network.is_some() && self.inside.is_none()
    }

    /// The named contents, or all files of the folders.
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
                // The upload of a killed benchmark is not a content.
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

/// A shorter content counts as a segment: a server sends it at four times its rate, and then pauses.
const SEGMENT_MAX: Nanos = Nanos::from_secs(30);

/// The warning if `short` contents last less than [`SEGMENT_MAX`] at `rate`; the shortest has `bytes`.
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
