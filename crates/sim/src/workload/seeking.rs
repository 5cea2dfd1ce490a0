//! Viewers that seek, and how long they wait.

use crate::ledger::LedgerEntry;
use crate::world::{ClientTurn, World, WorldEvent};

use super::content_index;

impl World {
    /// A viewer that has its picture goes elsewhere in its content: it opens the new range, and closes the old one.
    pub(super) fn seek(&mut self) {
        let watches = |stream: &&LedgerEntry| {
            stream.first_at().is_some()
                && stream.asked.hold
                && !stream.client_is_excused(self.now)
                && !stream.may_always_be_late()
                && !stream.excuses.stopped
        };
        let viewers: Vec<u64> = self.streams.values().filter(watches).map(|stream| stream.asked.id.0).collect();
        if viewers.is_empty() {
            return;
        }
        let stream = *self.control.random.pick(&viewers);
        let record = &self.streams[&stream];
        let (Some(held), Some(rate)) = (record.reservation, record.asked.rate) else { return };
        self.control.count_first_byte(record);
        let content = content_index(record);
        if let Some(record) = self.streams.get_mut(&stream) {
            record.excuses.passed_on = true;
        }
        self.arrive(Some((held, content, rate)));
        self.schedule(self.now, WorldEvent::Client(stream, ClientTurn::Resets));
    }
}
