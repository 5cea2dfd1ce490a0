//! The reasons for a stream's rate, its place among others, and its delay.
//!
//! Promise: reading them costs the data plane nothing. Not here: the figures of all streams (`figures`), the rules (`rate`, `session`).

use api::{HeldUpBy, RateOrigin, Stream, StreamExplanation, StreamPlace};
use units::{StreamId, real};

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
    let accounts = service.session_accounts();
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
    let reasons = [
        waits.then(|| "It waits for its admission.".to_owned()),
        Some(rate_reason(known, &stream)),
        place.map(|StreamPlace { place, of }| {
            format!("By age it is stream {place} of {of} with a rate on its disk; if that becomes too slow for all, the youngest end.")
        }),
        Some(delay_reason(&stream, real(slowdown) / 1e6)),
    ];
    let budgets = known.charged.iter().filter(|_| is_named).map(ToString::to_string).collect();
    Some(StreamExplanation {
        rate_from: known.rate_from,
        place,
        budgets,
        reasons: reasons.into_iter().flatten().collect(),
        stream,
    })
}

fn rate_reason(known: &RunningStream, stream: &Stream) -> String {
    let origin = match known.rate_from {
        RateOrigin::Request => "the request, or its link, names it",
        RateOrigin::Content => "the content needs it",
        RateOrigin::Path => "the settings name it for this path",
        RateOrigin::LeftOver => return "It has no rate: it gets what the streams with a rate leave.".to_owned(),
    };
    match (known.rate, known.passed_to) {
        (None, _) => {
            format!("There was no room at its rate ({origin}), and its path is configured for best effort then.")
        }
        (Some(rate), Some(newer)) => {
            format!("Stream {} of its viewer took its {rate} over; it gets what is left.", newer.0)
        }
        (Some(rate), None) if stream.class == api::Class::BestEffort => format!(
            "It has lost its {rate}, since its client took nothing or its disk was too slow; it gets them again once it is read and there is room."
        ),
        (Some(rate), None) => format!("{rate} are reserved for it: {origin}."),
    }
}

fn delay_reason(stream: &Stream, slowdown: f64) -> String {
    match stream.held_up_by {
        Some(HeldUpBy::Client) => "Its client holds it up: it takes nothing.".to_owned(),
        Some(HeldUpBy::Disk) => format!(
            "Its disk holds it up: bytes are due that have not been read; the disk takes {slowdown:.2} times the time of its profile."
        ),
        None if stream.over_rate => "Nothing holds it up; its sender was ahead of its rate.".to_owned(),
        None => format!("Nothing holds it up; {} of its ticks were late.", stream.misses),
    }
}
