//! Output of the commands, and its reader, which may have gone.
//!
//! Promise: a reader that has gone (`isocast … | head -1`) ends a command quietly, and never a server.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

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

/// The longest wait for room in a pipe that is full because its reader reads nothing.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Writes a line to standard error, and ignores its errors. A full pipe misses it: it must not keep a server from its end.
pub fn say(line: Arguments<'_>) {
    if has_room(io::stderr()) {
        let _ = writeln!(io::stderr(), "isocast: {line}");
    }
}

fn has_room(output: impl AsFd) -> bool {
    let wait = || poll(&mut [PollFd::new(&output, PollFlags::OUT)], Some(&PATIENCE));
    rustix::io::retry_on_intr(wait) != Ok(0)
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

#[cfg(test)]
mod tests {
    use std::io::{PipeWriter, Read as _, pipe};

    use super::*;

    #[test]
    fn a_full_pipe_has_no_room() {
        let (mut reader, mut writer): (_, PipeWriter) = pipe().expect("a pipe");
        assert!(has_room(&writer));
        let bytes = rustix::pipe::fcntl_getpipe_size(&writer).expect("its size");
        writer.write_all(&vec![0; bytes]).expect("written");
        assert!(!has_room(&writer));
        reader.read_exact(&mut vec![0; bytes]).expect("read");
        assert!(has_room(&writer));
    }
}
