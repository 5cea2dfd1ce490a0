//! The world of one run: the parts outside the plane, each with its own state, and the events and reports that pass between them.
//!
//! Promise: the plane's thread is one of the world's actors, and may be late as the others may. Not here: the state and the
//! rules of a part.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use content::Content;
use dataplane::control::{Command, Delivery, DeliveryDestination, Ending, Event as News, Report, Service};
use dataplane::port::Completion;
use storage::grant::{Grant, RecordingPlace};
use units::{BitRate, LinkId, Nanos, ReservationId, StreamId};

use crate::audit::DiskTally;
use crate::bounds::PlaneBounds;
use crate::channel::SimChannel;
use crate::contents::{SimContents, SimFile, Spoiling};
use crate::control_side::{AUDIT, ControlSide, SimDelivery, line_of};
use crate::course::Course;
use crate::disk::Spent;
use crate::disk_side::{DiskEnd, DiskSide};
use crate::drive::Drive;
use crate::events::{ClientTurn, ControlAction, ViewerTrackId, WorldEvent};
use crate::faults::RunFaults;
use crate::laws::Law;
use crate::ledger::{Ledger, LedgerEntry, RequestedDelivery};
use crate::load::{Fault, PAUSE};
use crate::log::{LogKind, Trace};
use crate::random::Random;
use crate::scenario::Scenario;
use crate::socket::{ClientReading, SimSocket};
use crate::store_thread::{Actions, StoreThread};
use crate::tally::{Calm, Tally};
use crate::thread::SimThread;
use crate::transfer::Transfers;
use crate::viewers::Viewers;
use crate::writers::SimWriters;

/// Everything outside the plane.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) course: Course,
    pub(crate) thread: SimThread,
    pub(crate) channel: SimChannel,
    pub(crate) transfers: Transfers,
    pub(crate) ledger: Ledger,
    disks: Vec<DiskSide>,
    contents: SimContents,
    faults: RunFaults,
    control: ControlSide,
    pub(crate) viewers: Viewers,
    writers: SimWriters,
    pauses: u64,
    events: u64,
    calm: Calm,
}

impl World {
    /// The world of a scenario. `drives` gives each drive with the number of reads that the plane may have in flight on it;
    /// `null` is an open `/dev/null`.
    pub(crate) fn new(
        scenario: &Scenario,
        drives: Vec<(Drive, usize)>,
        null: OwnedFd,
        mut random: Random,
        trace: Trace,
    ) -> Self {
        let Scenario { load, safety, liveness, .. } = scenario;
        let bounds = PlaneBounds::of(scenario);
        let capacities: Vec<u64> = drives.iter().map(|(drive, _)| drive.parameters().size).collect();
        let mut demand = random.fork();
        let mut contents = SimContents::empty(null);
        contents.draw(&load.contents, &capacities, &mut demand);
        // A random generator of its own, so that other draws do not depend on these.
        let viewers = Viewers::new(&load.segments, &capacities, bounds, demand.clone().fork());
        let disks = drives.into_iter().enumerate();
        let mut world = Self {
            course: Course::new(random, demand, trace),
            thread: SimThread::new(scenario.request_cost, scenario.wake_max),
            channel: SimChannel::default(),
            transfers: Transfers::new(scenario.chunks, scenario.short_read, bounds),
            ledger: Ledger::new(bounds),
            disks: disks.map(|(number, (drive, depth))| DiskSide::new(number, drive, depth, bounds)).collect(),
            contents,
            faults: RunFaults::new(scenario.faults.clone(), capacities.len(), load.contents.mirrored),
            control: ControlSide::new(load.clone(), capacities.len(), *safety, *liveness),
            viewers,
            writers: SimWriters::new(load.uploads.clone(), load.recordings.clone(), capacities),
            pauses: 0,
            events: 0,
            calm: Calm::default(),
        };
        for number in 0..world.contents.count() {
            world.open_content(number);
        }
        world.control.begin(&world.faults, &mut world.course);
        world.viewers.begin(&mut world.course);
        world
    }

    /// Opens a content for the plane, and registers its files.
    fn open_content(&mut self, number: u32) -> Arc<Content> {
        let content = self.contents.open(number);
        for file in content.layout.files() {
            self.transfers.handles.give_file(file.file.as_raw_fd(), SimFile { content: number, disk: file.disk });
        }
        content
    }

    /// Performs one wait of the plane's thread.
    pub(crate) fn wait(&mut self, until: Nanos, completions: &mut Vec<Completion>) {
        self.thread.waits(until, self.transfers.queued(), &mut self.course);
        self.happen_until(self.course.now());
        self.transfers.submit(&self.contents, &mut self.disks, &mut self.ledger, &mut self.course);
        let begun = self.course.now();
        let is_idle = |(n, disk): (usize, &DiskSide)| disk.is_idle_with_work(self.transfers.is_read_out(n));
        let idle: Vec<bool> = self.disks.iter().enumerate().map(is_idle).collect();
        while !self.transfers.is_ready() && !self.channel.holds_news() {
            match self.next_at().filter(|at| *at <= until) {
                Some(at) => self.happen_until(at),
                None => {
                    self.course.advance(until);
                    break;
                }
            }
        }
        let waited = self.course.now();
        for (disk, _) in self.disks.iter_mut().zip(idle).filter(|(_, idle)| *idle) {
            disk.audit.was_idle_beside_work(waited.saturating_sub(begun));
        }
        let delay = self.thread.wakes(begun, &mut self.course);
        self.ledger.plane_is_late(waited, delay);
        self.happen_until(self.course.now());
        let count = self.transfers.ready();
        self.thread.receives(count, self.channel.holds_news(), &mut self.course);
        completions.extend(self.transfers.receive(count, self.course.now()));
        self.course.log(LogKind::Wait, until.0, completions.len() as u64, || {
            format!("until {:.6} ms: {} completions", until.as_millis_f64(), completions.len())
        });
    }

    /// Time of the next event.
    fn next_at(&self) -> Option<Nanos> {
        self.course.next_at().into_iter().chain(self.disks.iter().filter_map(DiskSide::next_event)).min()
    }

    /// Performs the events that are due by `at`, and advances the time to `at`.
    fn happen_until(&mut self, at: Nanos) {
        let target = self.course.now().max(at);
        while let Some(next) = self.next_at().filter(|next| *next <= target) {
            self.course.advance(next);
            match self.course.take_due(next) {
                Some(event) => self.happen(event),
                None => self.serve_disks(next),
            }
        }
        self.course.advance(target);
    }

    fn happen(&mut self, event: WorldEvent) {
        match event {
            WorldEvent::Writable(slot) => self.transfers.retry_send(slot, &mut self.ledger, &mut self.course),
            WorldEvent::Client(stream, turn) => {
                if self.ledger.client_turns(stream, turn, &mut self.course)
                    && let Some(slot) = self.transfers.handles.slot_of(stream)
                {
                    self.transfers.retry_send(slot, &mut self.ledger, &mut self.course);
                }
            }
            WorldEvent::StorePoke(disk) => {
                self.disks[disk].poked(self.course.now());
                self.with_store(disk, StoreThread::poke);
            }
            WorldEvent::StoreBegin(disk) => {
                let grant = self.disks[disk].begun_grant();
                self.with_store(disk, |store, now, out| store.grant(grant, now, out));
            }
            WorldEvent::BufferedRead(place) => self.read_part_done(place, true),
            WorldEvent::Looked { token, version, right } => {
                self.transfers.looked(token, (version, right), &self.contents, &mut self.course);
            }
            WorldEvent::MemoryChanged(token) => self.transfers.memory_changed(token, &mut self.course),
            WorldEvent::Reports => self.read_reports(),
            WorldEvent::Control(action) => self.act(action),
        }
    }

    /// Takes the results of the disks up to `at`.
    fn serve_disks(&mut self, at: Nanos) {
        for disk in 0..self.disks.len() {
            for end in self.disks[disk].serve(at) {
                match end {
                    DiskEnd::Read { place, ok } => self.read_part_done(place, ok),
                    DiskEnd::Store { op, bytes, ok } => {
                        self.with_store(disk, |store, now, out| store.served(op, bytes, ok, now, out));
                    }
                }
            }
        }
    }

    fn read_part_done(&mut self, place: u32, ok: bool) {
        self.transfers.read_part_done((place, ok), &self.contents, &mut self.disks, &mut self.course);
    }

    /// Runs `act` on a store thread, and performs the actions that it returns.
    fn with_store<T>(&mut self, disk: usize, act: impl FnOnce(&mut StoreThread, Nanos, &mut Actions) -> T) -> T {
        let (result, mut out) = self.disks[disk].with_store(act, &mut self.course);
        self.channel.send_store_messages(std::mem::take(&mut out.messages));
        let excused = self.faults.disk_is_excused(disk, self.course.now());
        self.writers.store_acted(disk, (&out, excused), &mut self.channel, &mut self.course);
        result
    }

    /// Passes a grant of the plane to its store thread.
    pub(crate) fn granted(&mut self, grant: Grant) {
        self.thread.calls();
        self.course.log(LogKind::Grant, grant.job.0, grant.bytes_max, || format!("{grant:?}"));
        match self.disks.get_mut(usize::from(grant.disk.0)) {
            Some(disk) => disk.grant(grant, &mut self.course),
            None => self.course.broke(Law::QueueBounds, format!("a grant for no disk: {grant:?}")),
        }
    }

    fn act(&mut self, action: ControlAction) {
        let asks = self.control.asks();
        match action {
            ControlAction::Arrive if asks => {
                if self.control.has_room() {
                    self.arrive(None);
                }
                self.control.again(action, &mut self.course);
            }
            ControlAction::Again(reservation, content, rate) if asks => {
                self.arrive(Some((reservation, content, rate)));
            }
            ControlAction::Again(reservation, ..) => self.command(Command::Release(reservation)),
            ControlAction::Stop(stream) => self.stop(stream),
            ControlAction::Seek if asks => {
                self.seek();
                self.control.again(action, &mut self.course);
            }
            ControlAction::Pause if asks => {
                self.pause();
                self.control.again(action, &mut self.course);
            }
            ControlAction::Viewer(action) if asks => {
                let viewer = self.viewers.act(action, &mut self.ledger, &mut self.channel, &mut self.course);
                viewer.into_iter().for_each(|viewer| self.viewer_considers(viewer));
            }
            ControlAction::Upload(disk) if asks => {
                let source = self.writers.draw_upload(disk, &mut self.course);
                self.with_store(disk, |store, now, out| store.begin(source, now, out));
            }
            ControlAction::Record(disk) if asks => {
                self.reserve(disk, None);
                self.control.again(action, &mut self.course);
            }
            ControlAction::RecordAll(disk) if asks => self.reserve(disk, Some(self.control.rest(self.course.now()))),
            ControlAction::Probe(disk) if asks => {
                self.with_store(disk, |store, now, out| store.probe(8, now, out));
                self.control.again(action, &mut self.course);
            }
            ControlAction::FaultBegins(index) => self.fault_begins(index),
            ControlAction::FaultEnds(index) => self.fault_ends(index),
            ControlAction::Audit => self.audit(),
            ControlAction::Calm => {
                self.control.calm();
                self.calm = self.done_so_far();
                self.control.again(ControlAction::Seek, &mut self.course);
            }
            ControlAction::Drain => {
                self.calm = self.done_so_far().since(&self.calm);
                self.viewers.end(&mut self.ledger, &mut self.channel, &mut self.course);
                self.command(Command::Drain);
                self.control.drain(&mut self.course);
            }
            ControlAction::StopLate => {
                self.ledger.late_streams().into_iter().for_each(|stream| self.stop(stream));
            }
            ControlAction::Shutdown => {
                self.control.end();
                self.command(Command::Shutdown);
            }
            ControlAction::Arrive
            | ControlAction::Seek
            | ControlAction::Pause
            | ControlAction::Viewer(_)
            | ControlAction::Upload(_)
            | ControlAction::Record(_)
            | ControlAction::RecordAll(_)
            | ControlAction::Probe(_) => {}
        }
    }

    fn command(&mut self, command: Command) {
        self.channel.command(command, &mut self.course);
    }

    /// Begins a new delivery, or the next delivery of a session with its reservation.
    fn arrive(&mut self, session: Option<(ReservationId, u32, BitRate)>) {
        let Some((request, viewing)) = self.control.draw_arrival(session, &self.contents, &mut self.course) else {
            return;
        };
        let rate = request.rate;
        let stream = self.deliver(request);
        self.control.choose_client(stream, rate, viewing, &mut self.course);
    }

    /// Requests a delivery from the plane; returns its number.
    fn deliver(&mut self, request: SimDelivery) -> StreamId {
        let SimDelivery { content: number, segments, rate, burst_bytes, service, viewer, waited } = request;
        let (content, now) = (self.open_content(number), self.course.now());
        let (id, socket) = (self.control.next_stream(), self.contents.descriptor());
        let (held, hold) = match service {
            Service::Constant { held, hold, .. } => (held, hold),
            Service::BestEffort | Service::Beside { .. } => (None, false),
        };
        let requested = RequestedDelivery {
            id,
            fd: socket.as_raw_fd(),
            version: content.version,
            disk: content.disk(),
            rate: (service != Service::BestEffort).then_some(rate),
            burst_bytes,
            hold,
            continues: held.is_some(),
            segments: segments.clone(),
            at: now,
            viewer,
        };
        let receiver = SimSocket::new(self.ledger.socket_bytes(rate), ClientReading::AtRate(line_of(rate)), now);
        self.transfers.handles.give_socket(requested.fd, id.0);
        self.ledger.open(requested, receiver, self.faults.excused_until(self.contents.content(number)));
        let destination = DeliveryDestination::Socket(socket);
        let delivery = Delivery { stream: id, destination, link: LinkId(0), segments, content, service, waited };
        self.command(Command::Start(Box::new(delivery)));
        id
    }

    fn stop(&mut self, stream: u64) {
        if self.ledger.stop(stream, self.course.now()) {
            self.command(Command::Stop(StreamId(stream)));
        }
    }

    /// A viewer with a picture seeks in its content: it opens the new range, and closes the old one.
    fn seek(&mut self) {
        let Some(stream) = self.ledger.pick_viewer(|stream| stream.hold, &mut self.course) else { return };
        let Some(session) = self.ledger.seek(stream) else { return };
        self.arrive(Some(session));
        self.course.schedule_in(Nanos::ZERO, WorldEvent::Client(stream, ClientTurn::Resets));
    }

    /// A viewer with a picture stops reading for a while.
    fn pause(&mut self) {
        let stream = self.ledger.pick_viewer(|_| true, &mut self.course);
        let rate = stream.and_then(|stream| self.ledger.delivery(stream)?.requested.rate);
        if let (Some(stream), Some(rate)) = (stream, rate) {
            self.pauses += 1;
            let lasts = self.course.demand().span(PAUSE.0, PAUSE.1);
            self.course.schedule_in(Nanos::ZERO, WorldEvent::Client(stream, ClientTurn::Stops));
            self.course.schedule_in(lasts, WorldEvent::Client(stream, ClientTurn::Reads(line_of(rate))));
        }
    }

    /// Requests the next segment of each track of a viewer whose player has room for it.
    fn viewer_considers(&mut self, viewer: usize) {
        for track in 0..self.viewers.tracks(viewer) {
            let id = ViewerTrackId { viewer, track };
            let request = self.viewers.consider(id, &mut self.contents, &self.ledger, &mut self.course);
            if let Some(request) = request {
                let stream = self.deliver(request);
                self.viewers.runs(id, stream.0);
            }
        }
    }

    /// Requests a recording of this duration; `None`: of a random one.
    fn reserve(&mut self, disk: usize, lasts: Option<Nanos>) {
        let stream = self.control.next_stream();
        let command = self.writers.draw_recording(stream, disk, lasts, &mut self.course);
        self.command(command);
    }

    fn recording_begins(&mut self, stream: StreamId, reservation: ReservationId, place: RecordingPlace) {
        let parts = self.writers.recording_begins(stream, (reservation, place), &mut self.course);
        for (disk, source) in parts {
            let upload = self.with_store(disk, |store, now, out| store.begin(source, now, out));
            self.writers.part_begins(disk, upload, reservation);
        }
    }

    fn fault_begins(&mut self, index: usize) {
        let begun = self.faults.begin(index, &mut self.course);
        let now = self.course.now();
        match begun.fault {
            Fault::PlaneLate => self.thread.delay(begun.lasts),
            Fault::ReportsFull => self.channel.close_reports(),
            Fault::Truncate { disk } => self.spoil_content(disk, Spoiling::Cut),
            Fault::Rewrite { disk } => self.spoil_content(disk, Spoiling::Rewritten),
            fault => {
                if let Some(disk) = fault.drive() {
                    let side = &mut self.disks[disk];
                    self.faults.apply(disk, side, now);
                    self.faults.excuse(disk, begun, side.audit.promised_share(), now, &mut self.ledger);
                }
            }
        }
    }

    fn spoil_content(&mut self, disk: usize, how: Spoiling) {
        if let Some(version) = self.contents.spoil(disk, how) {
            self.ledger.content_spoilt(version);
        }
    }

    fn fault_ends(&mut self, index: usize) {
        let (fault, now) = (self.faults.end(index, &mut self.course), self.course.now());
        if let Some(disk) = fault.drive() {
            self.faults.apply(disk, &mut self.disks[disk], now);
        } else if fault == Fault::ReportsFull {
            self.channel.open_reports(now);
        }
    }

    fn audit(&mut self) {
        self.ledger.audit(AUDIT, self.thread.is_delayed(), &self.channel, &mut self.course);
        for (number, disk) in self.disks.iter_mut().enumerate() {
            let excused = self.faults.disk_is_excused(number, self.course.now());
            disk.audit(AUDIT, excused, &mut self.course);
        }
        if !self.control.has_ended() {
            self.course.act_in(AUDIT, ControlAction::Audit);
        }
    }

    fn done_so_far(&mut self) -> Calm {
        let now = self.course.now();
        let spent = self.disks.iter_mut().fold(Spent::default(), |sum, disk| sum.and(&disk.spent(now)));
        Calm { spent, writes: self.writers.tally() }
    }

    /// Handles the reports of the plane.
    pub(crate) fn read_reports(&mut self) {
        while let Some(report) = self.channel.take_report(&mut self.course) {
            match report {
                Report::Started { stream, reservation } => {
                    self.ledger.started(stream, reservation, &mut self.course);
                    let viewer = self.ledger.delivery(stream.0).and_then(LedgerEntry::watching);
                    viewer.into_iter().for_each(|id| self.viewer_considers(id.viewer));
                }
                Report::Refused { delivery, .. } => self.comes_back(&delivery, None),
                Report::Finished { delivery, end } => self.comes_back(&delivery, Some(&end)),
                Report::Reserved { stream, reservation, place } => self.recording_begins(stream, reservation, place),
                Report::ReserveRefused { stream, .. } => self.writers.recording_refused(stream, &mut self.course),
                Report::Posted { stream } => unreachable!("{stream:?}: simulated deliveries go to sockets"),
                Report::Unused(content) => drop(content),
                Report::Kept(stored) => drop(stored),
                Report::Profiled { profile, .. } => drop(profile),
                Report::Event(event) => self.event(event),
            }
        }
    }

    fn event(&mut self, event: News) {
        self.events += 1;
        match event {
            News::Miss { stream, late } => {
                self.ledger.judge_miss(stream.0, late, &self.channel, &mut self.course);
            }
            News::DiskFailing { disk, hung }
                if !self.faults.disk_is_excused(usize::from(disk.0), self.course.now()) =>
            {
                let what = if hung { "does not answer" } else { "errs" };
                self.course.broke(Law::EveryEndHasAReason, format!("{disk:?} is reported, it {what}, and it works"));
            }
            _ => {}
        }
    }

    /// Handles the end of a delivery; without `end`, its refusal.
    fn comes_back(&mut self, delivery: &Delivery, end: Option<&Ending>) {
        let socket = delivery.destination.socket().expect("simulated deliveries go to sockets");
        let (stream, fd) = (delivery.stream, socket.as_raw_fd());
        let Some(mut record) = self.ledger.close((stream, fd), end, &mut self.course) else { return };
        self.course.judge(self.transfers.handles.socket_returned(fd, stream.0));
        if record.requested.viewer.is_none() {
            self.control.delivery_over();
        }
        self.ledger.judge_end(&record, end, &self.channel, &mut self.course);
        if let Some(id) = record.watching() {
            let over = (&mut record, end);
            let (ledger, channel) = (&mut self.ledger, &mut self.channel);
            if self.viewers.delivery_over(id, over, self.control.asks(), ledger, channel, &mut self.course) {
                self.viewer_considers(id.viewer);
            }
        } else if let Some(session) = end.and_then(|end| record.session(end)) {
            // The viewer requests more after a while, or leaves, and its reservation is given back.
            if !self.control.continue_session(session, &mut self.course) {
                self.command(Command::Release(session.0));
            }
        }
    }

    /// Checks after the end of the plane that it has returned all deliveries.
    pub(crate) fn finish(&mut self) {
        self.read_reports();
        if !self.control.has_ended() {
            self.course.broke(Law::EveryEndHasAReason, "the plane ended without a drain");
        }
        self.ledger.judge_last(&mut self.course);
    }

    pub(crate) fn tally(&self) -> Tally {
        Tally {
            deliveries: self.ledger.tally(),
            writes: self.writers.tally(),
            disks: self
                .disks
                .iter()
                .map(|disk| disk.audit.tally())
                .fold(DiskTally::default(), |sum, disk| sum.and(&disk)),
            pauses: self.pauses,
            events: self.events,
            calm: self.calm,
        }
    }
}
