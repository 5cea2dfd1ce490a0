//! An open file of a mounted tree: reads in a row take their bytes from one answer of the server, as it continues.
//!
//! Promise: the range requested of the server doubles while a file is read in a row, so that a reader of a few blocks costs little, and
//! one of the whole file few requests on a kept connection. Held in memory of a file are some [`RECENT_BYTES`] and one read.
//! Not here: the kernel's side of it (`tree`).

use std::io::{self, Read};

use anyhow::{Context as _, ensure};
use client::{Remote, RemoteContent};
use units::BitRate;

/// The bytes read last are kept, since the kernel requests the pieces of its read-ahead in any order. A piece at most this far ahead is
/// reached by reading.
const RECENT_BYTES: usize = 1 << 20;
/// The least that is requested, as after a jump, and the most.
const WINDOW_BYTES_MIN: u64 = 1 << 20;
const WINDOW_BYTES_MAX: u64 = 64 << 20;

/// See the module.
pub(crate) struct FileReader {
    remote: Remote,
    name: String,
    version: RemoteContent,
    /// At a rate: that, and the name under which its reservation passes from read to read.
    rate: Option<(BitRate, String)>,
    /// The answer that is being read, and where it ends.
    answer: Option<(Box<dyn Read + Send>, u64)>,
    /// Bytes to request next.
    window: u64,
    /// Bytes that were read last, and where they begin.
    recent: Vec<u8>,
    recent_start: u64,
}

impl FileReader {
    pub(crate) fn new(remote: Remote, name: String, version: RemoteContent, rate: Option<(BitRate, String)>) -> Self {
        let window = WINDOW_BYTES_MIN;
        Self { remote, name, version, rate, answer: None, window, recent: Vec::new(), recent_start: 0 }
    }

    /// Bytes of the file from `offset` on, fewer only at its end.
    ///
    /// # Errors
    /// The server cannot be reached, refuses, or has another version by now.
    pub(crate) fn read(&mut self, offset: u64, bytes: u32) -> anyhow::Result<&[u8]> {
        let end = offset.saturating_add(u64::from(bytes)).min(self.version.bytes);
        if offset >= end {
            return Ok(&[]);
        }
        if offset < self.recent_start || offset > self.position() + count(RECENT_BYTES) {
            self.jump(offset);
        }
        if self.recent.len() > 2 * RECENT_BYTES {
            let old = (self.recent.len() - RECENT_BYTES).min(index(offset - self.recent_start));
            self.recent.drain(..old);
            self.recent_start += count(old);
        }
        if self.read_to(end).is_err() {
            // A server ends an answer that was not taken for long: it is requested again, once.
            self.answer = None;
            self.read_to(end)?;
        }
        Ok(&self.recent[index(offset - self.recent_start)..index(end - self.recent_start)])
    }

    /// Behind the last byte that was read.
    fn position(&self) -> u64 {
        self.recent_start + count(self.recent.len())
    }

    fn jump(&mut self, offset: u64) {
        self.answer = None;
        self.window = WINDOW_BYTES_MIN;
        self.recent.clear();
        self.recent_start = offset;
    }

    fn read_to(&mut self, end: u64) -> anyhow::Result<()> {
        while self.position() < end {
            let (mut answer, until) = match self.answer.take() {
                Some(answer) => answer,
                None => self.ask()?,
            };
            let wanted = end.min(until) - self.position();
            let read = io::copy(&mut answer.by_ref().take(wanted), &mut self.recent);
            ensure!(read.with_context(|| self.name.clone())? == wanted, "{}: the answer ended early", self.name);
            // Read to its end, its connection is used again.
            self.answer = (self.position() < until).then_some((answer, until));
        }
        Ok(())
    }

    fn ask(&mut self) -> anyhow::Result<(Box<dyn Read + Send>, u64)> {
        let start = self.position();
        // A stream at a rate is one request: it is reserved until the file is closed.
        let window = if self.rate.is_some() { u64::MAX } else { self.window };
        let until = start.saturating_add(window).min(self.version.bytes);
        self.window = (self.window * 2).min(WINDOW_BYTES_MAX);
        let rate = self.rate.as_ref().map(|(rate, session)| (*rate, session.as_str()));
        Ok((self.remote.read(&self.name, &self.version, start..until, rate)?, until))
    }
}

fn count(bytes: usize) -> u64 {
    u64::try_from(bytes).expect("a length in memory fits into 64 bits")
}

fn index(bytes: u64) -> usize {
    usize::try_from(bytes).expect("a few reads fit into memory")
}
