//! Faults come and go; whom they excuse is decided here, so that a law is relaxed only for those a fault concerns.

use units::Nanos;

use crate::contents::SimContent;
use crate::control_side::ControlAction;
use crate::ledger::LedgerEntry;
use crate::load::{Fault, FaultAt, MARGIN_SHARE, RECOVERY, SHARE_MEAN};
use crate::log::LogKind;
use crate::world::World;

impl World {
    pub(crate) fn fault_begins(&mut self, index: usize) {
        let FaultAt { lasts, fault, .. } = self.control.faults[index];
        self.log.event(self.now, LogKind::Fault, index as u64, 1, || format!("{fault:?} for {lasts}"));
        let now = self.now;
        match fault {
            Fault::BadSectors { disk } => {
                let tenth = self.stores[disk].capacity() / 10;
                let from = self.control.random.below(9) * tenth;
                self.disks[disk].spoil(from, tenth, Nanos::from_millis(50));
            }
            Fault::Lies { disk } => {
                let tenth = self.stores[disk].capacity() / 10;
                let from = self.control.random.below(9) * tenth;
                self.lies[disk] = from..from + tenth;
            }
            Fault::Dead { disk } => {
                let all = self.stores[disk].capacity();
                self.disks[disk].spoil(0, all, Nanos::from_micros(100));
            }
            Fault::Hang { disk } => self.disks[disk].hang(now),
            Fault::Slow { disk, factor } => self.disks[disk].slow(factor, now),
            Fault::Spikes { disk, extra } => self.disks[disk].spike(extra, Nanos::from_secs(1), now),
            Fault::PlaneLate => self.plane_delay = lasts,
            Fault::ReportsFull => self.reports_closed = true,
            Fault::Truncate { disk } => self.spoil_content(disk, |content| content.size_now /= 2),
            Fault::Rewrite { disk } => self.spoil_content(disk, |content| content.rewritten = true),
        }
        if let Fault::BadSectors { disk }
        | Fault::Lies { disk }
        | Fault::Hang { disk }
        | Fault::Dead { disk }
        | Fault::Slow { disk, .. }
        | Fault::Spikes { disk, .. } = fault
        {
            let until = now.saturating_add(lasts).saturating_add(RECOVERY);
            let slow = matches!(fault, Fault::Slow { .. } | Fault::Spikes { .. });
            if self.is_within_margin(fault) {
                let newcomers = &mut self.control.newcomers_excused[disk];
                *newcomers = (*newcomers).max(until);
                // What it reads for those who have just come is not in that mean yet.
                let lately = |stream: &&mut LedgerEntry| now.saturating_sub(stream.asked.at) < SHARE_MEAN;
                let on_disk = self.streams.values_mut().filter(|stream| usize::from(stream.asked.disk.0) == disk);
                on_disk.filter(lately).for_each(|stream| stream.excuse_disk(until));
            } else {
                self.excuse_disk(disk, slow, until);
            }
        }
        self.act_in(lasts, ControlAction::FaultEnds(index));
    }

    /// One disk that errs or is silent excuses nobody who has another copy.
    fn excuse_disk(&mut self, disk: usize, slow: bool, until: Nanos) {
        let others = self.control.disk_excused.iter().enumerate().filter(|(other, _)| *other != disk);
        let only_one = others.filter(|(_, excused)| **excused > self.now).count() == 0;
        let excused = &mut self.control.disk_excused[disk];
        *excused = (*excused).max(until);
        if self.control.load.mirrored {
            if only_one && !slow {
                return;
            }
            self.control.mirror_excused = self.control.mirror_excused.max(until);
        }
        let mirrored = self.control.load.mirrored;
        for stream in self.streams.values_mut().filter(|s| mirrored || usize::from(s.asked.disk.0) == disk) {
            stream.excuse_disk(until);
        }
    }

    /// A disk that is slower, but has time to spare.
    fn is_within_margin(&self, fault: Fault) -> bool {
        matches!(fault, Fault::Slow { disk, factor } if factor * self.promised_share[disk].0 <= MARGIN_SHARE)
    }

    /// Others do something to the first content of a disk that is still whole.
    fn spoil_content(&mut self, disk: usize, spoil: impl FnOnce(&mut SimContent)) {
        let whole = |c: &SimContent| usize::from(c.disk.0) == disk && c.is_whole();
        let Some(content) = self.control.contents.iter_mut().find(|c| whole(c)) else { return };
        spoil(content);
        let version = content.version;
        for stream in self.streams.values_mut().filter(|s| s.asked.version == version) {
            stream.excuses.content = true;
        }
    }

    pub(crate) fn fault_ends(&mut self, index: usize) {
        let fault = self.control.faults[index].fault;
        self.log.event(self.now, LogKind::Fault, index as u64, 0, || format!("{fault:?} is over"));
        match fault {
            Fault::BadSectors { disk }
            | Fault::Hang { disk }
            | Fault::Dead { disk }
            | Fault::Slow { disk, .. }
            | Fault::Spikes { disk, .. } => self.disks[disk].heal(self.now),
            Fault::Lies { disk } => self.lies[disk] = 0..0,
            Fault::ReportsFull => {
                self.reports_closed = false;
                // What waits is told in the next moment.
                self.control.reports_read = self.now.saturating_add(Nanos::from_millis(1));
            }
            Fault::PlaneLate | Fault::Truncate { .. } | Fault::Rewrite { .. } => {}
        }
    }
}
