//! Uploads that a client continues after they broke off: the table of them.
//!
//! Promise: the offset of an upload is the number of its bytes that are durable, also after a crash; one client at a time appends, and a
//! newer request takes over from an older one; an upload that no client continues ends after a time, and its bytes go with it. Not here:
//! the bytes (`resumable_parts`), protocols (front ends), the right to write (`access`).

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use api::UploadStatus;
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, OwnedMutexGuard};

use crate::access::{Permit, ToObserve, ToWrite};
use crate::budgets::BudgetKey;
use crate::clock_watch::clock_lead;
use crate::contents::{ContentPath, NameKind, StoreError, below_content};
use crate::delivery::Client;
use crate::ingest_error::IngestError;
use crate::line_journal::LineJournal;
use crate::lock::lock;
use crate::media_service::MediaService;
use crate::namespace::NamespaceError;
use crate::quota::UnfinishedUploads;
use crate::stored_parts::StoredParts;

/// Uploads that wait to be continued, at most; and of one user or address.
const UPLOADS_KEPT_MAX: usize = 10_000;
const UPLOADS_KEPT_PER_CLIENT: usize = 1_000;
/// Uploads of which one is put together, at most.
const CONCATENATED_MAX: usize = 64;
/// Time between two searches for expired uploads.
const LOOK_PERIOD: Duration = Duration::from_secs(60);
/// An older request has this long to give way to a newer one: it ends the write that it is in.
const GIVE_WAY_MAX: Duration = Duration::from_secs(10);
/// The journal is written anew after this number of lines beyond the number of uploads.
const SPARE_LINES_MAX: usize = 4_096;

/// Why an upload is not begun or continued.
#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    /// There is none of this name, or it is another user's.
    #[error("there is no upload of this name: it is over, or its time is")]
    Unknown,
    /// The client has other bytes in mind than are there.
    #[error("the upload continues at byte {0}")]
    Offset(u64),
    /// More bytes than were announced.
    #[error("the upload has {0} bytes in all, and more would come")]
    TooLong(u64),
    /// The length was announced before, as another one.
    #[error("the length of this upload is known, and another one")]
    LengthKnown,
    /// Another request is at it and did not give way.
    #[error("another request continues this upload")]
    InUse,
    /// The parts of a concatenation are not whole, or not parts.
    #[error("`{0}` is no partial upload of this client, or is not whole")]
    NoPart(String),
    /// Too many uploads wait.
    #[error("too many uploads wait to be continued: end or remove one of them")]
    TooMany,
    /// The state cannot be kept.
    #[error("uploads cannot be kept: the folder of the server's state takes no writes")]
    NotKept,
    /// The store, or a quota.
    #[error(transparent)]
    Ingest(#[from] IngestError),
    /// The parts cannot be put together.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
}

impl From<StoreError> for ResumeError {
    fn from(error: StoreError) -> Self {
        Self::Ingest(error.into())
    }
}

/// The part that an upload has in another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub enum UploadRole {
    /// It becomes a content by itself.
    #[default]
    Whole,
    /// It is to be a part of another.
    Partial,
    /// It is made of these.
    Final(Vec<String>),
}

/// An upload to be created.
#[derive(Debug, Clone)]
pub struct NewUpload {
    /// Its bytes in all, if they are known.
    pub length: Option<u64>,
    /// Modification time that the content gets.
    pub modified: Option<SystemTime>,
    /// The client's own notes, which it gets back.
    pub notes: String,
    /// Its part in another.
    pub role: UploadRole,
    /// It replaces no content.
    pub only_new: bool,
    /// The client.
    pub client: Client,
}

/// An upload as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UploadRecord {
    pub(crate) id: String,
    pub(crate) path: String,
    pub(crate) length: Option<u64>,
    /// Seconds since 1970.
    pub(crate) modified: Option<u64>,
    pub(crate) user: Option<String>,
    pub(crate) client: IpAddr,
    /// The budgets that get the room of its bytes back when these go.
    #[serde(default)]
    pub(crate) charged: Vec<BudgetKey>,
    /// Seconds since 1970.
    pub(crate) expires: u64,
    pub(crate) notes: String,
    pub(crate) role: UploadRole,
    /// It replaces no content.
    #[serde(default)]
    pub(crate) only_new: bool,
    /// It is a content by now.
    pub(crate) is_done: bool,
}

impl UploadRecord {
    pub(crate) fn modified(&self) -> Option<SystemTime> {
        self.modified.map(|seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
    }
}

/// A change of the table.
#[derive(Debug, Serialize, Deserialize)]
enum UploadChange {
    Kept(Box<UploadRecord>),
    Gone(String),
}

/// An upload of the table.
pub(crate) struct KeptUpload {
    record: Mutex<UploadRecord>,
    /// Durable bytes, as of the last look.
    pub(crate) offset: AtomicU64,
    /// Its parts; a request that appends or ends it has the turn.
    turn: Arc<tokio::sync::Mutex<StoredParts>>,
    /// Wakes the request that has the turn: another one wants it.
    pub(crate) wanted: Notify,
    is_gone: AtomicBool,
}

impl KeptUpload {
    pub(crate) fn record(&self) -> UploadRecord {
        lock(&self.record).clone()
    }

    /// Its length is known now.
    pub(crate) fn end_at(&self, length: u64) {
        lock(&self.record).length.get_or_insert(length);
    }

    pub(crate) fn path(&self) -> ContentPath {
        ContentPath::parse(&lock(&self.record).path).unwrap_or_default()
    }
}

/// The state of an upload that a client sees.
#[derive(Debug, Clone)]
pub struct ResumableState {
    /// Its name.
    pub id: String,
    /// Durable bytes.
    pub offset: u64,
    /// Bytes in all, if they are known.
    pub length: Option<u64>,
    /// End of its time.
    pub expires: SystemTime,
    /// The client's own notes.
    pub notes: String,
    /// Its part in another.
    pub role: UploadRole,
    /// It is a content by now.
    pub is_done: bool,
}

/// See the module.
pub struct ResumableUploads {
    pub(crate) service: Arc<MediaService>,
    journal: Arc<dyn LineJournal>,
    table: Mutex<HashMap<String, Arc<KeptUpload>>>,
    /// Lines of the journal; the order of its lines is that of the changes.
    lines: tokio::sync::Mutex<usize>,
    expire_seconds: AtomicU64,
}

pub(crate) fn seconds_since_1970(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

impl ResumableUploads {
    /// The uploads that the journal has kept. Each ends `expire` after its client was there last.
    ///
    /// # Errors
    /// The journal cannot be read or written.
    pub fn start(
        service: Arc<MediaService>,
        journal: Arc<dyn LineJournal>,
        expire: Duration,
    ) -> std::io::Result<Arc<Self>> {
        let mut kept = BTreeMap::new();
        for line in journal.read()? {
            match serde_json::from_str(&line) {
                Ok(UploadChange::Kept(record)) => drop(kept.insert(record.id.clone(), *record)),
                Ok(UploadChange::Gone(id)) => drop(kept.remove(&id)),
                Err(_) => {}
            }
        }
        let table = kept.into_values().map(|record| (record.id.clone(), Arc::new(entry(record)))).collect();
        let uploads = Arc::new(Self {
            service,
            journal,
            table: Mutex::new(table),
            lines: tokio::sync::Mutex::new(0),
            expire_seconds: AtomicU64::new(expire.as_secs()),
        });
        uploads.journal.replace(&uploads.all_lines())?;
        let counted: Arc<dyn UnfinishedUploads> = Arc::clone(&uploads) as _;
        uploads.service.quotas.count_unfinished(Arc::downgrade(&counted));
        tokio::spawn(look_after(Arc::downgrade(&uploads)));
        Ok(uploads)
    }

    /// Uploads of which clients speak from now on end after another time.
    pub fn expire_after(&self, expire: Duration) {
        self.expire_seconds.store(expire.as_secs(), Ordering::Relaxed);
    }

    /// Creates an upload that becomes the content at the permit's path. An upload that is made of others becomes it at once.
    ///
    /// # Errors
    /// Why not.
    pub async fn create(&self, permit: &Permit<ToWrite>, new: NewUpload) -> Result<ResumableState, ResumeError> {
        let bytes_max = self.service.config().upload_bytes_max;
        if new.length.is_some_and(|length| length > bytes_max) {
            return Err(IngestError::TooLarge(bytes_max).into());
        }
        if new.role != UploadRole::Partial {
            self.check_target(permit.path(), new.only_new).await?;
        }
        let client = new.client.address;
        self.check_count(permit.user(), client)?;
        let (high, low) = (self.service.hash((Instant::now(), 0)), self.service.hash((Instant::now(), client, 1)));
        let charged = self.service.charged(permit, new.client);
        let record = UploadRecord {
            id: format!("{high:016x}{low:016x}"),
            path: permit.path().joined(),
            length: new.length,
            modified: new.modified.map(seconds_since_1970),
            user: permit.user().map(str::to_owned),
            client,
            charged: charged.iter().filter(|key| !matches!(key, BudgetKey::Proxy(_))).cloned().collect(),
            expires: self.expiry(),
            notes: new.notes,
            role: new.role,
            only_new: new.only_new,
            is_done: false,
        };
        let kept = Arc::new(entry(record));
        kept.turn.lock().await.is_known = true;
        if let UploadRole::Final(ids) = kept.record().role {
            return self.concatenate(permit, &kept, &ids).await;
        }
        if new.length == Some(0) && kept.record().role == UploadRole::Whole {
            self.assemble(&kept, &mut StoredParts::default()).await?;
            lock(&kept.record).is_done = true;
        }
        self.keep(&kept).await?;
        lock(&self.table).insert(kept.record().id, Arc::clone(&kept));
        Ok(self.state_of(&kept))
    }

    /// Makes a content of whole partial uploads.
    async fn concatenate(
        &self,
        permit: &Permit<ToWrite>,
        kept: &Arc<KeptUpload>,
        ids: &[String],
    ) -> Result<ResumableState, ResumeError> {
        if ids.is_empty() || ids.len() > CONCATENATED_MAX {
            return Err(ResumeError::NoPart(format!("{} uploads", ids.len())));
        }
        let (mut all, mut turns) = (StoredParts::default(), Vec::new());
        for (number, id) in ids.iter().enumerate() {
            let unfit = || ResumeError::NoPart(id.clone());
            let part = self.find(id, permit.user()).map_err(|_| unfit())?;
            let record = part.record();
            if record.role != UploadRole::Partial || ids[..number].contains(id) {
                return Err(unfit());
            }
            let turn = self.turn(&part).await?;
            if Some(turn.end()) != record.length {
                return Err(unfit());
            }
            all.extend(&turn);
            turns.push((part, turn));
        }
        lock(&kept.record).length = Some(all.end());
        kept.offset.store(all.end(), Ordering::Relaxed);
        self.assemble(kept, &mut all).await?;
        for (part, mut turn) in turns {
            turn.clear();
            self.forget(&part).await?;
        }
        self.note_done(kept).await?;
        lock(&self.table).insert(kept.record().id, Arc::clone(kept));
        Ok(self.state_of(kept))
    }

    /// The state of an upload. A request that appends to it ends before.
    ///
    /// # Errors
    /// There is none, or it is in use.
    pub async fn state(&self, id: &str, user: Option<&str>) -> Result<ResumableState, ResumeError> {
        let kept = self.find(id, user)?;
        drop(self.turn(&kept).await?);
        Ok(self.state_of(&kept))
    }

    /// The path under which an upload is to be stored, for a permit.
    ///
    /// # Errors
    /// There is none.
    pub fn path_of(&self, id: &str) -> Result<ContentPath, ResumeError> {
        lock(&self.table).get(id).map(|kept| kept.path()).ok_or(ResumeError::Unknown)
    }

    /// Ends an upload: its bytes go.
    ///
    /// # Errors
    /// There is none, or it is in use.
    pub async fn remove(&self, id: &str, user: Option<&str>) -> Result<(), ResumeError> {
        let kept = self.find(id, user)?;
        let mut turn = self.turn(&kept).await?;
        self.remove_parts(&kept, &mut turn).await;
        self.forget(&kept).await
    }

    /// Announces the length of an upload that was begun without.
    ///
    /// # Errors
    /// It is known and another one, or less than has come.
    pub async fn set_length(&self, id: &str, user: Option<&str>, length: u64) -> Result<(), ResumeError> {
        let kept = self.find(id, user)?;
        let turn = self.turn(&kept).await?;
        if turn.end() > length {
            return Err(ResumeError::TooLong(length));
        }
        {
            let mut record = lock(&kept.record);
            match record.length {
                Some(known) if known == length => return Ok(()),
                Some(_) => return Err(ResumeError::LengthKnown),
                None => record.length = Some(length),
            }
        }
        self.keep(&kept).await
    }

    /// The uploads that a client may see: all of them, or its own.
    #[must_use]
    pub fn list(&self, permit: &Permit<ToObserve>) -> Vec<UploadStatus> {
        let is_seen = |record: &UploadRecord| {
            permit.sees_others() || (record.user.is_some() && record.user.as_deref() == permit.user())
        };
        let table = lock(&self.table);
        let mut listed: Vec<_> = table
            .values()
            .map(|kept| (kept.record(), kept.offset.load(Ordering::Relaxed)))
            .filter(|(record, _)| !record.is_done && is_seen(record))
            .map(|(record, offset)| UploadStatus {
                id: record.id,
                path: record.path,
                offset,
                length: record.length,
                expires: record.expires,
                client: record.client.to_string(),
                user: record.user,
            })
            .collect();
        listed.sort_by(|one, other| (&one.path, &one.id).cmp(&(&other.path, &other.id)));
        listed
    }

    pub(crate) fn find(&self, id: &str, user: Option<&str>) -> Result<Arc<KeptUpload>, ResumeError> {
        let kept = lock(&self.table).get(id).cloned().ok_or(ResumeError::Unknown)?;
        let record = kept.record();
        let is_own = record.user.is_none() || record.user.as_deref() == user;
        let is_over = record.expires <= seconds_since_1970(SystemTime::now());
        if is_own && !is_over { Ok(kept) } else { Err(ResumeError::Unknown) }
    }

    /// The turn at an upload, with its parts as they are on the disk. A request that has it gives way.
    pub(crate) async fn turn(&self, kept: &Arc<KeptUpload>) -> Result<OwnedMutexGuard<StoredParts>, ResumeError> {
        let waiting = Arc::clone(&kept.turn).lock_owned();
        tokio::pin!(waiting);
        let deadline = tokio::time::Instant::now() + GIVE_WAY_MAX;
        let mut turn = loop {
            kept.wanted.notify_waiters();
            let pause = tokio::time::sleep(Duration::from_millis(100));
            tokio::select! {
                turn = &mut waiting => break turn,
                () = pause => {}
            }
            if tokio::time::Instant::now() > deadline {
                return Err(ResumeError::InUse);
            }
        };
        if kept.is_gone.load(Ordering::Relaxed) {
            return Err(ResumeError::Unknown);
        }
        self.look_at_parts(kept, &mut turn).await?;
        Ok(turn)
    }

    /// A content may be stored at the path: it is no folder and no hidden name, and with `only_new` no content.
    async fn check_target(&self, path: &ContentPath, only_new: bool) -> Result<(), ResumeError> {
        match self.service.contents.lookup(path).await {
            Ok(entry) if entry.kind == NameKind::Directory => Err(StoreError::IsDirectory.into()),
            Ok(_) if only_new => Err(StoreError::PreconditionFailed.into()),
            Ok(_) | Err(StoreError::NotFound) => Ok(self.service.contents.place_of(path).await.map(drop)?),
            Err(StoreError::NotADirectory) => Err(below_content(&*self.service.contents, path).await.into()),
            Err(error) => Err(error.into()),
        }
    }

    fn check_count(&self, user: Option<&str>, client: IpAddr) -> Result<(), ResumeError> {
        let table = lock(&self.table);
        let is_same = |kept: &&Arc<KeptUpload>| {
            let record = lock(&kept.record);
            match (user, record.user.as_deref()) {
                (Some(user), known) => known == Some(user),
                (None, known) => known.is_none() && record.client == client,
            }
        };
        let of_client = table.values().filter(is_same).count();
        if table.len() >= UPLOADS_KEPT_MAX || of_client >= UPLOADS_KEPT_PER_CLIENT {
            return Err(ResumeError::TooMany);
        }
        Ok(())
    }

    fn expiry(&self) -> u64 {
        seconds_since_1970(SystemTime::now()).saturating_add(self.expire_seconds.load(Ordering::Relaxed))
    }

    fn state_of(&self, kept: &KeptUpload) -> ResumableState {
        let record = kept.record();
        let offset = if record.is_done { record.length.unwrap_or(0) } else { kept.offset.load(Ordering::Relaxed) };
        ResumableState {
            id: record.id,
            offset,
            length: record.length,
            expires: SystemTime::UNIX_EPOCH + Duration::from_secs(record.expires),
            notes: record.notes,
            role: record.role,
            is_done: record.is_done,
        }
    }

    /// Its client was there: it ends later, which is kept once in a while only.
    pub(crate) async fn touch(&self, kept: &Arc<KeptUpload>) -> Result<(), ResumeError> {
        let (expires, expire) = (self.expiry(), self.expire_seconds.load(Ordering::Relaxed));
        let is_due = {
            let mut record = lock(&kept.record);
            let is_due = expires.saturating_sub(record.expires) > expire / 100;
            if is_due {
                record.expires = expires;
            }
            is_due
        };
        if is_due { self.keep(kept).await } else { Ok(()) }
    }

    pub(crate) async fn note_done(&self, kept: &Arc<KeptUpload>) -> Result<(), ResumeError> {
        lock(&kept.record).is_done = true;
        self.keep(kept).await
    }

    async fn keep(&self, kept: &Arc<KeptUpload>) -> Result<(), ResumeError> {
        self.write(&UploadChange::Kept(Box::new(kept.record()))).await
    }

    async fn forget(&self, kept: &Arc<KeptUpload>) -> Result<(), ResumeError> {
        let id = kept.record().id;
        kept.is_gone.store(true, Ordering::Relaxed);
        lock(&self.table).remove(&id);
        self.write(&UploadChange::Gone(id)).await
    }

    async fn write(&self, change: &UploadChange) -> Result<(), ResumeError> {
        let mut lines = self.lines.lock().await;
        let line = serde_json::to_string(change).map_err(|_| ResumeError::NotKept)?;
        let count = lock(&self.table).len();
        let anew = (*lines > count + SPARE_LINES_MAX).then(|| self.all_lines());
        *lines = anew.as_ref().map_or(*lines + 1, Vec::len);
        let journal = Arc::clone(&self.journal);
        let kept = tokio::task::spawn_blocking(move || {
            if let Some(all) = anew {
                journal.replace(&all)?;
            }
            journal.append(&line)
        });
        kept.await.map_err(|_| ResumeError::NotKept)?.map_err(|_| ResumeError::NotKept)
    }

    fn all_lines(&self) -> Vec<String> {
        let table = lock(&self.table);
        let line = |kept: &Arc<KeptUpload>| {
            serde_json::to_string(&UploadChange::Kept(Box::new(kept.record()))).expect("a record is texts and numbers")
        };
        table.values().map(line).collect()
    }

    /// Removes the uploads whose time is over.
    async fn remove_expired(&self) {
        let now = seconds_since_1970(SystemTime::now() - clock_lead(&self.service));
        let over: Vec<_> = {
            let table = lock(&self.table);
            table.values().filter(|kept| lock(&kept.record).expires <= now).cloned().collect()
        };
        for kept in over {
            if let Ok(mut turn) = self.turn(&kept).await {
                self.remove_parts(&kept, &mut turn).await;
                // The next look tries again.
                let _ = self.forget(&kept).await;
            }
        }
    }
}

impl UnfinishedUploads for ResumableUploads {
    fn bytes_below(&self, folder: &ContentPath) -> u64 {
        let table = lock(&self.table);
        let below = |kept: &&Arc<KeptUpload>| !lock(&kept.record).is_done && kept.path().lies_in(folder);
        table.values().filter(below).map(|kept| kept.offset.load(Ordering::Relaxed)).sum()
    }
}

fn entry(record: UploadRecord) -> KeptUpload {
    let parts = StoredParts::of(&record.id);
    KeptUpload {
        record: Mutex::new(record),
        offset: AtomicU64::new(0),
        turn: Arc::new(tokio::sync::Mutex::new(parts)),
        wanted: Notify::new(),
        is_gone: AtomicBool::new(false),
    }
}

/// Looks at the parts of the uploads that an earlier run has left, and from time to time for those whose time is over.
async fn look_after(uploads: std::sync::Weak<ResumableUploads>) {
    let left: Vec<_> = match uploads.upgrade() {
        Some(uploads) => lock(&uploads.table).values().cloned().collect(),
        None => return,
    };
    for kept in left {
        let Some(uploads) = uploads.upgrade() else { return };
        let _ = uploads.turn(&kept).await;
    }
    let mut period = tokio::time::interval(LOOK_PERIOD);
    loop {
        period.tick().await;
        let Some(uploads) = uploads.upgrade() else { return };
        uploads.remove_expired().await;
    }
}
