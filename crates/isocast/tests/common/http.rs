//! A client that does what it is told, and nothing else: blocking, one connection, no retries.

use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Result, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::content::Content;

/// No answer for so long is an error.
const SILENCE_MAX: Duration = Duration::from_secs(60);

pub struct Connection(BufReader<TcpStream>);

/// The head of an answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub length: u64,
}

/// How a body is announced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    Length,
    /// In parts of so many bytes.
    Chunked(usize),
}

fn wrong(what: &str) -> Error {
    Error::new(ErrorKind::InvalidData, what)
}

impl Connection {
    pub fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        stream.set_write_timeout(Some(SILENCE_MAX))?;
        Ok(Self(BufReader::with_capacity(1 << 16, stream)))
    }

    /// Sends a request without a body, and reads the head of the answer.
    pub fn ask(&mut self, method: &str, target: &str) -> Result<Answer> {
        write!(self.0.get_mut(), "{method} {target} HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
        self.answer()
    }

    fn answer(&mut self) -> Result<Answer> {
        let mut line = String::new();
        self.line(&mut line)?;
        let status = line.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(|| wrong("no status"))?;
        let mut length = 0;
        loop {
            self.line(&mut line)?;
            if line.is_empty() {
                return Ok(Answer { status, length });
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().map_err(|_| wrong("a length that is no number"))?;
            }
        }
    }

    fn line(&mut self, line: &mut String) -> Result<()> {
        line.clear();
        if self.0.read_line(line)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        line.truncate(line.trim_end().len());
        Ok(())
    }

    /// The whole body of an answer.
    pub fn body(&mut self, answer: &Answer) -> Result<Vec<u8>> {
        let mut body = vec![0; usize::try_from(answer.length).map_err(|_| wrong("too long"))?];
        self.0.read_exact(&mut body)?;
        Ok(body)
    }

    /// Some more of a body.
    pub fn some(&mut self, buffer: &mut [u8]) -> Result<usize> {
        match self.0.read(buffer)? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            count => Ok(count),
        }
    }

    /// Uploads the first `send_bytes` of a content, and if that is all of it reads the answer. `sent` is told of every
    /// part that was sent.
    pub fn put(
        &mut self,
        target: &str,
        fields: &str,
        content: Content,
        framing: Framing,
        send_bytes: u64,
        sent: &mut dyn FnMut(u64),
    ) -> Result<Option<u16>> {
        let announced = match framing {
            Framing::Length => format!("Content-Length: {}", content.bytes),
            Framing::Chunked(_) => "Transfer-Encoding: chunked".to_owned(),
        };
        let head = format!("PUT {target} HTTP/1.1\r\nHost: localhost\r\n{fields}{announced}\r\n\r\n");
        let whole = send_bytes == content.bytes;
        match self.send_body(&head, content, framing, send_bytes, sent) {
            Ok(()) if !whole => Ok(None),
            Ok(()) => self.status().map(Some),
            // A server that refuses may answer before it has read all.
            Err(error) => self.status().map(Some).map_err(|_| error),
        }
    }

    fn status(&mut self) -> Result<u16> {
        let answer = self.answer()?;
        self.body(&answer)?;
        Ok(answer.status)
    }

    fn send_body(
        &mut self,
        head: &str,
        content: Content,
        framing: Framing,
        send_bytes: u64,
        sent: &mut dyn FnMut(u64),
    ) -> Result<()> {
        let stream = self.0.get_mut();
        stream.write_all(head.as_bytes())?;
        let part = match framing {
            Framing::Length => 1 << 16,
            Framing::Chunked(bytes) => bytes,
        };
        let mut buffer = vec![0; part];
        let mut at = 0;
        while at < send_bytes {
            let most = buffer.len().min(usize::try_from(send_bytes - at).unwrap_or(usize::MAX));
            let count = content.fill(at, &mut buffer[..most]);
            if framing == Framing::Length {
                stream.write_all(&buffer[..count])?;
            } else {
                stream.write_all(format!("{count:x}\r\n").as_bytes())?;
                stream.write_all(&buffer[..count])?;
                stream.write_all(b"\r\n")?;
            }
            let count = u64::try_from(count).expect("fits");
            at += count;
            sent(count);
        }
        if framing != Framing::Length && send_bytes == content.bytes {
            stream.write_all(b"0\r\n\r\n")?;
        }
        Ok(())
    }
}

/// One request on a connection of its own: status and body.
pub fn fetch(address: SocketAddr, method: &str, target: &str) -> Result<(u16, Vec<u8>)> {
    let mut connection = Connection::open(address)?;
    let answer = connection.ask(method, target)?;
    let body = connection.body(&answer)?;
    Ok((answer.status, body))
}

/// A name as a path takes it.
pub fn encoded(name: &str) -> String {
    name.bytes().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
        text
    })
}
