//! Figures of the last hour and the last thirty days.
//!
//! Promise: two rings of fixed size, 700 KB in all; the slot of a figure follows from its time alone, so that a step of the clock overwrites
//! slots and moves none. Not here: the file that keeps the long ring over restarts (the server).

use std::sync::Mutex;
use std::time::SystemTime;

use units::real;

use crate::lock::lock;

/// Figures of a slot.
pub(crate) const FIGURES: usize = 8;
/// Slots of an answer at most: more are joined.
const POINTS_MAX: u64 = 720;
/// Period and slots of the short ring: an hour.
const SHORT: (u64, usize) = (10, 360);
/// Period and slots of the long ring: thirty days.
const LONG: (u64, usize) = (300, 8640);
/// Readings in a slot at most: one a second, and as many again where the clock jumps.
const COUNT_MAX: u64 = 2 * LONG.0;
/// Bytes of a slot in a file.
pub const SLOT_BYTES: usize = 128;
/// Slots in a file.
pub const SLOTS: usize = LONG.1;
const _: () = assert!(SLOT_BYTES >= 16 + 8 * FIGURES);

/// Sums of the figures that were read within a slot of time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct HistorySlot {
    /// Its beginning, seconds since 1970; zero while it is empty.
    start: u64,
    count: u64,
    sums: [f64; FIGURES],
}

impl HistorySlot {
    /// Its beginning, seconds since 1970.
    pub(crate) const fn start(&self) -> u64 {
        self.start
    }

    /// The mean of a figure; none where it was not read.
    pub(crate) fn mean(&self, figure: usize) -> Option<f64> {
        (self.count > 0).then(|| self.sums[figure] / real(self.count))
    }

    fn add(&mut self, other: &Self) {
        self.count += other.count;
        for (sum, more) in self.sums.iter_mut().zip(other.sums) {
            *sum += more;
        }
    }

    /// Its place in a file.
    #[must_use]
    pub fn place(&self) -> u64 {
        self.start / LONG.0 % LONG.1 as u64
    }

    /// As a file keeps it.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; SLOT_BYTES] {
        let mut bytes = [0; SLOT_BYTES];
        let words = [self.start, self.count].into_iter().chain(self.sums.map(f64::to_bits));
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// A slot of a file; none where it is empty or damaged.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut words = bytes.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_le_bytes));
        let (start, count) = (words.next()?, words.next()?);
        let mut sums = [0.0; FIGURES];
        for sum in &mut sums {
            *sum = f64::from_bits(words.next()?);
        }
        let is_sound = start > 0 && start % LONG.0 == 0 && (1..=COUNT_MAX).contains(&count);
        (is_sound && sums.iter().all(|sum| sum.is_finite())).then_some(Self { start, count, sums })
    }
}

#[derive(Debug)]
struct SlotRing {
    period: u64,
    slots: Vec<HistorySlot>,
}

impl SlotRing {
    fn new((period, count): (u64, usize)) -> Self {
        Self { period, slots: vec![HistorySlot::default(); count] }
    }

    fn place(&self, at: u64) -> usize {
        usize::try_from(at / self.period).unwrap_or(0) % self.slots.len()
    }

    /// Adds figures to the slot of their time.
    fn add(&mut self, slot: &HistorySlot) {
        let (place, start) = (self.place(slot.start), slot.start / self.period * self.period);
        let known = &mut self.slots[place];
        if known.start != start {
            *known = HistorySlot { start, ..HistorySlot::default() };
        }
        known.add(slot);
    }

    /// The slot that begins at `start`; empty if it has no figures.
    fn slot(&self, start: u64) -> HistorySlot {
        Some(self.slots[self.place(start)]).filter(|slot| slot.start == start).unwrap_or_default()
    }

    /// The slots up to `until`, as many as there are from `from` on, joined into no more than [`POINTS_MAX`].
    fn points(&self, from: u64, until: u64) -> (u64, Vec<HistorySlot>) {
        let count = (until - from) / self.period + 1;
        let joined = count.div_ceil(POINTS_MAX);
        let period = joined * self.period;
        let end = until / period + 1;
        let point = |start: u64| {
            let mut point = HistorySlot { start, ..HistorySlot::default() };
            (0..joined).for_each(|slot| point.add(&self.slot(start + slot * self.period)));
            point
        };
        (period, (end.saturating_sub(count.div_ceil(joined))..end).map(|slot| point(slot * period)).collect())
    }
}

fn whole_seconds(now: SystemTime) -> u64 {
    now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Both rings.
#[derive(Debug)]
pub struct History(Mutex<[SlotRing; 2]>);

impl Default for History {
    fn default() -> Self {
        Self(Mutex::new([SlotRing::new(SHORT), SlotRing::new(LONG)]))
    }
}

impl History {
    /// Adds the figures of this second.
    pub(crate) fn note(&self, now: SystemTime, figures: [f64; FIGURES]) {
        let slot = HistorySlot { start: whole_seconds(now), count: 1, sums: figures };
        lock(&self.0).iter_mut().for_each(|ring| ring.add(&slot));
    }

    /// Takes the slots of a file. A slot does not replace a newer one in its place.
    pub fn restore(&self, slots: impl Iterator<Item = HistorySlot>) {
        let [_, long] = &mut *lock(&self.0);
        for slot in slots {
            if long.slots[long.place(slot.start)].start <= slot.start {
                long.add(&slot);
            }
        }
    }

    /// The slot of the long ring at this time and the one before it, which a file is to keep.
    #[must_use]
    pub fn to_keep(&self, now: SystemTime) -> Vec<HistorySlot> {
        let at = whole_seconds(now);
        let [_, long] = &*lock(&self.0);
        let start = at / LONG.0 * LONG.0;
        let slots = [start.saturating_sub(LONG.0), start].map(|start| long.slot(start));
        slots.into_iter().filter(|slot| slot.count > 0).collect()
    }

    /// The period of each point of the last `seconds`, thirty days at most, and the points.
    pub(crate) fn points(&self, seconds: u64, now: SystemTime) -> (u64, Vec<HistorySlot>) {
        let now = whole_seconds(now);
        let [short, long] = &*lock(&self.0);
        let ring = if seconds <= SHORT.0 * SHORT.1 as u64 { short } else { long };
        let seconds = seconds.max(ring.period).min(ring.period * ring.slots.len() as u64) - ring.period;
        ring.points(now.saturating_sub(seconds), now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400;
    const NOW: u64 = 20_000 * DAY;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds)
    }

    fn means(points: &[HistorySlot]) -> Vec<Option<f64>> {
        points.iter().map(|slot| slot.mean(0)).collect()
    }

    #[test]
    fn an_hour_has_points_of_ten_seconds_and_gaps_where_nothing_was_read() {
        let history = History::default();
        for second in 0..40_u32 {
            if !(10..20).contains(&second) {
                history.note(at(NOW + u64::from(second)), [f64::from(second); FIGURES]);
            }
        }
        let (period, points) = history.points(40, at(NOW + 39));
        assert_eq!((period, means(&points)), (10, vec![Some(4.5), None, Some(24.5), Some(34.5)]));
        let (_, hour) = history.points(3600, at(NOW + 39));
        assert_eq!((hour.len(), hour.iter().filter(|slot| slot.count > 0).count()), (360, 3));
    }

    #[test]
    fn thirty_days_fit_into_the_points_of_an_answer_and_older_figures_go() {
        let history = History::default();
        let first = NOW - 40 * DAY;
        for minute in 0..40 * DAY / 60 {
            history.note(at(first + minute * 60), [real(minute / (DAY / 60)); FIGURES]);
        }
        let (period, points) = history.points(u64::MAX, at(NOW - 1));
        assert_eq!(period, 3600);
        assert_eq!(points.len(), 720);
        let means = means(&points);
        assert_eq!((means[0], means[719]), (Some(10.0), Some(39.0)));
        assert!(means.iter().all(Option::is_some));
    }

    #[test]
    fn a_file_keeps_slots_and_a_damaged_one_is_left_out() {
        let history = History::default();
        (0..400).for_each(|second| history.note(at(NOW + second), [2.5; FIGURES]));
        history.note(at(NOW + 299), [2.5; FIGURES]);
        let kept = history.to_keep(at(NOW + 399));
        assert_eq!(
            kept.iter().map(|slot| (slot.start, slot.count)).collect::<Vec<_>>(),
            [(NOW, 301), (NOW + 300, 100)],
            "a second that was counted twice"
        );
        let read: Vec<_> = kept.iter().filter_map(|slot| HistorySlot::from_bytes(&slot.to_bytes())).collect();
        assert_eq!(read, kept);
        let again = History::default();
        again.restore(read.into_iter());
        assert_eq!(again.to_keep(at(NOW + 399)), kept);
        let mut damaged = kept[0].to_bytes();
        damaged[23] = 0xff;
        damaged[22] = 0xff;
        assert_eq!(HistorySlot::from_bytes(&damaged), None);
        assert_eq!(HistorySlot::from_bytes(&[0; SLOT_BYTES]), None);
        assert_eq!(HistorySlot::from_bytes(&[1; 7]), None);
    }
}
