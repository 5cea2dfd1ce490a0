//! Editor of the text of a configuration file: sets, adds and removes values.
//!
//! Promise: pure functions; all other lines, comments and the order stay as they are; the comment above a removed entry is
//! removed with it. Not here: the check of the values, and the file itself.

use std::collections::BTreeMap;

use api::SettingValue;
use toml_edit::{Array, ArrayOfTables, DocumentMut, Item, Table, TableLike, Value};

use super::arrays::name_member;

/// True for a member that lets the server run a program or send a file of the machine elsewhere. Only the operator may change
/// such an entry, in the file.
pub(crate) fn is_operators(member: &str, value: Option<&str>) -> bool {
    matches!(member, "command" | "login") || value.is_some_and(|text| text.starts_with("rclone:"))
}

/// Returns the text with these values set. A key is a setting of a table (`limits.connections`) or the entry of an array by its
/// name (`job.nightly`); `None` removes the key.
///
/// # Errors
/// A sentence: the text is no TOML, an item of another type has the table's name, or the value's type does not fit the key.
pub(crate) fn edited<'a>(
    text: &str,
    changes: impl IntoIterator<Item = (&'a str, Option<&'a SettingValue>)>,
) -> Result<String, String> {
    let mut document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| error.to_string())?;
    for (key, value) in changes {
        let (section, name) = key.split_once('.').ok_or_else(|| format!("`{key}` is in no table"))?;
        if let Some(member) = name_member(section) {
            put_entry(&mut document, (section, member, name), value)?;
            continue;
        }
        let table = table_of(&mut document, section)?;
        match value {
            Some(value) => put(table, name, toml_value(value)?),
            None => drop(table.remove(name)),
        }
    }
    Ok(document.to_string())
}

/// Returns the text with these values set, each written as in TOML; a string may lack its quotes.
///
/// # Errors
/// A sentence: the text is no TOML, an item of another type has a table's name, or the key is in an entry of an array.
pub(crate) fn assigned(text: &str, values: &[(String, String)]) -> Result<String, String> {
    let mut document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| error.to_string())?;
    for (key, value) in values {
        let value = value.parse().unwrap_or_else(|_| Value::from(value.as_str()));
        match key.split_once('.') {
            None => put(document.as_table_mut(), key, value),
            Some((array, _)) if name_member(array).is_some() => {
                return Err(format!("`{key}`: change the entry of `[[{array}]]` in the file"));
            }
            Some((section, name)) => put(table_of(&mut document, section)?, name, value),
        }
    }
    Ok(document.to_string())
}

fn table_of<'a>(document: &'a mut DocumentMut, section: &str) -> Result<&'a mut dyn TableLike, String> {
    let table = document.entry(section).or_insert_with(|| Item::Table(Table::new()));
    table.as_table_like_mut().ok_or_else(|| format!("`{section}` is no table in the file"))
}

/// Replaces the members of the array's entry with `member = name`; appends the entry if it does not exist.
fn put_entry(
    document: &mut DocumentMut,
    (array, member, name): (&str, &str, &str),
    value: Option<&SettingValue>,
) -> Result<(), String> {
    let members = value.map(members).transpose()?;
    let entries = document.entry(array).or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
    let entries =
        entries.as_array_of_tables_mut().ok_or_else(|| format!("`{array}` is not written as `[[{array}]]`"))?;
    let is_it = |entry: &Table| match entry.get(member).and_then(Item::as_value) {
        Some(Value::String(text)) => text.value().trim_end_matches('/') == name,
        Some(Value::Integer(number)) => number.value().to_string() == name,
        _ => false,
    };
    let at = entries.iter().position(is_it);
    let found = at.and_then(|at| entries.get(at));
    if found.is_some_and(|entry| entry.iter().any(|(member, item)| is_operators(member, item.as_str()))) {
        return Err(format!(
            "`{array}.{name}` is the operator's in the file, by its `command`, `login` or `rclone:`: change it there"
        ));
    }
    match (at, members) {
        (Some(at), None) => drop(entries.remove(at)),
        (None, None) => {}
        (Some(at), Some(members)) => {
            let entry = entries.get_mut(at).expect("it was found there");
            entry.retain(|key, _| members.contains_key(key));
            members.into_iter().for_each(|(key, value)| put(entry, key, value));
        }
        (None, Some(members)) => {
            let named = members.get(member).and_then(Value::as_str);
            if named.is_none_or(|named| named.trim_end_matches('/') != name) {
                return Err(format!("{array}.{member}: a new entry of this key has `{name}` there"));
            }
            let mut entry = Table::new();
            members.into_iter().for_each(|(key, value)| put(&mut entry, key, value));
            entries.push(entry);
        }
    }
    if entries.is_empty() {
        document.remove(array);
    }
    Ok(())
}

fn members(value: &SettingValue) -> Result<BTreeMap<&str, Value>, String> {
    let SettingValue::Table(members) = value else { return Err("an entry is an object with its members".to_owned()) };
    members.iter().map(|(key, value)| Ok((key.as_str(), toml_value(value)?))).collect()
}

/// Replaces a value and keeps the comment on its line; appends a new value to the table.
fn put(table: &mut dyn TableLike, name: &str, mut value: Value) {
    match table.get_mut(name) {
        Some(Item::Value(old)) => {
            *value.decor_mut() = old.decor().clone();
            *old = value;
        }
        _ => drop(table.insert(name, Item::Value(value))),
    }
}

fn toml_value(value: &SettingValue) -> Result<Value, String> {
    Ok(match value {
        SettingValue::Choice(choice) => Value::from(*choice),
        SettingValue::Number(number) => Value::from(*number),
        SettingValue::Text(text) => Value::from(text.as_str()),
        SettingValue::List(items) => Value::Array(items.iter().map(String::as_str).collect::<Array>()),
        SettingValue::Table(_) => return Err("a setting is a text, a number, a choice or a list of texts".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# of the house\nlisten = \"127.0.0.1:80\"\n\n[limits] # bounds\n# as many as seats\nconnections = 5 # five\n\n\
                        [path_rates]\n\"a/b.c/\" = \"1M\"\n";

    #[test]
    fn comments_and_order_stay() {
        let (six, span) = (SettingValue::Number(6), SettingValue::Text("9s".to_owned()));
        let text = edited(TEXT, [("limits.connections", Some(&six)), ("limits.head_timeout", Some(&span))]);
        let expected = TEXT.replace("connections = 5 # five\n", "connections = 6 # five\nhead_timeout = \"9s\"\n");
        assert_eq!(text.as_deref(), Ok(&*expected));
        let list = SettingValue::List(vec!["a".to_owned(), "b".to_owned()]);
        let text = edited(TEXT, [("access.hosts", Some(&list)), ("path_rates.a/b.c/", None)]).expect("edited");
        assert_eq!(text, format!("{}\n[access]\nhosts = [\"a\", \"b\"]\n", TEXT.replace("\"a/b.c/\" = \"1M\"\n", "")));
        assert_eq!(edited(TEXT, []).as_deref(), Ok(TEXT));
    }

    #[test]
    fn a_value_is_assigned_as_toml_or_as_a_text() {
        let values = |values: &[(&str, &str)]| -> Vec<(String, String)> {
            values.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let text =
            assigned(TEXT, &values(&[("limits.connections", "6"), ("listen", "[::]:80"), ("roots", "[\"/a\"]")]));
        let expected = TEXT.replace("127.0.0.1:80\"", "[::]:80\"\nroots = [\"/a\"]").replace("= 5 #", "= 6 #");
        assert_eq!(text.as_deref(), Ok(&*expected));
        for key in ["job.a", "listen.port"] {
            assert!(assigned(TEXT, &values(&[(key, "1")])).is_err(), "{key}");
        }
    }

    #[test]
    fn an_entry_of_an_array_is_added_changed_and_removed() {
        let jobs = "# nights\n[[job]]\nname = \"a\" # the first\nkind = \"measure\"\nschedule = \"@daily\"\njitter = \"1min\"\n\n\
                    [[job]]\nname = \"b\"\nkind = \"measure\"\nschedule = \"@weekly\"\n";
        let text = |text: &str| SettingValue::Text(text.to_owned());
        let entry = |members: &[(&str, &str)]| {
            SettingValue::Table(members.iter().map(|(key, value)| ((*key).to_owned(), text(value))).collect())
        };
        let other = entry(&[("name", "a"), ("kind", "measure"), ("schedule", "@hourly")]);
        let changed = jobs.replacen("@daily\"\njitter = \"1min", "@hourly", 1);
        assert_eq!(edited(jobs, [("job.a", Some(&other))]).as_deref(), Ok(&*changed));
        let second = &jobs[jobs.find("\n[[job]]\nname = \"b\"").expect("it is there")..];
        assert_eq!(edited(jobs, [("job.a", None)]).as_deref(), Ok(second), "an entry goes with its comment");
        let quota = entry(&[("folder", "x"), ("max_size", "1GB")]);
        let added = edited(TEXT, [("quota.x", Some(&quota))]).expect("edited");
        assert_eq!(added, format!("{TEXT}\n[[quota]]\nfolder = \"x\"\nmax_size = \"1GB\"\n"));
        assert_eq!(edited(&added, [("quota.x", None)]).as_deref(), Ok(TEXT));
        assert!(edited(TEXT, [("quota.y", Some(&quota))]).is_err_and(|error| error.contains("`y` there")));
        assert!(edited(TEXT, [("quota.x", Some(&text("1GB")))]).is_err_and(|error| error.contains("object")));
        assert!(edited(TEXT, [("limits.connections", Some(&quota))]).is_err_and(|error| error.contains("a number")));
        let year = "[[quota]]\nfolder = 2026\nmax_size = \"1GB\"\n";
        assert_eq!(edited(year, [("quota.2026", None)]).as_deref(), Ok(""), "a number is its text");
        for member in ["command = [\"/bin/true\"]", "login = \"/etc/login\"", "to = \"rclone:s3:x\""] {
            let operators = format!("[[job]]\nname = \"a\"\n{member}\n");
            for change in [None, Some(&other)] {
                assert!(edited(&operators, [("job.a", change)]).is_err_and(|error| error.contains("the operator's")));
            }
        }
        assert!(edited("job = 5\n", [("job.a", Some(&other))]).is_err_and(|error| error.contains("[[job]]")));
    }

    #[test]
    fn names_in_the_way_are_told() {
        let one = SettingValue::Number(1);
        assert!(edited("limits = 5\n", [("limits.connections", Some(&one))]).is_err());
        assert!(edited("limits =\n", [("limits.connections", Some(&one))]).is_err());
        assert!(edited(TEXT, [("listen", Some(&one))]).is_err());
    }
}
