//! Checksums that a client sends with a body: `Content-Digest` and `Repr-Digest` (RFC 9530), `Content-MD5` (RFC 1864), `OC-Checksum`
//! (Nextcloud, Cyberduck), `Upload-Checksum` (tus); and the length that a chunked body of macOS shall have (`X-Expected-Entity-Length`).
//!
//! Promise: an algorithm is computed once, whichever fields name it, and only where a field does. Others than these five are not looked at.
//! A body has no content coding here, so that the digests of content and representation are the same.

use adler2::Adler32;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_types::HeaderMap;
use http_types::header::HeaderName;
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};

use super::conditional::joined;

/// The reason that a body is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DigestError {
    /// A field cannot be read.
    #[error("the value of `{0}` cannot be read")]
    Malformed(&'static str),
    /// The algorithm is none of those known, where one must be.
    #[error("`{0}` names an algorithm that is none of adler32, md5, sha1, sha256, sha512")]
    Unknown(&'static str),
    /// The bytes are not the bytes that the client meant.
    #[error("the body is not as `{0}` says: it was damaged or broke off on its way; nothing of it is stored")]
    Different(&'static str),
}

/// A checksum that is being computed.
enum BodyHasher {
    Length(u64),
    Adler32(Adler32),
    Md5(Md5),
    Sha1(Sha1),
    Sha256(Sha256),
    Sha512(Sha512),
}

impl BodyHasher {
    fn named(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "adler32" => Self::Adler32(Adler32::new()),
            "md5" => Self::Md5(Md5::new()),
            "sha1" | "sha" => Self::Sha1(Sha1::new()),
            "sha256" | "sha-256" => Self::Sha256(Sha256::new()),
            "sha512" | "sha-512" => Self::Sha512(Sha512::new()),
            _ => return None,
        })
    }

    fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Length(length) => *length += bytes.len() as u64,
            Self::Adler32(hasher) => hasher.write_slice(bytes),
            Self::Md5(hasher) => hasher.update(bytes),
            Self::Sha1(hasher) => hasher.update(bytes),
            Self::Sha256(hasher) => hasher.update(bytes),
            Self::Sha512(hasher) => hasher.update(bytes),
        }
    }

    fn finish(self) -> Vec<u8> {
        match self {
            Self::Length(length) => length.to_be_bytes().to_vec(),
            Self::Adler32(hasher) => hasher.checksum().to_be_bytes().to_vec(),
            Self::Md5(hasher) => hasher.finalize().to_vec(),
            Self::Sha1(hasher) => hasher.finalize().to_vec(),
            Self::Sha256(hasher) => hasher.finalize().to_vec(),
            Self::Sha512(hasher) => hasher.finalize().to_vec(),
        }
    }
}

/// The checksums of a body, and those that it must have.
#[derive(Default)]
pub struct BodyChecks(Vec<BodyCheck>);

struct BodyCheck {
    hasher: BodyHasher,
    /// Checksums that the fields of these names have.
    expected: Vec<(&'static str, Vec<u8>)>,
}

impl BodyChecks {
    /// Those that the fields of a request name.
    ///
    /// # Errors
    /// A field cannot be read.
    pub fn of(headers: &HeaderMap) -> Result<Self, DigestError> {
        let mut checks = Self::default();
        for name in ["content-digest", "repr-digest"] {
            let Some(text) = joined(headers, &HeaderName::from_static(name)) else { continue };
            for member in text.split(',') {
                let Some((key, value)) = member.trim().split_once('=') else { continue };
                let value = value.split(';').next().unwrap_or_default().trim();
                let coded = value.strip_prefix(':').and_then(|value| value.strip_suffix(':'));
                checks.expect(name, BodyHasher::named(key.trim()), coded.and_then(of_base64))?;
            }
        }
        if let Some(text) = joined(headers, &HeaderName::from_static("content-md5")) {
            checks.expect("content-md5", Some(BodyHasher::Md5(Md5::new())), of_base64(text.trim()))?;
        }
        if let Some(text) = joined(headers, &HeaderName::from_static("oc-checksum")) {
            for one in text.split([' ', ',']).filter(|one| !one.is_empty()) {
                let (key, value) = one.split_once(':').ok_or(DigestError::Malformed("oc-checksum"))?;
                checks.expect("oc-checksum", BodyHasher::named(key), of_hex(value))?;
            }
        }
        const LENGTH: &str = "x-expected-entity-length";
        if let Some(text) = joined(headers, &HeaderName::from_static(LENGTH)) {
            let length = text.trim().parse().ok().map(|length: u64| length.to_be_bytes().to_vec());
            checks.expect(LENGTH, Some(BodyHasher::Length(0)), length)?;
        }
        Ok(checks)
    }

    /// The checksum that `Upload-Checksum` names: an algorithm, a space and the checksum in base 64.
    ///
    /// # Errors
    /// It cannot be read, or names an unknown algorithm.
    pub fn of_tus(text: &str) -> Result<Self, DigestError> {
        const FIELD: &str = "upload-checksum";
        let (key, value) = text.split_once(' ').ok_or(DigestError::Malformed(FIELD))?;
        let mut checks = Self::default();
        checks.expect(FIELD, BodyHasher::named(key), of_base64(value.trim()))?;
        if checks.0.is_empty() { Err(DigestError::Unknown(FIELD)) } else { Ok(checks) }
    }

    /// None: an algorithm that is not looked at.
    fn expect(
        &mut self,
        field: &'static str,
        hasher: Option<BodyHasher>,
        value: Option<Vec<u8>>,
    ) -> Result<(), DigestError> {
        let Some(hasher) = hasher else { return Ok(()) };
        let value = value.ok_or(DigestError::Malformed(field))?;
        let is_same = |check: &&mut BodyCheck| std::mem::discriminant(&check.hasher) == std::mem::discriminant(&hasher);
        match self.0.iter_mut().find(is_same) {
            Some(check) => {
                check.expected.retain(|(other, _)| *other != field);
                check.expected.push((field, value));
            }
            None => self.0.push(BodyCheck { hasher, expected: vec![(field, value)] }),
        }
        Ok(())
    }

    /// The next bytes of the body.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.iter_mut().for_each(|check| check.hasher.update(bytes));
    }

    /// The body is whole.
    ///
    /// # Errors
    /// [`DigestError::Different`].
    pub fn verify(self) -> Result<(), DigestError> {
        for check in self.0 {
            let found = check.hasher.finish();
            if let Some((field, _)) = check.expected.iter().find(|(_, expected)| *expected != found) {
                return Err(DigestError::Different(field));
            }
        }
        Ok(())
    }
}

fn of_base64(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

fn of_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHA256: &str = "sha-256=:ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=:";

    fn checked(fields: &[(&'static str, &str)], body: &[u8]) -> Result<(), DigestError> {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, value.parse().expect("a value"));
        }
        let mut checks = BodyChecks::of(&headers)?;
        body.chunks(2).for_each(|part| checks.update(part));
        checks.verify()
    }

    #[test]
    fn each_field_is_verified() {
        for (name, value) in [
            ("content-digest", SHA256),
            ("repr-digest", "unknown=:AA==:, sha-256=:ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=:;q=1"),
            ("content-md5", "kAFQmDzST7DWlj99KOF/cg=="),
            ("oc-checksum", "MD5:900150983cd24fb0d6963f7d28e17f72"),
            ("oc-checksum", "SHA1:A9993E364706816ABA3E25717850C26C9CD0D89D"),
            ("oc-checksum", "ADLER32:024d0127"),
            ("x-expected-entity-length", "3"),
        ] {
            assert_eq!(checked(&[(name, value)], b"abc"), Ok(()), "{name}: {value}");
            assert_eq!(checked(&[(name, value)], b"ab"), Err(DigestError::Different(name)), "{name}: {value}");
        }
        assert_eq!(checked(&[], b"abc"), Ok(()));
        let both = [("content-digest", SHA256), ("repr-digest", "sha-256=:AAAA:")];
        assert_eq!(checked(&both, b"abc"), Err(DigestError::Different("repr-digest")));
    }

    #[test]
    fn a_field_that_cannot_be_read_is_refused_before_the_body() {
        for (name, value) in [
            ("content-digest", "sha-256=abc"),
            ("content-md5", "!"),
            ("oc-checksum", "MD5"),
            ("oc-checksum", "MD5:9"),
            ("oc-checksum", "MD5:zz"),
            ("x-expected-entity-length", "-1"),
        ] {
            assert_eq!(checked(&[(name, value)], b"abc"), Err(DigestError::Malformed(name)), "{name}: {value}");
        }
    }

    #[test]
    fn a_checksum_of_tus_has_a_known_algorithm() {
        let verified = |text: &str| {
            let mut checks = BodyChecks::of_tus(text)?;
            checks.update(b"abc");
            checks.verify()
        };
        assert_eq!(verified("sha1 qZk+NkcGgWq6PiVxeFDCbJzQ2J0="), Ok(()));
        assert_eq!(verified("crc32 AAAA"), Err(DigestError::Unknown("upload-checksum")));
        assert_eq!(verified("sha1"), Err(DigestError::Malformed("upload-checksum")));
        assert_eq!(verified("sha1 AAAA"), Err(DigestError::Different("upload-checksum")));
    }
}
