//! Ends of reads: their pages are ready, or cannot be read.

use std::sync::Arc;

use super::reads_in_flight::tell_store;
use super::*;
use crate::control::Outcome;
use crate::port::IoFault;

impl Fetcher {
    /// A read ended. Its bytes count once they are verified: other programs may have written to its file meanwhile, and a disk
    /// may give other bytes than it was given.
    pub(super) fn read_done<I: Io>(&mut self, op: u32, completion: Completion, context: &mut PlaneContext<I>) {
        let disks = (&self.sources, &self.buffers);
        let Some(completion) = self.reads.answered(op, completion, disks, context) else { return };
        let read = self.reads.get(op);
        if self.sources[read.disk].read_done(&read, completion, &context.gauges) {
            self.condition_changed(read.disk, context);
        }
        if matches!(completion.result, Err(IoFault::Device(_))) {
            tell_store(&read, &self.sources, &self.buffers);
        }
        let waits = match completion.result {
            Ok(_) => self.reads.verify(op, &self.buffers, context),
            Err(_) => self.reads.try_next_copy(op, (&mut self.sources, &mut self.buffers), context),
        };
        if !waits {
            self.finish_read(op, completion.result, context);
        }
    }

    /// The bytes of a read were verified. A disk that gave wrong bytes erred, as if it had reported an error.
    pub(super) fn verified<I: Io>(&mut self, op: u32, completion: Completion, context: &mut PlaneContext<I>) {
        let wrong = completion.result.err().and_then(|_| self.reads.is_wrong(op, &self.buffers));
        if let Some(read) = wrong {
            if self.sources[read.disk].read_failed(&read, completion.at, &context.gauges) {
                self.condition_changed(read.disk, context);
            }
            tell_store(&read, &self.sources, &self.buffers);
            if self.reads.try_next_copy(op, (&mut self.sources, &mut self.buffers), context) {
                return;
            }
        }
        self.finish_read(op, completion.result, context);
    }

    /// The file of a read was looked at, or need not be: its pages are ready, or bad.
    pub(super) fn finish_read<I: Io>(&mut self, op: u32, result: Result<u32, IoFault>, context: &mut PlaneContext<I>) {
        let read = self.reads.take(op);
        let (got, bad) = match result {
            Ok(0) => (0, Outcome::ContentChanged),
            Ok(_) => (read.got, Outcome::ContentChanged),
            Err(_) => (0, Outcome::DiskError),
        };
        let version = self.buffers.content(read.file).version;
        for nth in 0..read.count {
            let from = u64::from(nth) * CACHE_PAGE_BYTES;
            let expected = read.expected.saturating_sub(from).min(CACHE_PAGE_BYTES);
            let there = got.saturating_sub(from);
            // A piece's valid bytes count from the page's start.
            let valid = u32::try_from(read.within_page() + expected).expect("a page is small");
            let page = Cache::neighbour(read.first, nth);
            if there >= expected {
                self.buffers.read_done(page, valid);
            } else {
                let key = PageKey { version, index: (read.offset + from) / CACHE_PAGE_BYTES };
                self.streams.lose_page(page, key, bad, (&mut self.sources, &mut self.buffers), context);
            }
        }
        // A starting stream is listed at one of its content's disks.
        let content = Arc::clone(self.buffers.content(read.file));
        for disk in content.layout.disks() {
            self.run_those_ready(*disk, context);
        }
        self.buffers.release_file(read.file, context);
        let stream = &self.streams[read.slot];
        if !read.real_time && stream.generation() == read.generation && stream.is_best_effort() {
            context.tell_pacer(ToPacer::Wake { slot: read.slot });
        }
    }
}
