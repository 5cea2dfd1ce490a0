//! A certificate that serves TLS, as it is shown.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A certificate that serves TLS.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CertificateStatus {
    /// Its file.
    pub file: String,
    /// Names of hosts that it is for.
    pub names: Vec<String>,
    /// Its end, in seconds since 1970.
    pub expires: f64,
    /// Reason why the present file is not in force; null if it is.
    pub problem: Option<String>,
}
