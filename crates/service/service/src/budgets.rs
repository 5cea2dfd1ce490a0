//! Budgets: limits of the server's resources that each account, group, token, signed link and address may use at once.
//!
//! Every request is charged to budgets ([`ChargedBudgets`]): to the budget of its address, or to those of its account, the
//! account's groups and its token; a signed link's budget is charged in addition to the address's. A request that would exceed
//! a limit is refused. The limit of idle reservations (held, but not read at present) is the exception: idle reservations
//! beyond it stay until another request needs their resource, and then yield, the oldest first.
//!
//! An address may keep idle reservations of a tenth of the short resource's promised amount ([`ADDRESS_IDLE_PART`]), and
//! [`ADDRESS_IDLE_STREAMS`] reservations in any case. The promised amount stands for the capacity, since a short resource is
//! promised up to its capacity.
//!
//! Promise: pure functions, none of which runs in the data plane. Not here: the amounts in use (`session`, `budget_use`), the
//! limits that commands set (the crate `accounts`).

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use units::{BitRate, ByteCount, Nanos, ReservationId, StreamId};

use crate::shares::{NETWORK_BITS, network};

/// An address may keep idle reservations of the promised amount divided by this.
pub const ADDRESS_IDLE_PART: u64 = 10;
/// Idle reservations that an address may keep in any case.
pub const ADDRESS_IDLE_STREAMS: u64 = 4;

/// The holder of a budget.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum BudgetKey {
    /// An IPv4 address, or the /64 of an IPv6 address.
    Address(IpAddr),
    /// A trusted proxy that does not name its client, or the server itself: without a budget.
    Proxy(IpAddr),
    /// The account of this name.
    Account(Arc<str>),
    /// The group of this name.
    Group(Arc<str>),
    /// The token of this number.
    Token(i64),
    /// The signed link of this number.
    Link(i64),
}

impl BudgetKey {
    /// The budget of a client at `address`.
    #[must_use]
    pub fn of_address(address: IpAddr) -> Self {
        Self::Address(network(address, NETWORK_BITS))
    }
}

/// The key as it is written in settings, commands and refusals.
impl fmt::Display for BudgetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address @ IpAddr::V4(_)) | Self::Proxy(address) => write!(f, "address:{address}"),
            Self::Address(address) => write!(f, "address:{address}/{NETWORK_BITS}"),
            Self::Account(name) => write!(f, "user:{name}"),
            Self::Group(name) => write!(f, "group:{name}"),
            Self::Token(id) => write!(f, "token:{id}"),
            Self::Link(id) => write!(f, "link:{id}"),
        }
    }
}

impl From<BudgetKey> for String {
    fn from(key: BudgetKey) -> Self {
        key.to_string()
    }
}

impl TryFrom<String> for BudgetKey {
    type Error = UnknownBudget;

    fn try_from(text: String) -> Result<Self, UnknownBudget> {
        text.parse()
    }
}

impl FromStr for BudgetKey {
    type Err = UnknownBudget;

    fn from_str(text: &str) -> Result<Self, UnknownBudget> {
        let unknown = || UnknownBudget(text.to_owned());
        let id = |id: &str| id.parse::<i64>().ok().filter(|id| *id > 0).ok_or_else(unknown);
        let address = |text: &str| text.split('/').next().unwrap_or(text).parse().map_err(|_| unknown());
        Ok(match text.split_once(':') {
            Some(("address", network)) => Self::of_address(address(network)?),
            Some(("user", name)) if !name.is_empty() => Self::Account(name.into()),
            Some(("group", name)) if !name.is_empty() => Self::Group(name.into()),
            Some(("token", number)) => Self::Token(id(number)?),
            Some(("link", number)) => Self::Link(id(number)?),
            _ => return Err(unknown()),
        })
    }
}

/// The budgets to which a request is charged, at least one. The first is the owner of the request's sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChargedBudgets(Arc<[BudgetKey]>);

impl ChargedBudgets {
    /// The budgets of these keys.
    ///
    /// # Panics
    /// If `keys` is empty.
    #[must_use]
    pub fn of(keys: &[BudgetKey]) -> Self {
        assert!(!keys.is_empty(), "each request has an address at least");
        Self(keys.into())
    }

    /// The budget that owns the request's sessions.
    #[must_use]
    pub fn owner(&self) -> &BudgetKey {
        &self.0[0]
    }

    /// True if the request was made without an account or a link.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.owner(), BudgetKey::Address(_) | BudgetKey::Proxy(_))
    }

    /// All budgets of the request.
    pub fn iter(&self) -> std::slice::Iter<'_, BudgetKey> {
        self.0.iter()
    }

    /// True if `key` is one of them.
    #[must_use]
    pub fn has(&self, key: &BudgetKey) -> bool {
        self.0.contains(key)
    }
}

/// The limits of a budget; `None`: no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BudgetLimits {
    /// Streams and recordings at once.
    pub streams: Option<u64>,
    /// Rate reserved at once, idle reservations included.
    pub reserved: Option<BitRate>,
    /// Rate of idle reservations; those beyond it yield to other requests. An address without this limit has the
    /// greater of four reservations and a tenth of all.
    pub idle: Option<BitRate>,
    /// Rate of all bytes sent.
    pub download: Option<BitRate>,
    /// Rate of all bytes received.
    pub upload: Option<BitRate>,
    /// Requests per second.
    pub requests: Option<u64>,
    /// Bytes stored.
    pub stored: Option<u64>,
}

impl BudgetLimits {
    /// These limits; where one is `None`, that of `other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            streams: self.streams.or(other.streams),
            reserved: self.reserved.or(other.reserved),
            idle: self.idle.or(other.idle),
            download: self.download.or(other.download),
            upload: self.upload.or(other.upload),
            requests: self.requests.or(other.requests),
            stored: self.stored.or(other.stored),
        }
    }

    /// True if there is no limit.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The budgets that a setting limits: that of one holder, or each of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum BudgetScope {
    /// Each address.
    EachAddress,
    /// Each account.
    EachAccount,
    /// Each token.
    EachToken,
    /// Each signed link.
    EachLink,
    /// One holder.
    One(BudgetKey),
}

/// The scope as it is written in settings.
impl fmt::Display for BudgetScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EachAddress => f.write_str("address"),
            Self::EachAccount => f.write_str("user"),
            Self::EachToken => f.write_str("token"),
            Self::EachLink => f.write_str("link"),
            Self::One(key) => key.fmt(f),
        }
    }
}

/// A text that names no budget.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no budget's holder; write `address`, `user`, `token`, `link`, `user:NAME`, `group:NAME`, `token:ID` or `link:ID`"
)]
pub struct UnknownBudget(String);

impl FromStr for BudgetScope {
    type Err = UnknownBudget;

    fn from_str(text: &str) -> Result<Self, UnknownBudget> {
        Ok(match text {
            "address" => Self::EachAddress,
            "user" => Self::EachAccount,
            "token" => Self::EachToken,
            "link" => Self::EachLink,
            _ => match text.parse()? {
                BudgetKey::Address(_) => return Err(UnknownBudget(text.to_owned())),
                key => Self::One(key),
            },
        })
    }
}

/// The limits that are set, of single holders and of kinds of holders.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BudgetRules {
    of_holders: HashMap<BudgetKey, BudgetLimits>,
    /// Without scopes of a single holder.
    of_kinds: HashMap<BudgetScope, BudgetLimits>,
}

impl BudgetRules {
    /// Rules with these limits.
    #[must_use]
    pub fn new(rules: impl IntoIterator<Item = (BudgetScope, BudgetLimits)>) -> Self {
        let mut all = Self::default();
        for (scope, limits) in rules {
            match scope {
                BudgetScope::One(key) => all.of_holders.insert(key, limits),
                kind => all.of_kinds.insert(kind, limits),
            };
        }
        all
    }

    /// The limits of a holder: its own; where it has none, those of its kind.
    #[must_use]
    pub fn limits(&self, key: &BudgetKey) -> BudgetLimits {
        let kind = match key {
            BudgetKey::Address(_) => Some(BudgetScope::EachAddress),
            BudgetKey::Account(_) => Some(BudgetScope::EachAccount),
            BudgetKey::Token(_) => Some(BudgetScope::EachToken),
            BudgetKey::Link(_) => Some(BudgetScope::EachLink),
            BudgetKey::Proxy(_) | BudgetKey::Group(_) => None,
        };
        let own = self.of_holders.get(key).copied().unwrap_or_default();
        own.or(kind.and_then(|kind| self.of_kinds.get(&kind).copied()).unwrap_or_default())
    }

    /// True if there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.of_holders.is_empty() && self.of_kinds.is_empty()
    }

    /// The holders with limits of their own.
    pub fn named(&self) -> impl Iterator<Item = &BudgetKey> {
        self.of_holders.keys()
    }
}

/// The limit that a request would exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BudgetLimit {
    /// Streams at once.
    Streams,
    /// Bits per second reserved.
    Reserved,
    /// Bits per second reserved by reads.
    Download,
    /// Bits per second reserved by recordings.
    Upload,
    /// Requests per second.
    Requests,
    /// Bytes stored.
    Stored,
}

impl fmt::Display for BudgetLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Streams => "streams",
            Self::Reserved => "reserved",
            Self::Download => "download",
            Self::Upload => "upload",
            Self::Requests => "requests",
            Self::Stored => "stored",
        })
    }
}

impl BudgetLimit {
    /// Text of an amount, with its unit.
    fn amount(self, number: u64) -> String {
        match self {
            Self::Streams | Self::Requests => number.to_string(),
            Self::Reserved | Self::Download | Self::Upload => BitRate(number).to_string(),
            Self::Stored => ByteCount(number).to_string(),
        }
    }
}

/// The refusal of a request by a budget.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the budget of {budget} is used up: {limit} {}, of which {} are used and {} more were asked for",
    limit.amount(*most), limit.amount(*used), limit.amount(*more)
)]
pub struct BudgetRefusal {
    /// The budget.
    pub budget: BudgetKey,
    /// The limit that the request would exceed.
    pub limit: BudgetLimit,
    /// Its value: streams, bits per second, requests per second, or bytes.
    pub most: u64,
    /// The amount in use.
    pub used: u64,
    /// The additional amount that the request needs.
    pub more: u64,
    /// The longest time until some of it becomes free, if known.
    pub frees_in: Option<Nanos>,
}

/// A reservation that its viewer holds and does not read: its last read has ended, or the client takes no bytes.
#[derive(Debug, Clone)]
pub struct IdleReservation {
    /// The reservation.
    pub id: IdleHolder,
    /// The budgets that it is charged to.
    pub charged: ChargedBudgets,
    /// Time since which it is not read.
    pub since: Nanos,
    /// The viewer has played with it for long enough to keep it while it is idle.
    pub is_firm: bool,
    /// Its rate.
    pub rate: BitRate,
    /// The amount that it holds of the short resource, in that resource's unit.
    pub weight: u64,
}

/// The holder of an idle reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdleHolder {
    /// A session.
    Session(ReservationId),
    /// A stream whose client takes no bytes.
    Stream(StreamId),
}

/// The idle reservations that yield to a request for `wanted` of a resource of which `promised` is promised in all. Candidates
/// are those that are not firm and those beyond a budget; of these the oldest yield, until the request fits.
#[must_use]
pub fn yielding(
    mut idle: Vec<IdleReservation>,
    (promised, wanted): (u64, u64),
    limits: &dyn Fn(&BudgetKey) -> BudgetLimits,
) -> Vec<IdleHolder> {
    idle.sort_unstable_by_key(|held| std::cmp::Reverse(held.since));
    let mut kept: HashMap<BudgetKey, HeldSum> = HashMap::new();
    idle.retain(|held| {
        let fits = |key: &BudgetKey| kept.get(key).copied().unwrap_or_default().with(held).fits(key, promised, limits);
        let is_kept = held.is_firm && held.charged.iter().all(fits);
        if is_kept {
            for key in held.charged.iter() {
                let sum = kept.entry(key.clone()).or_default();
                *sum = sum.with(held);
            }
        }
        !is_kept && held.weight > 0
    });
    let mut freed = 0u64;
    let oldest_first = idle.iter().rev();
    let needed = oldest_first.take_while(|held| {
        let goes = freed < wanted.max(1);
        freed = freed.saturating_add(held.weight);
        goes
    });
    needed.map(|held| held.id).collect()
}

/// The sum of the idle reservations of one budget.
#[derive(Debug, Clone, Copy, Default)]
struct HeldSum {
    count: u64,
    rate: u64,
    weight: u64,
}

impl HeldSum {
    const fn with(self, held: &IdleReservation) -> Self {
        Self {
            count: self.count + 1,
            rate: self.rate.saturating_add(held.rate.0),
            weight: self.weight.saturating_add(held.weight),
        }
    }

    fn fits(self, key: &BudgetKey, promised: u64, limits: &dyn Fn(&BudgetKey) -> BudgetLimits) -> bool {
        match (limits(key).idle, key) {
            (Some(most), _) => self.rate <= most.0,
            (None, BudgetKey::Address(_)) => {
                self.count <= ADDRESS_IDLE_STREAMS || self.weight.saturating_mul(ADDRESS_IDLE_PART) <= promised
            }
            (None, _) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> BudgetKey {
        BudgetKey::of_address(IpAddr::from([192, 0, 2, last]))
    }

    fn held(slot: u32, by: &[BudgetKey], is_firm: bool) -> IdleReservation {
        IdleReservation {
            id: IdleHolder::Stream(StreamId(slot.into())),
            charged: ChargedBudgets::of(by),
            since: Nanos::from_secs(slot.into()),
            is_firm,
            rate: BitRate(10),
            weight: 10,
        }
    }

    fn slots(idle: Vec<IdleReservation>, amounts: (u64, u64), limits: &dyn Fn(&BudgetKey) -> BudgetLimits) -> Vec<u64> {
        let slot = |holder| match holder {
            IdleHolder::Stream(stream) => stream.0,
            IdleHolder::Session(_) => panic!("none is given"),
        };
        yielding(idle, amounts, limits).into_iter().map(slot).collect()
    }

    const NONE: &dyn Fn(&BudgetKey) -> BudgetLimits = &|_| BudgetLimits {
        streams: None,
        reserved: None,
        idle: None,
        download: None,
        upload: None,
        requests: None,
        stored: None,
    };

    #[test]
    fn an_address_keeps_a_tenth_and_four_streams_at_least() {
        let of_one = |count: u32| (1..=count).map(|slot| held(slot, &[address(1)], true)).collect::<Vec<_>>();
        assert_eq!(slots(of_one(11), (110, 1000), NONE), [1, 2, 3, 4, 5, 6, 7], "the newest four are kept");
        assert_eq!(slots(of_one(11), (600, 1000), NONE), [1, 2, 3, 4, 5], "six are a tenth");
        assert_eq!(slots(of_one(11), (600, 15), NONE), [1, 2], "as many as are needed");
        let of_each = (1..=11).map(|slot| held(u32::from(slot), &[address(slot)], true)).collect();
        assert!(slots(of_each, (110, 1000), NONE).is_empty(), "each has its own budget");
        let proxy = BudgetKey::Proxy(IpAddr::from([10, 0, 0, 1]));
        let of_proxy = (1..=11).map(|slot| held(slot, std::slice::from_ref(&proxy), true)).collect();
        assert!(slots(of_proxy, (110, 1000), NONE).is_empty(), "a trusted proxy has none");
    }

    #[test]
    fn reservations_that_were_not_earned_yield_first_come_first() {
        let mut idle = vec![held(3, &[address(1)], false), held(1, &[address(2)], false), held(2, &[address(3)], true)];
        assert_eq!(slots(idle.clone(), (1000, 1000), NONE), [1, 3]);
        assert_eq!(slots(idle.clone(), (1000, 1), NONE), [1]);
        idle[1].weight = 0;
        assert_eq!(slots(idle, (1000, 1), NONE), [3], "it has nothing of the resource");
    }

    #[test]
    fn each_budget_of_a_request_counts() {
        let (ada, team) = (BudgetKey::Account("ada".into()), BudgetKey::Group("team".into()));
        let limits = |key: &BudgetKey| BudgetLimits {
            idle: (*key == BudgetKey::Group("team".into())).then_some(BitRate(20)),
            ..BudgetLimits::default()
        };
        let idle = (1..=6).map(|slot| held(slot, &[ada.clone(), team.clone()], true)).collect();
        assert_eq!(slots(idle, (60, 1000), &limits), [1, 2, 3, 4]);
    }

    #[test]
    fn limits_of_a_holder_come_before_those_of_its_kind() {
        let scope = |text: &str| text.parse::<BudgetScope>().expect("a scope");
        let streams = |most| BudgetLimits { streams: Some(most), ..BudgetLimits::default() };
        let rules = BudgetRules::new([
            (scope("user"), BudgetLimits { requests: Some(9), ..streams(2) }),
            (scope("user:ada"), streams(5)),
            (scope("address"), streams(7)),
            (scope("token:3"), streams(1)),
        ]);
        let of = |key: BudgetKey| (rules.limits(&key).streams, rules.limits(&key).requests);
        assert_eq!(of(BudgetKey::Account("ada".into())), (Some(5), Some(9)));
        assert_eq!(of(BudgetKey::Account("bob".into())), (Some(2), Some(9)));
        assert_eq!(of(address(1)), (Some(7), None));
        assert_eq!((of(BudgetKey::Token(3)), of(BudgetKey::Token(4))), ((Some(1), None), (None, None)));
        for text in ["", "users", "user:", "group", "token:x", "token:0", "token:-1", "address:1.2.3.4"] {
            assert!(text.parse::<BudgetScope>().is_err(), "{text}");
        }
        for key in [BudgetKey::Account("a:b".into()), BudgetKey::Group("x".into()), BudgetKey::Link(2)] {
            assert_eq!(key.to_string().parse(), Ok(BudgetScope::One(key)));
        }
    }
}
