//! Starting the threads of a volume.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

use store::disk::DiskHandle;
use store::disk_thread::DiskThread;
use store::openers::Openers;
use store::{GrantPort, StoreBuilder, StoreEvent};
use units::DiskId;
use volume::MemberId;

use crate::core::Core;
use crate::front::Front;
use crate::info::ServedVolume;
use crate::live::{Member, Members, NamedDisk, VacantDisk, name_of};
use crate::member::MemberWorker;
use crate::open::OpenVolume;
use crate::open_contents::OpenContents;
use crate::opener::Opener;
use crate::recover;

impl OpenVolume {
    /// Starts a thread for the names and one for each disk, in a store. `serve` gives for each place of the volume, in order and whether a
    /// disk is there or not, where its thread gets grants.
    ///
    /// # Errors
    /// A thread cannot be had: as the system says it.
    pub fn join(
        self,
        store: &mut StoreBuilder,
        serve: &mut dyn FnMut(DiskId) -> Box<dyn GrantPort>,
    ) -> io::Result<ServedVolume> {
        let (common, first) = (store.common().clone(), store.next_disk());
        let front_thread: Arc<OnceLock<thread::Thread>> = Arc::default();
        let woken = Arc::clone(&front_thread);
        let wake = Arc::new(move || {
            if let Some(thread) = woken.get() {
                thread.unpark();
            }
        });
        self.notices.iter().for_each(|notice| common.events.tell(StoreEvent::VolumeDisk(notice.clone())));
        let ids = (first.0..).map(DiskId);
        let there = ids.zip(self.disk_places()).filter_map(|(id, disk)| disk.map(|_| id)).collect::<Vec<_>>();
        let front_id = *there.first().expect("a volume is opened from a disk");
        let front = common.shared_of_any((front_id, format!("volume {}", self.volume.superblock().name)), wake, there);
        let (front_handle, operations) = DiskHandle::new(Arc::clone(&front));
        let mut front_handle = Some(front_handle);
        let count = self.disk_places().count();
        let mut disks = self.disks.into_iter();
        let (mut places, mut members, mut named, mut workers) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut vacant = BTreeMap::new();
        for (number, id) in (0u8..).zip((first.0..).map(DiskId)).take(count) {
            let (member, port) = (MemberId(number), serve(id));
            let disk = disks.next();
            // Without a disk, the place gets its name with the next disk.
            let name = disk.iter().flatten().next().map(name_of).unwrap_or_default();
            let own = common.shared((id, name), port.waker());
            // The one behind all numbers is spare.
            if let Some(disk) = disk {
                let away = self.away.iter().find(|(away, _)| *away == member).map(|(_, path)| NamedDisk::away(path));
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
        debug_assert!(front_handle.is_none(), "the front has the place of the first disk that is there");
        let contents = OpenContents::new(Arc::clone(&common.versions));
        let core = Core::new(
            self.volume,
            Members { there: members, named, vacant, front: Arc::clone(&front) },
            contents,
            Arc::clone(&front),
        );
        let volume = ServedVolume { core: Arc::new(Mutex::new(core)), common };
        for (member, own, port, file) in workers {
            volume.serve_disk(member, VacantDisk { shared: own, port }, file)?;
        }
        let opener =
            Opener { core: Arc::clone(&volume.core), shared: Arc::clone(&front), common: volume.common.clone() };
        // As many as disks, so that streams begin on each while the others are waited for.
        let openers = Openers::start(&volume.common, "volume-open", count, move |open| opener.perform(open))?;
        recover::start(&volume)?;
        let front_position = usize::from(front_id.0 - first.0);
        let front = Front::new(&volume, front, operations, openers, self.seen);
        let spawned = volume.common.spawn("volume".to_owned(), move || front.run())?;
        let _ = front_thread.set(spawned.thread().clone());
        store.join(places, &[(front_position, 0)], Arc::new(volume.clone()));
        Ok(volume)
    }
}

impl ServedVolume {
    /// Starts the thread of a disk, in the place it has.
    pub(super) fn serve_disk(&self, member: MemberId, place: VacantDisk, file: OwnedFd) -> io::Result<()> {
        let core = Arc::clone(&self.core);
        let VacantDisk { shared, port } = place;
        let name = format!("volume-{}", shared.id.0);
        let worker = MemberWorker::new(member, core, Arc::clone(&shared), file);
        self.common.spawn(name, move || DiskThread::new(shared, port, worker).run())?;
        Ok(())
    }
}
