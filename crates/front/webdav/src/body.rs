//! Bodies of PROPFIND, PROPPATCH and LOCK.

use crate::lock::LockScope;
use crate::xml::{XmlElement, XmlError, XmlName};

/// Properties that a PROPFIND asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PropertyWish {
    /// All, and these.
    All(Vec<XmlName>),
    /// The names of all.
    Names,
    /// These.
    Some(Vec<XmlName>),
}

/// One change of a PROPPATCH, in its order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PropertyChange {
    /// The property gets this value.
    Set(XmlElement),
    /// It goes.
    Remove(XmlName),
}

/// A LOCK that makes a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockWish {
    /// Exclusive or shared.
    pub scope: LockScope,
    /// The client's words on itself.
    pub owner: Option<XmlElement>,
}

/// Reads the body of a PROPFIND; an empty one asks for all.
///
/// # Errors
/// It is none of a PROPFIND.
pub fn propfind_body(bytes: &[u8]) -> Result<PropertyWish, XmlError> {
    if bytes.is_empty() {
        return Ok(PropertyWish::All(Vec::new()));
    }
    let root = root(bytes, "propfind")?;
    let names = |element: &XmlElement| element.elements().map(|one| one.name.clone()).collect();
    match (root.dav("prop"), root.dav("propname"), root.dav("allprop")) {
        (Some(prop), None, None) => Ok(PropertyWish::Some(names(prop))),
        (None, Some(_), None) => Ok(PropertyWish::Names),
        (None, None, Some(_)) => Ok(PropertyWish::All(root.dav("include").map(names).unwrap_or_default())),
        _ => Err(XmlError::Unexpected),
    }
}

/// Reads the body of a PROPPATCH.
///
/// # Errors
/// It is none of a PROPPATCH.
pub fn proppatch_body(bytes: &[u8]) -> Result<Vec<PropertyChange>, XmlError> {
    let root = root(bytes, "propertyupdate")?;
    let mut changes = Vec::new();
    for update in root.elements() {
        let is_set = update.name.is_dav("set");
        if !is_set && !update.name.is_dav("remove") {
            continue;
        }
        let language = update.attributes.iter().chain(&root.attributes).find(|(name, _)| name.local == "lang").cloned();
        for property in update.dav("prop").ok_or(XmlError::Unexpected)?.elements() {
            changes.push(if is_set {
                let mut property = property.clone();
                // A language that was given further out belongs to the value (RFC 4918 §4.3).
                if let Some(language) = language.clone()
                    && property.attributes.iter().all(|(name, _)| *name != language.0)
                {
                    property.attributes.push(language);
                }
                PropertyChange::Set(property)
            } else {
                PropertyChange::Remove(property.name.clone())
            });
        }
    }
    if changes.is_empty() { Err(XmlError::Unexpected) } else { Ok(changes) }
}

/// Reads the body of a LOCK; none: the lock is to be refreshed.
///
/// # Errors
/// It is none of a LOCK, or wants another lock than one for writing.
pub fn lock_body(bytes: &[u8]) -> Result<Option<LockWish>, XmlError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let root = root(bytes, "lockinfo")?;
    let scope = root.dav("lockscope").ok_or(XmlError::Unexpected)?;
    let scope = match (scope.dav("exclusive"), scope.dav("shared")) {
        (Some(_), None) => LockScope::Exclusive,
        (None, Some(_)) => LockScope::Shared,
        _ => return Err(XmlError::Unexpected),
    };
    root.dav("locktype").and_then(|kind| kind.dav("write")).ok_or(XmlError::Unexpected)?;
    Ok(Some(LockWish { scope, owner: root.dav("owner").cloned() }))
}

fn root(bytes: &[u8], name: &str) -> Result<XmlElement, XmlError> {
    let root = XmlElement::parse(bytes)?;
    if root.name.is_dav(name) { Ok(root) } else { Err(XmlError::Unexpected) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(namespace: &str, local: &str) -> XmlName {
        XmlName { namespace: namespace.to_owned(), local: local.to_owned() }
    }

    #[test]
    fn a_propfind() {
        let wish = |inner: &str| propfind_body(format!("<propfind xmlns=\"DAV:\">{inner}</propfind>").as_bytes());
        assert_eq!(propfind_body(b""), Ok(PropertyWish::All(vec![])));
        assert_eq!(wish("<allprop/>"), Ok(PropertyWish::All(vec![])));
        assert_eq!(wish("<allprop/><include><a xmlns=\"\"/></include>"), Ok(PropertyWish::All(vec![name("", "a")])));
        assert_eq!(wish("<propname/>"), Ok(PropertyWish::Names));
        assert_eq!(
            wish("<prop><getetag/><x xmlns=\"u\"/></prop>"),
            Ok(PropertyWish::Some(vec![XmlName::dav("getetag"), name("u", "x")]))
        );
        for inner in ["", "<prop/><propname/>", "<p/>"] {
            assert_eq!(wish(inner), Err(XmlError::Unexpected), "{inner}");
        }
        assert_eq!(propfind_body(b"<propfind/>"), Err(XmlError::Unexpected), "in no namespace");
    }

    #[test]
    fn a_proppatch_keeps_its_order_and_its_language() {
        let text =
            b"<D:propertyupdate xmlns:D=\"DAV:\" xmlns=\"u\"><D:set xml:lang=\"fr\"><D:prop><a>1</a></D:prop></D:set>\
            <D:remove><D:prop><a/><b/></D:prop></D:remove><other/></D:propertyupdate>";
        let changes = proppatch_body(text).unwrap();
        let [PropertyChange::Set(a), PropertyChange::Remove(again), PropertyChange::Remove(b)] = &changes[..] else {
            panic!("{changes:?}")
        };
        assert_eq!((&a.name, again, b), (&name("u", "a"), &name("u", "a"), &name("u", "b")));
        assert_eq!(a.attributes[0].1, "fr");
        for text in
            ["<D:propertyupdate xmlns:D=\"DAV:\"/>", "<D:propertyupdate xmlns:D=\"DAV:\"><D:set/></D:propertyupdate>"]
        {
            assert_eq!(proppatch_body(text.as_bytes()), Err(XmlError::Unexpected), "{text}");
        }
    }

    #[test]
    fn a_lock() {
        let wish = |scope: &str, kind: &str| {
            let text = format!(
                "<lockinfo xmlns=\"DAV:\"><lockscope>{scope}</lockscope><locktype>{kind}</locktype><owner>ada</owner></lockinfo>"
            );
            lock_body(text.as_bytes())
        };
        let shared = wish("<shared/>", "<write/>").unwrap().unwrap();
        assert_eq!((shared.scope, shared.owner.unwrap().children.len()), (LockScope::Shared, 1));
        assert_eq!(wish("<exclusive/>", "<write/>").unwrap().unwrap().scope, LockScope::Exclusive);
        assert_eq!(lock_body(b""), Ok(None));
        for (scope, kind) in [("", "<write/>"), ("<exclusive/><shared/>", "<write/>"), ("<shared/>", "<read/>")] {
            assert_eq!(wish(scope, kind), Err(XmlError::Unexpected));
        }
    }
}
