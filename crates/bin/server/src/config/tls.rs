//! HTTP over TLS: its address, and where its certificates come from.
//!
//! Not here: reading the certificates (crate `tls`).

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use automation::{AuthorityConfig, ProofKind};
use tls::{CertificateSource, Certificates, PairFiles};
use units::Nanos;

use super::settings::Settings;
use super::toml_text::parse_word;
use super::values::{parse_address, parse_choice, span_up_to, stays_private};

/// Longest time for which browsers shall use TLS only: two years, as their lists of such hosts want it.
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
    /// An authority signs one instead; its folder is not known yet.
    pub(crate) authority: Option<AuthorityConfig>,
    /// Requests that come without TLS are sent to its address.
    pub(crate) redirect: bool,
    /// Time for which browsers shall use TLS only (RFC 6797, `max-age`).
    pub(crate) hsts: Nanos,
}

impl TlsConfig {
    /// `by_ftp`: certificates have a use without an address of HTTP, too.
    pub(super) fn take(settings: &mut Settings, by_ftp: bool) -> Self {
        let listen = settings.take_optional("tls.listen", parse_address);
        let certificates = settings.take_one_or_more("tls.certificate");
        let keys = settings.take_one_or_more("tls.key");
        let self_signed = settings.take("tls.self_signed", false, parse_choice);
        let authority = take_authority(settings);
        let redirect = settings.take("tls.redirect", false, parse_choice);
        let hsts = settings.take("tls.hsts", Nanos::ZERO, span_up_to(HSTS_MAX));
        if certificates.len() != keys.len() {
            let message =
                format!("there are {} certificates and {} keys: name a key for each", certificates.len(), keys.len());
            settings.contradiction("tls.key", message);
        }
        let makes_one = self_signed || authority.is_some();
        if self_signed && authority.is_some() {
            settings.contradiction(
                "tls.authority",
                "either this server signs its certificate, or an authority: leave out one of the two".to_owned(),
            );
        }
        let message = match (listen, certificates.len(), makes_one) {
            (None, 0, false) if redirect || hsts > Nanos::ZERO => {
                Some("name the address for TLS; write for example `[::]:443`")
            }
            (None, 0, false) => None,
            (None, 1.., false) | (None, 0, true) if by_ftp && !redirect && hsts == Nanos::ZERO => None,
            (None, _, _) => Some("name the address for TLS; write for example `[::]:443`"),
            (Some(_), 0, false) => {
                Some("TLS needs `tls.certificate` and `tls.key`, or `tls.authority`, or `tls.self_signed = true`")
            }
            (Some(_), 1.., _) if self_signed => {
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
        Self { listen, pairs, self_signed, authority, redirect, hsts }
    }

    /// True if there is a certificate, or one is made.
    pub(crate) const fn has_certificate(&self) -> bool {
        self.self_signed || self.authority.is_some() || !self.pairs.is_empty()
    }

    /// The origin of the certificates; none without TLS. A certificate that is made here is kept in the folder `state`, and is for
    /// `names` and `addresses`.
    pub(crate) fn source(&self, state: &Path, names: Vec<String>, addresses: Vec<IpAddr>) -> Option<CertificateSource> {
        if let Some(authority) = &self.authority {
            return Some(CertificateSource::Authority {
                folder: state.join("tls"),
                names: authority.names.clone(),
                beside: self.pairs.clone(),
            });
        }
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
}

/// An authority that signs certificates.
fn take_authority(settings: &mut Settings) -> Option<AuthorityConfig> {
    let directory = settings.take_optional("tls.authority", |text| match stays_private(text) {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "`{text}` is no address of a directory; write for example `https://acme-v02.api.letsencrypt.org/directory`"
        )),
    });
    let names = settings.take_list("tls.names");
    let contact = settings.take_optional("tls.contact", |text| match text.contains('@') {
        true => Ok(text.to_owned()),
        false => Err(format!("`{text}` is no address of mail")),
    });
    let proof = settings.take("tls.proof", ProofKind::Tls, parse_word);
    let message = match (&directory, names.is_empty()) {
        (Some(_), true) => Some("name the hosts that the certificate is for; write for example `[\"media.example\"]`"),
        (None, false) => Some("they are for `tls.authority`, which is missing"),
        _ => None,
    };
    if let Some(message) = message {
        settings.contradiction("tls.names", message.to_owned());
    }
    if directory.is_none() {
        ["tls.names", "tls.contact", "tls.proof"].iter().for_each(|key| settings.hide(key));
    }
    Some(AuthorityConfig { directory: directory?, names, contact, proof, folder: PathBuf::new() })
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
