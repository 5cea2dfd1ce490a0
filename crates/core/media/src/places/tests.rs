//! Tests with computed files of sound and pictures that have no index of times: the probed rate must be near the size over the duration.

use crate::{Container, MediaRate, ProbeBudget, probe};

fn found(bytes: &[u8]) -> MediaRate {
    let mut input = bytes;
    probe(&mut input, ProbeBudget::default()).expect("a rate")
}

/// Asserts that the probed duration is within 5 % of `seconds`, and the rate from 90 % to 150 % of the mean.
fn assert_plays(what: &str, bytes: &[u8], container: Container, seconds: u64) {
    let media = found(bytes);
    let mean = u64::try_from(bytes.len()).expect("small") * 8 / seconds;
    assert_eq!(media.container, container, "{what}");
    assert!((media.duration.as_secs_f64() / seconds as f64 - 1.0).abs() < 0.05, "{what}: {media:?}, not {seconds} s");
    assert!((mean * 9 / 10..=mean * 3 / 2).contains(&media.rate.0), "{what}: {media:?}, not {mean} bit/s");
}

/// MPEG sound of layer III, 44,100 samples a second in frames of 417 bytes (128 kbit/s), or 48,000 in 96 or 960 (32 and 320 kbit/s).
fn sound(frame_bytes: usize, seconds: usize) -> Vec<u8> {
    let (head, frames) = match frame_bytes {
        417 => (0x90, seconds * 44_100 / 1152),
        96 => (0x14, seconds * 48_000 / 1152),
        _ => (0xe4, seconds * 48_000 / 1152),
    };
    let frame = [&[0xff, 0xfb, head, 0], vec![0; frame_bytes - 4].as_slice()].concat();
    frame.repeat(frames)
}

fn tag(bytes: u8) -> Vec<u8> {
    [&[b'I', b'D', b'3', 4, 0, 0, 0, 0, bytes, 0], vec![0; usize::from(bytes) * 128].as_slice()].concat()
}

#[test]
fn sound_behind_other_bytes_gets_its_rate() {
    let junk = |bytes: usize| b"\x00\xff\x17junk".repeat(bytes / 7);
    let lead = [
        ("nothing", Vec::new()),
        ("a few bytes", junk(700)),
        ("many bytes", junk(20_000)),
        ("a picture in a tag", tag(100)),
        ("two tags", [tag(20), tag(1)].concat()),
        ("a tag and zeros", [tag(20), vec![0; 200_000]].concat()),
        ("zeros", vec![0; 700]),
    ];
    for (what, lead) in lead {
        assert_plays(what, &[lead, sound(417, 120)].concat(), Container::MpegAudio, 120);
    }
    assert_plays("a tag behind", &[sound(417, 120), vec![b'x'; 700_000]].concat(), Container::MpegAudio, 120);
}

#[test]
fn sound_that_changes_gets_its_rate() {
    for (what, parts, seconds) in [
        ("another clock", [(417, 60), (960, 60)], 120),
        ("loud behind quiet", [(96, 600), (960, 100)], 700),
        ("very long", [(96, 1800), (960, 300)], 2100),
    ] {
        let bytes = parts.map(|(frame_bytes, seconds)| sound(frame_bytes, seconds)).concat();
        assert_plays(what, &bytes, Container::MpegAudio, seconds);
    }
}

#[test]
fn frames_in_a_wave_get_their_rate() {
    let format = [0x55u16, 2, 44_100, 0, 0, 0, 1, 0].map(u16::to_le_bytes).concat();
    let bytes =
        [b"RIFF\xff\xff\xff\xffWAVEfmt \x10\0\0\0", &*format, b"data\xff\xff\xff\xff", &sound(417, 60)].concat();
    assert_plays("layer III", &bytes, Container::Wav, 60);
}

/// A movie written to a pipe: five minutes of black and five of 1 Mbit/s, 25 pictures a second.
#[test]
fn a_movie_with_a_black_beginning_gets_its_rate() {
    let chunk = |kind: &[u8], body: &[u8]| {
        let length = u32::try_from(body.len()).expect("small");
        [kind, &length.to_le_bytes(), body].concat()
    };
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let stream = [b"vidsH264".as_slice(), &words(&[0, 0, 0, 1, 25, 0, 1 << 30, 0, 0, 0, 0, 0])].concat();
    let streams = chunk(b"LIST", &[b"strl".as_slice(), &chunk(b"strh", &stream)].concat());
    let main = chunk(b"avih", &words(&[40_000, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]));
    let heads = chunk(b"LIST", &[b"hdrl".as_slice(), &main, &streams].concat());
    let pictures = |bytes| chunk(b"00dc", &vec![0xff; bytes]).repeat(300 * 25);
    let movie = [b"LIST\xff\xff\xff\xffmovi".as_slice(), &pictures(30), &pictures(5000)].concat();
    let bytes = [b"RIFF\0\0\0\0AVI ".as_slice(), &heads, &movie].concat();
    assert_plays("black", &bytes, Container::Avi, 600);
}

/// A page of Ogg.
fn page(flags: u8, position: u64, stream: u32, body: &[u8]) -> Vec<u8> {
    let mut lengths = vec![255; body.len() / 255];
    lengths.push(u8::try_from(body.len() % 255).expect("the rest"));
    let count = u8::try_from(lengths.len()).expect("a page");
    let place = [position.to_le_bytes().as_slice(), &stream.to_le_bytes(), &[0; 8], &[count]].concat();
    [b"OggS\0", &[flags][..], &place, &lengths, body].concat()
}

/// A recording of a radio station: one stream of 64 kbit/s for each song, whose clock begins at zero.
#[test]
fn streams_one_behind_another_get_their_rate() {
    for (songs, seconds) in [(2, 60), (3, 7), (100, 10)] {
        let song = |stream: u32| {
            let sound = (1..=seconds).map(|second| page(0, second * 48_000, stream, &[0; 8000]));
            [page(2, 0, stream, b"OpusHead\x01\x02"), sound.collect::<Vec<_>>().concat()].concat()
        };
        let bytes = (0..songs).map(song).collect::<Vec<_>>().concat();
        assert_plays(&format!("{songs} songs"), &bytes, Container::Ogg, u64::from(songs) * seconds);
    }
}

/// Theora's positions count the pictures since the last key frame in six bits: here a key frame every 50 pictures, 25 a second.
#[test]
fn pictures_without_sound_get_their_rate() {
    let numbers = [[25u32, 1].map(u32::to_be_bytes).concat(), vec![0; 10], vec![0, 6 << 5]].concat();
    let head = [b"\x80theora\x03\x02\x01".as_slice(), &[0; 12], &numbers].concat();
    let second = |second: u64| {
        let pictures = second * 25;
        page(0, ((pictures / 50 * 50) << 6) | (pictures % 50), 7, &[0; 20_000])
    };
    let bytes = [page(2, 0, 7, &head), (1..=100).map(second).collect::<Vec<_>>().concat()].concat();
    assert_plays("pictures", &bytes, Container::Ogg, 100);
}
