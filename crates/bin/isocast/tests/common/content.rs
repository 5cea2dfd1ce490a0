//! Contents and chance from a seed: any byte of any content can be computed, so none is stored.

/// Chance that repeats itself (SplitMix64).
#[derive(Debug, Clone)]
pub struct Chance(pub u64);

impl Chance {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.0)
    }

    /// A number from `low` up to, not including, `high`.
    pub fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low).max(1)
    }

    pub fn one_in(&mut self, count: u64) -> bool {
        self.next().is_multiple_of(count)
    }

    /// As many of each order of magnitude as of any other.
    pub fn size(&mut self, least: u64, most: u64) -> u64 {
        let doublings = u64::from((most / least).ilog2());
        let floor = least << self.within(0, doublings + 1);
        self.within(floor, (floor * 2).min(most) + 1)
    }
}

fn mixed(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Seed and length of a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Content {
    pub seed: u64,
    pub bytes: u64,
}

impl Content {
    /// The bytes from `offset` on, as many as `buffer` takes and the content has left. Gives how many.
    pub fn fill(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let length = buffer.len().min(usize::try_from(self.bytes.saturating_sub(offset)).expect("fits"));
        let mut at = 0;
        while at < length {
            let position = offset + u64::try_from(at).expect("fits");
            let word = mixed(self.seed ^ (position / 8).wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_le_bytes();
            let within = usize::try_from(position % 8).expect("below 8");
            let take = (8 - within).min(length - at);
            buffer[at..at + take].copy_from_slice(&word[within..within + take]);
            at += take;
        }
        length
    }

    /// First place at which `bytes`, found at `offset`, differ from it.
    pub fn difference(&self, offset: u64, bytes: &[u8]) -> Option<u64> {
        let mut expected = vec![0; bytes.len()];
        let length = self.fill(offset, &mut expected);
        let place = (0..bytes.len()).find(|&at| at >= length || expected[at] != bytes[at]);
        if expected[..length] == *bytes { None } else { place.map(|at| offset + u64::try_from(at).expect("fits")) }
    }
}
