//! One request that posts an event to an address.
//!
//! Promise: over within its time, on a thread that may wait; over TLS only to a server with a certificate for the
//! address's host from an authority that this machine trusts, and an error of certificates names its remedy. Not here:
//! trying again.

use std::io;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, anyhow};
use rustls::CertificateError;
use ureq::Agent;
use ureq::tls::{RootCerts, TlsConfig};

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
    let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build();
    let agent: Agent = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .proxy(None)
        .timeout_global(Some(limit))
        .tls_config(tls)
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
    let error = anyhow!("{url} answers {status}: {}", said.lines().next().unwrap_or_default());
    // RFC 9110 §15: another attempt of a request may succeed after 408, 425 and 429, and after 5xx.
    Err(match status.as_u16() {
        410 => Failure::Gone(error),
        408 | 425 | 429 | 500.. => Failure::Unreached(error),
        _ => Failure::Refused(error),
    })
}

/// The error, with its remedy where it is one of TLS.
fn explained(error: ureq::Error) -> anyhow::Error {
    match (tls_error(&error).and_then(advice), &error) {
        (Some(advice), _) => anyhow!("{error}; {advice}"),
        (None, ureq::Error::Timeout(_)) => anyhow!("no answer came within its `timeout`"),
        (None, _) => client::explained(error),
    }
}

fn tls_error(error: &ureq::Error) -> Option<&rustls::Error> {
    match error {
        ureq::Error::Rustls(error) => Some(error),
        ureq::Error::Io(error) => io::Error::get_ref(error)?.downcast_ref(),
        _ => None,
    }
}

/// The word of rustls for it has no type of its own.
fn is_authority(error: &rustls::OtherError) -> bool {
    error.to_string().contains("CaUsedAsEndEntity")
}

fn advice(error: &rustls::Error) -> Option<&'static str> {
    Some(match error {
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
            "the authority of its certificate is not trusted here: put that authority's certificate into \
             /usr/local/share/ca-certificates (NAME.crt) and run update-ca-certificates"
        }
        rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => "write the url with a name that its certificate has",
        rustls::Error::InvalidCertificate(
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. },
        ) => "renew its certificate, or set this machine's clock",
        rustls::Error::InvalidCertificate(CertificateError::Other(other)) if is_authority(other) => {
            "its certificate is an authority's: sign one for the server with it (`CA:FALSE`), and let the server show that"
        }
        rustls::Error::InvalidMessage(_) => "the program there does not speak TLS: write http://, or another port",
        rustls::Error::General(_) => "no authorities are known here: apt-get install ca-certificates",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_that_is_its_own_authority_is_explained() {
        let word = io::Error::other("CaUsedAsEndEntity");
        let other = CertificateError::Other(rustls::OtherError(std::sync::Arc::new(word)));
        let advice = advice(&rustls::Error::InvalidCertificate(other)).expect("advice");
        assert!(advice.contains("CA:FALSE"), "{advice}");
    }
}
