//! FTP: its addresses, the ports of its data connections, and whether TLS is required.

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;

use ftp::FtpTls;

use super::TlsConfig;
use super::settings::Settings;
use super::toml_text::parse_word;
use super::values::parse_address;

/// FTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FtpConfig {
    /// Address of connections that begin without TLS.
    pub(crate) listen: Option<SocketAddr>,
    /// Address of connections that begin with TLS.
    pub(crate) implicit_listen: Option<SocketAddr>,
    /// Ports of passive data connections.
    pub(crate) passive_ports: RangeInclusive<u16>,
    /// Address that clients of `PASV` connect to.
    pub(crate) passive_address: Option<Ipv4Addr>,
    /// TLS of connections that begin without; none: [`FtpConfig::tls`] decides.
    pub(super) tls: Option<FtpTls>,
}

impl FtpConfig {
    pub(super) fn take(settings: &mut Settings) -> Self {
        let ports = |text: &str| {
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            match (first.trim().parse::<u16>(), last.trim().parse::<u16>()) {
                (Ok(first @ 1..), Ok(last)) if first <= last => Ok(first..=last),
                _ => Err(format!("`{text}` is no range of ports; write for example `40000-40100`")),
            }
        };
        let address = |text: &str| {
            text.parse().map_err(|_| format!("`{text}` is no address of IPv4; write for example `192.0.2.1`"))
        };
        Self {
            listen: settings.take_optional("ftp.listen", parse_address),
            implicit_listen: settings.take_optional("ftp.implicit_listen", parse_address),
            passive_ports: settings.take("ftp.passive_ports", 40_000..=40_100, ports),
            passive_address: settings.take_optional("ftp.passive_address", address),
            tls: settings.take_optional("ftp.tls", parse_word),
        }
    }

    /// TLS of connections that begin without: required beyond this machine, else offered if there is a certificate.
    pub(crate) fn tls(&self, tls: &TlsConfig) -> FtpTls {
        let is_reached = self.listen.is_some_and(|address| !address.ip().is_loopback());
        self.tls.unwrap_or(match (is_reached, tls.has_certificate()) {
            (true, _) => FtpTls::Required,
            (false, true) => FtpTls::Offered,
            (false, false) => FtpTls::Off,
        })
    }

    /// Why it cannot be served so.
    pub(super) fn contradiction(&self, tls: &TlsConfig) -> Option<String> {
        if tls.has_certificate() {
            return None;
        }
        let remedy = "TLS needs `tls.certificate` and `tls.key`, or `tls.self_signed = true`";
        if self.implicit_listen.is_some() {
            return Some(remedy.to_owned());
        }
        let needs = self.listen.is_some() && self.tls(tls) != FtpTls::Off;
        let without = "`ftp.tls = \"off\"` sends passwords and contents without encryption";
        needs.then(|| format!("{remedy}; {without}"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    fn load(text: &str) -> Result<Config, String> {
        Config::load_file("isocast.toml".as_ref(), text).map_err(|error| error.to_string())
    }

    #[test]
    fn tls_is_required_beyond_this_machine_unless_the_settings_say_otherwise() {
        let tls = |text: &str| load(text).map(|config| config.ftp.tls(&config.tls));
        assert_eq!(tls("[ftp]\nlisten = \"127.0.0.1:2121\"\n"), Ok(FtpTls::Off));
        let signed = "[tls]\nself_signed = true\n[ftp]\n";
        assert_eq!(tls(&format!("{signed}listen = \"127.0.0.1:2121\"\n")), Ok(FtpTls::Offered));
        assert_eq!(tls(&format!("{signed}listen = \"[::]:21\"\n")), Ok(FtpTls::Required));
        assert_eq!(tls(&format!("{signed}listen = \"[::]:21\"\ntls = \"offered\"\n")), Ok(FtpTls::Offered));
        assert_eq!(tls("[ftp]\nlisten = \"[::]:21\"\ntls = \"off\"\n"), Ok(FtpTls::Off));
        for text in ["listen = \"[::]:21\"", "implicit_listen = \"127.0.0.1:990\""] {
            let error = tls(&format!("[ftp]\n{text}\n")).unwrap_err();
            assert!(error.contains("ftp.tls: TLS needs `tls.certificate`"), "{error}");
        }
    }

    #[test]
    fn ranges_and_addresses_are_checked_and_shown() {
        for (text, said) in [
            ("passive_ports = \"40100-40000\"", "is no range of ports"),
            ("passive_ports = \"0-9\"", "is no range of ports"),
            ("passive_address = \"::1\"", "is no address of IPv4"),
            ("tls = \"on\"", "is neither `required`, `offered` nor `off`"),
        ] {
            let error = load(&format!("[ftp]\n{text}\n")).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
        let text = "[ftp]\nlisten = \"127.0.0.1:2121\"\npassive_ports = \"5000-5001\"\npassive_address = \"192.0.2.1\"\n\
                    tls = \"off\"\n";
        let config = load(text).unwrap();
        assert_eq!((config.ftp.passive_ports.clone(), config.ftp.passive_address.is_some()), (5000..=5001, true));
        assert_eq!(load(&config.to_string()).unwrap().ftp, config.ftp, "as it is shown");
    }
}
