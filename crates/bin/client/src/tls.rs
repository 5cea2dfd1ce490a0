//! Trust in servers that speak TLS, and the remedies where it fails.
//!
//! Promise: a certificate is good if its authority is one of this machine's; an error of it names the remedy.

use std::io;

use rustls::CertificateError;
use ureq::tls::{RootCerts, TlsConfig};

/// Trusts the authorities of this machine, as they are at the time of a connection.
#[must_use]
pub fn machines_authorities() -> TlsConfig {
    TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build()
}

/// The remedy of an error, if it is one of TLS.
pub(crate) fn remedy(error: &ureq::Error) -> Option<&'static str> {
    tls_error(error).and_then(advice)
}

fn tls_error(error: &ureq::Error) -> Option<&rustls::Error> {
    match error {
        ureq::Error::Rustls(error) => Some(error),
        ureq::Error::Io(error) => io::Error::get_ref(error)?.downcast_ref(),
        _ => None,
    }
}

/// True if the server's certificate is an authority's; rustls has no type of its own for this error.
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
