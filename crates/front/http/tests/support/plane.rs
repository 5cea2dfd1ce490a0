//! A data plane that really sends, with a thread for each delivery.

use std::collections::{HashMap, HashSet};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};

use content::Segment;
use dataplane::control::{
    Command, Delivery, Ending, Outcome, RecordingPlace, Refusal, Report, Resource, Service as Class,
};
use service::{MediaService, PlaneQueue};
use units::{BitRate, DiskId, Nanos, ReservationId, StreamId};

use super::lines::wait_while;
use super::sends::Sends;
use super::told::PlaneOrder;

#[derive(Debug, Default)]
struct PlaneState {
    orders: Vec<PlaneOrder>,
    reserved: HashMap<ReservationId, u64>,
    /// The stream that has each, since it was admitted.
    holders: HashMap<ReservationId, StreamId>,
    stopped: HashSet<u64>,
    next: u32,
    /// Nothing of a content leaves until it is opened.
    gate_closed: bool,
    queue_full: bool,
    draining: bool,
    /// Outcome of every stream, before its first byte.
    failing: Option<Outcome>,
    /// Disks without room for a recording, and the rate they would grant.
    full_disks: Vec<(DiskId, BitRate)>,
}

/// A data plane: one thread per delivery, which sends the segments.
pub struct FakePlane {
    state: Mutex<PlaneState>,
    changed: Condvar,
    capacity: AtomicU64,
    service: OnceLock<Arc<MediaService>>,
    me: OnceLock<std::sync::Weak<Self>>,
}

impl FakePlane {
    pub(super) fn new(capacity_bps: u64) -> Arc<Self> {
        let plane = Arc::new(Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            capacity: AtomicU64::new(capacity_bps),
            service: OnceLock::new(),
            me: OnceLock::new(),
        });
        let _ = plane.me.set(Arc::downgrade(&plane));
        plane
    }

    /// Reports go to `service` from now on.
    pub(super) fn report_to(&self, service: &Arc<MediaService>) {
        assert!(self.service.set(Arc::clone(service)).is_ok());
    }

    pub fn orders(&self) -> Vec<PlaneOrder> {
        self.state.lock().expect("lock").orders.clone()
    }

    pub fn reserved(&self) -> usize {
        self.state.lock().expect("lock").reserved.len()
    }

    /// Waits until there are `count` reservations.
    pub fn wait_reserved(&self, count: usize) {
        wait_while(&self.state, &self.changed, |state| state.reserved.len() != count);
    }

    /// Waits until nothing is reserved.
    pub fn wait_unreserved(&self) {
        self.wait_reserved(0);
    }

    pub fn close_gate(&self) {
        self.state.lock().expect("lock").gate_closed = true;
    }

    pub fn open_gate(&self) {
        self.state.lock().expect("lock").gate_closed = false;
        self.changed.notify_all();
    }

    pub fn fill_queue(&self, full: bool) {
        self.state.lock().expect("lock").queue_full = full;
    }

    /// From now on each stream ends so before its first byte.
    pub fn fail(&self, outcome: Outcome) {
        self.state.lock().expect("lock").failing = Some(outcome);
    }

    /// From now on a recording finds no room on `disk` but for `grantable`.
    pub fn fill_disk(&self, disk: DiskId, grantable: BitRate) {
        self.state.lock().expect("lock").full_disks.push((disk, grantable));
    }

    /// Waits until `ready` is true for the orders received.
    pub fn wait_until(&self, ready: impl Fn(&[PlaneOrder]) -> bool) {
        wait_while(&self.state, &self.changed, |state| !ready(&state.orders));
    }

    fn admit(&self, state: &mut PlaneState, rate: BitRate) -> Result<ReservationId, Refusal> {
        if state.draining {
            return Err(Refusal { resource: Resource::Draining, grantable: BitRate(0) });
        }
        let used: u64 = state.reserved.values().sum();
        let free = self.capacity.load(Ordering::SeqCst) - used;
        if rate.0 > free {
            return Err(Refusal { resource: Resource::Disk(DiskId(0)), grantable: BitRate(free) });
        }
        state.next += 1;
        let id = ReservationId { slot: state.next, generation: 1 };
        state.reserved.insert(id, rate.0);
        Ok(id)
    }

    fn renew(&self, state: &mut PlaneState, held: ReservationId, rate: BitRate) -> Result<(), Refusal> {
        let before = state.reserved.remove(&held).expect("a held reservation was released before its use");
        let renewed = if rate.0 > before { self.admit(state, rate) } else { Ok(held) };
        let own = renewed.ok().and_then(|other| state.reserved.remove(&other)).unwrap_or(before);
        state.reserved.insert(held, own);
        renewed.map(drop)
    }

    fn start(self: &Arc<Self>, delivery: Box<Delivery>) {
        let mut state = self.state.lock().expect("lock");
        let mut hold_it = false;
        let reservation = match delivery.service {
            Class::BestEffort | Class::Beside { .. } => {
                state.orders.push(match delivery.service {
                    Class::Beside { session } => PlaneOrder::Beside(session),
                    _ => PlaneOrder::Start { rate: None, burst_bytes: 0, held: None, hold: false },
                });
                Ok(None)
            }
            Class::Constant { rate, burst_bytes, held, hold, .. } => {
                hold_it = hold;
                state.orders.push(PlaneOrder::Start { rate: Some(rate), burst_bytes, held, hold });
                match held {
                    Some(held) => self.renew(&mut state, held, rate).map(|()| Some(held)),
                    None => self.admit(&mut state, rate).map(Some),
                }
            }
        };
        if let Ok(Some(reservation)) = reservation {
            // The stream that had it before continues without.
            state.holders.insert(reservation, delivery.stream);
        }
        drop(state);
        self.changed.notify_all();
        let plane = Arc::clone(self);
        std::thread::spawn(move || match reservation {
            Err(refusal) => plane.report(Report::Refused { delivery, refusal }),
            Ok(reservation) => plane.run(delivery, reservation, hold_it),
        });
    }

    fn run(&self, delivery: Box<Delivery>, reservation: Option<ReservationId>, hold: bool) {
        self.report(Report::Started { stream: delivery.stream, reservation });
        let stream = delivery.stream.0;
        let mut sends = Sends::to(&delivery);
        let mut sent = 0;
        let failing = self.state.lock().expect("lock").failing;
        let mut outcome = failing.unwrap_or(Outcome::Complete);
        for segment in delivery.segments.iter().filter(|_| failing.is_none()) {
            if matches!(segment, Segment::Range { .. }) && !self.pass_gate(stream) {
                outcome = Outcome::Stopped;
                break;
            }
            let bytes = match segment {
                Segment::Bytes(bytes) => {
                    assert!(bytes.len() as u64 <= content::LITERAL_BYTES);
                    bytes.to_vec()
                }
                Segment::Range { offset, length } => {
                    assert!(*length > 0 && offset + length <= delivery.content.size);
                    let file = std::fs::File::from(delivery.content.file().file.try_clone().expect("a descriptor"));
                    let mut bytes = vec![0; usize::try_from(*length).expect("small")];
                    file.read_exact_at(&mut bytes, *offset).expect("inside the file");
                    bytes
                }
            };
            if !sends.send(&bytes, || self.report(Report::Posted { stream: delivery.stream })) {
                outcome = Outcome::ClientGone;
                break;
            }
            sent += bytes.len() as u64;
        }
        drop(sends);
        let mut state = self.state.lock().expect("lock");
        let kept = reservation.filter(|reservation| state.holders.get(reservation) == Some(&delivery.stream));
        let held = kept.filter(|_| hold);
        if let (Some(reservation), None) = (kept, held) {
            state.reserved.remove(&reservation);
            self.changed.notify_all();
        }
        drop(state);
        let end = Ending { outcome, sent_bytes: sent, misses: 0, duration: Nanos::from_millis(1), held };
        self.report(Report::Finished { delivery, end });
    }

    /// Waits at the gate; false if the stream was stopped there.
    fn pass_gate(&self, stream: u64) -> bool {
        let mut state = self.state.lock().expect("lock");
        while state.gate_closed && !state.stopped.contains(&stream) {
            state = self.changed.wait(state).expect("lock");
        }
        !state.stopped.contains(&stream)
    }

    fn report(&self, report: Report) {
        self.service.get().expect("started").on_report(report);
    }
}

impl PlaneQueue for FakePlane {
    fn send(&self, command: Command) -> Result<(), Command> {
        let me = self.me.get().and_then(std::sync::Weak::upgrade).expect("the plane lives");
        {
            let mut state = self.state.lock().expect("lock");
            if state.queue_full {
                return Err(command);
            }
            match &command {
                Command::Stop(stream) => {
                    state.stopped.insert(stream.0);
                    state.orders.push(PlaneOrder::Stop);
                }
                Command::Release(reservation) => {
                    state.reserved.remove(reservation);
                    state.orders.push(PlaneOrder::Release(*reservation));
                }
                Command::Drain => {
                    state.draining = true;
                    state.orders.push(PlaneOrder::Drain);
                }
                Command::Reserve(request) => {
                    state.orders.push(PlaneOrder::Reserve(request.rate));
                    let full = state.full_disks.iter().find(|(disk, _)| *disk == request.disks.store).copied();
                    let admitted = match full {
                        Some((disk, grantable)) => Err(Refusal { resource: Resource::Disk(disk), grantable }),
                        None => me.admit(&mut state, request.rate),
                    };
                    let answer = match admitted {
                        Ok(reservation) => {
                            let second = Nanos::from_secs(1);
                            let place = RecordingPlace { first: second, period: second, within: second };
                            Report::Reserved { stream: request.stream, reservation, place }
                        }
                        Err(refusal) => Report::ReserveRefused { stream: request.stream, refusal },
                    };
                    let plane = Arc::clone(&me);
                    std::thread::spawn(move || plane.report(answer));
                }
                Command::Start(_)
                | Command::Keep(_)
                | Command::SetStall(_)
                | Command::SetLink { .. }
                | Command::SetProfile(_)
                | Command::Shutdown => {}
            }
            self.changed.notify_all();
        }
        if let Command::Start(delivery) = command {
            me.start(delivery);
        }
        Ok(())
    }
}
