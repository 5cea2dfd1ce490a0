//! Bodies of answers: multistatus, locks, and the elements that name a condition that failed (RFC 4918 §14, §16).
//!
//! Promise: well-formed XML 1.0 whatever names hold. Bodies are made in pieces, so that long ones need not be held.

use crate::lock::{DavLock, LockScope, UnixSeconds};
use crate::xml::{XmlName, escape};

const DECLARATION: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n";

/// A multistatus body.
#[derive(Debug)]
pub struct Multistatus;

/// Properties of one resource that share a status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PropertyStatus {
    /// The status.
    pub status: u16,
    /// The properties, as XML.
    pub properties: String,
}

/// A condition of RFC 4918 §16, RFC 4331 or RFC 3253 that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DavCondition {
    /// The token of the lock at this address has to be submitted.
    LockTokenSubmitted(String),
    /// The lock at this address excludes the requested one.
    NoConflictingLock(String),
    /// The token is not of a lock that covers the resource.
    LockTokenMatchesRequestUri,
    /// `Depth: infinity` is not answered.
    PropfindFiniteDepth,
    /// The server keeps this property itself.
    CannotModifyProtectedProperty,
    /// The body has entities.
    NoExternalEntities,
    /// A quota has no room.
    QuotaNotExceeded,
    /// The disk has no room.
    SufficientDiskSpace,
    /// Something has the name already.
    ResourceMustBeNull,
}

impl DavCondition {
    fn write(&self, text: &mut String) {
        let (name, address) = match self {
            Self::LockTokenSubmitted(address) => ("lock-token-submitted", Some(address)),
            Self::NoConflictingLock(address) => ("no-conflicting-lock", Some(address)),
            Self::LockTokenMatchesRequestUri => ("lock-token-matches-request-uri", None),
            Self::PropfindFiniteDepth => ("propfind-finite-depth", None),
            Self::CannotModifyProtectedProperty => ("cannot-modify-protected-property", None),
            Self::NoExternalEntities => ("no-external-entities", None),
            Self::QuotaNotExceeded => ("quota-not-exceeded", None),
            Self::SufficientDiskSpace => ("sufficient-disk-space", None),
            Self::ResourceMustBeNull => ("resource-must-be-null", None),
        };
        match address {
            Some(address) => {
                text.push_str(&format!("<D:{name}><D:href>"));
                escape(text, address);
                text.push_str(&format!("</D:href></D:{name}>"));
            }
            None => text.push_str(&format!("<D:{name}/>")),
        }
    }
}

impl Multistatus {
    /// Before the first response.
    pub const BEGINNING: &'static str =
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:multistatus xmlns:D=\"DAV:\">\n";
    /// Behind the last response.
    pub const END: &'static str = "</D:multistatus>\n";

    /// The properties of the resource at `address`, which is encoded already.
    pub fn properties(text: &mut String, address: &str, groups: &[PropertyStatus]) {
        begin_response(text, address);
        for group in groups {
            text.push_str("<D:propstat><D:prop>");
            text.push_str(&group.properties);
            text.push_str("</D:prop>");
            status(text, group.status);
            if group.status == 403 {
                text.push_str("<D:error><D:cannot-modify-protected-property/></D:error>");
            }
            text.push_str("</D:propstat>");
        }
        text.push_str("</D:response>\n");
    }

    /// The status of the resource at `address`, which is encoded already.
    pub fn status(text: &mut String, address: &str, code: u16, condition: Option<&DavCondition>) {
        begin_response(text, address);
        status(text, code);
        if let Some(condition) = condition {
            text.push_str("<D:error>");
            condition.write(text);
            text.push_str("</D:error>");
        }
        text.push_str("</D:response>\n");
    }
}

impl PropertyStatus {
    /// No property yet.
    #[must_use]
    pub const fn new(status: u16) -> Self {
        Self { status, properties: String::new() }
    }

    /// Adds a property without a value.
    pub fn name(&mut self, name: &XmlName) {
        crate::xml::XmlElement::new(name.clone()).write(&mut self.properties);
    }

    /// Adds a property of WebDAV with characters as its value.
    pub fn text(&mut self, local: &str, value: &str) {
        self.properties.push_str(&format!("<D:{local}>"));
        escape(&mut self.properties, value);
        self.properties.push_str(&format!("</D:{local}>"));
    }
}

fn begin_response(text: &mut String, address: &str) {
    text.push_str("<D:response><D:href>");
    escape(text, address);
    text.push_str("</D:href>");
}

fn status(text: &mut String, status: u16) {
    let reason = match status {
        200 => "OK",
        403 => "Forbidden",
        404 => "Not Found",
        409 => "Conflict",
        412 => "Precondition Failed",
        423 => "Locked",
        424 => "Failed Dependency",
        507 => "Insufficient Storage",
        _ => "",
    };
    text.push_str(&format!("<D:status>HTTP/1.1 {status} {reason}</D:status>"));
}

/// The body of an answer that names the condition that failed, and says why.
#[must_use]
pub fn error_body(condition: &DavCondition, detail: &str) -> String {
    let mut text = format!("{DECLARATION}<D:error xmlns:D=\"DAV:\">");
    condition.write(&mut text);
    text.push_str("<D:responsedescription>");
    escape(&mut text, detail);
    text.push_str("</D:responsedescription></D:error>\n");
    text
}

/// The body of an answer with one property.
#[must_use]
pub fn prop_body(property: &str) -> String {
    format!("{DECLARATION}<D:prop xmlns:D=\"DAV:\">{property}</D:prop>\n")
}

/// The property of the locks on a resource; `address` gives the encoded address of a path.
#[must_use]
pub fn lock_discovery<'a>(
    locks: impl Iterator<Item = &'a DavLock>,
    now: UnixSeconds,
    address: impl Fn(&str) -> String,
) -> String {
    let mut text = String::from("<D:lockdiscovery>");
    for lock in locks {
        let scope = if lock.scope == LockScope::Exclusive { "exclusive" } else { "shared" };
        let depth = if lock.is_deep { "infinity" } else { "0" };
        text.push_str(&format!(
            "<D:activelock><D:locktype><D:write/></D:locktype><D:lockscope><D:{scope}/></D:lockscope><D:depth>{depth}</D:depth>"
        ));
        if let Some(owner) = &lock.owner {
            owner.write(&mut text);
        }
        let left = lock.expires.0.saturating_sub(now.0);
        text.push_str(&format!("<D:timeout>Second-{left}</D:timeout><D:locktoken><D:href>"));
        escape(&mut text, &lock.token);
        text.push_str("</D:href></D:locktoken><D:lockroot><D:href>");
        escape(&mut text, &address(&lock.root));
        text.push_str("</D:href></D:lockroot></D:activelock>");
    }
    text.push_str("</D:lockdiscovery>");
    text
}

/// The property of the locks that can be had.
#[must_use]
pub fn supported_lock() -> String {
    let entry = |scope| {
        format!("<D:lockentry><D:lockscope><D:{scope}/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockentry>")
    };
    format!("<D:supportedlock>{}{}</D:supportedlock>", entry("exclusive"), entry("shared"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xml::XmlElement;

    #[test]
    fn a_multistatus_is_well_formed_whatever_names_hold() {
        let mut text = Multistatus::BEGINNING.to_owned();
        let mut found = PropertyStatus::new(200);
        found.text("displayname", "a<b>&\u{1}\u{ffff}");
        let mut missing = PropertyStatus::new(404);
        missing.name(&XmlName { namespace: "u:\"&".to_owned(), local: "x".to_owned() });
        Multistatus::properties(&mut text, "/media/a%3Cb", &[found, missing]);
        Multistatus::status(&mut text, "/media/b", 423, Some(&DavCondition::LockTokenSubmitted("/media/b".to_owned())));
        text.push_str(Multistatus::END);
        let root = XmlElement::parse(text.as_bytes()).unwrap();
        assert_eq!(root.elements().count(), 2);
        assert!(text.contains("<D:displayname>a&lt;b&gt;&amp;\u{fffd}\u{fffd}</D:displayname>"), "{text}");
        assert!(text.contains("HTTP/1.1 423 Locked"), "{text}");
    }

    #[test]
    fn locks_and_conditions() {
        let lock = DavLock {
            token: "urn:uuid:1".to_owned(),
            root: "a".to_owned(),
            scope: LockScope::Shared,
            is_deep: true,
            owner: Some(XmlElement::new(XmlName::dav("owner"))),
            holder: None,
            seconds: 10,
            expires: UnixSeconds(17),
        };
        let text = prop_body(&lock_discovery([&lock].into_iter(), UnixSeconds(10), |path| format!("/media/{path}")));
        let active = XmlElement::parse(text.as_bytes()).unwrap();
        let active = active.dav("lockdiscovery").unwrap().dav("activelock").unwrap();
        assert!(active.dav("owner").is_some() && active.dav("lockscope").unwrap().dav("shared").is_some());
        assert!(text.contains("Second-7") && text.contains("<D:href>/media/a</D:href>"), "{text}");
        assert!(XmlElement::parse(prop_body(&supported_lock()).as_bytes()).is_ok());
        let error = error_body(&DavCondition::PropfindFiniteDepth, "name <1>");
        assert!(XmlElement::parse(error.as_bytes()).unwrap().dav("propfind-finite-depth").is_some());
        assert!(error.contains("name &lt;1&gt;</D:responsedescription>"), "{error}");
    }
}
