//! XML as a tree, read and written within bounds.
//!
//! Promise: a document of at most [`BODY_BYTES_MAX`] bytes, [`ELEMENTS_MAX`] elements and [`DEPTH_MAX`] levels; no document type, so no
//! entities but the five of XML; each name has its namespace. A written element means the same wherever it stands.

use quick_xml::XmlVersion;
use quick_xml::escape::{resolve_xml_entity, unescape};
use quick_xml::events::{BytesStart, Event};
use quick_xml::name::{Namespace, NamespaceResolver, PrefixDeclaration, ResolveResult};
use quick_xml::reader::NsReader;
use serde::{Deserialize, Serialize};

/// The namespace of WebDAV.
pub const DAV: &str = "DAV:";
/// Longest body of a request.
pub const BODY_BYTES_MAX: usize = 64 * 1024;
/// Most elements of a document.
const ELEMENTS_MAX: usize = 1024;
/// Most levels of a document.
const DEPTH_MAX: usize = 16;
/// Most attributes of an element.
const ATTRIBUTES_MAX: usize = 16;
/// Longest name, and longest name of a namespace.
const NAME_BYTES_MAX: usize = 512;
const XML_NAMESPACE: &str = "http://www.w3.org/XML/1998/namespace";

/// Reason for the refusal of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum XmlError {
    /// Longer than [`BODY_BYTES_MAX`], or more or deeper elements than a request has use for.
    #[error(
        "the body has more than 64 KiB, 1024 elements, 16 levels, 16 attributes at an element or 512 bytes in a name"
    )]
    TooLarge,
    /// Not well-formed XML in UTF-8.
    #[error("the body is no well-formed XML in UTF-8")]
    Malformed,
    /// A document type or an entity of one.
    #[error("the body has a document type or an entity, which are not read here")]
    Entity,
    /// Another element than the method takes, or one of its parts is missing.
    #[error("the body is not the XML element that this method takes (RFC 4918 §14)")]
    Unexpected,
}

/// A name with its namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct XmlName {
    /// Empty: in none.
    pub namespace: String,
    /// Without a prefix.
    pub local: String,
}

/// An element.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct XmlElement {
    /// Its name.
    pub name: XmlName,
    /// Its attributes but for declarations of namespaces.
    pub attributes: Vec<(XmlName, String)>,
    /// Its content.
    pub children: Vec<XmlNode>,
}

/// A part of an element's content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum XmlNode {
    /// An element.
    Element(XmlElement),
    /// Characters.
    Text(String),
}

impl XmlName {
    /// A name in the namespace of WebDAV.
    #[must_use]
    pub fn dav(local: &str) -> Self {
        Self { namespace: DAV.to_owned(), local: local.to_owned() }
    }

    /// True for this name in the namespace of WebDAV.
    #[must_use]
    pub fn is_dav(&self, local: &str) -> bool {
        self.namespace == DAV && self.local == local
    }
}

impl XmlElement {
    /// An empty element.
    #[must_use]
    pub const fn new(name: XmlName) -> Self {
        Self { name, attributes: Vec::new(), children: Vec::new() }
    }

    /// Reads a document.
    ///
    /// # Errors
    /// The fault of the document.
    pub fn parse(bytes: &[u8]) -> Result<Self, XmlError> {
        if bytes.len() > BODY_BYTES_MAX {
            return Err(XmlError::TooLarge);
        }
        let text = std::str::from_utf8(bytes).map_err(|_| XmlError::Malformed)?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if !text.chars().all(is_xml_char) {
            return Err(XmlError::Malformed);
        }
        let mut reader = NsReader::from_str(text);
        let mut tree = OpenElements::default();
        loop {
            match reader.read_event().map_err(|_| XmlError::Malformed)? {
                Event::Start(start) => tree.open(element(&start, reader.resolver())?)?,
                Event::Empty(start) => {
                    tree.open(element(&start, reader.resolver())?)?;
                    tree.close()?;
                }
                Event::End(_) => tree.close()?,
                Event::Text(text) => tree.text(&text.xml_content(XmlVersion::Implicit1_0))?,
                Event::CData(text) => tree.text(&text.xml_content(XmlVersion::Implicit1_0))?,
                Event::GeneralRef(reference) => match reference.resolve_char_ref() {
                    Ok(Some(char)) if is_xml_char(char) => tree.text(char.encode_utf8(&mut [0; 4]))?,
                    Ok(Some(_)) | Err(_) => return Err(XmlError::Malformed),
                    Ok(None) => {
                        let known = resolve_xml_entity(&reference.xml_content(XmlVersion::Implicit1_0));
                        tree.text(known.ok_or(XmlError::Entity)?)?;
                    }
                },
                Event::DocType(_) => return Err(XmlError::Entity),
                Event::Comment(_) | Event::PI(_) | Event::Decl(_) => {}
                Event::Eof => return tree.end(),
            }
        }
    }

    /// The elements in it.
    pub fn elements(&self) -> impl Iterator<Item = &Self> {
        self.children.iter().filter_map(|child| match child {
            XmlNode::Element(element) => Some(element),
            XmlNode::Text(_) => None,
        })
    }

    /// The first element of this name of WebDAV in it.
    #[must_use]
    pub fn dav(&self, local: &str) -> Option<&Self> {
        self.elements().find(|element| element.name.is_dav(local))
    }

    /// Writes it, with all declarations of namespaces that it needs.
    pub fn write(&self, text: &mut String) {
        write_tag(text, &self.name, |text| {
            for (number, (name, value)) in self.attributes.iter().enumerate() {
                if name.namespace == XML_NAMESPACE {
                    text.push_str(&format!(" xml:{}=\"", name.local));
                } else if name.namespace.is_empty() {
                    text.push_str(&format!(" {}=\"", name.local));
                } else {
                    text.push_str(&format!(" xmlns:a{number}=\""));
                    escape(text, &name.namespace);
                    text.push_str(&format!("\" a{number}:{}=\"", name.local));
                }
                escape(text, value);
                text.push('"');
            }
        });
        if self.children.is_empty() {
            text.insert(text.len() - 1, '/');
            return;
        }
        for child in &self.children {
            match child {
                XmlNode::Element(element) => element.write(text),
                XmlNode::Text(characters) => escape(text, characters),
            }
        }
        write_end(text, &self.name);
    }

    /// Bytes that it holds.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let of_name = |name: &XmlName| name.namespace.len() + name.local.len();
        let attributes = self.attributes.iter().map(|(name, value)| of_name(name) + value.len()).sum::<usize>();
        let children = self.children.iter().map(|child| match child {
            XmlNode::Element(element) => element.bytes(),
            XmlNode::Text(text) => text.len(),
        });
        size_of::<Self>() + of_name(&self.name) + attributes + children.sum::<usize>()
    }
}

/// Writes the start tag of `name`, with its attributes by `attributes`.
fn write_tag(text: &mut String, name: &XmlName, attributes: impl FnOnce(&mut String)) {
    if name.namespace == DAV {
        text.push_str("<D:");
        text.push_str(&name.local);
    } else {
        text.push('<');
        text.push_str(&name.local);
        text.push_str(" xmlns=\"");
        escape(text, &name.namespace);
        text.push('"');
    }
    attributes(text);
    text.push('>');
}

fn write_end(text: &mut String, name: &XmlName) {
    text.push_str(if name.namespace == DAV { "</D:" } else { "</" });
    text.push_str(&name.local);
    text.push('>');
}

/// Writes characters; those that XML 1.0 does not know become U+FFFD.
pub(crate) fn escape(text: &mut String, characters: &str) {
    for char in characters.chars() {
        match char {
            '&' => text.push_str("&amp;"),
            '<' => text.push_str("&lt;"),
            '>' => text.push_str("&gt;"),
            '"' => text.push_str("&quot;"),
            '\r' => text.push_str("&#13;"),
            char if is_xml_char(char) => text.push(char),
            _ => text.push('\u{fffd}'),
        }
    }
}

/// `Char` of XML 1.0 §2.2.
const fn is_xml_char(char: char) -> bool {
    matches!(char, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..)
}

/// The open elements, and the complete one.
#[derive(Default)]
struct OpenElements {
    open: Vec<XmlElement>,
    root: Option<XmlElement>,
    elements: usize,
}

impl OpenElements {
    fn open(&mut self, element: XmlElement) -> Result<(), XmlError> {
        self.elements += 1;
        if self.elements > ELEMENTS_MAX || self.open.len() >= DEPTH_MAX {
            return Err(XmlError::TooLarge);
        }
        if self.root.is_some() {
            return Err(XmlError::Malformed);
        }
        self.open.push(element);
        Ok(())
    }

    fn close(&mut self) -> Result<(), XmlError> {
        let element = self.open.pop().ok_or(XmlError::Malformed)?;
        match self.open.last_mut() {
            Some(parent) => parent.children.push(XmlNode::Element(element)),
            None => self.root = Some(element),
        }
        Ok(())
    }

    fn text(&mut self, characters: &str) -> Result<(), XmlError> {
        match self.open.last_mut() {
            Some(parent) => match parent.children.last_mut() {
                Some(XmlNode::Text(text)) => text.push_str(characters),
                _ if characters.is_empty() => {}
                _ => parent.children.push(XmlNode::Text(characters.to_owned())),
            },
            None if characters.trim_ascii().is_empty() => {}
            None => return Err(XmlError::Malformed),
        }
        Ok(())
    }

    fn end(self) -> Result<XmlElement, XmlError> {
        self.root.filter(|_| self.open.is_empty()).ok_or(XmlError::Malformed)
    }
}

/// The element of a start tag.
fn element(start: &BytesStart<'_>, resolver: &NamespaceResolver) -> Result<XmlElement, XmlError> {
    let (namespace, local) = resolver.resolve_element(start.name());
    let mut element = XmlElement::new(xml_name(&namespace, local.as_ref())?);
    for (number, attribute) in start.attributes().enumerate() {
        let attribute = attribute.map_err(|_| XmlError::Malformed)?;
        if number >= ATTRIBUTES_MAX {
            return Err(XmlError::TooLarge);
        }
        let value = attribute.normalized_value(XmlVersion::Implicit1_0).map_err(|_| XmlError::Malformed)?;
        if !value.chars().all(is_xml_char) {
            return Err(XmlError::Malformed);
        }
        if let Some(declared) = attribute.key.as_namespace_binding() {
            // A prefix stands for a namespace that has a name (XML names 1.0 §2.2).
            let is_default = matches!(declared, PrefixDeclaration::Default);
            if value.len() > NAME_BYTES_MAX {
                return Err(XmlError::TooLarge);
            }
            if value.is_empty() && !is_default {
                return Err(XmlError::Malformed);
            }
            continue;
        }
        let (namespace, local) = resolver.resolve_attribute(attribute.key);
        element.attributes.push((xml_name(&namespace, local.as_ref())?, value.into_owned()));
    }
    Ok(element)
}

fn xml_name(namespace: &ResolveResult<'_>, local: &str) -> Result<XmlName, XmlError> {
    let namespace = match namespace {
        ResolveResult::Bound(Namespace(name)) => {
            let known = unescape(name).map_err(|_| XmlError::Malformed)?.into_owned();
            if known.chars().all(is_xml_char) { known } else { return Err(XmlError::Malformed) }
        }
        ResolveResult::Unbound => String::new(),
        ResolveResult::Unknown(_) => return Err(XmlError::Malformed),
    };
    if namespace.len() > NAME_BYTES_MAX || local.len() > NAME_BYTES_MAX {
        return Err(XmlError::TooLarge);
    }
    let mut chars = local.chars();
    let is_name = chars.next().is_some_and(begins_name) && chars.all(is_in_name);
    if is_name { Ok(XmlName { namespace, local: local.to_owned() }) } else { Err(XmlError::Malformed) }
}

/// `NameStartChar` of XML 1.0 §2.3, without the colon.
const fn begins_name(char: char) -> bool {
    matches!(char,
        'A'..='Z' | '_' | 'a'..='z' | '\u{c0}'..='\u{d6}' | '\u{d8}'..='\u{f6}' | '\u{f8}'..='\u{2ff}' | '\u{370}'..='\u{37d}'
        | '\u{37f}'..='\u{1fff}' | '\u{200c}'..='\u{200d}' | '\u{2070}'..='\u{218f}' | '\u{2c00}'..='\u{2fef}'
        | '\u{3001}'..='\u{d7ff}' | '\u{f900}'..='\u{fdcf}' | '\u{fdf0}'..='\u{fffd}' | '\u{10000}'..='\u{effff}')
}

/// `NameChar` of XML 1.0 §2.3, without the colon.
const fn is_in_name(char: char) -> bool {
    begins_name(char)
        || matches!(char, '-' | '.' | '0'..='9' | '\u{b7}' | '\u{300}'..='\u{36f}' | '\u{203f}'..='\u{2040}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(element: &XmlElement) -> String {
        let mut text = String::new();
        element.write(&mut text);
        text
    }

    #[test]
    fn a_document_has_its_names_and_text() {
        let text = "<?xml version=\"1.0\"?>\n<D:a xmlns:D=\"DAV:\"><b xmlns='u:&amp;' xml:lang='de' D:c='1' d='&lt;'>x&amp;&#65;<![CDATA[<y>]]></b><D:e/></D:a>\n";
        let root = XmlElement::parse(text.as_bytes()).unwrap();
        assert!(root.name.is_dav("a") && root.dav("e").is_some() && root.dav("b").is_none());
        let b = root.elements().next().unwrap();
        assert_eq!((b.name.namespace.as_str(), b.name.local.as_str()), ("u:&", "b"));
        assert_eq!(b.children, [XmlNode::Text("x&A<y>".to_owned())]);
        assert_eq!(b.attributes.len(), 3);
        let text = written(b);
        assert_eq!(
            text,
            "<b xmlns=\"u:&amp;\" xml:lang=\"de\" xmlns:a1=\"DAV:\" a1:c=\"1\" d=\"&lt;\">x&amp;A&lt;y&gt;</b>"
        );
        assert_eq!(XmlElement::parse(text.as_bytes()).as_ref(), Ok(b));
    }

    #[test]
    fn faults_are_refused() {
        let deep = "<a>".repeat(17) + &"</a>".repeat(17);
        let wide = format!("<a>{}</a>", "<b/>".repeat(1024));
        let long = format!("<a>{}</a>", "x".repeat(BODY_BYTES_MAX));
        let named = format!("<{}/>", "n".repeat(513));
        for (text, error) in [
            ("", XmlError::Malformed),
            ("x", XmlError::Malformed),
            ("<a>", XmlError::Malformed),
            ("<a></b>", XmlError::Malformed),
            ("<a/><b/>", XmlError::Malformed),
            ("<a b=\"1\" b=\"2\"/>", XmlError::Malformed),
            ("<p:a/>", XmlError::Malformed),
            ("<a xmlns:p=\"\"/>", XmlError::Malformed),
            ("<a>\u{1}</a>", XmlError::Malformed),
            ("<a>&#1;</a>", XmlError::Malformed),
            ("<1/>", XmlError::Malformed),
            ("<a>&b;</a>", XmlError::Entity),
            ("<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>", XmlError::Entity),
            (&deep, XmlError::TooLarge),
            (&wide, XmlError::TooLarge),
            (&long, XmlError::TooLarge),
            (&named, XmlError::TooLarge),
        ] {
            assert_eq!(XmlElement::parse(text.as_bytes()), Err(error), "{text:.60}");
        }
        assert_eq!(XmlElement::parse(b"<a>\xff</a>"), Err(XmlError::Malformed));
    }

    proptest! {
        /// An element that was read is written so that it reads the same.
        #[test]
        fn an_element_is_read_as_it_was_written(parts in prop::collection::vec(prop::sample::select(vec![
            "<a>", "</a>", "<b xmlns=\"u\">", "</b>", "<p:c xmlns:p=\"v\" p:x=\"&quot;\"/>", "t", "&amp;", "\r\n", "<![CDATA[]]>", "é",
        ]), 0..12)) {
            if let Ok(element) = XmlElement::parse(format!("<r>{}</r>", parts.concat()).as_bytes()) {
                prop_assert_eq!(XmlElement::parse(written(&element).as_bytes()), Ok(element));
            }
        }
    }
}
