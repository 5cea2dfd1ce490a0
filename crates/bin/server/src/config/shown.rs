//! The configuration in effect, as it is shown: TOML that means the same when it is read back.
//!
//! Not here: the values (`settings` gives each as it takes it).

use std::collections::BTreeMap;
use std::fmt;

use toml::{Table, Value};

use super::arrays::name_member;

/// Values in effect, each by its key, in the order in which they were taken; an entry of an array by its name in that.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ShownSettings(pub(super) Vec<(String, Value)>);

impl ShownSettings {
    /// Adds an entry of an array, with these members.
    pub(super) fn add_entry(&mut self, array: &str, Self(members): Self) {
        let members: Table = members.into_iter().collect();
        let name = name_member(array).and_then(|member| members.get(member)?.as_str()).unwrap_or_default();
        self.0.push((format!("{array}.{name}"), Value::Table(members)));
    }

    /// These values, with those of `running` in the place of those that `stays` names.
    pub(super) fn beside(self, running: &Self, stays: impl Fn(&str) -> bool) -> Self {
        let kept = running.0.iter().filter(|(key, _)| stays(key)).cloned();
        Self(kept.chain(self.0.into_iter().filter(|(key, _)| !stays(key))).collect())
    }

    /// All values, by key.
    pub(crate) fn entries(&self) -> BTreeMap<String, Value> {
        self.0.iter().cloned().collect()
    }
}

/// True if the key is this one, or one below it.
pub(super) fn is_within(key: &str, other: &str) -> bool {
    key.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Settings of no table first, then table by table.
impl fmt::Display for ShownSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut tables: Vec<(&str, Vec<(&str, &Value)>)> = vec![("", Vec::new())];
        for (key, value) in &self.0 {
            let (table, name) = key.split_once('.').unwrap_or(("", key));
            match tables.iter_mut().find(|(known, _)| *known == table) {
                Some((_, values)) => values.push((name, value)),
                None => tables.push((table, vec![(name, value)])),
            }
        }
        for (table, values) in tables {
            if let Some(member) = name_member(table) {
                for members in values.iter().filter_map(|(_, value)| value.as_table()) {
                    writeln!(f, "\n[[{table}]]")?;
                    members.iter().filter(|(name, _)| *name == member).try_for_each(|row| write_row(f, row))?;
                    members.iter().filter(|(name, _)| *name != member).try_for_each(|row| write_row(f, row))?;
                }
                continue;
            }
            if !table.is_empty() {
                writeln!(f, "\n[{table}]")?;
            }
            values.into_iter().try_for_each(|row| write_row(f, row))?;
        }
        Ok(())
    }
}

fn write_row(f: &mut fmt::Formatter<'_>, (name, value): (impl AsRef<str>, &Value)) -> fmt::Result {
    writeln!(f, "{} = {value}", toml_edit::Key::new(name.as_ref()).display_repr())
}
