//! What stands in which join. A new stage or sink is a module beside this one, and a line here.

use super::{Origin, Sink, Stage, Wanted, limit, playlist, tally};
use crate::message::reply::Reply;

/// Makes a stage for an upload, if it has something to do there.
pub type MakeUploadStage = for<'a> fn(&Origin<'a>) -> Option<Box<dyn Stage + 'a>>;
/// Makes a stage for a delivery, if it has something to do there.
pub type MakeStage = fn(&Wanted<'_>) -> Option<Box<dyn Stage>>;
/// Makes what takes a content instead of the client's socket, if that is what is wanted. The client is answered what
/// the sink gives in the end.
pub type MakeSink = fn(&Wanted<'_>) -> Option<Box<dyn Sink<Done = Reply>>>;

/// Stages and sinks, in the order in which pieces pass them and in which they are asked.
#[derive(Clone, Copy)]
pub struct Registry {
    /// Request body → these → store.
    pub uploads: &'static [MakeUploadStage],
    /// Content → these → HTTP socket, or one of `sinks`.
    pub deliveries: &'static [MakeStage],
    /// The first that wants a content gets it.
    pub sinks: &'static [MakeSink],
}

/// What the server is built with.
pub const BUILT_IN: Registry =
    Registry { uploads: &[limit::make, tally::make], deliveries: &[playlist::make], sinks: &[] };

/// What a delivery passes.
pub(crate) struct Passage {
    pub(crate) stages: Vec<Box<dyn Stage>>,
    /// None: the client's socket.
    pub(crate) sink: Option<Box<dyn Sink<Done = Reply>>>,
}

impl Registry {
    /// The stages of an upload.
    #[must_use]
    pub fn upload<'a>(&self, origin: &Origin<'a>) -> Vec<Box<dyn Stage + 'a>> {
        self.uploads.iter().filter_map(|make| make(origin)).collect()
    }

    /// What a delivery passes.
    pub(crate) fn delivery(&self, wanted: &Wanted<'_>) -> Passage {
        Passage {
            stages: self.deliveries.iter().filter_map(|make| make(wanted)).collect(),
            sink: self.sinks.iter().find_map(|make| make(wanted)),
        }
    }
}

impl Passage {
    /// True if the data plane can do it alone.
    pub(crate) fn is_direct(&self) -> bool {
        self.stages.is_empty() && self.sink.is_none()
    }

    /// What the stages make of the content; none if it stays as it is.
    pub(crate) fn alteration(&self) -> Option<String> {
        alteration(&self.stages)
    }
}

/// The words of all stages that alter what passes; none if none does.
pub(crate) fn alteration(stages: &[Box<dyn Stage + '_>]) -> Option<String> {
    let words: Vec<&str> = stages.iter().filter_map(|stage| stage.alters()).collect();
    (!words.is_empty()).then(|| words.join("."))
}
