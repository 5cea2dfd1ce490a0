//! Random bytes, the texts of tokens, and the signatures of links.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac};
use rustix::rand::{GetRandomFlags, getrandom};
use service::accounts::SignedLink;
use service::logins::TOKEN_PREFIX;
use sha2::Sha256;

/// Bytes of a key that signs links.
pub(crate) const KEY_BYTES: usize = 32;

/// Random bytes of the system.
///
/// # Errors
/// The system has none.
pub fn random<const N: usize>() -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let got = getrandom(&mut bytes, GetRandomFlags::empty())?;
    if got == N { Ok(bytes) } else { Err(std::io::ErrorKind::UnexpectedEof.into()) }
}

/// The text of a new token: 256 random bits.
pub(crate) fn token_text() -> std::io::Result<String> {
    Ok(format!("{TOKEN_PREFIX}{}", random_text()?))
}

/// 256 random bits as text that needs no encoding in a query or a field.
///
/// # Errors
/// The system has none.
pub fn random_text() -> std::io::Result<String> {
    Ok(URL_SAFE_NO_PAD.encode(random::<32>()?))
}

/// The signature of a link: the first half of an HMAC-SHA256 over all that it gives.
pub(crate) fn signature(key: &[u8], link: &SignedLink) -> [u8; 16] {
    let mut mac = <Hmac<Sha256> as Mac>::new_from_slice(key).expect("HMAC takes keys of any length");
    let mut field = |bytes: &[u8]| {
        // With its length before it, no field can continue in the next one.
        mac.update(&u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_be_bytes());
        mac.update(bytes);
    };
    let optional = |value: Option<u64>| value.map(u64::to_be_bytes);
    field(b"isocast link 1");
    field(&link.id.to_be_bytes());
    field(link.given.folder.to_string().as_bytes());
    field(&[link.given.rights.bits()]);
    field(&link.expires.to_be_bytes());
    for value in [link.rate.map(|rate| rate.0), link.uses, link.stored] {
        field(optional(value).as_ref().map_or(&[][..], |bytes| bytes));
    }
    let from: Vec<String> = link.from.iter().map(ToString::to_string).collect();
    field(from.join(",").as_bytes());
    field(link.by.as_deref().unwrap_or_default().as_bytes());
    let whole = mac.finalize().into_bytes();
    std::array::from_fn(|at| whole[at])
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use service::accounts::{FolderRights, Right, Rights};
    use service::contents::ContentPath;
    use units::BitRate;

    use super::*;

    #[test]
    fn each_part_of_a_link_is_signed() {
        let path = |text| ContentPath::parse(text).expect("a path");
        let given = |folder, rights: &[Right]| FolderRights { folder: path(folder), rights: Rights::of(rights) };
        let link = SignedLink {
            id: 1,
            signature: [0; 16],
            given: given("/a", &[Right::Read]),
            expires: 10,
            rate: None,
            uses: None,
            from: Vec::new(),
            stored: None,
            by: None,
        };
        let others = [
            SignedLink { id: 2, ..link.clone() },
            SignedLink { given: given("/b", &[Right::Read]), ..link.clone() },
            SignedLink { given: given("/a", &[Right::Write]), ..link.clone() },
            SignedLink { expires: 11, ..link.clone() },
            SignedLink { rate: Some(BitRate(5)), ..link.clone() },
            SignedLink { uses: Some(5), ..link.clone() },
            SignedLink { stored: Some(5), ..link.clone() },
            SignedLink { from: vec!["10.0.0.0/8".parse().expect("a network")], ..link.clone() },
            SignedLink { by: Some("ada".into()), ..link.clone() },
        ];
        let key = [7; KEY_BYTES];
        let all: HashSet<_> = others.iter().chain([&link]).map(|link| signature(&key, link)).collect();
        assert_eq!(all.len(), others.len() + 1);
        assert_ne!(signature(&[8; KEY_BYTES], &link), signature(&key, &link));
        assert_eq!(signature(&key, &SignedLink { signature: [1; 16], ..link.clone() }), signature(&key, &link));
    }

    #[test]
    fn tokens_differ() {
        let tokens: HashSet<_> = (0..100).map(|_| token_text().expect("random bytes")).collect();
        assert_eq!(tokens.len(), 100);
        assert!(tokens.iter().all(|token| token.len() == TOKEN_PREFIX.len() + 43));
    }
}
