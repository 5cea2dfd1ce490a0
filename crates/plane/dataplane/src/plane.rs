//! The loop: the cyclic pipeline of HiTactix §3.2.
//!
//! Each step of the wheel feeds the streams with a tick in it from buffers read earlier; each round every disk gets requests
//! for the blocks of later rounds; in between, completions and commands are taken in. One submission carries all
//! requests of a step. Three parts do this, which know each other by messages only (decision 0036): the admitter, the
//! fetcher and the pacer. The loop gives them the time, and carries their messages.
//!
//! Promise: no allocation, no lock, no call of unknown length after [`Plane::new`]; a late step never moves the next.
//! Not here: choice of the next read (`schedule::disk`), admission (`schedule::admission`), the kernel (`port::Io`).

use std::sync::Arc;

use schedule::admission::Admission;
use schedule::disk::DiskSchedule;
use schedule::profile::DiskProfile;
use units::{BitRate, DiskId, LinkId, Nanos, limits};

use crate::admitter::Admitter;
use crate::cache::Cache;
use crate::config::PlaneConfig;
use crate::context::{PlaneContext, RequestKind, is_time};
use crate::control::{Command, Report};
use crate::fetcher::Fetcher;
use crate::gauges::Gauges;
use crate::message::PartMessage;
use crate::pacer::Pacer;
use crate::port::{COMPLETIONS_MAX, Completion, Io};
use crate::profile::NewProfiles;

/// Commands taken in between two looks at the clock. Each may be a refusal with its counter-offer, which takes 0.1 ms at most
/// (`schedule`'s admission, for each disk of a content): a step of the wheel, 6 ms, does not wait for them. Follows from that.
const COMMANDS_PER_TURN: usize = 16;
/// How often figures are published, and the core's load and the disks' health are looked at. Chosen.
const MEASURE_EVERY: Nanos = Nanos::from_secs(1);

/// The data plane of one core.
#[derive(Debug)]
pub struct Plane<I> {
    admitter: Admitter,
    fetcher: Fetcher,
    pacer: Pacer,
    context: PlaneContext<I>,
    completions: Vec<Completion>,
    measure_at: Nanos,
    new_profiles: NewProfiles,
    running: bool,
}

impl<I: Io> Plane<I> {
    /// A plane over these disks and links, with the arena that `io` has. Allocates everything it will ever need.
    ///
    /// # Panics
    /// If the configuration is out of its documented bounds, or there are more disks than `limits::DISKS_MAX`.
    #[must_use]
    pub fn new(
        config: PlaneConfig,
        disks: Vec<DiskProfile>,
        links: &[BitRate],
        gauges: Arc<Gauges>,
        mut io: I,
    ) -> Self {
        assert!(config.streams_max <= limits::STREAMS_MAX, "within limits");
        assert!(disks.len() <= limits::DISKS_MAX && links.len() <= limits::LINKS_MAX, "within limits");
        assert!(gauges.streams.len() >= config.streams_max && gauges.disks.len() >= disks.len(), "gauges fit");
        let begun = (io.now(), io.processor_time());
        let new_profiles = NewProfiles::new(disks.len());
        let fetcher = Fetcher::new(&config, disks.clone(), io.chunk_count(), begun.0);
        gauges.plane.pages.set(u64::from(fetcher.pages().pages()));
        let admitter = Admitter::new(&config, disks, links, fetcher.pages_to_promise(), begun);
        let payloads = (0u16..).take(links.len()).map(|link| admitter.link_payload(LinkId(link))).collect();
        Self {
            pacer: Pacer::new(config.streams_max, payloads, config.tick, begun.0),
            admitter,
            fetcher,
            context: PlaneContext::new(config, gauges, io),
            completions: Vec::with_capacity(COMPLETIONS_MAX),
            measure_at: begun.0,
            new_profiles,
            running: true,
        }
    }

    /// Runs until [`Command::Shutdown`].
    pub fn run(&mut self) {
        while self.running {
            self.turn();
        }
    }

    /// One turn of the loop: takes in commands and messages, feeds the streams that are due, asks the disks, waits for
    /// the next completion or command. False once [`Command::Shutdown`] was seen.
    pub fn turn(&mut self) -> bool {
        let now = self.context.io.now();
        self.context.now = now;
        self.fetcher.set_clock(now);
        let more_commands = self.take_commands();
        let more_messages = self.fetcher.take_store_messages(&mut self.context);
        self.carry();
        self.feed_due_steps();
        self.fetcher.begin_turn(&mut self.context);
        self.carry();
        self.admitter.answer_late_recordings(&mut self.context);
        self.fetcher.report_late_starts(&mut self.context);
        self.admitter.end_bursts(&mut self.context);
        self.carry();
        self.fetcher.change_memory(self.admitter.admission().memory().0, &mut self.context);
        self.fetcher.ask_disks(&mut self.context);
        self.carry();
        self.admitter.publish_promises(&self.context);
        self.context.flush_reports();
        self.fetcher.follow_speeds(&mut self.context);
        self.carry();
        if is_time(&mut self.measure_at, MEASURE_EVERY, now) {
            self.measure();
        }
        let next =
            self.fetcher.next_wakeup(now).map_or(self.pacer.next_wakeup(), |at| at.min(self.pacer.next_wakeup()));
        // The sender of these has woken the plane already, and will not again.
        let until = if more_commands || more_messages { now } else { next };
        let mut completions = std::mem::take(&mut self.completions);
        self.context.io.wait(until, &mut completions);
        for completion in completions.drain(..) {
            self.context.now = completion.at;
            match RequestKind::of(completion.token) {
                RequestKind::Send { slot, generation } => {
                    self.fetcher.expect_message(slot, &self.context);
                    let pages = self.fetcher.pages();
                    self.pacer.send_done((slot, generation), completion, pages, &mut self.context);
                }
                work => {
                    self.fetcher.complete(work, completion, &mut self.context);
                    self.carry();
                }
            }
        }
        self.completions = completions;
        // The fetcher's entries of thousands of streams lie in no cache: it looks at those of all sends in one go.
        self.carry();
        self.running
    }

    /// Carries the messages of the parts, until none is left.
    fn carry(&mut self) {
        while let Some(message) = self.context.next_message() {
            match message {
                PartMessage::Admitter(message) => self.admitter.receive(message, &mut self.context),
                PartMessage::Fetcher(message) => self.fetcher.receive(message, &mut self.context),
                PartMessage::Pacer(message) => {
                    self.pacer.receive(message, self.fetcher.pages(), &mut self.context);
                }
            }
        }
    }

    /// The world it runs in, for the simulator to look into its own.
    pub fn io(&mut self) -> &mut I {
        &mut self.context.io
    }

    /// Admission's state, for checkers.
    #[must_use]
    pub const fn admission(&self) -> &Admission {
        self.admitter.admission()
    }

    /// The buffers, for checkers.
    #[must_use]
    pub const fn cache(&self) -> &Cache {
        self.fetcher.pages()
    }

    /// The schedule of a disk, for checkers.
    #[must_use]
    pub fn disk(&self, disk: DiskId) -> &DiskSchedule {
        self.fetcher.schedule(disk)
    }

    /// True if there may be more.
    fn take_commands(&mut self) -> bool {
        for _ in 0..COMMANDS_PER_TURN {
            // Each command may leave a report behind: without room for it, it waits in its queue, and that is bounded.
            if !self.context.has_room_for_reports() {
                return false;
            }
            let context = &mut self.context;
            match context.io.command() {
                Some(Command::Start(delivery)) => self.admitter.start(delivery, context),
                Some(Command::Stop(stream)) => self.pacer.stop(stream, context),
                Some(Command::Reserve(request)) => self.admitter.reserve_recording(request, context),
                Some(Command::Release(reservation)) => self.admitter.release(reservation),
                Some(Command::Keep(stored)) => {
                    self.fetcher.keep(&stored, context);
                    context.report(Report::Kept(stored));
                    // Copying takes its time: the others come in the next turn.
                    return true;
                }
                Some(Command::SetStall(span)) => context.config.stall_max = span,
                Some(Command::SetLink { link, capacity }) => self.admitter.set_link(link, capacity, context),
                Some(Command::SetProfile(new)) => self.new_profiles.add(new, context),
                Some(Command::Drain) => self.admitter.drain(),
                Some(Command::Shutdown) => self.running = false,
                None => return false,
            }
            self.carry();
        }
        true
    }

    fn feed_due_steps(&mut self) {
        while let Some(step) = self.pacer.next_due_step(self.context.now) {
            self.pacer.feed_step(step, self.fetcher.pages(), &mut self.context);
            self.carry();
            self.pacer.feed_best_effort(self.fetcher.pages(), &mut self.context);
            self.carry();
        }
    }

    fn measure(&mut self) {
        self.fetcher.measure(&mut self.context);
        self.carry();
        self.admitter.measure(self.fetcher.pages_to_promise(), &mut self.context);
        self.context.gauges.plane.lent_bytes.set(self.context.io.lent_bytes());
        self.pacer.look_after_blocked(&mut self.context);
        self.new_profiles.put_in_force((&mut self.admitter, &mut self.fetcher), &mut self.context);
        self.carry();
    }
}
