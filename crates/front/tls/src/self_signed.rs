//! A certificate that this server signs itself, for use without an authority: clients must be made to trust it once.
//!
//! Promise: it is kept in a folder, so that it is the same after a restart; it is made anew [`RENEWED_BEFORE`] its end, or when it
//! lacks a name. The key is readable by this user only.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};

use crate::pair::{Pair, PairFiles, PairText};

/// Apple's systems accept none that is valid for longer.
const VALID_FOR: Duration = Duration::from_secs(825 * 24 * 3600);
/// Time before its end at which it is made anew.
const RENEWED_BEFORE: Duration = Duration::from_secs(30 * 24 * 3600);
/// A client's clock may be behind.
const VALID_BEFORE: Duration = Duration::from_secs(24 * 3600);

/// A certificate of this server's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SelfSigned {
    /// Folder in which it is kept.
    pub(crate) folder: PathBuf,
    /// Names of hosts that it must be for.
    pub(crate) names: Vec<String>,
    /// Addresses that it is for when it is made.
    pub(crate) addresses: Vec<IpAddr>,
}

impl SelfSigned {
    pub(crate) fn files(&self) -> PairFiles {
        PairFiles { certificate: self.folder.join("self-signed.pem"), key: self.folder.join("self-signed.key") }
    }

    /// Makes one unless the one that is there can serve on.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn keep(&self, now: SystemTime) -> io::Result<()> {
        let files = self.files();
        let kept = PairText::read(&files).and_then(|text| Pair::of(&files, &text));
        let serves = |pair: Pair| {
            pair.expires >= now + RENEWED_BEFORE
                && self.names.iter().all(|name| pair.is_for(&name.to_ascii_lowercase()))
        };
        if kept.is_ok_and(serves) { Ok(()) } else { self.make(now) }
    }

    fn make(&self, now: SystemTime) -> io::Result<()> {
        let mut params = CertificateParams::new(self.names.clone()).map_err(io::Error::other)?;
        params.subject_alt_names.extend(self.addresses.iter().map(|address| SanType::IpAddress(*address)));
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "Isocast, signed by itself");
        (params.not_before, params.not_after) = ((now - VALID_BEFORE).into(), (now + VALID_FOR).into());
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let certificate = params.self_signed(&key).map_err(io::Error::other)?;
        let files = self.files();
        fs::create_dir_all(&self.folder)?;
        // The key first: with the old certificate it is a wrong pair, which is seen and made anew after a crash here.
        replace(&files.key, key.serialize_pem().as_bytes())?;
        replace(&files.certificate, certificate.pem().as_bytes())
    }
}

/// Writes a file that is whole under its name, or not there.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, path)
}
