//! Uses of signed links: assigns requests to a use that began before.
//!
//! Promise: the table is bounded; when it is full, a request counts as a use of its own. Not here: the counts (the crate `accounts`).

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::lock::lock;

/// Time without a request after which a use has ended.
const USE_TIME: Duration = Duration::from_secs(3600);
/// Most uses under way.
const USES_MAX: usize = 16 * 1024;

/// Uses under way, by link and viewer.
#[derive(Debug, Default)]
pub(crate) struct LinkUses(Mutex<HashMap<(i64, u64), Instant>>);

impl LinkUses {
    /// True if a request of the viewer belongs to a use of the link that is under way, which is then prolonged.
    pub(crate) fn lasts(&self, link: i64, viewer: u64, now: Instant) -> bool {
        let mut uses = lock(&self.0);
        let known = uses.get_mut(&(link, viewer)).filter(|last| now.saturating_duration_since(**last) < USE_TIME);
        known.map(|last| *last = now).is_some()
    }

    /// Notes that a use began.
    pub(crate) fn begin(&self, link: i64, viewer: u64, now: Instant) {
        let mut uses = lock(&self.0);
        if uses.len() >= USES_MAX {
            uses.retain(|_, last| now.saturating_duration_since(*last) < USE_TIME);
        }
        if uses.len() < USES_MAX {
            uses.insert((link, viewer), now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_use_lasts_while_its_viewer_comes_again() {
        let (uses, now) = (LinkUses::default(), Instant::now());
        assert!(!uses.lasts(1, 7, now));
        uses.begin(1, 7, now);
        assert!(uses.lasts(1, 7, now + USE_TIME / 2) && uses.lasts(1, 7, now + USE_TIME));
        assert!(!uses.lasts(1, 8, now) && !uses.lasts(2, 7, now));
        assert!(!uses.lasts(1, 7, now + 3 * USE_TIME));
        (0..USES_MAX as u64 + 5).for_each(|viewer| uses.begin(2, viewer, now));
        assert_eq!(lock(&uses.0).len(), USES_MAX);
    }
}
