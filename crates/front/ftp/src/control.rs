//! The control connection as a stream of commands and replies.
//!
//! Promise: a command is read in full before the next, and no byte behind it; a read that is given up loses no byte.

use std::fmt::Write as _;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use crate::command::{CommandError, CommandLines, FtpCommand};

/// For the client to take a reply.
const REPLY_TIME_MAX: Duration = Duration::from_secs(30);

/// A stream of bytes in both directions, sealed or not.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Duplex for S {}

/// A reply: its code, and one or more lines of text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FtpReply {
    code: u16,
    lines: Vec<String>,
}

impl FtpReply {
    pub(crate) fn new(code: u16, text: impl Into<String>) -> Self {
        Self { code, lines: vec![text.into()] }
    }

    pub(crate) const fn code(&self) -> u16 {
        self.code
    }

    /// Of several lines: the first, those of a list, and the last.
    pub(crate) fn list(code: u16, first: &str, list: Vec<String>, last: &str) -> Self {
        let inner = list.into_iter().map(|line| format!(" {line}"));
        Self { code, lines: std::iter::once(first.to_owned()).chain(inner).chain([last.to_owned()]).collect() }
    }

    /// As it is sent (RFC 959 §4.2). A name's own control characters end no line.
    fn render(&self) -> String {
        let (mut text, last) = (String::new(), self.lines.len() - 1);
        for (at, line) in self.lines.iter().enumerate() {
            let line = line.replace(|c: char| c.is_control(), "?");
            let _ = match at {
                at if at == last => write!(text, "{} {line}\r\n", self.code),
                0 => write!(text, "{}-{line}\r\n", self.code),
                _ => write!(text, "{line}\r\n"),
            };
        }
        text
    }
}

/// A control connection.
pub(crate) struct ControlStream<S> {
    stream: S,
    lines: CommandLines,
}

impl<S: Duplex> ControlStream<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, lines: CommandLines::default() }
    }

    /// The next command; none: the connection has ended.
    pub(crate) async fn next(&mut self) -> Option<Result<FtpCommand, CommandError>> {
        loop {
            // Byte by byte: the kernel ends a read before an urgent byte (that of `ABOR`), and tokio waits for more behind a read that did
            // not fill its buffer, although the urgent byte is there.
            let byte = self.stream.read_u8().await.ok()?;
            if let (_, Some(command)) = self.lines.take(&[byte]) {
                return Some(command);
            }
        }
    }

    /// Sends a reply; none: the client does not take it.
    pub(crate) async fn reply(&mut self, reply: &FtpReply) -> Option<()> {
        let text = reply.render();
        let written = async {
            self.stream.write_all(text.as_bytes()).await?;
            self.stream.flush().await
        };
        timeout(REPLY_TIME_MAX, written).await.ok()?.ok()
    }

    /// The stream behind the last command.
    pub(crate) fn into_stream(self) -> S {
        self.stream
    }

    /// Says the end of the connection, for TLS.
    pub(crate) async fn end(mut self) {
        let _ = timeout(REPLY_TIME_MAX, self.stream.shutdown()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_of_several_lines_end_with_their_code() {
        let one = FtpReply::new(550, "no \r\n226 yes").render();
        assert_eq!(one, "550 no ??226 yes\r\n");
        let list = FtpReply::list(211, "Features:", vec!["SIZE".to_owned(), "UTF8".to_owned()], "End").render();
        assert_eq!(list, "211-Features:\r\n SIZE\r\n UTF8\r\n211 End\r\n");
    }
}
