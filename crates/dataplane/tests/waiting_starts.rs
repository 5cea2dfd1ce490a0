//! Starts that wait for a disk: how many may, and what the next one is told.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use dataplane::control::{Access, Command, Content, Delivery, Extent, Refusal, Report, Resource, Segment, Service};
use dataplane::gauges::Gauges;
use dataplane::grant::{Grant, StoreMessage};
use dataplane::plane::{Plane, PlaneConfig};
use dataplane::port::{Completion, FileSlot, Io, ReadRequest, SendRequest, SocketSlot, Span, Token};
use dataplane::watched::{Facts, Watched};
use schedule::profile::DiskProfile;
use units::{BitRate, ContentVersion, DiskId, LinkId, Nanos, StreamId};

const MIB: u64 = 1 << 20;
const RATE: BitRate = BitRate(500_000);
/// As decision 0007 says.
const MAY_WAIT: u64 = 128;

/// What goes in and out of a world in which time stands still and no disk answers.
#[derive(Default)]
struct Queues {
    commands: VecDeque<Command>,
    reports: Vec<Report>,
}

struct Still(Rc<RefCell<Queues>>);

impl Io for Still {
    fn now(&mut self) -> Nanos {
        Nanos::from_secs(1)
    }
    fn processor_time(&mut self) -> Nanos {
        Nanos::ZERO
    }
    fn chunk_count(&self) -> u32 {
        4096
    }
    fn open_file(&mut self, _: FileSlot, _: &OwnedFd, _: Access) {}
    fn close_file(&mut self, _: FileSlot) {}
    fn open_socket(&mut self, _: SocketSlot, _: &OwnedFd) {}
    fn close_socket(&mut self, _: SocketSlot) {}
    fn fill(&mut self, _: Span, _: &[u8]) {}
    fn read(&mut self, _: ReadRequest) {}
    fn look(&mut self, _: Token, _: &Arc<Content>) {}
    fn send(&mut self, _: SendRequest) {}
    fn cancel_send(&mut self, _: Token) {}
    fn grant(&mut self, _: Grant) {}
    fn store_message(&mut self) -> Option<StoreMessage> {
        None
    }
    fn command(&mut self) -> Option<Command> {
        self.0.borrow_mut().commands.pop_front()
    }
    fn report(&mut self, report: Report) -> Result<(), Report> {
        self.0.borrow_mut().reports.push(report);
        Ok(())
    }
    fn wait(&mut self, _: Nanos, _: &mut Vec<Completion>) {}
}

/// A plane with one disk that nobody could measure.
struct Machine {
    plane: Plane<Still>,
    queues: Rc<RefCell<Queues>>,
}

impl Machine {
    fn new() -> Self {
        let queues = Rc::new(RefCell::new(Queues::default()));
        let config = PlaneConfig { streams_max: 1000, ..PlaneConfig::default() };
        let gauges = Arc::new(Gauges::new(config.streams_max, 1));
        let (disks, links) = (vec![DiskProfile::spindle_default()], [BitRate(10_000_000_000)]);
        Self { plane: Plane::new(config, disks, &links, gauges, Still(Rc::clone(&queues))), queues }
    }

    /// What the plane reports to this command.
    fn told(&mut self, command: Command) -> Vec<Report> {
        self.queues.borrow_mut().commands.push_back(command);
        self.plane.turn();
        std::mem::take(&mut self.queues.borrow_mut().reports)
    }

    fn promised(&self) -> u64 {
        self.plane.admission().promised().0
    }
}

fn null() -> OwnedFd {
    File::open("/dev/null").expect("/dev/null opens").into()
}

/// A viewer of a content that nobody else watches.
fn viewer(number: u64) -> Command {
    let size = 64 * MIB;
    let content = Content {
        version: ContentVersion(number),
        disk: DiskId(0),
        file: null(),
        size,
        access: Access::Direct,
        extents: Box::new([Extent { logical: 0, physical: number * 256 * MIB, length: size }]),
        watched: Watched::new(Facts::new(0, size), 0),
    };
    Command::Start(Box::new(Delivery {
        stream: StreamId(number),
        socket: null(),
        link: LinkId(0),
        segments: Box::new([Segment::Range { offset: 0, length: size }]),
        content: Arc::new(content),
        service: Service::Constant { rate: RATE, burst_bytes: 0, held: None, hold: false },
    }))
}

#[test]
fn the_129th_start_that_would_wait_is_refused_and_takes_nothing() {
    let mut machine = Machine::new();
    let mut number = 0;
    let mut next = || {
        number += 1;
        number
    };
    let started = std::iter::from_fn(|| (!machine.told(viewer(next())).is_empty()).then_some(())).count() as u64;
    assert!(started > 0, "an idle disk takes some");
    for waits in 1..MAY_WAIT {
        let reports = machine.told(viewer(next()));
        assert!(reports.is_empty(), "{waits} wait behind {started}: {reports:?}");
    }
    let all = (started + MAY_WAIT) * RATE.0;
    assert_eq!(machine.promised(), all);

    let proper = Refusal { resource: Resource::Disk(DiskId(0)), grantable: BitRate(0) };
    for _ in 0..3 {
        let reports = machine.told(viewer(next()));
        let [Report::Refused { delivery, refusal }] = reports.as_slice() else { panic!("{reports:?}") };
        assert_eq!(*refusal, proper);
        assert_eq!(*delivery.segments, [Segment::Range { offset: 0, length: 64 * MIB }], "as it was sent");
        assert_eq!(machine.promised(), all, "nothing is left of who was refused");
    }

    // A place that a viewer leaves is there for the next.
    let reports = machine.told(Command::Stop(StreamId(started + 1)));
    assert!(matches!(reports.as_slice(), [Report::Started { .. }, Report::Finished { .. }]), "{reports:?}");
    let reports = machine.told(viewer(next()));
    assert!(reports.is_empty(), "{reports:?}");
    assert_eq!(machine.promised(), all);
}
