//! Reasons of failures, of which results keep the first few.

const KEPT_MAX: usize = 5;

/// Adds a reason that is new, while there is room.
pub(super) fn keep(reasons: &mut Vec<String>, reason: String) {
    if reasons.len() < KEPT_MAX && !reasons.contains(&reason) {
        reasons.push(reason);
    }
}
