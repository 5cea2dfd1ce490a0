//! Streams in pieces of any size: nothing is lost, and files begin where they should.

use proptest::prelude::*;

use super::*;
use crate::{ProbeBudget, probe};

const FRAGMENTS: &[u8] = include_bytes!("../golden/fragments.mp4");
const PACKETS: &[u8] = include_bytes!("../golden/stream.ts");
const CLOCKED: &[u8] = include_bytes!("../golden/stream.m2ts");
/// The flags of a sample that needs others.
const NOT_SYNC: u32 = 0x1_0000;
const MATROSKA: &[u8] = include_bytes!("../golden/live.webm");

/// Cuts a stream that comes in pieces; returns the files, each behind its copied head. `due` gives for how long a cut has been due at
/// a piece, by its number and the bytes in its file.
fn files(stream: &[u8], pieces: &[usize], due: impl Fn(usize, usize) -> Option<Nanos>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut finder = CutFinder::default();
    let mut files = vec![(Vec::new(), Vec::new())];
    let (mut rest, mut lengths) = (stream, pieces.iter().copied().cycle());
    let mut number = 0;
    while !rest.is_empty() {
        let (piece, left) = rest.split_at(lengths.next().unwrap_or(1).clamp(1, rest.len()));
        let passed = finder.pass(piece, due(number, files.last().expect("one").1.len()));
        let bytes = [passed.before.as_slice(), &piece[..passed.bytes]].concat();
        let at = passed.cut.as_ref().map_or(bytes.len(), |cut| cut.at);
        files.last_mut().expect("one").1.extend_from_slice(&bytes[..at]);
        if let Some(cut) = passed.cut {
            files.push((cut.head, bytes[at..].to_vec()));
        }
        (rest, number) = (left, number + 1);
    }
    files.last_mut().expect("one").1.extend(finder.rest());
    files
}

/// A packet of a transport stream.
fn packet(pid: u16, is_start: bool, is_key: bool, payload: &[u8]) -> Vec<u8> {
    let [high, low] = pid.to_be_bytes();
    let mut packet = vec![0x47, high | if is_start { 0x40 } else { 0 }, low];
    if is_key {
        packet.extend([0x30, 1, 0x40]);
    } else {
        packet.push(0x10);
    }
    packet.extend_from_slice(payload);
    packet.resize(188, 0xff);
    packet
}

/// Sound with identifier 257, a picture with 256; a key frame of that in ten of its frames of five packets, the tables before it.
fn channel(frames: usize) -> Vec<u8> {
    let programs = packet(0, true, false, &[0, 0, 0xb0, 13, 0, 1, 0xc1, 0, 0, 0, 1, 0xe0 | 0x10, 0, 1, 2, 3, 4]);
    let map = [0, 2, 0xb0, 23, 0, 1, 0xc1, 0, 0, 0xe1, 0, 0xf0, 0, 0x0f, 0xe1, 1, 0xf0, 0, 0x1b, 0xe1, 0, 0xf0, 0];
    let map = packet(0x1000, true, false, &map);
    let mut stream = Vec::new();
    for frame in 0..frames {
        if frame % 10 == 0 {
            stream.extend([programs.clone(), map.clone()].concat());
        }
        stream.extend(packet(257, true, true, &[7; 100]));
        stream.extend(packet(256, true, frame % 10 == 0, &[u8::try_from(frame).unwrap_or(0); 170]));
        (0..4).for_each(|_| stream.extend(packet(256, false, false, &[1; 184])));
    }
    stream
}

#[test]
fn a_transport_stream_is_cut_at_key_frames_of_its_picture_behind_copied_tables() {
    let stream = channel(100);
    for pieces in [vec![1316], vec![1, 187, 65_536], vec![1000], vec![3]] {
        let files = files(&stream, &pieces, |_, bytes| (bytes > 2000).then_some(Nanos::ZERO));
        assert!(files.len() >= 2, "{pieces:?}: {}", files.len());
        assert_eq!(files.iter().flat_map(|(_, bytes)| bytes.clone()).collect::<Vec<_>>(), stream);
        for (head, bytes) in &files[1..] {
            assert_eq!(head, &stream[..2 * 188], "the tables");
            assert_eq!(bytes[..6], [0x47, 0x41, 0, 0x30, 1, 0x40], "a key frame of the picture");
        }
    }
}

#[test]
fn a_cut_waits_for_a_key_frame_for_a_bounded_time_and_only_after_an_earlier_one() {
    let none: Vec<u8> = (0..50).flat_map(|_| packet(256, true, false, &[2; 184])).collect();
    let at = |stream: &[u8], due| {
        let files = files(stream, &[3760], |number, _| (number == 1).then_some(due));
        (files.len() > 1).then(|| files[0].1.len())
    };
    assert_eq!(at(&none, Nanos::ZERO), Some(3760), "at the border of a packet");
    let keys = [channel(1), none].concat();
    assert_eq!(at(&keys, Nanos::ZERO), None);
    assert_eq!(at(&keys, KEY_WAIT), Some(3760));
    let noise: Vec<u8> = (0..40_000_u32).map(|byte| u8::try_from(byte * 7 % 251).unwrap_or(0)).collect();
    assert!(at(&noise, Nanos::ZERO).is_some_and(|cut| cut <= 3760), "at the byte");
}

#[test]
fn packets_are_found_again_behind_foreign_bytes() {
    let broken = [&channel(20)[..], &[3; 100], &channel(20)].concat();
    let files = files(&broken, &[1316], |number, _| (number > 20).then_some(Nanos::ZERO));
    assert!(files.len() > 1 && files[1].1.starts_with(&[0x47, 0x41]));
    assert_eq!(files.iter().flat_map(|(_, bytes)| bytes.clone()).collect::<Vec<_>>(), broken);
}

/// A box of this kind, with this body.
fn boxed(kind: &[u8; 4], body: &[u8]) -> Vec<u8> {
    [&u32::try_from(8 + body.len()).expect("small").to_be_bytes(), kind.as_slice(), body].concat()
}

/// A fragment with a first sample of these flags.
fn fragment(flags: u32) -> Vec<u8> {
    let run = [&4_u32.to_be_bytes()[..], &1_u32.to_be_bytes(), &flags.to_be_bytes()].concat();
    let track = [boxed(b"tfhd", &[0, 0, 0, 0, 0, 0, 0, 1]), boxed(b"trun", &run)].concat();
    let moof = boxed(b"moof", &boxed(b"traf", &track));
    [boxed(b"styp", b"msdh"), moof, boxed(b"mdat", &[5; 3000])].concat()
}

#[test]
fn an_mp4_is_cut_at_fragments_that_begin_with_a_key_frame_behind_its_copied_head() {
    let head = [boxed(b"ftyp", b"iso5"), boxed(b"moov", &boxed(b"mvhd", &[0; 100]))].concat();
    let (key, other) = (fragment(0), fragment(NOT_SYNC));
    let stream = [&head[..], &key, &other, &other, &key, &other, &head, &key, &key].concat();
    for pieces in [vec![1], vec![700], vec![5, 2096]] {
        let files = files(&stream, &pieces, |_, bytes| (bytes > 500).then_some(Nanos::ZERO));
        let heads: Vec<&[u8]> = files[1..].iter().map(|(head, _)| head.as_slice()).collect();
        assert_eq!(heads, [&head[..], &[], &head], "{pieces:?}: a stream that begins anew has its own head");
        let bytes: Vec<&[u8]> = files.iter().map(|(_, bytes)| bytes.as_slice()).collect();
        let first = [&head[..], &key, &other, &other].concat();
        assert_eq!(bytes, [&first, &[&key[..], &other].concat(), &[&head[..], &key].concat(), &key]);
    }
}

#[test]
fn each_cut_file_of_ffmpegs_output_has_a_rate() {
    for (stream, pieces, least) in [(FRAGMENTS, 1000, 15_000), (PACKETS, 5000, 20_000), (CLOCKED, 5000, 20_000)] {
        let files = files(stream, &[pieces], |_, bytes| (bytes > least).then_some(Nanos::ZERO));
        assert!(files.len() > 1, "{} bytes", stream.len());
        for (head, bytes) in files {
            let file = [head, bytes].concat();
            let found = probe(&mut file.as_slice(), ProbeBudget::default());
            assert!(found.is_ok() || file.len() < least, "{} bytes: {found:?}", file.len());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn nothing_is_lost_and_nothing_comes_twice(
        which in 0..5_usize,
        pieces in prop::collection::vec(1..5000_usize, 1..8),
        due in prop::collection::vec(prop::option::of(0..100_u64), 1..8),
        spoilt in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        noise in prop::collection::vec(any::<u8>(), 0..4000),
    ) {
        let mut stream = match which {
            0 => FRAGMENTS.to_vec(),
            1 => PACKETS.to_vec(),
            2 => CLOCKED.to_vec(),
            3 => MATROSKA.to_vec(),
            _ => noise,
        };
        for (at, byte) in spoilt {
            if !stream.is_empty() {
                let at = at.index(stream.len());
                stream[at] = byte;
            }
        }
        let files = files(&stream, &pieces, |number, _| due[number % due.len()].map(Nanos::from_secs));
        let all: Vec<u8> = files.into_iter().flat_map(|(_, bytes)| bytes).collect();
        prop_assert_eq!(all, stream);
    }
}
