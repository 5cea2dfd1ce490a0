//! A store on real folders, and a grant giver that tests play.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

#[path = "../../../../bin/isocast/tests/common/skip.rs"]
pub mod skip;
pub mod stored;

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use folder::{FolderDisks, RootSetting};
use kernel::fiemap;
use rustix::fs::{FallocateFlags, fallocate};
use storage::grant::{Grant, GrantDone, JobId, Offer, StoreMessage, StoreWork};
use store::{
    GrantPort, Precondition, Published, Store, StoreBuilder, StoreError, StoreSettings, Upload, UploadRequest, WakeFn,
};
use units::{DiskId, Nanos};

pub use store::Ungoverned;
pub use stored::{folder, path, pattern, put, request, settings, until};

/// A store that is granted everything.
pub fn ungoverned(roots: &[&Path]) -> Store {
    let roots: Vec<RootSetting> = roots.iter().map(|root| root.to_path_buf().into()).collect();
    serve(&roots, &settings(), |_| Box::new(Ungoverned::default()))
}

/// A store of folders.
pub fn serve(
    roots: &[RootSetting],
    settings: &StoreSettings,
    mut serve: impl FnMut(DiskId) -> Box<dyn GrantPort>,
) -> Store {
    let mut store = StoreBuilder::new(settings).unwrap();
    FolderDisks::discover(roots).unwrap().join(&mut store, &mut serve).unwrap();
    store.finish()
}

/// Makes a file longer than the bytes written to it, as a power cut may leave it. A file system that cannot tell its extents leaves none so.
pub fn lengthen(file: &Path, bytes: u64) {
    let file = std::fs::File::options().write(true).open(file).unwrap();
    if fiemap::extents(file.as_fd()).is_ok() {
        let length = file.metadata().unwrap().len();
        fallocate(&file, FallocateFlags::empty(), length, bytes).unwrap();
        assert_eq!(file.metadata().unwrap().len(), length + bytes);
    }
}

/// A store with one disk on the test's own grants.
pub fn governed(root: &Path, settings: &StoreSettings) -> (Store, Giver) {
    let giver = Giver::default();
    let store = serve(&[root.to_path_buf().into()], settings, |_| Box::new(giver.clone()));
    (store, giver)
}

/// Waits until the (one) disk's thread has offered all that there was to offer at the call.
pub async fn fence(store: &Store) {
    // The thread does at most 16 tasks in a turn, then those that were there before it breaks uploads off (one of these at most), and offers
    // after them: the last is in another turn than the first.
    for _ in 0..18 {
        pass(store).await;
    }
}

/// Waits until the (one) disk's thread has done all operations that were posted before.
async fn pass(store: &Store) {
    let refused = UploadRequest { precondition: Precondition::MustMatch(Vec::new()), ..request("/none", None) };
    assert!(matches!(store.begin_upload(refused).await, Err(StoreError::PreconditionFailed)));
}

/// Ends an upload, and returns the task that waits for the answer once the disk's thread knows that all has come.
pub async fn finishing(
    store: &Store,
    upload: Upload,
) -> std::pin::Pin<Box<impl Future<Output = Result<Published, StoreError>>>> {
    let mut finish = Box::pin(upload.finish());
    assert!(tokio::time::timeout(Duration::ZERO, finish.as_mut()).await.is_err(), "finished without a grant");
    pass(store).await; // tasks are done in order
    finish
}

/// All names below a folder, hidden ones included.
pub fn everything_below(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(folder).unwrap().map(|item| item.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The schedule's side, played by a test.
#[derive(Clone, Default)]
pub struct Giver(Arc<(Mutex<State>, Condvar)>);

#[derive(Default)]
struct State {
    offers: Vec<Offer>,
    /// Work that no caller waits for: kept apart, for most tests are not about it.
    chore: Option<Offer>,
    grants: VecDeque<(Grant, Offer)>,
    dones: VecDeque<GrantDone>,
    out: Option<(Grant, Offer)>,
    woken: bool,
    closed: bool,
}

impl GrantPort for Giver {
    fn send(&mut self, message: StoreMessage) -> bool {
        let (state, changed) = &*self.0;
        let mut state = state.lock().unwrap();
        match message {
            StoreMessage::Offer(offer @ Offer { work: StoreWork::Probe { .. }, .. }) => state.chore = Some(offer),
            StoreMessage::Offer(offer) => {
                state.offers.retain(|old| old.job != offer.job);
                state.offers.push(offer);
            }
            StoreMessage::Placed { .. } => {}
            StoreMessage::Withdraw { job, .. } => state.offers.retain(|old| old.job != job),
            StoreMessage::Done(done) => {
                let (out, mut offer) = state.out.take().expect("a Done without a grant");
                assert_eq!(out.job, done.job);
                assert!(done.bytes <= out.bytes_max || matches!(done.job, JobId(0)), "more was written than granted");
                if done.ready_bytes > 0 && state.offers.iter().all(|other| other.job != done.job) {
                    offer.work = StoreWork::Write { bytes: done.ready_bytes, position: done.position };
                    state.offers.push(offer);
                }
                state.dones.push_back(done);
            }
        }
        changed.notify_all();
        true
    }

    fn grant(&mut self) -> Option<Grant> {
        let mut state = self.0.0.lock().unwrap();
        let granted = state.grants.pop_front()?;
        assert!(state.out.is_none(), "one grant at a time");
        state.out = Some(granted);
        Some(granted.0)
    }

    fn wait(&mut self, timeout: Duration) {
        let (state, changed) = &*self.0;
        let idle = |state: &mut State| !state.woken && !state.closed && state.grants.is_empty();
        let (mut state, _) = changed.wait_timeout_while(state.lock().unwrap(), timeout, idle).unwrap();
        state.woken = false;
    }

    fn waker(&self) -> WakeFn {
        let shared = Arc::clone(&self.0);
        Arc::new(move || {
            shared.0.lock().unwrap().woken = true;
            shared.1.notify_all();
        })
    }

    fn is_closed(&self) -> bool {
        self.0.0.lock().unwrap().closed
    }
}

impl Giver {
    fn until<T>(&self, mut probe: impl FnMut(&mut State) -> Option<T>) -> T {
        let (state, changed) = &*self.0;
        let mut state = state.lock().unwrap();
        loop {
            if let Some(value) = probe(&mut state) {
                return value;
            }
            let (next, wait) = changed.wait_timeout(state, stored::PATIENCE).unwrap();
            assert!(!wait.timed_out(), "nothing came; offers: {:?}", next.offers);
            state = next;
        }
    }

    /// The first offer that fits, waited for. It stays on offer.
    pub fn offer(&self, fits: impl Fn(&Offer) -> bool) -> Offer {
        self.until(|state| state.offers.iter().copied().find(&fits))
    }

    pub fn write_offer(&self) -> (Offer, u64) {
        let offer = self.offer(|offer| matches!(offer.work, StoreWork::Write { .. }));
        let StoreWork::Write { bytes, .. } = offer.work else { unreachable!() };
        (offer, bytes)
    }

    pub fn commit_offer(&self, awaits: bool) -> Offer {
        self.offer(|offer| matches!(offer.work, StoreWork::Commit { awaited, .. } if awaited == awaits))
    }

    pub fn offers(&self) -> Vec<Offer> {
        self.0.0.lock().unwrap().offers.clone()
    }

    /// Grants work that no caller waits for, until there is none. Returns how many steps.
    pub async fn do_chores(&self, store: &Store) -> usize {
        for step in 0.. {
            fence(store).await;
            let chore = self.0.0.lock().unwrap().chore.take();
            let Some(chore) = chore else { return step };
            self.grant(&chore, 0, Nanos::MAX);
        }
        unreachable!()
    }

    /// Grants an offer and waits until it is done.
    pub fn grant(&self, offer: &Offer, bytes_max: u64, until: Nanos) -> GrantDone {
        let (state, changed) = &*self.0;
        {
            let mut state = state.lock().unwrap();
            state.offers.retain(|other| other.job != offer.job);
            state.grants.push_back((Grant { disk: offer.disk, job: offer.job, bytes_max, until }, *offer));
            changed.notify_all();
        }
        let done = self.until(|state| state.dones.pop_front());
        assert_eq!(done.job, offer.job);
        done
    }

    /// The schedule ends: no grant will come any more.
    pub fn close(&self) {
        self.0.0.lock().unwrap().closed = true;
        self.0.1.notify_all();
    }

    /// Bytes that an offer is for.
    pub fn bytes(offer: &Offer) -> u64 {
        if let StoreWork::Write { bytes, .. } = offer.work { bytes } else { 0 }
    }

    /// Grants an offer without end of time.
    pub fn grant_all(&self, offer: &Offer) -> GrantDone {
        self.grant(offer, Self::bytes(offer), Nanos::MAX)
    }
}
