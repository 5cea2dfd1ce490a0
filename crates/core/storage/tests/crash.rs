//! The power cut before and after every sync of a thousand operations, and a sync that fails: acknowledged contents are
//! whole, nothing half-written is visible, leftovers are cleaned up. Compared with a plain map.
//!
//! The life of an upload is the product's (`storage::uploads`, `storage::leftover`); the file system is a model. The test
//! must find each way of carrying out the product's orders wrongly.

mod common;

use std::collections::BTreeMap;

use common::{Chance, FileSystem, SECTOR, Sector};
use storage::grant::{Grant, JobId, RecordingPlace, StoreMessage, StoreWork};
use storage::leftover::{Leftover, PREFIX, hidden_name, leftover, numbered_names};
use storage::uploads::{CommitPart, Granted, JournalId, RecordingTerms, UploadFailure, UploadFile, Uploads};
use units::{BitRate, DiskId, Nanos, ReservationId, UploadId};

const OPERATIONS: u32 = 1000;
const NAMES: u64 = 12;
const RUNNING_MAX: usize = 8;
const RUN: &str = "1-a";

/// The step that is done wrongly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wrong {
    Nothing,
    /// An upload is acknowledged when it has its name.
    AcknowledgesBeforeSync,
    /// A removal is acknowledged when the name is gone.
    AcknowledgesRemovalBeforeSync,
    /// Bytes are not made durable before their name where the journal does not do that.
    SkipsSecuring,
    /// The padding of the last write stays.
    SkipsCutting,
    /// A start leaves the leftovers of a crash.
    LeavesLeftovers,
    /// A start takes the length of a leftover for its written bytes.
    TrustsLengths,
    /// A flush that no upload waits for leaves the growth of recordings to the journal.
    FlushesTheCacheOnly,
    /// An upload is acknowledged though its sync had nothing left to do because another one failed.
    AcknowledgesBehindAFailedSync,
    /// A removal is acknowledged without a look at whether the file system takes changes.
    SkipsCheckingRemovals,
}

/// A content: which, and how long.
type Content = (u32, u64);

#[derive(Debug)]
struct File {
    file: u64,
    hidden: Option<String>,
    name: String,
    content: u32,
    /// Bytes its client has sent, as far as there was room for them.
    sent: u64,
    keep: bool,
    /// The bytes received stay for another upload if it breaks off.
    resume: bool,
    /// Its effect on its name.
    effect: u64,
    journal: Option<JournalId>,
}

impl UploadFile for File {
    fn run_at(&self, offset: u64) -> (u64, u64) {
        (self.file << 32 | offset, u64::MAX)
    }

    fn journal(&self) -> Option<JournalId> {
        self.journal
    }
}

#[derive(Debug)]
struct Removal {
    name: String,
    effect: u64,
}

/// Contents that may be under a name: the one acknowledged last, and those that came after.
#[derive(Debug, Clone, Default)]
struct Expected {
    acknowledged: (u64, Option<Content>),
    later: BTreeMap<u64, Option<Content>>,
}

impl Expected {
    fn acknowledge(&mut self, effect: u64) {
        let value = self.later.remove(&effect).expect("it had an effect");
        if effect > self.acknowledged.0 {
            self.acknowledged = (effect, value);
        }
        self.later.retain(|later, _| *later > effect);
    }
}

/// The map, and a fact that it cannot know: how far recordings are durable.
#[derive(Debug, Clone, Default)]
struct Map {
    names: BTreeMap<String, Expected>,
    /// Recordings: content, and whole sectors that were durable at the last wait for that.
    recordings: BTreeMap<String, (u32, u64)>,
}

/// A server on the file system.
struct Server {
    wrong: Wrong,
    files: FileSystem,
    chance: Chance,
    uploads: Uploads<File, Removal>,
    offers: BTreeMap<JobId, StoreWork>,
    running: Vec<UploadId>,
    /// The files of uploads that broke off and can be continued.
    parts: Vec<File>,
    /// The sync of this number fails.
    fails_at: u32,
    map: Map,
    now: Nanos,
    contents: u32,
    effects: u64,
    hidden: u64,
    syncs: u32,
    violations: Vec<String>,
}

impl Server {
    fn new(seed: u64, ordered: bool, wrong: Wrong) -> Self {
        Self {
            wrong,
            files: FileSystem::new(ordered),
            chance: Chance(seed),
            uploads: Uploads::new(DiskId(0)),
            offers: BTreeMap::new(),
            running: Vec::new(),
            parts: Vec::new(),
            fails_at: u32::MAX,
            map: Map::default(),
            now: Nanos::from_secs(1),
            contents: 0,
            effects: 0,
            hidden: 0,
            syncs: 0,
            violations: Vec::new(),
        }
    }

    fn operate(&mut self) {
        self.now = self.now.saturating_add(Nanos::from_millis(1 + self.chance.below(50)));
        match self.chance.below(20) {
            0..4 if self.running.len() < RUNNING_MAX => self.begin(),
            4..9 => self.receive(),
            9..11 => self.finish(),
            11 if self.chance.one_in(3) => self.break_off(),
            12 => self.remove(),
            _ => self.grant(),
        }
        self.name_early();
        self.uploads.begin_blocks(self.now);
        self.hear();
    }

    fn pick(&mut self) -> Option<UploadId> {
        let count = u64::try_from(self.running.len()).expect("few");
        (count > 0).then(|| self.running[usize::try_from(self.chance.below(count)).expect("few")])
    }

    fn begin(&mut self) {
        if self.files.is_broken() {
            return;
        }
        if self.chance.one_in(4)
            && let Some(part) = self.parts.pop()
        {
            let written = self.files.length(part.file) / SECTOR * SECTOR;
            let upload = self.uploads.begin(File { sent: written, ..part }, None, false, written);
            return self.running.push(upload);
        }
        self.contents += 1;
        let keep = self.chance.one_in(4);
        let name =
            if keep { format!("recording {}.ts", self.contents) } else { format!("{}", self.chance.below(NAMES)) };
        self.hidden += 1;
        let resume = !keep && self.chance.one_in(3);
        // With O_TMPFILE and without, as file systems have it; a file to be kept or continued must be found.
        let hidden =
            (keep || resume || self.chance.one_in(3)).then(|| hidden_name(RUN, self.hidden, keep.then_some(&name)));
        let file = self.files.create(hidden.as_deref());
        if keep {
            self.map.recordings.insert(name.clone(), (self.contents, 0));
        }
        let file = File {
            file,
            hidden,
            name,
            content: self.contents,
            sent: 0,
            keep,
            resume,
            effect: 0,
            journal: self.journal(),
        };
        let reservation = ReservationId { slot: 1, generation: 1 };
        let second = Nanos::from_secs(1);
        let place = RecordingPlace { first: self.now.saturating_add(second), period: second, within: second };
        let recording = keep.then_some(RecordingTerms { rate: BitRate(8_000_000), reservation, place });
        let upload = self.uploads.begin(file, recording, keep, 0);
        if self.files.is_ordered() && !keep && self.chance.one_in(3) {
            self.uploads.name_early(upload, second);
        }
        self.running.push(upload);
    }

    fn receive(&mut self) {
        let Some(upload) = self.pick() else { return };
        // A recording is offered by chunks.
        let keeps = self.uploads.file_mut(upload).is_some_and(|file| file.keep);
        let bytes = if keeps { 1 << 20 } else { SECTOR * (1 + self.chance.below(8)) };
        self.send(upload, bytes);
    }

    fn send(&mut self, upload: UploadId, bytes: u64) {
        if let Some(file) = self.uploads.receiving(upload) {
            file.sent += bytes;
        }
        self.uploads.received(upload, bytes);
    }

    fn finish(&mut self) {
        let Some(upload) = self.pick() else { return };
        let rest = self.chance.below(SECTOR);
        if rest > 0 {
            self.send(upload, rest);
        }
        self.running.retain(|running| *running != upload);
        self.uploads.finish(upload);
    }

    /// Names the uploads that are written and need be durable only later.
    fn name_early(&mut self) {
        while let Some((upload, length)) = self.uploads.next_to_name() {
            let outcome = if self.files.is_broken() { Err(UploadFailure::Disk) } else { Ok(()) };
            let file = self.uploads.file_mut(upload).expect("it waits").file;
            if outcome.is_ok() {
                if self.wrong != Wrong::SkipsCutting {
                    self.files.truncate(file, length);
                }
                self.publish(upload);
            }
            self.uploads.named(upload, outcome, self.now);
            self.cut_the_power();
        }
    }

    fn break_off(&mut self) {
        let Some(upload) = self.pick() else { return };
        self.running.retain(|running| *running != upload);
        match self.uploads.break_off(upload) {
            Some(file) if file.resume && self.files.length(file.file) > 0 => self.parts.push(file),
            Some(file) => self.forget(file),
            None => {}
        }
    }

    /// An upload is over and leaves nothing, except the file of a recording, which the next start finds.
    fn forget(&mut self, file: File) {
        if let Some(hidden) = file.hidden.filter(|_| !file.keep && !self.files.is_broken()) {
            self.files.unlink(&hidden);
        }
    }

    fn remove(&mut self) {
        let name = self.chance.below(NAMES).to_string();
        if self.files.file(&name).is_none() || self.files.is_broken() {
            return;
        }
        self.files.unlink(&name);
        let effect = self.effect(&name, None);
        if self.wrong == Wrong::AcknowledgesRemovalBeforeSync {
            self.map.names.entry(name.clone()).or_default().acknowledge(effect);
        }
        self.uploads.removed(Removal { name, effect }, self.journal());
    }

    fn journal(&self) -> Option<JournalId> {
        self.files.is_ordered().then_some(JournalId(1))
    }

    fn effect(&mut self, name: &str, value: Option<Content>) -> u64 {
        self.effects += 1;
        self.map.names.entry(name.to_owned()).or_default().later.insert(self.effects, value);
        self.effects
    }

    /// Messages to the schedule, which keeps the offers.
    fn hear(&mut self) {
        self.uploads.send_messages(|message| {
            match message {
                StoreMessage::Offer(offer) => drop(self.offers.insert(offer.job, offer.work)),
                StoreMessage::Withdraw { job, .. } => drop(self.offers.remove(&job)),
                StoreMessage::Done(done) if done.ready_bytes > 0 => {
                    self.offers.insert(done.job, StoreWork::Write { bytes: done.ready_bytes, position: done.position });
                }
                StoreMessage::Done(_) | StoreMessage::Placed { .. } => {}
            }
            true
        });
    }

    fn grant(&mut self) {
        let count = u64::try_from(self.offers.len()).expect("few");
        if count == 0 {
            return;
        }
        let place = usize::try_from(self.chance.below(count)).expect("few");
        let job = *self.offers.keys().nth(place).expect("one of them");
        self.offers.remove(&job);
        let late = self.chance.one_in(20);
        let until = if late { Nanos::ZERO } else { self.now };
        let grant = Grant { disk: DiskId(0), job, bytes_max: SECTOR * (1 + self.chance.below(600)), until };
        match self.uploads.granted(grant, self.now) {
            Granted::Late => assert!(late),
            Granted::Unused => {}
            Granted::Chore => unreachable!("none was offered"),
            Granted::Write { upload, offset, bytes } => self.write(upload, offset, bytes),
            Granted::Commit => self.commit(),
        }
    }

    fn write(&mut self, upload: UploadId, offset: u64, bytes: u64) {
        // The time is over before all of it is written, or the disk is full.
        let written = if self.chance.one_in(4) { self.chance.below(bytes / SECTOR + 1) * SECTOR } else { bytes };
        let trouble = match self.chance.below(150) {
            0 => Some(UploadFailure::Full),
            1 => Some(UploadFailure::Disk),
            _ => None,
        };
        let file = self.uploads.file_mut(upload).expect("it was granted");
        let first = self.chance.below(written / SECTOR + 1) * SECTOR;
        for (at, bytes) in [(first, written - first), (0, first)] {
            self.files.write(file.file, offset + at, bytes, file.content);
        }
        if trouble.is_some() {
            file.sent = file.sent.min(offset + written);
            self.running.retain(|running| *running != upload);
        }
        if let Some(file) = self.uploads.wrote(upload, written, trouble, self.now) {
            self.forget(file);
        }
    }

    fn commit(&mut self) {
        while let Some(part) = self.uploads.next_part() {
            // A file system that failed takes no changes, and reports of lost changes that nothing is left to do.
            let takes_changes = if self.files.is_broken() { Err(UploadFailure::Disk) } else { Ok(()) };
            let mut outcome = Ok(());
            let sync = match part {
                CommitPart::Secure { upload, length } => {
                    outcome = takes_changes;
                    let file = self.uploads.file_mut(upload).expect("it waits").file;
                    if self.wrong != Wrong::SkipsCutting && outcome.is_ok() {
                        self.files.truncate(file, length);
                    }
                    (!self.files.is_ordered() && self.wrong != Wrong::SkipsSecuring).then_some(Some(file))
                }
                CommitPart::Publish(upload) => {
                    outcome = takes_changes;
                    if outcome.is_ok() {
                        self.publish(upload);
                    }
                    None
                }
                CommitPart::SyncName(upload) => Some(self.uploads.file_mut(upload).map(|file| file.file)),
                CommitPart::Settled(_) => None,
                CommitPart::Withhold(upload) => {
                    if self.wrong == Wrong::AcknowledgesBehindAFailedSync {
                        self.acknowledge(upload);
                    }
                    outcome = Err(UploadFailure::Disk);
                    None
                }
                CommitPart::SyncRemoval(_) => Some(None),
                CommitPart::CheckRemoval(_) => {
                    if self.wrong != Wrong::SkipsCheckingRemovals {
                        outcome = takes_changes;
                    }
                    None
                }
                CommitPart::Grown { syncs, .. } if self.wrong != Wrong::FlushesTheCacheOnly => {
                    for upload in syncs {
                        let Some(file) = self.uploads.file_mut(upload).map(|file| file.file) else { continue };
                        self.cut_the_power();
                        outcome = outcome.and(self.sync_does(|files| files.sync(Some(file))));
                    }
                    None
                }
                CommitPart::Grown { .. } | CommitPart::Flush { .. } => {
                    self.cut_the_power();
                    outcome = self.sync_does(FileSystem::flush);
                    None
                }
            };
            if let Some(file) = sync {
                self.cut_the_power();
                outcome = outcome.and(self.sync_does(|files| files.sync(file)));
            }
            self.part_done(outcome);
            self.cut_the_power();
        }
    }

    /// A sync, which may fail.
    fn sync_does(&mut self, sync: impl FnOnce(&mut FileSystem)) -> Result<(), UploadFailure> {
        self.syncs += 1;
        if self.syncs == self.fails_at {
            self.files.fail();
            return Err(UploadFailure::Disk);
        }
        sync(&mut self.files);
        Ok(())
    }

    /// Acknowledges the changes that the part made durable.
    fn part_done(&mut self, outcome: Result<(), UploadFailure>) {
        let mut removed = None;
        let mut grown = Vec::new();
        match self.uploads.next_part().expect("the same part again") {
            _ if outcome.is_err() => {}
            CommitPart::SyncName(upload) | CommitPart::Settled(upload) => self.acknowledge(upload),
            CommitPart::CheckRemoval(removal) => removed = Some((removal.name.clone(), removal.effect)),
            CommitPart::Grown { uploads, .. } => grown = uploads,
            _ => {}
        }
        self.uploads.part_done(outcome, self.now);
        if let Some((name, effect)) = removed {
            self.acknowledge_effect(&name, effect);
        }
        if !self.files.is_broken() {
            grown.into_iter().for_each(|upload| self.note_durable(upload));
        }
    }

    fn acknowledge(&mut self, upload: UploadId) {
        let file = self.uploads.file_mut(upload).expect("it waits");
        let (name, effect) = (file.name.clone(), file.effect);
        self.acknowledge_effect(&name, effect);
    }

    fn acknowledge_effect(&mut self, name: &str, effect: u64) {
        let expected = self.map.names.entry(name.to_owned()).or_default();
        if expected.later.contains_key(&effect) {
            expected.acknowledge(effect);
        }
        self.map.recordings.remove(name);
    }

    /// The bytes of a recording that were written when it was made durable must be found.
    fn note_durable(&mut self, upload: UploadId) {
        let Some(file) = self.uploads.file_mut(upload) else { return };
        if let Some((_, sectors)) = self.map.recordings.get_mut(&file.name) {
            *sectors = self.files.length(file.file) / SECTOR;
        }
    }

    fn publish(&mut self, upload: UploadId) {
        let file = self.uploads.file_mut(upload).expect("it waits");
        let (name, number, content) = (file.name.clone(), file.file, (file.content, file.sent));
        match file.hidden.take() {
            Some(hidden) => self.files.rename(&hidden, &name),
            None => self.files.link(&name, number),
        }
        let effect = self.effect(&name, Some(content));
        self.uploads.file_mut(upload).expect("it waits").effect = effect;
        if self.wrong == Wrong::AcknowledgesBeforeSync {
            self.map.names.entry(name).or_default().acknowledge(effect);
        }
    }

    /// The power goes, a few times, each time with another fate of the writes and changes not synced; then a start.
    fn cut_the_power(&mut self) {
        for _ in 0..2 {
            let mut after = self.files.after_power_cut(&mut self.chance);
            self.recover(&mut after);
            let once: Vec<String> = after.names().cloned().collect();
            self.recover(&mut after);
            assert_eq!(once, after.names().cloned().collect::<Vec<_>>(), "a second start changes nothing");
            self.compare(&after);
        }
    }

    /// The work of a start on the files that it finds.
    fn recover(&self, files: &mut FileSystem) {
        if self.wrong == Wrong::LeavesLeftovers {
            return;
        }
        let names: Vec<String> = files.names().cloned().collect();
        for name in names {
            let own = match leftover(&name, "2-b") {
                None => continue,
                Some(Leftover::Keep(own)) if files.written_bytes(files.file(&name).expect("listed")) > 0 => own,
                Some(_) => {
                    files.unlink(&name);
                    continue;
                }
            };
            let free = numbered_names(own).find(|name| files.file(name).is_none());
            let file = files.file(&name).expect("listed");
            if self.wrong != Wrong::TrustsLengths {
                files.truncate(file, files.written_bytes(file));
            }
            files.rename(&name, &free.expect("one of many"));
        }
    }

    fn compare(&mut self, after: &FileSystem) {
        for (name, expected) in &self.map.names {
            let found = after.file(name).map(|file| (file, after.read(file)));
            let is = |value: &Option<Content>| match (value, &found) {
                (None, found) => found.is_none(),
                (Some((content, length)), Some((file, sectors))) => {
                    after.length(*file) == *length && is_whole(sectors, *content)
                }
                (Some(_), None) => false,
            };
            // A recording that was not acknowledged may have been recovered instead: below.
            let recorded = self.map.recordings.contains_key(name);
            if !recorded && !is(&expected.acknowledged.1) && !expected.later.values().any(is) {
                self.violations.push(format!("{name} is {found:?}, not {expected:?}"));
            }
        }
        for (name, (content, durable)) in &self.map.recordings {
            let sectors = after.file(name).map(|file| after.read(file)).unwrap_or_default();
            let there = sectors.iter().zip(1..).take_while(|(holds, number)| **holds == (*content, *number)).count();
            if u64::try_from(there).expect("few") < *durable {
                self.violations.push(format!("of {name}, {durable} sectors were durable: {sectors:?}"));
            }
            if there < sectors.len() {
                self.violations.push(format!("of {name}, only {there} sectors were written: {sectors:?}"));
            }
        }
        for name in after.names() {
            if name.starts_with(PREFIX) {
                self.violations.push(format!("{name} is left"));
            } else if !self.map.names.contains_key(name) && !self.map.recordings.contains_key(name) {
                self.violations.push(format!("nobody named {name}"));
            }
        }
    }
}

fn is_whole(sectors: &[Sector], content: u32) -> bool {
    sectors.iter().zip(1..).all(|(holds, number)| *holds == (content, number))
}

/// A thousand operations, then all that was begun comes to its end.
fn run(seed: u64, ordered: bool, wrong: Wrong) -> Server {
    run_until_a_sync_fails(seed, ordered, wrong, u32::MAX)
}

/// The same; the sync of this number fails, and the file system with it.
fn run_until_a_sync_fails(seed: u64, ordered: bool, wrong: Wrong, fails_at: u32) -> Server {
    let mut server = Server { fails_at, ..Server::new(seed, ordered, wrong) };
    for _ in 0..OPERATIONS {
        server.operate();
        if server.violations.len() > 3 {
            return server;
        }
        if server.files.is_broken() {
            break;
        }
    }
    for upload in std::mem::take(&mut server.running) {
        server.uploads.finish(upload);
    }
    loop {
        server.name_early();
        server.now = server.uploads.next_block().map_or(server.now, |at| at.max(server.now));
        server.uploads.begin_blocks(server.now);
        server.hear();
        if server.offers.is_empty() {
            return server;
        }
        server.grant();
    }
}

#[test]
fn the_power_cut_at_every_sync_of_a_thousand_operations_loses_nothing_acknowledged() {
    for ordered in [true, false] {
        for seed in 0..4 {
            let mut server = run(seed, ordered, Wrong::Nothing);
            let of = format!("seed {seed}, {} file system", if ordered { "ordered" } else { "unordered" });
            assert_eq!(server.violations, Vec::<String>::new(), "{of}");
            assert!(server.syncs > 60, "{of}: {} syncs", server.syncs);
            assert!(server.uploads.is_idle(), "{of}: all came to its end");
            // In the end a start finds the contents of the map, with no power cut.
            let mut files = server.files.clone();
            server.recover(&mut files);
            server.compare(&files);
            assert_eq!(server.violations, Vec::<String>::new(), "{of}, at the end");
            assert!(server.map.names.values().all(|expected| expected.later.is_empty()), "{of}: all is acknowledged");
        }
    }
}

#[test]
fn nothing_is_acknowledged_that_a_sync_that_failed_should_have_made_durable() {
    for ordered in [true, false] {
        for fails_at in 1..40 {
            let server = run_until_a_sync_fails(u64::from(fails_at), ordered, Wrong::Nothing, fails_at);
            assert_eq!(server.violations, Vec::<String>::new(), "sync {fails_at} fails, ordered: {ordered}");
            assert!(server.files.is_broken());
        }
    }
}

#[test]
fn each_way_to_do_it_wrongly_is_found() {
    let wrongs = [
        (Wrong::AcknowledgesBeforeSync, true),
        (Wrong::AcknowledgesRemovalBeforeSync, true),
        (Wrong::SkipsSecuring, false),
        (Wrong::SkipsCutting, true),
        (Wrong::LeavesLeftovers, true),
        (Wrong::TrustsLengths, true),
        (Wrong::TrustsLengths, false),
        (Wrong::FlushesTheCacheOnly, true),
    ];
    for (wrong, ordered) in wrongs {
        let found = (0..8).any(|seed| !run(seed, ordered, wrong).violations.is_empty());
        assert!(found, "{wrong:?}");
    }
    for wrong in [Wrong::AcknowledgesBehindAFailedSync, Wrong::SkipsCheckingRemovals] {
        let found = (1..40).any(|at| !run_until_a_sync_fails(u64::from(at), true, wrong, at).violations.is_empty());
        assert!(found, "{wrong:?}");
    }
}
