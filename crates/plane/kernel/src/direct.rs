//! Writer of the store threads: writes a run of a file in pieces with two in flight, by a small io_uring of its own, or by
//! `pwrite` if there is no io_uring.
//!
//! Promise: pieces are begun in order, at most [`IN_FLIGHT_MAX`] at once (with one in flight and the drive's cache off, each
//! piece would cost a revolution of the disk: 7 instead of 31 MB/s); the caller is queried before each piece; no write is in
//! flight on return. Not here: the time of a write (a grant), padding, flushes. A hung disk blocks the caller, whose thread is
//! then abandoned.

use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::thread;
use std::time::Duration;

use io_uring::{IoUring, opcode, types};
use rustix::process::{Resource, getrlimit};
use units::limits;

/// Pieces in flight at once.
pub const IN_FLIGHT_MAX: usize = 2;

/// Writes of one store thread.
pub struct DirectWriter {
    /// The ring; `None`: `pwrite`, one piece at a time.
    ring: Option<IoUring>,
}

/// Result of a run.
#[derive(Debug)]
pub struct Written {
    /// Bytes written from the run's start without a gap. (After an error, pieces behind a gap may be written as well.)
    pub bytes: u64,
    /// The error that ended the run, if there was one.
    pub error: Option<io::Error>,
}

/// A piece of the run: its remaining bytes, in one or several buffers.
struct WritePiece<'a> {
    rest: Vec<IoSlice<'a>>,
    length: usize,
    /// Offset of `rest` in the file.
    offset: u64,
}

impl DirectWriter {
    /// A writer on io_uring, or on plain `pwrite` if the system forbids io_uring (see [`DirectWriter::overlaps`]).
    #[must_use]
    pub fn new() -> Self {
        Self { ring: IoUring::new(4).ok() }
    }

    /// True if the writer can have two pieces in flight.
    #[must_use]
    pub fn overlaps(&self) -> bool {
        self.ring.is_some()
    }

    /// Writes `buffers`, one after the other, to `file` from `offset` on, in pieces of `piece_bytes`, also from short buffers.
    /// `may_begin` is called before each piece; its first `false` ends the run. Returns when no write is in flight.
    ///
    /// The offset and each buffer's address and length must be multiples of [`limits::DIRECT_ALIGN`], and the end within the limit of
    /// file sizes (`ulimit -f`); if not, the error says so and nothing is written.
    pub fn write_run(
        &mut self,
        file: BorrowedFd<'_>,
        offset: u64,
        buffers: &[&[u8]],
        piece_bytes: u64,
        may_begin: impl FnMut() -> bool,
    ) -> Written {
        let mut pieces = match cut(offset, buffers, piece_bytes) {
            Ok(pieces) => pieces,
            Err(error) => return Written { bytes: 0, error: Some(error) },
        };
        // A single piece has no other to overlap with, and the ring would pass a write that lengthens its file to a kernel thread.
        let error = match self.ring.as_mut().filter(|_| pieces.len() > 1) {
            Some(ring) => WritesInFlight { ring, file, pieces: &mut pieces, queued: 0, error: None }.run(may_begin),
            None => write_plainly(file, &mut pieces, may_begin),
        };
        Written { bytes: contiguous(&pieces), error }
    }
}

impl Default for DirectWriter {
    fn default() -> Self {
        Self::new()
    }
}

/// Cuts the buffers into pieces, after checking that direct I/O can take them.
fn cut<'a>(mut offset: u64, buffers: &[&'a [u8]], piece_bytes: u64) -> io::Result<Vec<WritePiece<'a>>> {
    let aligned = |value: u64| value.is_multiple_of(limits::DIRECT_ALIGN);
    let length = |bytes: &[u8]| u64::try_from(bytes.len()).expect("usize is at most 64 bits");
    let address = |bytes: &[u8]| u64::try_from(bytes.as_ptr().addr()).expect("usize is at most 64 bits");
    let total: u64 = buffers.iter().map(|bytes| length(bytes)).sum();
    let fits = offset.checked_add(total).is_some_and(|end| i64::try_from(end).is_ok());
    if !fits || !aligned(offset) || !buffers.iter().all(|b| aligned(address(b)) && aligned(length(b))) {
        let what = format!("a direct write must be aligned to {} bytes, and end below 2^63", limits::DIRECT_ALIGN);
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    // The kernel would shorten the write to the limit, and refuse the shortened one as unaligned.
    if getrlimit(Resource::Fsize).current.is_some_and(|limit| offset.saturating_add(total) > limit) {
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    }
    let piece_bytes = usize::try_from(piece_bytes).expect("usize is 64 bits");
    let mut pieces: Vec<WritePiece<'a>> = Vec::new();
    for mut rest in buffers.iter().copied().filter(|bytes| !bytes.is_empty()) {
        while !rest.is_empty() {
            if pieces.last().is_none_or(|last| last.length == piece_bytes) {
                pieces.push(WritePiece { rest: Vec::new(), length: 0, offset });
            }
            let piece = pieces.last_mut().expect("there is one with room");
            let (now, later) = rest.split_at(rest.len().min(piece_bytes - piece.length));
            piece.rest.push(IoSlice::new(now));
            piece.length += now.len();
            offset += length(now);
            rest = later;
        }
    }
    Ok(pieces)
}

/// Bytes written from the start without a gap.
fn contiguous(pieces: &[WritePiece<'_>]) -> u64 {
    let whole = pieces.iter().take_while(|piece| piece.rest.is_empty()).count();
    let left = |piece: &WritePiece<'_>| piece.rest.iter().map(|slice| slice.len()).sum::<usize>();
    let broken = pieces.get(whole).map_or(0, |piece| piece.length - left(piece));
    let bytes = pieces[..whole].iter().map(|piece| piece.length).sum::<usize>() + broken;
    u64::try_from(bytes).expect("usize is at most 64 bits")
}

/// A run in flight. Dropping it waits until the kernel has released the buffers, even if `may_begin` panics.
struct WritesInFlight<'a, 'b> {
    ring: &'a mut IoUring,
    file: BorrowedFd<'a>,
    pieces: &'a mut [WritePiece<'b>],
    /// Requests without a completion yet.
    queued: usize,
    error: Option<io::Error>,
}

impl WritesInFlight<'_, '_> {
    fn run(mut self, mut may_begin: impl FnMut() -> bool) -> Option<io::Error> {
        let mut next = 0;
        let mut stopped = false;
        loop {
            while !stopped && self.error.is_none() && self.queued < IN_FLIGHT_MAX && next < self.pieces.len() {
                if may_begin() {
                    self.begin(next);
                    next += 1;
                } else {
                    stopped = true;
                }
            }
            if self.queued == 0 {
                return self.error.take();
            }
            self.reap();
        }
    }

    /// Queues the rest of piece `index`.
    fn begin(&mut self, index: usize) {
        let piece = &self.pieces[index];
        let count = u32::try_from(piece.rest.len()).expect("a piece is short");
        // An `IoSlice` is an `iovec` (its documentation).
        let slices = piece.rest.as_ptr().cast::<libc::iovec>();
        let entry = opcode::Writev::new(types::Fd(self.file.as_raw_fd()), slices, count)
            .offset(piece.offset)
            .build()
            .user_data(u64::try_from(index).expect("usize is at most 64 bits"));
        // SAFETY: the buffers are borrowed for longer than this flight, the pieces and the file for its time, and a piece's list of
        // buffers changes only when its request has completed; `drop` does not let the flight end before that.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("the queue has four places, and two requests are queued at most");
        self.queued += 1;
    }

    /// Submits the queued requests, waits for a completion, and handles all completions.
    fn reap(&mut self) {
        if self.ring.submit_and_wait(1).is_err() {
            // Interrupted, or short of memory for the moment: queued requests stay queued, completions are seen below.
            thread::sleep(Duration::from_millis(1));
        }
        loop {
            let entry = self.ring.completion().next();
            let Some(entry) = entry else { return };
            self.queued -= 1;
            let index = usize::try_from(entry.user_data()).expect("it was a usize");
            match u32::try_from(entry.result()) {
                Err(_) if entry.result() == -libc::EINTR => self.begin(index),
                Err(_) => self.fail(io::Error::from_raw_os_error(-entry.result())),
                Ok(0) => self.fail(io::Error::from(io::ErrorKind::WriteZero)),
                Ok(bytes) => {
                    advance(&mut self.pieces[index], bytes);
                    if !self.pieces[index].rest.is_empty() && self.error.is_none() {
                        self.begin(index); // written in part: a full disk answers the rest with ENOSPC
                    }
                }
            }
        }
    }

    fn fail(&mut self, error: io::Error) {
        self.error.get_or_insert(error); // the first is the cause
    }
}

impl Drop for WritesInFlight<'_, '_> {
    fn drop(&mut self) {
        self.error.get_or_insert_with(|| io::Error::from(io::ErrorKind::Interrupted)); // begin no remainder
        while self.queued > 0 {
            self.reap();
        }
    }
}

fn advance(piece: &mut WritePiece<'_>, bytes: u32) {
    let taken = usize::try_from(bytes).expect("usize holds a u32");
    let mut left = &mut piece.rest[..];
    IoSlice::advance_slices(&mut left, taken);
    let left = left.len();
    piece.rest.drain(..piece.rest.len() - left);
    piece.offset += u64::from(bytes);
}

fn write_plainly(
    file: BorrowedFd<'_>,
    pieces: &mut [WritePiece<'_>],
    mut may_begin: impl FnMut() -> bool,
) -> Option<io::Error> {
    for piece in pieces {
        if !may_begin() {
            return None;
        }
        while !piece.rest.is_empty() {
            match rustix::io::pwritev(file, &piece.rest, piece.offset) {
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Some(error.into()),
                Ok(0) => return Some(io::Error::from(io::ErrorKind::WriteZero)),
                Ok(bytes) => advance(piece, u32::try_from(bytes).expect("a piece is short")),
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::os::unix::fs::{FileExt, OpenOptionsExt};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::pool::{LEASE_BYTES, Lease, LeasePool};

    const PIECE: u64 = limits::PIECE_BYTES_MAX;

    /// A direct file in the build directory if the file system there can, else an ordinary one.
    fn file() -> (tempfile::TempPath, File) {
        let path = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap().into_temp_path();
        let open = |flags| File::options().read(true).write(true).custom_flags(flags).open(&path);
        let file = open(libc::O_DIRECT).or_else(|_| open(0)).unwrap();
        (path, file)
    }

    fn writers() -> [DirectWriter; 2] {
        let on_ring = DirectWriter::new();
        assert!(on_ring.overlaps(), "these tests need io_uring");
        [on_ring, DirectWriter { ring: None }]
    }

    fn patterned(pool: &LeasePool, seed: usize) -> Lease {
        let mut lease = pool.try_lease().unwrap();
        for (n, byte) in lease.iter_mut().enumerate() {
            *byte = u8::try_from((n / 4096 + n + seed) % 251).unwrap();
        }
        lease
    }

    #[test]
    fn a_run_of_two_leases_reads_back() {
        let pieces = [(PIECE, 8 + 1), (limits::CHUNK_BYTES, 1 + 1)];
        for (mut writer, (piece_bytes, count)) in pieces.into_iter().flat_map(|piece| writers().map(|one| (one, piece)))
        {
            let pool = LeasePool::new(2).unwrap();
            let (a, b) = (patterned(&pool, 1), patterned(&pool, 77));
            let (path, file) = file();
            let mut begun = 0;
            let written = writer.write_run(file.as_fd(), 8192, &[&a, &b[..4096 * 3]], piece_bytes, || {
                begun += 1;
                true
            });
            assert!(written.error.is_none(), "{:?}", written.error);
            assert_eq!(written.bytes, u64::try_from(LEASE_BYTES + 4096 * 3).unwrap());
            assert_eq!(begun, count, "the last piece has 12 KiB");
            let mut back = vec![0; LEASE_BYTES + 4096 * 3];
            File::open(&path).unwrap().read_exact_at(&mut back, 8192).unwrap();
            assert!(back[..LEASE_BYTES] == a[..] && back[LEASE_BYTES..] == b[..4096 * 3]);
        }
    }

    #[test]
    fn short_buffers_share_a_piece() {
        for mut writer in writers() {
            let pool = LeasePool::new(1).unwrap();
            let lease = patterned(&pool, 3);
            let (path, file) = file();
            let kib = |from: usize, to: usize| &lease[from << 10..to << 10];
            let buffers = [kib(0, 64), kib(64, 128), kib(128, 128), kib(128, 132), kib(132, 400)];
            let mut begun = 0;
            let written = writer.write_run(file.as_fd(), 4096, &buffers, PIECE, || {
                begun += 1;
                true
            });
            assert!(written.error.is_none(), "{:?}", written.error);
            assert_eq!((written.bytes, begun), (400 << 10, 4), "three pieces of 128 KiB, and one of 16 KiB");
            let mut back = vec![0; 400 << 10];
            File::open(&path).unwrap().read_exact_at(&mut back, 4096).unwrap();
            assert!(back[..] == lease[..400 << 10]);
        }
    }

    #[test]
    fn a_piece_continues_behind_its_written_bytes() {
        let bytes = [7; 12];
        let slices = [&bytes[..4], &bytes[4..8], &bytes[8..]].map(IoSlice::new);
        let mut piece = WritePiece { rest: slices.to_vec(), length: 12, offset: 100 };
        advance(&mut piece, 6);
        assert_eq!((piece.rest.iter().map(|slice| slice.len()).collect::<Vec<_>>(), piece.offset), (vec![2, 4], 106));
        assert_eq!(contiguous(std::slice::from_ref(&piece)), 6);
        advance(&mut piece, 6);
        assert!(piece.rest.is_empty() && piece.offset == 112);
    }

    #[test]
    fn the_caller_stops_the_run_between_pieces() {
        for mut writer in writers() {
            let pool = LeasePool::new(1).unwrap();
            let lease = patterned(&pool, 5);
            let (_path, file) = file();
            let mut left = 3;
            let written = writer.write_run(file.as_fd(), 0, &[&lease], PIECE, || {
                left -= 1;
                left >= 0
            });
            assert!(written.error.is_none());
            assert_eq!(written.bytes, 3 * PIECE);
            assert_eq!(left, -1, "not asked again after its no");
        }
    }

    #[test]
    fn write_errors_are_reported_and_end_the_run() {
        for mut writer in writers() {
            let pool = LeasePool::new(1).unwrap();
            let lease = patterned(&pool, 5);
            let (path, _) = file();
            let read_only = File::open(&path).unwrap();
            let written = writer.write_run(read_only.as_fd(), 0, &[&lease], PIECE, || true);
            assert_eq!(written.error.unwrap().raw_os_error(), Some(libc::EBADF));
            assert_eq!(written.bytes, 0);
        }
    }

    #[test]
    fn unaligned_writes_are_refused_before_the_first_byte() {
        let pool = LeasePool::new(1).unwrap();
        let lease = patterned(&pool, 5);
        let (path, file) = file();
        let mut writer = DirectWriter::new();
        for (offset, buffer) in
            [(1, &lease[..4096]), (0, &lease[..4095]), (0, &lease[1..4097]), (u64::MAX - 4095, &lease[..4096])]
        {
            let written = writer.write_run(file.as_fd(), offset, &[buffer], PIECE, || true);
            assert_eq!(written.error.unwrap().kind(), io::ErrorKind::InvalidInput);
        }
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
    }

    #[test]
    fn a_panicking_caller_leaves_nothing_in_flight() {
        let pool = LeasePool::new(1).unwrap();
        let lease = patterned(&pool, 5);
        let (_path, file) = file();
        let mut writer = DirectWriter::new();
        let mut asked = 0;
        let run = AssertUnwindSafe(|| {
            writer.write_run(file.as_fd(), 0, &[&lease], PIECE, || {
                asked += 1;
                assert!(asked < 2, "the caller's fault");
                true
            })
        });
        assert!(catch_unwind(run).is_err());
        let written = writer.write_run(file.as_fd(), 0, &[&lease], PIECE, || true);
        assert_eq!(written.bytes, u64::try_from(LEASE_BYTES).unwrap(), "{:?}", written.error);
    }
}
