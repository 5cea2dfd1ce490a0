//! A certificate with its key: from the text of two files to what a handshake needs.
//!
//! Promise: a pair that is returned can serve: the key is the certificate's, and it has not expired. Errors name the file.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use x509_parser::extensions::GeneralName;

/// Longest file that is read.
pub(crate) const FILE_BYTES_MAX: u64 = 1 << 20;

/// The two files of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairFiles {
    /// The certificate and those between it and its root, in PEM form, in this order.
    pub certificate: PathBuf,
    /// Its private key, in PEM form.
    pub key: PathBuf,
}

/// Why a pair cannot be used. The text is fit to be shown to the operator.
#[derive(Debug, thiserror::Error)]
pub enum PairError {
    /// A file cannot be read.
    #[error("{0} cannot be read: {1}")]
    Unreadable(PathBuf, #[source] io::Error),
    /// A file is longer than any certificate or key.
    #[error("{0} is longer than 1 MiB")]
    TooLong(PathBuf),
    /// No certificate in PEM form, or a truncated one.
    #[error("{0} holds no whole certificate in PEM form ({1})")]
    NoCertificate(PathBuf, String),
    /// No key in PEM form, or a truncated one.
    #[error("{0} holds no whole private key in PEM form ({1})")]
    NoKey(PathBuf, String),
    /// The key belongs to another certificate.
    #[error("the key in {1} is not the one of the certificate in {0}")]
    WrongKey(PathBuf, PathBuf),
    /// A key of a kind that TLS has no use for, or a damaged one.
    #[error("the key in {0} cannot be used: {1}")]
    UnfitKey(PathBuf, String),
    /// Its time is over.
    #[error("the certificate in {0} has expired")]
    Expired(PathBuf),
}

/// The bytes of the two files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PairText {
    pub(crate) certificate: Vec<u8>,
    pub(crate) key: Vec<u8>,
}

/// A certificate that can serve.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) certified: Arc<CertifiedKey>,
    /// Names of hosts in it, in lower case; `*.` stands for one label.
    pub(crate) names: Vec<String>,
    /// The beginning of its time.
    pub(crate) begins: SystemTime,
    pub(crate) expires: SystemTime,
    /// Its own key has signed it.
    pub(crate) is_self_signed: bool,
}

impl PairText {
    /// Reads both files.
    pub(crate) fn read(files: &PairFiles) -> Result<Self, PairError> {
        Ok(Self { certificate: read_bounded(&files.certificate)?, key: read_bounded(&files.key)? })
    }
}

fn read_bounded(path: &PathBuf) -> Result<Vec<u8>, PairError> {
    let read = || -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        io::Read::read_to_end(&mut io::Read::take(std::fs::File::open(path)?, FILE_BYTES_MAX + 1), &mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().map_err(|error| PairError::Unreadable(path.clone(), error))?;
    if bytes.len() as u64 > FILE_BYTES_MAX { Err(PairError::TooLong(path.clone())) } else { Ok(bytes) }
}

/// The fault of a text in PEM form. The library's own words have the bytes of the line in them, as numbers.
fn pem_fault(error: &pem::Error) -> String {
    match error {
        pem::Error::MissingSectionEnd { .. } => "it breaks off within one".to_owned(),
        pem::Error::IllegalSectionStart { .. } => "the first line of one is damaged".to_owned(),
        error => error.to_string(),
    }
}

impl Pair {
    /// The pair of these texts, which came from `files`.
    pub(crate) fn of(files: &PairFiles, text: &PairText) -> Result<Self, PairError> {
        let no_certificate = |reason: String| PairError::NoCertificate(files.certificate.clone(), reason);
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&text.certificate)
            .collect::<Result<_, _>>()
            .map_err(|error| no_certificate(pem_fault(&error)))?;
        let first = chain.first().ok_or_else(|| no_certificate("there is none".to_owned()))?;
        let (_, parsed) =
            x509_parser::parse_x509_certificate(first).map_err(|error| no_certificate(error.to_string()))?;
        let at = |seconds: i64| SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        let validity = parsed.validity();
        let (begins, expires) = (at(validity.not_before.timestamp()), at(validity.not_after.timestamp()));
        let is_self_signed = parsed.issuer() == parsed.subject();
        let names = parsed.subject_alternative_name().ok().flatten();
        let names = names.into_iter().flat_map(|names| &names.value.general_names).filter_map(|name| match name {
            GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
            _ => None,
        });
        let names = names.collect();
        let key = PrivateKeyDer::from_pem_slice(&text.key)
            .map_err(|error| PairError::NoKey(files.key.clone(), pem_fault(&error)))?;
        let certified = CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => PairError::WrongKey(files.certificate.clone(), files.key.clone()),
            error => PairError::UnfitKey(files.key.clone(), error.to_string()),
        })?;
        Ok(Self { certified: Arc::new(certified), names, begins, expires, is_self_signed })
    }

    /// True if it is for `name`, in lower case.
    pub(crate) fn is_for(&self, name: &str) -> bool {
        self.names.iter().any(|own| match own.strip_prefix("*.") {
            Some(domain) => name.split_once('.').is_some_and(|(_, rest)| rest == domain),
            None => own == name,
        })
    }
}
