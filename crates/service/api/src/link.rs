//! Wire type of a network link.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One direction of a network interface, or both where they share its rate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LinkStatus {
    /// Name of the interface.
    pub name: String,
    /// Its direction.
    #[serde(default)]
    pub direction: LinkDirection,
    /// Its capacity.
    pub capacity_bps: u64,
    /// The promised part of the capacity.
    pub promised_bps: u64,
}

/// Direction of a network link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LinkDirection {
    /// Streams leave by it.
    #[default]
    Out,
    /// Recordings arrive by it.
    In,
    /// Both directions share one rate.
    Both,
}
