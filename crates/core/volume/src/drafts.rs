//! The life of a volume's uploads: each is a draft, and disks that write it at their own pace.
//!
//! Promise: a draft is published when each disk that has something of it has made that durable, and no earlier; a draft that ends gives its
//! units back when no disk writes to them any more. The steps of a disk come in the order in which it is to do them. Of a draft that is
//! kept if it breaks off, the journal records as much as all its disks have made durable.
//! Not here: doing it; when the record is durable (`write_sets`); the permission to publish.

use std::collections::{BTreeMap, VecDeque};

use crate::recording::Restored;
use crate::{DiskWrite, Draft, MemberId, Volume, VolumeError};

/// See the module. `U` is an upload as its caller knows it, `P` a piece of payload.
#[derive(Debug)]
pub struct Drafts<U, P> {
    drafts: BTreeMap<u64, DraftState<U>>,
    /// Numbers given so far.
    numbers: u64,
    steps: VecDeque<(u64, DraftStep<P>)>,
}

/// The next step of an upload.
#[derive(Debug)]
pub enum DraftStep<P> {
    /// The disk gets its first bytes of it.
    Begin(MemberId),
    /// The disk is to write this at a position.
    Write(MemberId, u64, DraftBytes<P>),
    /// No more comes for the disk: it makes its bytes durable, and [`Drafts::disk_done`] is called.
    Finish(MemberId),
    /// The disk writes nothing more of it, and [`Drafts::disk_done`] is called.
    Forget(MemberId),
    /// This number of its bytes on the disk may be wrong. The upload continues.
    Doubtful(MemberId, u64),
    /// All of it is durable: it can be published ([`Drafts::take`]), or ended.
    Publish,
    /// The bytes received are durable, and no disk writes to it: it can be kept ([`Drafts::take`]) for another upload that continues it.
    Rest,
}

/// Bytes to write of an upload.
#[derive(Debug, Clone)]
pub enum DraftBytes<P> {
    /// Payload, with zeros up to a whole block.
    Payload(P),
    /// A unit's header or a piece of the content's tail, whole blocks.
    Made(Vec<u8>),
}

#[derive(Debug)]
struct DraftState<U> {
    upload: U,
    draft: Draft,
    /// True if it continues though bytes of it may be wrong.
    keep: bool,
    /// Disks that have something of it and are not through with it.
    members: Vec<MemberId>,
    /// The pieces of it on its disks, if it is kept.
    growth: Option<WrittenPieces>,
    /// Bytes of its tail still to be written, once all else has come.
    tail: Option<Vec<u8>>,
    life: DraftLife,
}

/// The bytes of an upload on its disks.
#[derive(Debug, Default)]
struct WrittenPieces {
    /// Bytes that each disk was given to write, and how many of them it has made durable.
    disks: BTreeMap<MemberId, GivenBytes>,
    /// The ends of its pieces that are not entered yet.
    ends: VecDeque<PieceEnd>,
}

#[derive(Debug, Default)]
struct GivenBytes {
    given: u64,
    durable: u64,
}

/// The end of a piece of payload.
#[derive(Debug)]
struct PieceEnd {
    /// Bytes of the upload up to here.
    length: u64,
    /// The checksum of the table of the part that it is in, up to here.
    digest: u32,
    /// Durable when these disks have made these numbers of bytes durable.
    on: Vec<(MemberId, u64)>,
}

impl WrittenPieces {
    /// Takes the ends up to which all is durable: gives the last of them.
    fn take_durable(&mut self) -> Option<PieceEnd> {
        let is_on =
            |(member, bytes): &(MemberId, u64)| self.disks.get(member).is_none_or(|disk| disk.durable >= *bytes);
        let count = self.ends.iter().take_while(|end| end.on.iter().all(is_on)).count();
        self.ends.drain(..count).next_back()
    }

    /// Checks the pieces of an upload of which so many bytes have come, in builds with debug assertions.
    fn assert_sound(&self, length: u64) {
        debug_assert!(
            self.disks.values().all(|disk| disk.durable <= disk.given),
            "only bytes that were given to a disk are durable"
        );
        debug_assert!(self.ends.iter().is_sorted_by(|one, next| one.length < next.length), "pieces follow each other");
        debug_assert!(self.ends.back().is_none_or(|end| end.length <= length), "a piece behind all that has come");
        let given = |(member, bytes): &(MemberId, u64)| self.disks.get(member).is_some_and(|disk| *bytes <= disk.given);
        debug_assert!(
            self.ends.iter().all(|end| end.on.iter().all(given)),
            "a piece waits for bytes that its disks have"
        );
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DraftLife {
    Receiving,
    /// All has come, at this time; published when no disk is left.
    Whole(u64),
    /// It rests with the bytes received when no disk is left.
    Resting,
    /// Its units are free when no disk is left.
    Ending,
}

impl<U, P> Default for Drafts<U, P> {
    fn default() -> Self {
        Self { drafts: BTreeMap::new(), numbers: 0, steps: VecDeque::new() }
    }
}

impl<U, P: Clone> Drafts<U, P> {
    /// A number that no upload has, and none will have.
    pub fn new_number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Begins an upload, or continues a draft that rested. If `keep`, it continues though bytes of it may be wrong, as long as each part of
    /// it can be read.
    pub fn begin(&mut self, mut draft: Draft, keep: bool, upload: U) -> u64 {
        let number = self.new_number();
        if keep {
            draft.set_apart();
        }
        let (members, tail, life) = (Vec::new(), None, DraftLife::Receiving);
        let growth = keep.then(WrittenPieces::default);
        let before = self.drafts.insert(number, DraftState { upload, draft, keep, members, growth, tail, life });
        debug_assert!(before.is_none(), "a number is given once");
        number
    }

    /// Continues a recording that a crash left to its end ([`Volume::take_up_recordings`]): no more bytes of it come.
    pub fn begin_again(&mut self, draft: Draft, upload: U) -> u64 {
        let number = self.new_number();
        let (members, growth, tail, life) = (Vec::new(), None, None, DraftLife::Receiving);
        self.drafts.insert(number, DraftState { upload, draft, keep: true, members, growth, tail, life });
        number
    }

    /// A recording that a crash left was read ([`Volume::restore`]). Gives how many bytes of it are lost.
    pub fn restore(&mut self, number: u64, restored: Restored, volume: &Volume) -> u64 {
        let Some(state) = self.drafts.get_mut(&number) else { return 0 };
        let (headers, lost) = state.draft.restore(restored, volume.members());
        self.write_headers(number, headers, volume);
        lost
    }

    /// The draft of an upload that is not over.
    #[must_use]
    pub fn draft(&self, number: u64) -> Option<&Draft> {
        Some(&self.drafts.get(&number)?.draft)
    }

    /// Those that are not over.
    #[must_use]
    pub fn numbers(&self) -> Vec<u64> {
        self.drafts.keys().copied().collect()
    }

    /// Those that a disk is not through with.
    #[must_use]
    pub fn written_by(&self, member: MemberId) -> Vec<u64> {
        let written = self.drafts.iter().filter(|(_, state)| state.members.contains(&member));
        written.map(|(number, _)| *number).collect()
    }

    /// True if one of them has something on a disk.
    #[must_use]
    pub fn any_on(&self, member: MemberId) -> bool {
        self.drafts.values().any(|state| state.draft.is_on(member))
    }

    /// An upload that is not over.
    pub fn upload_mut(&mut self, number: u64) -> Option<&mut U> {
        Some(&mut self.drafts.get_mut(&number)?.upload)
    }

    /// All uploads that are not over.
    pub fn uploads_mut(&mut self) -> impl Iterator<Item = &mut U> {
        self.drafts.values_mut().map(|state| &mut state.upload)
    }

    /// The uploads whose bytes are kept for another one as soon as no disk writes to them ([`Drafts::rest`]).
    pub fn coming_to_rest(&self) -> impl Iterator<Item = &U> {
        self.drafts.values().filter(|state| state.life == DraftLife::Resting).map(|state| &state.upload)
    }

    /// Bytes that have come, if more may come.
    #[must_use]
    pub fn receiving(&self, number: u64) -> Option<u64> {
        let state = self.drafts.get(&number).filter(|state| state.life == DraftLife::Receiving)?;
        Some(state.draft.length())
    }

    /// The next step: to be taken after each call that can have an effect, until there is none.
    pub fn next_step(&mut self) -> Option<(u64, DraftStep<P>)> {
        self.steps.pop_front()
    }

    /// A piece of payload has come, in whole blocks but for the last one. It does not go beyond a unit: pieces are as long as each other, and a
    /// unit is a multiple of that.
    ///
    /// # Errors
    /// There is no room for it. It has not come then: it can be tried again, or the upload ended.
    pub fn receive(&mut self, number: u64, piece: &P, bytes: &[u8], volume: &mut Volume) -> Result<(), VolumeError> {
        let Some(state) = self.drafts.get_mut(&number).filter(|state| state.life == DraftLife::Receiving) else {
            return Ok(());
        };
        if state.growth.is_some() {
            volume.keep_for_tail(&mut state.draft);
        }
        self.make_room(number, volume)?;
        let members = self.add(number, bytes, &DraftBytes::Payload(piece.clone()), volume);
        let state = self.state(number);
        if let Some(growth) = &mut state.growth {
            let on = members.into_iter().map(|member| (member, growth.disks.entry(member).or_default().given));
            let (length, digest) = (state.draft.length(), state.draft.open_digest());
            debug_assert!(
                growth.ends.back().is_none_or(|end| end.length < length),
                "a piece lies behind those before it"
            );
            growth.ends.push_back(PieceEnd { length, digest, on: on.collect() });
        }
        self.assert_sound(number);
        Ok(())
    }

    /// A disk has made `bytes` of an upload durable that it was given to write, at `now`, in nanoseconds since 1970. True if the journal is
    /// to record them with the next commit.
    ///
    /// # Errors
    /// The catalogue has no room for it: the upload is to be ended.
    pub fn made_durable(
        &mut self,
        number: u64,
        (member, bytes): (MemberId, u64),
        now: u64,
        volume: &mut Volume,
    ) -> Result<bool, VolumeError> {
        let Some(state) = self.drafts.get_mut(&number) else { return Ok(false) };
        let Some(growth) = &mut state.growth else { return Ok(false) };
        // A disk that was left out while it flushed has nothing of the upload any more.
        if let Some(disk) = growth.disks.get_mut(&member) {
            debug_assert!(
                disk.durable <= bytes && bytes <= disk.given,
                "durable bytes stay so, and were given to the disk"
            );
            disk.durable = bytes;
        }
        let taken = growth.take_durable();
        let Some(end) = taken.filter(|_| state.life == DraftLife::Receiving) else { return Ok(false) };
        volume.enter(&state.draft, end.length, end.digest, now)?;
        Ok(true)
    }

    /// All has come, at `modified`, in nanoseconds since 1970: the tail goes behind it, and the last headers.
    ///
    /// # Errors
    /// There is no room for the tail. It can be tried again, or the upload ended.
    pub fn finish(&mut self, number: u64, modified: u64, volume: &mut Volume) -> Result<(), VolumeError> {
        let Some(state) = self.drafts.get_mut(&number).filter(|state| state.life == DraftLife::Receiving) else {
            return Ok(());
        };
        volume.free_for_tail(&mut state.draft);
        let mut tail = state.tail.take().unwrap_or_else(|| state.draft.tail());
        while !tail.is_empty() {
            let room = match self.make_room(number, volume) {
                Ok(room) => usize::try_from(room).unwrap_or(usize::MAX),
                Err(error) => {
                    self.state(number).tail = Some(tail);
                    return Err(error);
                }
            };
            let later = tail.split_off(room.min(tail.len()));
            let mut block = tail.clone();
            block.resize(tail.len().next_multiple_of(crate::BLOCK_LEN), 0);
            self.add(number, &tail, &DraftBytes::Made(block), volume);
            tail = later;
        }
        let headers = self.state(number).draft.end(volume.members(), modified);
        self.write_headers(number, headers, volume);
        self.close(number, DraftLife::Whole(modified), volume);
        Ok(())
    }

    /// No more comes. The bytes received are to be kept for another upload.
    pub fn rest(&mut self, number: u64, volume: &mut Volume) {
        if self.receiving(number).is_some() {
            debug_assert!(self.state(number).tail.is_none(), "the next upload would continue behind the content's end");
            self.close(number, DraftLife::Resting, volume);
        }
    }

    /// Ends an upload, of which nothing is to be left.
    pub fn end(&mut self, number: u64, volume: &mut Volume) {
        if self.drafts.get(&number).is_some_and(|state| state.life != DraftLife::Ending) {
            self.close(number, DraftLife::Ending, volume);
        }
    }

    /// A disk is through with an upload: it made all of it durable, or forgot it. False if there is none of this number.
    pub fn disk_done(&mut self, number: u64, member: MemberId, volume: &mut Volume) -> bool {
        let Some(state) = self.drafts.get_mut(&number) else { return false };
        state.members.retain(|other| *other != member);
        self.settle(number, volume);
        self.assert_sound(number);
        true
    }

    /// A disk was taken out, or is only read ([`Volume::take_out`]), at `now`, in nanoseconds since 1970: uploads continue with their other
    /// copies. Gives those that cannot, which are to be ended.
    pub fn leave_out(&mut self, member: MemberId, now: u64, volume: &mut Volume) -> Vec<u64> {
        let mut lost = Vec::new();
        for (number, state) in &mut self.drafts {
            if state.members.contains(&member) {
                state.members.retain(|other| *other != member);
                self.steps.push_back((*number, DraftStep::Forget(member)));
            }
            if let Some(growth) = &mut state.growth {
                // The next disk of this number is given its own.
                growth.disks.remove(&member);
                growth.ends.iter_mut().for_each(|end| end.on.retain(|(other, _)| *other != member));
            }
            let doubtful = volume.leave_out(&mut state.draft, member);
            match doubtful {
                _ if state.life == DraftLife::Ending => {}
                // Bytes that only this disk had not made durable are so now.
                Ok(0) => {
                    let taken = state.growth.as_mut().and_then(WrittenPieces::take_durable);
                    let end = taken.filter(|_| state.life == DraftLife::Receiving);
                    if end.is_some_and(|end| volume.enter(&state.draft, end.length, end.digest, now).is_err()) {
                        lost.push(*number);
                    }
                }
                Ok(bytes) if state.keep => self.steps.push_back((*number, DraftStep::Doubtful(member, bytes))),
                Ok(_) | Err(_) => lost.push(*number),
            }
        }
        for number in self.numbers() {
            if !lost.contains(&number) {
                self.settle(number, volume);
                self.assert_sound(number);
            }
        }
        debug_assert!(self.written_by(member).is_empty(), "nothing waits for a disk that was left out");
        lost
    }

    /// Takes an upload that is to be published or kept: gives it, its draft, and the time when all of it had come.
    pub fn take(&mut self, number: u64) -> Option<(U, Draft, u64)> {
        let modified = match self.drafts.get(&number).filter(|state| state.members.is_empty())?.life {
            DraftLife::Whole(modified) => modified,
            DraftLife::Resting => 0,
            DraftLife::Receiving | DraftLife::Ending => return None,
        };
        self.drafts.remove(&number).map(|state| (state.upload, state.draft, modified))
    }

    fn state(&mut self, number: u64) -> &mut DraftState<U> {
        self.drafts.get_mut(&number).expect("it was just there")
    }

    fn make_room(&mut self, number: u64, volume: &mut Volume) -> Result<u64, VolumeError> {
        let (headers, room) = volume.room(&mut self.state(number).draft)?;
        self.write_headers(number, headers, volume);
        Ok(room)
    }

    /// Gives the disks that it goes to.
    fn add(&mut self, number: u64, payload: &[u8], bytes: &DraftBytes<P>, volume: &Volume) -> Vec<MemberId> {
        let places = self.state(number).draft.add(volume.members(), payload);
        debug_assert!(
            places.iter().all(|(_, position)| position.is_multiple_of(crate::BLOCK_BYTES)),
            "a piece begins where a direct write can"
        );
        let length = whole_blocks(payload.len());
        for place in &places {
            self.write(number, *place, (bytes.clone(), length), volume);
        }
        places.into_iter().map(|(member, _)| member).collect()
    }

    fn write_headers(&mut self, number: u64, headers: Vec<DiskWrite>, volume: &Volume) {
        for DiskWrite { member, position, bytes } in headers {
            let length = whole_blocks(bytes.len());
            self.write(number, (member, position), (DraftBytes::Made(bytes), length), volume);
        }
    }

    fn write(
        &mut self,
        number: u64,
        (member, position): (MemberId, u64),
        (bytes, length): (DraftBytes<P>, u64),
        volume: &Volume,
    ) {
        if !volume.is_writable(member) {
            return;
        }
        let DraftState { members, growth, draft, life, .. } = self.state(number);
        if let Some(growth) = growth {
            growth.disks.entry(member).or_default().given += length;
        }
        debug_assert!(
            matches!(life, DraftLife::Receiving),
            "a disk that has its order to finish or forget gets no more writes"
        );
        if !members.contains(&member) {
            debug_assert!(draft.is_on(member), "a disk writes only units of the upload");
            members.push(member);
            self.steps.push_back((number, DraftStep::Begin(member)));
        }
        self.steps.push_back((number, DraftStep::Write(member, position, bytes)));
    }

    /// Ends the writes of an upload: its disks get the order to finish or forget it, and it is over when none of them is left.
    fn close(&mut self, number: u64, life: DraftLife, volume: &mut Volume) {
        let state = self.state(number);
        debug_assert!(
            state.life == DraftLife::Receiving || life == DraftLife::Ending && state.life != life,
            "a draft that receives is whole, rests or ends, and any other one only ends"
        );
        state.life = life;
        let step = if life == DraftLife::Ending { DraftStep::Forget } else { DraftStep::Finish };
        let steps: Vec<_> = state.members.iter().map(|member| (number, step(*member))).collect();
        self.steps.extend(steps);
        self.settle(number, volume);
    }

    /// Checks an upload, in builds with debug assertions.
    fn assert_sound(&self, number: u64) {
        debug_assert!(number <= self.numbers, "a number is given before it is used");
        // One that ended, or lost a part and is to be ended, promises nothing.
        let Some(state) = self.drafts.get(&number).filter(|state| !state.draft.is_lost()) else { return };
        debug_assert!(
            state.tail.is_none() || matches!(state.life, DraftLife::Receiving | DraftLife::Ending),
            "an upload is whole when all of its tail has come"
        );
        let disks = &state.members;
        debug_assert!(
            (1..disks.len()).all(|at| !disks[..at].contains(&disks[at])),
            "a disk is through with an upload once"
        );
        if let Some(growth) = &state.growth {
            growth.assert_sound(state.draft.length());
        }
    }

    /// Continues with an upload that no disk works on.
    fn settle(&mut self, number: u64, volume: &mut Volume) {
        let Some(state) = self.drafts.get(&number).filter(|state| state.members.is_empty()) else { return };
        match state.life {
            DraftLife::Receiving => {}
            DraftLife::Whole(_) => self.steps.push_back((number, DraftStep::Publish)),
            DraftLife::Resting => self.steps.push_back((number, DraftStep::Rest)),
            DraftLife::Ending => {
                let ended = self.drafts.remove(&number);
                ended.into_iter().for_each(|ended| volume.abandon(ended.draft));
            }
        }
    }
}

/// The room that this number of bytes takes on a disk.
fn whole_blocks(bytes: usize) -> u64 {
    u64::try_from(bytes).expect("a length in memory fits into 64 bits").next_multiple_of(crate::BLOCK_BYTES)
}
