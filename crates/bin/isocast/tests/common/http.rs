//! Requests of tests of failures: uploads that may break off, and contents checked as they
//! come. On the client of all tests (`client`).

use std::io::{BufRead as _, BufReader, Read as _, Result, Write};
use std::net::{SocketAddr, TcpStream};

use super::PATIENCE;
pub use super::client::{Answer, Client};
use super::content::Content;

/// A request to a server of a test's own.
#[derive(Debug)]
pub struct Received {
    pub head: String,
    pub body: Vec<u8>,
    pub stream: TcpStream,
}

impl Received {
    /// The request on a connection; none if that ends before.
    pub fn read(connection: TcpStream) -> Option<Self> {
        connection.set_read_timeout(Some(PATIENCE)).expect("a socket");
        let mut reader = BufReader::new(connection);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).unwrap_or(0) == 0 {
                return None;
            }
        }
        let length = field(&head, "content-length").map_or(0, |length| length.parse().expect("a number"));
        let mut body = vec![0; length];
        reader.read_exact(&mut body).expect("a body");
        Some(Self { head, body, stream: reader.into_inner() })
    }

    pub fn path(&self) -> &str {
        self.head.split(' ').nth(1).expect("a path")
    }

    pub fn field(&self, name: &str) -> Option<&str> {
        field(&self.head, name)
    }
}

fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = head.lines().filter_map(|line| line.split_once(": "));
    fields.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

/// Framing of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    Length,
    /// In parts of this size in bytes.
    Chunked(usize),
}

/// An upload: of a content, or of how it begins.
#[derive(Debug, Clone, Copy)]
pub struct Upload<'a> {
    pub target: &'a str,
    /// Lines of the head.
    pub fields: &'a str,
    pub content: Content,
    pub framing: Framing,
    /// Bytes that are sent; all of the content, or it is broken off.
    pub send_bytes: u64,
}

impl Upload<'_> {
    /// Sends it, and if it is whole reads the answer. Calls `sent` with the bytes of every part that was sent.
    pub fn run(&self, client: &mut Client, sent: &mut dyn FnMut(u64)) -> Result<Option<Answer>> {
        let Self { target, fields, content, framing, send_bytes } = *self;
        let announced = match framing {
            Framing::Length => format!("Content-Length: {}", content.bytes),
            Framing::Chunked(_) => "Transfer-Encoding: chunked".to_owned(),
        };
        let head = format!("PUT {target} HTTP/1.1\r\nHost: localhost\r\n{fields}{announced}\r\n\r\n");
        match self.send(&mut client.stream, &head, sent) {
            Ok(()) if send_bytes < content.bytes => Ok(None),
            Ok(()) => answer(client).map(Some),
            // A server that refuses may answer before it has read all.
            Err(error) => answer(client).map(Some).map_err(|_| error),
        }
    }

    fn send(&self, stream: &mut TcpStream, head: &str, sent: &mut dyn FnMut(u64)) -> Result<()> {
        let Self { content, framing, send_bytes, .. } = *self;
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

fn answer(client: &mut Client) -> Result<Answer> {
    let mut answer = client.try_head()?;
    client.try_body(&mut answer)?;
    Ok(answer)
}

/// One request on a connection of its own: status and body.
pub fn fetch(address: SocketAddr, method: &str, target: &str) -> Result<(u16, Vec<u8>)> {
    exchange(address, method, target).map(|answer| (answer.status, answer.body))
}

/// As [`fetch`], with the answer's fields.
pub fn exchange(address: SocketAddr, method: &str, target: &str) -> Result<Answer> {
    let mut client = Client::try_to(address)?;
    let mut answer = client.try_ask(method, target)?;
    client.try_body(&mut answer)?;
    Ok(answer)
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
