//! Each law is watched: for each there is a world, or a plane, that breaks it, and it is that law which says so.
//!
//! A broken plane is the real one with spoilt calls to the world.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use content::Content;
use content::layout::FileAccess;
use dataplane::control::{Command, Outcome, Report, Service};
use dataplane::gauges::Gauges;
use dataplane::outlet::Outlet;
use dataplane::port::{Completion, FileSlot, Io, MemoryChange, ReadRequest, SendRequest, SocketSlot, Span, Token};
use dataplane::{Plane, PlaneConfig};
use sim::drive::DriveProfile;
use sim::{Fault, FaultAt, Law, Scenario, SegmentViewers, SimIo, Trace};
use storage::grant::{Grant, GrantDone, Offer, StoreMessage, WorkClass};
use units::{BitRate, Nanos};

const SECS: fn(u64) -> Nanos = Nanos::from_secs;

/// Kind of a spoilt call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wrong {
    Nothing,
    /// A send names the bytes behind those it should.
    SendsOtherBytes,
    /// Two reads go to one place.
    ReadsIntoOnePlace,
    /// Time goes a quarter faster for the plane than for its clients.
    ClockRunsFast,
    /// The link counts as a hundred times as wide as it is.
    TakesLinkForWide,
    /// A read names a file that is not open.
    ReadsClosedFiles,
    /// Deliveries come back for a reason they have not.
    GivesWrongReasons,
    /// From half a minute on, no offer of best-effort work is heard.
    HearsNoBestEffort,
    /// Offers of best-effort work are heard a second late.
    HearsBestEffortLate,
    /// Every grant is given twice.
    GrantsTwice,
    /// From half a minute on, a grant is taken for used up when it was just given.
    ForgetsGrants,
    /// Nothing is waited for.
    NeverWaits,
    /// Starts are looked at a minute late.
    LooksAtStartsLate,
    /// Of each ten that ask, the latest is admitted first.
    AdmitsInReverse,
    /// No offer of a recording is heard.
    HearsNoRecordings,
    /// The reservation of a session is neither used for its next content nor released.
    ForgetsSessions,
    /// Something asserts.
    Panics,
}

struct Spoilt {
    io: SimIo,
    wrong: Wrong,
    begun: Nanos,
    reads: Vec<Span>,
    done: VecDeque<StoreMessage>,
    starts: VecDeque<(Nanos, Command)>,
    reversed: Vec<Command>,
    late: VecDeque<(Nanos, StoreMessage)>,
    /// A forgotten grant is out, and those that are given when it is not.
    forgotten: bool,
    held: VecDeque<Grant>,
}

impl Spoilt {
    /// By now streams run, and the disk is busy.
    fn is_late(&mut self) -> bool {
        self.io.now() > self.begun.saturating_add(SECS(30))
    }

    /// The next command; of those that start the first ninety streams each two in reverse.
    fn reversed_command(&mut self) -> Option<Command> {
        while !matches!(self.starts.front(), Some((Nanos::ZERO, _))) {
            let command = self.io.command()?;
            if !matches!(&command, Command::Start(delivery) if delivery.stream.0 <= 90) {
                return Some(command);
            }
            self.reversed.push(command);
            if self.reversed.len() == 10 {
                self.starts.extend(self.reversed.drain(..).rev().map(|command| (Nanos::ZERO, command)));
            }
        }
        self.starts.pop_front().map(|(_, command)| command)
    }

    fn slower(&self, now: Nanos) -> Nanos {
        let begun = self.begun.0;
        Nanos(begun + now.0.saturating_sub(begun) / 5 * 4)
    }
}

impl Io for Spoilt {
    fn now(&mut self) -> Nanos {
        let now = self.io.now();
        if self.wrong == Wrong::ClockRunsFast { Nanos(now.0 + (now.0 - self.begun.0) / 4) } else { now }
    }
    fn processor_time(&mut self) -> Nanos {
        self.io.processor_time()
    }
    fn chunk_count(&self) -> u32 {
        self.io.chunk_count()
    }
    fn change_memory(&mut self, token: Token, change: MemoryChange) {
        self.io.change_memory(token, change);
    }
    fn open_file(&mut self, slot: FileSlot, file: &OwnedFd, access: FileAccess) {
        self.io.open_file(slot, file, access);
    }
    fn close_file(&mut self, slot: FileSlot) {
        self.io.close_file(slot);
    }
    fn open_socket(&mut self, slot: SocketSlot, socket: &OwnedFd) {
        self.io.open_socket(slot, socket);
    }
    fn open_outlet(&mut self, slot: SocketSlot, outlet: &Arc<Outlet>) {
        self.io.open_outlet(slot, outlet);
    }
    fn close_socket(&mut self, slot: SocketSlot) {
        self.io.close_socket(slot);
    }
    fn fill(&mut self, memory: Span, bytes: &[u8]) {
        self.io.fill(memory, bytes);
    }
    fn read(&mut self, mut request: ReadRequest) {
        assert!(self.wrong != Wrong::Panics, "on purpose");
        if self.wrong == Wrong::ReadsIntoOnePlace {
            request.memory = self.reads.first().copied().unwrap_or(request.memory);
            self.reads.push(request.memory);
        }
        if self.wrong == Wrong::ReadsClosedFiles {
            request.file = FileSlot(u32::MAX);
        }
        self.io.read(request);
    }
    fn verify(&mut self, token: Token, content: &Arc<Content>, offset: u64, memory: Span) {
        self.io.verify(token, content, offset, memory);
    }
    fn send(&mut self, mut request: SendRequest) {
        if self.wrong == Wrong::SendsOtherBytes && request.memory.length > 2 * 4096 {
            request.memory.offset += 4096;
            request.memory.length -= 4096;
        }
        self.io.send(request);
    }
    fn await_room(&mut self, token: Token, socket: SocketSlot) {
        self.io.await_room(token, socket);
    }
    fn cancel_send(&mut self, token: Token, socket: SocketSlot) {
        self.io.cancel_send(token, socket);
    }
    fn grant(&mut self, grant: Grant) {
        // One is out at a time, so that only reads run with it.
        if self.forgotten {
            return self.held.push_back(grant);
        }
        self.io.grant(grant);
        let late = self.is_late();
        match self.wrong {
            Wrong::GrantsTwice => self.io.grant(grant),
            Wrong::ForgetsGrants if late => {
                self.forgotten = true;
                let (disk, job, started) = (grant.disk, grant.job, self.io.now());
                let (bytes, ready_bytes, position) = (0, 0, u64::MAX);
                let done = GrantDone { disk, job, bytes, started, ended: started, ok: true, ready_bytes, position };
                self.done.push_back(StoreMessage::Done(done));
            }
            _ => {}
        }
    }
    fn store_message(&mut self) -> Option<StoreMessage> {
        if let Some(done) = self.done.pop_front() {
            return Some(done);
        }
        let best_effort = |offer: &Offer| offer.class == WorkClass::BestEffort;
        let now = self.io.now();
        if let Some((_, message)) = self.late.pop_front_if(|(at, _)| *at <= now) {
            return Some(message);
        }
        let late = self.is_late();
        let deaf = self.wrong == Wrong::HearsNoBestEffort && late;
        loop {
            match self.io.store_message()? {
                StoreMessage::Offer(offer) if self.wrong == Wrong::HearsBestEffortLate && best_effort(&offer) => {
                    self.late.push_back((now.saturating_add(SECS(1)), StoreMessage::Offer(offer)));
                }
                StoreMessage::Offer(offer) if deaf && best_effort(&offer) => {}
                StoreMessage::Offer(offer) if self.wrong == Wrong::HearsNoRecordings && !best_effort(&offer) => {}
                StoreMessage::Done(_) if self.forgotten => {
                    self.forgotten = false;
                    if let Some(grant) = self.held.pop_front() {
                        self.grant(grant);
                    }
                }
                message => return Some(message),
            }
        }
    }
    fn command(&mut self) -> Option<Command> {
        if self.wrong == Wrong::AdmitsInReverse {
            return self.reversed_command();
        }
        let now = self.io.now();
        while let Some(mut command) = self.io.command() {
            if let (Wrong::ForgetsSessions, Command::Start(delivery)) = (self.wrong, &mut command)
                && let Service::Constant { held, .. } = &mut delivery.service
            {
                *held = None;
            }
            if self.wrong == Wrong::ForgetsSessions && matches!(command, Command::Release(_)) {
                continue;
            }
            if self.wrong != Wrong::LooksAtStartsLate || !matches!(command, Command::Start(_)) {
                return Some(command);
            }
            self.starts.push_back((now.saturating_add(SECS(60)), command));
        }
        self.starts.pop_front_if(|(at, _)| *at <= now).map(|(_, command)| command)
    }
    fn report(&mut self, mut report: Report) -> Result<(), Report> {
        if let (Wrong::GivesWrongReasons, Report::Finished { end, .. }) = (self.wrong, &mut report) {
            end.outcome = Outcome::ClientGone;
        }
        self.io.report(report)
    }
    fn wait(&mut self, until: Nanos, completions: &mut Vec<Completion>) {
        let until = match self.wrong {
            Wrong::NeverWaits => Nanos::ZERO,
            Wrong::ClockRunsFast => self.slower(until),
            _ => until,
        };
        self.reads.clear();
        self.io.wait(until, completions);
    }
}

/// The law that a plane breaks that is spoilt so.
fn broken(scenario: &Scenario, wrong: Wrong) -> Option<Law> {
    let report = sim::run_with(scenario, Trace::Off, |mut io, machine| {
        let config = PlaneConfig {
            tick: scenario.tick,
            round: scenario.round,
            be_share: scenario.be_share,
            streams_max: scenario.load.deliveries_max() + 4,
            ..PlaneConfig::default()
        };
        let gauges = Arc::new(Gauges::new(config.streams_max, machine.profiles.len()));
        let begun = io.now();
        let spoilt = Spoilt {
            io,
            wrong,
            begun,
            reads: Vec::new(),
            done: VecDeque::new(),
            starts: VecDeque::new(),
            reversed: Vec::new(),
            late: VecDeque::new(),
            forgotten: false,
            held: VecDeque::new(),
        };
        let wider = if wrong == Wrong::TakesLinkForWide { 100 } else { 1 };
        let link = BitRate(scenario.link.0 * wider);
        let mut plane = Plane::new(config, machine.profiles.clone(), &[link], gauges, spoilt);
        move || plane.turn()
    });
    report.broken.map(|broken| broken.law)
}

/// Streams, uploads and a recording on one disk.
fn lively(profile: DriveProfile, streams: u32) -> Scenario {
    let mut scenario = Scenario::steady(1, profile, 1 << 30, BitRate(8_800_000), streams);
    scenario.be_share = 0.1;
    scenario.load.arrivals = Nanos::from_millis(100);
    scenario.load.viewing = (SECS(5), SECS(40));
    scenario.load.uploads.uploaders = 1;
    scenario.load.recordings.apart = SECS(5);
    scenario
}

/// The same without uploads and recordings.
fn quiet(profile: DriveProfile, streams: u32) -> Scenario {
    let mut scenario = lively(profile, streams);
    scenario.load.uploads.uploaders = 0;
    scenario.load.recordings.apart = Nanos::ZERO;
    scenario
}

/// A full disk that becomes half as fast again as it was promised.
fn too_slow() -> Scenario {
    let mut scenario = Scenario::steady(1, DriveProfile::Desktop, 3 << 30, BitRate(8_800_000), 120);
    scenario.load.arrivals = Nanos::from_millis(250);
    scenario.load.viewing = (SECS(200), SECS(220));
    scenario.safety = SECS(110);
    scenario.faults = vec![FaultAt { at: SECS(45), lasts: SECS(60), fault: Fault::Slow { disk: 0, factor: 1.5 } }];
    scenario
}

#[test]
fn the_plane_as_it_is_breaks_no_law_in_these_worlds() {
    for scenario in [
        lively(DriveProfile::Desktop, 30),
        lively(DriveProfile::SsdSata, 30),
        lively(DriveProfile::Desktop, 150),
        too_slow(),
    ] {
        assert_eq!(broken(&scenario, Wrong::Nothing), None);
    }
}

#[test]
fn each_law_has_a_plane_that_breaks_it() {
    // Bulk reads without end leave the disk no idle time.
    let mut full = lively(DriveProfile::Desktop, 60);
    full.load.best_effort_share = 0.8;
    full.load.viewing = (SECS(100), SECS(120));
    full.load.recordings.apart = Nanos::ZERO;
    // One that may be durable late has the longest buffer, and is over that before anything else.
    let mut late = lively(DriveProfile::Desktop, 5);
    (late.load.recordings.apart, late.load.recordings.recorded, late.load.recordings.durable) =
        (Nanos::ZERO, 1, SECS(3600));
    let mut narrow = quiet(DriveProfile::SsdSata, 5);
    (narrow.link, narrow.load.burst_max) = (BitRate(50_000_000), SECS(4));
    let mut segments = quiet(DriveProfile::Desktop, 0);
    segments.load.segments = vec![SegmentViewers::of_hls(40)];
    let cases = [
        (Law::NeverWrongBytes, Wrong::SendsOtherBytes, quiet(DriveProfile::Desktop, 5)),
        (Law::OneOwner, Wrong::ReadsIntoOnePlace, quiet(DriveProfile::SsdSata, 50)),
        (Law::BoundedCatchUp, Wrong::ClockRunsFast, quiet(DriveProfile::SsdSata, 5)),
        (Law::LinkCarries, Wrong::TakesLinkForWide, narrow),
        (Law::OncePerRequest, Wrong::ReadsClosedFiles, quiet(DriveProfile::Desktop, 5)),
        (Law::EveryEndHasAReason, Wrong::GivesWrongReasons, quiet(DriveProfile::Desktop, 5)),
        (Law::BestEffortLives, Wrong::HearsNoBestEffort, full),
        (Law::NeverIdle, Wrong::HearsBestEffortLate, lively(DriveProfile::Desktop, 5)),
        (Law::QueueBounds, Wrong::GrantsTwice, lively(DriveProfile::Desktop, 5)),
        (Law::GrantsExclude, Wrong::ForgetsGrants, lively(DriveProfile::Desktop, 60)),
        (Law::NoSpinning, Wrong::NeverWaits, quiet(DriveProfile::Desktop, 5)),
        (Law::StartsInTime, Wrong::LooksAtStartsLate, quiet(DriveProfile::Desktop, 5)),
        (Law::RecordingInTime, Wrong::HearsNoRecordings, late),
        (Law::DurableInTime, Wrong::HearsNoRecordings, lively(DriveProfile::Desktop, 5)),
        (Law::YoungestFirst, Wrong::AdmitsInReverse, too_slow()),
        (Law::SessionKeepsRate, Wrong::ForgetsSessions, segments),
        (Law::NoPanic, Wrong::Panics, quiet(DriveProfile::Desktop, 5)),
    ];
    for (law, wrong, scenario) in &cases {
        assert_eq!(broken(scenario, *wrong), Some(*law), "{wrong:?}");
    }
    // The disk four times slower than its profile for admission: the canary that each range of seeds begins with.
    assert_eq!(broken(&Scenario::canary(), Wrong::Nothing), Some(Law::EveryDeadline));
    let mut watched: Vec<usize> = cases.iter().map(|(law, ..)| *law).chain([Law::EveryDeadline]).map(number).collect();
    watched.sort_unstable();
    assert_eq!(watched, (0..LAWS).collect::<Vec<_>>(), "each law once");
}

const LAWS: usize = 18;

/// The laws in order: a new one does not compile until it is counted here, and then needs a case above.
fn number(law: Law) -> usize {
    match law {
        Law::NeverWrongBytes => 0,
        Law::OneOwner => 1,
        Law::EveryDeadline => 2,
        Law::BoundedCatchUp => 3,
        Law::LinkCarries => 4,
        Law::OncePerRequest => 5,
        Law::EveryEndHasAReason => 6,
        Law::BestEffortLives => 7,
        Law::NeverIdle => 8,
        Law::QueueBounds => 9,
        Law::GrantsExclude => 10,
        Law::NoSpinning => 11,
        Law::StartsInTime => 12,
        Law::RecordingInTime => 13,
        Law::YoungestFirst => 14,
        Law::DurableInTime => 15,
        Law::SessionKeepsRate => 16,
        Law::NoPanic => LAWS - 1,
    }
}
