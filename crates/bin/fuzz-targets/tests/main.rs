//! Each target of fuzzing takes samples that are damaged by chance, the same in each run.

use fuzz_targets::{
    agentx, chunked, frames, ftp, greeting, head, media_files, proxy_header, ranges, tus, volumes, webdav,
};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};

/// Calls `target` with each sample, and `count` times with a damaged one.
fn try_target(target: fn(&[u8]), samples: &[&[u8]], count: u64) {
    samples.iter().for_each(|sample| target(sample));
    for seed in 0..count {
        target(&damaged(samples, &mut Xoshiro256PlusPlus::seed_from_u64(seed)));
    }
}

fn below(chance: &mut Xoshiro256PlusPlus, bound: usize) -> usize {
    let bound = u64::try_from(bound.max(1)).expect("lengths fit");
    usize::try_from(chance.next_u64() % bound).expect("less than a length")
}

/// A sample with up to eight changes: bytes set, left out, doubled, or taken from another sample.
fn damaged(samples: &[&[u8]], chance: &mut Xoshiro256PlusPlus) -> Vec<u8> {
    let mut bytes = samples[below(chance, samples.len())].to_vec();
    for _ in 0..=below(chance, 8) {
        let at = below(chance, bytes.len());
        let end = (at + 1 + below(chance, 16)).min(bytes.len());
        match below(chance, 5) {
            0 => bytes[at..end].iter_mut().for_each(|byte| *byte = chance.next_u64().to_le_bytes()[0]),
            1 => bytes[at..end].fill([0, 0xff, 0x7f, 0x80][below(chance, 4)]),
            2 => drop(bytes.drain(at..end)),
            3 => {
                let doubled = bytes[at..end].to_vec();
                bytes.splice(at..at, doubled);
            }
            _ => {
                let other = samples[below(chance, samples.len())];
                let from = below(chance, other.len());
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
        }
    }
    bytes
}

macro_rules! golden {
    ($($name:literal),* $(,)?) => {
        [$(include_bytes!(concat!("../../../core/media/src/golden/", $name)).as_slice()),*]
    };
}

const MEDIA: [&[u8]; 19] = golden!(
    "cues.mkv",
    "end.mp4",
    "fragments.mp4",
    "front.mp4",
    "index.mp4",
    "live.webm",
    "pcm.mov",
    "stream.m2ts",
    "stream.ts",
    "hint.mp4",
    "movie.avi",
    "movie.flv",
    "song.mp3",
    "sound.aac",
    "sound.flac",
    "sound.ogg",
    "sound.opus",
    "sound.wav",
    "variable.mp3",
);

#[test]
fn media_files() {
    for target in [media_files::mp4, media_files::mpegts, media_files::matroska, media_files::sound, media_files::cuts]
    {
        try_target(target, &MEDIA, 300);
    }
}

#[test]
fn headers_of_proxies() {
    let samples: [&[u8]; 5] = [
        b"PROXY TCP4 192.0.2.7 127.0.0.1 4711 80\r\nGET / HTTP/1.1\r\n\r\n",
        b"PROXY TCP6 2001:db8::7 ::1 4711 80\r\nUSER ada\r\n",
        b"PROXY UNKNOWN ffff:f...f:ffff 65535 65535\r\n\x16\x03\x01",
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x08\x7f\0\0\x01\x12\x67\0\x50GET",
        b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\x07\x03\0\x04\xa9\xb8\x7e\x8f\x16\x03",
    ];
    try_target(proxy_header::target, &samples, 20_000);
}

#[test]
fn commands_of_ftp() {
    let samples: [&[u8]; 3] = [
        b"\x05USER ada\r\nPASS x\r\nCWD a b\r\nEPRT |1|192.0.2.1|6275|\r\nRETR film.ts\r\n\xff\xf4\xff\xf2ABOR\r\n",
        b"\x01PORT 192,0,2,1,24,131\nMFMT 20260101120000.5 a\nREST 12\nSITE RATE 8.8M\nEPSV ALL\n\xff\xfb\x01NOOP\r\n",
        b"\x40AUTH TLS\r\nPBSZ 0\r\nPROT P\r\nOPTS UTF8 ON\r\nLIST -la /\r\nPOST / HTTP/1.1\r\n",
    ];
    try_target(ftp::target, &samples, 20_000);
}

#[test]
fn request_heads() {
    let samples: [&[u8]; 3] = [
        b"GET /media/a%20b.ts?rate=8.8M&session=x&CMCD=br%3D3200%2Cot%3Dv HTTP/1.1\r\nHost: localhost\r\nRange: bytes=0-9,20-\r\n\r\n",
        b"PUT /media/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nIf-Match: \"1\", W/\"2\"\r\n\r\n",
        b"OPTIONS * HTTP/1.0\r\nCMCD-Request: sid=\"6e2\",su\r\nContent-Length: 3\r\n\r\nabc",
    ];
    try_target(head::target, &samples, 5_000);
}

#[test]
fn fields_of_tus() {
    let metadata = b"path YS9iIGMudHM=,mtime MTYwMDAwMDAwMA==,empty";
    try_target(
        tus::target,
        &[metadata, b"final;/upload/1a http://h/upload/2b", b"sha1 Kq5sNclPz7QV2+lfQIuc6R7oRu0="],
        5_000,
    );
}

#[test]
fn fields_of_ranges() {
    let samples: [&[u8]; 2] = [
        b"\xe8\x03\0\0\0\0\0\0bytes=0-99,200-,-5",
        b"\xff\xff\xff\xff\xff\xff\xff\xffbytes=18446744073709551614-, 3-3",
    ];
    try_target(ranges::target, &samples, 5_000);
}

#[test]
fn chunked_bodies() {
    let samples: [&[u8]; 2] =
        [b"\x035\r\nhello\r\n0\r\n\r\n", b"\x001a;name=\"v\"\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\nA: b\r\n\r\n"];
    try_target(chunked::target, &samples, 5_000);
}

#[test]
fn damaged_volumes() {
    try_target(volumes::damaged, &[&[1; 64], &[0; 16]], 60);
}

#[test]
fn forged_volumes() {
    try_target(volumes::forged, &[&[1; 64], &[0; 16]], 60);
}

#[test]
fn messages_of_agentx() {
    // An open's answer, a Get below the root, a GetNext of everything.
    let response: &[u8] = b"\x01\x12\x10\0\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\x08\0\0\0\0\0\0\0\0";
    let get: &[u8] = b"\x01\x05\x10\0\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0\x08\x02\x04\0\0\0\x01\xf6\x17";
    let next: &[u8] = b"\x01\x06\x10\0\0\0\0\x01\0\0\0\0\0\0\0\x03\0\0\0\x08\0\0\0\0\0\0\0\0";
    try_target(agentx::target, &[response, &[response, get].concat(), &[response, next].concat()], 5_000);
}

#[test]
fn frames_of_messages() {
    try_target(frames::target, &[b"\x02\0\0\0\x05hello\0\0\0\x01x", b"\0\x05\0\0\0hello"], 5_000);
}

#[test]
fn greetings() {
    try_target(greeting::target, &[b"ISOCAST1\0\0\0\x01", &[0; 64]], 500);
}

#[test]
fn bodies_fields_and_locks_of_webdav() {
    let propfind = b"<?xml version=\"1.0\"?><D:propfind xmlns:D=\"DAV:\"><D:prop><D:getetag/><x xmlns=\"u\"/></D:prop></D:propfind>";
    let proppatch = b"<D:propertyupdate xmlns:D=\"DAV:\"><D:set xml:lang=\"de\"><D:prop><a xmlns=\"u\" b=\"&lt;\">1&#65;<![CDATA[<]]></a></D:prop></D:set></D:propertyupdate>";
    let lock = b"<D:lockinfo xmlns:D=\"DAV:\"><D:lockscope><D:shared/></D:lockscope><D:locktype><D:write/></D:locktype><D:owner/></D:lockinfo>";
    try_target(webdav::body, &[propfind, proppatch, lock], 5_000);
    let field = b"<http://h/a> (<urn:uuid:1> [W/\"x\"]) (Not <DAV:no-lock>)";
    try_target(
        webdav::fields,
        &[field, b"http://h:80/media/a%20b", b"Infinite, Second-5", b"(<a>)(not[\"b\"])"],
        5_000,
    );
    try_target(webdav::locks, &[b"\x80\x91\xc2\xdb\x40\xa1\x00\xff", b"\x90\x99\x8a"], 2_000);
}
