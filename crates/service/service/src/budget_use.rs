//! Budgets in use: whether a request passes them, how long bytes wait for them, and their figures.
//!
//! Promise: what waits is best effort and uploads alone; streams and recordings with a rate are admitted within the budget of their direction,
//! and best effort has what they leave of it, as have the bytes that streams are sent ahead of their rate. A budget without a limit costs a request nothing but the look. Not here: the limits
//! (`budgets`), reservations (`session`).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::{BudgetAmounts, BudgetStatus};
use units::{BitRate, Nanos};

use crate::access::{Denied, Permit, Principal, RightKind, ToSeeBudgets, permit_budgets};
use crate::account_changes::{AccountChange, ChangeError};
use crate::accounts::BudgetsInForce;
use crate::budget_meter::Metered;
use crate::budgets::{BudgetKey, BudgetLimit, BudgetLimits, BudgetRefusal, ChargedBudgets};
use crate::client::Client;
use crate::media_service::MediaService;

/// Best effort has one part in this number of a rate in any case.
const REST_PART: u64 = 64;

/// Counts a request of `client` with this permit towards its budgets.
///
/// # Errors
/// One of them has had as many within the last second as it may.
pub fn count_request<R: RightKind>(
    service: &MediaService,
    permit: &Permit<R>,
    client: Client,
) -> Result<(), BudgetRefusal> {
    let Some(budgets) = service.accounts.budgets() else { return Ok(()) };
    let charged = service.charged(permit, client);
    let most = |key| budgets.limits(key).requests;
    let cost = |most| Duration::from_secs(1) / u32::try_from(most).unwrap_or(u32::MAX).max(1);
    let costs: Vec<_> = charged.iter().filter_map(|key| Some((key, cost(most(key)?)))).collect();
    service.meters.pass_now(Metered::Requests, &costs, Instant::now()).map_err(|(key, wait)| {
        let (limit, most) = (BudgetLimit::Requests, most(key).unwrap_or_default());
        BudgetRefusal { budget: key.clone(), limit, most, used: most, more: 1, frees_in: Some(Nanos::from(wait)) }
    })
}

/// True if bytes of best effort in this direction wait for a budget.
pub(crate) fn is_metered(service: &MediaService, charged: &ChargedBudgets, metered: Metered) -> bool {
    let budgets = service.accounts.budgets();
    let is_limited = |key| budgets.as_ref().is_some_and(|budgets| rate_of(budgets.limits(key), metered).is_some());
    charged.iter().any(|key| link_rate(service, key, metered).is_some() || is_limited(key))
}

/// Waits until bytes of best effort may pass.
pub(crate) async fn wait_for(service: &MediaService, charged: &ChargedBudgets, metered: Metered, bytes: u64) {
    let wait = charge(service, charged, metered, bytes);
    if !wait.is_zero() {
        tokio::time::sleep(wait).await;
    }
}

/// The bytes that a stream is sent ahead of its rate: all of `bytes`, or none where its budgets have no room for them now.
pub(crate) fn ahead(service: &MediaService, charged: &ChargedBudgets, bytes: u64) -> u64 {
    let Some(budgets) = service.accounts.budgets() else { return bytes };
    let cost = |key| Some((key, cost_of(left_rate(service, &budgets, key, Metered::Download)?, bytes)));
    let costs: Vec<_> = charged.iter().filter_map(cost).collect();
    let passed = service.meters.pass_now(Metered::Download, &costs, Instant::now());
    if passed.is_ok() { bytes } else { 0 }
}

/// Charges bytes of best effort to their budgets. Returns the time until they may pass.
fn charge(service: &MediaService, charged: &ChargedBudgets, metered: Metered, bytes: u64) -> Duration {
    let (budgets, now) = (service.accounts.budgets(), Instant::now());
    let waits = charged.iter().filter_map(|key| {
        let left = budgets.as_ref().and_then(|budgets| left_rate(service, budgets, key, metered));
        // Of a link, the rate of one of its streams at most.
        let rate = link_rate(service, key, metered).into_iter().chain(left).min()?;
        Some(service.meters.pass(key, metered, cost_of(rate, bytes), now))
    });
    waits.max().unwrap_or_default()
}

/// The rate that the promised ones leave of a budget.
fn left_rate(service: &MediaService, budgets: &BudgetsInForce, key: &BudgetKey, metered: Metered) -> Option<BitRate> {
    let most = rate_of(budgets.limits(key), metered)?;
    let (out, into) = service.sessions.read(|sessions| sessions.promised_by(key));
    let promised = if metered == Metered::Download { out } else { into };
    Some(BitRate(most.0.saturating_sub(promised).max(most.0 / REST_PART).max(1)))
}

fn link_rate(service: &MediaService, key: &BudgetKey, metered: Metered) -> Option<BitRate> {
    service.accounts.link_rate(key).filter(|_| metered == Metered::Download)
}

fn cost_of(rate: BitRate, bytes: u64) -> Duration {
    Duration::from_nanos(rate.time_for(bytes).0)
}

const fn rate_of(limits: BudgetLimits, metered: Metered) -> Option<BitRate> {
    match metered {
        Metered::Download => limits.download,
        Metered::Upload => limits.upload,
        Metered::Requests => None,
    }
}

/// Bytes that an upload takes ahead where it has told no length, or sends more.
const CLAIM_STEP: u64 = 8 * 1024 * 1024;

/// Bytes that an upload has taken of what its budgets may store; given back when this is dropped, unless they are stored.
pub(crate) struct StoredClaim {
    service: Arc<MediaService>,
    budgets: Vec<(BudgetKey, u64)>,
    /// Bytes taken.
    bytes: u64,
    /// Bytes of the content that it replaces.
    replaced: u64,
    /// Bytes that are stored, once they are.
    stored: Option<u64>,
}

impl StoredClaim {
    /// Takes room for an upload in place of `replaced` bytes: for its `length`, if it tells one.
    pub(crate) async fn take(
        service: &Arc<MediaService>,
        charged: &ChargedBudgets,
        length: Option<u64>,
        replaced: u64,
    ) -> Result<Self, ChangeError> {
        let budgets = stored_limits(service, charged.iter());
        let mut claim = Self { service: Arc::clone(service), budgets, bytes: 0, replaced, stored: None };
        claim.grow(length.unwrap_or(0)).await?;
        Ok(claim)
    }

    /// Takes room for the first `bytes` of the upload, before they are stored: a step ahead, where the budgets have room for that.
    pub(crate) async fn cover(&mut self, bytes: u64) -> Result<(), ChangeError> {
        let missing = bytes.saturating_sub(self.bytes);
        if missing == 0 {
            return Ok(());
        }
        match self.grow(missing.max(CLAIM_STEP)).await {
            Err(_) if missing < CLAIM_STEP => self.grow(missing).await,
            grown => grown,
        }
    }

    /// What is replaced stays until the upload is stored, so it makes no room.
    async fn grow(&mut self, bytes: u64) -> Result<(), ChangeError> {
        if bytes > 0 && !self.budgets.is_empty() {
            let change = AccountChange::Store { budgets: self.budgets.clone(), bytes: signed(bytes) };
            self.service.account_store.change(change).await?;
        }
        self.bytes += bytes;
        Ok(())
    }

    /// The upload is stored, with this number of bytes.
    pub(crate) fn stored(mut self, bytes: u64) {
        self.stored = Some(bytes);
    }
}

impl Drop for StoredClaim {
    fn drop(&mut self) {
        let bytes = self.stored.map_or(self.bytes, |stored| self.bytes.saturating_sub(stored) + self.replaced);
        if bytes > 0 && !self.budgets.is_empty() {
            give_back(&self.service, std::mem::take(&mut self.budgets), bytes);
        }
    }
}

/// Gives back room for bytes that are stored no more. Where that cannot be kept now, the budget stores that much less.
fn give_back(service: &Arc<MediaService>, budgets: Vec<(BudgetKey, u64)>, bytes: u64) {
    let store = Arc::clone(&service.account_store);
    let change = AccountChange::Store { budgets, bytes: -signed(bytes) };
    service.runtime.spawn(async move { drop(store.change(change).await) });
}

/// Contents or parts of uploads, of `bytes` in all, were removed for a holder that is charged to these budgets.
pub(crate) fn removed<'a>(service: &Arc<MediaService>, charged: impl Iterator<Item = &'a BudgetKey>, bytes: u64) {
    let budgets = stored_limits(service, charged);
    if !budgets.is_empty() && bytes > 0 {
        give_back(service, budgets, bytes);
    }
}

/// The budgets that limit stored bytes, with their limits.
fn stored_limits<'a>(service: &MediaService, charged: impl Iterator<Item = &'a BudgetKey>) -> Vec<(BudgetKey, u64)> {
    let Some(budgets) = service.accounts.budgets() else { return Vec::new() };
    charged.filter_map(|key| Some((key.clone(), budgets.limits(key).stored?))).collect()
}

/// True if what is stored counts towards a budget of these.
pub(crate) fn counts_stored(service: &MediaService, charged: &ChargedBudgets) -> bool {
    !stored_limits(service, charged.iter()).is_empty()
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// Whether `principal` may see budgets.
///
/// # Errors
/// Why not.
pub fn permit(service: &MediaService, principal: &Principal) -> Result<Permit<ToSeeBudgets>, Denied> {
    permit_budgets(&service.accounts, principal)
}

/// The budgets that have limits of their own or are in use, with both. Of a permit that sees no others, those that `client` is charged to.
///
/// # Errors
/// The store of accounts does not answer.
pub async fn budgets(
    service: &MediaService,
    permit: &Permit<ToSeeBudgets>,
    client: Client,
) -> Result<Vec<BudgetStatus>, ChangeError> {
    let stored = service.account_store.stored().await?;
    let budgets = service.accounts.budgets();
    let mut keys: Vec<BudgetKey> = budgets.iter().flat_map(BudgetsInForce::limited).cloned().collect();
    keys.extend(service.sessions.read(|sessions| sessions.budgets()));
    keys.extend(service.running.budgets());
    keys.extend(stored.keys().filter_map(|text| text.parse().ok()));
    let limits = |key| budgets.as_ref().map_or_else(BudgetLimits::default, |budgets| budgets.limits(key));
    let own = permit.charged(&service.accounts, client);
    keys.retain(|key| permit.sees_others() || own.has(key));
    let mut all: Vec<BudgetStatus> = keys.iter().map(|key| status(service, (key, limits(key)), &stored)).collect();
    all.sort_by(|one, other| one.budget.cmp(&other.budget));
    all.dedup_by(|one, other| one.budget == other.budget);
    Ok(all)
}

fn status(
    service: &MediaService,
    (key, limits): (&BudgetKey, BudgetLimits),
    stored: &HashMap<String, u64>,
) -> BudgetStatus {
    let (reserved, idle) = service.sessions.read(|sessions| (sessions.reserved_by(key), sessions.idle_by(key)));
    let now = Instant::now();
    let used_part = |metered, most: u64| {
        let ahead = service.meters.ahead(key, metered, now).min(Duration::from_secs(1));
        u64::try_from(u128::from(most) * ahead.as_nanos() / 1_000_000_000).unwrap_or(most)
    };
    let bits = |rate: Option<BitRate>| rate.map(|rate| rate.0);
    let text = key.to_string();
    BudgetStatus {
        limits: BudgetAmounts {
            streams: limits.streams,
            reserved_bps: bits(limits.reserved),
            idle_bps: bits(limits.idle),
            download_bps: bits(limits.download),
            upload_bps: bits(limits.upload),
            requests: limits.requests,
            stored_bytes: limits.stored,
        },
        used: BudgetAmounts {
            streams: Some(service.running.charged_to(key)),
            reserved_bps: Some(reserved),
            idle_bps: Some(idle),
            download_bps: limits.download.map(|most| used_part(Metered::Download, most.0)),
            upload_bps: limits.upload.map(|most| used_part(Metered::Upload, most.0)),
            requests: limits.requests.map(|most| used_part(Metered::Requests, most)),
            stored_bytes: stored.get(&text).copied(),
        },
        budget: text,
    }
}
