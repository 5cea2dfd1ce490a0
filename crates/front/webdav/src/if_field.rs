//! The `If` field: lists of conditions, of which one has to hold, and the tokens that a client submits by it (RFC 4918 §10.4).

use crate::FieldError;

/// Most conditions in a field.
const CONDITIONS_MAX: usize = 64;

/// The field.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IfField {
    /// Its lists: one of them has to hold.
    pub lists: Vec<IfList>,
}

/// A list of conditions: all of them have to hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IfList {
    /// The resource that it is about; none: the one of the request.
    pub resource: Option<String>,
    /// Its conditions; at least one.
    pub conditions: Vec<IfCondition>,
}

/// A condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IfCondition {
    /// The resource is locked with this token; or it is not, if `not`.
    Token {
        /// The token.
        token: String,
        /// Negated.
        not: bool,
    },
    /// The resource has this entity tag, with its quotes; or it has not, if `not`.
    Tag {
        /// The tag.
        tag: String,
        /// Negated.
        not: bool,
    },
}

impl IfField {
    /// Reads the field.
    ///
    /// # Errors
    /// It does not follow the grammar, or has too many conditions.
    pub fn parse(value: &str) -> Result<Self, FieldError> {
        let mut rest = value.trim();
        let (mut lists, mut resource, mut conditions) = (Vec::new(), None, 0);
        let mut is_tag_used = true;
        while !rest.is_empty() {
            if rest.starts_with('<') {
                // A field begins with a list or with a tag; tagged and untagged lists do not mix.
                if !is_tag_used || (resource.is_none() && !lists.is_empty()) {
                    return Err(FieldError::If);
                }
                let (tag, behind) = enclosed(rest, '<', '>')?;
                (resource, is_tag_used, rest) = (Some(tag.to_owned()), false, behind);
                continue;
            }
            let (list, behind) = list(rest)?;
            conditions += list.len();
            if conditions > CONDITIONS_MAX {
                return Err(FieldError::If);
            }
            lists.push(IfList { resource: resource.clone(), conditions: list });
            (is_tag_used, rest) = (true, behind);
        }
        if lists.is_empty() || !is_tag_used { Err(FieldError::If) } else { Ok(Self { lists }) }
    }

    /// Whether one of the lists holds. `holds` judges a condition on a resource, the `not` in it left out of account.
    pub fn holds(&self, mut holds: impl FnMut(Option<&str>, &IfCondition) -> bool) -> bool {
        self.lists.iter().any(|list| {
            list.conditions.iter().all(|condition| {
                let (IfCondition::Token { not, .. } | IfCondition::Tag { not, .. }) = condition;
                holds(list.resource.as_deref(), condition) != *not
            })
        })
    }

    /// The tokens that are submitted: all in it.
    pub fn tokens(&self) -> impl Iterator<Item = &str> {
        self.lists.iter().flat_map(|list| &list.conditions).filter_map(|condition| match condition {
            IfCondition::Token { token, .. } => Some(token.as_str()),
            IfCondition::Tag { .. } => None,
        })
    }
}

/// The text between `open`, with which `text` begins, and the next `close`; and the text behind that, trimmed.
fn enclosed(text: &str, open: char, close: char) -> Result<(&str, &str), FieldError> {
    let inner = text.strip_prefix(open).ok_or(FieldError::If)?;
    let (inner, behind) = inner.split_once(close).ok_or(FieldError::If)?;
    if inner.is_empty() || inner.contains(open) { Err(FieldError::If) } else { Ok((inner, behind.trim_start())) }
}

/// A list in round brackets, with which `text` begins; and the text behind it.
fn list(text: &str) -> Result<(Vec<IfCondition>, &str), FieldError> {
    let mut rest = text.strip_prefix('(').ok_or(FieldError::If)?.trim_start();
    let mut conditions = Vec::new();
    loop {
        if let Some(behind) = rest.strip_prefix(')') {
            return if conditions.is_empty() { Err(FieldError::If) } else { Ok((conditions, behind.trim_start())) };
        }
        let mut not = false;
        if let Some((word, behind)) = rest.split_at_checked(3)
            && word.eq_ignore_ascii_case("not")
        {
            (not, rest) = (true, behind.trim_start());
        }
        if rest.starts_with('<') {
            let (token, behind) = enclosed(rest, '<', '>')?;
            conditions.push(IfCondition::Token { token: token.to_owned(), not });
            rest = behind;
        } else {
            let (tag, behind) = bracketed_tag(rest)?;
            conditions.push(IfCondition::Tag { tag: tag.to_owned(), not });
            rest = behind;
        }
        if conditions.len() > CONDITIONS_MAX {
            return Err(FieldError::If);
        }
    }
}

/// An entity tag in square brackets. Its quotes may enclose a bracket.
fn bracketed_tag(text: &str) -> Result<(&str, &str), FieldError> {
    let inner = text.strip_prefix('[').ok_or(FieldError::If)?.trim_start();
    let opaque = inner.strip_prefix("W/").unwrap_or(inner).strip_prefix('"').ok_or(FieldError::If)?;
    let end = opaque.find('"').ok_or(FieldError::If)?;
    let length = inner.len() - opaque.len() + end + 1;
    let (tag, behind) = inner.split_at(length);
    let behind = behind.trim_start().strip_prefix(']').ok_or(FieldError::If)?;
    Ok((tag, behind.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(token: &str, not: bool) -> IfCondition {
        IfCondition::Token { token: token.to_owned(), not }
    }

    #[test]
    fn lists_with_and_without_resources() {
        let field = IfField::parse("(<urn:uuid:1> [\"a]b\"])(Not <DAV:no-lock>)").unwrap();
        let tag = IfCondition::Tag { tag: "\"a]b\"".to_owned(), not: false };
        assert_eq!(field.lists[0].conditions, [token("urn:uuid:1", false), tag]);
        assert_eq!(field.lists[1], IfList { resource: None, conditions: vec![token("DAV:no-lock", true)] });
        assert_eq!(field.tokens().collect::<Vec<_>>(), ["urn:uuid:1", "DAV:no-lock"]);
        let tagged = IfField::parse("</a> (<t>) ([W/\"x\"]) <http://h/b>(not<u>)").unwrap();
        let resources: Vec<_> = tagged.lists.iter().map(|list| list.resource.as_deref().unwrap()).collect();
        assert_eq!(resources, ["/a", "/a", "http://h/b"]);
    }

    #[test]
    fn a_list_holds_if_all_of_it_does_and_the_field_if_one_list_does() {
        let holds = |text: &str, locked: &str| {
            IfField::parse(text)
                .unwrap()
                .holds(|_, condition| *condition == token(locked, false) || *condition == token(locked, true))
        };
        assert!(holds("(<a>)", "a") && !holds("(<a>)", "b"));
        assert!(!holds("(<a> <b>)", "a") && holds("(<a>) (<b>)", "b"));
        assert!(holds("(Not <a>)", "b") && !holds("(Not <a>)", "a"));
    }

    #[test]
    fn faults_are_refused() {
        for text in [
            "",
            " ",
            "x",
            "(",
            "()",
            "(<a>",
            "<a>",
            "(<>)",
            "(a)",
            "([a])",
            "([\"a\")",
            "(<a>) <b> (<c>)",
            "<a> <b> (<c>)",
            "<a> (<b>) <c>",
            "(Not)",
            "(<a<b>)",
        ] {
            assert_eq!(IfField::parse(text), Err(FieldError::If), "{text}");
        }
        assert!(IfField::parse(&"(<a>)".repeat(64)).is_ok());
        assert_eq!(IfField::parse(&"(<a>)".repeat(65)), Err(FieldError::If));
    }
}
