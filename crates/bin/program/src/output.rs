//! Output of the commands, and its reader, which may have gone.
//!
//! Promise: a reader that has gone (`isocast … | head -1`) ends a command quietly, and never a server.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};

/// Exit code of this program when the reader of its output has gone: as a shell gives it for a program that a broken pipe ended
/// (128 + SIGPIPE).
pub const CLOSED: u8 = 141;

/// Standard output. Commands pass its errors on; that it was closed is noticed here, for all of them.
#[derive(Debug, Default)]
pub struct Output {
    closed: bool,
}

impl Output {
    /// True once its reader has gone.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    fn noticed<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        self.closed |= result.as_ref().is_err_and(|error| error.kind() == ErrorKind::BrokenPipe);
        result
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = io::stdout().write(bytes);
        self.noticed(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = io::stdout().flush();
        self.noticed(flushed)
    }
}

/// Writes a line to standard error, and ignores its errors.
pub fn say(line: Arguments<'_>) {
    let _ = writeln!(io::stderr(), "isocast: {line}");
}

/// Whether `serve` prints more than the few lines that are for everybody.
#[derive(Debug, Clone, Copy)]
pub struct Console {
    /// `--verbose`
    pub verbose: bool,
}

impl Console {
    /// A line on standard error, if details are wanted.
    pub fn detail(self, line: Arguments<'_>) {
        if self.verbose {
            say(line);
        }
    }
}
