//! Laws of admission as properties over random histories.
//!
//! Promise: any sequence of reservations, starts, releases and looks at the core, on a spinning and a flash disk; and of
//! streams that share each other's reads while the disks that have their content take turns. Not here: whether the
//! promises are kept (the simulator's laws).

use proptest::prelude::*;
use schedule::admission::start_cost::StartConditions;
use schedule::admission::{Admission, AdmissionRequest, AdmissionSettings, RequestedContent};
use schedule::profile::DiskProfile;
use units::{BitRate, DiskId, LinkId, Nanos, ReservationId};

/// One thing that happens to admission.
#[derive(Debug, Clone)]
enum Happening {
    /// A stream asks, and wants this burst; if admitted it starts this number of tenths of a round later, if there is room, in such a
    /// moment.
    Ask(AdmissionRequest, u64, u64, StartConditions),
    /// The n-th of those that hold something leaves.
    Leave(usize),
    /// The core was looked at.
    Busy(f64),
}

fn requests() -> impl Strategy<Value = AdmissionRequest> {
    let rates = prop_oneof![400_000u64..60_000_000, Just(8_800_000), Just(25_000_000), 60_000_000u64..400_000_000];
    let lengths = prop_oneof![Just(u64::MAX), 1u64..2_000_000_000];
    (0u16..2, rates, 40_000_000u64..200_000_000, 0.0..1e-6, lengths, prop::bool::weighted(0.15)).prop_map(
        |(disk, rate, zone, fragments_per_byte, length, writes)| AdmissionRequest {
            disk: DiskId(disk),
            link: LinkId(0),
            rate: BitRate(rate),
            disk_share: 1.0,
            zone_bytes_per_second: zone,
            fragments_per_byte,
            length,
            content: RequestedContent::ALONE,
            written_every: writes.then_some(4),
        },
    )
}

/// How much a start reads at most, as a moment of round zero.
fn start_conditions() -> impl Strategy<Value = StartConditions> {
    let bytes = prop_oneof![1 => 0u64..50_000_000, 1 => Just(u64::MAX)];
    bytes.prop_map(|payload_bytes| StartConditions { payload_bytes, ..StartConditions::idle(0) })
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let one = prop_oneof![
        8 => (requests(), prop_oneof![Just(0u64), 0u64..20_000_000], 0u64..40, start_conditions())
            .prop_map(|(request, burst, tenths, conditions)| Happening::Ask(request, burst, tenths, conditions)),
        2 => (0usize..100).prop_map(Happening::Leave),
        1 => (0.0..1.0).prop_map(Happening::Busy),
    ];
    prop::collection::vec(one, 0..120)
}

/// Admission after this history, and the reservations held.
fn after(history: &[Happening], pages: u64, be_share: f64) -> (Admission, Vec<ReservationId>) {
    let settings = AdmissionSettings {
        reservations_max: 200,
        pages,
        be_share,
        sharing_reserve: 0.1,
        first_byte_max: Nanos::from_secs(10),
    };
    let disks = vec![
        (DiskProfile::spindle_default(), Nanos::from_secs(1)),
        (DiskProfile::flash_default(), Nanos::from_millis(250)),
    ];
    let mut admission = Admission::new(&settings, disks, &[BitRate(2_000_000_000)]);
    let mut held = Vec::new();
    let mut now = 0;
    for happening in history {
        match happening {
            Happening::Ask(request, burst_bytes, tenths, conditions) => {
                now += tenths / 10;
                if let Ok(id) = admission.reserve(&[*request]) {
                    if request.written_every.is_none() {
                        admission.grant_burst(id, (*burst_bytes).min(request.length));
                    }
                    admission.place(id, &StartConditions { round: now, ..*conditions });
                    held.push(id);
                }
            }
            Happening::Leave(nth) if !held.is_empty() => {
                let left = held.swap_remove(nth % held.len());
                admission.release(left);
            }
            Happening::Busy(share) => admission.sending_mut().set_processor_share(*share),
            Happening::Leave(_) => {}
        }
    }
    (admission, held)
}

proptest! {
    /// Removing a stream never turns a yes into a no: neither of admission nor of the round a start finds room in.
    #[test]
    fn a_removed_stream_takes_no_room_from_others(
        mut history in happenings(),
        busy in 0.0..0.9,
        asked in requests(),
        leaver in 0usize..200,
        pages in 200u64..20_000,
        be_share in 0.0..0.4,
    ) {
        history.push(Happening::Busy(busy));
        let (mut stays, held) = after(&history, pages, be_share);
        if held.is_empty() || stays.check(&[asked]).is_err() {
            return Ok(());
        }
        let (mut leaves, same) = after(&history, pages, be_share);
        leaves.release(same[leaver % same.len()]);
        prop_assert!(leaves.check(&[asked]).is_ok(), "admitted beside it, refused without it");
        let round = 1000;
        let with = stays.reserve(&[asked]).ok().and_then(|id| stays.place(id, &StartConditions::idle(round)));
        let without = leaves.reserve(&[asked]).ok().and_then(|id| leaves.place(id, &StartConditions::idle(round)));
        prop_assert!(with.is_none() || without.is_some(), "started beside it, waits without it");
    }
}

/// An event among the streams of a content that has a copy on each of two disks, some of which share reads.
#[derive(Debug, Clone, Copy)]
enum GroupEvent {
    /// Another one comes, at this rate, while this disk is the better one; it shares or does not.
    Comes(u64, u16, bool),
    /// It starts in this round.
    Starts(usize, u64),
    /// One reads in another's place.
    HandsOver(usize, usize),
    /// It reads for itself, while this disk is the better one.
    Parts(usize, u16),
    /// It shares from now on.
    Shares(usize),
    /// It holds pages for others.
    Holds(usize, u64),
    /// It leaves.
    Leaves(usize),
}

fn group_events() -> impl Strategy<Value = Vec<GroupEvent>> {
    use GroupEvent::*;
    let one = prop_oneof![
        6 => (1u64..20, 0u16..2, any::<bool>()).prop_map(|(rate, disk, shares)| Comes(rate, disk, shares)),
        3 => (0usize..50, 0u64..40).prop_map(|(nth, round)| Starts(nth, round)),
        4 => (0usize..50, 0usize..50).prop_map(|(from, to)| HandsOver(from, to)),
        3 => (0usize..50, 0u16..2).prop_map(|(nth, disk)| Parts(nth, disk)),
        1 => (0usize..50).prop_map(Shares),
        2 => (0usize..50, 0u64..3000).prop_map(|(nth, pages)| Holds(nth, pages)),
        2 => (0usize..50).prop_map(Leaves),
    ];
    prop::collection::vec(one, 0..100)
}

/// The requests of a stream of the content to both disks, to this one first.
fn mirrored(rate: u64, disk: u16) -> [AdmissionRequest; 2] {
    [disk, 1 - disk].map(|disk| AdmissionRequest {
        disk: DiskId(disk),
        link: LinkId(0),
        rate: BitRate(rate * 1_000_000),
        disk_share: 1.0,
        zone_bytes_per_second: 100_000_000,
        fragments_per_byte: 0.0,
        length: u64::MAX,
        content: RequestedContent::ALONE,
        written_every: None,
    })
}

proptest! {
    /// In any order of sharing, all promises are given back when all streams have left.
    #[test]
    fn a_group_that_has_left_holds_nothing(history in group_events(), reserve in 0.0..0.3) {
        let settings = AdmissionSettings { reservations_max: 80, pages: 9_000, be_share: 0.0, sharing_reserve: reserve, first_byte_max: Nanos::from_secs(10) };
        let disks = [DiskProfile::spindle_default(), DiskProfile::spindle_default()];
        let disks = disks.map(|profile| (profile, Nanos::from_secs(1))).to_vec();
        let links = [BitRate(2_000_000_000)];
        let mut admission = Admission::new(&settings, disks.clone(), &links);
        let mut held: Vec<(ReservationId, u64, bool, bool)> = Vec::new();
        for event in history {
            let there = held.len().max(1);
            let nth = |nth: usize| nth % there;
            match event {
                GroupEvent::Comes(rate, disk, shares) => {
                    let asked = mirrored(rate, disk);
                    let id = if shares { admission.reserve_shared(&asked) } else { admission.reserve(&asked) };
                    held.extend(id.map(|id| (id, rate, false, shares)));
                }
                _ if held.is_empty() => {}
                GroupEvent::Starts(at, round) => {
                    // A stream that shares has no reads of its own to start with.
                    let (id, _, placed, shares) = &mut held[nth(at)];
                    *placed = *placed || *shares || admission.place(*id, &StartConditions::idle(round)).is_some();
                }
                GroupEvent::HandsOver(from, to) => {
                    let (from, to) = (nth(from), nth(to));
                    if from != to {
                        admission.hand_over(held[from].0, held[to].0);
                        let was_placed = std::mem::take(&mut held[from].2);
                        if !held[from].3 && held[to].3 {
                            (held[to].2, held[to].3) = (was_placed, false);
                        }
                        held[from].3 = true;
                    }
                }
                GroupEvent::Parts(at, disk) => {
                    let (id, rate, placed, shares) = &mut held[nth(at)];
                    if admission.unshare(*id, &mirrored(*rate, disk)).is_ok() && std::mem::take(shares) {
                        *placed = false;
                    }
                }
                GroupEvent::Shares(at) => {
                    let (id, _, placed, shares) = &mut held[nth(at)];
                    admission.share(*id);
                    (*placed, *shares) = (false, true);
                }
                GroupEvent::Holds(at, pages) => drop(admission.hold_pages(held[nth(at)].0, pages)),
                GroupEvent::Leaves(at) => {
                    let left = held.swap_remove(nth(at));
                    admission.release(left.0);
                }
            }
        }
        held.iter().for_each(|(id, ..)| admission.release(*id));
        let mut fresh = Admission::new(&settings, disks, &links);
        prop_assert_eq!(admission.memory(), fresh.memory());
        prop_assert_eq!(admission.sending().promised(), fresh.sending().promised());
        prop_assert!([0, 1].iter().all(|&disk| admission.table(DiskId(disk)).promised_share() < 1e-6));
        // With no sharing stream left, nothing is kept for them either.
        let most =
            |admission: &mut Admission| (0..).take_while(|_| admission.reserve(&mirrored(9, 0)).is_ok()).count();
        prop_assert_eq!(most(&mut admission), most(&mut fresh));
    }
}
