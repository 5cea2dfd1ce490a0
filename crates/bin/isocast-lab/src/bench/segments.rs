//! `bench segments`: how many viewers of segments a disk carries, each of another film in hundreds of small contents.
//!
//! Films are written onto an emulated disk, one directory each, spread over all of it as over a disk that is full; runs are cold. The
//! server is asked as hls.js asks (`client::segments`); nginx as the peer has the read-ahead that is best for it. Not here: viewers
//! with streams, from memory (`hls`).

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;

use anyhow::{Context, bail};
use clap::Args;
use kernel::aligned::AlignedBlock;
use rustix::fs::FallocateFlags;
use units::{BitRate, Nanos, real};

use super::client::segments::{SegmentAudience, SegmentFigures, TrackRequests, play};
use super::experiment::{ColdPart, drop_caches};
use super::figure_table::{FigureTable, TableFigure};
use super::lab_disk::DiskTiming;
use super::quantiles::quantile;
use super::server::{Choice, RunningServer, ServerGround};
use super::store_site::{MeasuredStore, StoreArgs, StoreCost, StoreSite};
use super::writer::{self, UploadFigures};
use super::{Stop, clock, yardstick};
use crate::say;

/// See the module.
#[derive(Debug, Clone, Args)]
pub(crate) struct SegmentsCommand {
    /// Numbers of viewers to measure.
    #[arg(long, value_delimiter = ',', default_value = "40,56,66,80")]
    viewers: Vec<usize>,
    /// How many seconds a segment plays.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,
    /// Rate of the pictures.
    #[arg(long, default_value = "8.8M", value_parser = units::parse_rate)]
    rate: BitRate,
    /// Sound of 128 kbit/s in files of its own.
    #[arg(long)]
    audio: bool,
    /// Segments as byte ranges of one file a film.
    #[arg(long)]
    ranges: bool,
    /// Writers that upload 10 MB again and again meanwhile.
    #[arg(long, default_value_t = 0)]
    writers: usize,
    /// Films that viewers share, in turn [default: one for each].
    #[arg(long)]
    films: Option<usize>,
    /// From the first viewer's start to the end of a run.
    #[arg(long, default_value = "75s", value_parser = units::parse_duration)]
    duration: Nanos,
    /// Media that a player holds before it pauses its requests.
    #[arg(long, default_value = "30s", value_parser = units::parse_duration)]
    ahead: Nanos,
    /// From one viewer's start to the next.
    #[arg(long, default_value = "150ms", value_parser = units::parse_duration)]
    gap: Nanos,
    #[command(flatten)]
    store: StoreArgs,
}

const SOUND_RATE: BitRate = BitRate(128_000);
/// The best read-ahead of those tried for nginx with files of some megabytes.
const PEER_READ_AHEAD_KIB: u64 = 4096;
const UPLOAD_BYTES: u64 = 10_000_000;
/// Left free for directories and playlists while the films are laid.
const KEPT_BYTES: u64 = 8 << 20;
const BLOCK_BYTES: u64 = 4096;
/// Bytes written at once while films are laid.
const PIECE_BYTES: usize = 1 << 20;
/// A burst may wait in a connection's buffer until the client looks.
const BUFFER_BYTES: usize = 8 << 20;
/// More viewers than any disk carries, and than one thread plays without being late itself.
const VIEWERS_MAX: usize = 2_000;

const FIGURES: [TableFigure; 13] = [
    TableFigure::new("smooth", "smooth", 0),
    TableFigure::new("stalled", "stalled", 0),
    TableFigure::new("stall_max_s", "longest stall, s", 1),
    TableFigure::new("refused", "refused", 0),
    TableFigure::new("first_p50_s", "first segment p50, s", 2),
    TableFigure::new("first_p95_s", "p95", 2),
    TableFigure::new("first_max_s", "max", 2),
    TableFigure::new("segment_p50_s", "a segment takes p50, s", 2),
    TableFigure::new("segment_p90_s", "p90", 2),
    TableFigure::new("segment_max_s", "max", 2),
    TableFigure::new("upload_mb_per_s", "uploads, MB/s", 1),
    TableFigure::new("disk_busy_percent", "disk busy, %", 0),
    TableFigure::new("server_cpu_percent", "server CPU, %", 1),
];

/// One track of every film.
#[derive(Debug, Clone, Copy)]
struct BenchTrack {
    name: &'static str,
    segment_bytes: u64,
    /// Address of a request: the playlist takes the pictures' rate along, and to all the session.
    stated_rate: Option<BitRate>,
    /// Whether the segments are ranges of one file.
    is_one_file: bool,
}

impl SegmentsCommand {
    /// Runs it.
    ///
    /// # Errors
    /// No emulated disk can be made, a server cannot be started, or interrupted.
    pub(crate) fn run(mut self, stop: &Stop, out: &mut dyn Write) -> anyhow::Result<()> {
        if self.store.quick {
            (self.viewers, self.seconds, self.duration) = (vec![1, 2], 1, Nanos::from_secs(4));
            (self.rate, self.ahead) = (BitRate(2_000_000), Nanos::from_secs(2));
        }
        if let Some(count) = self.viewers.iter().find(|count| !(1..=VIEWERS_MAX).contains(*count)) {
            bail!(crate::wrong_usage(format_args!("{count} viewers: this client plays 1 to {VIEWERS_MAX}")));
        }
        let site = self.site(stop)?;
        let mut table = FigureTable::new("segments", "Viewers of segments", "viewers", &FIGURES, site.root()).linear();
        table.note(self.description());
        self.store.measure(table, (&self.viewers, "viewers"), out, |choice, viewers| {
            self.measure(choice, &site, viewers, stop)
        })
    }

    fn description(&self) -> String {
        let (sound, kind) = (
            if self.audio { format!(", sound of {SOUND_RATE} apart") } else { String::new() },
            if self.ranges { "byte ranges of one file" } else { "files" },
        );
        let beside = match self.writers {
            0 => String::new(),
            writers => format!("; beside {writers} writers of {UPLOAD_BYTES} bytes each time"),
        };
        format!(
            "Each viewer plays {}: {kind} of {} s at {}{sound}. Playback begins with the first; then one after the other is asked for while less than {} \
             are held; a viewer begins every {}, a run lasts {}{beside}",
            self.films.map_or("another film".to_owned(), |films| format!("one of {films} films")),
            self.seconds,
            self.rate,
            self.ahead,
            self.gap,
            self.duration
        )
    }

    fn tracks(&self) -> Vec<BenchTrack> {
        let bytes = |rate: BitRate| rate.bytes_in(Nanos::from_secs(self.seconds));
        let pictures = BenchTrack {
            name: "pictures",
            segment_bytes: bytes(self.rate),
            stated_rate: Some(self.rate),
            is_one_file: self.ranges,
        };
        let sound =
            BenchTrack { name: "sound", segment_bytes: bytes(SOUND_RATE), stated_rate: None, is_one_file: false };
        [pictures].into_iter().chain(self.audio.then_some(sound)).collect()
    }

    /// Segments of a film: more than a viewer plays and holds.
    fn segments(&self) -> u64 {
        (self.duration + self.ahead).0.div_ceil(Nanos::from_secs(self.seconds).0) + 2
    }

    /// The disk with its films, measured by our server, or the folder that stands for it, where one was named.
    fn site(&self, stop: &Stop) -> anyhow::Result<StoreSite> {
        let site = self.store.site("segments")?;
        let films = self.films.unwrap_or_else(|| self.viewers.iter().copied().max().unwrap_or(0));
        say(format_args!("{films} films of {} segments", self.segments()));
        site.set_timing(DiskTiming::None)?;
        let root = site.root().context("the films lie in a folder")?;
        let mut shares = if site.disk().is_some() { take_room(root, films)? } else { Vec::new() };
        for film in 0..films {
            if let Some((_, share)) = shares.get_mut(film) {
                // The only room that is left is at this share's end.
                share.set_len(share.metadata()?.len().saturating_sub(self.film_bytes()))?;
                share.sync_all()?;
            }
            self.lay(&root.join(film_name(film)), stop)?;
        }
        shares.iter().try_for_each(|(path, _)| fs::remove_file(path))?;
        drop(shares);
        site.set_timing(DiskTiming::Drive)?;
        site.serve(&self.store.serve_arg, stop, |_| Ok(()))?;
        Ok(site)
    }

    /// The room that a film takes, and a segment more: without it the last ones come to lie in pieces.
    fn film_bytes(&self) -> u64 {
        let of = |track: &BenchTrack| track.segment_bytes.next_multiple_of(BLOCK_BYTES) * (self.segments() + 1);
        self.tracks().iter().map(of).sum::<u64>()
    }

    /// Writes a film.
    fn lay(&self, folder: &Path, stop: &Stop) -> anyhow::Result<()> {
        // Zeros, but written: the disk reads them like anything else, and keeps none in memory.
        let zeros = AlignedBlock::zeroed(PIECE_BYTES);
        fs::create_dir(folder).with_context(|| format!("making {}", folder.display()))?;
        for track in self.tracks() {
            fs::write(folder.join(track.playlist()), self.playlist(&track))?;
            let (files, bytes) = if track.is_one_file {
                (1, track.segment_bytes * self.segments())
            } else {
                (self.segments(), track.segment_bytes)
            };
            for n in 0..files {
                stop.check()?;
                let path = folder.join(track.file(n));
                yardstick::write_durably(&path, zeros.bytes(), bytes)
                    .with_context(|| format!("writing {}", path.display()))?;
            }
        }
        Ok(())
    }

    fn playlist(&self, track: &BenchTrack) -> String {
        let segment = |n| {
            let range =
                track.range(n).map_or(String::new(), |at| format!("#EXT-X-BYTERANGE:{}@{at}\n", track.segment_bytes));
            format!("#EXTINF:{}.0,\n{range}{}\n", self.seconds, track.file(n))
        };
        let segments: String = (0..self.segments()).map(segment).collect();
        format!("#EXTM3U\n#EXT-X-VERSION:4\n#EXT-X-TARGETDURATION:{}\n{segments}#EXT-X-ENDLIST\n", self.seconds)
    }

    fn measure(&self, choice: &Choice, site: &StoreSite, viewers: usize, stop: &Stop) -> anyhow::Result<MeasuredStore> {
        // Its best users do not limit what players pace themselves: no rate is named to nginx.
        let peer_read_ahead = site.disk().map(|_| PEER_READ_AHEAD_KIB);
        let uploads = self.writers > 0;
        let ground = site.ground(self.rate, &self.store.serve_arg);
        let ground = ServerGround { rates: Vec::new(), peer_read_ahead, uploads, ..ground };
        drop_caches(&ground.roots, ColdPart::PagesAndNames);
        let ((played, uploads), cost) = site.measured(choice, &ground, self.duration, stop, |server| {
            say(format_args!("{}: {viewers} viewers for {}", server.name, self.duration));
            let (audience, uploaded) = (self.audience(server, viewers), Mutex::new(Vec::new()));
            let begin = clock::now();
            let end = begin + self.duration;
            let played = thread::scope(|scope| {
                for n in 0..self.writers {
                    let uploaded = &uploaded;
                    scope.spawn(move || writer::upload((server, n, UPLOAD_BYTES), begin, &|| end, stop, uploaded));
                }
                play(&audience, stop)
            });
            let uploaded = uploaded.into_inner().unwrap_or_default();
            (0..self.writers).for_each(|n| writer::remove(server, n));
            let figures = || writer::figures(begin, end, self.writers, UPLOAD_BYTES, &uploaded);
            Ok((played?, (self.writers > 0).then(figures)))
        })?;
        Ok(measured(&played, uploads.as_ref(), &cost))
    }

    fn audience(&self, server: &RunningServer, viewers: usize) -> SegmentAudience {
        let films = self.films.unwrap_or(viewers).max(1);
        let of = |viewer: usize| {
            let requests = |track: &BenchTrack| self.requests(track, server, viewer, viewer % films);
            self.tracks().iter().map(requests).collect()
        };
        SegmentAudience {
            address: server.address,
            buffer_bytes: BUFFER_BYTES,
            viewers: (0..viewers).map(of).collect(),
            segment: Nanos::from_secs(self.seconds),
            ahead: self.ahead,
            gap: self.gap,
            duration: self.duration,
        }
    }

    fn requests(&self, track: &BenchTrack, server: &RunningServer, viewer: usize, film: usize) -> TrackRequests {
        let path = |file: &str| {
            let content = format!("{}/{file}", film_name(film));
            let start = match track.stated_rate {
                Some(rate) => server.path_of(&content, rate, viewer) + "&",
                None => server.upload_path(&content) + "?",
            };
            format!("{start}session=viewer-{viewer}")
        };
        let get = |file: &str, version: &str, range: &str| {
            let (path, host) = (path(file), &server.authority);
            format!(
                "GET {path} HTTP/{version}\r\nHost: {host}\r\nUser-Agent: isocast-bench\r\nAccept: */*\r\n{range}\r\n"
            )
        };
        let range = |n| {
            let last = |at| at + track.segment_bytes - 1;
            track.range(n).map_or(String::new(), |at| format!("Range: bytes={at}-{}\r\n", last(at)))
        };
        TrackRequests {
            // Rewritten for its session, it has no length, and HTTP/1.0 no chunks.
            playlist: get(&track.playlist(), "1.0", ""),
            segments: (0..self.segments()).map(|n| get(&track.file(n), "1.1", &range(n))).collect(),
        }
    }
}

impl BenchTrack {
    fn playlist(&self) -> String {
        format!("{}.m3u8", self.name)
    }

    /// The file of segment `n`.
    fn file(&self, n: u64) -> String {
        if self.is_one_file { format!("{}.ts", self.name) } else { format!("{}-{n:05}.ts", self.name) }
    }

    /// Where segment `n` begins in its file, if it is a part of it.
    fn range(&self, n: u64) -> Option<u64> {
        self.is_one_file.then(|| n * self.segment_bytes)
    }
}

/// Results of a run.
fn measured(found: &SegmentFigures, uploads: Option<&UploadFigures>, cost: &StoreCost) -> MeasuredStore {
    let (first, segment) =
        (|percent| quantile(&found.first_seconds, percent), |percent| quantile(&found.segment_seconds, percent));
    let mut values = vec![
        ("smooth", real(found.smooth as u64)),
        ("stalled", real(found.stalled as u64)),
        ("stall_max_s", found.stall_seconds_max),
        ("refused", real(found.refused as u64)),
        ("first_p50_s", first(50)),
        ("first_p95_s", first(95)),
        ("first_max_s", first(100)),
        ("segment_p50_s", segment(50)),
        ("segment_p90_s", segment(90)),
        ("segment_max_s", segment(100)),
    ];
    values.extend(uploads.map(|uploads| ("upload_mb_per_s", uploads.mb_per_s)));
    values.extend(cost.values());
    let sentence = format!(
        "  {} smooth, {} stalled (up to {:.1} s), {} refused; first segment {:.2} s (95 %), a segment {:.2} s (50 %), {:.2} s (90 %)",
        found.smooth,
        found.stalled,
        found.stall_seconds_max,
        found.refused,
        first(95),
        segment(50),
        segment(90),
    );
    let mut remarks = Vec::new();
    if found.refused_later + found.failed > 0 {
        let (refused, failed) = (found.refused_later, found.failed);
        remarks.push(format!(
            "{refused} requests were refused after the first segment, {failed} broke, and were repeated"
        ));
    }
    if !found.reasons.is_empty() {
        remarks.push(found.reasons.join("; "));
    }
    remarks.extend(cost.remark());
    MeasuredStore { values, sentence, remarks }
}

fn film_name(film: usize) -> String {
    format!("film-{film:03}")
}

/// Files that take all of the disk's room, each the share of one film, by their places: films written one after the other would all lie
/// at the outer rim, the fastest.
fn take_room(root: &Path, films: usize) -> anyhow::Result<Vec<(PathBuf, File)>> {
    let free = || rustix::fs::statvfs(root).map(|space| space.f_bavail * space.f_frsize);
    let share = free()?.saturating_sub(KEPT_BYTES) / films.max(1) as u64;
    let take = |n: usize, bytes: u64| -> anyhow::Result<(u64, PathBuf, File)> {
        let path = root.join(format!(".room-{n}"));
        let file = File::create(&path).with_context(|| format!("making {}", path.display()))?;
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes).context("taking the disk's room")?;
        let end = kernel::fiemap::extents(file.as_fd())?.last().map_or(0, |extent| extent.physical);
        Ok((end, path, file))
    };
    let mut taken = (0..films).map(|n| take(n, share)).collect::<anyhow::Result<Vec<_>>>()?;
    taken.sort_unstable_by_key(|(end, ..)| *end);
    Ok(taken.into_iter().map(|(_, path, file)| (path, file)).collect())
}
