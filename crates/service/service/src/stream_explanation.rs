//! The reasons for a stream's rate, its place among others, and its delay.
//!
//! Promise: reading them costs the data plane nothing. Not here: the figures of all streams (`figures`), the rules (`rate`, `session`).

use api::{HeldUpBy, RateOrigin, Stream, StreamExplanation, StreamFact, StreamPlace};
use units::{BitRate, StreamId, real};

use crate::access::{Permit, ToObserve};
use crate::figures::{described_stream, is_paced, sees_names};
use crate::media_service::MediaService;
use crate::running::RunningStream;

/// Explains a stream; none: it does not run.
#[must_use]
pub fn explain(service: &MediaService, id: StreamId, permit: &Permit<ToObserve>) -> Option<StreamExplanation> {
    let running = service.running.lock();
    let known = running.get(&id)?;
    let gauges = service.gauges.find(id);
    let accounts = service.sessions.read(|sessions| sessions.accounts());
    let is_named = sees_names(permit, known);
    let stream = described_stream((id, known), gauges, accounts.get(&id), is_named);
    let paced = |(id, other): &(&StreamId, &RunningStream)| {
        other.disk == known.disk && other.incoming.is_none() && is_paced(other, service.gauges.find(**id))
    };
    let of_disk = || running.iter().filter(paced);
    let place = of_disk().any(|(other, _)| *other == id).then(|| StreamPlace {
        place: of_disk().filter(|(other, _)| other.0 <= id.0).count() as u64,
        of: of_disk().count() as u64,
    });
    let waits = known.incoming.is_none() && gauges.is_none();
    let slowdown = service.gauges.disks.get(usize::from(known.disk.0)).map_or(0, |disk| disk.slowdown_ppm.get());
    let facts = [
        waits.then_some(StreamFact::Waits),
        Some(rate_fact(known, &stream)),
        place.map(StreamFact::Placed),
        Some(delay_fact(&stream, real(slowdown) / 1e6)),
    ];
    let facts: Vec<StreamFact> = facts.into_iter().flatten().collect();
    let budgets = known.charged.iter().filter(|_| is_named).map(ToString::to_string).collect();
    Some(StreamExplanation {
        rate_from: known.rate_from,
        place,
        budgets,
        reasons: facts.iter().map(sentence).collect(),
        facts,
        stream,
    })
}

fn rate_fact(known: &RunningStream, stream: &Stream) -> StreamFact {
    let from = known.rate_from;
    match (known.rate, known.passed_to) {
        _ if from == RateOrigin::LeftOver => StreamFact::NoRate,
        (None, _) => StreamFact::NoRoom { from },
        (Some(rate), Some(newer)) => StreamFact::PassedOn { rate_bps: rate.0, to: newer.0 },
        (Some(rate), None) if stream.class == api::Class::BestEffort => StreamFact::Lost { rate_bps: rate.0 },
        (Some(rate), None) => StreamFact::Reserved { rate_bps: rate.0, from },
    }
}

fn delay_fact(stream: &Stream, slowdown: f64) -> StreamFact {
    match stream.held_up_by {
        Some(HeldUpBy::Client) => StreamFact::ClientHolds,
        Some(HeldUpBy::Disk) => StreamFact::DiskHolds { slowdown },
        None if stream.over_rate => StreamFact::Ahead,
        None => StreamFact::OnTime { misses: stream.misses },
    }
}

/// A fact in English.
fn sentence(fact: &StreamFact) -> String {
    let origin = |from| match from {
        RateOrigin::Request => "the request, or its link, names it",
        RateOrigin::Content => "the content needs it",
        RateOrigin::Path => "the settings name it for this path",
        RateOrigin::LeftOver => "nothing names it",
    };
    match *fact {
        StreamFact::Waits => "It waits for its admission.".to_owned(),
        StreamFact::NoRate => "It has no rate: it gets what the streams with a rate leave.".to_owned(),
        StreamFact::NoRoom { from } => format!(
            "There was no room at its rate ({}), and its path is configured for best effort then.",
            origin(from)
        ),
        StreamFact::PassedOn { rate_bps, to } => {
            format!("Stream {to} of its viewer took its {} over; it gets what is left.", BitRate(rate_bps))
        }
        StreamFact::Lost { rate_bps } => format!(
            "It has lost its {}, since its client took nothing or its disk was too slow; it gets them again once it is read and there is room.",
            BitRate(rate_bps)
        ),
        StreamFact::Reserved { rate_bps, from } => {
            format!("{} are reserved for it: {}.", BitRate(rate_bps), origin(from))
        }
        StreamFact::Placed(StreamPlace { place, of }) => format!(
            "By age it is stream {place} of {of} with a rate on its disk; if that becomes too slow for all, the youngest end."
        ),
        StreamFact::ClientHolds => "Its client holds it up: it takes nothing.".to_owned(),
        StreamFact::DiskHolds { slowdown } => format!(
            "Its disk holds it up: bytes are due that have not been read; the disk takes {slowdown:.2} times the time of its profile."
        ),
        StreamFact::Ahead => "Nothing holds it up; its sender was ahead of its rate.".to_owned(),
        StreamFact::OnTime { misses } => format!("Nothing holds it up; {misses} of its ticks were late."),
    }
}
