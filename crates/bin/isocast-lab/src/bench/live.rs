//! `bench live`: live channels. For each channel a packager uploads a segment and a playlist every few seconds and deletes an
//! old segment, as `ffmpeg -f hls -method PUT` does; viewers play some segments behind.
//!
//! Promise: the time to publish a segment counts from its due time to the answer to its playlist, even if the segment before
//! was late; a viewer is smooth or stalled. Not here: films on the disk (`segments`), recordings (`recorder`).

use std::cell::Cell;
use std::fmt::Write as _;
use std::io::Write;
use std::sync::Mutex;
use std::thread;

use anyhow::{Context, bail};
use clap::Args;
use kernel::permissions;
use units::{BitRate, Nanos, real};

use super::client::segments::SegmentPlayback;
use super::figure_table::{FigureTable, TableFigure};
use super::lab_disk::DiskTiming;
use super::quantiles::quantile;
use super::requests::{ServerConnection, UploadBody};
use super::server::{Choice, RunningServer, ServerGround};
use super::store_site::{MeasuredStore, StoreArgs, StoreCost, StoreSite};
use super::{Stop, clock, reasons};
use crate::say;

/// See the module.
#[derive(Debug, Clone, Args)]
pub(crate) struct LiveCommand {
    /// Numbers of channels to measure.
    #[arg(long, value_delimiter = ',', default_value = "20,40,64")]
    channels: Vec<usize>,
    /// Viewers of each channel.
    #[arg(long, default_value_t = 5)]
    viewers: usize,
    /// Duration of a segment, seconds.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,
    /// Rate of a channel.
    #[arg(long, default_value = "4M", value_parser = units::parse_rate)]
    rate: BitRate,
    /// Value of `durable=` in each PUT to our server.
    #[arg(long, value_name = "SPAN")]
    durable: Option<String>,
    /// Time from the first segment to the end of a run.
    #[arg(long, default_value = "60s", value_parser = units::parse_duration)]
    duration: Nanos,
    #[command(flatten)]
    store: StoreArgs,
}

/// Most client threads that one process runs without becoming late itself.
const CLIENTS_MAX: usize = 2_000;
/// Segments in a playlist (ffmpeg's `hls_list_size`); the same number of older segments is kept (its `delete_segments`).
const LISTED: u64 = 5;
/// Segments behind the newest at which a viewer begins: hls.js' `liveSyncDurationCount`.
const BEHIND: usize = 3;
/// Time after which a client abandons a request.
const ANSWER_MAX: Nanos = Nanos::from_secs(30);
/// Time after which a failed request is repeated.
const RETRY: Nanos = Nanos::from_secs(1);

const FIGURES: [TableFigure; 15] = [
    TableFigure::new("published_p50_s", "published p50, s", 2),
    TableFigure::new("published_p99_s", "p99", 2),
    TableFigure::new("published_max_s", "max", 2),
    TableFigure::new("puts_failed", "PUTs failed", 0),
    TableFigure::new("smooth", "smooth", 0),
    TableFigure::new("stalled", "stalled", 0),
    TableFigure::new("stall_max_s", "longest stall, s", 1),
    TableFigure::new("gets_failed", "GETs failed", 0),
    TableFigure::new("segment_p50_s", "a segment takes p50, s", 2),
    TableFigure::new("segment_p99_s", "p99", 2),
    TableFigure::new("segment_max_s", "max", 2),
    TableFigure::new("disk_busy_percent", "disk busy, %", 0),
    TableFigure::new("disk_write_percent", "writing, %", 0),
    TableFigure::new("flushes_per_s", "flushes a second", 1),
    TableFigure::new("server_cpu_percent", "server CPU, %", 0),
];

/// One run's channels and their clock.
struct LiveRun<'a> {
    server: &'a RunningServer,
    query: String,
    segment_bytes: u64,
    segment: Nanos,
    begin: Nanos,
    end: Nanos,
    channels: usize,
    stop: &'a Stop,
    found: Mutex<ChannelFigures>,
}

/// A viewer's connection, and the time of the last request on it.
struct LiveViewer<'a> {
    asked: &'a Cell<Nanos>,
    connection: ServerConnection<'a>,
}

/// Measurements of packagers and viewers.
#[derive(Debug, Default)]
struct ChannelFigures {
    published_seconds: Vec<f64>,
    segment_seconds: Vec<f64>,
    puts_failed: u64,
    gets_failed: u64,
    smooth: u64,
    stalled: u64,
    stall_max: Nanos,
    reasons: Vec<String>,
}

impl LiveCommand {
    /// Runs it.
    ///
    /// # Errors
    /// No emulated disk can be made, a server cannot be started, or interrupted.
    pub(crate) fn run(mut self, stop: &Stop, out: &mut dyn Write) -> anyhow::Result<()> {
        if self.store.quick {
            (self.channels, self.viewers, self.seconds) = (vec![2], 2, 1);
            (self.rate, self.duration) = (BitRate(800_000), Nanos::from_secs(6));
        }
        let clients = |channels: usize| channels.saturating_mul(self.viewers.saturating_add(1));
        if let Some(count) = self.channels.iter().find(|count| **count == 0 || clients(**count) > CLIENTS_MAX) {
            bail!(crate::wrong_usage(format_args!(
                "{count} channels: this client has 1 channel to {CLIENTS_MAX} channels and viewers"
            )));
        }
        permissions::allow_open_files(CLIENTS_MAX as u64)?;
        let site = self.store.site("live")?;
        site.set_timing(DiskTiming::Drive)?;
        site.serve(&self.store.serve_arg, stop, |_| Ok(()))?;
        let mut table = FigureTable::new("live", "Live channels", "channels", &FIGURES, site.root()).linear();
        table.note(self.description());
        self.store.measure(table, (&self.channels, "channels"), out, |choice, channels| {
            self.measure(choice, &site, channels, stop)
        })
    }

    fn description(&self) -> String {
        format!(
            "Each channel puts a segment of {} s at {} and a playlist of {LISTED}{}, and deletes an old segment; {} viewers each begin {BEHIND} segments \
             behind; a run lasts {}",
            self.seconds,
            self.rate,
            self.durable.as_deref().map_or(String::new(), |durable| format!(" with durable={durable}")),
            self.viewers,
            self.duration
        )
    }

    fn measure(
        &self,
        choice: &Choice,
        site: &StoreSite,
        channels: usize,
        stop: &Stop,
    ) -> anyhow::Result<MeasuredStore> {
        let ground = ServerGround { uploads: true, ..site.ground(self.rate, &self.store.serve_arg) };
        let ours = matches!(choice, Choice::Isocast);
        let (found, cost) = site.measured(choice, &ground, self.duration, stop, |server| {
            say(format_args!("{}: {channels} channels of {} viewers for {}", server.name, self.viewers, self.duration));
            let begin = clock::now();
            let run = LiveRun {
                server,
                query: self.durable.as_ref().filter(|_| ours).map_or(String::new(), |span| format!("?durable={span}")),
                segment_bytes: self.rate.bytes_in(Nanos::from_secs(self.seconds)),
                segment: Nanos::from_secs(self.seconds),
                begin,
                end: begin + self.duration,
                channels,
                stop,
                found: Mutex::default(),
            };
            run.play(self.viewers);
            run.found.into_inner().ok().context("a client panicked")
        })?;
        Ok(found.measured(&cost, self.duration))
    }
}

impl LiveRun<'_> {
    /// All channels and viewers, each in a thread of its own, to the end of the run.
    fn play(&self, viewers: usize) {
        thread::scope(|scope| {
            for channel in 0..self.channels {
                scope.spawn(move || self.publish(channel));
                for viewer in 0..viewers {
                    scope.spawn(move || self.watch(channel, viewer, viewers));
                }
            }
        });
    }

    fn is_over(&self, now: Nanos) -> bool {
        self.stop.is_set() || now >= self.end
    }

    /// Due time of the first segment of `channel`: the channels' due times are spread over a segment's time.
    fn begins(&self, channel: usize) -> Nanos {
        self.begin + Nanos(self.segment.0 * channel as u64 / self.channels as u64)
    }

    /// Sleeps until `due`; false if the run is over by then.
    fn wait(&self, due: Nanos) -> bool {
        if due >= self.end {
            return false;
        }
        clock::sleep_until(due);
        !self.is_over(clock::now())
    }

    fn publish(&self, channel: usize) {
        let (due, body) = (Cell::new(self.begin), vec![0x47_u8; 64 * 1024]);
        let give_up = || self.stop.is_set() || clock::now() > due.get() + ANSWER_MAX;
        let mut connection = self.server.connection(give_up);
        for k in 0.. {
            due.set(self.begins(channel) + self.segment.saturating_mul(k));
            if !self.wait(due.get()) {
                break;
            }
            let path = |name: &str| self.server.upload_path(name);
            let mut put = |name: &str, piece: &[u8], bytes: u64| {
                connection.put(&format!("{}{}", path(name), self.query), UploadBody { piece, bytes })
            };
            let playlist = self.playlist(channel, k);
            let published = put(&segment_name(channel, k), &body, self.segment_bytes)
                .and_then(|()| put(&playlist_name(channel), playlist.as_bytes(), playlist.len() as u64));
            let now = clock::now();
            self.note(|found| match published {
                Ok(()) => found.published_seconds.push(now.saturating_sub(due.get()).as_secs_f64()),
                Err(error) => found.failed(&format!("PUT: {error}"), |found| &mut found.puts_failed),
            });
            if let Some(old) = k.checked_sub(2 * LISTED) {
                // The answer for a segment that was never uploaded is 404, which is fine.
                let _ = connection.request("DELETE", &path(&segment_name(channel, old)), None, &mut |_| ());
            }
        }
    }

    fn playlist(&self, channel: usize, newest: u64) -> String {
        let first = newest.saturating_sub(LISTED - 1);
        let seconds = self.segment.as_secs_f64();
        let mut text =
            format!("#EXTM3U\n#EXT-X-VERSION:3\n#EXT-X-TARGETDURATION:{seconds:.0}\n#EXT-X-MEDIA-SEQUENCE:{first}\n");
        for k in first..=newest {
            let name = segment_name(channel, k);
            let _ = writeln!(text, "#EXTINF:{seconds:.3},\n{}", name.rsplit('/').next().unwrap_or_default());
        }
        text
    }

    /// Plays a channel: requests the playlist once per segment's time, or after half that time if the playlist was unchanged,
    /// and then its new segments.
    fn watch(&self, channel: usize, viewer: usize, viewers: usize) {
        let first = self.begins(channel) + self.segment.saturating_mul(BEHIND as u64 + 1);
        let mut next_look = first + Nanos(self.segment.0 * viewer as u64 / viewers as u64);
        let (mut playback, mut wanted) = (SegmentPlayback::new(self.segment), None);
        let asked = Cell::new(self.begin);
        let give_up = || self.is_over(clock::now()) || clock::now() > asked.get() + ANSWER_MAX;
        let connection = self.server.connection(give_up).named(&format!("isocast-bench-{channel}-{viewer}"));
        let mut connection = LiveViewer { asked: &asked, connection };
        while self.wait(next_look) {
            let asked = clock::now();
            let listed = self.listed(channel, &mut connection);
            let newest = listed.last().copied();
            let mut next = *wanted.get_or_insert(listed.get(listed.len().saturating_sub(BEHIND)).copied().unwrap_or(0));
            if listed.is_empty() {
                wanted = None;
            } else if let Some(oldest) = listed.first().filter(|oldest| **oldest > next) {
                // The player is so late that the playlist no longer has its next segment.
                next = *oldest;
            }
            let is_news = newest.is_some_and(|newest| newest >= next);
            while newest.is_some_and(|newest| newest >= next) && !self.is_over(clock::now()) {
                if !self.fetch(&segment_name(channel, next), &mut connection) {
                    break;
                }
                playback.holds(playback.held + 1, clock::now());
                next += 1;
            }
            wanted = wanted.map(|_| next);
            let failed = newest.is_none_or(|newest| newest >= next);
            next_look = match (failed, is_news) {
                (true, _) => clock::now() + RETRY,
                (false, true) => asked + self.segment,
                (false, false) => asked + Nanos(self.segment.0 / 2),
            };
        }
        playback.stand_still_until(clock::now().min(self.end));
        self.note(|found| {
            let count = if playback.stalled || playback.held == 0 { &mut found.stalled } else { &mut found.smooth };
            *count += 1;
            found.stall_max = found.stall_max.max(playback.stall_max);
        });
    }

    /// The segments in the present playlist; empty if the request failed.
    fn listed(&self, channel: usize, connection: &mut LiveViewer<'_>) -> Vec<u64> {
        let mut text = Vec::new();
        if !self.get(&playlist_name(channel), connection, &mut |piece| text.extend_from_slice(piece)) {
            return Vec::new();
        }
        let text = String::from_utf8_lossy(&text);
        let number = |line: &str| line.strip_suffix(".ts")?.parse().ok();
        text.lines().filter_map(number).collect()
    }

    fn fetch(&self, name: &str, connection: &mut LiveViewer<'_>) -> bool {
        let asked = clock::now();
        let mut bytes = 0;
        let whole = self.get(name, connection, &mut |piece| bytes += piece.len() as u64) && bytes == self.segment_bytes;
        if whole {
            let took = clock::now().saturating_sub(asked).as_secs_f64();
            self.note(|found| found.segment_seconds.push(took));
        }
        whole
    }

    fn get(&self, name: &str, viewer: &mut LiveViewer<'_>, take: &mut dyn FnMut(&[u8])) -> bool {
        viewer.asked.set(clock::now());
        let reason = match viewer.connection.request("GET", &self.server.upload_path(name), None, take) {
            Ok(200) => return true,
            Ok(status) => format!("GET: answered {status}"),
            Err(error) => format!("GET: {error}"),
        };
        // The end of the run ends requests under way, which do not count as failures.
        if !self.is_over(clock::now()) {
            self.note(|found| found.failed(&reason, |found| &mut found.gets_failed));
        }
        false
    }

    fn note(&self, note: impl FnOnce(&mut ChannelFigures)) {
        if let Ok(mut found) = self.found.lock() {
            note(&mut found);
        }
    }
}

impl ChannelFigures {
    fn failed(&mut self, reason: &str, count: impl FnOnce(&mut Self) -> &mut u64) {
        *count(self) += 1;
        reasons::keep(&mut self.reasons, reason.to_owned());
    }

    /// Results of a run of `span`.
    fn measured(mut self, cost: &StoreCost, span: Nanos) -> MeasuredStore {
        self.published_seconds.sort_by(f64::total_cmp);
        self.segment_seconds.sort_by(f64::total_cmp);
        let published = |percent| quantile(&self.published_seconds, percent);
        let segment = |percent| quantile(&self.segment_seconds, percent);
        let stall_max = self.stall_max.as_secs_f64();
        let mut values = vec![
            ("published_p50_s", published(50)),
            ("published_p99_s", published(99)),
            ("published_max_s", published(100)),
            ("puts_failed", real(self.puts_failed)),
            ("smooth", real(self.smooth)),
            ("stalled", real(self.stalled)),
            ("stall_max_s", stall_max),
            ("gets_failed", real(self.gets_failed)),
            ("segment_p50_s", segment(50)),
            ("segment_p99_s", segment(99)),
            ("segment_max_s", segment(100)),
        ];
        values.extend(cost.values());
        values.extend(cost.disk.map(|disk| ("flushes_per_s", real(disk.flushes) / span.as_secs_f64())));
        let sentence = format!(
            "  published in {:.2} s (50 %), {:.2} s (99 %), {:.2} s at most; {} smooth, {} stalled (up to {stall_max:.1} s)",
            published(50),
            published(99),
            published(100),
            self.smooth,
            self.stalled,
        );
        let reasons = (!self.reasons.is_empty()).then(|| self.reasons.join("; "));
        MeasuredStore { values, sentence, remarks: reasons.into_iter().chain(cost.remark()).collect() }
    }
}

fn segment_name(channel: usize, k: u64) -> String {
    format!("channel-{channel:03}/{k:06}.ts")
}

fn playlist_name(channel: usize) -> String {
    format!("channel-{channel:03}/live.m3u8")
}
