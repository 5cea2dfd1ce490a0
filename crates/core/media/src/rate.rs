//! The rate of a content, as a probe finds it.

use units::{BitRate, Nanos};

use crate::codecs::CodecSet;
use crate::named_enum::named;

/// A constant rate at which a content plays without a stall, and the preroll that this rate needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MediaRate {
    /// The least rate with a preroll of at most four seconds.
    pub rate: BitRate,
    /// Bytes that a player must hold before it starts, so that it never runs dry at `rate`.
    pub preroll_bytes: u64,
    /// Container of the content.
    pub container: Container,
    /// Part of the container that gave the rate.
    pub source: RateSource,
    /// Playing time.
    pub duration: Nanos,
    /// The formats of its pictures, sound and texts, as far as they are known.
    pub codecs: CodecSet,
}

impl MediaRate {
    /// The mean rate: the size of the content over its playing time. [`Self::rate`] may be below it: sending
    /// [`PREROLL_MAX`](super::PREROLL_MAX) ahead may save more than the busiest part and the headroom add.
    #[must_use]
    pub fn mean(&self, size: u64) -> BitRate {
        mean(size, self.duration)
    }
}

/// `bytes` over `time`.
pub(super) fn mean(bytes: u64, time: Nanos) -> BitRate {
    let bits = u128::from(bytes) * 8_000_000_000 / u128::from(time.0.max(1));
    BitRate(u64::try_from(bits).unwrap_or(u64::MAX))
}

named! {
    /// The containers and formats of sound for which a rate can be found.
    Container {
        /// ISO base media file format: MP4, MOV, M4V; plain or fragmented.
        Mp4 = "mp4",
        /// MPEG transport stream.
        MpegTs = "mpeg-ts",
        /// Matroska and `WebM`.
        Matroska = "matroska",
        /// MPEG sound in frames: MP3, MP2, MP1.
        MpegAudio = "mpeg-audio",
        /// AAC in frames of its own (ADTS).
        Adts = "adts",
        /// FLAC.
        Flac = "flac",
        /// WAVE, also in its 64-bit forms.
        Wav = "wav",
        /// AVI.
        Avi = "avi",
        /// Flash video.
        Flv = "flv",
        /// Ogg: Vorbis, Opus, FLAC, Speex.
        Ogg = "ogg",
    }
}

named! {
    /// The part of a content that gave its rate.
    RateSource {
        /// The tables of all samples.
        SampleTables = "sample-tables",
        /// The duration in the container's head, and the size.
        ContainerDuration = "container-duration",
        /// An index of segments (`sidx`) or fragments (`mfra`).
        FragmentIndex = "fragment-index",
        /// The times of all fragments.
        Fragments = "fragments",
        /// The times of some fragments.
        FragmentsSampled = "fragments-sampled",
        /// The program clock at several places.
        ProgramClock = "program-clock",
        /// The cues.
        Cues = "cues",
        /// The times of clusters, tags or pages at several places.
        TimesSampled = "times-sampled",
        /// The lengths of frames of sound at several places.
        FramesSampled = "frames-sampled",
        /// The rate that the head of a format of sound states.
        Header = "header",
    }
}
