//! Requests for admission, and the words of its refusals.

use content::Content;
use schedule::admission::rounds::WRITE_ROUNDS;
use schedule::admission::{BlockDeadline, RequestedContent, SessionRead, write_period};
use schedule::pace::BlockSending;
use storage::grant::RecordingPlace;

use super::*;
use crate::control::RecordingRequest;
use crate::message::BlockTimes;

/// A smaller share of a content counts as none: shares are sums of rounded numbers. Chosen: far above
/// rounding, and far below the share of one block.
const SHARE_TOLERANCE: f64 = 1e-9;

impl Admitter {
    /// The session's reservation if it covers the requests ([`Self::ask_for`]), else a new one; for a stream that shares
    /// another's reads, or not.
    pub(super) fn held_or_new(&mut self, held: Option<ReservationId>, shares: bool) -> Result<ReservationId, Refusal> {
        let (admission, asked) = (&mut self.admission, &self.requests[..]);
        let Some(id) = held.filter(|id| admission.knows(*id)) else {
            return if shares { admission.reserve_shared(asked) } else { admission.reserve(asked) };
        };
        if admission.renew(id, asked) {
            if shares {
                admission.share(id);
                return Ok(id);
            }
            if admission.unshare(id, asked).is_ok() {
                return Ok(id);
            }
        }
        // The session wants something else now.
        admission.exchange(id, asked, shares).map(|()| id)
    }

    /// Asks for a delivery from `disk` on: its needs of each disk of its content (see [`AdmitterDisks::request`]).
    pub(super) fn ask_for(&mut self, content: &Content, link: LinkId, disk: DiskId, rate: BitRate, payload: u64) {
        self.requests.clear();
        self.requests.push(self.disks.request(content, disk, (link, rate, payload)));
        for &further in content.layout.disks().iter().filter(|&&other| other != disk) {
            let request = self.disks.request(content, further, (link, rate, payload));
            if request.disk_share > SHARE_TOLERANCE {
                self.requests.push(request);
            }
        }
        if content.layout.spread().len() > 1 && self.admission.is_one_block(&self.requests[0]) {
            spread(&mut self.requests, content, disk);
        }
    }

    /// Asks for the needs of a running stream on disks beyond its reservations there.
    pub(super) fn ask_for_further(&mut self, id: ReservationId, content: &Content, entry: (LinkId, BitRate, u64)) {
        self.requests.clear();
        for &disk in content.layout.disks() {
            let mut request = self.disks.request(content, disk, entry);
            request.disk_share -= self.admission.share_held(id, disk);
            if request.disk_share > SHARE_TOLERANCE {
                self.requests.push(request);
            }
        }
    }

    /// The facts that the disks need of a stream with this reservation.
    pub(super) fn read_rate(&self, id: ReservationId, rate: BitRate, burst_bytes: u64) -> ReadRate {
        ReadRate { rate, burst_bytes, period: self.period(id), whole: self.admission.is_spread(id) }
    }

    /// The start of a stream that has its place.
    pub(super) fn placed_start<I: Io>(
        &mut self,
        slot: u32,
        conditions: &StartConditions,
        first_round: u64,
        context: &PlaneContext<I>,
    ) -> PlacedStart {
        let AdmittedStream { reservation, session, payload, rate, requested_at, .. } = self.streams[slot as usize];
        let BlockSending { takes, edges } = BlockSending::of(rate, payload, context.config.tick);
        let read = SessionRead { bytes: payload, room_at: conditions.room_at, requested_at, now: context.now };
        let deadline = match session {
            Some(session) => self.admission.small_read_deadline(session, read),
            None => reservation.held().and_then(|id| self.admission.deadline(id, read)),
        };
        let block = deadline.map(|BlockDeadline { at, promised, is_first }| BlockTimes {
            read_by: at.saturating_sub(takes),
            late_from: promised.saturating_sub(takes).saturating_add(edges),
            sent_by: at,
            is_first,
        });
        PlacedStart { round: conditions.round, first_round, block }
    }

    /// Rounds between the reads of a reservation.
    pub(super) fn period(&self, id: ReservationId) -> u32 {
        self.admission.period(id).expect("it is held")
    }

    /// How many reservations were made before one.
    pub(super) fn age(&self, id: ReservationId) -> u64 {
        self.admission.age(id).expect("it is held")
    }

    /// Reserves for a recording. Many that come at once are charged for the worst until their places are known, and streams that start
    /// read more than later: those that find no room meanwhile wait for that.
    pub(crate) fn reserve_recording<I: Io>(&mut self, request: RecordingRequest, context: &mut PlaneContext<I>) {
        if !self.recordings.is_empty() && self.recordings.len() < limits::UPLOADS_MAX {
            return self.recordings.push_back((request, context.now));
        }
        match self.record(request, context.now) {
            Err(refusal) if self.is_for_now(&refusal) && self.recordings.len() < limits::UPLOADS_MAX => {
                self.recordings.push_back((request, context.now));
            }
            outcome => self.answer_recording(request, outcome, context),
        }
    }

    fn answer_recording<I: Io>(
        &mut self,
        request: RecordingRequest,
        outcome: Result<(ReservationId, RecordingPlace), Refusal>,
        context: &mut PlaneContext<I>,
    ) {
        let stream = request.stream;
        match outcome {
            Ok((reservation, place)) => {
                request.disks.iter().for_each(|disk| self.tell_carry_headroom(disk, context));
                context.report(Report::Reserved { stream, reservation, place });
            }
            Err(refusal) => context.report(Report::ReserveRefused { stream, refusal }),
        }
    }

    /// Tries the waiting requests again, in their order.
    fn try_recordings<I: Io>(&mut self, context: &mut PlaneContext<I>) {
        while let Some((request, _)) = self.recordings.front().copied() {
            let outcome = self.record(request, context.now);
            if outcome.as_ref().is_err_and(|refusal| self.is_for_now(refusal)) {
                return;
            }
            self.recordings.pop_front();
            self.answer_recording(request, outcome, context);
        }
    }

    /// True if the disk may have room in a moment: without a rate that would be granted, it lacks rounds for the place, not time.
    fn is_for_now(&self, refusal: &Refusal) -> bool {
        let Resource::Disk(disk) = refusal.resource else { return false };
        self.admission.awaits_place(disk) || refusal.grantable == BitRate(0)
    }

    /// Recordings that waited for as long as a block of an admitted one may take are answered: that recording has its place by now, or
    /// sends nothing.
    pub(crate) fn answer_late_recordings<I: Io>(&mut self, context: &mut PlaneContext<I>) {
        while let Some(&(request, since)) = self.recordings.front() {
            let disk = request.disks.iter().next().and_then(|disk| self.disks.get(disk));
            let wait = disk.map_or(Nanos::ZERO, |disk| disk.rounds.period().saturating_mul(WRITE_ROUNDS));
            if context.now.saturating_sub(since) < wait {
                return;
            }
            self.recordings.pop_front();
            let outcome = self.record(request, context.now);
            self.answer_recording(request, outcome, context);
        }
    }

    /// A recording is written to this place of a disk: its charge is the time of its writes there.
    pub(super) fn follow_writes<I: Io>(
        &mut self,
        disk: DiskId,
        reservation: ReservationId,
        position: u64,
        context: &mut PlaneContext<I>,
    ) {
        if self.disks.get(disk).is_some() {
            self.admission.move_writes(reservation, disk, position);
            self.tell_carry_headroom(disk, context);
            self.publish_shares(context);
            self.try_recordings(context);
        }
    }

    fn record(&mut self, request: RecordingRequest, now: Nanos) -> Result<(ReservationId, RecordingPlace), Refusal> {
        let RecordingRequest { disks, link, rate, durable, block_bytes_max, .. } = request;
        if self.draining {
            return Err(Refusal::outright(Resource::Draining));
        }
        self.requests.clear();
        for disk in disks.iter() {
            let entry = self.disks.get(disk).filter(|disk| disk.condition == DiskCondition::Good);
            let entry = entry.ok_or(Refusal::outright(Resource::DiskFailing(disk)))?;
            self.requests.push(AdmissionRequest {
                disk,
                link,
                rate,
                // Where it will lie is not known yet: the slowest zone is assumed until it is ([`Self::follow_writes`]).
                zone_bytes_per_second: entry.profile.rate_at(u64::MAX),
                disk_share: disks.share(),
                fragments_per_byte: 0.0,
                content: RequestedContent::ALONE,
                length: 0,
                written_every: Some(write_period(rate, entry.rounds.period(), durable, block_bytes_max)),
            });
        }
        let Some(&AdmissionRequest { disk, written_every: Some(period), .. }) = self.requests.first() else {
            return Err(Refusal::outright(Resource::DiskFailing(disks.store)));
        };
        let rounds = self.disks[disk].rounds;
        let reservation = self.admission.reserve(&self.requests)?;
        // It takes its place at once: a recording has no start, with reads of its own, to wait for.
        let Some(first) = self.admission.place_writes(reservation, rounds.index_at(now)) else {
            self.admission.release(reservation);
            return Err(Refusal::outright(Resource::Disk(disk)));
        };
        let of = |count| rounds.period().saturating_mul(count);
        let place =
            RecordingPlace { first: rounds.start_of(first), period: of(u64::from(period)), within: of(WRITE_ROUNDS) };
        Ok((reservation, place))
    }
}

/// A viewer that reads contents in one block each needs time on all disks over which they are spread: the next one lies on
/// another of them.
fn spread(requests: &mut Vec<AdmissionRequest>, content: &Content, disk: DiskId) {
    let spread = content.layout.spread();
    #[allow(clippy::cast_precision_loss, reason = "a few disks, and a mean")]
    let (disks, bytes) = (spread.len() as f64, content.size.max(1) as f64);
    let copies: f64 = requests.iter().map(|request| request.disk_share).sum();
    let runs: f64 = requests.iter().map(|request| 1.0 + request.fragments_per_byte * bytes * request.disk_share).sum();
    let request = AdmissionRequest {
        disk_share: copies / disks,
        fragments_per_byte: (runs / copies - 1.0).max(0.0) / bytes,
        ..requests[0]
    };
    requests.clear();
    requests.push(request);
    let others = spread.iter().filter(|&&other| other != disk);
    requests.extend(others.map(|&disk| AdmissionRequest { disk, ..request }));
}
