//! Starting: from a command to the first bytes asked for.

use schedule::admission::disk_table::Moment;
use schedule::admission::{AdmissionRequest, QUARTER_BYTES, Refused, Short};
use units::{BitRate, DiskId, LinkId, Nanos, ReservationId};

use super::sharing::SharingGroup;
use super::{Plane, PlaneDisk};
use crate::cache::QuarterState;
use crate::control::{Content, Delivery, Outcome, RecordingRequest, Refusal, Report, Resource, Service};
use crate::layout::ContentLayout;
use crate::port::{Io, SocketSlot};
use crate::stream::{StreamClass, StreamLife, payload_of};

impl<I: Io> Plane<I> {
    /// Admits a delivery and lets it wait for its start, or refuses it.
    pub(super) fn start(&mut self, delivery: Box<Delivery>, now: Nanos) {
        let Admitted { class, group, disk } = match self.admit(&delivery, now) {
            Ok(admitted) => admitted,
            Err(refusal) => {
                self.gauges.plane.refused.add(1);
                self.outbox.push(Report::Refused { delivery, refusal });
                return;
            }
        };
        let slot = self.free.pop().expect("admit checked that there is a slot");
        self.open_files(&delivery.content);
        self.io.open_socket(SocketSlot(slot), &delivery.socket);
        let id = delivery.stream;
        self.streams[slot as usize].begin(delivery, class, disk, now);
        self.disks[usize::from(disk.0)].streams.push(slot);
        self.publish(slot, id.0, now);
        match class {
            StreamClass::Constant { reservation, .. } => {
                if let Some(id) = reservation {
                    self.holders[id.slot as usize] = Some(slot);
                }
                match group {
                    Some(group) => self.begin_following(slot, group, now),
                    None => self.wait_for_start(slot, now),
                }
            }
            StreamClass::BestEffort => {
                self.outbox.push(Report::Started { stream: id, reservation: None });
                self.begin_best_effort(slot, now);
            }
        }
    }

    /// How a delivery is served, or why it is refused.
    fn admit(&mut self, delivery: &Delivery, now: Nanos) -> Result<Admitted, Refusal> {
        let content = &delivery.content;
        let none = |resource| Refusal { resource, grantable: BitRate(0) };
        if self.draining {
            return Err(none(Resource::Draining));
        }
        // Who has a reservation on an erring disk goes on, and what can still be read is copied off in what is left over.
        let new = matches!(delivery.service, Service::Constant { held: None, .. });
        let serves = |disk: &PlaneDisk| if new { disk.health.is_good() } else { !disk.health.is_hung() };
        let is_readable = content.layout.is_readable(|disk| self.disks.get(usize::from(disk.0)).is_some_and(serves));
        let Some(first) = self.home(&content.layout, serves).filter(|_| is_readable) else {
            return Err(none(Resource::DiskFailing(content.disk())));
        };
        if new && self.is_crowded(first, now) {
            return Err(none(Resource::Disk(first)));
        }
        if self.free.is_empty() || !self.files.has_room(content.layout.files().len()) {
            return Err(none(Resource::Table));
        }
        match delivery.service {
            Service::BestEffort => Ok(Admitted { class: StreamClass::BestEffort, group: None, disk: first }),
            Service::Constant { rate, burst_bytes, held, hold } => {
                let request = self.request(delivery, first, rate, burst_bytes);
                if let Some(id) = held {
                    self.take_over(id);
                }
                let group = self.group_for(delivery);
                let reservation = self.held_or_new(held, request, delivery, group.is_some())?;
                self.gauges.plane.admitted.add(1);
                let period = self.admission.period(reservation).expect("just reserved");
                Ok(Admitted { class: StreamClass::constant(reservation, hold, period), group, disk: first })
            }
        }
    }

    /// True while who waits longest for a disk has waited for half of the time that it may: whoever came now would wait for as
    /// long as the others before it, and then for them.
    fn is_crowded(&self, disk: DiskId, now: Nanos) -> bool {
        let longest = self.disks[usize::from(disk.0)].waiting.first();
        let waited = longest.map(|&slot| now.saturating_sub(self.streams[slot as usize].started));
        waited.is_some_and(|waited| waited.saturating_mul(2) >= self.config.first_byte_max)
    }

    /// The best disk of those that serve a content, at which its streams are listed.
    pub(super) fn home(&self, layout: &ContentLayout, serves: impl Fn(&PlaneDisk) -> bool) -> Option<DiskId> {
        let disks = layout.shares().iter().map(|&(disk, _)| disk).chain([layout.first_disk()]);
        let serve = disks.filter(|disk| self.disks.get(usize::from(disk.0)).is_some_and(&serves));
        serve.min_by_key(|disk| self.reluctance(*disk))
    }

    /// Reserves time on each further disk that a content lies on, by the share of it that may be read there; of a mirror
    /// that is all of it, so that a disk that fails stalls nobody. On an error nothing of this is left.
    pub(super) fn reserve_beside(
        &mut self,
        id: ReservationId,
        request: &AdmissionRequest,
        delivery: &Delivery,
    ) -> Result<(), Short> {
        for &(disk, _) in delivery.content.layout.shares().iter().filter(|(disk, _)| *disk != request.disk) {
            let further = self.request(delivery, disk, request.rate, 0);
            let beside = self.admission.reserve_beside(id, further)?;
            let round = self.disks[usize::from(disk.0)].rounds.index_at(self.io.now());
            // It has no start of its own to wait for.
            self.admission.place(beside, &Moment::idle(round));
        }
        Ok(())
    }

    /// The session's reservation if it covers the request, else a new one; for a stream that shares another's reads, or not.
    pub(super) fn held_or_new(
        &mut self,
        held: Option<ReservationId>,
        request: AdmissionRequest,
        delivery: &Delivery,
        shares: bool,
    ) -> Result<ReservationId, Refusal> {
        let on_one_disk = delivery.content.layout.shares().len() == 1;
        if let Some(id) = held {
            if on_one_disk && !self.admission.has_beside(id) && self.admission.covers(id, &request) {
                self.admission.unplace(id);
                if shares {
                    self.admission.share(id);
                    return Ok(id);
                }
                if self.admission.unshare(id, &request).is_ok() {
                    return Ok(id);
                }
            }
            // The session wants something else now: what it held is given back first, so that it can count for it.
            self.admission.release(id);
        }
        let reserved = if shares { self.admission.reserve_shared(request) } else { self.admission.reserve(request) };
        let id = reserved.map_err(|refused| refusal(&refused, &request))?;
        if !on_one_disk && !shares {
            self.reserve_beside(id, &request, delivery).map_err(|short| {
                self.admission.release(id);
                refusal(&Refused { short, grantable: BitRate(0) }, &request)
            })?;
        }
        Ok(id)
    }

    /// The stream that uses a reservation loses it to a newer read of its viewer and goes on in what is left over: a player
    /// that seeks closes its old connection by itself, and one that reads in many ranges at once wants them all.
    fn take_over(&mut self, id: ReservationId) {
        let Some(holder) = self.holders.get(id.slot as usize).copied().flatten() else { return };
        if self.reservation_of(holder) != Some(id) {
            return;
        }
        let now = self.io.now();
        self.take_reservation(holder, now);
        self.demote(holder, now);
    }

    pub(super) fn request(
        &self,
        delivery: &Delivery,
        disk: DiskId,
        rate: BitRate,
        burst_bytes: u64,
    ) -> AdmissionRequest {
        let content = &delivery.content;
        let schedule = &self.disks[usize::from(disk.0)].schedule;
        let payload = payload_of(delivery);
        let profile = schedule.cost().profile();
        let placed = || content.layout.placed_on(disk);
        let slowest = placed().map(|(position, length)| profile.rate_at(position + length / 2)).min();
        #[allow(clippy::cast_precision_loss, reason = "a mean")]
        let fragments = placed().count().saturating_sub(1) as f64 / content.size.max(1) as f64;
        AdmissionRequest {
            disk,
            link: delivery.link,
            rate,
            disk_share: content.layout.share_of(disk),
            zone_bytes_per_second: slowest.unwrap_or_else(|| profile.rate_at(u64::MAX)),
            fragments_per_byte: fragments,
            length: payload,
            burst_bytes: burst_bytes.min(payload),
            writes: false,
        }
    }

    /// An admitted stream waits for its start, behind those that came before it.
    fn wait_for_start(&mut self, slot: u32, now: Nanos) {
        if self.start_from_buffers(slot, now) {
            return;
        }
        let disk = usize::from(self.streams[slot as usize].disk.0);
        self.disks[disk].waiting.push(slot);
        self.launch(disk, now);
    }

    /// A stream of which all lies in the buffers, within what it may hold, needs no disk and starts at once.
    fn start_from_buffers(&mut self, slot: u32, now: Nanos) -> bool {
        let stream = &self.streams[slot as usize];
        let window = self.window(slot);
        let mut cursor = stream.fetch;
        while let Some((key, _, left)) = cursor.next_content(stream.delivery()) {
            cursor.pass(left);
            let ready =
                self.cache.find(key).is_some_and(|page| matches!(self.cache.state(page), QuarterState::Ready(_)));
            if !ready || cursor.payload > window {
                return false;
            }
        }
        let stream = &mut self.streams[slot as usize];
        (stream.target, stream.ahead, stream.life) = (stream.payload, window, StreamLife::Starting);
        if let StreamClass::Constant { next_round, .. } = &mut stream.class {
            *next_round = u64::MAX;
        }
        let id = stream.delivery().stream;
        self.outbox.push(Report::Started { stream: id, reservation: self.reservation_of(slot) });
        self.take_buffered(slot);
        self.run_if_ready(slot, now);
        assert!(self.streams[slot as usize].life != StreamLife::Starting, "all it needs is there");
        true
    }

    /// Starts the streams of a disk that wait, in their order, as far as the coming rounds have room.
    pub(super) fn launch(&mut self, disk: usize, now: Nanos) {
        self.launch_waiting(disk, now);
        self.refresh_slack(disk, now);
    }

    /// Tells the schedule how long best-effort work may go on, by what is promised now.
    fn refresh_slack(&mut self, disk: usize, now: Nanos) {
        if self.disks[disk].spins {
            let id = DiskId(u16::try_from(disk).expect("within limits"));
            let slack = self.admission.slack(id, self.disks[disk].rounds.index_at(now));
            self.disks[disk].schedule.set_slack(slack);
        }
    }

    fn launch_waiting(&mut self, disk: usize, now: Nanos) {
        while let Some(&slot) = self.disks[disk].waiting.first() {
            let StreamClass::Constant { reservation: Some(id), .. } = self.streams[slot as usize].class else {
                self.disks[disk].waiting.remove(0);
                continue;
            };
            let moment = self.moment_of(slot, now);
            let Some(first) = self.admission.place(id, &moment) else { return };
            self.disks[disk].waiting.remove(0);
            self.disks[disk].starting.push(slot);
            let stream = &mut self.streams[slot as usize];
            stream.life = StreamLife::Starting;
            if let StreamClass::Constant { first_round, next_round, gap, .. } = &mut stream.class {
                (*first_round, *next_round, *gap) = (first, moment.round, 0);
            }
            let id = stream.delivery().stream;
            self.outbox.push(Report::Started { stream: id, reservation: self.reservation_of(slot) });
            self.read_ahead(slot, moment.round, now);
            self.run_if_ready(slot, now);
        }
    }

    /// What a start of this stream would meet now: what waits, and what others read that it reads as well.
    pub(super) fn moment_of(&self, slot: u32, now: Nanos) -> Moment {
        let disk = &self.disks[usize::from(self.streams[slot as usize].disk.0)];
        let round = disk.rounds.index_at(now);
        let left = disk.rounds.start_of(round + 1).saturating_sub(now);
        let remaining = left.as_secs_f64() / disk.rounds.period().as_secs_f64();
        let stream = &self.streams[slot as usize];
        let payload_bytes = stream.payload - stream.send.payload;
        let moment = Moment { remaining, payload_bytes, ..Moment::idle(round) };
        if !disk.spins {
            return moment;
        }
        Moment { queued_seconds: disk.schedule.queued_seconds(now), found_bytes: self.found_ahead(slot), ..moment }
    }

    /// Streams that could not start within the time to first byte are refused after all: a viewer rather hears no than nothing.
    pub(super) fn refuse_late_starts(&mut self, now: Nanos) {
        for disk in 0..self.disks.len() {
            while let Some(&slot) = self.disks[disk].waiting.first()
                && self.is_start_late(slot, now)
            {
                self.refuse_waiting(slot);
            }
            for nth in (0..self.disks[disk].starting.len()).rev() {
                if let Some(&slot) = self.disks[disk].starting.get(nth)
                    && self.is_start_late(slot, now)
                {
                    self.finish(slot, Outcome::StartTooLate, now);
                }
            }
        }
    }

    fn is_start_late(&self, slot: u32, now: Nanos) -> bool {
        let stream = &self.streams[slot as usize];
        stream.sent_bytes == 0 && now.saturating_sub(stream.started) >= self.config.first_byte_max
    }

    fn refuse_waiting(&mut self, slot: u32) {
        let refusal = Refusal { resource: Resource::Disk(self.streams[slot as usize].disk), grantable: BitRate(0) };
        self.leave_all(slot, false);
        let delivery = self.streams[slot as usize].end();
        self.free.push(slot);
        self.gauges.plane.refused.add(1);
        self.outbox.push(Report::Refused { delivery, refusal });
    }

    pub(super) fn reservation_of(&self, slot: u32) -> Option<ReservationId> {
        match self.streams[slot as usize].class {
            StreamClass::Constant { reservation, .. } => reservation,
            StreamClass::BestEffort => None,
        }
    }

    /// Takes a stream's reservation from it, for whoever asked to use or to release.
    pub(super) fn take_reservation(&mut self, slot: u32, now: Nanos) -> Option<ReservationId> {
        // While it has something to hand over: who shares its reads takes its disk time.
        self.leave_group(slot, now);
        let StreamClass::Constant { reservation, .. } = &mut self.streams[slot as usize].class else { return None };
        let id = reservation.take()?;
        self.holders[id.slot as usize] = None;
        Some(id)
    }

    /// Reserves for a recording: the store thread will offer its blocks with this reservation.
    pub(super) fn reserve_recording(&mut self, request: RecordingRequest, now: Nanos) {
        let RecordingRequest { stream, disk, link, rate } = request;
        let refuse = |resource, grantable| Report::ReserveRefused { stream, refusal: Refusal { resource, grantable } };
        let report = match self.disks.get(usize::from(disk.0)) {
            _ if self.draining => refuse(Resource::Draining, BitRate(0)),
            None => refuse(Resource::DiskFailing(disk), BitRate(0)),
            Some(entry) if !entry.health.is_good() => refuse(Resource::DiskFailing(disk), BitRate(0)),
            Some(entry) => {
                // Where it will lie is not known yet: the slowest zone is assumed.
                let zone = entry.schedule.cost().profile().rate_at(u64::MAX);
                let request = AdmissionRequest {
                    disk,
                    link,
                    rate,
                    zone_bytes_per_second: zone,
                    disk_share: 1.0,
                    fragments_per_byte: 0.0,
                    length: 0,
                    burst_bytes: 0,
                    writes: true,
                };
                match self.admission.reserve(request) {
                    Ok(reservation) => {
                        // It takes its place at once; a recording has no start to wait for.
                        let round = entry.rounds.index_at(self.io.now());
                        self.admission.place(reservation, &Moment::idle(round));
                        self.refresh_slack(usize::from(disk.0), now);
                        Report::Reserved { stream, reservation }
                    }
                    Err(refused) => refuse(resource(refused.short, disk, link), refused.grantable),
                }
            }
        };
        self.outbox.push(report);
    }

    fn publish(&mut self, slot: u32, id: u64, now: Nanos) {
        let gauges = &self.gauges.streams[slot as usize];
        let delivery = self.streams[slot as usize].delivery();
        let rate = match delivery.service {
            Service::Constant { rate, .. } => rate.0,
            Service::BestEffort => 0,
        };
        gauges.rate_bps.set(rate);
        gauges.sent_bytes.set(0);
        gauges.misses.set(0);
        gauges.buffered_bytes.set(0);
        gauges.jitter_sum_ppm.set(0);
        gauges.jitter_windows.set(0);
        gauges.blocked.set(0);
        gauges.late.set(0);
        gauges.disk.set(u64::from(self.streams[slot as usize].disk.0));
        gauges.started_nanos.set(now.0);
        gauges.id.set(id);
    }
}

/// A delivery that is served: in which class, and whose reads it shares.
struct Admitted {
    class: StreamClass,
    group: Option<SharingGroup>,
    /// At which disk it is listed.
    disk: DiskId,
}

fn refusal(refused: &Refused, request: &AdmissionRequest) -> Refusal {
    let resource = resource(refused.short, request.disk, request.link);
    Refusal { resource, grantable: refused.grantable }
}

fn resource(short: Short, disk: units::DiskId, link: LinkId) -> Resource {
    match short {
        Short::Disk => Resource::Disk(disk),
        Short::Network => Resource::Network(link),
        Short::Memory => Resource::Memory,
        Short::Processor => Resource::Processor,
        Short::Table => Resource::Table,
    }
}

/// Quarters of a content.
pub(super) fn quarters_of(content: &Content) -> u64 {
    content.size.div_ceil(QUARTER_BYTES)
}
