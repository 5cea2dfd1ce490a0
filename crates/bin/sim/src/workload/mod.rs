//! Control side of a run: issues commands by the load, keeps the reports, plays the faults, and asks at every end
//! whether it was a right one. Not here: its state (`control_side`), uploads and recordings (`writing`), viewers that go elsewhere
//! or pause (`seeking`), viewers of films in segments (`viewing`).

mod seeking;
mod viewing;
mod writing;

use std::os::fd::AsRawFd;
use std::sync::Arc;

use content::{Content, Segment};
use dataplane::control::{Command, Delivery, DeliveryDestination, Ending, Event as News, Outcome, Report, Service};
use units::{BitRate, LinkId, Nanos, ReservationId, StreamId};

use crate::contents::{SimFile, segments};
use crate::control_side::{ControlAction, RunPhases, Shed};
use crate::disk::Spent;
use crate::laws::Law;
use crate::ledger::{DeliveryLife, LedgerEntry, RequestedDelivery};
use crate::load::{Calm, Popularity, Tally};
use crate::log::LogKind;
use crate::random::Random;
use crate::socket::{ClientReading, SimSocket};
use crate::viewers::ViewerTrackId;
use crate::world::{ClientTurn, World, WorldEvent};

/// How often every running delivery is looked at.
const AUDIT: Nanos = Nanos::from_millis(500);

/// Shortest and longest pause of a viewer.
const PAUSE: (Nanos, Nanos) = (Nanos::from_millis(100), Nanos::from_secs(60));
/// Interval between the begins of recordings that continue to the end: all cameras come back after a power cut.
const RECORDED_APART: Nanos = Nanos::from_millis(7);
/// Deliveries still stuck this long before the shutdown get the order to end.
const END_GRACE: Nanos = Nanos::from_secs(6);

/// Terms of a delivery that the control side asks for.
struct SimDelivery {
    /// The content's place.
    content: usize,
    segments: Arc<[Segment]>,
    /// At which its client reads at least, best effort or not.
    rate: BitRate,
    burst_bytes: u64,
    service: Service,
    viewer: Option<ViewerTrackId>,
    waited: Nanos,
}

impl World {
    /// Puts the first actions on the heap.
    pub(crate) fn control_begins(&mut self) {
        for index in 0..self.control.contents.len() {
            self.open_content(index);
        }
        let phases = self.control.phases;
        self.act_in(Nanos::ZERO, ControlAction::Arrive);
        self.act_in(AUDIT, ControlAction::Audit);
        self.act_in(phases.safety, ControlAction::Calm);
        self.act_in(phases.safety.saturating_add(phases.liveness), ControlAction::Drain);
        for index in 0..self.control.faults.len() {
            self.act_in(self.control.faults[index].at, ControlAction::FaultBegins(index));
        }
        for disk in 0..self.disks.len() {
            for _ in 0..self.control.load.uploaders {
                let gap = self.control.random.wait(self.control.load.upload_gap);
                self.act_in(gap, ControlAction::Upload(disk));
            }
            for nth in 0..self.control.load.recorded {
                self.act_in(RECORDED_APART.saturating_mul(u64::from(nth)), ControlAction::RecordAll(disk));
            }
            self.again(self.control.load.recordings, ControlAction::Record(disk));
            self.again(self.control.load.probes, ControlAction::Probe(disk));
        }
        self.again(self.control.load.pauses, ControlAction::Pause);
        self.viewers_begin();
    }

    /// The content as the plane is given it; its files are known from now on.
    fn open_content(&mut self, index: usize) -> Arc<Content> {
        let content = self.control.contents[index].opened(&self.control.null);
        let number = u32::try_from(index).expect("few contents");
        for file in content.layout.files() {
            self.handles.give_file(file.file.as_raw_fd(), SimFile { content: number, disk: file.disk });
        }
        content
    }

    pub(crate) fn act_in(&mut self, span: Nanos, action: ControlAction) {
        let index = u32::try_from(self.control.actions.len()).expect("a run is short");
        self.control.actions.push(action);
        self.schedule(self.now.saturating_add(span), WorldEvent::Control(index));
    }

    /// The action again after a random time with this mean; never, if it is zero.
    fn again(&mut self, mean: Nanos, action: ControlAction) {
        if mean > Nanos::ZERO {
            let span = self.control.random.wait(mean);
            self.act_in(span, action);
        }
    }

    pub(crate) fn control_event(&mut self, index: u32) {
        let action = self.control.actions[usize::try_from(index).expect("32 bits")];
        let asking = !self.control.draining;
        match action {
            ControlAction::Arrive if asking => {
                if self.control.running < self.control.load.streams_max {
                    self.arrive(None);
                }
                self.again(self.control.load.arrivals, ControlAction::Arrive);
            }
            ControlAction::Again(reservation, content, rate) if asking => {
                self.arrive(Some((reservation, content, rate)));
            }
            ControlAction::Again(reservation, ..) => self.command(Command::Release(reservation)),
            ControlAction::Stop(stream) => self.stop(stream),
            ControlAction::Seek if asking => {
                self.seek();
                self.again(self.control.load.seeks, ControlAction::Seek);
            }
            ControlAction::Pause if asking => {
                self.pause();
                self.again(self.control.load.pauses, ControlAction::Pause);
            }
            ControlAction::Viewer(action) => self.viewer_acts(action),
            ControlAction::Upload(disk) if asking => self.begin_upload(disk),
            ControlAction::Record(disk) if asking => {
                self.reserve(disk, None);
                self.again(self.control.load.recordings, action);
            }
            ControlAction::RecordAll(disk) if asking => {
                let end = phases_end(self.control.phases);
                self.reserve(disk, Some(end.saturating_sub(self.now)));
            }
            ControlAction::Probe(disk) if asking => {
                self.with_store(disk, |store, now, out| store.probe(8, now, out));
                self.again(self.control.load.probes, action);
            }
            ControlAction::FaultBegins(index) => self.fault_begins(index),
            ControlAction::FaultEnds(index) => self.fault_ends(index),
            ControlAction::Audit => {
                self.audit(AUDIT);
                if !self.control.ended {
                    self.act_in(AUDIT, ControlAction::Audit);
                }
            }
            ControlAction::Calm => {
                self.control.calm = true;
                self.control.tally.calm = self.done_so_far();
                self.again(self.control.load.seeks, ControlAction::Seek);
            }
            ControlAction::Drain => self.drain(),
            ControlAction::StopLate => {
                let late = self.streams.values().filter(|s| s.may_be_late()).map(|s| s.requested.id.0);
                late.collect::<Vec<_>>().into_iter().for_each(|stream| self.stop(stream));
            }
            ControlAction::Shutdown => {
                self.control.ended = true;
                self.command(Command::Shutdown);
            }
            ControlAction::Arrive
            | ControlAction::Seek
            | ControlAction::Pause
            | ControlAction::Upload(_)
            | ControlAction::Record(_)
            | ControlAction::RecordAll(_)
            | ControlAction::Probe(_) => {}
        }
    }

    fn command(&mut self, command: Command) {
        self.log.event(self.now, LogKind::Command, 1, 0, || match &command {
            Command::Start(d) => {
                let ranges: Vec<_> = d.segments.iter().filter(|s| matches!(s, Segment::Range { .. })).collect();
                format!("start {} on {:?}: {:?} {ranges:?}", d.stream.0, d.content.disk(), d.service)
            }
            other => format!("{other:?}"),
        });
        self.commands.push_back(command);
    }

    /// Begins a new delivery, or the next one of a session with its reservation.
    fn arrive(&mut self, session: Option<(ReservationId, u32, BitRate)>) {
        let control = &mut self.control;
        let per_disk = u64::from(control.load.contents_per_disk);
        let last = per_disk * control.disk_excused.len() as u64;
        let drawn = match control.load.popularity {
            Popularity::Favourites => control.random.below(last).min(control.random.below(last)),
            Popularity::Zipf => on_disks_in_turn(zipf(&mut control.random, last), per_disk, last),
            Popularity::Even => on_disks_in_turn(control.next_stream, per_disk, last),
        };
        // A session continues with its content.
        let index = session.map_or(usize::try_from(drawn).expect("few contents"), |s| s.1 as usize);
        let content = &control.contents[index];
        if !content.is_whole() {
            return; // No viewer asks for a content that is known to be broken.
        }
        let rate = session.map_or(*control.random.pick(&control.load.rates), |s| s.2);
        let best_effort = session.is_none() && control.random.chance(control.load.best_effort_share);
        let hold = !best_effort && control.random.chance(control.load.hold_share);
        let viewing = control.random.span(control.load.viewing.0, control.load.viewing.1);
        let segments = segments(&mut control.random, content.size(), rate.bytes_in(viewing), control.load.ranges_share);
        let burst_bytes = if control.random.chance(0.5) {
            rate.bytes_in(Nanos(control.random.below(control.load.burst_max.0 + 1)))
        } else {
            0
        };
        let service = if best_effort {
            Service::BestEffort
        } else {
            Service::Constant { rate, burst_bytes, held: session.map(|s| s.0), hold }
        };
        let request =
            SimDelivery { content: index, segments, rate, burst_bytes, service, viewer: None, waited: Nanos::ZERO };
        let id = StreamId(self.deliver(request));
        self.choose_client(id, rate, line_of(rate), viewing);
        let control = &mut self.control;
        control.running += 1;
        if control.random.chance(control.load.stop_share) {
            let span = control.random.span(Nanos::ZERO, viewing);
            self.act_in(span, ControlAction::Stop(id.0));
        }
    }

    /// Asks the plane for a delivery; its number.
    fn deliver(&mut self, request: SimDelivery) -> u64 {
        let SimDelivery { content: index, segments, rate, burst_bytes, service, viewer, waited } = request;
        let content = self.open_content(index);
        let control = &mut self.control;
        let socket = control.null.try_clone().expect("a descriptor is free");
        let id = StreamId(control.next_stream);
        control.next_stream += 1;
        let (held, hold) = match service {
            Service::Constant { held, hold, .. } => (held, hold),
            Service::BestEffort | Service::Beside { .. } => (None, false),
        };
        let best_effort = service == Service::BestEffort;
        let socket_bytes = rate.bytes_in(control.tick_span().saturating_mul(2).saturating_add(Nanos::from_millis(200)));
        let asked = RequestedDelivery {
            id,
            fd: socket.as_raw_fd(),
            version: content.version,
            disk: content.disk(),
            rate: (!best_effort).then_some(rate),
            burst_bytes,
            hold,
            continues: held.is_some(),
            segments: segments.clone(),
            at: self.now,
            viewer,
        };
        let receiver = SimSocket::new(socket_bytes.max(16 << 10), ClientReading::AtRate(line_of(rate)), self.now);
        let mut stream = LedgerEntry::new(asked, receiver);
        let excused = if control.contents[index].is_mirrored() {
            control.mirror_excused
        } else {
            let disk = usize::from(content.disk().0);
            control.disk_excused[disk].max(control.newcomers_excused[disk])
        };
        if excused > self.now {
            stream.excuse_disk(excused);
        }
        control.tally.requested += u64::from(!best_effort);
        control.tally.best_effort += u64::from(best_effort);
        self.handles.give_socket(socket.as_raw_fd(), id.0);
        for other in self.streams.values_mut().filter(|other| other.requested.version == content.version) {
            (other.shares, stream.shares) = (true, true);
        }
        self.streams.insert(id.0, stream);
        let destination = DeliveryDestination::Socket(socket);
        let delivery = Delivery { stream: id, destination, link: LinkId(0), segments, content, service, waited };
        self.command(Command::Start(Box::new(delivery)));
        id.0
    }

    /// Some clients do not read as they should.
    fn choose_client(&mut self, stream: StreamId, rate: BitRate, line: BitRate, viewing: Nanos) {
        let control = &mut self.control;
        let load = &control.load;
        let shares = [load.slow_share, load.pause_share, load.vanish_share, load.reset_share];
        let mut draw = control.random.fraction();
        let kind = shares.iter().position(|share| {
            draw -= share;
            draw < 0.0
        });
        if control.calm {
            return;
        }
        let at = control.random.span(Nanos::ZERO, viewing);
        let pause = control.random.span(PAUSE.0, PAUSE.1);
        let turns: &[(Nanos, ClientTurn)] = match kind {
            Some(0) => &[(Nanos::ZERO, ClientTurn::Reads(BitRate(rate.0 / 2)))],
            Some(1) => &[(at, ClientTurn::Stops), (at.saturating_add(pause), ClientTurn::Reads(line))],
            Some(2) => &[(at, ClientTurn::Stops)],
            Some(3) => &[(at, ClientTurn::Resets)],
            _ => return,
        };
        for (span, turn) in turns {
            self.schedule(self.now.saturating_add(*span), WorldEvent::Client(stream.0, *turn));
        }
    }

    fn stop(&mut self, stream: u64) {
        let now = self.now;
        if let Some(record) = self.streams.get_mut(&stream) {
            record.excuses.stopped = true;
            record.stopped_at = Some(now);
            self.command(Command::Stop(StreamId(stream)));
        }
    }

    fn done_so_far(&mut self) -> Calm {
        let now = self.now;
        let spent = self.disks.iter_mut().fold(Spent::default(), |sum, disk| sum.and(&disk.spent(now)));
        let Tally { uploads, upload_bytes, commits, .. } = self.control.tally;
        Calm { spent, uploads, upload_bytes, commits }
    }

    fn drain(&mut self) {
        self.control.tally.calm = self.done_so_far().since(&self.control.tally.calm);
        self.viewers_end();
        self.control.draining = true;
        self.command(Command::Drain);
        // Viewings end by themselves; deliveries of a vanished client are stopped.
        let longest = self.control.load.viewing_max().saturating_mul(2).saturating_add(Nanos::from_secs(10));
        self.act_in(longest, ControlAction::Shutdown);
        self.act_in(longest.saturating_sub(END_GRACE), ControlAction::StopLate);
    }

    /// The control side reads everything the plane reported.
    pub(crate) fn control_reads_reports(&mut self) {
        while let Some(report) = self.reports.pop_front() {
            self.log.event(self.now, LogKind::Report, 0, 0, || report_text(&report));
            match report {
                Report::Started { stream, reservation } => self.started(stream, reservation),
                Report::Refused { delivery, .. } => {
                    self.control.tally.refused += u64::from(!matches!(delivery.service, Service::BestEffort));
                    self.comes_back(&delivery, DeliveryLife::Asked, None);
                }
                Report::Finished { delivery, end } => self.comes_back(&delivery, DeliveryLife::Started, Some(end)),
                Report::Reserved { stream, reservation, place } => self.recording_begins(stream, reservation, place),
                Report::ReserveRefused { stream, .. } => {
                    self.control.tally.recordings_refused += 1;
                    if self.control.reserving.remove(&stream.0).is_none() {
                        self.laws.broke(Law::EveryEndHasAReason, self.now, format!("no request: {stream:?}"));
                    }
                }
                Report::Posted { stream } => unreachable!("{stream:?}: simulated deliveries go to sockets"),
                Report::Unused(content) => drop(content),
                Report::Kept(stored) => drop(stored),
                Report::Profiled { profile, .. } => drop(profile),
                Report::Event(event) => self.event(event),
            }
        }
    }

    fn event(&mut self, event: News) {
        self.control.tally.events += 1;
        match event {
            News::Miss { stream, late } => self.judge_miss(stream.0, late),
            News::DiskFailing { disk, hung } if !self.control.disk_is_excused(usize::from(disk.0), self.now) => {
                let what = if hung { "does not answer" } else { "errs" };
                self.laws.broke(
                    Law::EveryEndHasAReason,
                    self.now,
                    format!("{disk:?} is reported, it {what}, and it works"),
                );
            }
            _ => {}
        }
    }

    fn started(&mut self, stream: StreamId, reservation: Option<ReservationId>) {
        let now = self.now;
        let Some(record) = self.streams.get_mut(&stream.0).filter(|s| s.life == DeliveryLife::Asked) else {
            self.laws.broke(Law::EveryEndHasAReason, now, format!("{stream:?} started, but not asked for"));
            return;
        };
        record.life = DeliveryLife::Started;
        record.started_at = Some(now);
        record.reservation = reservation;
        let (guaranteed, viewer) = (record.requested.rate.is_some(), watching(record));
        self.plane_delays.give_way(record.requested.burst_bytes);
        if guaranteed != reservation.is_some() {
            self.laws.broke(Law::EveryEndHasAReason, now, format!("{stream:?} holds {reservation:?}"));
        }
        let control = &mut self.control;
        if guaranteed {
            control.guaranteed += 1;
            control.tally.started += 1;
            control.tally.running_max = control.tally.running_max.max(control.guaranteed);
        }
        if let Some(viewer) = viewer {
            self.viewer_considers(viewer.viewer);
        }
    }

    /// A delivery is over (or was refused): its socket must be the one it was given, and its end a right one.
    fn comes_back(&mut self, delivery: &Delivery, life: DeliveryLife, end: Option<Ending>) {
        let socket = delivery.destination.socket().expect("simulated deliveries go to sockets");
        let (stream, fd) = (delivery.stream, socket.as_raw_fd());
        let now = self.now;
        let Some(mut record) = self.streams.remove(&stream.0).filter(|s| s.life == life && s.requested.fd == fd) else {
            self.laws.broke(Law::EveryEndHasAReason, now, format!("{stream:?} comes back from {life:?} with {end:?}"));
            return;
        };
        let found = self.handles.socket_returned(fd, stream.0);
        self.laws.judge(now, found);
        self.control.running -= usize::from(record.requested.viewer.is_none());
        self.judge_start(&record);
        let is_refused = end.as_ref().is_none_or(|end| end.outcome == Outcome::StartTooLate);
        self.control.tally.sessions_refused += u64::from(is_refused && record.requested.continues);
        let Some(end) = end else {
            if record.requested.rate.is_some() && !record.may_start_late(now) {
                let refusal_max = &mut self.control.tally.refusal_max;
                *refusal_max = (*refusal_max).max(record.waited(now, &self.plane_delays));
            }
            if record.taken_bytes > 0 {
                self.laws.broke(Law::EveryEndHasAReason, now, format!("{stream:?} was refused after bytes were sent"));
            }
            if let Some(viewer) = watching(&record) {
                self.viewer_delivery_over(viewer, &mut record, None);
            }
            return;
        };
        let found = record.judge(&end, now, &self.plane_delays);
        self.laws.check(
            if found.is_err() && end.misses > 0 { Law::EveryDeadline } else { Law::EveryEndHasAReason },
            now,
            found,
        );
        self.count_end(&record, &end);
        if let Some(viewer) = watching(&record) {
            self.viewer_delivery_over(viewer, &mut record, Some(&end));
        } else if let (Some(held), Some(rate), false) = (end.held, record.requested.rate, record.excuses.passed_on) {
            self.session_goes_on(held, &record, rate);
        }
    }

    fn count_end(&mut self, record: &LedgerEntry, end: &Ending) {
        let control = &mut self.control;
        control.guaranteed -= u64::from(record.requested.rate.is_some());
        let tally = &mut control.tally;
        tally.completed += u64::from(end.outcome == Outcome::Complete);
        if end.outcome == Outcome::DiskOverloaded {
            tally.shed += 1;
            control.shed.push(Shed { stream: record.requested.id, disk: record.requested.disk, at: self.now });
        }
        tally.excused_misses += end.misses;
        tally.payload_bytes += record.payload_bytes;
        control.count_first_byte(record);
    }

    /// The viewer asks for more after a while, or is gone and its reservation given back.
    fn session_goes_on(&mut self, held: ReservationId, record: &LedgerEntry, rate: BitRate) {
        let content = content_index(record);
        let span = self.control.random.span(Nanos::ZERO, Nanos::from_secs(5));
        if self.control.random.chance(0.7) && !self.control.draining {
            self.act_in(span, ControlAction::Again(held, content, rate));
        } else {
            self.command(Command::Release(held));
        }
    }
}

/// The track of a viewer of segments that waits for a delivery, if it has not gone elsewhere.
fn watching(record: &LedgerEntry) -> Option<ViewerTrackId> {
    record.requested.viewer.filter(|_| !record.excuses.passed_on)
}

/// When the run asks for nothing more.
fn phases_end(phases: RunPhases) -> Nanos {
    phases.safety.saturating_add(phases.liveness)
}

/// How fast a client reads that keeps up with this rate.
fn line_of(rate: BitRate) -> BitRate {
    BitRate((rate.0 * 8).max(100_000_000))
}

/// Which content a delivery is of.
fn content_index(record: &LedgerEntry) -> u32 {
    u32::try_from(record.requested.version.0 - 1).expect("few contents")
}

/// The `nth` of `count` contents when disk is taken after disk, and on each of them content after content; they are numbered disk by disk.
fn on_disks_in_turn(nth: u64, per_disk: u64, count: u64) -> u64 {
    let disks = count / per_disk;
    nth % disks * per_disk + nth / disks % per_disk
}

/// One of `count`, by Zipf's law.
fn zipf(random: &mut Random, count: u64) -> u64 {
    #[allow(clippy::cast_precision_loss, reason = "few contents")]
    let weight = |nth: u64| 1.0 / (nth + 1) as f64;
    let mut draw = random.fraction() * (0..count).map(weight).sum::<f64>();
    let found = (0..count).find(|&nth| {
        draw -= weight(nth);
        draw < 0.0
    });
    found.unwrap_or(0)
}

fn report_text(report: &Report) -> String {
    match report {
        Report::Refused { delivery, refusal } => format!("{} refused: {refusal:?}", delivery.stream.0),
        Report::Finished { delivery, end } => format!("{} finished: {end:?}", delivery.stream.0),
        other => format!("{other:?}"),
    }
}
