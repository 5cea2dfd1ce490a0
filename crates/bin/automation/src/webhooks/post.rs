//! One request that posts an event to an address.
//!
//! Promise: over within its time, on a thread that may wait; over TLS only to a server with a certificate for the
//! address's host from an authority that this machine trusts, and an error of certificates names its remedy. Not here:
//! trying again.

use std::time::{Duration, SystemTime};

use anyhow::{Context as _, anyhow};
use ureq::Agent;

use super::queue::{Failure, WaitingEvent};
use super::signature::Secret;

/// The most bytes of an error's answer that are reported.
const ANSWER_BYTES_MAX: u64 = 200;

/// Posts an event.
///
/// # Errors
/// The target cannot be reached or trusted, is too slow, or does not take it.
pub(super) fn post(url: &str, event: &WaitingEvent, secret: &Secret, limit: Duration) -> Result<(), Failure> {
    // Made for each request: the authorities that are trusted by then count.
    let agent: Agent = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .proxy(None)
        .timeout_global(Some(limit))
        .tls_config(client::machines_authorities())
        .build()
        .new_agent();
    let timestamp = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let posted = agent
        .post(url)
        .header("content-type", "application/json")
        .header("user-agent", concat!("isocast/", env!("CARGO_PKG_VERSION")))
        .header("webhook-id", &event.id)
        .header("webhook-timestamp", timestamp.to_string())
        .header("webhook-signature", secret.sign(&event.id, timestamp, &event.line))
        .send(&event.line);
    let mut answer = posted.map_err(explained).with_context(|| url.to_owned()).map_err(Failure::Unreached)?;
    let status = answer.status();
    if status.is_success() {
        return Ok(());
    }
    let said = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string().unwrap_or_default();
    let said = said.lines().next().filter(|line| !line.is_empty()).map_or_else(String::new, |line| format!(": {line}"));
    let error = anyhow!("{url} answers {status}{said}");
    // RFC 9110 §15: another attempt of a request may succeed after 408, 425 and 429, and after 5xx.
    Err(match status.as_u16() {
        410 => Failure::Gone(error),
        408 | 425 | 429 | 500.. => Failure::Unreached(error),
        _ => Failure::Refused(error),
    })
}

fn explained(error: ureq::Error) -> anyhow::Error {
    match error {
        ureq::Error::Timeout(_) => anyhow!("no answer came within its `timeout`"),
        error => client::explained(error),
    }
}
