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
    /// The name of its files, without their endings.
    pub(crate) stem: &'static str,
    /// Names of hosts that it must be for.
    pub(crate) names: Vec<String>,
    /// Addresses that it is for when it is made.
    pub(crate) addresses: Vec<IpAddr>,
}

impl SelfSigned {
    pub(crate) fn files(&self) -> PairFiles {
        let file = |ending| self.folder.join(format!("{}.{ending}", self.stem));
        PairFiles { certificate: file("pem"), key: file("key") }
    }

    /// Makes a certificate unless the present one can serve on.
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

    /// Makes one unless there is a pair that can serve, whoever signed it: it serves until an authority has signed another.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn stand_in(&self, now: SystemTime) -> io::Result<()> {
        let files = self.files();
        let kept = PairText::read(&files).and_then(|text| Pair::of(&files, &text));
        if kept.is_ok() { Ok(()) } else { self.make(now) }
    }

    fn make(&self, now: SystemTime) -> io::Result<()> {
        let mut params = CertificateParams::new(self.names.clone()).map_err(io::Error::other)?;
        params.subject_alt_names.extend(self.addresses.iter().map(|address| SanType::IpAddress(*address)));
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "Isocast, signed by itself");
        let begins = now - VALID_BEFORE;
        (params.not_before, params.not_after) = (begins.into(), (begins + VALID_FOR).into());
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let certificate = params.self_signed(&key).map_err(io::Error::other)?;
        fs::create_dir_all(&self.folder)?;
        write_pair(&self.files(), certificate.pem().as_bytes(), key.serialize_pem().as_bytes())
    }
}

/// Writes a pair. The key first: with the old certificate it is a wrong pair, which is seen and made anew after a crash here.
pub(crate) fn write_pair(files: &PairFiles, certificate: &[u8], key: &[u8]) -> io::Result<()> {
    write_private(&files.key, key)?;
    write_private(&files.certificate, certificate)
}

/// Writes a file that is whole under its name, or not there, and that its user alone reads.
///
/// # Errors
/// It cannot be written.
pub fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, path)
}
