//! Flash video: the curve from the times of tags at several places of the file.

use units::Nanos;

use super::curve::Mark;
use super::input::BudgetedFile;
use super::{ContainerFacts, ProbeError, be_u32, places};

pub(super) const MAGIC: &[u8] = b"FLV\x01";
const TAG_HEAD: usize = 11;
/// Sound and pictures.
const KINDS: [u8; 2] = [8, 9];

pub(super) fn probe(source: &mut BudgetedFile<'_>) -> Result<ContainerFacts, ProbeError> {
    let head = source.exact::<9>(0)?;
    places::sampled(source, u64::from(be_u32(&head, 5).unwrap_or(0)), tags)
}

/// Tags that lie whole in `bytes`: where, and their times. The length behind a tag repeats the one in its head, which is no chance.
fn tags(bytes: &[u8]) -> Vec<Mark> {
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(head) = bytes.get(at..).and_then(|rest| rest.first_chunk::<TAG_HEAD>()) {
        let length = TAG_HEAD + usize::from(head[1]) * 65_536 + usize::from(head[2]) * 256 + usize::from(head[3]);
        let is_tag = matches!(head[0], 8 | 9 | 18) && head[8..] == [0, 0, 0];
        let repeated = be_u32(bytes, at + length).and_then(|length| usize::try_from(length).ok());
        if !is_tag || repeated != Some(length) {
            at += 1;
            continue;
        }
        if KINDS.contains(&head[0]) && length > TAG_HEAD {
            let millis = u32::from_be_bytes([head[7], head[4], head[5], head[6]]);
            found.push(Mark::at(at, Nanos::from_millis(u64::from(millis))));
        }
        at += length + 4;
    }
    found
}
