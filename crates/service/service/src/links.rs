//! Network links as they are now: rates, and the parts of them that are promised.
//!
//! Not here: which link an address belongs to (`config`).

use api::LinkStatus;
use schedule::admission::WIRE_OVERHEAD;
use units::{BitRate, LinkId, real};

use crate::config::LinkFigure;
use crate::media_service::MediaService;

/// All of them.
pub(crate) fn links(service: &MediaService) -> Vec<LinkStatus> {
    service.config().link_figures.iter().filter_map(|figure| status(service, figure)).collect()
}

/// The link of this number.
pub(crate) fn link(service: &MediaService, id: LinkId) -> Option<LinkStatus> {
    let config = service.config();
    config.link_figures.iter().find(|figure| figure.id == id).and_then(|figure| status(service, figure))
}

fn status(service: &MediaService, figure: &LinkFigure) -> Option<LinkStatus> {
    let LinkFigure { name, id, direction, capacity } = figure;
    let gauges = service.gauges.links.get(usize::from(id.0))?;
    let promised_bps = capacity.0.saturating_sub(gauges.left_bps.get());
    Some(LinkStatus { name: name.clone(), direction: *direction, capacity_bps: capacity.0, promised_bps })
}

/// The payload that a link of this capacity carries.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and far below 2^53")]
pub(crate) fn payload(capacity: BitRate) -> u64 {
    (real(capacity.0) / WIRE_OVERHEAD) as u64
}
