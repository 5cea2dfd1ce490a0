//! Values put into the text of a configuration file.
//!
//! Promise: pure; all other lines, comments and the order stay as they are. Not here: whether the values mean something, and the file.

use api::SettingValue;
use toml_edit::{Array, DocumentMut, Item, Table, TableLike, Value};

/// The text with these values, each for its key in its table (`limits.connections`); without a value the key is removed.
///
/// # Errors
/// In words: the text is no TOML, or something else has the name of the table.
pub(crate) fn edited<'a>(
    text: &str,
    changes: impl IntoIterator<Item = (&'a str, Option<&'a SettingValue>)>,
) -> Result<String, String> {
    let mut document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| error.to_string())?;
    for (key, value) in changes {
        let (section, name) = key.split_once('.').ok_or_else(|| format!("`{key}` is in no table"))?;
        let table = document.entry(section).or_insert_with(|| Item::Table(Table::new()));
        let table = table.as_table_like_mut().ok_or_else(|| format!("`{section}` is no table in the file"))?;
        match value {
            Some(value) => put(table, name, value),
            None => drop(table.remove(name)),
        }
    }
    Ok(document.to_string())
}

/// Puts a value in the place of another one, with the comment beside that, or at the table's end.
fn put(table: &mut dyn TableLike, name: &str, value: &SettingValue) {
    let mut value = toml_value(value);
    match table.get_mut(name) {
        Some(Item::Value(old)) => {
            *value.decor_mut() = old.decor().clone();
            *old = value;
        }
        _ => drop(table.insert(name, Item::Value(value))),
    }
}

fn toml_value(value: &SettingValue) -> Value {
    match value {
        SettingValue::Choice(choice) => Value::from(*choice),
        SettingValue::Number(number) => Value::from(*number),
        SettingValue::Text(text) => Value::from(text.as_str()),
        SettingValue::List(items) => Value::Array(items.iter().map(String::as_str).collect::<Array>()),
    }
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
    fn names_in_the_way_are_told() {
        let one = SettingValue::Number(1);
        assert!(edited("limits = 5\n", [("limits.connections", Some(&one))]).is_err());
        assert!(edited("limits =\n", [("limits.connections", Some(&one))]).is_err());
        assert!(edited(TEXT, [("listen", Some(&one))]).is_err());
    }
}
