//! The search for the most streams a server carries: which number to try next, and when the most is found.
//!
//! Promise: knows neither server nor clock. The number found was carried in two tries, and the least number known to be too
//! many is at most 4 % (or one stream) above it; where the tries did not suffice for that, it says so. Of a server that
//! refuses by itself the first refusal counts, the earlier one of two tries: later admissions are chance, such as
//! a content in a faster zone. Not here: the tries themselves (`streams`).

use units::real;

/// The gap left between a number carried and a number not carried, percent.
const RESOLUTION_PERCENT: usize = 4;
/// Tries at most, so that a server with varying results does not keep a search running for ever.
const TRIES_MAX: usize = 20;
/// Tries in which a number must be carried.
const TIMES: usize = 2;

/// Result of a try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SearchTry {
    /// No admitted stream suffered, and the others were refused.
    pub unharmed: bool,
    /// Streams admitted before the first refusal; `None` without a refusal.
    pub before_refusal: Option<usize>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Search {
    from: usize,
    max: usize,
    /// The numbers carried in tries so far, least first.
    carried: Vec<usize>,
    /// The least number that was not.
    too_many: Option<usize>,
    tries: usize,
    /// A number at which some suffered, perhaps only because others were admitted after the first refusal: the next try
    /// runs this number alone.
    suspected: Option<usize>,
}

/// Result of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Most {
    /// The most streams carried; 0 if not one was.
    pub streams: usize,
    /// The least number that was not; `None` if the highest allowed was carried.
    pub too_many: Option<usize>,
    /// Whether it was carried twice, with the gap closed.
    pub confirmed: bool,
}

impl Most {
    /// Gap between the number carried and the number not carried, percent of the latter.
    pub(super) fn resolution_percent(&self) -> Option<f64> {
        let too_many = self.too_many?;
        Some(real((too_many - self.streams) as u64) * 100.0 / real(too_many as u64))
    }
}

impl Search {
    /// Begins with `from`, looks no higher than `max`.
    pub(super) fn new(from: usize, max: usize) -> Self {
        Self { from: from.clamp(1, max), max, carried: Vec::new(), too_many: None, tries: 0, suspected: None }
    }

    /// The next number to try; `None` when the search is over.
    pub(super) fn next(&self) -> Option<usize> {
        if self.is_done() || self.tries == TRIES_MAX {
            return None;
        }
        let most = self.most();
        // From half of another server's number two steps lead to the whole; steps beyond that double.
        let step = self.from.div_ceil(2) << self.tries.saturating_sub(2).min(16);
        Some(match (self.suspected, self.too_many) {
            (Some(suspected), _) => suspected,
            _ if self.is_closed() => most,
            (None, None) if self.tries == 0 => self.from,
            (None, None) => (most + step).min(self.max),
            (None, Some(too_many)) => most.midpoint(too_many),
        })
    }

    /// Takes in the result of a try with `asked` streams.
    pub(super) fn tell(&mut self, asked: usize, tried: SearchTry) {
        self.tries += 1;
        let admitted = tried.before_refusal.unwrap_or(asked);
        self.suspected = tried.before_refusal.filter(|&before| !tried.unharmed && before > 0);
        let not = if tried.before_refusal.is_some() { admitted + 1 } else { asked };
        if !tried.unharmed || tried.before_refusal.is_some() {
            self.too_many = Some(self.too_many.map_or(not, |before| before.min(not)));
        }
        if tried.unharmed {
            self.carried.push(admitted);
            self.carried.sort_unstable();
            // A server that carried more, and now refuses earlier, has carried these twice.
            let most = self.too_many.map_or(usize::MAX, |too_many| too_many - 1);
            self.carried.iter_mut().for_each(|carried| *carried = most.min(*carried));
        } else {
            // A server that carried these before, and now lets one suffer, does not carry them.
            self.carried.retain(|&carried| carried < not);
        }
    }

    /// The result so far.
    pub(super) fn found(&self) -> Most {
        Most { streams: self.most(), too_many: self.too_many, confirmed: self.is_done() && self.most() > 0 }
    }

    fn most(&self) -> usize {
        self.carried.last().copied().unwrap_or(0)
    }

    /// No number is left to try between the one carried and the one not carried.
    fn is_closed(&self) -> bool {
        match self.too_many {
            Some(too_many) => too_many - self.most() <= (too_many * RESOLUTION_PERCENT / 100).max(1),
            None => self.most() == self.max,
        }
    }

    fn is_done(&self) -> bool {
        let times = self.carried.iter().filter(|&&carried| carried == self.most()).count();
        self.is_closed() && (self.most() == 0 || times >= TIMES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches a server that never refuses and carries `limit`.
    fn find(limit: usize, from: usize, max: usize) -> (Most, usize) {
        let mut search = Search::new(from, max);
        while let Some(asked) = search.next() {
            assert!((1..=max).contains(&asked), "{search:?}");
            search.tell(asked, SearchTry { unharmed: asked <= limit, before_refusal: None });
        }
        (search.found(), search.tries)
    }

    #[test]
    fn a_limit_is_found_within_4_percent_and_confirmed() {
        for from in [1, 5, 16, 45, 300] {
            for limit in 1..600 {
                let (most, tries) = find(limit, from, 1_000);
                assert!(most.confirmed && most.streams <= limit, "{limit} from {from}: {most:?}");
                assert!((limit - most.streams) * 100 <= limit * RESOLUTION_PERCENT, "{limit} from {from}: {most:?}");
                assert!(tries <= TRIES_MAX, "{limit} from {from}: {tries}");
            }
        }
        assert_eq!(find(0, 16, 1_000).0, Most { streams: 0, too_many: Some(1), confirmed: false });
        assert_eq!(find(5_000, 16, 400).0, Most { streams: 400, too_many: None, confirmed: true });
    }

    /// From half of another server's number.
    #[test]
    fn a_server_within_a_half_and_the_whole_of_ours_takes_eight_tries_at_most() {
        for ours in [15_usize, 16, 38, 51, 90, 104, 400] {
            for limit in ours.div_ceil(2)..ours {
                let (_, tries) = find(limit, ours.div_ceil(2), 1_000);
                assert!(tries <= 8, "{limit} beside {ours}: {tries}");
            }
        }
    }

    /// It admits later ones as well, where they fit: they do not count.
    #[test]
    fn a_search_confirms_the_count_before_the_first_refusal() {
        let mut search = Search::new(128, 128);
        assert_eq!(search.next(), Some(128));
        search.tell(128, SearchTry { unharmed: true, before_refusal: Some(90) });
        assert_eq!(search.next(), Some(90));
        search.tell(90, SearchTry { unharmed: true, before_refusal: None });
        assert_eq!(search.next(), None);
        assert_eq!(search.found(), Most { streams: 90, too_many: Some(91), confirmed: true });
        assert!(search.found().resolution_percent().is_some_and(|percent| (1.0..1.2).contains(&percent)));
    }

    #[test]
    fn a_search_goes_below_the_count_of_a_harmful_try() {
        let mut search = Search::new(128, 128);
        search.tell(128, SearchTry { unharmed: false, before_refusal: Some(90) });
        let mut asked = Vec::new();
        while let Some(n) = search.next() {
            asked.push(n);
            search.tell(n, SearchTry { unharmed: n <= 80, before_refusal: None });
        }
        assert_eq!(asked[0], 90, "perhaps only those after the first no were too many: {asked:?}");
        let most = search.found();
        assert!(most.confirmed && (77..=80).contains(&most.streams), "{most:?} {asked:?}");
    }

    #[test]
    fn a_number_that_is_not_carried_again_does_not_count() {
        let mut search = Search::new(8, 16);
        let mut first = true;
        while let Some(n) = search.next() {
            // Ten are carried once and never again.
            let unharmed = n < 10 || (n == 10 && std::mem::take(&mut first));
            search.tell(n, SearchTry { unharmed, before_refusal: None });
        }
        assert_eq!(search.found(), Most { streams: 9, too_many: Some(10), confirmed: true });
    }

    #[test]
    fn of_two_first_refusals_the_earlier_one_counts() {
        let mut search = Search::new(128, 128);
        search.tell(128, SearchTry { unharmed: true, before_refusal: Some(103) });
        search.tell(103, SearchTry { unharmed: true, before_refusal: Some(102) });
        assert_eq!(search.next(), None);
        assert_eq!(search.found(), Most { streams: 102, too_many: Some(103), confirmed: true });
    }

    #[test]
    fn a_server_that_carries_nothing_twice_is_never_confirmed() {
        let mut search = Search::new(64, 1_000);
        let mut seen = Vec::new();
        while let Some(n) = search.next() {
            assert!(seen.len() < TRIES_MAX);
            search.tell(n, SearchTry { unharmed: !seen.contains(&n), before_refusal: None });
            seen.push(n);
        }
        assert!(!search.found().confirmed, "{search:?}");
    }

    #[test]
    fn a_server_that_refuses_everybody_carries_none() {
        let mut search = Search::new(128, 128);
        search.tell(128, SearchTry { unharmed: true, before_refusal: Some(0) });
        assert_eq!((search.next(), search.found().streams, search.found().confirmed), (None, 0, false));
    }
}
