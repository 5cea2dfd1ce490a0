//! Admitted streams start, and so do streams of the rate that a refusal names: over disks, rates and loads.

use proptest::prelude::*;

use super::rounds::SLOTS;
use super::*;
use crate::profile::SeekPoint;

const FIRST_BYTE_MAX: Nanos = Nanos::from_secs(10);

/// A disk that performs as its profile says, and nothing else happens on it.
struct IdealDisk {
    admission: Admission,
    now: u64,
    /// Seconds of work left of the rounds before.
    behind: f64,
}

impl IdealDisk {
    /// Runs until the promised stream starts; false if that is too late for its first bytes.
    fn starts(&mut self, id: ReservationId) -> bool {
        let round = self.admission.resources.disks[0].table.round();
        let waits = |&rounds: &u64| round.saturating_mul(rounds) < FIRST_BYTE_MAX;
        (0..).take_while(waits).any(|_| self.pass_round(Some(id)))
    }

    /// True if a request for the promised stream, which comes while this part of the round is left, is forecast to have its first bytes in
    /// time.
    fn forecasts(&self, id: ReservationId, remaining: f64) -> bool {
        let table = self.admission.table(DiskId(0));
        let now = table.round().saturating_mul(self.now);
        let conditions = self.conditions();
        let done = (conditions.remaining - remaining).max(0.0) * table.seconds_to_promise();
        let queued_seconds = (conditions.queued_seconds - done).max(0.0);
        let conditions = StartConditions { remaining, queued_seconds, ..conditions };
        self.admission.starts_behind(&mut table.forecast(now, &conditions), id, &conditions, now)
    }

    /// The conditions of a start now.
    fn conditions(&self) -> StartConditions {
        let queued_seconds = self.behind + self.work();
        StartConditions { remaining: 0.95, queued_seconds, ..StartConditions::idle(self.now) }
    }

    /// A round passes; true if the stream found room in it for its start.
    fn pass_round(&mut self, waiting: Option<ReservationId>) -> bool {
        let conditions = self.conditions();
        let placed = waiting.is_some_and(|id| self.admission.place(id, &conditions).is_some());
        let room = self.admission.resources.disks[0].table.seconds_to_promise();
        self.behind = (self.behind + self.work() - room).max(0.0);
        self.now += 1;
        placed
    }

    fn work(&self) -> f64 {
        self.admission.resources.disks[0].table.work_in(self.now)
    }
}

fn disks() -> impl Strategy<Value = (DiskProfile, u64)> {
    let assumed = DiskProfile::spindle_default();
    let half = |seek: &SeekPoint| SeekPoint { time: Nanos(seek.time.0 / 2), ..*seek };
    let fast = DiskProfile { seeks: assumed.seeks.iter().map(half).collect(), ..assumed.clone() };
    prop_oneof![
        (Just(assumed), 50_000_000u64..90_000_000),
        (Just(fast), 85_000_000u64..180_000_000),
        (Just(DiskProfile::flash_default()), Just(300_000_000u64)),
    ]
}

fn rates() -> impl Strategy<Value = u64> {
    prop_oneof![100_000u64..60_000_000, 60_000_000u64..2_000_000_000, 2_000_000_000u64..900_000_000_000]
}

proptest! {
    #[test]
    fn admitted_and_grantable_rates_start(
        (profile, zone) in disks(),
        load in prop::collection::vec(prop_oneof![3 => 1_000_000u64..30_000_000, 1 => 30_000_000u64..200_000_000], 0..60),
        rate in rates(),
        burst_bytes in prop_oneof![Just(0u64), 0u64..8_000_000],
        pages in 2_000u64..20_000,
        be_share in 0.0..0.3,
        round in prop_oneof![3 => Just(1_000u64), 1 => Just(4_000), 1 => Just(8_000)],
        remaining in 0.0..1.0,
    ) {
        let round = Nanos::from_millis(if profile.rotational { round } else { 250 });
        let settings = AdmissionSettings { reservations_max: 100, pages, be_share, sharing_reserve: 0.1, first_byte_max: FIRST_BYTE_MAX };
        let links = [BitRate(1_000_000_000_000_000)];
        let admission = Admission::new(&settings, vec![(profile, round)], &links);
        let mut served = IdealDisk { admission, now: 0, behind: 0.0 };
        let request = |rate| AdmissionRequest {
            disk: DiskId(0),
            link: LinkId(0),
            rate: BitRate(rate),
            zone_bytes_per_second: zone,
            disk_share: 1.0,
            fragments_per_byte: 0.0,
            length: u64::MAX,
            content: RequestedContent::ALONE,
            written_every: None,
        };
        for rate in load {
            if let Ok(id) = served.admission.reserve(&[request(rate)])
                && !served.starts(id)
            {
                // The starts before it left more to do than a disk as full as this makes up for so soon.
                served.admission.release(id);
            }
        }
        for _ in 0..100 * SLOTS {
            served.pass_round(None);
        }
        let asked = request(rate);
        let id = match served.admission.reserve(&[asked]) {
            Ok(id) => id,
            Err(Refusal { grantable: BitRate(0), .. }) => return Ok(()),
            Err(Refusal { grantable, .. }) => {
                prop_assert!(grantable < asked.rate);
                let granted = served.admission.reserve(&[AdmissionRequest { rate: grantable, ..asked }]);
                prop_assert!(granted.is_ok(), "{grantable} was said to be grantable: {granted:?}");
                granted.expect("checked")
            }
        };
        served.admission.grant_burst(id, burst_bytes);
        prop_assert!(served.forecasts(id, remaining), "admitted, and refused where no stream waits");
        prop_assert!(served.starts(id), "admitted, and never starts");
    }
}
