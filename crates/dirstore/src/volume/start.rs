//! Starting the threads of a volume.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

use device::Device;
use schedule::profile::DiskProfile;
use units::DiskId;

use super::content::OpenContents;
use super::core::{Core, Member};
use super::open::OpenVolume;
use super::{Front, MemberWorker, ServedVolume};
use crate::disk::{DiskHandle, DiskShared};
use crate::event::EventSender;
use crate::index::Index;
use crate::store::{DiskPort, Reliance, StoreSettings, restrict_to};

/// What the volume has in common with the folders of the store.
pub(crate) struct VolumeCommon<'a> {
    pub(crate) settings: &'a StoreSettings,
    pub(crate) events: &'a Arc<EventSender>,
    pub(crate) reliance: &'a Arc<OnceLock<Reliance>>,
    pub(crate) versions: &'a Arc<AtomicU64>,
    pub(crate) index: &'a Arc<Index>,
}

/// A disk of the volume that is served.
pub(crate) struct VolumeDisk {
    /// Of the first disk: the way to the volume's front.
    pub(crate) handle: DiskHandle,
    pub(crate) device: Device,
    pub(crate) path: PathBuf,
    pub(crate) profile: Option<DiskProfile>,
}

/// A volume is relied on as long as any of its disks is: one that errs or does not answer is taken out by what is written to it, and what
/// has no other place fails then.
fn any_of(count: usize, each: &Arc<OnceLock<Reliance>>) -> Arc<OnceLock<Reliance>> {
    let each = Arc::clone(each);
    let any: Reliance = Box::new(move |first| {
        let mut disks = (first.0..).map(DiskId).take(count);
        each.get().is_none_or(|relied_on| disks.any(relied_on))
    });
    Arc::new(OnceLock::from(any))
}

/// Starts a thread for the names and one for each disk; `first` is the identifier of the volume's first disk.
pub(crate) fn start(
    open: OpenVolume,
    first: DiskId,
    common: &VolumeCommon,
    serve: &mut impl FnMut(DiskId, &Device) -> DiskPort,
) -> io::Result<(Vec<VolumeDisk>, ServedVolume)> {
    let front_thread: Arc<OnceLock<thread::Thread>> = Arc::default();
    let woken = Arc::clone(&front_thread);
    let wake = Arc::new(move || {
        if let Some(thread) = woken.get() {
            thread.unpark();
        }
    });
    let shared = |id, waker, reliance: &Arc<OnceLock<Reliance>>| {
        let (events, reliance) = (Arc::clone(common.events), Arc::clone(reliance));
        Arc::new(DiskShared::new(id, common.settings.patience, waker, events, reliance))
    };
    let front = shared(first, wake, &any_of(open.disks.iter().flatten().count(), common.reliance));
    let (front_handle, operations) = DiskHandle::new(Arc::clone(&front));
    let (mut disks, mut members, mut workers) = (Vec::new(), Vec::new(), Vec::new());
    let paths = open.disks.iter().map(|disk| disk.as_ref().map(|disk| disk.path.clone())).collect();
    let mut front_handle = Some(front_handle);
    for (number, disk) in (0u8..).zip(open.disks) {
        let Some(disk) = disk else {
            members.push(None);
            continue;
        };
        let id = DiskId(first.0 + u16::try_from(disks.len()).expect("at most 32 disks"));
        let served = serve(id, &disk.device);
        let own = shared(id, served.port.waker(), common.reliance);
        let member = volume::MemberId(number);
        workers.push((member, Arc::clone(&own), served.port, disk.file.try_clone()?));
        let (device, path) = (disk.device.clone(), disk.path.clone());
        members.push(Some(Member::new(member, disk, Arc::clone(&own))));
        let handle = front_handle.take().unwrap_or_else(|| DiskHandle::new(own).0);
        disks.push(VolumeDisk { handle, device, path, profile: served.profile });
    }
    let contents = OpenContents::new(Arc::clone(common.versions));
    let core = Arc::new(Mutex::new(Core::new(open.volume, members, paths, contents, Arc::clone(&front))));
    for (member, own, port, file) in workers {
        let core = Arc::clone(&core);
        let cpus = common.settings.cpus.clone();
        thread::Builder::new().name(format!("volume-{}", own.id.0)).spawn(move || {
            restrict_to(&cpus);
            MemberWorker::new(member, core, own, port, file).run();
        })?;
    }
    let volume = ServedVolume { core: Arc::clone(&core), cpus: common.settings.cpus.clone() };
    let (cpus, index) = (common.settings.cpus.clone(), Arc::clone(common.index));
    let spawned = thread::Builder::new().name("volume".to_owned()).spawn(move || {
        restrict_to(&cpus);
        Front::new(core, front, operations, index).run();
    })?;
    let _ = front_thread.set(spawned.thread().clone());
    Ok((disks, volume))
}
