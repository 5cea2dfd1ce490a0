//! Small real files made by ffmpeg (`golden/`), each cut and spoilt at random; large ones that exist only as arithmetic.

use std::io;

use proptest::prelude::*;
use units::Nanos;

use super::*;

/// A small file made by ffmpeg and its true figures.
struct Golden {
    name: &'static str,
    bytes: &'static [u8],
    container: Container,
    /// The rate in bit/s reckoned from ffprobe's list of its packets: max (end − head) / (time + 4 s); of Ogg, which it places by pages,
    /// of the whole.
    rate: u64,
    headroom_percent: u64,
}

const fn golden(
    name: &'static str,
    bytes: &'static [u8],
    container: Container,
    rate: u64,
    headroom_percent: u64,
) -> Golden {
    Golden { name, bytes, container, rate, headroom_percent }
}

const GOLDEN: [Golden; 19] = [
    golden("front.mp4", include_bytes!("golden/front.mp4"), Container::Mp4, 19_226, 0),
    golden("end.mp4", include_bytes!("golden/end.mp4"), Container::Mp4, 19_226, 0),
    golden("pcm.mov", include_bytes!("golden/pcm.mov"), Container::Mp4, 51_838, 0),
    golden("fragments.mp4", include_bytes!("golden/fragments.mp4"), Container::Mp4, 20_789, 5),
    golden("index.mp4", include_bytes!("golden/index.mp4"), Container::Mp4, 20_751, 5),
    golden("stream.ts", include_bytes!("golden/stream.ts"), Container::MpegTs, 49_153, 5),
    golden("stream.m2ts", include_bytes!("golden/stream.m2ts"), Container::MpegTs, 50_197, 5),
    golden("cues.mkv", include_bytes!("golden/cues.mkv"), Container::Matroska, 20_161, 5),
    golden("live.webm", include_bytes!("golden/live.webm"), Container::Matroska, 37_961, 12),
    golden("hint.mp4", include_bytes!("golden/hint.mp4"), Container::Mp4, 27_782, 0),
    golden("song.mp3", include_bytes!("golden/song.mp3"), Container::MpegAudio, 21_485, 5),
    golden("variable.mp3", include_bytes!("golden/variable.mp3"), Container::MpegAudio, 14_989, 5),
    golden("sound.aac", include_bytes!("golden/sound.aac"), Container::Adts, 16_860, 5),
    golden("sound.opus", include_bytes!("golden/sound.opus"), Container::Ogg, 11_887, 12),
    golden("sound.ogg", include_bytes!("golden/sound.ogg"), Container::Ogg, 19_200, 12),
    golden("movie.flv", include_bytes!("golden/movie.flv"), Container::Flv, 62_649, 12),
    golden("sound.flac", include_bytes!("golden/sound.flac"), Container::Flac, 50_824, 12),
    golden("sound.wav", include_bytes!("golden/sound.wav"), Container::Wav, 64_000, 0),
    golden("movie.avi", include_bytes!("golden/movie.avi"), Container::Avi, 102_866, 25),
];

/// Counts the bytes and reads of a probe.
struct Counted<R> {
    input: R,
    bytes: u64,
    reads: u32,
}

impl<R: ReadAt> ReadAt for Counted<R> {
    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.input.read_at(offset, buf)?;
        self.bytes += u64::try_from(n).unwrap_or(0);
        self.reads += 1;
        Ok(n)
    }

    fn size(&self) -> u64 {
        self.input.size()
    }
}

/// Probes and checks that the budget was kept.
fn found(input: impl ReadAt) -> Result<MediaRate, ProbeError> {
    let mut counted = Counted { input, bytes: 0, reads: 0 };
    let budget = ProbeBudget::default();
    let result = probe(&mut counted, budget);
    assert!(counted.bytes <= budget.bytes && counted.reads <= budget.reads, "{} {}", counted.bytes, counted.reads);
    result
}

#[test]
fn real_files_get_the_rate_their_packets_need() {
    for Golden { name, bytes, container, rate, headroom_percent } in GOLDEN {
        let media = found(bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(media.container, container, "{name}");
        let seconds = media.duration.as_secs_f64();
        // A transport stream's clock runs ahead of its last pictures; a live stream's last cluster counts as one second.
        assert!((7.9..9.0).contains(&seconds), "{name}: {seconds} s");
        let bare = media.rate.0 * 100 / (100 + headroom_percent);
        assert!(media.preroll_bytes * 8 >= rate * 4 * 95 / 100, "{name}: preroll {}", media.preroll_bytes);
        // The heads are sent, too.
        let size = u64::try_from(bytes.len()).expect("small");
        let rate = rate.max(size * 8 * 1_000_000_000 / (media.duration.0 + PREROLL_MAX.0));
        assert!(bare.abs_diff(rate) * 100 <= rate * 5, "{name}: {bare} bit/s, by its packets {rate}");
        assert!(media.rate.0 >= rate, "{name}: {} bit/s stalls, its packets need {rate}", media.rate.0);
        assert!(media.preroll_bytes <= u64::try_from(bytes.len()).unwrap_or(0));
    }
}

#[test]
fn formats_in_real_files_are_found_but_in_flash_video() {
    for Golden { name, bytes, container, .. } in GOLDEN {
        let codecs = found(bytes).unwrap_or_else(|error| panic!("{name}: {error}")).codecs;
        let expected: &[&str] = match (name, container) {
            ("pcm.mov", _) => &["H.264", "PCM"],
            // Its sound has a type of private use.
            ("stream.m2ts", _) => &["H.264"],
            (_, Container::Mp4 | Container::MpegTs) | ("cues.mkv", _) => &["H.264", "AAC"],
            (_, Container::Matroska) => &["VP8", "Opus"],
            (_, Container::MpegAudio) => &["MPEG audio"],
            (_, Container::Adts) => &["AAC"],
            (_, Container::Flac) => &["FLAC"],
            (_, Container::Wav) => &["PCM"],
            (_, Container::Avi) => &["MPEG-4 Part 2", "MPEG audio"],
            (_, Container::Flv) => &[],
            ("sound.opus", _) => &["Opus"],
            (_, Container::Ogg) => &["Vorbis"],
        };
        assert_eq!(codecs.iter().map(Codec::name).collect::<Vec<_>>(), expected, "{name}");
    }
}

#[test]
fn bytes_without_a_container_are_unknown() {
    for bytes in [&b""[..], b"G", b"\x1a\x45\xdf", b"<html><body>no</body></html>", &[0x47; 200], &[0; 5000]] {
        assert!(matches!(found(bytes), Err(ProbeError::Unknown)), "{bytes:?}");
    }
}

#[test]
fn cut_files_give_a_reason_or_a_rate() {
    for Golden { bytes, .. } in GOLDEN {
        for part in 0..64 {
            let cut = bytes.len() * part / 64;
            if let Err(error) = found(&bytes[..cut]) {
                assert!(!matches!(error, ProbeError::Io(_)), "{error}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]
    #[test]
    fn spoilt_files_cost_no_more_than_the_budget(
        which in 0..GOLDEN.len(),
        changes in proptest::collection::vec((0.0..1.0f64, prop_oneof![Just(0u8), Just(0xff), any::<u8>()], 1usize..9), 1..24),
        near in any::<bool>(),
        keep in 0.1..1.0f64,
    ) {
        let mut bytes = GOLDEN[which].bytes.to_vec();
        let share = |of: f64, len: usize| usize::try_from(Nanos::from_secs_f64(of * len as f64 / 1e9).0).unwrap_or(0);
        // The structures lie at the ends: spoil there more often.
        let reach = if near { bytes.len().min(4000) } else { bytes.len() };
        for (place, value, count) in changes {
            let at = share(place, reach - 1);
            let end = bytes.len().min(at + count);
            bytes[at..end].fill(value);
        }
        if keep < 0.5 {
            bytes.truncate(share(keep * 2.0, bytes.len()));
        }
        if let Ok(media) = found(bytes.as_slice()) {
            prop_assert!(media.rate.0 >= 1000 && media.duration.0 > 0);
            prop_assert!(media.preroll_bytes <= u64::try_from(bytes.len()).unwrap_or(0));
        }
    }

    #[test]
    fn noise_behind_a_true_beginning_does_no_harm(
        which in 0..GOLDEN.len(),
        noise in proptest::collection::vec(any::<u8>(), 0..6000),
        head in 4usize..400,
    ) {
        let mut bytes = GOLDEN[which].bytes[..head].to_vec();
        bytes.extend(noise);
        let _ = found(bytes.as_slice());
    }
}

/// ffmpeg into a pipe leaves a length of -1, no pictures, 2^30 samples in each stream, and no index.
#[test]
fn a_movie_written_to_a_pipe_gets_its_rate() {
    let Golden { bytes, rate, .. } = GOLDEN[18];
    let index = bytes.windows(4).rposition(|kind| kind == b"idx1").expect("at the end");
    let mut piped = bytes[..index].to_vec();
    piped[4..8].fill(0xff);
    let places = |kind: &[u8]| (0..index).filter(|at| bytes[*at..].starts_with(kind)).collect::<Vec<usize>>();
    for (kind, number, value) in [(b"avih", 16, 0u32), (b"strh", 32, 1 << 30), (b"dmlh", 0, 0)] {
        for at in places(kind).into_iter().map(|at| at + 8 + number) {
            piped[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
    }
    for lost in [&b"none"[..], b"vids", b"auds"] {
        let mut piped = piped.clone();
        places(lost).into_iter().for_each(|at| piped[at..at + 4].fill(b'x'));
        let media = found(piped.as_slice()).expect("its chunks");
        // Of a movie of 8 s, a third is sent ahead.
        assert!((rate * 2 / 3..=rate * 3 / 2).contains(&media.rate.0), "{lost:?} lost: {media:?}");
    }
}

/// ffmpeg states 16,000 bytes a second of 48,000 samples, of which 2,036 fill 1,024 bytes.
#[test]
fn a_sound_in_blocks_gets_the_rate_of_its_blocks() {
    let numbers = [2u16, 1, 48_000, 0, 16_000, 0, 1024, 4, 2, 2036].map(u16::to_le_bytes).concat();
    let sound =
        [&b"RIFF\xff\xff\xff\xffWAVEfmt \x14\0\0\0"[..], numbers.as_slice(), b"data\xff\xff\xff\xff", &[0; 241_414]];
    let media = found(sound.concat().as_slice()).expect("its blocks");
    assert_eq!((media.rate.0, media.duration.0 / 1_000_000_000), (24_141 * 8, 10));
}

/// A box of an MP4.
fn mp4_box(kind: &[u8; 4], body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 8).expect("a small box");
    [&length.to_be_bytes(), kind.as_slice(), body].concat()
}

/// A movie with one sound track and tables that promise more than they hold.
fn promising(sizes: &[u32], chunk_count: u32, run: [u32; 2]) -> Vec<u8> {
    let words = |words: &[u32]| words.iter().flat_map(|w| w.to_be_bytes()).collect::<Vec<u8>>();
    let handler = mp4_box(b"hdlr", &[&[0; 8], b"soun".as_slice(), &[0; 12]].concat());
    let table = [
        mp4_box(b"stsz", &words(sizes)),
        mp4_box(b"stts", &words(&[0, u32::MAX, run[0], run[1]])),
        mp4_box(b"stsc", &words(&[0, u32::MAX, 1, u32::MAX, 1])),
        mp4_box(b"stco", &words(&[0, chunk_count, 100, 200, 300])),
    ];
    let clock = mp4_box(b"mdhd", &words(&[0, 0, 0, 1000, u32::MAX]));
    let media = mp4_box(b"minf", &mp4_box(b"stbl", &table.concat()));
    let track = mp4_box(b"trak", &mp4_box(b"mdia", &[clock, handler, media].concat()));
    [mp4_box(b"ftyp", b"isom"), mp4_box(b"moov", &track)].concat()
}

#[test]
fn tables_that_promise_billions_of_samples_end_at_once() {
    // Of one size: each chunk of them counts as one, as far as the file goes.
    assert!(found(promising(&[0, 4, u32::MAX], u32::MAX, [u32::MAX, 1]).as_slice()).is_err());
    // With a table of sizes that is not there, or times that do not move: no rate, but an end.
    assert!(found(promising(&[0, 0, u32::MAX], u32::MAX, [1, 1]).as_slice()).is_err());
    assert!(found(promising(&[0, 4, 9], 3, [u32::MAX, 0]).as_slice()).is_err());
}

/// A file of reckoned bytes, of any size.
struct Reckoned<F> {
    size: u64,
    byte: F,
}

impl<F: Fn(u64) -> u8> ReadAt for Reckoned<F> {
    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let n = usize::try_from(self.size.saturating_sub(offset)).unwrap_or(usize::MAX).min(buf.len());
        (offset..).zip(&mut buf[..n]).for_each(|(at, byte)| *byte = (self.byte)(at));
        Ok(n)
    }

    fn size(&self) -> u64 {
        self.size
    }
}

/// A transport stream of `rate` bit/s in packets of `size`, with a clock in each tenth packet and, before the sync
/// byte, `lead` bytes. `clock` turns the true time in 27 MHz ticks into the time of the clock.
fn transport(bytes: u64, size: u64, lead: u64, rate: u64, clock: impl Fn(u64) -> u64) -> Reckoned<impl Fn(u64) -> u8> {
    let byte = move |at: u64| {
        let (number, within) = (at / size, at % size);
        let Some(place) = within.checked_sub(lead).filter(|p| *p < 188) else { return 0 };
        let ticks = clock(u64::try_from(u128::from(number * size) * 8 * 27_000_000 / u128::from(rate)).unwrap_or(0));
        let ticks = ticks % ((1 << 33) * 300);
        let (base, extension) = (ticks / 300, ticks % 300);
        let told = base << 15 | 0x3f << 9 | extension;
        match place {
            0 => 0x47,
            1 => 1,
            3 if number.is_multiple_of(10) => 0x30,
            3 => 0x10,
            4 if number.is_multiple_of(10) => 7,
            5 if number.is_multiple_of(10) => 0x10,
            6..12 if number.is_multiple_of(10) => told.to_be_bytes()[usize::try_from(place - 4).unwrap_or(0)],
            _ => 0xff,
        }
    };
    Reckoned { size: bytes, byte }
}

const RATE: u64 = 20_000_000;
const TEN_GB: u64 = 10_000_000_000;

/// `media` is that of a stream of [`RATE`] and [`TEN_GB`].
fn assert_ten_gigabytes(media: &MediaRate, what: &str) {
    assert_eq!(media.container, Container::MpegTs);
    let rate = media.rate.0 * 100 / 105;
    assert!(rate.abs_diff(RATE) * 100 <= RATE, "{what}: {rate}");
    let seconds = media.duration.as_secs_f64();
    assert!((seconds - 4000.0).abs() < 40.0, "{what}: {seconds} s");
}

#[test]
fn a_large_transport_stream_is_sampled() {
    for (size, lead) in [(188, 0), (192, 4), (204, 0)] {
        let media = found(transport(TEN_GB, size, lead, RATE, |ticks| ticks)).expect("a good stream");
        assert_ten_gigabytes(&media, &format!("packets of {size}"));
    }
}

type Clock = fn(u64) -> u64;

#[test]
fn clocks_that_wrap_or_jump_are_bridged() {
    let clocks: [(&str, Clock); 4] = [
        ("wraps", |ticks| ticks + (1 << 33) * 300 - 1800 * 27_000_000),
        ("jumps forward", |ticks| if ticks > 3600 * 13_500_000 { ticks + 7 * 3600 * 27_000_000 } else { ticks }),
        ("jumps back", |ticks| if ticks > 3600 * 13_500_000 { ticks - 3600 * 13_500_000 + 1 } else { ticks }),
        ("restarts each 500 s", |ticks| ticks % (500 * 27_000_000)),
    ];
    for (what, clock) in clocks {
        let media = found(transport(TEN_GB, 188, 0, RATE, clock)).expect("a stream with a clock");
        assert_ten_gigabytes(&media, what);
    }
    assert!(found(transport(TEN_GB, 188, 0, RATE, |_| 5)).is_err(), "a clock that stands still");
}

/// A stream of variable rate: 10 Mbit/s, and 100 times slower for a tenth of the bytes (an hour of 10) at its start, amid it, at its end.
#[test]
fn a_long_part_of_a_slow_rate_is_no_jump_of_the_clock() {
    const BYTES: u64 = 100_000_000;
    for from in [0, BYTES / 2, BYTES / 10 * 9] {
        let slow = move |at: u64| at.saturating_sub(from).min(BYTES / 10);
        let seconds = (BYTES + 99 * (BYTES / 10)) * 8 / 10_000_000;
        let clock = move |ticks: u64| {
            let at = ticks / 27 * 10 / 8;
            ticks + 99 * slow(at) * 8 / 10 * 27
        };
        let media = found(transport(BYTES, 188, 0, 10_000_000, clock)).expect("a stream");
        assert!((media.duration.as_secs_f64() / seconds as f64 - 1.0).abs() < 0.1, "{from}: {media:?}");
    }
}

/// Packets behind other bytes.
#[test]
fn a_transport_stream_behind_something_else_is_found() {
    let alone = found(transport(20_000_000, 188, 0, RATE, |ticks| ticks)).expect("a stream").rate.0;
    for lead in [150, 700, 4096, 30_000] {
        let stream = transport(20_000_000, 188, 0, RATE, |ticks| ticks);
        let junk = |at: u64| if at.is_multiple_of(40) { 0x47 } else { b'x' };
        let byte = move |at: u64| at.checked_sub(lead).map_or_else(|| junk(at), &stream.byte);
        let media = found(Reckoned { size: 20_000_000 + lead, byte }).expect("a stream");
        assert!(media.rate.0.abs_diff(alone) * 100 <= 2 * alone, "{lead}: {}, not {alone}", media.rate.0);
    }
}

/// Players pass over any number of boxes that they do not know.
#[test]
fn many_boxes_before_the_movie_hide_nothing() {
    let Golden { bytes, .. } = GOLDEN[1];
    let movie = bytes.windows(4).rposition(|kind| kind == b"moov").expect("at the end") - 4;
    let free = mp4_box(b"free", &[0; 8]).repeat(2000);
    let padded = [&bytes[..movie], &free, &bytes[movie..]].concat();
    let (one, other) = (found(bytes).expect("a rate"), found(padded.as_slice()).expect("a rate"));
    assert_eq!(one.duration, other.duration);
}

/// A recording of a camera: fragments without an index, of any length.
struct CameraFile {
    head: Vec<u8>,
    fragment_ms: u64,
    /// Offset of each fragment, and the end.
    starts: Vec<u64>,
}

impl CameraFile {
    /// Of 8 Mbit/s.
    fn new(seconds: u64, fragment_ms: u64) -> Self {
        Self::varied(fragment_ms, &[(seconds * 1000 / fragment_ms, fragment_ms * 1000)])
    }

    /// Runs of fragments: how many, and the bytes of each.
    fn varied(fragment_ms: u64, runs: &[(u64, u64)]) -> Self {
        let words = |words: &[u32]| words.iter().flat_map(|w| w.to_be_bytes()).collect::<Vec<u8>>();
        let handler = mp4_box(b"hdlr", &[&[0; 8], b"vide".as_slice(), &[0; 12]].concat());
        let media = mp4_box(b"mdia", &[mp4_box(b"mdhd", &words(&[0, 0, 0, 1000, 0, 0])), handler].concat());
        let track = mp4_box(b"trak", &[mp4_box(b"tkhd", &words(&[0, 0, 0, 1, 0, 0])), media].concat());
        let movie = mp4_box(b"moov", &[track, mp4_box(b"mvex", &[])].concat());
        let head = [mp4_box(b"ftyp", b"isom"), movie].concat();
        let mut starts = vec![u64::try_from(head.len()).expect("small")];
        for bytes in runs.iter().flat_map(|(count, bytes)| (0..*count).map(|_| *bytes)) {
            starts.push(starts[starts.len() - 1] + bytes);
        }
        Self { head, fragment_ms, starts }
    }

    fn fragment(&self, number: usize) -> Vec<u8> {
        let milliseconds = u64::try_from(number).expect("few") * self.fragment_ms;
        let time = [&[1, 0, 0, 0], milliseconds.to_be_bytes().as_slice()].concat();
        let track = [mp4_box(b"tfhd", &[0, 0, 0, 0, 0, 0, 0, 1]), mp4_box(b"tfdt", &time)].concat();
        let head = mp4_box(b"moof", &[mp4_box(b"mfhd", &[0; 8]), mp4_box(b"traf", &track)].concat());
        let rest = self.starts[number + 1] - self.starts[number] - u64::try_from(head.len()).expect("small");
        [head, u32::try_from(rest).expect("megabytes").to_be_bytes().to_vec(), b"mdat".to_vec()].concat()
    }
}

impl ReadAt for CameraFile {
    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let length = |bytes: &[u8]| u64::try_from(bytes.len()).expect("small");
        // As much at once as the store gives.
        let there = self.size().saturating_sub(offset).min(256 * 1024);
        let n = usize::try_from(there).expect("little").min(buf.len());
        buf[..n].fill(0);
        let end = offset + length(&buf[..n]);
        let from = self.starts.partition_point(|at| *at <= offset).saturating_sub(1);
        let numbers = (from..self.starts.len() - 1).take_while(|number| self.starts[*number] < end);
        let parts = numbers.map(|number| (self.starts[number], self.fragment(number)));
        for (at, bytes) in std::iter::once((0, self.head.clone())).chain(parts) {
            for (place, byte) in (at..).zip(bytes).filter(|(place, _)| (offset..end).contains(place)) {
                buf[usize::try_from(place - offset).expect("within")] = byte;
            }
        }
        Ok(n)
    }

    fn size(&self) -> u64 {
        self.starts[self.starts.len() - 1]
    }
}

#[test]
fn a_recording_in_fragments_without_an_index_gets_its_rate() {
    for seconds in [60, 3600, 36_000] {
        for fragment_ms in [500, 1000, 2000, 10_000] {
            let rate = found(CameraFile::new(seconds, fragment_ms)).expect("a rate").rate.0;
            assert!((7_200_000..=12_000_000).contains(&rate), "{seconds} s, each {fragment_ms} ms: {rate}");
        }
    }
}

/// Fragments of several megabytes whose rate changes after the part that is walked. A recording that begins with its busy part needs
/// the rate of that.
#[test]
fn a_recording_in_large_fragments_of_varying_rate_gets_its_rate() {
    let cases = [
        (5_000, [(60, 312_500), (300, 6_000_000)], 8_090_000),
        (10_000, [(60, 625_000), (300, 10_000_000)], 6_750_000),
        (10_000, [(60, 10_000_000), (300, 625_000)], 8_000_000),
    ];
    for (fragment_ms, runs, needed) in cases {
        let media = found(CameraFile::varied(fragment_ms, &runs)).expect("a rate");
        let (seconds, made) = (media.duration.0 / 1_000_000_000, 360 * fragment_ms / 1000);
        assert!(seconds.abs_diff(made) * 50 <= made, "{runs:?}: {media:?}");
        assert!((needed * 9 / 10..needed * 4 / 3).contains(&media.rate.0), "{runs:?}: {media:?}");
    }
}

/// A picture that stands, or ends, while the sound continues: 60 s of 128 kbit/s.
#[test]
fn a_recording_whose_picture_has_one_fragment_gets_the_rate_of_its_sound() {
    let words = |words: &[u32]| words.iter().flat_map(|w| w.to_be_bytes()).collect::<Vec<u8>>();
    let track = |number, handler: &[u8; 4]| {
        let handler = mp4_box(b"hdlr", &[&[0; 8], handler.as_slice(), &[0; 12]].concat());
        let media = mp4_box(b"mdia", &[mp4_box(b"mdhd", &words(&[0, 0, 0, 1000, 0, 0])), handler].concat());
        mp4_box(b"trak", &[mp4_box(b"tkhd", &words(&[0, 0, 0, number, 0, 0])), media].concat())
    };
    let movie = [track(1, b"vide"), track(2, b"soun"), mp4_box(b"mvex", &[])].concat();
    let head = [mp4_box(b"ftyp", b"isom"), mp4_box(b"moov", &movie)].concat();
    let part = |number, time, samples, length| {
        let boxes = [
            mp4_box(b"tfhd", &words(&[8, number, length])),
            mp4_box(b"tfdt", &words(&[0, time])),
            mp4_box(b"trun", &words(&[1, samples, 0])),
        ];
        mp4_box(b"traf", &boxes.concat())
    };
    // Smooth Streaming and QuickTime state no times of fragments.
    let without_times = |file: &[u8]| {
        let mut file = file.to_vec();
        let places = (0..file.len()).filter(|at| file[*at..].starts_with(b"tfdt")).collect::<Vec<usize>>();
        places.into_iter().for_each(|at| file[at..at + 4].copy_from_slice(b"free"));
        file
    };
    let fragment = |parts: &[Vec<u8>], bytes: usize| {
        let head = mp4_box(b"moof", &[mp4_box(b"mfhd", &[0; 8]), parts.concat()].concat());
        [head, mp4_box(b"mdat", &vec![0; bytes])].concat()
    };
    let many = (0..30).map(|number| {
        let picture = if number == 0 { vec![part(1, 0, 1, 40)] } else { Vec::new() };
        fragment(&[picture, vec![part(2, number * 2000, 100, 20)]].concat(), 32_000)
    });
    let one = fragment(&[part(1, 0, 1, 40), part(2, 0, 3000, 20)], 960_000);
    let begun = fragment(&[part(1, 0, 1, 40), part(2, 0, 50, 20)], 16_000);
    let two = [begun, fragment(&[part(2, 1000, 2950, 20)], 944_000)].concat();
    let files = [many.collect::<Vec<_>>().concat(), one, two].map(|fragments| [head.clone(), fragments].concat());
    for file in files.iter().flat_map(|file| [file.clone(), without_times(file)]) {
        let media = found(file.as_slice()).expect("a rate");
        assert!((58..=62).contains(&(media.duration.0 / 1_000_000_000)), "{media:?}");
        assert!((118_000..=170_000).contains(&media.rate.0), "{media:?}");
    }
}

/// The index at the end describes the second recording only.
#[test]
fn a_recording_that_was_appended_to_another_plays_for_both() {
    for Golden { name, bytes, .. } in &GOLDEN[3..5] {
        let seconds = found([*bytes; 2].concat().as_slice()).expect("a rate").duration.as_secs_f64();
        assert!((15.0..17.5).contains(&seconds), "{name}: {seconds} s");
    }
}

/// Heads tell of the whole file, of which six tenths are left.
#[test]
fn a_file_that_was_cut_plays_for_as_long_as_it_lasts() {
    for Golden { name, bytes, rate, .. } in [0, 7, 18].map(|number| &GOLDEN[number]) {
        let media = found(&bytes[..bytes.len() / 10 * 6]).expect("a rate");
        assert!((4.0..6.0).contains(&media.duration.as_secs_f64()), "{name}: {media:?}");
        assert!((rate * 6 / 10..rate * 3 / 2).contains(&media.rate.0), "{name}: {media:?}");
    }
}

/// A recorder that died within its first fragment, of 10 s and 8 Mbit/s, with the samples' lengths in each of the places for them.
#[test]
fn a_recording_that_was_cut_in_its_first_fragment_gets_its_rate() {
    let words = |words: &[u32]| words.iter().flat_map(|w| w.to_be_bytes()).collect::<Vec<u8>>();
    let each = [words(&[0x0000_0301, 250, 0]), words(&[40, 40_000]).repeat(250)].concat();
    let cases = [
        ("each sample", words(&[0, 1]), each, 0),
        ("fragment", words(&[8, 1, 40]), words(&[1, 250, 0]), 0),
        ("movie", words(&[0, 1]), words(&[1, 250, 0]), 40),
    ];
    for (place, track_head, run, by_default) in cases {
        let CameraFile { head, .. } = CameraFile::new(10, 10_000);
        let extends = mp4_box(b"mvex", &mp4_box(b"trex", &words(&[0, 1, 1, by_default, 0, 0])));
        let movie = head.windows(4).position(|kind| kind == b"moov").expect("there") + 4;
        let track = &head[movie..head.len() - 8];
        let time = mp4_box(b"tfdt", &[0; 8]);
        let track_part = [mp4_box(b"tfhd", &track_head), time, mp4_box(b"trun", &run)].concat();
        let fragment = mp4_box(b"moof", &[mp4_box(b"mfhd", &[0; 8]), mp4_box(b"traf", &track_part)].concat());
        let media = [words(&[10_000_008]), b"mdat".to_vec(), vec![0; 3_000_000]].concat();
        let cut = [mp4_box(b"ftyp", b"isom"), mp4_box(b"moov", &[track, extends.as_slice()].concat()), fragment, media]
            .concat();
        let media = found(cut.as_slice()).expect("a rate");
        assert!((8_000_000..=10_500_000).contains(&media.rate.0), "{place}: {media:?}");
        assert!((2_900..=3_100).contains(&(media.duration.0 / 1_000_000)), "{place}: {media:?}");
    }
}

#[test]
fn reading_errors_are_passed_on_and_small_budgets_kept() {
    struct BrokenFile;
    impl ReadAt for BrokenFile {
        fn read_at(&mut self, _: u64, _: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::Other.into())
        }
        fn size(&self) -> u64 {
            1 << 40
        }
    }
    assert!(matches!(found(BrokenFile), Err(ProbeError::Io(_))));
    for Golden { name, bytes, .. } in GOLDEN {
        let mut input = bytes;
        let tight = ProbeBudget { bytes: 4096, reads: 1 };
        assert!(matches!(probe(&mut input, tight), Err(ProbeError::OverBudget(4096, 1))), "{name}");
    }
}
