//! Laws of admission as properties over random histories.
//!
//! Promise: any sequence of reservations, starts, releases and looks at the core, on a spinning and a flash disk. Not
//! here: whether what was admitted is kept (the simulator's laws).

use proptest::prelude::*;
use schedule::admission::disk_table::StartConditions;
use schedule::admission::{Admission, AdmissionRequest, AdmissionSettings};
use schedule::profile::DiskProfile;
use units::{BitRate, DiskId, LinkId, Nanos, ReservationId};

/// One thing that happens to admission.
#[derive(Debug, Clone)]
enum Happening {
    /// Somebody asks; who is admitted starts so many tenths of a round later, if there is room, in such a moment.
    Ask(AdmissionRequest, u64, StartConditions),
    /// The n-th of those that hold something leaves.
    Leave(usize),
    /// The core was looked at.
    Busy(f64),
}

fn requests() -> impl Strategy<Value = AdmissionRequest> {
    let rates = prop_oneof![400_000u64..60_000_000, Just(8_800_000), Just(25_000_000), 60_000_000u64..400_000_000];
    let bursts = prop_oneof![Just(0u64), 0u64..20_000_000];
    let lengths = prop_oneof![Just(u64::MAX), 1u64..2_000_000_000];
    (0u16..2, rates, 40_000_000u64..200_000_000, 0.0..1e-6, lengths, bursts, prop::bool::weighted(0.15)).prop_map(
        |(disk, rate, zone, fragments_per_byte, length, burst_bytes, writes)| AdmissionRequest {
            disk: DiskId(disk),
            link: LinkId(0),
            rate: BitRate(rate),
            disk_share: 1.0,
            zone_bytes_per_second: zone,
            fragments_per_byte,
            length,
            burst_bytes: if writes { 0 } else { burst_bytes.min(length) },
            writes,
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
        8 => (requests(), 0u64..40, start_conditions()).prop_map(|(request, tenths, conditions)| Happening::Ask(request, tenths, conditions)),
        2 => (0usize..100).prop_map(Happening::Leave),
        1 => (0.0..1.0).prop_map(Happening::Busy),
    ];
    prop::collection::vec(one, 0..120)
}

/// Admission after this history, and who holds what.
fn after(history: &[Happening], pages: u64, be_share: f64) -> (Admission, Vec<ReservationId>) {
    let settings = AdmissionSettings { reservations_max: 200, pages, be_share, sharing_reserve: 0.1 };
    let disks = vec![
        (DiskProfile::spindle_default(), Nanos::from_secs(1)),
        (DiskProfile::flash_default(), Nanos::from_millis(250)),
    ];
    let mut admission = Admission::new(&settings, disks, &[BitRate(2_000_000_000)]);
    let mut held = Vec::new();
    let mut now = 0;
    for happening in history {
        match happening {
            Happening::Ask(request, tenths, conditions) => {
                now += tenths / 10;
                if let Ok(id) = admission.reserve(*request) {
                    admission.place(id, &StartConditions { round: now, ..*conditions });
                    held.push(id);
                }
            }
            Happening::Leave(nth) if !held.is_empty() => {
                let left = held.swap_remove(nth % held.len());
                admission.release(left);
            }
            Happening::Busy(share) => admission.set_processor_share(*share),
            Happening::Leave(_) => {}
        }
    }
    (admission, held)
}

proptest! {
    /// Removing a stream never turns a yes into a no: neither of admission nor of the round a start finds room in.
    #[test]
    fn who_leaves_takes_no_room_from_others(
        mut history in happenings(),
        busy in 0.0..0.9,
        asked in requests(),
        leaver in 0usize..200,
        pages in 200u64..20_000,
        be_share in 0.0..0.4,
    ) {
        history.push(Happening::Busy(busy));
        let (mut stays, held) = after(&history, pages, be_share);
        if held.is_empty() || stays.check(&asked).is_err() {
            return Ok(());
        }
        let (mut leaves, same) = after(&history, pages, be_share);
        leaves.release(same[leaver % same.len()]);
        prop_assert!(leaves.check(&asked).is_ok(), "admitted beside it, refused without it");
        let round = 1000;
        let with = stays.reserve(asked).ok().and_then(|id| stays.place(id, &StartConditions::idle(round)));
        let without = leaves.reserve(asked).ok().and_then(|id| leaves.place(id, &StartConditions::idle(round)));
        prop_assert!(with.is_none() || without.is_some(), "started beside it, waits without it");
    }
}
