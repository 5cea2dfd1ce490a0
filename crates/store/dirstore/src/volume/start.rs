//! Starting the threads of a volume.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

use units::DiskId;
use volume::MemberId;

use super::core::{Core, Member, NamedDisk, VacantDisk};
use super::open::OpenVolume;
use super::open_contents::OpenContents;
use super::opener::Opener;
use super::{Front, MemberWorker, ServedVolume, recover};
use crate::disk::DiskHandle;
use crate::event::{EventSender, StoreEvent};
use crate::grants::GrantPort;
use crate::index::Index;
use crate::settings::{StoreSettings, restrict_to};
use crate::shared::{DiskShared, DiskUsable};

/// Parts that the volume has in common with the folders of the store.
pub(crate) struct VolumeCommon<'a> {
    pub(crate) settings: &'a StoreSettings,
    pub(crate) events: &'a Arc<EventSender>,
    pub(crate) reliance: &'a Arc<OnceLock<DiskUsable>>,
    pub(crate) versions: &'a Arc<AtomicU64>,
    pub(crate) index: &'a Arc<Index>,
}

/// A volume is relied on as long as any of its disks is: one that errs or does not answer is taken out by the writes to it, and writes
/// that have no other place fail then.
fn any_of(disks: Vec<DiskId>, each: &Arc<OnceLock<DiskUsable>>) -> Arc<OnceLock<DiskUsable>> {
    let each = Arc::clone(each);
    let any: DiskUsable =
        Box::new(move |_| each.get().is_none_or(|relied_on| disks.iter().any(|disk| relied_on(*disk))));
    Arc::new(OnceLock::from(any))
}

/// Starts a thread for the names and one for each disk; `first` is the identifier of the volume's first place. Gives the handles of the
/// places in their order, whether a disk is there or not: that of the first disk that is there leads to the volume's front.
pub(crate) fn start(
    open: OpenVolume,
    first: DiskId,
    common: &VolumeCommon,
    serve: &mut impl FnMut(DiskId) -> Box<dyn GrantPort>,
) -> io::Result<(Vec<DiskHandle>, ServedVolume)> {
    let front_thread: Arc<OnceLock<thread::Thread>> = Arc::default();
    let woken = Arc::clone(&front_thread);
    let wake = Arc::new(move || {
        if let Some(thread) = woken.get() {
            thread.unpark();
        }
    });
    let shared = |id, waker, reliance: &Arc<OnceLock<DiskUsable>>| {
        let (events, reliance) = (Arc::clone(common.events), Arc::clone(reliance));
        Arc::new(DiskShared::new(id, common.settings.patience, waker, events, reliance))
    };
    open.notices.iter().for_each(|notice| common.events.tell(StoreEvent::VolumeDisk(notice.clone())));
    let ids = (first.0..).map(DiskId);
    let there = ids.zip(open.places()).filter_map(|(id, disk)| disk.map(|_| id)).collect::<Vec<_>>();
    let front_id = *there.first().expect("a volume is opened from a disk");
    let front = shared(front_id, wake, &any_of(there, common.reliance));
    let (front_handle, operations) = DiskHandle::new(Arc::clone(&front));
    let mut front_handle = Some(front_handle);
    let count = open.places().count();
    let mut disks = open.disks.into_iter();
    let (mut places, mut members, mut named, mut workers) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut vacant = BTreeMap::new();
    for (number, id) in (0u8..).zip((first.0..).map(DiskId)).take(count) {
        let (member, port) = (MemberId(number), serve(id));
        let own = shared(id, port.waker(), common.reliance);
        // The one behind all numbers is spare.
        if let Some(disk) = disks.next() {
            let away = open.away.iter().find(|(away, _)| *away == member).map(|(_, path)| NamedDisk::away(path));
            named.push(disk.as_ref().map(|disk| NamedDisk::of(disk, id)).or(away));
            match disk {
                Some(disk) => {
                    workers.push((member, Arc::clone(&own), port, disk.file.try_clone()?.into()));
                    members.push(Some(Member::new(member, disk, Arc::clone(&own))));
                }
                None => {
                    vacant.insert(member, VacantDisk { shared: Arc::clone(&own), port });
                    members.push(None);
                }
            }
        } else {
            vacant.insert(member, VacantDisk { shared: Arc::clone(&own), port });
        }
        places.push(front_handle.take_if(|_| id == front_id).unwrap_or_else(|| DiskHandle::new(own).0));
    }
    let contents = OpenContents::new(Arc::clone(common.versions));
    let core = Core::new(open.volume, (members, named, vacant), contents, Arc::clone(&front));
    let volume = ServedVolume { core: Arc::new(Mutex::new(core)), cpus: common.settings.cpus.clone() };
    for (member, own, port, file) in workers {
        volume.serve_disk(member, VacantDisk { shared: own, port }, file)?;
    }
    let (cpus, index, core) = (common.settings.cpus.clone(), Arc::clone(common.index), Arc::clone(&volume.core));
    let opener = Opener { core: Arc::clone(&core), shared: Arc::clone(&front), index: Arc::clone(&index) };
    let opens = opener.start(count, &cpus)?;
    recover::start(&core, &cpus)?;
    let filled = common.settings.refill_disks.then(|| volume.clone());
    let front = Front::new(core, front, operations, (index, opens), open.seen, filled);
    let spawned = thread::Builder::new().name("volume".to_owned()).spawn(move || {
        restrict_to(&cpus);
        front.run();
    })?;
    let _ = front_thread.set(spawned.thread().clone());
    Ok((places, volume))
}

impl ServedVolume {
    /// Starts the thread of a disk, in the place it has.
    pub(super) fn serve_disk(&self, member: MemberId, place: VacantDisk, file: OwnedFd) -> io::Result<()> {
        let (core, cpus) = (Arc::clone(&self.core), self.cpus.clone());
        let VacantDisk { shared, port } = place;
        thread::Builder::new().name(format!("volume-{}", shared.id.0)).spawn(move || {
            restrict_to(&cpus);
            MemberWorker::new(member, core, shared, port, file).run();
        })?;
        Ok(())
    }
}
