//! One run: a world is made of a scenario, a plane is put into it, and both run until the end or a broken law.
//!
//! Promise: ends for every scenario; a panic of the plane is a broken law like any other, and is reported with the seed.
//! Not here: the choice of the plane (the caller starts it), the conditions checked (`laws`, `ledger`, `audit`).

use std::cell::RefCell;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

use dataplane::gauges::Gauges;
use dataplane::{Plane, PlaneConfig};
use schedule::disk::BULK_PIECES;
use schedule::profile::DiskProfile;
use units::{Nanos, limits};

use crate::drive::Drive;
use crate::io::SimIo;
use crate::laws::{BrokenLaw, Law};
use crate::log::Trace;
use crate::measure::measure;
use crate::random::Random;
use crate::scenario::Scenario;
use crate::tally::Tally;
use crate::viewers::ViewersTally;
use crate::world::World;

/// Virtual time after which a run that does not end is ended: the phases, the longest viewings, and this.
const GRACE: Nanos = Nanos::from_secs(300);
/// Places in the delivery table in addition to those of the load: so that now and then it is full.
const STREAMS_BESIDE: usize = 4;

/// The machine as the plane receives it.
#[derive(Debug)]
pub struct SimMachine<'a> {
    /// The scenario.
    pub scenario: &'a Scenario,
    /// Each disk's profile, as measured.
    pub profiles: Vec<DiskProfile>,
}

/// Results of a run.
#[derive(Debug, Clone)]
pub struct RunReport {
    /// The seed.
    pub seed: u64,
    /// Hash of all events: equal for equal runs.
    pub hash: u64,
    /// How many there were.
    pub events: u64,
    /// Virtual time at the end.
    pub ended: Nanos,
    /// Figures.
    pub tally: Tally,
    /// Times from a command to the first payload byte, of guaranteed deliveries without an excuse, ascending.
    pub first_bytes: Vec<Nanos>,
    /// Figures of the viewers of segments.
    pub viewers: ViewersTally,
    /// The law that was broken, if one was.
    pub broken: Option<BrokenLaw>,
    /// The last events before, if they were kept.
    pub tail: Vec<String>,
}

/// Runs `scenario` with the data plane.
///
/// # Panics
/// As [`run_with`].
#[must_use]
pub fn run(scenario: &Scenario, trace: Trace) -> RunReport {
    run_with(scenario, trace, |io, machine| {
        let config = PlaneConfig {
            tick: scenario.tick,
            round: scenario.round,
            be_share: scenario.be_share,
            survive_disk_loss: scenario.survive_disk_loss,
            stall_max: scenario.stall_max,
            streams_max: (scenario.load.deliveries_max()
                + scenario.load.recordings.recorded as usize * machine.profiles.len()
                + STREAMS_BESIDE)
                .min(limits::STREAMS_MAX),
            ..PlaneConfig::default()
        };
        let gauges = Arc::new(Gauges::new(config.streams_max, machine.profiles.len()));
        let mut plane = Plane::new(config, machine.profiles.clone(), &[scenario.link], gauges, io);
        move || plane.turn()
    })
}

/// Runs `scenario` with the plane that `start` makes; the plane is a closure that does one step and returns whether it
/// continues.
///
/// # Panics
/// If `/dev/null` cannot be opened or descriptors run out: the types of the port hold real ones.
pub fn run_with<Step>(
    scenario: &Scenario,
    trace: Trace,
    start: impl FnOnce(SimIo, &SimMachine<'_>) -> Step,
) -> RunReport
where
    Step: FnMut() -> bool,
{
    let machine = SimMachine { scenario, profiles: profiles(scenario) };
    let world = Rc::new(RefCell::new(world(scenario, &machine.profiles, trace)));
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut step = start(SimIo(Rc::clone(&world)), &machine);
        while goes_on(&world, scenario) && step() {}
    }));
    let mut world = world.borrow_mut();
    if let Err(panic) = outcome {
        world.course.broke(Law::NoPanic, panic_text(panic.as_ref()));
    }
    world.finish();
    let history = world.course.history();
    RunReport {
        seed: scenario.seed,
        hash: history.hash(),
        events: history.events(),
        ended: world.course.now(),
        tally: world.tally(),
        first_bytes: world.ledger.first_bytes(),
        viewers: world.viewers.tally().clone(),
        broken: world.course.broken().cloned(),
        tail: history.tail(),
    }
}

/// Whether the run is still of interest.
fn goes_on(world: &RefCell<World>, scenario: &Scenario) -> bool {
    let World { course, thread, .. } = &mut *world.borrow_mut();
    let longest = scenario.load.viewing_max().saturating_mul(2);
    let end = scenario.safety.saturating_add(scenario.liveness).saturating_add(longest).saturating_add(GRACE);
    if course.now() > end {
        course.broke(Law::EveryEndHasAReason, "the plane does not end after its drain");
    }
    thread.judge_spinning(course);
    course.broken().is_none()
}

/// Measured profile of each disk, which differs from its parameters. Drives of the same kind measure the same.
fn profiles(scenario: &Scenario) -> Vec<DiskProfile> {
    thread_local! {
        static MEASURED: RefCell<Vec<(crate::drive::Parameters, DiskProfile)>> = const { RefCell::new(Vec::new()) };
    }
    let measured = |parameters: &crate::drive::Parameters| {
        MEASURED.with_borrow_mut(|known| {
            if let Some((_, profile)) = known.iter().find(|(p, _)| p == parameters) {
                return profile.clone();
            }
            let profile = measure(Drive::new(parameters.clone(), 1).expect("scenarios have consistent drives"));
            // A handful of kinds; more come only from a caller that makes them up.
            if known.len() < 64 {
                known.push((parameters.clone(), profile.clone()));
            }
            profile
        })
    };
    scenario.disks.iter().map(|d| d.profile.clone().unwrap_or_else(|| measured(&d.parameters))).collect()
}

fn world(scenario: &Scenario, profiles: &[DiskProfile], trace: Trace) -> World {
    let mut random = Random::new(scenario.seed ^ 0x5eed_0fa1_1c4a_0ce5);
    let null: OwnedFd = File::options().read(true).write(true).open("/dev/null").expect("/dev/null opens").into();
    let drives = scenario.disks.iter().zip(profiles).map(|(setup, profile)| {
        let mut drive =
            Drive::new(setup.parameters.clone(), random.number()).expect("scenarios have consistent drives");
        drive.set_slow(setup.slower, Nanos::ZERO);
        let bulk = if profile.rotational { BULK_PIECES } else { 0 };
        (drive, usize::try_from(profile.queue_depth.max(bulk)).unwrap_or(usize::MAX))
    });
    let drives = drives.collect();
    World::new(scenario, drives, null, random, trace)
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without a text").to_owned()
}

#[cfg(test)]
mod tests {
    use dataplane::control::{Command, Refusal, Report as Told, Resource};
    use dataplane::port::{COMPLETIONS_MAX, Io};
    use units::BitRate;

    use super::*;

    /// Fault of the toy.
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Wrong {
        Nothing,
        Forgets,
        Spins,
        Panics,
    }

    /// A plane that refuses everybody: the least that keeps the port's contract.
    fn refuse_all(mut io: SimIo, wrong: Wrong) -> impl FnMut() -> bool {
        let mut completions = Vec::with_capacity(COMPLETIONS_MAX);
        let refusal = Refusal { resource: Resource::Table, grantable: BitRate(0) };
        move || {
            while let Some(command) = io.command() {
                let told = match command {
                    Command::Start(_) if wrong == Wrong::Forgets => continue,
                    Command::Start(_) if wrong == Wrong::Panics => panic!("on purpose"),
                    Command::Start(delivery) => Told::Refused { delivery, refusal },
                    Command::Reserve(request) => Told::ReserveRefused { stream: request.stream, refusal },
                    Command::Shutdown => return false,
                    Command::Stop(_)
                    | Command::Release(_)
                    | Command::Drain
                    | Command::Keep(_)
                    | Command::SetStall(_)
                    | Command::SetLink { .. }
                    | Command::SetProfile(_) => continue,
                };
                assert!(io.report(told).is_ok(), "there is room");
            }
            while io.store_message().is_some() {}
            let until =
                if wrong == Wrong::Spins { Nanos::ZERO } else { io.now().saturating_add(Nanos::from_millis(50)) };
            io.wait(until, &mut completions);
            assert!(completions.is_empty(), "nothing was asked for");
            true
        }
    }

    fn run(wrong: Wrong, uploaders: u32) -> RunReport {
        let mut scenario = Scenario::draw(3);
        scenario.faults.clear();
        scenario.be_share = 0.1;
        scenario.load.uploads.uploaders = uploaders;
        scenario.load.recordings.apart = Nanos::ZERO;
        scenario.load.recordings.recorded = 0;
        scenario.load.probes = Nanos::ZERO;
        run_with(&scenario, Trace::Tail, |io, _| refuse_all(io, wrong))
    }

    #[test]
    fn a_plane_that_refuses_everybody_breaks_no_law_until_there_are_uploads() {
        let report = run(Wrong::Nothing, 0);
        assert_eq!(report.broken, None);
        assert!(
            report.tally.deliveries.requested > 0
                && report.tally.deliveries.refused == report.tally.deliveries.requested,
            "{:?}",
            report.tally
        );
        let law = run(Wrong::Nothing, 1).broken.map(|b| b.law);
        assert!(matches!(law, Some(Law::NeverIdle | Law::BestEffortLives)), "{law:?}");
    }

    #[test]
    fn a_lost_delivery_a_spin_and_a_panic_are_seen() {
        // Unanswered for too long, or to the end: whichever law looks first.
        let forgotten = run(Wrong::Forgets, 0).broken.map(|b| b.law);
        assert!(matches!(forgotten, Some(Law::EveryEndHasAReason | Law::StartsInTime)), "{forgotten:?}");
        assert_eq!(run(Wrong::Spins, 0).broken.map(|b| b.law), Some(Law::NoSpinning));
        assert_eq!(run(Wrong::Panics, 0).broken.map(|b| b.law), Some(Law::NoPanic));
    }

    #[test]
    fn the_same_scenario_does_the_same_twice() {
        let (one, two) = (run(Wrong::Nothing, 0), run(Wrong::Nothing, 0));
        assert_eq!((one.hash, one.events, one.ended), (two.hash, two.events, two.ended));
        assert!(!one.tail.is_empty());
    }
}
