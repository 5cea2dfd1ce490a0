//! The control side of a run: it draws the deliveries that arrive and how their clients read, and says how far the run is.
//!
//! Not here: viewers of segments (`viewers`), uploads and recordings (`writers`), faults (`faults`), its actions in the world (`world`).

use std::sync::Arc;

use content::Segment;
use dataplane::control::Service;
use units::{BitRate, Nanos, ReservationId, StreamId};

use crate::contents::{SimContents, segments};
use crate::course::Course;
use crate::events::{ClientTurn, ControlAction, ViewerTrackId, WorldEvent};
use crate::faults::RunFaults;
use crate::load::{Load, PAUSE, Popularity};
use crate::random::Random;

/// How often every running delivery is looked at.
pub(crate) const AUDIT: Nanos = Nanos::from_millis(500);
/// Interval between the begins of recordings that continue to the end: all cameras come back after a power cut.
const RECORDED_APART: Nanos = Nanos::from_millis(7);
/// Deliveries still stuck this long before the shutdown get the order to end.
const END_GRACE: Nanos = Nanos::from_secs(6);

/// Terms of a delivery that the control side asks for.
#[derive(Debug)]
pub(crate) struct SimDelivery {
    /// The content's number.
    pub(crate) content: u32,
    pub(crate) segments: Arc<[Segment]>,
    /// At which its client reads at least, best effort or not.
    pub(crate) rate: BitRate,
    pub(crate) burst_bytes: u64,
    pub(crate) service: Service,
    pub(crate) viewer: Option<ViewerTrackId>,
    pub(crate) waited: Nanos,
}

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum RunStage {
    /// There may be faults.
    Faults,
    /// There are none any more.
    Calm,
    /// Nothing is asked for any more.
    Draining,
    Ended,
}

/// The control side's state.
#[derive(Debug)]
pub(crate) struct ControlSide {
    load: Load,
    disks: usize,
    /// When faults are over, and when the run asks for nothing more.
    safety: Nanos,
    end: Nanos,
    stage: RunStage,
    next_stream: u64,
    /// Deliveries that arrived and run.
    running: usize,
}

impl ControlSide {
    pub(crate) fn new(load: Load, disks: usize, safety: Nanos, liveness: Nanos) -> Self {
        let end = safety.saturating_add(liveness);
        Self { load, disks, safety, end, stage: RunStage::Faults, next_stream: 1, running: 0 }
    }

    /// Schedules the first actions.
    pub(crate) fn begin(&self, faults: &RunFaults, course: &mut Course) {
        course.act_in(Nanos::ZERO, ControlAction::Arrive);
        course.act_in(AUDIT, ControlAction::Audit);
        course.act_in(self.safety, ControlAction::Calm);
        course.act_in(self.end, ControlAction::Drain);
        faults.schedule(course);
        for disk in 0..self.disks {
            for _ in 0..self.load.uploads.uploaders {
                let gap = course.demand().wait(self.load.uploads.gap);
                course.act_in(gap, ControlAction::Upload(disk));
            }
            for nth in 0..self.load.recordings.recorded {
                course.act_in(RECORDED_APART.saturating_mul(u64::from(nth)), ControlAction::RecordAll(disk));
            }
            self.again(ControlAction::Record(disk), course);
            self.again(ControlAction::Probe(disk), course);
        }
        self.again(ControlAction::Pause, course);
    }

    /// Schedules an action that comes again and again.
    pub(crate) fn again(&self, action: ControlAction, course: &mut Course) {
        let mean = match action {
            ControlAction::Arrive => self.load.arrivals,
            ControlAction::Seek => self.load.seeks,
            ControlAction::Pause => self.load.pauses,
            ControlAction::Record(_) => self.load.recordings.apart,
            ControlAction::Probe(_) => self.load.probes,
            _ => Nanos::ZERO,
        };
        if mean > Nanos::ZERO {
            let span = course.demand().wait(mean);
            course.act_in(span, action);
        }
    }

    /// Faults are over.
    pub(crate) fn calm(&mut self) {
        self.stage = RunStage::Calm;
    }

    /// Nothing is asked for any more: viewings end by themselves, and deliveries of a vanished client are stopped.
    pub(crate) fn drain(&mut self, course: &mut Course) {
        self.stage = RunStage::Draining;
        let longest = self.load.viewing_max().saturating_mul(2).saturating_add(Nanos::from_secs(10));
        course.act_in(longest, ControlAction::Shutdown);
        course.act_in(longest.saturating_sub(END_GRACE), ControlAction::StopLate);
    }

    pub(crate) fn end(&mut self) {
        self.stage = RunStage::Ended;
    }

    /// True until nothing is asked for any more.
    pub(crate) fn asks(&self) -> bool {
        self.stage < RunStage::Draining
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.stage == RunStage::Ended
    }

    /// Time until nothing is asked for any more.
    pub(crate) fn rest(&self, now: Nanos) -> Nanos {
        self.end.saturating_sub(now)
    }

    /// The number of the next delivery or recording.
    pub(crate) fn next_stream(&mut self) -> StreamId {
        self.next_stream += 1;
        StreamId(self.next_stream - 1)
    }

    /// True if another delivery may arrive.
    pub(crate) fn has_room(&self) -> bool {
        self.running < self.load.streams_max
    }

    /// One of those that arrived is over.
    pub(crate) fn delivery_over(&mut self) {
        self.running -= 1;
    }

    /// Draws a new delivery, or the next one of a session with its reservation, and how long its viewer watches.
    pub(crate) fn draw_arrival(
        &self,
        session: Option<(ReservationId, u32, BitRate)>,
        contents: &SimContents,
        course: &mut Course,
    ) -> Option<(SimDelivery, Nanos)> {
        let (random, load) = (course.demand(), &self.load);
        let per_disk = u64::from(load.contents.per_disk);
        let last = per_disk * self.disks as u64;
        let drawn = match load.contents.popularity {
            Popularity::Favourites => random.below(last).min(random.below(last)),
            Popularity::Zipf => on_disks_in_turn(zipf(random, last), per_disk, last),
            Popularity::Even => on_disks_in_turn(self.next_stream, per_disk, last),
        };
        // A session continues with its content.
        let number = session.map_or(u32::try_from(drawn).expect("few contents"), |s| s.1);
        let content = contents.content(number);
        if !content.is_whole() {
            return None; // No viewer asks for a content that is known to be broken.
        }
        let rate = session.map_or(*random.pick(&load.rates), |s| s.2);
        let best_effort = session.is_none() && random.chance(load.best_effort_share);
        let hold = !best_effort && random.chance(load.hold_share);
        let viewing = random.span(load.viewing.0, load.viewing.1);
        let segments = segments(random, content.size(), rate.bytes_in(viewing), load.ranges_share);
        let burst_bytes = if random.chance(0.5) { rate.bytes_in(Nanos(random.below(load.burst_max.0 + 1))) } else { 0 };
        let service = if best_effort {
            Service::BestEffort
        } else {
            Service::Constant { rate, burst_bytes, held: session.map(|s| s.0), hold }
        };
        let (viewer, waited) = (None, Nanos::ZERO);
        Some((SimDelivery { content: number, segments, rate, burst_bytes, service, viewer, waited }, viewing))
    }

    /// A delivery has arrived: some clients do not read as they should, and some are stopped.
    pub(crate) fn choose_client(&mut self, stream: StreamId, rate: BitRate, viewing: Nanos, course: &mut Course) {
        self.running += 1;
        let (random, load) = (course.demand(), &self.load);
        let shares = [load.slow_share, load.pause_share, load.vanish_share, load.reset_share];
        let mut draw = random.fraction();
        let kind = shares.iter().position(|share| {
            draw -= share;
            draw < 0.0
        });
        if self.stage == RunStage::Faults {
            let at = random.span(Nanos::ZERO, viewing);
            let pause = random.span(PAUSE.0, PAUSE.1);
            let turns: &[(Nanos, ClientTurn)] = match kind {
                Some(0) => &[(Nanos::ZERO, ClientTurn::Reads(BitRate(rate.0 / 2)))],
                Some(1) => &[(at, ClientTurn::Stops), (at.saturating_add(pause), ClientTurn::Reads(line_of(rate)))],
                Some(2) => &[(at, ClientTurn::Stops)],
                Some(3) => &[(at, ClientTurn::Resets)],
                _ => &[],
            };
            for (span, turn) in turns {
                course.schedule_in(*span, WorldEvent::Client(stream.0, *turn));
            }
        }
        if course.demand().chance(load.stop_share) {
            let span = course.demand().span(Nanos::ZERO, viewing);
            course.act_in(span, ControlAction::Stop(stream.0));
        }
    }

    /// The viewer of an ended delivery asks for more after a while, and keeps its reservation; or is gone.
    pub(crate) fn continue_session(&self, session: (ReservationId, u32, BitRate), course: &mut Course) -> bool {
        let span = course.demand().span(Nanos::ZERO, Nanos::from_secs(5));
        let goes_on = course.demand().chance(0.7) && self.asks();
        if goes_on {
            course.act_in(span, ControlAction::Again(session.0, session.1, session.2));
        }
        goes_on
    }
}

/// How fast a client reads that keeps up with this rate.
pub(crate) fn line_of(rate: BitRate) -> BitRate {
    BitRate((rate.0 * 8).max(100_000_000))
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
