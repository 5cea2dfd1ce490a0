//! Requests of clients that wait for each answer: the API of a server, uploads, contents read whole.
//!
//! Promise: looks at least every [`LOOK`] whether to give up, also while bytes trickle. Not here: the clients whose streams are measured (`client`).

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::client::{AnswerHead, parse_head};

const CONNECT_MAX: Duration = Duration::from_secs(10);
/// Period at which a waiting request checks whether to give up.
const LOOK: Duration = Duration::from_millis(100);
const PIECE_BYTES: usize = 256 * 1024;

/// A connection to a server, opened with the first request and kept where an answer lets it.
pub(super) struct ServerConnection<'a> {
    address: SocketAddr,
    /// Further headers of each request.
    headers: String,
    socket: Option<TcpStream>,
    give_up: Box<dyn Fn() -> bool + 'a>,
}

/// The body of a request: `piece` again and again, up to `bytes`.
#[derive(Debug, Clone, Copy)]
pub(super) struct UploadBody<'a> {
    pub piece: &'a [u8],
    pub bytes: u64,
}

impl<'a> ServerConnection<'a> {
    /// For requests to the server that knows itself by `authority`, each of which ends when `give_up` returns true.
    pub(super) fn new(address: SocketAddr, authority: &str, give_up: impl Fn() -> bool + 'a) -> Self {
        let headers = format!("Host: {authority}\r\nUser-Agent: isocast-bench\r\n");
        Self { address, headers, socket: None, give_up: Box::new(give_up) }
    }

    /// Tells its session apart by another user agent.
    pub(super) fn named(self, agent: &str) -> Self {
        Self { headers: self.headers.replace("isocast-bench", agent), ..self }
    }

    /// Uploads to `path`.
    ///
    /// # Errors
    /// It is not taken, or not in time.
    pub(super) fn put(&mut self, path: &str, body: UploadBody<'_>) -> Result<()> {
        match self.request("PUT", path, Some(body), &mut |_| ())? {
            200 | 201 | 204 => Ok(()),
            status => {
                // It may not have read all of the body.
                self.socket = None;
                Err(Error::other(format!("answered {status}")))
            }
        }
    }

    /// The status with which `method` and `path` are answered, once the answer is whole; pieces of its body go to `take`.
    ///
    /// # Errors
    /// No whole answer in time.
    pub(super) fn request(
        &mut self,
        method: &str,
        path: &str,
        body: Option<UploadBody<'_>>,
        take: &mut dyn FnMut(&[u8]),
    ) -> Result<u16> {
        let (head, came) = self.begin(method, path, body)?;
        take(&came);
        // Of unknown length (RFC 9112, 6.3): the connection's end is the body's, where it is not kept.
        let length = match head.content_length {
            _ if head.status == 204 => 0,
            None if !head.keep_alive => u64::MAX,
            length => length.unwrap_or(0),
        };
        let (mut left, mut piece) = (length.saturating_sub(came.len() as u64), vec![0; PIECE_BYTES]);
        while left > 0 {
            let room = usize::try_from(left).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
            match self.patiently(|socket| socket.read(&mut piece[..room]))? {
                0 if length == u64::MAX => break,
                0 => {
                    self.socket = None;
                    return Err(ErrorKind::UnexpectedEof.into());
                }
                bytes => {
                    take(&piece[..bytes]);
                    left -= bytes as u64;
                }
            }
        }
        if !head.keep_alive {
            self.socket = None;
        }
        Ok(head.status)
    }

    /// Sends a request, and returns the head of its answer, with the bytes that came behind it.
    ///
    /// # Errors
    /// No answer in time.
    pub(super) fn begin(
        &mut self,
        method: &str,
        path: &str,
        body: Option<UploadBody<'_>>,
    ) -> Result<(AnswerHead, Vec<u8>)> {
        let begun = self.send_request(method, path, body).and_then(|()| self.head());
        if begun.is_err() {
            self.socket = None;
        }
        begun
    }

    fn send_request(&mut self, method: &str, path: &str, body: Option<UploadBody<'_>>) -> Result<()> {
        let length = body.map_or_else(String::new, |body| format!("Content-Length: {}\r\n", body.bytes));
        let head = format!("{method} {path} HTTP/1.1\r\n{}{length}\r\n", self.headers);
        self.send(head.as_bytes())?;
        let Some(UploadBody { piece, bytes: mut left }) = body else { return Ok(()) };
        while left > 0 {
            let now = usize::try_from(left).unwrap_or(usize::MAX).min(piece.len());
            self.send(&piece[..now])?;
            left -= now as u64;
        }
        Ok(())
    }

    fn head(&mut self) -> Result<(AnswerHead, Vec<u8>)> {
        let (mut read, mut piece) = (Vec::new(), [0; 4096]);
        loop {
            match self.patiently(|socket| socket.read(&mut piece))? {
                0 => return Err(Error::other("the server closed the connection without an answer")),
                bytes => read.extend_from_slice(&piece[..bytes]),
            }
            if let Some(head) = parse_head(&read).map_err(Error::other)? {
                let body = read.split_off(head.head_bytes);
                return Ok((head, body));
            }
        }
    }

    fn send(&mut self, bytes: &[u8]) -> Result<()> {
        let mut sent = 0;
        while sent < bytes.len() {
            sent += match self.patiently(|socket| socket.write(&bytes[sent..]))? {
                0 => return Err(ErrorKind::WriteZero.into()),
                bytes => bytes,
            };
        }
        Ok(())
    }

    /// Does `step` as soon as the kernel lets it, and looks between whether to give up.
    fn patiently(&mut self, mut step: impl FnMut(&mut TcpStream) -> Result<usize>) -> Result<usize> {
        let socket = match &mut self.socket {
            Some(socket) => socket,
            empty => {
                let fresh = TcpStream::connect_timeout(&self.address, CONNECT_MAX)?;
                fresh.set_read_timeout(Some(LOOK))?;
                fresh.set_write_timeout(Some(LOOK))?;
                empty.insert(fresh)
            }
        };
        loop {
            if (self.give_up)() {
                self.socket = None;
                return Err(Error::other("the server did not go on with it in time"));
            }
            match step(socket) {
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) => {}
                Err(error) => {
                    self.socket = None;
                    return Err(error);
                }
                count => return count,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_server_that_never_answers_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let looks = std::cell::Cell::new(0);
        let mut connection = ServerConnection::new(address, "x", || looks.replace(looks.get() + 1) > 20);
        let body = UploadBody { piece: &[0; 65_536], bytes: 100_000_000 };
        let error = connection.put("/media/x", body).unwrap_err();
        assert!(error.to_string().contains("did not go on"), "{error}");
    }
}
