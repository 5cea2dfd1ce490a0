//! Requests for streams, as sessions see them: by which viewer, for which part of a content, and on which terms.

use std::net::IpAddr;

use dataplane::control::Resource;
use units::{BitRate, DiskId, LinkId, ReservationId, StreamId};

use crate::budgets::{BudgetKey, BudgetRefusal, ChargedBudgets};

/// The receiver of streams; its reads share reservations.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Viewer {
    /// A viewer with a name, which its protocol carries. The name is good only for the account, link or address that began it, because
    /// names are guessed, and are seen in logs and links.
    Named {
        /// The name.
        name: String,
        /// The budget of its sessions ([`ChargedBudgets::owner`]).
        owner: BudgetKey,
    },
    /// A viewer without a name: its address and program stand for it.
    Unnamed {
        /// The budget of its sessions.
        owner: BudgetKey,
        /// Its address.
        address: IpAddr,
        /// Hash of the program's name.
        agent: u64,
    },
}

impl Viewer {
    /// The viewer of this name, for requests that are charged to these budgets.
    #[must_use]
    pub fn named(name: String, charged: &ChargedBudgets) -> Self {
        Self::Named { name, owner: charged.owner().clone() }
    }

    /// A viewer without a name, of the program with this hash at `address`.
    #[must_use]
    pub fn unnamed(address: IpAddr, agent: u64, charged: &ChargedBudgets) -> Self {
        Self::Unnamed { owner: charged.owner().clone(), address, agent }
    }
}

/// A request for a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRequest {
    /// The viewer.
    pub viewer: Viewer,
    /// The budgets that it is charged to.
    pub charged: ChargedBudgets,
    /// Its number.
    pub stream: StreamId,
    /// Hash of the content's path.
    pub content: u64,
    /// The part that it reads.
    pub part: ContentPart,
    /// Its terms.
    pub terms: ReservationTerms,
    /// True for a read small enough to be the sound of pictures: it takes no reservation of a higher rate.
    pub is_small: bool,
    /// It was refused: it takes any reservation that its viewer has.
    pub no_room: bool,
}

/// The part of a content that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentPart {
    /// All of it, without a range, at a rate that the request names: nothing that a player does by itself.
    Download,
    /// All of it, without a range: a player that opens it, or a download.
    Whole,
    /// A range from the start.
    FromStart,
    /// A range from elsewhere: a seek, or the index.
    Elsewhere,
}

/// The terms on which a reservation was requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReservationTerms {
    /// The disk.
    pub disk: DiskId,
    /// The link.
    pub link: LinkId,
    /// The rate.
    pub rate: BitRate,
    /// The request named the rate; else it is what the content needs.
    pub is_named: bool,
}

impl ReservationTerms {
    /// The part that the reservation has of a resource: a place in the table, or else by its rate.
    pub(crate) fn weight(&self, of: Resource) -> u64 {
        match of {
            Resource::Network(link) if link.0 != self.link.0 => 0,
            Resource::Table => 1,
            _ => self.rate.0,
        }
    }

    /// True if a read may use the reservation made for the other.
    pub(crate) fn fit(&self, other: &Self) -> bool {
        (self.disk, self.link, self.rate) == (other.disk, other.link, other.rate)
    }
}

/// Source of the reservation of a request for a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReservationSource {
    /// Ask for a new reservation.
    New,
    /// Use this one.
    Take(ReservationId),
    /// Use this one, which the stream loses if the request is admitted.
    TakeFrom(ReservationId, StreamId),
    /// Nothing: a budget does not admit it.
    Refused(BudgetRefusal),
    /// Ask again when this stream, which it takes over from, has started or ended.
    After(StreamId),
}

/// Place in its content at which a read ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopPoint {
    /// Before the end: its viewer seeks or pauses.
    Midway,
    /// At the end.
    AtEnd,
}
