//! Bytes of uploads that their clients left, for others that continue them ([`OnBreak::Resume`]).
//!
//! Promise: they lie in units that nothing else is given and are in no catalogue: they are gone when the server ends. A user of their
//! space or their disk lets them go first. Not here: an upload to which disks still write (`core`).

use std::collections::BTreeMap;

use units::limits;
use volume::{Draft, Volume};

use store::OnBreak;

/// By the names of the contents: the version, and its received bytes.
#[derive(Debug, Default)]
pub(super) struct RestingUploads(BTreeMap<String, (OnBreak, Draft)>);

impl RestingUploads {
    /// Keeps it, in place of another one of the same name.
    pub(super) fn keep(&mut self, volume: &mut Volume, name: String, on_break: OnBreak, draft: Draft) {
        debug_assert!(matches!(on_break, OnBreak::Resume(_)), "no other upload is continued");
        debug_assert!(
            draft.length() > 0 && draft.length().is_multiple_of(limits::DIRECT_ALIGN),
            "an upload resumes at a whole direct write"
        );
        if self.0.len() >= limits::UPLOADS_MAX {
            self.let_go(volume);
        }
        if let Some((_, older)) = self.0.insert(name, (on_break, draft)) {
            volume.abandon(older);
        }
        debug_assert!(self.0.len() <= limits::UPLOADS_MAX, "resting uploads are bounded");
    }

    /// The bytes that an upload continues; those of another version are let go.
    pub(super) fn take(&mut self, volume: &mut Volume, name: &str, on_break: OnBreak) -> Option<Draft> {
        let (version, draft) = self.0.remove(name)?;
        if version == on_break {
            return Some(draft);
        }
        volume.abandon(draft);
        None
    }

    /// Gives all their space back; false if there was nothing.
    pub(super) fn let_go(&mut self, volume: &mut Volume) -> bool {
        let resting = std::mem::take(&mut self.0);
        let any = !resting.is_empty();
        resting.into_values().for_each(|(_, draft)| volume.abandon(draft));
        any
    }
}
