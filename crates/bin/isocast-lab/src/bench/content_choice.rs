//! Choice of contents for streams: in turn, at random by a seed, or by popularity.

use units::real;

/// Distribution of contents to streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ContentSpread {
    /// Each its own while there are enough, in leaps over the list: few streams spread over a disk as well.
    #[default]
    Turn,
    /// At random, by the seed.
    Random,
    /// All streams the first.
    One,
    /// That number of contents, spread over the list, by Zipf's law: the k-th is chosen 1/k times as often as the first.
    Zipf(usize),
}

/// Index of the content of stream `n` among `count`: each in its turn, in leaps over all of them. Few streams are then
/// spread over the disk as well: the first 51 of 128 lay in its fastest zones, and it carried a quarter more of them than
/// it would of any.
pub(crate) fn nth_in_turn(n: usize, count: usize) -> usize {
    n * stride(count) % count
}

/// A step through `count` contents that meets each once, in leaps of the golden section.
fn stride(count: usize) -> usize {
    let coprime = |step: &usize| {
        let (mut a, mut b) = (*step, count);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a == 1
    };
    (count * 618 / 1000..count).find(coprime).unwrap_or(1)
}

/// Index that Zipf's law gives, among `count` contents, to a `chance` between 0 and 1: the k-th has 1/k of the weight of the first.
pub(crate) fn zipf(chance: f64, count: usize) -> usize {
    let weight = |k: usize| 1.0 / real(k as u64 + 1);
    let mut left = chance * (0..count).map(weight).sum::<f64>();
    let chosen = (0..count).find(|&k| {
        left -= weight(k);
        left < 0.0
    });
    chosen.unwrap_or(0)
}

/// SplitMix64: a good mixing of a counter, for choices that a seed reproduces.
pub(crate) fn mix(n: u64) -> u64 {
    let z = n.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_popular_of_40_contents_has_a_quarter_of_the_viewers() {
        let counts = (0..1_000u64).fold([0; 40], |mut counts, n| {
            counts[zipf(real(n) / 1_000.0, 40)] += 1;
            counts
        });
        assert!((230..238).contains(&counts[0]) && (115..120).contains(&counts[1]), "{counts:?}");
        assert!(counts[39] >= 5 && counts.iter().sum::<i32>() == 1_000, "{counts:?}");
    }

    #[test]
    fn every_content_is_met_once_and_few_streams_are_spread_over_all() {
        for count in 1..200 {
            let mut met: Vec<usize> = (0..count).map(|n| nth_in_turn(n, count)).collect();
            met.sort_unstable();
            assert!(met.iter().copied().eq(0..count), "{count}");
        }
        // Of 128 contents, 40 streams leave no gap of a tenth.
        let mut met: Vec<usize> = (0..40).map(|n| nth_in_turn(n, 128)).collect();
        met.sort_unstable();
        assert!(met.windows(2).all(|pair| pair[1] - pair[0] < 13), "{met:?}");
    }
}
