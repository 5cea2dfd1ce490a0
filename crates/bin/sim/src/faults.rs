//! Faults come and go; this module decides which streams they excuse, so that a law is relaxed only for the streams of a fault.

use units::Nanos;

use crate::contents::SimContent;
use crate::control_side::ControlAction;
use crate::disk::DiskFaults;
use crate::drive::{FaultKind, FaultRange};
use crate::ledger::LedgerEntry;
use crate::load::{Fault, FaultAt, MARGIN_SHARE, RECOVERY, SHARE_MEAN};
use crate::log::LogKind;
use crate::world::World;

impl World {
    pub(crate) fn fault_begins(&mut self, index: usize) {
        let FaultAt { lasts, fault, .. } = self.control.faults[index];
        self.log.event(self.now, LogKind::Fault, index as u64, 1, || format!("{fault:?} for {lasts}"));
        let now = self.now;
        self.control.faults_on.push(index);
        match fault {
            Fault::BadSectors { .. } => self.control.bad_tenths[index] = self.control.random.below(9),
            Fault::Lies { disk } => {
                let tenth = self.stores[disk].capacity() / 10;
                let from = self.control.random.below(9) * tenth;
                self.lies[disk] = from..from + tenth;
            }
            Fault::Dead { .. } | Fault::Hang { .. } | Fault::Slow { .. } | Fault::Spikes { .. } => {}
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
            self.set_faults_of(disk);
            let until = now.saturating_add(lasts).saturating_add(RECOVERY);
            let slow = matches!(fault, Fault::Slow { .. } | Fault::Spikes { .. });
            if self.is_within_margin(fault) {
                let newcomers = &mut self.control.newcomers_excused[disk];
                *newcomers = (*newcomers).max(until);
                // Reads for new streams are not in that mean yet.
                let lately = |stream: &&mut LedgerEntry| now.saturating_sub(stream.requested.at) < SHARE_MEAN;
                let on_disk = self.streams.values_mut().filter(|stream| usize::from(stream.requested.disk.0) == disk);
                on_disk.filter(lately).for_each(|stream| stream.excuse_disk(until));
            } else {
                self.excuse_disk(disk, slow, until);
            }
        }
        self.act_in(lasts, ControlAction::FaultEnds(index));
    }

    /// A disk has all its faults that are on, whichever of them has begun or ended.
    fn set_faults_of(&mut self, disk: usize) {
        let (mut all, capacity) = (DiskFaults::default(), self.stores[disk].capacity());
        let bad = |start, bytes, micros| FaultRange {
            start,
            bytes,
            kind: FaultKind::Both,
            delay: Nanos::from_micros(micros),
        };
        for &index in &self.control.faults_on {
            let tenth = capacity / 10;
            match self.control.faults[index].fault {
                Fault::BadSectors { disk: of } if of == disk => {
                    all.bad.push(bad(self.control.bad_tenths[index] * tenth, tenth, 50_000));
                }
                Fault::Dead { disk: of } if of == disk => all.bad.push(bad(0, capacity, 100)),
                Fault::Hang { disk: of } if of == disk => all.hangs = true,
                Fault::Slow { disk: of, factor } if of == disk => all.slower = all.slower.max(factor),
                Fault::Spikes { disk: of, extra } if of == disk => all.spike = all.spike.max(extra),
                _ => {}
            }
        }
        self.disks[disk].set_faults(all, self.now);
    }

    /// Excuses the streams of a disk until `until`. A mirror's streams are excused only if the disk is slow, or another disk is
    /// excused too.
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
        for stream in self.streams.values_mut().filter(|s| mirrored || usize::from(s.requested.disk.0) == disk) {
            stream.excuse_disk(until);
        }
    }

    /// A disk that is slower, but has time to spare.
    fn is_within_margin(&self, fault: Fault) -> bool {
        matches!(fault, Fault::Slow { disk, factor } if factor * self.promised_share[disk].0 <= MARGIN_SHARE)
    }

    /// Others do something to the first content of a disk that is still whole.
    fn spoil_content(&mut self, disk: usize, spoil: impl FnOnce(&mut SimContent)) {
        let whole = |c: &SimContent| usize::from(c.disk.0) == disk && c.is_whole() && !c.is_of_film();
        let Some(content) = self.control.contents.iter_mut().find(|c| whole(c)) else { return };
        spoil(content);
        let version = content.version;
        for stream in self.streams.values_mut().filter(|s| s.requested.version == version) {
            stream.excuses.content = true;
        }
    }

    pub(crate) fn fault_ends(&mut self, index: usize) {
        let fault = self.control.faults[index].fault;
        self.log.event(self.now, LogKind::Fault, index as u64, 0, || format!("{fault:?} is over"));
        self.control.faults_on.retain(|other| *other != index);
        match fault {
            Fault::BadSectors { disk }
            | Fault::Hang { disk }
            | Fault::Dead { disk }
            | Fault::Slow { disk, .. }
            | Fault::Spikes { disk, .. } => self.set_faults_of(disk),
            Fault::Lies { disk } => self.lies[disk] = 0..0,
            Fault::ReportsFull => {
                self.reports_closed = false;
                // Waiting reports are read in the next moment.
                self.control.reports_read = self.now.saturating_add(Nanos::from_millis(1));
            }
            Fault::PlaneLate | Fault::Truncate { .. } | Fault::Rewrite { .. } => {}
        }
    }
}
