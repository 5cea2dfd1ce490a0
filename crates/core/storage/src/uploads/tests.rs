//! Uploads, recordings and commits by their offers and grants.

use super::*;
use crate::grant::Offer;

struct InOnePiece;

impl UploadFile for InOnePiece {
    fn run_at(&self, offset: u64) -> (u64, u64) {
        (offset, u64::MAX)
    }
}

const SECOND: Nanos = Nanos::from_secs(1);
const CHUNK: u64 = limits::CHUNK_BYTES;

/// A recording of a chunk a second, with a block of four from second 10 on.
fn recording() -> (Uploads<InOnePiece, ()>, UploadId) {
    let place = RecordingPlace {
        first: SECOND.saturating_mul(10),
        period: SECOND.saturating_mul(4),
        within: SECOND.saturating_mul(2),
    };
    let reservation = ReservationId { slot: 0, generation: 0 };
    let mut uploads = Uploads::new(DiskId(0));
    let terms = RecordingTerms { rate: BitRate(8 * CHUNK), reservation, place };
    let id = uploads.begin(InOnePiece, Some(terms), true, 0);
    (uploads, id)
}

fn offered(uploads: &mut Uploads<InOnePiece, ()>, id: UploadId) -> Option<(u64, WorkClass)> {
    let mut found = None;
    uploads.send_messages(|message| {
        if let StoreMessage::Offer(Offer { job, work: StoreWork::Write { bytes, .. }, class, .. }) = message {
            assert_eq!(job, job_of(id));
            found = Some((bytes, class));
        }
        true
    });
    found
}

fn write(uploads: &mut Uploads<InOnePiece, ()>, id: UploadId, bytes: u64, now: Nanos) {
    let grant = Grant { disk: DiskId(0), job: job_of(id), bytes_max: bytes, until: Nanos::MAX };
    assert!(matches!(uploads.granted(grant, now), Granted::Write { .. }));
    uploads.wrote(id, bytes, None, now);
}

#[test]
fn a_recording_gathers_a_block_and_offers_it_when_it_is_due() {
    let (mut uploads, id) = recording();
    uploads.received(id, 3 * CHUNK);
    assert_eq!(offered(&mut uploads, id), None, "it is not due");
    let due = uploads.next_block().expect("one is");
    uploads.begin_blocks(due.saturating_sub(Nanos(1)));
    assert_eq!(offered(&mut uploads, id), None);
    uploads.begin_blocks(due);
    let reservation = ReservationId { slot: 0, generation: 0 };
    let class = WorkClass::RealTime { reservation, deadline: SECOND.saturating_mul(12) };
    assert_eq!(offered(&mut uploads, id), Some((3 * CHUNK, class)));
    // Bytes that come meanwhile wait for the next block.
    uploads.received(id, CHUNK);
    write(&mut uploads, id, 2 * CHUNK, due);
    assert_eq!(offered(&mut uploads, id), Some((CHUNK, class)), "what is left of this one");
    write(&mut uploads, id, CHUNK, due);
    assert_eq!(offered(&mut uploads, id), None);
    assert_eq!(uploads.next_block(), Some(due.saturating_add(SECOND.saturating_mul(4))));
}

#[test]
fn a_recording_that_exceeds_its_rate_is_promised_a_block_and_the_rest_is_best_effort() {
    let (mut uploads, id) = recording();
    uploads.received(id, 4 * CHUNK);
    assert_eq!(offered(&mut uploads, id), None, "a block");
    uploads.received(id, 2 * CHUNK);
    assert_eq!(offered(&mut uploads, id), Some((6 * CHUNK, WorkClass::BestEffort)));
    let due = uploads.next_block().expect("one is");
    uploads.begin_blocks(due);
    assert!(matches!(offered(&mut uploads, id), Some((bytes, WorkClass::RealTime { .. })) if bytes == 4 * CHUNK));
}

#[test]
fn excess_bytes_of_a_block_are_offered_behind_it() {
    let (mut uploads, id) = recording();
    uploads.received(id, 4 * CHUNK + 4096);
    let due = uploads.next_block().expect("one is");
    uploads.begin_blocks(due);
    write(&mut uploads, id, 4 * CHUNK, due);
    assert_eq!(uploads.uploads[&id].offered_bytes, 4096, "as best effort, with the grant that was used");
}

#[test]
fn blocks_that_were_due_while_the_disk_held_the_thread_up_are_due_together() {
    let (mut uploads, id) = recording();
    uploads.received(id, 12 * CHUNK);
    assert!(offered(&mut uploads, id).is_some(), "more than a block and a chunk");
    let due = uploads.next_block().expect("one is").saturating_add(SECOND.saturating_mul(9));
    uploads.begin_blocks(due);
    assert!(matches!(offered(&mut uploads, id), Some((bytes, WorkClass::RealTime { .. })) if bytes == 12 * CHUNK));
}

/// Else a batch on a disk that writes more slowly than promised would never come to its commit.
#[test]
fn a_block_waits_until_the_one_before_is_written() {
    let (mut uploads, id) = recording();
    uploads.received(id, 4 * CHUNK);
    let due = uploads.next_block().expect("one is");
    uploads.begin_blocks(due);
    write(&mut uploads, id, 3 * CHUNK, due);
    uploads.received(id, 4 * CHUNK);
    let later = due.saturating_add(SECOND.saturating_mul(5));
    uploads.begin_blocks(later);
    let class = |deadline| WorkClass::RealTime {
        reservation: ReservationId { slot: 0, generation: 0 },
        deadline: SECOND.saturating_mul(deadline),
    };
    assert_eq!(offered(&mut uploads, id), Some((CHUNK, class(12))), "the rest of the first block alone");
    assert_eq!(uploads.next_block(), None);
    write(&mut uploads, id, CHUNK, later);
    assert!(uploads.next_block().is_some_and(|next| next < later), "at once");
    uploads.begin_blocks(later);
    assert_eq!(offered(&mut uploads, id), Some((4 * CHUNK, class(16))));
}

#[test]
fn a_name_that_is_given_early_is_made_durable_after_half_of_its_time() {
    let mut uploads: Uploads<InOnePiece, ()> = Uploads::new(DiskId(0));
    let id = uploads.begin(InOnePiece, None, false, 0);
    uploads.name_early(id, SECOND.saturating_mul(4));
    uploads.received(id, CHUNK);
    write(&mut uploads, id, CHUNK, SECOND);
    assert_eq!(uploads.next_to_name(), None, "more may come");
    uploads.finish(id);
    assert_eq!(uploads.next_to_name(), Some((id, CHUNK)));
    uploads.named(id, Ok(()), SECOND);
    let awaited = |uploads: &mut Uploads<InOnePiece, ()>| {
        let mut found = None;
        uploads.send_messages(|message| {
            if let StoreMessage::Offer(Offer { work: StoreWork::Commit { awaited, .. }, .. }) = message {
                found = Some(awaited);
            }
            true
        });
        found
    };
    assert_eq!(awaited(&mut uploads), Some(false), "others may take it along");
    let due = SECOND.saturating_mul(3);
    assert_eq!(uploads.next_block(), Some(due));
    uploads.begin_blocks(due);
    assert_eq!(awaited(&mut uploads), Some(true));
    let commit = Grant { disk: DiskId(0), job: COMMIT_JOB, bytes_max: 0, until: Nanos::MAX };
    assert_eq!(uploads.granted(commit, due), Granted::Commit);
    assert!(matches!(uploads.next_part(), Some(CommitPart::SyncName(named)) if named == id));
    uploads.part_done(Ok(()), due);
    assert!(uploads.is_idle());
}

#[test]
fn a_commit_makes_all_recordings_durable_that_were_written() {
    let (mut uploads, first) = recording();
    let second = uploads.begin(InOnePiece, uploads.uploads[&first].recording.map(|recording| recording.terms), true, 0);
    [first, second].into_iter().for_each(|id| uploads.received(id, CHUNK));
    let due = uploads.next_block().expect("one is");
    uploads.begin_blocks(due);
    [first, second].into_iter().for_each(|id| write(&mut uploads, id, CHUNK, due));
    let commit = Grant { disk: DiskId(0), job: COMMIT_JOB, bytes_max: 0, until: Nanos::MAX };
    assert_eq!(uploads.granted(commit, due), Granted::Commit);
    let Some(CommitPart::Grown { syncs, .. }) = uploads.next_part() else { panic!("both have grown") };
    assert_eq!(syncs, [second, first], "no journal has both");
    uploads.part_done(Ok(()), due);
    assert!(uploads.next_part().is_none() && uploads.dirty_bytes() == 0);
}

#[test]
fn a_commit_names_the_uploads_without_a_journal_that_may_be_synced_beside_each_other() {
    let mut uploads: Uploads<InOnePiece, ()> = Uploads::new(DiskId(0));
    let ids = [0; 3].map(|_| {
        let id = uploads.begin(InOnePiece, None, false, 0);
        uploads.received(id, CHUNK);
        write(&mut uploads, id, CHUNK, SECOND);
        uploads.finish(id);
        id
    });
    let commit = Grant { disk: DiskId(0), job: COMMIT_JOB, bytes_max: 0, until: Nanos::MAX };
    assert!(uploads.secured_alone().is_empty(), "no commit is under way");
    assert_eq!(uploads.granted(commit, SECOND), Granted::Commit);
    assert_eq!(uploads.secured_alone(), ids.map(|id| (id, CHUNK)));
    while !matches!(uploads.next_part(), Some(CommitPart::SyncName(_))) {
        assert!(uploads.synced_alone().len() < ids.len(), "all have their names first");
        uploads.part_done(Ok(()), SECOND);
    }
    assert_eq!((uploads.secured_alone(), uploads.synced_alone()), (Vec::new(), ids.to_vec()));
    ids.iter().for_each(|_| uploads.part_done(Ok(()), SECOND));
    assert!(uploads.next_part().is_none() && uploads.synced_alone().is_empty());
}

#[test]
fn bytes_of_a_failed_commit_are_due_with_the_next_block() {
    let (mut uploads, id) = recording();
    uploads.received(id, CHUNK);
    let due = uploads.next_block().expect("one is");
    uploads.begin_blocks(due);
    write(&mut uploads, id, CHUNK, due);
    let commit = Grant { disk: DiskId(0), job: COMMIT_JOB, bytes_max: 0, until: Nanos::MAX };
    assert_eq!(uploads.granted(commit, due), Granted::Commit);
    assert!(matches!(uploads.next_part(), Some(CommitPart::Grown { .. })));
    uploads.part_done(Err(UploadFailure::Disk), due);
    assert!(uploads.next_part().is_none() && uploads.dirty_bytes() == CHUNK);
    uploads.send_messages(|_| true);
    let next = uploads.next_block().expect("one is");
    uploads.begin_blocks(next);
    let mut awaited = 0;
    uploads.send_messages(|message| {
        let work = if let StoreMessage::Offer(Offer { work, .. }) = message { Some(work) } else { None };
        awaited += u32::from(work == Some(StoreWork::Commit { dirty_bytes: CHUNK, awaited: true }));
        true
    });
    assert_eq!(awaited, 1);
    assert_eq!(uploads.granted(commit, next), Granted::Commit);
    assert!(matches!(uploads.next_part(), Some(CommitPart::Grown { syncs, .. }) if syncs == [id]));
    uploads.part_done(Ok(()), next);
    assert!(uploads.next_part().is_none() && uploads.dirty_bytes() == 0);
}
