//! List of the first few different reasons of failures, for results.

const KEPT_MAX: usize = 5;

/// Adds a reason if it is new and there is room.
pub(super) fn keep(reasons: &mut Vec<String>, reason: String) {
    if reasons.len() < KEPT_MAX && !reasons.contains(&reason) {
        reasons.push(reason);
    }
}
