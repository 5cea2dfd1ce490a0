//! Windows of best-effort work: when one opens among the blocks of streams, how long it is, and who pays for it.
//!
//! A *quiet* window opens when no block waits. It may go on over the end of its round, as far as the streams read ahead
//! allow by admission's table, and as long as every deadline of what was asked for meanwhile holds: a flush and the bytes
//! that make it worth while do not fit into what is left of a short or full round. A *lent* one opens before blocks that
//! wait, when the share of best effort is overdue and every deadline still holds.
//!
//! Not here: what is done in a window (`best_effort`), what the table promised (`admission::disk_table`). See
//! decisions/0007.

use units::Nanos;

use super::best_effort::BeQueue;
use super::{DiskSchedule, GrantKind, Phase, Pick, Step};

/// Rounds after which best-effort work that waits is lent a window beyond its share: a small share earns a window with a
/// commit in it only after many rounds.
const WAIT_ROUNDS: u64 = 4;

/// A stretch of time for best-effort work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Window {
    /// Opened when no block waited; an upload may have written in it.
    Quiet { until: Nanos, wrote: bool },
    /// Opened before blocks that wait.
    Lent { until: Nanos },
}

/// What is known of windows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Windows {
    open: Option<Window>,
    /// Best-effort disk time overdue (negative: had more than its share), nanoseconds.
    owed_nanos: i64,
    /// When a store thread's work last had something, or wanted nothing.
    pub(super) granted_at: Nanos,
    /// When best-effort work last waited.
    wanted_at: Nanos,
    /// How far over the end of its round a quiet window may go.
    over: Nanos,
}

impl Windows {
    /// On flash a window keeps to its round: a flush alone is all that would go on, and reads do not wait for one there.
    pub(super) const fn new(rotational: bool, now: Nanos) -> Self {
        let over = if rotational { Nanos::MAX } else { Nanos::ZERO };
        Self { open: None, owed_nanos: 0, granted_at: now, wanted_at: now, over }
    }
}

impl DiskSchedule {
    /// How far over the end of the present round best-effort work may keep the disk when nothing else waits: what
    /// streams have read ahead beyond what the coming rounds need ([`crate::admission::Admission::slack`]). Without end
    /// before anything is promised.
    pub fn set_slack(&mut self, slack: Nanos, now: Nanos) {
        self.windows.over = slack;
        let end = self.quiet_end(now);
        if let Some(Window::Quiet { until, .. }) = &mut self.windows.open {
            *until = (*until).min(end);
        }
    }

    /// When a window that opens now, or was open before, must end.
    fn quiet_end(&self, now: Nanos) -> Nanos {
        let rounds = &self.settings.rounds;
        rounds.start_of(rounds.index_at(now) + 1).saturating_add(self.windows.over)
    }

    /// False while best-effort work is owed a window that the deadlines do not allow: starts, which bring more of them,
    /// wait until it had one (simulator, seed 952: starts without end left no window for ten seconds).
    #[must_use]
    pub fn may_take_starts(&self, now: Nanos) -> bool {
        self.rt.is_empty() || self.window_owed(now).is_none_or(|window| self.deadlines_allow(window, now))
    }

    /// The end of the window that was opened before blocks that wait: no clock may count on the disk before.
    pub(super) fn lent_until(&self) -> Nanos {
        match self.windows.open {
            Some(Window::Lent { until }) => until,
            Some(Window::Quiet { .. }) | None => Nanos::ZERO,
        }
    }

    /// The next step of the window that is open.
    pub(super) fn window_goes_on(&mut self, now: Nanos) -> Option<Step> {
        let (end, pick): (Nanos, Pick) = match self.windows.open? {
            // Promises made since it opened may leave less than it was lent (simulator, seed 1310).
            Window::Lent { until } => (until.min(self.spare_until(now)), BeQueue::pick_lent),
            // What follows is another quiet window.
            Window::Quiet { .. } if self.rt.is_empty() => return None,
            // With its flush behind it the window has been worth its while; a start does not wait for that.
            Window::Quiet { until, wrote } if wrote && self.be.is_unsettled() && self.may_settle() => {
                (until.min(self.spare_until(now)), BeQueue::pick_settling)
            }
            Window::Quiet { .. } => (now, BeQueue::pick_settling),
        };
        if now < end && (!self.be.is_empty() || self.be.is_unsettled()) {
            let step = self.best_effort_choice(now, end, pick);
            if step != Step::Wait || self.reads_in_flight > 0 {
                return Some(step);
            }
        }
        // Nothing more fits into the window: the blocks behind it need not wait for its end (simulator, seed 65).
        self.windows.open = None;
        None
    }

    /// Whether blocks may wait for a flush: on flash none does, and no start does.
    fn may_settle(&self) -> bool {
        self.cost.profile().rotational && !self.rt.has_start()
    }

    /// A window before the blocks that wait, if it is due: its first step.
    pub(super) fn lent_window(&mut self, now: Nanos) -> Option<Step> {
        let window = self.window_owed(now).filter(|&window| self.deadlines_allow(window, now))?;
        if self.reads_in_flight > 0 && self.cost.profile().rotational {
            // The head must be free first. With two reads out there is always one left when a read is over: a window that
            // came only by chance came never on a busy disk (simulator, seed 9028).
            return Some(Step::Wait);
        }
        let until = now.saturating_add(window);
        let step = self.best_effort_choice(now, until, BeQueue::pick_lent);
        if step == Step::Wait {
            return None;
        }
        self.windows.open = Some(Window::Lent { until });
        self.stats.forced_windows += 1;
        Some(step)
    }

    /// Best-effort work while no block waits.
    pub(super) fn quiet_window(&mut self, now: Nanos) -> Step {
        let period = self.settings.rounds.period();
        let mut until = self.quiet_end(now);
        let mut step = self.best_effort_step(now, until);
        if step == Step::Wait && !self.be.is_empty() {
            // What never fits (a flush of a slow drive on a full disk, rounds of 250 ms: uploads stood still for ever) goes
            // nevertheless: nobody reads now, and who asks next has the look-ahead to wait in.
            let window = self.be.window_min(self.head, &self.cost);
            if window >= period || self.waits_long(now) {
                until = now.saturating_add(window);
                step = self.best_effort_step(now, until);
            }
        }
        let writes = self.grant.is_some_and(|grant| grant.kind == GrantKind::Write);
        let wrote = matches!(self.windows.open, Some(Window::Quiet { wrote: true, .. })) && self.be.is_unsettled();
        self.windows.open = (step != Step::Wait).then_some(Window::Quiet { until, wrote: writes || wrote });
        step
    }

    /// All of what is owed or nothing: windows that took whatever the deadlines allowed left no time for a read that
    /// takes longer than expected (simulator, seed 8563).
    fn deadlines_allow(&self, window: Nanos, now: Nanos) -> bool {
        self.spare(now).is_some_and(|spare| window <= spare)
    }

    /// For how long the blocks that wait can wait; `None` if not even now.
    fn spare(&self, now: Nanos) -> Option<Nanos> {
        self.rt.spare(self.free_at(now), self.head, &self.cost)
    }

    /// Until when the blocks that wait can wait.
    fn spare_until(&self, now: Nanos) -> Nanos {
        now.saturating_add(self.spare(now).unwrap_or(Nanos::ZERO))
    }

    /// The window that best-effort work should have by now, if it should have one.
    fn window_owed(&self, now: Nanos) -> Option<Nanos> {
        if self.be.is_empty() {
            return None;
        }
        let period = self.settings.rounds.period();
        let least = self.be.window_min(self.head, &self.cost);
        let worth = self.be.window_worth(self.head, &self.cost).min(Nanos(period.0 / 2));
        let owed = Nanos(u64::try_from(self.windows.owed_nanos).unwrap_or(0));
        // Who starves is lent what a window needs beyond the share: it is paid back afterwards. Others wait until they
        // are owed a window in which a flush is not most of it.
        let enough = self.be.starves() || owed >= least.max(worth);
        let waits = self.waits_long(now);
        // Recordings dirty the cache as well, with or without a share for best effort: that commit is never optional.
        let overdue = self.be.commit_is_due() || (enough && owed.0 >= period.0 / 20) || (waits && owed > Nanos::ZERO);
        overdue.then_some(owed.max(least))
    }

    /// True if no store thread's work had anything for some rounds, be it that none waits.
    fn waits_long(&self, now: Nanos) -> bool {
        now.saturating_sub(self.windows.granted_at) > self.settings.rounds.period().saturating_mul(WAIT_ROUNDS)
    }

    /// Best-effort work earns its share while it waits.
    pub(super) fn accrue(&mut self, now: Nanos) {
        let period = self.settings.rounds.period();
        // Sums are bounded by two rounds either way, so that neither side is owed an age.
        let bound = i64::try_from(period.0.saturating_mul(2)).unwrap_or(i64::MAX);
        let elapsed = now.saturating_sub(self.phase_since);
        self.stats.phase_nanos[self.phase_index()] += elapsed.0;
        self.phase_since = self.phase_since.max(now);
        if self.be.is_empty() {
            self.windows.granted_at = now;
            // A writer that sends one upload after the other wants nothing for a moment between two of them.
            if now.saturating_sub(self.windows.wanted_at) > period {
                self.windows.owed_nanos = 0;
            }
            return;
        }
        self.windows.wanted_at = now;
        let earned = Nanos::from_secs_f64(elapsed.as_secs_f64() * self.settings.be_share);
        let earned = i64::try_from(earned.0).unwrap_or(i64::MAX);
        self.windows.owed_nanos = self.windows.owed_nanos.saturating_add(earned).clamp(-bound, bound);
        if self.waits_long(now) {
            self.be.starve();
        }
    }

    /// Best-effort work had the disk for `took`. What nobody else wanted is not held against it: a minute of lull must
    /// not close the windows of the next one (simulator, seed 952: two rounds' debt, at a share of 5 %).
    pub(super) fn pay(&mut self, took: Nanos) {
        let unwanted = self.rt.is_empty() || matches!(self.windows.open, Some(Window::Quiet { .. }));
        let least = if unwanted { self.windows.owed_nanos.min(0) } else { i64::MIN };
        let took = i64::try_from(took.0).unwrap_or(i64::MAX);
        self.windows.owed_nanos = self.windows.owed_nanos.saturating_sub(took).max(least);
    }

    pub(super) fn enter(&mut self, phase: Phase, now: Nanos) {
        if self.phase != phase {
            self.accrue(now);
            self.phase = phase;
        }
    }
}
