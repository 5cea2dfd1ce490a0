//! Load of a run: contents, deliveries, recordings, uploads, and the faults among them.
//!
//! Promise: plain numbers, all drawn from the seed by `scenario` or set by a test. Not here: carrying them out.

use units::{BitRate, Nanos};

use crate::camera::Camera;

/// The demand on the plane.
#[derive(Debug, Clone, PartialEq)]
pub struct Load {
    /// The contents on the disks.
    pub contents: ContentLoad,
    /// Rates streams ask for.
    pub rates: Vec<BitRate>,
    /// Mean time between two arrivals.
    pub arrivals: Nanos,
    /// Most deliveries that run at once: there are no arrivals beyond.
    pub streams_max: usize,
    /// Shortest and longest viewing.
    pub viewing: (Nanos, Nanos),
    /// Longest start burst, as playing time.
    pub burst_max: Nanos,
    /// Shares of deliveries: best effort, several ranges, holding their reservation, stopped half-way.
    pub best_effort_share: f64,
    /// Several ranges in one response.
    pub ranges_share: f64,
    /// Keeping the reservation for the session's next request.
    pub hold_share: f64,
    /// Stopped by the control side.
    pub stop_share: f64,
    /// Mean time between two seeks of any viewer with a held reservation, once faults are over; zero: none.
    pub seeks: Nanos,
    /// Mean time between two pauses of any viewer, of up to a minute each; zero: none.
    pub pauses: Nanos,
    /// Shares of clients: reading slower than the rate, pausing once, vanishing, resetting.
    pub slow_share: f64,
    /// Pausing once for a while.
    pub pause_share: f64,
    /// Never reading again.
    pub vanish_share: f64,
    /// Resetting the connection.
    pub reset_share: f64,
    /// Uploads.
    pub uploads: UploadLoad,
    /// Recordings.
    pub recordings: RecordingLoad,
    /// Mean time between probes, per disk; zero: none.
    pub probes: Nanos,
    /// Viewers of films in segments, beside the deliveries that arrive.
    pub segments: Vec<SegmentViewers>,
}

/// Contents that lie on the disks from the beginning.
#[derive(Debug, Clone, PartialEq)]
pub struct ContentLoad {
    /// Contents per disk.
    pub per_disk: u32,
    /// Which contents are asked for more often than others.
    pub popularity: Popularity,
    /// Least and most bytes of one.
    pub bytes: (u64, u64),
    /// Most pieces a content lies in on its disk.
    pub fragments_max: u64,
    /// Every content lies on all disks, in two copies.
    pub mirrored: bool,
    /// Share of contents that can only be read through the page cache.
    pub buffered_share: f64,
}

/// Uploads, each by a client that sends one after the other.
#[derive(Debug, Clone, PartialEq)]
pub struct UploadLoad {
    /// Uploaders per disk, one upload after the other each.
    pub uploaders: u32,
    /// Bytes of one upload.
    pub bytes: (u64, u64),
    /// How fast an upload comes in.
    pub rate: BitRate,
    /// Mean time between an uploader's uploads.
    pub gap: Nanos,
}

/// Recordings.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordingLoad {
    /// Mean time between requests for a recording, per disk; zero: none.
    pub apart: Nanos,
    /// Rates of recordings.
    pub rates: Vec<BitRate>,
    /// Kinds of the clients that send them.
    pub cameras: Vec<Camera>,
    /// Recordings per disk that begin with the run and continue to its end.
    pub recorded: u32,
    /// On a machine of several disks: with how many copies each recording is spread over all of them; zero: each lies on one.
    pub copies: u8,
    /// Recordings lie side by side, as a file system lays out files written at the same time; else anywhere.
    pub side_by_side: bool,
    /// Longest time until the bytes of a recording are durable.
    pub durable: Nanos,
}

/// Viewers of films that lie in segments on the disks, which play as players of HLS and DASH do.
#[derive(Debug, Clone, PartialEq)]
pub struct SegmentViewers {
    /// Their number.
    pub viewers: u32,
    /// Time between the arrivals of two of them.
    pub apart: Nanos,
    /// Films; viewers choose them in turn.
    pub films: u32,
    /// How long each film is; it begins anew behind its end.
    pub film: Nanos,
    /// The rate that a viewer asks for: that of the largest segments.
    pub rate: BitRate,
    /// For how long each segment plays.
    pub segment: Nanos,
    /// Bytes of the smallest segments, as a share of the largest ones'.
    pub smallest: f64,
    /// How segments lie in files.
    pub layout: SegmentLayout,
    /// Files of a film lie on one disk after the other, as in a striped volume; else on one.
    pub striped: bool,
    /// Rate of the sound, if that is a track of its own: its requests name no rate, and are read with the session of the pictures.
    pub sound: Option<BitRate>,
    /// A player sends no request while its buffer lasts this long beyond its place.
    pub ahead: Nanos,
    /// Most time from a segment's arrival at its player to the command for the next one: each takes a random part of it.
    pub way_max: Nanos,
    /// Most time in which the server opens a segment: each takes a random part of it.
    pub open_max: Nanos,
    /// Mean time between the pauses of a viewer, of up to a minute each; zero: none.
    pub pauses: Nanos,
    /// Mean time between a viewer's seeks; zero: none.
    pub seeks: Nanos,
}

/// How the segments of a film lie in files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SegmentLayout {
    /// Each is a file.
    Files,
    /// Each is a range of one file.
    Ranges,
}

impl SegmentViewers {
    /// `viewers` viewers with a film of their own each, of 8.8 Mbit/s in files of six seconds, with the requests of hls.js.
    #[must_use]
    pub fn of_hls(viewers: u32) -> Self {
        Self {
            viewers,
            apart: Nanos::from_millis(150),
            films: viewers,
            film: Nanos::from_secs(600),
            rate: BitRate(8_800_000),
            segment: Nanos::from_secs(6),
            smallest: 1.0,
            layout: SegmentLayout::Files,
            striped: false,
            sound: None,
            ahead: Nanos::from_secs(30),
            way_max: Nanos::from_millis(200),
            open_max: Nanos::ZERO,
            pauses: Nanos::ZERO,
            seeks: Nanos::ZERO,
        }
    }

    /// Whether viewers leave those of the same film with which they share reads: a later request may find a disk without room then.
    pub(crate) fn splits_groups(&self) -> bool {
        self.films < self.viewers && (self.seeks > Nanos::ZERO || self.pauses > Nanos::ZERO)
    }

    /// The rates of a film's tracks.
    pub(crate) fn rates(&self) -> Vec<BitRate> {
        std::iter::once(self.rate).chain(self.sound).collect()
    }
}

impl Load {
    /// Longest duration of a delivery.
    pub(crate) fn viewing_max(&self) -> Nanos {
        self.segments.iter().map(|load| load.segment).fold(self.viewing.1, Nanos::max)
    }

    /// Most deliveries at once.
    #[must_use]
    pub fn deliveries_max(&self) -> usize {
        // A viewer that seeks leaves a delivery behind while it has the next.
        let each = |load: &SegmentViewers| load.rates().len() * if load.seeks > Nanos::ZERO { 2 } else { 1 };
        let of = |load: &SegmentViewers| each(load) * usize::try_from(load.viewers).unwrap_or(usize::MAX);
        self.streams_max + self.segments.iter().map(of).sum::<usize>()
    }
}

/// Distribution of requests over contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Popularity {
    /// Each in its turn.
    Even,
    /// The first ones: of two draws the smaller counts.
    Favourites,
    /// Zipf's law: the n-th gets 1/n of the requests of the first.
    Zipf,
}

/// Something that goes wrong at a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FaultAt {
    /// When it begins, from the start of the run.
    pub at: Nanos,
    /// How long it lasts.
    pub lasts: Nanos,
    /// The fault.
    pub fault: Fault,
}

/// Kinds of faults.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fault {
    /// A tenth of a disk cannot be read or written.
    BadSectors {
        /// The disk.
        disk: usize,
    },
    /// A tenth of a disk gives other bytes than were written, and does not say so. Only for contents with checksums.
    Lies {
        /// The disk.
        disk: usize,
    },
    /// A disk does not answer.
    Hang {
        /// The disk.
        disk: usize,
    },
    /// A disk answers everything with an error, at once.
    Dead {
        /// The disk.
        disk: usize,
    },
    /// A disk takes `factor` times as long.
    Slow {
        /// The disk.
        disk: usize,
        /// Above 1.
        factor: f64,
    },
    /// Once a second a request of a disk takes `extra` longer.
    Spikes {
        /// The disk.
        disk: usize,
        /// How much.
        extra: Nanos,
    },
    /// The plane's thread does not run (stolen processor, a late tick); `lasts` is for how long.
    PlaneLate,
    /// The control side does not read its reports.
    ReportsFull,
    /// A content of a disk is cut to half its length; `lasts` does not matter.
    Truncate {
        /// The disk.
        disk: usize,
    },
    /// Another process writes into a content of a disk; `lasts` does not matter.
    Rewrite {
        /// The disk.
        disk: usize,
    },
}

impl Fault {
    /// The disk of which the drive is at fault.
    pub(crate) fn drive(self) -> Option<usize> {
        match self {
            Self::BadSectors { disk }
            | Self::Lies { disk }
            | Self::Hang { disk }
            | Self::Dead { disk }
            | Self::Slow { disk, .. }
            | Self::Spikes { disk, .. } => Some(disk),
            Self::PlaneLate | Self::ReportsFull | Self::Truncate { .. } | Self::Rewrite { .. } => None,
        }
    }
}

/// Shortest and longest pause of a viewer.
pub(crate) const PAUSE: (Nanos, Nanos) = (Nanos::from_millis(100), Nanos::from_secs(60));

/// Time after a fault of their disk or a pause of their client in which streams may still suffer: refused or quarantined copies
/// have to be found again, and lost reads to be made up for.
pub(crate) const RECOVERY: Nanos = Nanos::from_secs(10);

/// How long after a delay of the plane's thread streams may be behind if their link has room: a fifth of a second is made up for at
/// twice the rate, as far as disks have room for that.
pub(crate) const DELAY_RECOVERY: Nanos = Nanos::from_secs(2);

/// A disk that becomes slower excuses no stream while its reads and recordings, each taking longer, need no more than this
/// share of its time: admitted streams suffer last. New deliveries while it is slower are excused.
pub(crate) const MARGIN_SHARE: f64 = 0.8;

/// The share of its time that a disk reads and records is a mean over about this time.
pub(crate) const SHARE_MEAN: Nanos = Nanos::from_millis(2500);
