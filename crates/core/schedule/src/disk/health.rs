//! Health of a disk, from its errors and its silence.
//!
//! The rule: errors at [`PLACES`] different places within [`SPAN`], or one failed write, make it *erring*; a request
//! that stays unanswered makes it *hung*, until it is answered. A disk with one bad sector is neither: that harms only
//! the streams that need the sector. An erring disk gets no new streams and uploads; those it has continue. It is given
//! another chance when it made no error for a while ([`HOLD_MIN`]), and each time it errs again soon after, twice as
//! long a while. A disk without a request meanwhile makes no error either: until a request succeeds it is *on trial*, gets
//! everything, counts as failing, and is erring again with its first error.
//!
//! Not here: noticing an error or a silence (the plane does), the reaction to it.

use units::Nanos;

/// Number of different places with errors that makes a disk erring. Chosen (decision 0009).
pub const PLACES: usize = 4;
/// Errors older than this are not counted together. Chosen (decision 0009).
pub const SPAN: Nanos = Nanos::from_secs(60);
/// Errors closer together than this on the device are one place: the range that a scratch spoils. Chosen (decision
/// 0009).
pub const PLACE_BYTES: u64 = 16 << 20;
/// How long an erring disk must make no error before it is used for new work again, the first time; doubled each time after
/// that. Chosen (decision 0009).
pub const HOLD_MIN: Nanos = Nanos::from_secs(10);
/// The longest such time. Chosen (decision 0009).
pub const HOLD_MAX: Nanos = Nanos::from_secs(640);

/// Where an error was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorLocation {
    /// Number of [`PLACE_BYTES`] from the start of the device.
    Region(u64),
    /// Somewhere in the content of this version; its position on the device is not known.
    Content(u64),
}

impl ErrorLocation {
    /// The place of a byte of the device.
    #[must_use]
    pub const fn at(position: u64) -> Self {
        Self::Region(position / PLACE_BYTES)
    }
}

/// The requests for which a disk is fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskCondition {
    /// Everything.
    Good,
    /// Its present streams and uploads: it gets nothing new before this time.
    Erring {
        /// Unless it errs again.
        until: Nanos,
    },
    /// Nothing: it does not answer.
    Hung,
}

impl DiskCondition {
    /// How much the disk is to be avoided where another one has the same bytes.
    #[must_use]
    pub const fn reluctance(self) -> u8 {
        match self {
            Self::Good => 0,
            Self::Erring { .. } => 1,
            Self::Hung => 2,
        }
    }
}

/// The state of one disk. Each event returns true if the condition is another one than before (a later end of an erring
/// time is not).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    condition: DiskCondition,
    /// The latest error of each place.
    errors: [Option<(ErrorLocation, Nanos)>; PLACES],
    /// How long it must be without an error the next time.
    hold: Nanos,
    /// When it was last erring.
    erred_until: Option<Nanos>,
    /// No request has succeeded since its last error that made it erring.
    unproven: bool,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            condition: DiskCondition::Good,
            errors: [None; PLACES],
            hold: HOLD_MIN,
            erred_until: None,
            unproven: false,
        }
    }
}

impl Health {
    /// The condition of the disk.
    #[must_use]
    pub const fn condition(&self) -> DiskCondition {
        self.condition
    }

    /// True if it may be given new streams and uploads.
    #[must_use]
    pub const fn is_good(&self) -> bool {
        matches!(self.condition, DiskCondition::Good)
    }

    /// True if it gets everything again, and nothing shows yet that it is sound.
    #[must_use]
    pub const fn is_on_trial(&self) -> bool {
        self.is_good() && self.unproven
    }

    /// True if it does not answer.
    #[must_use]
    pub const fn is_hung(&self) -> bool {
        matches!(self.condition, DiskCondition::Hung)
    }

    /// A read failed.
    pub fn read_failed(&mut self, place: ErrorLocation, now: Nanos) -> bool {
        let same = self.errors.iter().position(|error| error.is_some_and(|(known, _)| known == place));
        let oldest = || (0..PLACES).min_by_key(|&at| self.errors[at].map_or(Nanos::ZERO, |(_, when)| when));
        let at = same.or_else(oldest).expect("there is room for at least one");
        self.errors[at] = Some((place, now));
        let is_this = |error: &&Option<(ErrorLocation, Nanos)>| error.is_some_and(|(known, _)| known == place);
        debug_assert!(self.errors.iter().filter(is_this).count() == 1, "a place counts once");
        let recent =
            |error: &Option<(ErrorLocation, Nanos)>| error.is_some_and(|(_, when)| now.saturating_sub(when) <= SPAN);
        let is_erring = matches!(self.condition, DiskCondition::Erring { .. }) || self.is_on_trial();
        if is_erring || self.errors.iter().all(recent) { self.err(now) } else { false }
    }

    /// A read or a write succeeded. True if that ends its trial.
    pub fn succeeded(&mut self) -> bool {
        let was_on_trial = self.is_on_trial();
        self.unproven = false;
        debug_assert!(!self.is_on_trial(), "one success ends a trial");
        was_on_trial
    }

    /// A write or a flush failed: bytes that were given to it are lost. Nothing is known of where.
    pub fn write_failed(&mut self, now: Nanos) -> bool {
        self.err(now)
    }

    /// It has not answered for longer than streams can wait that have another copy to read.
    pub fn unanswered(&mut self, now: Nanos) -> bool {
        self.err(now)
    }

    /// It has not answered for too long.
    pub fn silent(&mut self) -> bool {
        let changed = !self.is_hung();
        self.condition = DiskCondition::Hung;
        changed
    }

    /// It answered, if only with an error.
    pub fn answered(&mut self) -> bool {
        let changed = self.is_hung();
        if changed {
            self.condition = DiskCondition::Good;
        }
        changed
    }

    /// Time passes.
    pub fn poll(&mut self, now: Nanos) -> bool {
        match self.condition {
            DiskCondition::Erring { until } if until <= now => {
                self.condition = DiskCondition::Good;
                self.errors = [None; PLACES];
                self.erred_until = Some(until);
                self.hold = self.hold.saturating_mul(2).min(HOLD_MAX);
                true
            }
            DiskCondition::Good if self.erred_until.is_some_and(|until| now.saturating_sub(until) > HOLD_MAX) => {
                // It was good for long enough to forget its earlier errors.
                self.erred_until = None;
                self.hold = HOLD_MIN;
                false
            }
            _ => false,
        }
    }

    fn err(&mut self, now: Nanos) -> bool {
        if self.is_hung() {
            return false;
        }
        let changed = self.is_good();
        debug_assert!((HOLD_MIN..=HOLD_MAX).contains(&self.hold), "another chance in bounded time");
        self.unproven = true;
        self.condition = DiskCondition::Erring { until: now.saturating_add(self.hold) };
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Nanos {
        Nanos::from_secs(seconds)
    }

    #[test]
    fn one_bad_place_is_no_bad_disk_however_often_it_is_read() {
        let mut health = Health::default();
        for second in 0..1000 {
            assert!(!health.read_failed(ErrorLocation::at(5 * PLACE_BYTES + second), at(second)));
        }
        // Nor are a few, nor many over a long time.
        for place in 0..1000 {
            assert!(!health.read_failed(ErrorLocation::Content(place), at(2000 + place * 21)));
            assert!(health.is_good());
        }
    }

    #[test]
    fn errors_at_several_places_are_and_it_gets_another_chance_later_each_time() {
        let mut health = Health::default();
        let mut now = at(100);
        for hold in [10, 20, 40, 80, 160, 320, 640, 640] {
            for place in 0..3 {
                assert!(!health.read_failed(ErrorLocation::Region(place), now));
            }
            assert!(health.read_failed(ErrorLocation::Region(3), now), "the fourth place");
            assert!(!health.read_failed(ErrorLocation::Region(4), now), "it is known already");
            assert!(!health.poll(now.saturating_add(at(hold - 1))) && !health.is_good());
            now = now.saturating_add(at(hold));
            assert!(health.poll(now) && health.is_good(), "after {hold} s");
            assert!(health.succeeded());
        }
        assert!(!health.poll(now.saturating_add(at(641))));
        now = now.saturating_add(at(1000));
        assert!(health.write_failed(now));
        assert!(health.poll(now.saturating_add(at(10))), "what was long ago is forgotten");
    }

    #[test]
    fn a_disk_that_was_asked_nothing_is_on_trial_until_a_request_succeeds() {
        let mut health = Health::default();
        assert!(health.write_failed(at(1)) && !health.is_on_trial());
        assert!(health.poll(at(11)) && health.is_good() && health.is_on_trial());
        assert!(health.read_failed(ErrorLocation::Region(0), at(500)), "one error is enough");
        assert!(!health.poll(at(519)) && health.poll(at(520)) && health.is_on_trial());
        assert!(health.succeeded() && !health.is_on_trial() && !health.succeeded());
        assert!(!health.read_failed(ErrorLocation::Region(0), at(530)), "one error is one bad place again");
        // A success while it is held ends the trial before it begins.
        assert!(health.write_failed(at(540)) && !health.succeeded());
        assert!(health.poll(at(600)) && !health.is_on_trial());
    }

    #[test]
    fn each_further_error_holds_it_longer() {
        let mut health = Health::default();
        assert!(health.write_failed(at(1)), "one lost write is enough");
        assert!(!health.read_failed(ErrorLocation::Region(0), at(9)));
        assert!(!health.poll(at(12)));
        assert!(health.poll(at(19)));
    }

    #[test]
    fn a_hung_disk_is_hung_until_it_answers() {
        let mut health = Health::default();
        assert!(health.silent() && !health.silent());
        assert!(!health.poll(at(100_000)) && health.is_hung());
        assert!(!health.write_failed(at(1)) && health.is_hung());
        assert!(health.answered() && health.is_good());
        assert!(!health.answered());
        assert!(health.write_failed(at(2)) && !health.answered(), "an answer does not mend errors");
        assert!(health.silent());
    }

    /// After any events: a change is reported exactly when there is one, and without errors it ends good.
    #[test]
    fn each_change_of_condition_is_reported() {
        let mut state = 7_u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for _ in 0..200 {
            let mut health = Health::default();
            let mut now = Nanos::ZERO;
            for _ in 0..200 {
                now = now.saturating_add(at(draw(40)));
                let before = health.condition();
                let told = match draw(7) {
                    0..=2 => health.read_failed(ErrorLocation::Region(draw(6)), now),
                    3 => health.write_failed(now),
                    4 => health.silent(),
                    5 => health.answered(),
                    _ => health.poll(now),
                };
                let differs = std::mem::discriminant(&before) != std::mem::discriminant(&health.condition());
                assert_eq!(told, differs, "{before:?} became {health:?}");
            }
            health.answered();
            health.poll(now.saturating_add(HOLD_MAX));
            assert!(health.is_good(), "{health:?}");
        }
    }
}
