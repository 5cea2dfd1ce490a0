//! The admitter: admission of deliveries, the holders of reservations, and the queues for starts.
//!
//! Promise: every delivery is answered, by its refusal or by its start; a reservation has one holder and is given back
//! when its holder has left the disks. Not here: the arithmetic of admission (`schedule::admission`), disks and buffers
//! (`fetcher`), streams and sockets (`pacer`).

mod disks;
mod requests;
mod stream;

use std::collections::VecDeque;
use std::sync::Arc;

use schedule::admission::start_cost::StartConditions;
use schedule::admission::start_forecast::StartForecast;
use schedule::admission::{Admission, AdmissionRequest, AdmissionSettings};
use schedule::disk::health::DiskCondition;
use schedule::profile::DiskProfile;
use units::{BitRate, DiskId, LinkId, Nanos, ReservationId, limits};

use crate::config::PlaneConfig;
use crate::context::{PlaneContext, ppm};
use crate::control::{Delivery, Outcome, RecordingRequest, Refusal, Report, Resource, Service};
use crate::cursor::SegmentList;
use crate::message::{PlacedStart, ReadRate, SharingGroup, ToAdmitter, ToFetcher, ToPacer};
use crate::port::Io;
use disks::{AdmitterDisk, AdmitterDisks};
use stream::{AdmittedStream, StreamReservation};
/// The core's load is measured over this time at least. Chosen.
const LOAD_PERIOD_MIN: Nanos = Nanos::from_millis(500);

/// The admitter.
#[derive(Debug)]
pub(crate) struct Admitter {
    admission: Admission,
    /// The requests put to it.
    requests: Vec<AdmissionRequest>,
    streams: Vec<AdmittedStream>,
    free: Vec<u32>,
    /// The stream that uses each reservation, or has given it back and may request it again, by its slot.
    holders: Vec<Option<u32>>,
    disks: AdmitterDisks,
    /// Recordings for which there is no room while others that were admitted have no place yet, and since when they wait.
    recordings: VecDeque<(RecordingRequest, Nanos)>,
    links: u16,
    draining: bool,
    /// When the core's load was looked at last, and its processor time then.
    measured: (Nanos, Nanos),
}

impl Admitter {
    pub(crate) fn new(
        config: &PlaneConfig,
        profiles: Vec<DiskProfile>,
        links: &[BitRate],
        pages: u64,
        (now, processor): (Nanos, Nanos),
    ) -> Self {
        // A content on several disks has one for each of them.
        let reservations_max = config.streams_max * profiles.len().max(1);
        let settings = AdmissionSettings {
            reservations_max,
            pages,
            be_share: config.be_share,
            sharing_reserve: config.sharing.unwrap_or(0.0),
            first_byte_max: config.first_byte_max,
        };
        let rounds = profiles.iter().map(|profile| (profile.clone(), config.round_of(profile))).collect();
        Self {
            admission: Admission::new(&settings, rounds, links),
            requests: Vec::with_capacity(profiles.len().max(1)),
            streams: (0..config.streams_max).map(|_| AdmittedStream::default()).collect(),
            free: (0..u32::try_from(config.streams_max).expect("within limits")).rev().collect(),
            holders: vec![None; reservations_max],
            disks: AdmitterDisks::new(config, profiles, now),
            recordings: VecDeque::with_capacity(limits::UPLOADS_MAX),
            links: u16::try_from(links.len()).expect("within limits"),
            draining: false,
            measured: (now, processor),
        }
    }

    pub(crate) const fn admission(&self) -> &Admission {
        &self.admission
    }

    /// The payload rate that a link carries.
    pub(crate) fn link_payload(&self, link: LinkId) -> BitRate {
        self.admission.sending().payload(link)
    }

    /// True if no stream has a reservation of the disk or waits for one, nor does a recording of any.
    pub(crate) fn is_unused(&self, disk: DiskId) -> bool {
        self.disks[disk].waiting.is_empty() && self.recordings.is_empty() && !self.admission.is_reserved(disk)
    }

    /// Puts another profile into the table of an unused disk; gives the old one.
    pub(crate) fn replace_promised(&mut self, disk: DiskId, profile: DiskProfile, round: Nanos) -> DiskProfile {
        self.admission.replace_profile(disk, profile, round)
    }

    /// Counts the rounds and places of an unused disk by another profile; gives the old one.
    pub(crate) fn replace_profile(&mut self, disk: DiskId, profile: DiskProfile, round: Nanos) -> DiskProfile {
        let disk = &mut self.disks[disk];
        disk.rounds = disk.rounds.with_period(round);
        disk.forecast = None;
        std::mem::replace(&mut disk.profile, profile)
    }

    pub(crate) fn drain(&mut self) {
        self.draining = true;
    }

    /// Gives back a reservation that no stream uses.
    pub(crate) fn release(&mut self, reservation: ReservationId) {
        self.admission.release(reservation);
    }

    pub(crate) fn set_link<I: Io>(&mut self, link: LinkId, capacity: BitRate, context: &mut PlaneContext<I>) {
        self.admission.sending_mut().set_link(link, capacity);
        if link.0 < self.links {
            context.tell_pacer(ToPacer::Link { link, payload: self.link_payload(link) });
        }
    }

    pub(crate) fn receive<I: Io>(&mut self, message: ToAdmitter, context: &mut PlaneContext<I>) {
        match message {
            ToAdmitter::Found { delivery, group, is_buffered, has_room } => {
                self.found(delivery, (group, is_buffered), has_room, context);
            }
            ToAdmitter::Started { slot } => self.tell_start(slot, context),
            ToAdmitter::Waits { slot, conditions } => self.waits(slot, &conditions, context),
            ToAdmitter::Round { disk, conditions } => {
                self.disks[disk].forecast = None;
                self.launch(disk, &conditions, context);
            }
            ToAdmitter::Begun { disk, conditions } => self.launch(disk, &conditions, context),
            ToAdmitter::StartsTooLate { slot } => self.end_late_start(slot, context),
            ToAdmitter::Charge { leader, pages } => {
                self.charge(leader, pages);
            }
            ToAdmitter::HandOver { from, to } => {
                match (self.held(from), self.held(to)) {
                    (Some(giver), Some(taker)) => self.admission.hand_over(giver, taker),
                    // The leader has lost its disk time before.
                    (None, Some(_)) => context.tell_fetcher(ToFetcher::Demote { slot: to, at: context.now }),
                    (_, None) => {}
                }
            }
            ToAdmitter::NeedsOwn { slot, conditions } => self.needs_own(slot, &conditions, context),
            ToAdmitter::Demoted { slot, at } => self.demoted(slot, at, context),
            ToAdmitter::AsksBack { slot, conditions } => self.asks_back(slot, &conditions, context),
            ToAdmitter::Left { slot, may_hold } => self.left(slot, may_hold, context),
            ToAdmitter::Condition { disk, condition } => self.disks[disk].condition = condition,
            ToAdmitter::Moved { slot, disk } => self.moved(slot, disk),
            ToAdmitter::ReadsElsewhere { slot } => self.cover(slot, context),
            ToAdmitter::Written { disk, reservation, position } => {
                self.follow_writes(disk, reservation, position, context);
            }
            ToAdmitter::Speed { disk, factor, is_behind } => self.follow_speed(disk, factor, is_behind, context),
            ToAdmitter::Overloaded { slot } => self.take_back(slot),
        }
    }

    /// A delivery comes in: refused, or handed to the fetcher, which looks for a group and for pages that it can share.
    pub(crate) fn start<I: Io>(&mut self, delivery: Box<Delivery>, context: &mut PlaneContext<I>) {
        let service = delivery.service;
        if let Err(resource) = self.precheck(&delivery) {
            return refuse(delivery, Refusal::outright(resource), context);
        }
        if let Service::Constant { held: Some(id), .. } = service {
            self.take_over(id, context);
        }
        context.tell_fetcher(ToFetcher::Find { delivery });
    }

    /// Checks a delivery before any request to admission; the error is the resource that is short.
    fn precheck(&self, delivery: &Delivery) -> Result<(), Resource> {
        if self.draining {
            return Err(Resource::Draining);
        }
        let layout = &delivery.content.layout;
        let is_readable = layout.is_readable(|disk| self.disks.serves(disk, delivery));
        if !is_readable || self.disks.home(delivery).is_none() {
            return Err(Resource::DiskFailing(delivery.content.disk()));
        }
        if self.free.is_empty() { Err(Resource::Table) } else { Ok(()) }
    }

    /// The fetcher has looked: the delivery begins, or there is no room for it.
    fn found<I: Io>(
        &mut self,
        mut delivery: Box<Delivery>,
        (group, is_buffered): (Option<SharingGroup>, bool),
        has_room: bool,
        context: &mut PlaneContext<I>,
    ) {
        let Some(disk) = self.disks.home(&delivery).filter(|_| has_room) else {
            return refuse(delivery, Refusal::outright(Resource::Table), context);
        };
        let charged = group.as_ref().and_then(|group| self.charge(group.leader, group.pages));
        let group = group.filter(|_| charged.is_some());
        let payload = SegmentList::of(&delivery).payload();
        let mut admitted = AdmittedStream {
            stream: delivery.stream,
            content: Some(Arc::clone(&delivery.content)),
            link: delivery.link,
            disk,
            payload,
            started: context.now,
            requested_at: context.now.saturating_sub(delivery.waited),
            is_new: is_new(&delivery),
            ..AdmittedStream::default()
        };
        let (mut rate, mut age) = (None, 0);
        if let Service::Beside { session } = delivery.service {
            self.ask_for(&delivery.content, delivery.link, disk, BitRate(0), payload);
            let reservation = self.admission.accompany(session, &self.requests[0]);
            delivery.service = Service::BestEffort;
            if let Some((id, session_rate)) = reservation.zip(self.admission.rate(session)) {
                delivery.service =
                    Service::Constant { rate: session_rate, burst_bytes: payload, held: None, hold: false };
                admitted.reservation.obtain(id);
                admitted.session = Some(session);
                (admitted.rate, age) = (session_rate, self.age(id));
                rate = Some(self.read_rate(id, session_rate, payload));
            }
        } else if let Service::Constant { rate: asked, burst_bytes, held, hold } = delivery.service {
            self.ask_for(&delivery.content, delivery.link, disk, asked, payload);
            let shares = group.is_some() || (is_buffered && self.admission.is_one_block(&self.requests[0]));
            let id = match self.held_or_new(held, shares) {
                Ok(id) => id,
                Err(refusal) => {
                    if let (Some(group), Some(before)) = (group, charged) {
                        self.charge(group.leader, before);
                    }
                    return refuse(delivery, refusal, context);
                }
            };
            let burst_most = group.as_ref().map_or(payload, |group| group.burst_bytes);
            let burst_bytes = self.admission.grant_burst(id, burst_bytes.min(burst_most));
            delivery.service = Service::Constant { rate: asked, burst_bytes, held, hold };
            admitted.reservation.obtain(id);
            (admitted.rate, admitted.hold) = (asked, hold);
            age = self.age(id);
            rate = Some(self.read_rate(id, asked, burst_bytes));
        }
        let slot = self.free.pop().expect("looked at before");
        if let Some(before) = admitted.reservation.held().and_then(|id| self.holders[id.slot as usize].replace(slot)) {
            self.streams[before as usize].reservation.forget();
        }
        self.streams[slot as usize] = admitted;
        if rate.is_none() {
            self.tell_start(slot, context);
        }
        let (content, segments) = (Arc::clone(&delivery.content), Arc::clone(&delivery.segments));
        context.tell_fetcher(ToFetcher::Begin { slot, content, segments, rate, disk, group, age });
        context.tell_pacer(ToPacer::Begin { slot, delivery, disk });
    }

    /// Charges a leader for the pages its group holds, and gives the number before; `None` if there are too few free pages.
    fn charge(&mut self, leader: u32, pages: u64) -> Option<u64> {
        self.admission.hold_pages(self.held(leader)?, pages)
    }

    /// The stream that uses a reservation loses it to a newer read of its viewer and continues in the time left over: a
    /// player that seeks closes its old connection by itself, and a player that reads many ranges at once wants them all.
    fn take_over<I: Io>(&mut self, id: ReservationId, context: &mut PlaneContext<I>) {
        let Some(slot) = self.holders.get(id.slot as usize).copied().flatten() else { return };
        if self.streams[slot as usize].reservation.take_over(id) {
            context.tell_fetcher(ToFetcher::Demote { slot, at: context.now });
        }
    }

    /// A stream needs disk time for its start: it waits for its turn, or is refused at once if that will come too late. A
    /// stream that continues with a session's reservation has the promise of its time already, and waits.
    fn waits<I: Io>(&mut self, slot: u32, conditions: &StartConditions, context: &mut PlaneContext<I>) {
        let AdmittedStream { disk, is_new, reservation, .. } = self.streams[slot as usize];
        let Some(id) = reservation.held() else { return };
        if self.admission.is_spread(id) {
            return self.start_reads(slot, conditions, conditions.round, context);
        }
        // A stream that then waits is in the forecast for the next.
        let is_in_time = self.starts_in_time(slot, conditions, context);
        if is_new && !is_in_time {
            return self.refuse_start(slot, context);
        }
        debug_assert!(!self.disks[disk].waiting.contains(&slot), "a stream waits for one start");
        self.disks[disk].waiting.push(slot);
        self.launch(disk, conditions, context);
    }

    /// True if a stream will have its first bytes in time when all streams that wait for its disk start before it.
    fn starts_in_time<I: Io>(&mut self, slot: u32, conditions: &StartConditions, context: &PlaneContext<I>) -> bool {
        let Self { admission, streams, disks, .. } = self;
        let disk = streams[slot as usize].disk;
        let AdmitterDisk { waiting, forecast, .. } = &mut disks[disk];
        let starts_in_time = |forecast: &mut StartForecast, slot: u32| {
            let AdmittedStream { reservation, payload, started, .. } = streams[slot as usize];
            let start = StartConditions { payload_bytes: payload, ..*conditions };
            reservation.held().is_some_and(|id| admission.starts_behind(forecast, id, &start, started))
        };
        let forecast = forecast.get_or_insert_with(|| {
            let mut forecast = admission.table(disk).forecast(context.now, conditions);
            for &before in &*waiting {
                starts_in_time(&mut forecast, before);
            }
            forecast
        });
        starts_in_time(forecast, slot)
    }

    /// Starts the stream that waits for a disk for longest, if the coming rounds have room; the next follows when it has begun.
    fn launch<I: Io>(&mut self, disk: DiskId, conditions: &StartConditions, context: &mut PlaneContext<I>) {
        let placed = self.disks[disk].waiting.first().and_then(|&slot| {
            let AdmittedStream { reservation, payload, .. } = self.streams[slot as usize];
            let conditions = StartConditions { payload_bytes: payload, ..*conditions };
            Some((slot, self.admission.place(reservation.held()?, &conditions)?, conditions))
        });
        let Some((slot, first_round, conditions)) = placed else { return self.tell_carry_headroom(disk, context) };
        self.disks[disk].stops_waiting(slot);
        self.start_reads(slot, &conditions, first_round, context);
    }

    /// A stream that has its place in the time table reads from now on.
    fn start_reads<I: Io>(
        &mut self,
        slot: u32,
        conditions: &StartConditions,
        first_round: u64,
        context: &mut PlaneContext<I>,
    ) {
        self.tell_start(slot, context);
        let start = self.placed_start(slot, conditions, first_round, context);
        context.tell_fetcher(ToFetcher::Start { slot, start });
    }

    /// Reports for how long best-effort work may continue, by the promises of now.
    fn tell_carry_headroom<I: Io>(&mut self, disk: DiskId, context: &mut PlaneContext<I>) {
        let entry = &self.disks[disk];
        if entry.profile.rotational {
            let headroom = self.admission.table(disk).carry_headroom(entry.rounds.index_at(context.now));
            context.tell_fetcher(ToFetcher::CarryHeadroom { disk, headroom });
        }
    }

    /// If a stream ends before its start was reported, both are reported: the control plane expects no end without a
    /// start.
    fn tell_start<I: Io>(&mut self, slot: u32, context: &mut PlaneContext<I>) {
        let AdmittedStream { stream, reservation, is_settled, .. } = &mut self.streams[slot as usize];
        if !std::mem::replace(is_settled, true) {
            context.report(Report::Started { stream: *stream, reservation: reservation.held() });
        }
    }

    /// A stream has no first byte in time after all: it ends, or is refused if it waits for its start yet.
    fn end_late_start<I: Io>(&mut self, slot: u32, context: &mut PlaneContext<I>) {
        if self.streams[slot as usize].is_settled {
            context.tell_pacer(ToPacer::Finish { slot, outcome: Outcome::StartTooLate });
        } else {
            self.refuse_start(slot, context);
        }
    }

    fn refuse_start<I: Io>(&mut self, slot: u32, context: &mut PlaneContext<I>) {
        let entry = &mut self.streams[slot as usize];
        entry.is_settled = true;
        let refusal = Refusal::outright(Resource::Disk(entry.disk));
        context.tell_pacer(ToPacer::Refuse { slot, refusal });
    }

    /// A stream that shared another's reads needs disk time of its own. It gets that from the reserve, or is demoted.
    fn needs_own<I: Io>(&mut self, slot: u32, conditions: &StartConditions, context: &mut PlaneContext<I>) {
        let AdmittedStream { reservation, content, link, disk, rate, payload, .. } = &self.streams[slot as usize];
        let (Some(id), Some(content)) = (reservation.held(), content.clone()) else { return };
        self.ask_for(&content, *link, *disk, *rate, *payload);
        let own = self.admission.unshare(id, &self.requests).ok();
        match own.and_then(|()| self.admission.place(id, conditions)) {
            Some(first_round) => {
                let start = self.placed_start(slot, conditions, first_round, context);
                context.tell_fetcher(ToFetcher::ReadAlone { slot, period: self.period(id), start });
            }
            None => context.tell_fetcher(ToFetcher::Demote { slot, at: context.now }),
        }
    }

    /// A stream is best effort from now on: its reservation is free, or belongs to the request that took it over.
    fn demoted<I: Io>(&mut self, slot: u32, at: Nanos, context: &mut PlaneContext<I>) {
        let asks_back = !matches!(self.streams[slot as usize].reservation, StreamReservation::TakenOver(_));
        self.take_back(slot);
        let disk = self.streams[slot as usize].disk;
        self.disks[disk].stops_waiting(slot);
        self.tell_start(slot, context);
        context.tell_pacer(ToPacer::Demoted { slot, at, asks_back });
    }

    /// Takes a stream's reservation from it, for the stream that took it over or for all.
    fn take_back(&mut self, slot: u32) {
        match self.streams[slot as usize].reservation.lose() {
            StreamReservation::Held(id) => self.admission.suspend(id),
            StreamReservation::TakenOver(id) => self.holders[id.slot as usize] = None,
            StreamReservation::None | StreamReservation::Suspended(_) => {}
        }
    }

    /// A stream that gave its reservation back requests it as a new stream does, once its client reads again.
    fn asks_back<I: Io>(&mut self, slot: u32, conditions: &StartConditions, context: &mut PlaneContext<I>) {
        let Some((id, first_round)) = self.reserve_again(slot, conditions) else {
            return context.tell_pacer(ToPacer::Wake { slot });
        };
        let entry = &mut self.streams[slot as usize];
        entry.reservation.obtain(id);
        let rate = entry.rate;
        let rate = self.read_rate(id, rate, 0);
        let start = self.placed_start(slot, conditions, first_round, context);
        context.tell_pacer(ToPacer::Promoted { slot });
        context.tell_fetcher(ToFetcher::Promote { slot, rate, start, age: self.age(id) });
    }

    fn reserve_again(&mut self, slot: u32, conditions: &StartConditions) -> Option<(ReservationId, u64)> {
        let AdmittedStream { reservation, content, link, disk, rate, payload, .. } = &self.streams[slot as usize];
        let may_ask = !self.draining && self.disks[*disk].condition == DiskCondition::Good;
        let (id, content) = (reservation.suspended()?, content.clone().filter(|_| may_ask)?);
        self.ask_for(&content, *link, *disk, *rate, *payload);
        self.admission.reserve_again(id, &self.requests).ok()?;
        let first_round = self.admission.place(id, conditions);
        if first_round.is_none() {
            self.admission.suspend(id);
        }
        first_round.map(|first_round| (id, first_round))
    }

    /// A stream has nothing more of the disks: its reservation is kept for its session, or given back.
    fn left<I: Io>(&mut self, slot: u32, may_hold: bool, context: &mut PlaneContext<I>) {
        self.tell_start(slot, context);
        let entry = &self.streams[slot as usize];
        let (disk, may_hold) = (entry.disk, entry.hold && may_hold);
        let held = match entry.reservation {
            StreamReservation::Held(id) if may_hold => Some(id),
            _ => None,
        };
        self.disks[disk].stops_waiting(slot);
        if let Some(id) = held {
            self.holders[id.slot as usize] = None;
            self.admission.rest(id);
        } else {
            self.take_back(slot);
        }
        if let Some(id) = std::mem::take(&mut self.streams[slot as usize]).reservation.suspended() {
            self.holders[id.slot as usize] = None;
            self.admission.release(id);
        }
        debug_assert!(!self.free.contains(&slot), "two streams would have one slot");
        self.free.push(slot);
        context.tell_pacer(ToPacer::Left { slot, held });
    }

    /// A stream is listed at another disk, and if it waits, waits there.
    fn moved(&mut self, slot: u32, disk: DiskId) {
        let from = std::mem::replace(&mut self.streams[slot as usize].disk, disk);
        if self.disks[from].stops_waiting(slot) {
            self.disks[disk].waiting.push(slot);
        }
    }

    /// A stream gets disk time for its reads that moved to other disks; it has that already where admission provides
    /// for the loss of a disk. If there is none, it continues as best effort, and its reservation is free for others.
    fn cover<I: Io>(&mut self, slot: u32, context: &mut PlaneContext<I>) {
        let AdmittedStream { content, reservation, link, disk, rate, payload, .. } = &self.streams[slot as usize];
        let (Some(id), Some(content), disk) = (reservation.held(), content.clone(), *disk) else { return };
        self.ask_for_further(id, &content, (*link, *rate, *payload));
        let round = self.disks[disk].rounds.index_at(context.now);
        if self.admission.reserve_further(id, &self.requests, &StartConditions::idle(round)).is_err() {
            self.take_back(slot);
            context.tell_fetcher(ToFetcher::Demote { slot, at: context.now });
        }
    }

    /// Applies the speed of a disk to the streams with a promise of its time: best effort rests first, and streams end
    /// only when all of its time is less than its promises.
    fn follow_speed<I: Io>(&mut self, disk: DiskId, factor: f64, is_behind: bool, context: &mut PlaneContext<I>) {
        self.admission.set_slowdown(disk, factor);
        let promised = self.admission.table(disk).promised_share();
        context.tell_fetcher(ToFetcher::BeShare { disk, share: context.config.be_share.min(1.0 - promised) });
        if is_behind && promised > 1.0 {
            context.tell_fetcher(ToFetcher::Shed { disk });
        }
    }

    /// Ends the start bursts that hold pages which were promised since: they are wishes.
    pub(crate) fn end_bursts<I: Io>(&mut self, context: &mut PlaneContext<I>) {
        while let Some(id) = self.admission.burst_to_end() {
            if let Some(slot) = self.holders[id.slot as usize] {
                context.tell_fetcher(ToFetcher::EndBurst { slot });
                context.tell_pacer(ToPacer::EndBurst { slot });
            }
        }
    }

    /// Publishes the promises, before the answers to their requests.
    pub(crate) fn publish_promises<I: Io>(&self, context: &PlaneContext<I>) {
        let gauges = &context.gauges;
        for (link, gauges) in (0..self.links).zip(&gauges.links) {
            gauges.left_bps.set(self.admission.sending().left(LinkId(link)).0);
        }
        let promised = self.admission.sending().promised().0;
        if promised != gauges.plane.promised_bps.get() {
            gauges.plane.promised_bps.set(promised);
            self.publish_shares(context);
        }
    }

    fn publish_shares<I: Io>(&self, context: &PlaneContext<I>) {
        let (promised, pages) = self.admission.memory();
        context.gauges.plane.pages_promised.set(promised);
        context.gauges.plane.pages_left.set(pages.saturating_sub(promised));
        for (disk, gauges) in self.disks.ids().zip(&context.gauges.disks) {
            gauges.promised_ppm.set(ppm(self.admission.table(disk).promised_share()));
            gauges.free_ppm.set(ppm(self.admission.table(disk).free_share()));
        }
    }

    /// Once a second: the core's load and the memory that there can be, and the public figures.
    pub(crate) fn measure<I: Io>(&mut self, pages: u64, context: &mut PlaneContext<I>) {
        let processor = context.io.processor_time();
        let (used, wall) = (processor.saturating_sub(self.measured.1), context.now.saturating_sub(self.measured.0));
        if wall > LOAD_PERIOD_MIN {
            self.admission.sending_mut().set_processor_share(used.as_secs_f64() / wall.as_secs_f64());
            self.measured = (context.now, processor);
        }
        self.admission.set_pages(pages);
        let plane = &context.gauges.plane;
        plane.processor_nanos.set(processor.0);
        plane.streams.set((self.streams.len() - self.free.len()) as u64);
        self.publish_shares(context);
    }

    /// The reservation that a stream's reads are charged to.
    fn held(&self, slot: u32) -> Option<ReservationId> {
        self.streams[slot as usize].reservation.held()
    }
}

/// Whether a delivery has no reservation from before and wants one.
fn is_new(delivery: &Delivery) -> bool {
    matches!(delivery.service, Service::Constant { held: None, .. })
}

fn refuse<I: Io>(delivery: Box<Delivery>, refusal: Refusal, context: &mut PlaneContext<I>) {
    context.report(Report::Refused { delivery, refusal });
}
