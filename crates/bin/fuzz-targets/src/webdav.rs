//! Bodies and fields of WebDAV: any bytes give an answer, an element that was read is written as the same one, and locks that exclude
//! each other never lie on one resource.

use webdav::{
    DavLock, IfField, LockScope, LockTable, Submitted, UnixSeconds, XmlElement, depth, destination, lock_body,
    propfind_body, proppatch_body, timeout_seconds, unlock_token,
};

const PATHS: [&str; 8] = ["", "a", "a/b", "a/b/c", "a/d", "ab", "e", "e/f"];

/// Bodies of requests.
pub fn body(bytes: &[u8]) {
    let _ = (propfind_body(bytes), proppatch_body(bytes), lock_body(bytes));
    if let Ok(element) = XmlElement::parse(bytes) {
        let mut text = String::new();
        element.write(&mut text);
        let wrapped = format!("<r xmlns:D=\"DAV:\">{text}</r>");
        match XmlElement::parse(wrapped.as_bytes()) {
            Ok(again) => assert_eq!(again.elements().next(), Some(&element)),
            // One level more, and longer by its declarations.
            Err(error) => assert_eq!(error, webdav::XmlError::TooLarge),
        }
    }
}

/// Header fields.
pub fn fields(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = (destination(&text), unlock_token(Some(&text)));
    assert!(depth(Some(&text)) != Ok(None) && (1..=3600).contains(&timeout_seconds(Some(&text))));
    if let Ok(field) = IfField::parse(&text) {
        assert!(!field.lists.is_empty() && field.lists.iter().all(|list| !list.conditions.is_empty()));
        let all = field.holds(|_, _| true);
        assert!(all || text.to_ascii_lowercase().contains("not"));
        let _ = field.tokens().count();
    }
}

/// Orders to the table of locks.
pub fn locks(bytes: &[u8]) {
    let mut table = LockTable::default();
    for (number, order) in bytes.iter().enumerate() {
        let path = PATHS[usize::from(order & 7)];
        let scope = if order & 8 == 0 { LockScope::Exclusive } else { LockScope::Shared };
        let is_deep = order & 16 != 0;
        let lock = DavLock {
            token: format!("t:{number}"),
            root: path.to_owned(),
            scope,
            is_deep,
            owner: None,
            holder: (order & 32 != 0).then(|| "ada".to_owned()),
            seconds: 1,
            expires: UnixSeconds(u64::try_from(number).expect("short") + 9),
        };
        match order >> 6 {
            0 => table.remove_tree(path),
            1 => table.expire(UnixSeconds(u64::try_from(number).expect("short"))),
            _ => {
                let token = [lock.token.as_str()];
                let submitted = Submitted { tokens: &token, holder: lock.holder.as_deref() };
                if table.add(lock.clone()).is_ok() {
                    assert_eq!(table.may_change(path, is_deep, submitted), Ok(()));
                    assert!(table.may_change(path, true, Submitted { tokens: &[], holder: None }).is_err());
                }
            }
        }
        for path in PATHS {
            let covering: Vec<_> = table.covering(path).collect();
            assert!(covering.len() < 2 || covering.iter().all(|lock| lock.scope == LockScope::Shared));
        }
    }
}
