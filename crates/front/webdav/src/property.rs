//! Dead properties: values that clients give resources, kept as they came.
//!
//! Promise: at most [`PROPERTY_BYTES_MAX`] bytes of one resource and [`TOTAL_BYTES_MAX`] of all; a PROPPATCH is done in full or not at
//! all.

use std::collections::BTreeMap;

use crate::body::PropertyChange;
use crate::path::{is_below, moved_path, range_below};
use crate::xml::{XmlElement, XmlName};

/// Most bytes of the properties of one resource.
pub const PROPERTY_BYTES_MAX: usize = 64 * 1024;
/// Most bytes of all properties.
pub(crate) const TOTAL_BYTES_MAX: usize = 64 << 20;

/// Reason for which a property is not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PropertyError {
    /// More than [`PROPERTY_BYTES_MAX`], or all together more than [`TOTAL_BYTES_MAX`].
    #[error("the properties have more than 64 KiB, or those of all contents more than 64 MiB")]
    TooLarge,
}

/// The properties of all resources, by path.
#[derive(Debug, Default)]
pub struct DeadProperties {
    by_path: BTreeMap<String, Vec<XmlElement>>,
    bytes: usize,
}

impl DeadProperties {
    /// Those of the resource at `path`.
    #[must_use]
    pub fn of(&self, path: &str) -> &[XmlElement] {
        self.by_path.get(path).map_or(&[], Vec::as_slice)
    }

    /// The property of this name.
    #[must_use]
    pub fn find(&self, path: &str, name: &XmlName) -> Option<&XmlElement> {
        self.of(path).iter().find(|property| property.name == *name)
    }

    /// Those that the resource at `path` has after `changes`.
    ///
    /// # Errors
    /// They are too large.
    pub fn changed(&self, path: &str, changes: &[PropertyChange]) -> Result<Vec<XmlElement>, PropertyError> {
        let mut properties = self.of(path).to_vec();
        for change in changes {
            let (PropertyChange::Set(XmlElement { name, .. }) | PropertyChange::Remove(name)) = change;
            properties.retain(|property| property.name != *name);
            if let PropertyChange::Set(property) = change {
                properties.push(property.clone());
            }
        }
        let bytes = bytes_of(path, &properties);
        let others = self.bytes - self.by_path.get(path).map_or(0, |properties| bytes_of(path, properties));
        if bytes > PROPERTY_BYTES_MAX || others + bytes > TOTAL_BYTES_MAX {
            return Err(PropertyError::TooLarge);
        }
        Ok(properties)
    }

    /// Puts `properties` in the place of those that the resource at `path` has; none beyond [`TOTAL_BYTES_MAX`].
    pub fn set(&mut self, path: &str, properties: Vec<XmlElement>) {
        self.remove(path);
        let bytes = bytes_of(path, &properties);
        if !properties.is_empty() && self.bytes + bytes <= TOTAL_BYTES_MAX {
            self.bytes += bytes;
            self.by_path.insert(path.to_owned(), properties);
        }
    }

    fn remove(&mut self, path: &str) -> Vec<XmlElement> {
        let removed = self.by_path.remove(path);
        self.bytes -= removed.as_ref().map_or(0, |properties| bytes_of(path, properties));
        removed.unwrap_or_default()
    }

    /// Removes those of `path` and of all below it.
    pub fn remove_tree(&mut self, path: &str) {
        self.tree(path).iter().for_each(|path| drop(self.remove(path)));
    }

    /// The resource at `from`, with all below it, is at `to` now.
    pub fn move_tree(&mut self, from: &str, to: &str) {
        self.remove_tree(to);
        for path in self.tree(from) {
            let properties = self.remove(&path);
            self.set(&moved_path(&path, from, to), properties);
        }
    }

    /// The resource at `from`, if `is_deep` with all below it, is at `to` as well.
    pub fn copy_tree(&mut self, from: &str, to: &str, is_deep: bool) {
        self.remove_tree(to);
        for path in self.tree(from) {
            if is_deep || path == from {
                self.set(&moved_path(&path, from, to), self.of(&path).to_vec());
            }
        }
    }

    /// True if the resource at `path`, or one below it, has properties.
    pub(crate) fn has_below(&self, path: &str) -> bool {
        self.by_path.contains_key(path) || self.by_path.range(range_below(path)).next().is_some()
    }

    /// The paths with properties, of `path` and all below it.
    fn tree(&self, path: &str) -> Vec<String> {
        let own = self.by_path.get_key_value(path).map(|(path, _)| path);
        let below = self.by_path.range(range_below(path)).map(|(path, _)| path);
        own.into_iter().chain(below).filter(|found| is_below(found, path)).cloned().collect()
    }

    /// All paths with their properties.
    pub fn all(&self) -> impl Iterator<Item = (&str, &[XmlElement])> {
        self.by_path.iter().map(|(path, properties)| (path.as_str(), properties.as_slice()))
    }
}

fn bytes_of(path: &str, properties: &[XmlElement]) -> usize {
    path.len() + properties.iter().map(XmlElement::bytes).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xml::XmlNode;

    fn property(local: &str, text: &str) -> XmlElement {
        let mut element = XmlElement::new(XmlName { namespace: "u".to_owned(), local: local.to_owned() });
        element.children.push(XmlNode::Text(text.to_owned()));
        element
    }

    #[test]
    fn changes_are_made_in_their_order() {
        let mut properties = DeadProperties::default();
        properties.set("a", vec![property("x", "1"), property("y", "1")]);
        let (x, z) = (property("x", "2"), property("z", "1"));
        let changes = [PropertyChange::Set(x.clone()), PropertyChange::Set(z.clone()), PropertyChange::Remove(z.name)];
        assert_eq!(properties.changed("a", &changes).unwrap(), [property("y", "1"), x]);
        let long = PropertyChange::Set(property("x", &"x".repeat(PROPERTY_BYTES_MAX)));
        assert_eq!(properties.changed("a", &[long]), Err(PropertyError::TooLarge));
    }

    #[test]
    fn they_follow_their_resources() {
        let mut properties = DeadProperties::default();
        for path in ["a", "a/b", "ab", "c", "c/old"] {
            properties.set(path, vec![property(&path.replace('/', "-"), "1")]);
        }
        properties.copy_tree("a", "d", false);
        properties.move_tree("a", "c");
        let paths: Vec<_> =
            properties.all().map(|(path, properties)| (path, properties[0].name.local.as_str())).collect();
        assert_eq!(paths, [("ab", "ab"), ("c", "a"), ("c/b", "a-b"), ("d", "a")]);
        properties.remove_tree("");
        assert_eq!((properties.bytes, properties.all().count()), (0, 0));
    }
}
