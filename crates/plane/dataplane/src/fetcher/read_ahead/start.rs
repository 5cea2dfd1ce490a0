//! Start of a stream: its conditions at its disk, and the arrival of its first bytes.
//!
//! Not here: when it may run (`starts`).

use super::*;

impl ReadAhead {
    /// The conditions that a start of it would meet now at its disk; blocks are sent in ticks.
    pub(in super::super) fn start_conditions<I: Io>(
        &self,
        sources: &Sources,
        context: &PlaneContext<I>,
    ) -> StartConditions {
        let (source, now) = (&sources[self.disk], context.now);
        let payload_bytes = self.payload - self.send.payload;
        let room_at = self.room_for_block(source, context.config.tick, now).unwrap_or(Nanos::MAX);
        StartConditions { room_at, payload_bytes, ..source.start_conditions(now) }
    }

    /// The earliest time at which all of it, if it is one block, may be sent with everything that waits for its disk: not before it
    /// has lasted, and every read has the look-ahead.
    fn room_for_block(&self, source: &Source, tick: Nanos, now: Nanos) -> Option<Nanos> {
        let ReadRate { rate, .. } = self.plan.filter(|plan| plan.rate.whole)?.rate;
        let (layout, mut cursor) = (&self.content().layout, self.send);
        let offset = cursor.next_content(self.segment_list())?.0.index * CACHE_PAGE_BYTES;
        let copy = layout.copy_at(offset, |disk| u8::from(disk != self.disk));
        let position = layout.piece(copy, offset, 1)?.position.unwrap_or(0);
        let sending = BlockSending::of(rate, self.payload, tick).takes;
        let lasts = rate.time_for(self.payload).saturating_sub(REQUEST_WAY_MAX);
        let least = source.rounds().period().saturating_mul(LOOKAHEAD_ROUNDS).max(lasts);
        let read_by = now.saturating_add(least.saturating_sub(sending));
        Some(source.schedule.room_for((position, self.payload), read_by, now).saturating_add(sending))
    }

    /// True if its client waits for the first byte for at least `waits_max`. The block of a session may be due later than its start, and
    /// is read by then.
    pub(in super::super) fn is_late(&self, waits_max: Nanos, now: Nanos) -> bool {
        let due = self.plan.and_then(|plan| plan.block).map_or(self.started, |block| block.read_by);
        self.send == Cursor::default() && now.saturating_sub(self.started.max(due)) >= waits_max
    }

    /// True if all of it lies in the buffers and within `window`.
    pub(in super::super) fn is_buffered(&self, window: u64, buffers: &BufferPool) -> bool {
        self.payload <= window && buffers.has_all(self.fetch, self.segment_list())
    }

    /// It wants all of its payload, which lies in the buffers and within `window`.
    pub(in super::super) fn want_all(&mut self, window: u64) {
        (self.target, self.ahead) = (self.payload, window);
        self.reads_nothing();
    }

    /// Whether its first bytes are in the buffers: `least` of them, and as many as an ordinary start reads.
    pub(in super::super) fn has_first_bytes(&self, least: u64, buffers: &BufferPool) -> bool {
        let (mut cursor, enough) = (self.send, START_BYTES.max(least));
        while let Some((key, _, left)) = cursor.next_content(self.segment_list()) {
            if cursor.payload - self.send.payload >= enough {
                return true;
            }
            if cursor.payload >= self.fetch.payload {
                // A slow stream's first block can be less than a usual start: then all requested bytes are enough. A
                // stream that cannot be read any further runs as well, so that its client receives the error.
                let wanted = if self.is_whole() { self.payload } else { self.target };
                return self.fetch.payload >= wanted && (wanted > 0 || self.is_cut);
            }
            match buffers.state(key) {
                Some(PageState::Ready(_)) => cursor.pass(left),
                Some(PageState::Reading | PageState::Empty) | None => return false,
            }
        }
        true
    }

    /// Its first bytes are in the buffers: its clock begins to run.
    pub(in super::super) fn begin_to_run<I: Io>(&mut self, sources: &mut Sources, context: &mut PlaneContext<I>) {
        self.leave_starting(sources);
        self.run();
        let block = self.plan.and_then(|plan| plan.block);
        context.tell_pacer(ToPacer::Run { slot: self.slot, block });
    }
}
