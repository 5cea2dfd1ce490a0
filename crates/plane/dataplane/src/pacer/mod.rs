//! The pacer: streams and their sockets, and the times of their sends.
//!
//! Promise: a stream sends the bytes that its clock allows and the buffers have, at its own tick; the sends of a tick are
//! no more than the links carry; a socket comes back once its stream has left the disks. Not here: admission
//! (`admitter`), reads (`fetcher`).

mod best_effort;
mod feed;
mod jitter;
mod links;
mod send_piece;
mod wheel;

use schedule::cycle::Grid;
use schedule::pace::Pace;
use units::{BitRate, DiskId, LinkId, Nanos, ReservationId, StreamId};

use crate::cache::Cache;
use crate::context::{PlaneContext, RequestKind};
use crate::control::{Delivery, DeliveryDestination, Ending, Outcome, Refusal, Report, Service};
use crate::cursor::{Cursor, SegmentList};
use crate::message::{ToFetcher, ToPacer};
use crate::port::{Io, Sharing, SocketSlot};
use best_effort::BestEffort;
use jitter::JitterWindow;
use links::LinkLoad;
use wheel::{PLACES, STEPS, TickSlot, Wheel};

/// The pacer.
#[derive(Debug)]
pub(crate) struct Pacer {
    streams: Vec<PacedStream>,
    wheel: Wheel,
    steps: Grid,
    /// The next step of the wheel to be fed.
    step: u64,
    best_effort: BestEffort,
    links: Vec<LinkLoad>,
    misses_published_at: Nanos,
}

/// The life of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum PacedLife {
    /// The slot is free.
    #[default]
    Free,
    /// Its first bytes are not there: it starts, or starts once more with the reservation that it has again.
    Waiting,
    /// Fed on the wheel, or in turn.
    Running,
    /// Ends as soon as the kernel lets go of its memory.
    Ending(Outcome),
    /// Its first bytes did not come.
    Refused(Refusal),
}

impl PacedLife {
    /// True if it neither ends nor has ended.
    const fn is_active(self) -> bool {
        matches!(self, Self::Waiting | Self::Running)
    }

    /// Passes to the next life.
    fn pass_to(&mut self, next: Self) {
        let follows = match next {
            // The entry of a stream that has ended is replaced whole.
            Self::Free => false,
            Self::Waiting => matches!(self, Self::Free | Self::Running),
            Self::Running | Self::Ending(_) => self.is_active(),
            Self::Refused(_) => *self == Self::Waiting,
        };
        assert!(follows, "{next:?} does not follow {self:?}");
        *self = next;
    }
}

/// The send that the kernel has not finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct InFlight {
    kind: SendKind,
    /// Length in bytes.
    bytes: u64,
    /// Since when the client has taken nothing.
    since: Nanos,
}

/// The kind of bytes that a send carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SendKind {
    /// Literal bytes of a segment.
    Literal,
    /// Content.
    Content,
    /// Nothing: it waits for room in the socket.
    Room,
}

/// The page in which the send cursor stands: a tick that stays in it need look neither at the segments nor at the table of
/// buffers. Holds as long as the page is referenced, which it is until the cursor has passed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CurrentPage {
    /// First byte not sent.
    offset: u64,
    /// Bytes from there that belong to the segment and lie in the page.
    left: u64,
    sharing: Sharing,
}

/// One entry of the delivery table, in whole lines of the processor's cache.
#[derive(Debug, Default)]
#[repr(align(64))]
struct PacedStream {
    life: PacedLife,
    /// How often this slot was used; tokens carry it.
    generation: u32,
    delivery: Option<Box<Delivery>>,
    /// True with a reservation; else best effort.
    is_guaranteed: bool,
    /// Its destination is an outlet: its reader learns of a send by a report. (A look at the delivery costs each send a line of the cache.)
    reports_sends: bool,
    /// Its places on the wheel.
    tick_slot: Option<TickSlot>,
    /// The disk at which it is listed.
    disk: DiskId,
    /// The link that its socket goes out by.
    link: LinkId,
    /// How far it was sent.
    send: Cursor,
    /// Payload of which the fetcher holds the pages for it.
    fetched: u64,
    /// Payload in all; up to the first page that could not be read, if there is one.
    payload: u64,
    /// Its outcome once its payload is sent, if that is not all of it.
    cut: Option<Outcome>,
    /// When all of it shall have been sent, if it is one block.
    sent_by: Option<Nanos>,
    /// Payload it may still send in this tick.
    budget: u64,
    /// The bytes that may be sent by each tick, of a delivery with a rate: from its start on, and after the loss of its
    /// reservation.
    pace: Option<Pace>,
    in_flight: Option<InFlight>,
    /// Its send was cancelled so that it gives its buffers back: its client takes nothing.
    gives_way: bool,
    /// It gave its reservation back, and requests it again when its client takes bytes.
    asks_back: Option<Nanos>,
    /// It is in the queue of best-effort deliveries that have no send out.
    queued: bool,
    /// Where in the buffers the send cursor stands, if that is known.
    current: Option<CurrentPage>,
    /// True while its gauge shows that its client does not take bytes.
    blocked_reported: bool,
    sent_bytes: u64,
    misses: u64,
    /// The time since which bytes that are due are not there.
    late_since: Option<Nanos>,
    started: Nanos,
    window: JitterWindow,
}

impl PacedStream {
    /// The delivery of a slot in use.
    fn delivery(&self) -> &Delivery {
        self.delivery.as_deref().expect("a slot in use has its delivery")
    }

    fn is_running(&self) -> bool {
        self.life == PacedLife::Running
    }
}

impl Pacer {
    pub(crate) fn new(streams_max: usize, links: Vec<BitRate>, tick: Nanos, now: Nanos) -> Self {
        Self {
            streams: (0..streams_max).map(|_| PacedStream::default()).collect(),
            wheel: Wheel::new(),
            steps: Grid::new(now, Nanos(tick.0 / STEPS as u64)),
            step: 1,
            best_effort: BestEffort::new(streams_max, links.len()),
            links: links.into_iter().map(LinkLoad::idle).collect(),
            misses_published_at: Nanos::ZERO,
        }
    }

    pub(crate) fn receive<I: Io>(&mut self, message: ToPacer, pages: &Cache, context: &mut PlaneContext<I>) {
        match message {
            ToPacer::Begin { slot, delivery, disk } => self.begin(slot, delivery, disk, context),
            ToPacer::Link { link, payload } => self.links[usize::from(link.0)].set_rate(payload),
            ToPacer::Demoted { slot, at, asks_back } => self.demoted(slot, at, asks_back, context),
            ToPacer::Promoted { slot } => self.promoted(slot, context),
            ToPacer::EndBurst { slot } => self.end_burst(slot, context),
            ToPacer::Wake { slot } => self.want(slot, context),
            ToPacer::Continue { slot, has_pages } => self.best_effort_continues(slot, has_pages, pages, context),
            ToPacer::Refuse { slot, refusal } => {
                self.streams[slot as usize].life.pass_to(PacedLife::Refused(refusal));
                self.leave(slot, false, context);
            }
            ToPacer::Left { slot, held } => self.left(slot, held, context),
            ToPacer::Fetched { slot, payload } => self.streams[slot as usize].fetched = payload,
            ToPacer::Cut { slot, payload, outcome } => {
                let stream = &mut self.streams[slot as usize];
                (stream.payload, stream.cut) = (payload, Some(outcome));
            }
            ToPacer::Run { slot, block } => {
                self.begin_block(slot, block, context);
                self.run(slot, pages, context);
            }
            ToPacer::Finish { slot, outcome } => self.finish(slot, outcome, context),
        }
    }

    /// Ends the delivery of this name, if it runs.
    pub(crate) fn stop<I: Io>(&mut self, stream: StreamId, context: &mut PlaneContext<I>) {
        let named = |entry: &PacedStream| entry.delivery.as_ref().is_some_and(|delivery| delivery.stream == stream);
        if let Some(slot) = self.streams.iter().position(named) {
            self.finish(u32::try_from(slot).expect("within limits"), Outcome::Stopped, context);
        }
    }

    fn begin<I: Io>(&mut self, slot: u32, delivery: Box<Delivery>, disk: DiskId, context: &mut PlaneContext<I>) {
        match &delivery.destination {
            DeliveryDestination::Socket(socket) => context.io.open_socket(SocketSlot(slot), socket),
            DeliveryDestination::Outlet(outlet) => context.io.open_outlet(SocketSlot(slot), outlet),
        }
        let stream = &mut self.streams[slot as usize];
        stream.life.pass_to(PacedLife::Waiting);
        let rate = match delivery.service {
            Service::Constant { rate, .. } => rate,
            Service::BestEffort | Service::Beside { .. } => BitRate(0),
        };
        publish_begin(&context.gauges.streams[slot as usize], &delivery, rate);
        *stream = PacedStream {
            life: stream.life,
            generation: stream.generation,
            is_guaranteed: delivery.service != Service::BestEffort,
            reports_sends: matches!(delivery.destination, DeliveryDestination::Outlet(_)),
            disk,
            link: delivery.link,
            payload: SegmentList::of(&delivery).payload(),
            delivery: Some(delivery),
            started: context.now,
            ..PacedStream::default()
        };
        if !self.streams[slot as usize].is_guaranteed {
            self.streams[slot as usize].life.pass_to(PacedLife::Running);
            self.best_effort.add(slot);
            self.want(slot, context);
        }
    }

    /// Ends a stream: now if the kernel holds none of its memory, else when it lets go.
    fn finish<I: Io>(&mut self, slot: u32, outcome: Outcome, context: &mut PlaneContext<I>) {
        let stream = &mut self.streams[slot as usize];
        if !stream.life.is_active() {
            return;
        }
        stream.life.pass_to(PacedLife::Ending(outcome));
        if stream.in_flight.is_some() {
            let token = RequestKind::Send { slot, generation: stream.generation }.token();
            context.io.cancel_send(token, SocketSlot(slot));
            context.tell_fetcher(ToFetcher::Ending { slot });
        } else {
            self.end(slot, context);
        }
    }

    /// The kernel holds nothing of a stream that ends.
    fn end<I: Io>(&mut self, slot: u32, context: &mut PlaneContext<I>) {
        let PacedLife::Ending(outcome) = self.streams[slot as usize].life else { return };
        debug_assert!(self.streams[slot as usize].in_flight.is_none(), "the kernel holds nothing of it");
        // A player closes its connection to seek or to pause. A client that took nothing for too long gives up its
        // reservation, and no stream waits for bytes that the disk did not bring.
        let may_hold = matches!(outcome, Outcome::Complete | Outcome::ClientGone | Outcome::Stopped);
        self.leave(slot, may_hold, context);
    }

    /// Takes a stream off the wheel, or out of the queue, and reports its end to the other parts.
    fn leave<I: Io>(&mut self, slot: u32, may_hold: bool, context: &mut PlaneContext<I>) {
        self.leave_wheel(slot);
        self.best_effort.remove(slot);
        context.io.close_socket(SocketSlot(slot));
        context.gauges.streams[slot as usize].id.set(0);
        context.tell_fetcher(ToFetcher::Leave { slot, may_hold });
    }

    fn leave_wheel(&mut self, slot: u32) {
        if let Some(tick_slot) = self.streams[slot as usize].tick_slot.take() {
            self.wheel.leave(slot, tick_slot);
        }
    }

    /// No part needs an ended stream any more: its socket goes back.
    fn left<I: Io>(&mut self, slot: u32, held: Option<ReservationId>, context: &mut PlaneContext<I>) {
        let stream = &mut self.streams[slot as usize];
        let generation = stream.generation.wrapping_add(1) & 0x00FF_FFFF;
        let mut ended = std::mem::replace(stream, PacedStream { generation, ..PacedStream::default() });
        let delivery = ended.delivery.take().expect("a slot in use has its delivery");
        debug_assert!(ended.tick_slot.is_none(), "a stream leaves the wheel before its slot");
        context.report(match ended.life {
            PacedLife::Refused(refusal) => Report::Refused { delivery, refusal },
            PacedLife::Ending(outcome) => {
                let duration = context.now.saturating_sub(ended.started);
                let PacedStream { sent_bytes, misses, .. } = ended;
                Report::Finished { delivery, end: Ending { outcome, sent_bytes, misses, duration, held } }
            }
            PacedLife::Free | PacedLife::Waiting | PacedLife::Running => unreachable!("it has left"),
        });
    }
}

fn publish_begin(gauges: &crate::gauges::StreamGauges, delivery: &Delivery, rate: BitRate) {
    gauges.rate_bps.set(rate.0);
    gauges.sent_bytes.set(0);
    gauges.misses.set(0);
    gauges.buffered_bytes.set(0);
    gauges.jitter_sum_ppm.set(0);
    gauges.jitter_windows.set(0);
    gauges.blocked.set(0);
    gauges.late.set(0);
    gauges.id.set(delivery.stream.0);
}
