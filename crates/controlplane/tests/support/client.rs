//! A client that sees every byte: blocking, one connection, no retries. The control plane's tests and those of the whole
//! program (`crates/isocast/tests`) are written with the same one.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Nothing here takes longer; a machine that is so slow fails the test instead of hanging it.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Bytes that are nowhere the same, so that a shifted or repeated piece shows.
pub fn pattern(length: usize) -> Vec<u8> {
    (0u64..).flat_map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes()).take(length).collect()
}

/// A response.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }
}

/// A client that sees every byte.
pub struct Client {
    pub stream: TcpStream,
    pub buffer: Vec<u8>,
}

impl Client {
    pub fn to(address: SocketAddr) -> Self {
        let stream = TcpStream::connect_timeout(&address, PATIENCE).expect("connected");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
        Self { stream, buffer: Vec::new() }
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).expect("sent");
    }

    /// Asks for a content, and does not read the answer.
    pub fn get(&mut self, target: &str) {
        self.send(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes());
    }

    /// Reads until a head is there.
    pub fn head(&mut self) -> Answer {
        loop {
            if let Some(end) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                let head: Vec<u8> = self.buffer.drain(..end + 4).collect();
                return parse_head(&String::from_utf8(head).expect("text"));
            }
            let sofar = String::from_utf8_lossy(&self.buffer).into_owned();
            assert!(self.more(), "the connection ended inside a head: {sofar:?}");
        }
    }

    /// Reads one response.
    pub fn answer(&mut self, with_body: bool) -> Answer {
        let mut answer = self.head();
        let length = answer.field("content-length").map_or(0, |text| text.parse().expect("a number"));
        if with_body {
            answer.body = self.take(length);
            assert_eq!(answer.body.len(), length, "the connection ended inside a body");
        }
        answer
    }

    /// Up to `length` bytes; fewer only if the connection ends.
    pub fn take(&mut self, length: usize) -> Vec<u8> {
        while self.buffer.len() < length && self.more() {}
        let length = length.min(self.buffer.len());
        self.buffer.drain(..length).collect()
    }

    /// True if the connection ends with nothing more to read.
    pub fn is_closed(&mut self) -> bool {
        self.buffer.is_empty() && !self.more()
    }

    /// Reads once; false if the connection ended.
    pub fn more(&mut self) -> bool {
        let mut chunk = vec![0; 64 * 1024];
        match self.stream.read(&mut chunk) {
            Ok(read) => {
                self.buffer.extend_from_slice(&chunk[..read]);
                read > 0
            }
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => false,
            Err(error) => panic!("nothing came: {error}"),
        }
    }
}

fn parse_head(text: &str) -> Answer {
    let mut lines = text.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|status| status.parse().ok());
    let fields = lines.filter_map(|line| line.split_once(':'));
    let fields = fields.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect();
    Answer { status: status.expect("a status"), fields, body: Vec::new() }
}
