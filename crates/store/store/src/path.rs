//! Names of contents: a path below the roots that cannot name anything else.
//!
//! Promise: a [`ContentPath`] has no empty component, `.`, `..`, NUL or `/` inside a component, is bounded, and names no
//! temporary of the store. Not here: symbolic links (`beneath` keeps them inside the root).

use std::borrow::Cow;
use std::fmt;

use percent_encoding::percent_decode_str;
use storage::leftover;

use crate::hidden::next_hidden_name;

/// Components of a path at most.
pub const COMPONENTS_MAX: usize = 64;

/// Bytes of a component at most (the limit of the usual file systems).
pub const COMPONENT_BYTES_MAX: usize = 255;

/// Reason for which a path was not understood. Fit to be shown to a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// After decoding, a name is not UTF-8.
    #[error("a name is not UTF-8")]
    NotUtf8,
    /// A `%` is not followed by two hexadecimal digits.
    #[error("a % in the path is not followed by two hexadecimal digits")]
    BadEscape,
    /// Two slashes in a row.
    #[error("the path has an empty name (two slashes in a row)")]
    Empty,
    /// `.` or `..`.
    #[error("the names . and .. are not allowed")]
    Dots,
    /// An encoded `/` or NUL within a name.
    #[error("a name contains a slash or NUL")]
    Forbidden,
    /// More than [`COMPONENTS_MAX`] names or more than [`COMPONENT_BYTES_MAX`] bytes in one.
    #[error("the path is too deep or a name is too long")]
    TooLong,
    /// A name kept for the store's own temporaries.
    #[error("names beginning with .isocast-upload- are reserved")]
    Reserved,
}

/// A validated path below the roots; the empty one is the root itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ContentPath {
    components: Vec<String>,
}

impl ContentPath {
    /// The root.
    #[must_use]
    pub fn root() -> Self {
        Self::default()
    }

    /// Parses the percent-encoded path of a request target (without query). One slash at the start and one at the end
    /// are allowed and mean nothing.
    ///
    /// # Errors
    /// The fault of the path.
    pub fn parse_encoded(encoded: &str) -> Result<Self, PathError> {
        check_escapes(encoded)?;
        Self::parse_pattern(encoded)
    }

    /// The same for a pattern, in which a `%` that two hexadecimal digits do not follow stays: `%H` as well as `%25H` is `%H`.
    ///
    /// # Errors
    /// The fault of the path.
    pub fn parse_pattern(encoded: &str) -> Result<Self, PathError> {
        Self::of_names(encoded, |part| percent_decode_str(part).decode_utf8().map_err(|_| PathError::NotUtf8))
    }

    /// The same for names as they are, not encoded: as commands and settings have them.
    ///
    /// # Errors
    /// The fault of the path.
    pub fn parse(plain: &str) -> Result<Self, PathError> {
        Self::of_names(plain, |part| Ok(Cow::Borrowed(part)))
    }

    fn of_names<'a>(
        text: &'a str,
        decode: impl Fn(&'a str) -> Result<Cow<'a, str>, PathError>,
    ) -> Result<Self, PathError> {
        let trimmed = text.strip_prefix('/').unwrap_or(text);
        let trimmed = trimmed.strip_suffix('/').unwrap_or(trimmed);
        if trimmed.is_empty() {
            return if text.len() > 1 { Err(PathError::Empty) } else { Ok(Self::root()) };
        }
        trimmed.split('/').try_fold(Self::root(), |path, part| path.child(&decode(part)?))
    }

    /// The path of `name` in this directory. `name` is taken as it is, not decoded.
    ///
    /// # Errors
    /// The fault of the name.
    pub fn child(&self, name: &str) -> Result<Self, PathError> {
        if name.is_empty() {
            return Err(PathError::Empty);
        }
        if name == "." || name == ".." {
            return Err(PathError::Dots);
        }
        if name.contains(['/', '\0']) {
            return Err(PathError::Forbidden);
        }
        if name.len() > COMPONENT_BYTES_MAX || self.components.len() >= COMPONENTS_MAX {
            return Err(PathError::TooLong);
        }
        if name.starts_with(leftover::PREFIX) {
            return Err(PathError::Reserved);
        }
        Ok(self.with(name))
    }

    /// The path of a name that was checked, or made by this program.
    fn with(&self, name: &str) -> Self {
        assert!(!name.is_empty() && !name.contains(['/', '\0']), "a name would lead to another folder");
        assert!(name != "." && name != "..", "a name would lead out of its folder");
        debug_assert!(name.len() <= COMPONENT_BYTES_MAX, "no file system takes the name");
        debug_assert!(self.components.len() < COMPONENTS_MAX, "the path is deeper than any");
        let mut components = self.components.clone();
        components.push(name.to_owned());
        Self { components }
    }

    /// As [`ContentPath::child`], for a name that is on a disk: a reserved one, too.
    ///
    /// # Errors
    /// The fault of the name.
    pub fn stored_child(&self, name: &str) -> Result<Self, PathError> {
        match self.child(name) {
            Err(PathError::Reserved) => Ok(self.with(name)),
            child => child,
        }
    }

    /// A hidden path in the same folder that stays hidden over crashes, until it is removed; `own` distinguishes it.
    #[must_use]
    pub fn reserved_sibling(&self, own: &str) -> Self {
        self.split().map_or_else(Self::default, |(folder, _)| folder).with(&leftover::kept_name(own))
    }

    /// True if the item's own name is reserved: it is not whole yet, or a part of another.
    #[must_use]
    pub fn is_reserved(&self) -> bool {
        self.components.last().is_some_and(|name| name.starts_with(leftover::PREFIX))
    }

    /// A hidden path in the same folder, which no other has: for an item that gets this path when it is whole.
    #[must_use]
    pub fn hidden_sibling(&self) -> Self {
        self.split().map_or_else(Self::default, |(folder, _)| folder).with(&next_hidden_name(None))
    }

    /// The names, from the root on.
    #[must_use]
    pub fn components(&self) -> &[String] {
        &self.components
    }

    /// The directory it lies in and its own name; nothing for the root.
    #[must_use]
    pub fn split(&self) -> Option<(Self, &str)> {
        let (name, parent) = self.components.split_last()?;
        Some((Self { components: parent.to_vec() }, name))
    }

    /// The names joined by slashes, not encoded, as logs and settings name it; empty for the root.
    #[must_use]
    pub fn joined(&self) -> String {
        self.components.join("/")
    }

    /// True if it is `folder`, or a path below that.
    #[must_use]
    pub fn lies_in(&self, folder: &Self) -> bool {
        self.components.starts_with(&folder.components)
    }

    /// True if clients are served it though hidden names are not: no name on it is hidden, but for those of files that a program keeps
    /// for others ([`is_companion`]), and hidden paths of this run, which no client can spell.
    #[must_use]
    pub fn is_served(&self) -> bool {
        let is_served = |name: &String| !is_hidden(name) || is_companion(name) || name.starts_with(leftover::PREFIX);
        self.components.iter().all(is_served)
    }

    /// True if a name on it is hidden: it begins with a dot, or is a file system's own `lost+found`.
    #[must_use]
    pub fn is_hidden(&self) -> bool {
        self.components.iter().any(|name| is_hidden(name))
    }

    /// As the kernel takes it, relative to a root.
    pub fn relative(&self) -> String {
        if self.components.is_empty() { ".".to_owned() } else { self.joined() }
    }
}

impl fmt::Display for ContentPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}", self.joined())
    }
}

/// True if a name is hidden: it begins with a dot, or is `lost+found`.
pub fn is_hidden(name: &str) -> bool {
    name.starts_with('.') || name == "lost+found"
}

/// True for names of files that macOS keeps for others, and reports an error if it cannot: they are stored and read as others are, and
/// not listed.
fn is_companion(name: &str) -> bool {
    const NAMES: [&str; 6] = [".DS_Store", ".Spotlight-V100", ".TemporaryItems", ".Trashes", ".fseventsd", ".hidden"];
    name.starts_with("._") || NAMES.contains(&name) || name.starts_with(".metadata_never_index")
}

fn check_escapes(part: &str) -> Result<(), PathError> {
    let mut pieces = part.split('%');
    pieces.next();
    for piece in pieces {
        let digits = piece.as_bytes();
        if digits.len() < 2 || !digits[..2].iter().all(u8::is_ascii_hexdigit) {
            return Err(PathError::BadEscape);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_decoded_once() {
        let path = ContentPath::parse_encoded("/films/%E6%98%A0%E7%94%BB%20%2525.mp4").unwrap();
        assert_eq!(path.components(), ["films", "映画 %25.mp4"]);
        assert_eq!((path.to_string(), path.joined()), ("/films/映画 %25.mp4".into(), "films/映画 %25.mp4".into()));
        assert_eq!(ContentPath::parse_encoded("films/").unwrap().components(), ["films"]);
        for root in ["", "/"] {
            let path = ContentPath::parse_encoded(root).unwrap();
            assert_eq!((&path, path.to_string(), path.joined()), (&ContentPath::root(), "/".into(), String::new()));
        }
    }

    #[test]
    fn a_pattern_may_have_its_percent_signs_encoded_or_not() {
        for text in ["/cam/%Y-%m/%H-%M 100%%.ts", "/cam/%25Y-%25m/%25H-%25M%20100%25%25.ts"] {
            assert_eq!(ContentPath::parse_pattern(text).unwrap().components(), ["cam", "%Y-%m", "%H-%M 100%%.ts"]);
        }
        assert_eq!(ContentPath::parse_pattern("/%d0.ts"), Err(PathError::NotUtf8), "two digits");
    }

    #[test]
    fn paths_that_could_escape_are_refused() {
        for (text, error) in [
            ("/..", PathError::Dots),
            ("/a/%2e%2e/b", PathError::Dots),
            ("/a/%2E./b", PathError::Dots),
            ("/./a", PathError::Dots),
            ("//a", PathError::Empty),
            ("//", PathError::Empty),
            ("/a//b", PathError::Empty),
            ("/a%2fb", PathError::Forbidden),
            ("/a%00b", PathError::Forbidden),
            ("/a%zz", PathError::BadEscape),
            ("/a%2", PathError::BadEscape),
            ("/%ff", PathError::NotUtf8),
            ("/.isocast-upload-1", PathError::Reserved),
        ] {
            assert_eq!(ContentPath::parse_encoded(text), Err(error), "{text}");
        }
        assert_eq!(ContentPath::parse_encoded(&"a/".repeat(65)), Err(PathError::TooLong));
        assert_eq!(ContentPath::parse_encoded(&"a".repeat(256)), Err(PathError::TooLong));
    }

    proptest! {
        #[test]
        fn whatever_parses_stays_below(text in "[a./%2eEfF0\\\\~\u{0}é-]{0,40}") {
            if let Ok(path) = ContentPath::parse_encoded(&text) {
                let mut depth = 0;
                for component in std::path::Path::new(&path.relative()).components() {
                    match component {
                        std::path::Component::Normal(_) => depth += 1,
                        std::path::Component::CurDir => prop_assert!(path.components().is_empty()),
                        other => prop_assert!(false, "{other:?}"),
                    }
                }
                prop_assert_eq!(depth, path.components().len());
            }
        }
    }
}
