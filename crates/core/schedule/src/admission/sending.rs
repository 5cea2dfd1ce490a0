//! The resources of sending: bits per second of each link, and busy time of the data-plane core.
//!
//! Promise: exact over any history; a link that became narrower, or a core that became busier, refuses until enough promises have ended. Not
//! here: disk time (`disk_table`), buffers (`buffers`).

use units::{BitRate, LinkId};

use super::{Resource, WIRE_OVERHEAD, f64_of};

/// Share of the core's time that may be promised. Chosen.
const PROCESSOR_SHARE_MAX: f64 = 0.9;
/// Below this load the core's cost per bit is not known well enough to refuse any stream. Chosen.
const PROCESSOR_SHARE_KNOWN: f64 = 0.5;

/// One link: its capacity on the wire, and the payload bits per second that are promised of it.
#[derive(Debug, Clone, Copy)]
struct LinkAccount {
    capacity: BitRate,
    reserved: u64,
}

/// The promises of sending.
#[derive(Debug)]
pub struct Sending {
    links: Vec<LinkAccount>,
    /// Promised bits per second in all.
    promised: u64,
    processor_share: f64,
    /// The sum of promised rates when that was measured.
    processor_promised: u64,
}

impl Sending {
    /// Nothing promised. Links have the given capacities, in payload bits per second on the wire.
    pub(super) fn new(links: &[BitRate]) -> Self {
        let links = links.iter().map(|&capacity| LinkAccount { capacity, reserved: 0 }).collect();
        Self { links, promised: 0, processor_share: 0.0, processor_promised: 0 }
    }

    /// The resource that is short for a further stream.
    pub(super) fn check(&self, link: LinkId, rate: BitRate) -> Result<(), Resource> {
        let account = &self.links[usize::from(link.0)];
        if wire(account.reserved + rate.0) > account.capacity.0 {
            return Err(Resource::Network(link));
        }
        if self.processor_share > PROCESSOR_SHARE_KNOWN && self.processor_promised > 0 {
            // The cost per bit is that of the bits that were promised when the load was measured. Were it divided by the
            // promises of now, each stream that leaves would make all others dearer until the next measurement, and a
            // stream that fits would be refused.
            let per_bit = self.processor_share / f64_of(self.processor_promised);
            if per_bit * f64_of(self.promised + rate.0) > PROCESSOR_SHARE_MAX {
                return Err(Resource::Processor);
            }
        }
        Ok(())
    }

    pub(super) fn promise(&mut self, link: LinkId, rate: BitRate) {
        self.links[usize::from(link.0)].reserved += rate.0;
        self.promised += rate.0;
        debug_assert!(self.links_are_summed(), "the processor sends what all links together carry");
    }

    /// Takes back what [`Self::promise`] gave.
    pub(super) fn withdraw(&mut self, link: LinkId, rate: BitRate) {
        self.links[usize::from(link.0)].reserved -= rate.0;
        self.promised -= rate.0;
        debug_assert!(self.links_are_summed(), "the processor sends what all links together carry");
    }

    fn links_are_summed(&self) -> bool {
        self.promised == self.links.iter().map(|link| link.reserved).sum::<u64>()
    }

    /// Promised bits per second in all.
    #[must_use]
    pub const fn promised(&self) -> BitRate {
        BitRate(self.promised)
    }

    /// Bits per second of a link that are not promised.
    #[must_use]
    pub fn left(&self, link: LinkId) -> BitRate {
        let link = &self.links[usize::from(link.0)];
        BitRate(link.capacity.0.saturating_sub(wire(link.reserved)))
    }

    /// Payload bits per second that a link carries in all.
    #[must_use]
    pub fn payload(&self, link: LinkId) -> BitRate {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and far below 2^53")]
        let payload = (f64_of(self.links[usize::from(link.0)].capacity.0) / WIRE_OVERHEAD) as u64;
        BitRate(payload)
    }

    /// Sets the capacity of a link from now on. Promises stay. Unknown links are ignored.
    pub fn set_link(&mut self, link: LinkId, capacity: BitRate) {
        if let Some(link) = self.links.get_mut(usize::from(link.0)) {
            link.capacity = capacity;
        }
    }

    /// The share of its time the data-plane core is busy, 0.0 … 1.0.
    pub const fn set_processor_share(&mut self, share: f64) {
        debug_assert!(share.is_finite() && share >= 0.0, "a cost per bit follows from it");
        (self.processor_share, self.processor_promised) = (share, self.promised);
    }
}

pub(super) fn wire(payload: u64) -> u64 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and far below 2^53")]
    let bits = (f64_of(payload) * WIRE_OVERHEAD) as u64;
    bits
}
