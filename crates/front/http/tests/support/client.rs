//! A client that sees every byte: blocking, one connection, no retries. The control plane's tests and those of the whole
//! program (`crates/bin/isocast/tests`) are written with the same one. A connection that breaks when the server dies is an
//! error from the functions named `try_…`; all others fail the test.

use std::io::{Error, ErrorKind, Read, Result, Write};
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

    /// Bytes of the body, as announced; zero if they are not.
    pub fn length(&self) -> usize {
        self.field("content-length").map_or(0, |text| text.parse().expect("a number"))
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
        Self::try_to(address).expect("connected")
    }

    /// A client at another address of this machine.
    pub fn from_to(source: &str, address: SocketAddr) -> Self {
        let source = SocketAddr::new(source.parse().expect("an address"), 0);
        let socket = socket2::Socket::new(socket2::Domain::for_address(address), socket2::Type::STREAM, None);
        let socket = socket.expect("a socket");
        socket.bind(&source.into()).expect("an address of this machine");
        socket.connect(&address.into()).expect("connected");
        socket.set_read_timeout(Some(PATIENCE)).expect("set");
        Self { stream: socket.into(), buffer: Vec::new() }
    }

    pub fn try_to(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { stream, buffer: Vec::new() })
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).expect("sent");
    }

    /// Requests a content, and does not read the answer.
    pub fn get(&mut self, target: &str) {
        self.send(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes());
    }

    /// Sends a request without a body, and reads the head of the answer.
    pub fn try_ask(&mut self, method: &str, target: &str) -> Result<Answer> {
        write!(self.stream, "{method} {target} HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
        self.try_head()
    }

    /// Reads until a head is there.
    pub fn head(&mut self) -> Answer {
        self.try_head().unwrap_or_else(|error| {
            panic!("no whole head ({error}): {:?}", String::from_utf8_lossy(&self.buffer));
        })
    }

    pub fn try_head(&mut self) -> Result<Answer> {
        loop {
            if let Some(end) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                let head: Vec<u8> = self.buffer.drain(..end + 4).collect();
                return Ok(parse_head(&String::from_utf8(head).expect("text")));
            }
            if self.try_more()? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Reads one response.
    pub fn answer(&mut self, with_body: bool) -> Answer {
        let mut answer = self.head();
        if with_body {
            self.try_body(&mut answer).expect("a whole body");
        }
        answer
    }

    /// Reads the body of an answer, whole.
    pub fn try_body(&mut self, answer: &mut Answer) -> Result<()> {
        if answer.field("transfer-encoding") != Some("chunked") {
            answer.body = self.try_take(answer.length())?;
            return Ok(());
        }
        loop {
            let end = loop {
                match self.buffer.windows(2).position(|window| window == b"\r\n") {
                    Some(end) => break end,
                    None => self.try_more_of_body()?,
                }
            };
            let line = self.try_take(end + 2)?;
            let size = usize::from_str_radix(String::from_utf8_lossy(&line).trim_end(), 16).map_err(Error::other)?;
            let chunk = self.try_take(size + 2)?;
            answer.body.extend_from_slice(&chunk[..size]);
            if size == 0 {
                return Ok(());
            }
        }
    }

    fn try_take(&mut self, length: usize) -> Result<Vec<u8>> {
        while self.buffer.len() < length {
            self.try_more_of_body()?;
        }
        Ok(self.buffer.drain(..length).collect())
    }

    fn try_more_of_body(&mut self) -> Result<()> {
        match self.try_more()? {
            0 => Err(Error::new(ErrorKind::UnexpectedEof, "the connection ended inside a body")),
            _ => Ok(()),
        }
    }

    /// Some more of a body.
    pub fn try_some(&mut self, buffer: &mut [u8]) -> Result<usize> {
        if self.buffer.is_empty() {
            return match self.stream.read(buffer)? {
                0 => Err(ErrorKind::UnexpectedEof.into()),
                count => Ok(count),
            };
        }
        let count = buffer.len().min(self.buffer.len());
        buffer[..count].copy_from_slice(&self.buffer[..count]);
        self.buffer.drain(..count);
        Ok(count)
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
        match self.try_more() {
            Ok(count) => count > 0,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => false,
            Err(error) => panic!("nothing came: {error}"),
        }
    }

    /// Reads once; zero if the connection ended.
    fn try_more(&mut self) -> Result<usize> {
        let mut chunk = vec![0; 64 * 1024];
        let count = self.stream.read(&mut chunk)?;
        self.buffer.extend_from_slice(&chunk[..count]);
        Ok(count)
    }
}

fn parse_head(text: &str) -> Answer {
    let mut lines = text.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|status| status.parse().ok());
    let fields = lines.filter_map(|line| line.split_once(':'));
    let fields = fields.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect();
    Answer { status: status.expect("a status"), fields, body: Vec::new() }
}
