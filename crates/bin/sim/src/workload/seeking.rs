//! Viewers that seek, and how long they wait, and viewers that pause.

use crate::ledger::LedgerEntry;
use crate::world::{ClientTurn, World, WorldEvent};

use super::{PAUSE, content_index, line_of};

impl World {
    /// A viewer that has its picture goes elsewhere in its content: it opens the new range, and closes the old one.
    pub(super) fn seek(&mut self) {
        let Some(stream) = self.pick_viewer(|stream| stream.requested.hold) else { return };
        let record = &self.streams[&stream];
        let (Some(held), Some(rate)) = (record.reservation, record.requested.rate) else { return };
        self.control.count_first_byte(record);
        let content = content_index(record);
        if let Some(record) = self.streams.get_mut(&stream) {
            record.excuses.passed_on = true;
        }
        self.arrive(Some((held, content, rate)));
        self.schedule(self.now, WorldEvent::Client(stream, ClientTurn::Resets));
    }

    /// A viewer that has its picture stops reading for a while.
    pub(super) fn pause(&mut self) {
        let Some(stream) = self.pick_viewer(|_| true) else { return };
        let Some(rate) = self.streams[&stream].requested.rate else { return };
        let lasts = self.control.random.span(PAUSE.0, PAUSE.1);
        self.control.tally.pauses += 1;
        self.schedule(self.now, WorldEvent::Client(stream, ClientTurn::Stops));
        let goes_on = ClientTurn::Reads(line_of(rate));
        self.schedule(self.now.saturating_add(lasts), WorldEvent::Client(stream, goes_on));
    }

    /// Picks one of the viewers that watch the content they asked for, at their rate.
    fn pick_viewer(&mut self, wanted: impl Fn(&LedgerEntry) -> bool) -> Option<u64> {
        let watches = |stream: &&LedgerEntry| {
            stream.first_at().is_some()
                && wanted(stream)
                && !stream.client_is_excused(self.now)
                && !stream.may_always_be_late()
                && !stream.excuses.stopped
        };
        let viewers: Vec<u64> = self.streams.values().filter(watches).map(|stream| stream.requested.id.0).collect();
        (!viewers.is_empty()).then(|| *self.control.random.pick(&viewers))
    }
}
