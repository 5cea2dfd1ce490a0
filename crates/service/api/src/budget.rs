//! A budget, as it is shown.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A budget and the part of it in use (`GET /api/v1/budgets`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BudgetStatus {
    /// Its holder: `user:NAME`, `group:NAME`, `token:ID`, `link:ID` or `address:ADDRESS`.
    pub budget: String,
    /// Its limits; null: no limits.
    pub limits: BudgetAmounts,
    /// The amounts in use; null: not counted.
    pub used: BudgetAmounts,
}

/// Amounts of a budget: its limits (`PUT /api/v1/budgets/{holder}`), or the parts in use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BudgetAmounts {
    /// Streams and recordings at once.
    pub streams: Option<u64>,
    /// Bits per second reserved at once.
    pub reserved_bps: Option<u64>,
    /// Of these, those that no client reads.
    pub idle_bps: Option<u64>,
    /// Bits per second sent.
    pub download_bps: Option<u64>,
    /// Bits per second received.
    pub upload_bps: Option<u64>,
    /// Requests per second.
    pub requests: Option<u64>,
    /// Bytes stored.
    pub stored_bytes: Option<u64>,
}
