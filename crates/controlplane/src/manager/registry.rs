//! The stages of an upload, in order. A new one is a module beside this one, and a line here.

use super::{Origin, Stage, limit, tally};

/// Makes a stage for a join, if it has something to do there.
pub type MakeStage = for<'a> fn(&Origin<'a>) -> Option<Box<dyn Stage + 'a>>;

/// All stages, in the order in which a piece passes them.
pub const STAGES: &[MakeStage] = &[limit::make, tally::make];

/// The stages for a join.
#[must_use]
pub fn stages<'a>(origin: &Origin<'a>) -> Vec<Box<dyn Stage + 'a>> {
    STAGES.iter().filter_map(|make| make(origin)).collect()
}
