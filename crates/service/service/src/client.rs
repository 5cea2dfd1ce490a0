//! The client of a request: the two ends of its connection, and its name in the event log.

use std::net::IpAddr;

use crate::budgets::BudgetKey;

/// The two ends of a client's connection.
#[derive(Debug, Clone, Copy)]
pub struct Client {
    /// Where the client is.
    pub address: IpAddr,
    /// The address it has reached us at, which tells the link.
    pub local: IpAddr,
    /// It is a trusted proxy that speaks for a client it does not name, or the server itself: it has no budget.
    pub is_proxy: bool,
}

impl Client {
    /// The budget of its address.
    pub(crate) fn budget(self) -> BudgetKey {
        if self.is_proxy { BudgetKey::Proxy(self.address) } else { BudgetKey::of_address(self.address) }
    }
}

/// The client behind a request, for the event log.
#[derive(Debug, Clone, Copy)]
pub struct Requester<'a> {
    /// The client's address.
    pub address: IpAddr,
    /// The user's name, or the number of the signed link (`link:7`); none: no login was needed.
    pub user: Option<&'a str>,
}
