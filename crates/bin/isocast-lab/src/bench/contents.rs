//! Contents of random sizes in a store, which are written, replaced and read through the server.
//!
//! Promise: the same seed gives the same sizes and the same order in every store. Bodies are zeros, which take no memory of an
//! emulated disk. Not here: the store (`store_site`).

use std::thread;

use anyhow::{Context, bail};
use units::{Nanos, real};

use super::content_choice::{mix, nth_in_turn};
use super::requests::UploadBody;
use super::server::RunningServer;
use super::{Stop, clock, joined};

/// Concurrent uploads: a store that cannot keep concurrent contents apart interleaves them on the disk.
const UPLOADS: usize = 2;
/// Longest time of an upload or a deletion.
const ANSWER_MAX: Nanos = Nanos::from_secs(120);
/// Longest time of reading one content.
const READ_MAX: Nanos = Nanos::from_secs(1200);
const PIECE_BYTES: usize = 256 << 10;
const BLOCK_BYTES: u64 = 4096;

/// Sizes from `smallest` to `largest`, the same number in each doubling.
#[derive(Debug, Clone, Copy)]
pub(super) struct SizeMix {
    pub smallest: u64,
    pub largest: u64,
}

impl SizeMix {
    /// The size for a random `chance` from 0 to 1, in whole blocks.
    fn size(self, chance: f64) -> u64 {
        let doublings = (real(self.largest) / real(self.smallest)).log2();
        let blocks = real(self.smallest) / real(BLOCK_BYTES) * (chance * doublings).exp2();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the largest size")]
        let blocks = blocks as u64;
        (blocks * BLOCK_BYTES).clamp(self.smallest, self.largest)
    }
}

/// A content of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeptContent {
    pub name: String,
    pub bytes: u64,
}

/// The contents of a store whose fill is kept constant.
#[derive(Debug)]
pub(super) struct ContentTurnover {
    sizes: SizeMix,
    /// Allocation unit of the store, bytes.
    grain: u64,
    /// Bytes that contents may take.
    room: u64,
    taken: u64,
    kept: Vec<KeptContent>,
    written: u64,
    drawn: u64,
    seed: u64,
}

impl ContentTurnover {
    /// Nothing yet.
    pub(super) fn new(sizes: SizeMix, grain: u64, room: u64, seed: u64) -> Self {
        Self { sizes, grain, room, taken: 0, kept: Vec::new(), written: 0, drawn: 0, seed }
    }

    /// The contents kept now.
    pub(super) fn kept(&self) -> &[KeptContent] {
        &self.kept
    }

    /// Writes contents until `room` is used.
    ///
    /// # Errors
    /// The server refuses or fails, or the benchmark is interrupted.
    pub(super) fn fill(&mut self, server: &RunningServer, stop: &Stop) -> anyhow::Result<()> {
        loop {
            let batch: Vec<KeptContent> = (0..UPLOADS).map(|_| self.draw()).collect();
            let wanted: u64 = batch.iter().map(|one| self.room_of(one)).sum();
            if self.taken + wanted > self.room {
                return Ok(());
            }
            self.write(server, batch, stop)?;
        }
    }

    /// Deletes contents at random and writes new ones in their place, until the new bytes equal the bytes of all contents.
    ///
    /// # Errors
    /// As [`Self::fill`].
    pub(super) fn turn(&mut self, server: &RunningServer, stop: &Stop) -> anyhow::Result<()> {
        let end = self.written + self.kept.iter().map(|one| one.bytes).sum::<u64>();
        while self.written < end {
            let batch: Vec<KeptContent> = (0..UPLOADS).map(|_| self.draw()).collect();
            let wanted: u64 = batch.iter().map(|one| self.room_of(one)).sum();
            while self.taken + wanted > self.room && !self.kept.is_empty() {
                let at = usize::try_from(self.number() % self.kept.len() as u64)?;
                let gone = self.kept.swap_remove(at);
                delete(server, &gone)?;
                self.taken -= self.room_of(&gone);
            }
            self.write(server, batch, stop)?;
        }
        Ok(())
    }

    fn write(&mut self, server: &RunningServer, batch: Vec<KeptContent>, stop: &Stop) -> anyhow::Result<()> {
        put_all(server, &batch, stop)?;
        for one in batch {
            self.taken += self.room_of(&one);
            self.written += one.bytes;
            self.kept.push(one);
        }
        Ok(())
    }

    fn draw(&mut self) -> KeptContent {
        let chance = real(self.number() >> 11) / real(1 << 53);
        KeptContent { name: format!("content-{:06}", self.drawn), bytes: self.sizes.size(chance) }
    }

    fn number(&mut self) -> u64 {
        self.drawn += 1;
        mix(self.seed.wrapping_mul(0x1_0000_0000).wrapping_add(self.drawn))
    }

    fn room_of(&self, content: &KeptContent) -> u64 {
        content.bytes.next_multiple_of(self.grain)
    }
}

/// Rate of reading whole contents one after the other with `rate=max`, in 10^6 bytes per second. The contents are taken in
/// steps over the list, until `bytes_max` or all are read.
///
/// # Errors
/// The server does not send all bytes, or the benchmark is interrupted.
pub(super) fn reading_rate(
    server: &RunningServer,
    contents: &[KeptContent],
    bytes_max: u64,
    stop: &Stop,
) -> anyhow::Result<f64> {
    let (mut bytes, begun) = (0, clock::now());
    for n in 0..contents.len() {
        let content = &contents[nth_in_turn(n, contents.len())];
        read_whole(server, content, stop)?;
        bytes += content.bytes;
        if bytes >= bytes_max {
            break;
        }
    }
    Ok(real(bytes) / clock::now().saturating_sub(begun).as_secs_f64().max(f64::MIN_POSITIVE) / 1e6)
}

/// Reads a content as fast as the server sends it.
///
/// # Errors
/// The server does not send all bytes, or the benchmark is interrupted.
pub(super) fn read_whole(server: &RunningServer, content: &KeptContent, stop: &Stop) -> anyhow::Result<()> {
    let path = format!("{}?rate=max", server.upload_path(&content.name));
    let (mut bytes, begun) = (0, clock::now());
    let mut connection = server.connection(|| stop.is_set() || clock::now() > begun + READ_MAX);
    let status = connection.request("GET", &path, None, &mut |piece| bytes += piece.len() as u64);
    match status.with_context(|| format!("reading {path}"))? {
        200 if bytes == content.bytes => Ok(()),
        200 => bail!("{path} ended after {bytes} of {} bytes", content.bytes),
        status => bail!("{path} is answered {status}"),
    }
}

/// Uploads contents of zeros, all at once.
///
/// # Errors
/// An upload was refused, or not answered in time.
pub(super) fn put_all(server: &RunningServer, contents: &[KeptContent], stop: &Stop) -> anyhow::Result<()> {
    let begun = clock::now();
    let put = |content: &KeptContent| {
        let mut connection = server.connection(|| stop.is_set() || clock::now() > begun + ANSWER_MAX);
        let body = UploadBody { piece: &[0; PIECE_BYTES], bytes: content.bytes };
        connection.put(&server.upload_path(&content.name), body).with_context(|| format!("uploading {}", content.name))
    };
    let outcome = thread::scope(|scope| {
        let uploads: Vec<_> = contents.iter().map(|one| scope.spawn(move || put(one))).collect();
        let answers = uploads.into_iter().map(joined);
        answers.collect::<Vec<_>>().into_iter().collect::<anyhow::Result<()>>()
    });
    // An interrupt is reported as such, not as an upload that failed.
    stop.check()?;
    outcome
}

fn delete(server: &RunningServer, content: &KeptContent) -> anyhow::Result<()> {
    let status = server.delete(&server.upload_path(&content.name), ANSWER_MAX);
    match status.with_context(|| format!("deleting {}", content.name))? {
        200 | 204 => Ok(()),
        status => bail!("deleting {} is answered {status}", content.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_sizes_lie_in_each_doubling() {
        let sizes = SizeMix { smallest: 1 << 20, largest: 1 << 24 };
        assert_eq!((sizes.size(0.0), sizes.size(0.5), sizes.size(1.0)), (1 << 20, 1 << 22, 1 << 24));
        let mut contents = ContentTurnover::new(sizes, 1, u64::MAX, 7);
        let drawn: Vec<u64> = (0..1_000).map(|_| contents.draw().bytes).collect();
        let below = |bytes: u64| drawn.iter().filter(|drawn| **drawn < bytes).count();
        assert!((200..300).contains(&below(1 << 21)) && (450..550).contains(&below(1 << 22)), "{}", below(1 << 22));
        assert!(drawn.iter().all(|bytes| bytes.is_multiple_of(BLOCK_BYTES)));
    }
}
