//! What the targets for media files share, and those for volumes.

pub mod volumes;

use media::{ProbeBudget, probe};

/// Looks into a file that begins with `beginning` and goes on with `data`: any bytes give an answer, and one that says
/// something says something possible.
pub fn probe_file(beginning: &[u8], data: &[u8]) {
    let file = [beginning, data].concat();
    let mut input = file.as_slice();
    if let Ok(media) = probe(&mut input, ProbeBudget::default()) {
        assert!(media.rate.0 > 0 && media.duration.0 > 0);
        assert!(media.preroll_bytes <= u64::try_from(file.len()).unwrap_or(u64::MAX));
    }
    // As it comes, so that real files serve as seeds.
    let mut input = data;
    let _ = probe(&mut input, ProbeBudget { bytes: 1 << 20, reads: 16 });
}
