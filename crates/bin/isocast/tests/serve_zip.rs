//! Archives of contents and folders, from the real program.

use std::io::Read as _;

use crate::common::http::Client;
use crate::common::server::{Server, Setup};
use crate::common::until;
use crate::common::volume::{disks, joined, put, volume};

fn number(bytes: &[u8], at: usize, length: usize) -> usize {
    bytes[at..at + length].iter().rev().fold(0, |number, byte| (number << 8) | usize::from(*byte))
}

/// Names and bytes of an archive, by its directory.
fn unzipped(bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    let end = bytes.len() - 22;
    assert_eq!(&bytes[end..end + 4], b"PK\x05\x06");
    let mut line = number(bytes, end + 16, 4);
    let file = |_| {
        assert_eq!(&bytes[line..line + 4], b"PK\x01\x02");
        let (sum, size, length) =
            (number(bytes, line + 16, 4), number(bytes, line + 24, 4), number(bytes, line + 28, 2));
        let (head, name) = (number(bytes, line + 42, 4), &bytes[line + 46..line + 46 + length]);
        assert_eq!((&bytes[head..head + 4], &bytes[head + 30..head + 30 + length]), (&b"PK\x03\x04"[..], name));
        let begun = head + 30 + length;
        assert_eq!(&bytes[begun + size..begun + size + 4], b"PK\x07\x08");
        assert_eq!((number(bytes, begun + size + 4, 4), number(bytes, begun + size + 8, 4)), (sum, size));
        line += 46 + length;
        (String::from_utf8(name.to_vec()).expect("UTF-8"), bytes[begun..begun + size].to_vec(), sum)
    };
    let files: Vec<_> = (0..number(bytes, end + 10, 2)).map(file).collect();
    files
        .into_iter()
        .map(|(name, bytes, sum)| {
            assert_eq!(sum, usize::try_from(crc(&bytes)).expect("32 bits"), "{name}");
            (name, bytes)
        })
        .collect()
}

/// CRC-32 (ISO-HDLC), bit by bit.
fn crc(bytes: &[u8]) -> u32 {
    let step = |sum: u32, byte: &u8| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| if sum & 1 == 1 { (sum >> 1) ^ 0xedb8_8320 } else { sum >> 1 })
    };
    !bytes.iter().fold(u32::MAX, step)
}

fn zip(server: &Server, query: &str) -> crate::common::http::Answer {
    server.get(&format!("/api/v1/contents/zip?{query}"))
}

#[test]
fn contents_and_folders_are_one_archive_of_known_length() {
    let server = Setup::default().start();
    let film: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    for (name, bytes) in
        [("films/alps/day 1.ts", &film[..]), ("films/ü.txt", b"text"), ("films/none.txt", b""), ("other.txt", b"o")]
    {
        server.file(name, bytes);
    }
    std::fs::create_dir(server.root.join("films/empty")).expect("a folder");
    std::os::unix::fs::symlink(server.root.join("films"), server.root.join("films/loop")).expect("a link");
    let answer = zip(&server, "path=films&path=other.txt");
    assert_eq!((answer.status, answer.field("content-type")), (200, Some("application/zip")));
    assert_eq!(answer.length(), answer.body.len(), "it is known before");
    let names: Vec<String> = unzipped(&answer.body).into_iter().map(|(name, _)| name).collect();
    let expected =
        ["films/", "films/alps/", "films/alps/day 1.ts", "films/empty/", "films/none.txt", "films/ü.txt", "other.txt"];
    assert_eq!(names, expected, "a link to a folder is not entered");
    let answer = zip(&server, "path=films/alps");
    assert!(answer.field("content-disposition").is_some_and(|field| field.contains("\"alps.zip\"")));
    assert_eq!(unzipped(&answer.body)[1], ("alps/day 1.ts".to_owned(), film), "by the names from the folder on");
    for (query, status) in [("", 400), ("path=../x", 400), ("path=none", 404), ("path=other.txt&path=none", 404)] {
        assert_eq!(zip(&server, query).status, status, "{query}");
    }
    let head = server.ask("HEAD /api/v1/contents/zip?path=films HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!((head.status, head.field("content-type")), (200, Some("application/zip")));
}

#[test]
fn a_content_of_a_volume_that_is_replaced_by_a_longer_one_breaks_its_archive_off() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let disks = disks(folder.path(), 1);
    volume(&["create", "--name", "films", "--layout", "span", "--unit", "1MiB", "--yes"], &disks);
    let server = Server::on(&[], &folder.path().join("state"), &["--volume", &joined(&disks)]);
    // The first content is more than sockets hold, so that the second is read when the client takes the first.
    let long = vec![7; 24 << 20];
    assert_eq!(put(server.address, "/media/a.bin", &long), 201);
    assert_eq!(put(server.address, "/media/b.bin", b"short"), 201);
    let mut client = Client::to(server.address);
    let answer = client.try_ask("GET", "/api/v1/contents/zip?path=a.bin&path=b.bin").expect("an answer");
    assert_eq!(answer.status, 200);
    assert_eq!(put(server.address, "/media/b.bin", b"short, and another one"), 204);
    let mut came = 0;
    let mut piece = vec![0; 1 << 16];
    while let Ok(count @ 1..) = client.stream.read(&mut piece) {
        came += count;
    }
    assert!(came < answer.length(), "{came} of {} bytes: it did not break off", answer.length());
    until("the event", || {
        let said = server.stderr_text();
        if said.contains("archive_broken") && said.contains("it changed meanwhile") { Ok(()) } else { Err(said) }
    });
}
