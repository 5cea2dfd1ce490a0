//! HTTP over TLS: its address, and where its certificates come from.
//!
//! Not here: reading the certificates (crate `tls`).

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use tls::{CertificateSource, Certificates, PairFiles};
use units::Nanos;

use super::settings::Settings;
use super::toml_text::{quoted, span};
use super::values::{parse_address, parse_choice, span_up_to};

/// Longest time for which browsers may be told to use TLS only: two years, as their lists of such hosts want it.
const HSTS_MAX: Nanos = Nanos::from_secs(2 * 365 * 24 * 3600);

/// HTTP over TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TlsConfig {
    /// Its address.
    pub(crate) listen: Option<SocketAddr>,
    /// Certificates and keys.
    pub(crate) pairs: Vec<PairFiles>,
    /// A certificate that this server signs itself serves instead of files.
    pub(crate) self_signed: bool,
    /// Requests that come without TLS are sent to its address.
    pub(crate) redirect: bool,
    /// Time for which browsers are told to use TLS only.
    pub(crate) hsts: Nanos,
}

impl TlsConfig {
    /// `by_ftp`: certificates have a use without an address of HTTP, too.
    pub(super) fn take(settings: &mut Settings, by_ftp: bool) -> Self {
        let listen = settings.take_optional("tls.listen", parse_address);
        let certificates = settings.take_one_or_more("tls.certificate");
        let keys = settings.take_one_or_more("tls.key");
        let self_signed = settings.take("tls.self_signed", false, parse_choice);
        let redirect = settings.take("tls.redirect", false, parse_choice);
        let hsts = settings.take("tls.hsts", Nanos::ZERO, span_up_to(HSTS_MAX));
        if certificates.len() != keys.len() {
            let message =
                format!("there are {} certificates and {} keys: name a key for each", certificates.len(), keys.len());
            settings.contradiction("tls.key", message);
        }
        let message = match (listen, certificates.len(), self_signed) {
            (None, 0, false) if redirect || hsts > Nanos::ZERO => {
                Some("name the address for TLS; write for example `[::]:443`")
            }
            (None, 0, false) => None,
            (None, 1.., false) | (None, 0, true) if by_ftp && !redirect && hsts == Nanos::ZERO => None,
            (None, _, _) => Some("name the address for TLS; write for example `[::]:443`"),
            (Some(_), 0, false) => Some("TLS needs `tls.certificate` and `tls.key`, or `tls.self_signed = true`"),
            (Some(_), 1.., true) => {
                Some("a certificate is named, so none is signed here: leave out `tls.self_signed`, or the files")
            }
            (Some(_), _, _) => None,
        };
        if let Some(message) = message {
            settings.contradiction("tls.listen", message.to_owned());
        }
        let path = |name: String| PathBuf::from(name);
        let pairs = certificates.into_iter().zip(keys);
        let pairs =
            pairs.map(|(certificate, key)| PairFiles { certificate: path(certificate), key: path(key) }).collect();
        Self { listen, pairs, self_signed, redirect, hsts }
    }

    /// True if there is a certificate, or one is made.
    pub(crate) const fn has_certificate(&self) -> bool {
        self.self_signed || !self.pairs.is_empty()
    }

    /// The origin of the certificates; none without TLS. A certificate that is made here is kept in the folder `state`, and is for
    /// `names` and `addresses`.
    pub(crate) fn source(&self, state: &Path, names: Vec<String>, addresses: Vec<IpAddr>) -> Option<CertificateSource> {
        match (self.pairs.is_empty(), self.self_signed) {
            (false, _) => Some(CertificateSource::Files(self.pairs.clone())),
            (true, true) => Some(CertificateSource::SelfSigned { folder: state.join("tls"), names, addresses }),
            (true, false) => None,
        }
    }

    /// Why a pair cannot be used on this machine.
    pub(super) fn problem(&self) -> Option<String> {
        if self.pairs.is_empty() {
            return None;
        }
        Certificates::load(&CertificateSource::Files(self.pairs.clone())).err().map(|error| error.to_string())
    }

    pub(super) fn render(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |path: fn(&PairFiles) -> &Path| {
            self.pairs.iter().map(|pair| quoted(&path(pair).display())).collect::<Vec<_>>().join(", ")
        };
        writeln!(f, "\n[tls]")?;
        if let Some(listen) = self.listen {
            writeln!(f, "listen = {}", quoted(&listen))?;
        }
        writeln!(f, "certificate = [{}]", list(|pair| &pair.certificate))?;
        writeln!(f, "key = [{}]", list(|pair| &pair.key))?;
        writeln!(f, "self_signed = {}\nredirect = {}\nhsts = {}", self.self_signed, self.redirect, span(self.hsts))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;

    fn load(text: &str) -> Result<Config, String> {
        Config::load_file("isocast.toml".as_ref(), text).map_err(|error| error.to_string())
    }

    #[test]
    fn several_pairs_are_written_as_lists_and_one_without_brackets() {
        let one = load("[tls]\nlisten = \"[::]:443\"\ncertificate = \"/a.pem\"\nkey = \"/a.key\"\n").unwrap().tls;
        assert_eq!((one.pairs.len(), one.pairs[0].key.to_str()), (1, Some("/a.key")));
        let two =
            "[tls]\nlisten = \"[::]:443\"\ncertificate = [\"/a.pem\", \"/b.pem\"]\nkey = [\"/a.key\", \"/b.key\"]\n";
        let config = load(two).unwrap();
        assert_eq!(config.tls.pairs[1].certificate.to_str(), Some("/b.pem"));
        assert_eq!(load(&config.to_string()).unwrap().tls, config.tls, "as it is shown");
    }

    #[test]
    fn half_of_a_setting_is_refused_with_the_other_half() {
        for (text, said) in [
            ("listen = \"[::]:443\"\n", "tls.listen: TLS needs `tls.certificate`"),
            ("listen = \"[::]:443\"\ncertificate = \"/a.pem\"\n", "tls.key: there are 1 certificates and 0 keys"),
            ("self_signed = true\n", "tls.listen: name the address for TLS"),
            ("redirect = true\n", "tls.listen: name the address for TLS"),
            (
                "listen = \"[::]:443\"\nself_signed = true\ncertificate = \"/a\"\nkey = \"/b\"\n",
                "leave out `tls.self_signed`",
            ),
            ("listen = \"[::]:443\"\nself_signed = true\nhsts = \"900d\"\n", "isocast.toml:4: tls.hsts: "),
        ] {
            let error = load(&format!("[tls]\n{text}")).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }
}
