//! Settings before they are checked: key → text, and where it was written.
//!
//! Promise: file < environment < command line, each setting knows its origin (file and line, variable, flag), and a key
//! that nothing reads is an error that names it. Not here: the meaning of a setting (the parent module).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use strsim::levenshtein;
use toml::de::{DeArray, DeTable, DeValue};

use super::arrays::name_member;
use super::file::{PARTS, line_of, unclosed_array, with_parts};
use super::problem::{Origin, Problem};
use super::shown::{ShownSettings, is_within};
use super::toml_text::AsToml;

/// The prefix of environment variables: `ISOCAST_SCHEDULE__CYCLE` is the key `schedule.cycle`.
const ENVIRONMENT_PREFIX: &str = "ISOCAST_";

/// A value as it was written; quantities keep their text until their unit is known to be there.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Value {
    Text(String),
    List(Vec<String>),
}

#[derive(Debug, Clone)]
struct Setting {
    value: Value,
    origin: Origin,
}

/// All settings of all sources, and the problems found so far.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    settings: BTreeMap<String, Setting>,
    /// Where each table of an array of tables (`[[job]]`) was written; its settings have keys as `job.0.name`.
    arrays: BTreeMap<String, Vec<Origin>>,
    known: Vec<&'static str>,
    shown: ShownSettings,
    problems: Vec<Problem>,
}

impl Settings {
    /// Adds the settings of a configuration file, and then those of each `*.toml` in the folder [`PARTS`] next to it, in the order of their
    /// names: a later one wins.
    pub(crate) fn add_file_and_parts(&mut self, path: &Path) {
        self.add_files(path, &|file| std::fs::read_to_string(file));
    }

    /// The same, with the texts that `read` gives.
    pub(crate) fn add_files(&mut self, path: &Path, read: &dyn Fn(&Path) -> std::io::Result<String>) {
        let files = with_parts(path).unwrap_or_else(|message| {
            self.contradiction(PARTS, message);
            vec![path.to_owned()]
        });
        for file in files {
            match read(&file) {
                Ok(text) => self.add_file(&file, &text),
                Err(error) => self.contradiction("--config", format!("cannot read {}: {error}", file.display())),
            }
        }
    }

    /// Adds the settings of a configuration file.
    pub(crate) fn add_file(&mut self, path: &Path, text: &str) {
        match DeTable::parse(text) {
            Ok(table) => self.add_table(path, text, "", table.get_ref()),
            Err(error) => {
                // The bare key of that line, or `[TABLE]`; no value in quotes, which may be a password's hash.
                let line = error.span().map_or(1, |span| line_of(text, span.start));
                let open = unclosed_array(text, line);
                let (line, message) = match open {
                    Some(line) => (line, "this array is not closed: a `]` is missing".to_owned()),
                    None => (line, error.message().trim().to_owned()),
                };
                let words = text.lines().nth(line - 1).unwrap_or_default();
                let key = words.split(|c: char| c.is_whitespace() || c == '=').find(|word| !word.is_empty());
                let key = key.filter(|key| key.chars().all(|c| c.is_ascii_alphanumeric() || "-_.[]".contains(c)));
                self.problems.push(Problem {
                    origin: Some(Origin::File(path.to_owned(), line)),
                    key: key.map(str::to_owned),
                    message,
                });
            }
        }
    }

    fn add_table(&mut self, path: &Path, text: &str, prefix: &str, table: &DeTable<'_>) {
        for (name, value) in table {
            let key =
                if prefix.is_empty() { name.get_ref().to_string() } else { format!("{prefix}.{}", name.get_ref()) };
            let origin = Origin::File(path.to_owned(), line_of(text, name.span().start));
            if let DeValue::Table(inner) = value.get_ref() {
                self.add_table(path, text, &key, inner);
                continue;
            }
            if let DeValue::Array(items) = value.get_ref()
                && items.iter().any(|item| item.get_ref().is_table())
            {
                self.add_array(path, text, &key, items);
                continue;
            }
            match plain(value.get_ref()) {
                Ok(value) => {
                    self.settings.insert(key, Setting { value, origin });
                }
                Err(message) => self.problems.push(Problem { origin: Some(origin), key: Some(key), message }),
            }
        }
    }

    /// Adds the tables of an array behind those that an earlier file has.
    fn add_array(&mut self, path: &Path, text: &str, key: &str, items: &DeArray<'_>) {
        for item in items {
            let origin = Origin::File(path.to_owned(), line_of(text, item.span().start));
            if let DeValue::Table(inner) = item.get_ref() {
                let origins = self.arrays.entry(key.to_owned()).or_default();
                origins.push(origin);
                let prefix = format!("{key}.{}", origins.len() - 1);
                self.add_table(path, text, &prefix, inner);
            } else {
                self.blame(origin, key, format!("write each as `[[{key}]]`"));
            }
        }
    }

    /// Adds `ISOCAST_A__B` variables. Variables of that prefix that are no key are reported only if they look like one
    /// (`__`, or nearly a key), since scripts may have their own.
    pub(crate) fn add_environment(&mut self, variables: impl IntoIterator<Item = (String, String)>) {
        for (name, value) in variables {
            let Some(rest) = name.strip_prefix(ENVIRONMENT_PREFIX) else { continue };
            let key = rest.to_lowercase().replace("__", ".");
            self.settings.insert(key, Setting { value: Value::Text(value), origin: Origin::Environment(name) });
        }
    }

    /// Where each setting, and each entry of an array, was written.
    pub(crate) fn origins(self) -> BTreeMap<String, Origin> {
        let mut origins = BTreeMap::new();
        for (array, entries) in self.arrays {
            for (at, origin) in entries.into_iter().enumerate() {
                let member = name_member(&array).unwrap_or_default();
                let name = self.settings.get(&format!("{array}.{at}.{member}"));
                if let Some(Value::Text(name)) = name.map(|setting| &setting.value) {
                    origins.insert(format!("{array}.{}", name.trim_end_matches('/')), origin);
                }
            }
        }
        origins.extend(self.settings.into_iter().map(|(key, setting)| (key, setting.origin)));
        origins
    }

    /// The files that hold a setting.
    pub(crate) fn files(&self) -> BTreeSet<PathBuf> {
        let file = |setting: &Setting| match &setting.origin {
            Origin::File(file, _) => Some(file.clone()),
            Origin::Environment(_) | Origin::Flag(_) => None,
        };
        self.settings.values().filter_map(file).collect()
    }

    /// Adds a flag's value.
    pub(crate) fn add_flag(&mut self, flag: &'static str, key: &str, value: String) {
        self.settings.insert(key.to_owned(), Setting { value: Value::Text(value), origin: Origin::Flag(flag) });
    }

    /// Adds a repeatable flag's values.
    pub(crate) fn add_flag_list(&mut self, flag: &'static str, key: &str, values: Vec<String>) {
        self.settings.insert(key.to_owned(), Setting { value: Value::List(values), origin: Origin::Flag(flag) });
    }

    /// The value of `key` as `parse` understands it, or `default` where it was not written (or not understood: then the
    /// problem is kept). It is shown.
    pub(crate) fn take<T: AsToml>(
        &mut self,
        key: &'static str,
        default: T,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> T {
        let value = self.take_written(key, parse).unwrap_or(default);
        self.show(key, &value);
        value
    }

    /// As [`Settings::take`], with no default: it is shown where it was written.
    pub(crate) fn take_optional<T: AsToml>(
        &mut self,
        key: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let value = self.take_written(key, parse)?;
        self.show(key, &value);
        Some(value)
    }

    fn take_written<T>(&mut self, key: &'static str, parse: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        self.known.push(key);
        let setting = self.settings.remove(key)?;
        parsed(&setting.value, parse).map_err(|message| self.blame(setting.origin, key, message)).ok()
    }

    /// Shows this value of `key`, in the place of one that was taken.
    pub(crate) fn show(&mut self, key: &str, value: &impl AsToml) {
        self.hide(key);
        self.shown.0.push((key.to_owned(), value.as_toml()));
    }

    /// Shows neither `key` nor the keys below it: they mean nothing beside the other settings.
    pub(crate) fn hide(&mut self, key: &str) {
        self.shown.0.retain(|(shown, _)| !is_within(shown, key));
    }

    /// The values to be shown of all settings taken so far.
    pub(crate) fn shown(&mut self) -> ShownSettings {
        std::mem::take(&mut self.shown)
    }

    /// The items of `key`: a list as a file writes it, or `:`-separated in the environment; empty where it was not written.
    pub(crate) fn take_list(&mut self, key: &'static str) -> Vec<String> {
        self.take_list_of(key, |text| Ok(text.to_owned()))
    }

    /// As [`Settings::take_list`], each item as `parse` understands it; those that it does not are left out, and the problem is kept.
    pub(crate) fn take_list_of<T: AsToml>(
        &mut self,
        key: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Vec<T> {
        let mut items = Vec::new();
        for text in self.written_list(key) {
            match parse(&text) {
                Ok(item) => items.push(item),
                Err(message) => self.contradiction(key, message),
            }
        }
        self.show(key, &items);
        items
    }

    fn written_list(&mut self, key: &'static str) -> Vec<String> {
        self.known.push(key);
        let Some(setting) = self.settings.remove(key) else { return Vec::new() };
        let as_in_a_file = match &setting.value {
            Value::Text(text) if text.starts_with('[') => DeValue::parse(text).ok(),
            _ => None,
        };
        let value = as_in_a_file.and_then(|list| plain(list.get_ref()).ok()).unwrap_or(setting.value);
        match (value, setting.origin) {
            (Value::List(items), _) => items,
            (Value::Text(text), Origin::Environment(_)) => {
                text.split(':').filter(|item| !item.is_empty()).map(str::to_owned).collect()
            }
            (Value::Text(text), origin) => {
                self.blame(origin, key, format!("a list is needed; write `{key} = [\"{text}\"]`"));
                Vec::new()
            }
        }
    }

    /// As [`Settings::take_list`], where a file may write a single item without brackets.
    pub(crate) fn take_one_or_more(&mut self, key: &'static str) -> Vec<String> {
        if let Some(Setting { value, origin }) = self.settings.get_mut(key)
            && !matches!(origin, Origin::Environment(_))
            && let Value::Text(text) = value
            && !text.starts_with('[')
        {
            *value = Value::List(vec![std::mem::take(text)]);
        }
        self.take_list(key)
    }

    /// All keys below `table` (`users.ada` for `users`), for tables with names as keys.
    pub(crate) fn take_table<T: AsToml>(
        &mut self,
        table: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Vec<(String, T)> {
        let entries = self.take_names(table, |_, text| parse(text));
        entries.iter().for_each(|(name, value)| self.show(&format!("{table}.{name}"), value));
        entries
    }

    /// As [`Settings::take_table`], with nothing shown; `parse` gets the name of a key, too.
    pub(crate) fn take_names<T>(
        &mut self,
        table: &'static str,
        parse: impl Fn(&str, &str) -> Result<T, String>,
    ) -> Vec<(String, T)> {
        self.known.push(table);
        if let Some(setting) = self.settings.remove(table) {
            self.blame(setting.origin, table, format!("a table is needed: write `[{table}]`, and each entry below it"));
        }
        let prefix = format!("{table}.");
        let keys: Vec<String> = self.settings.keys().filter(|key| key.starts_with(&prefix)).cloned().collect();
        let mut entries = Vec::new();
        for key in keys {
            let Some(setting) = self.settings.remove(&key) else { continue };
            match parsed(&setting.value, |text| parse(&key[prefix.len()..], text)) {
                Ok(value) => entries.push((key[prefix.len()..].to_owned(), value)),
                Err(message) => self.blame(setting.origin, &key, message),
            }
        }
        entries
    }

    /// The tables of an array, `[[job]]` for example, each read by `read` as settings by themselves; at most `count_max`.
    pub(crate) fn take_each<T>(
        &mut self,
        array: &'static str,
        count_max: usize,
        read: impl Fn(&mut Self) -> Option<T>,
    ) -> Vec<T> {
        let mut items = Vec::new();
        let origins = self.arrays.remove(array).unwrap_or_default();
        if origins.len() > count_max {
            self.contradiction(array, format!("there are {}; {count_max} at most", origins.len()));
        }
        for (at, origin) in origins.into_iter().enumerate() {
            let mut inner = Self { settings: self.take_below(&format!("{array}.{at}.")), ..Self::default() };
            items.extend(read(&mut inner));
            self.shown.add_entry(array, inner.shown());
            for problem in inner.finish() {
                let key = problem.key.map_or_else(|| array.to_owned(), |key| format!("{array}.{key}"));
                let origin = problem.origin.or_else(|| Some(origin.clone()));
                self.problems.push(Problem { origin, key: Some(key), message: problem.message });
            }
        }
        if let Some(setting) = self.take_below(&format!("{array}.")).into_values().next() {
            self.blame(
                setting.origin,
                array,
                format!("there may be several: write `[[{array}]]` in a file, with two brackets"),
            );
        }
        items
    }

    /// Takes out all settings with keys that begin with `prefix`; their keys are without it then.
    fn take_below(&mut self, prefix: &str) -> BTreeMap<String, Setting> {
        let below = self.settings.extract_if(.., |key, _| key.starts_with(prefix));
        below.map(|(key, setting)| (key[prefix.len()..].to_owned(), setting)).collect()
    }

    /// True if no problem was found so far.
    pub(crate) fn is_right(&self) -> bool {
        self.problems.is_empty()
    }

    /// Keeps a problem that concerns several settings at once.
    pub(crate) fn contradiction(&mut self, key: &str, message: String) {
        self.problems.push(Problem { origin: None, key: Some(key.to_owned()), message });
    }

    /// True if one of `keys` was understood wrongly: a contradiction to its default would mislead.
    pub(crate) fn is_blamed(&self, keys: &[&str]) -> bool {
        self.problems.iter().any(|problem| problem.key.as_deref().is_some_and(|key| keys.contains(&key)))
    }

    /// Passes over `keys`: without a kind their meaning is not known.
    pub(crate) fn pass_over(&mut self, keys: &[&'static str]) {
        for key in keys {
            self.settings.remove(*key);
        }
    }

    /// Refuses those of `keys` that are not read yet: they belong to other kinds of an entry than `kind`.
    pub(crate) fn refuse_others(&mut self, keys: &[&'static str], kind: &str) {
        for key in keys {
            if let Some(setting) = self.settings.remove(*key) {
                self.blame(setting.origin, key, format!("`{key}` is not for {kind}"));
            }
        }
    }

    /// Everything that is wrong, unread keys included. Call it after the last `take`.
    pub(crate) fn finish(mut self) -> Vec<Problem> {
        for (key, setting) in std::mem::take(&mut self.settings) {
            let near = self
                .known
                .iter()
                .min_by_key(|known| levenshtein(known, &key))
                .filter(|known| levenshtein(known, &key) <= 3);
            let may_be_foreign = matches!(setting.origin, Origin::Environment(_)) && !key.contains('.');
            let message = match near {
                Some(known) => format!("there is no such key; did you mean `{known}`?"),
                None if may_be_foreign => continue,
                None => "there is no such key; docs/reference/config.md lists them".to_owned(),
            };
            self.blame(setting.origin, &key, message);
        }
        self.problems
    }

    fn blame(&mut self, origin: Origin, key: &str, message: String) {
        self.problems.push(Problem { origin: Some(origin), key: Some(key.to_owned()), message });
    }
}

/// The value as `parse` understands it.
fn parsed<T>(value: &Value, parse: impl Fn(&str) -> Result<T, String>) -> Result<T, String> {
    match value {
        Value::Text(text) => parse(text),
        Value::List(_) => Err("a list is not understood here; write one value".to_owned()),
    }
}

/// A TOML value as text; numbers keep the digits that were written, so that a missing unit can be quoted back.
fn plain(value: &DeValue<'_>) -> Result<Value, String> {
    match value {
        DeValue::String(text) => Ok(Value::Text(text.to_string())),
        DeValue::Integer(number) => Ok(Value::Text(number.as_str().to_owned())),
        DeValue::Float(number) => Ok(Value::Text(number.as_str().to_owned())),
        DeValue::Boolean(flag) => Ok(Value::Text(flag.to_string())),
        DeValue::Array(items) => items
            .iter()
            .map(|item| match item.get_ref() {
                DeValue::String(text) => Ok(text.to_string()),
                other => Err(format!("a list of texts is needed, not of type {}", other.type_str())),
            })
            .collect::<Result<Vec<_>, _>>()
            .map(Value::List),
        DeValue::Datetime(_) | DeValue::Table(_) => Err("a text is needed here".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unclosed_array_is_named_by_its_own_key() {
        for (text, line) in
            [("roots = [\"ok\"\nlisten = \"127.0.0.1:1\"\n", 1), ("\nroots = [\n  \"a\",\n  \"b\"\nstate = \"s\"\n", 2)]
        {
            let mut settings = Settings::default();
            settings.add_file(Path::new("a.toml"), text);
            let problem = settings.problems.first().expect("a problem");
            assert_eq!(
                (problem.key.as_deref(), &problem.origin),
                (Some("roots"), &Some(Origin::File("a.toml".into(), line)))
            );
            assert!(problem.message.contains("not closed"), "{}", problem.message);
        }
        let mut settings = Settings::default();
        settings.add_file(Path::new("a.toml"), "roots = [\"a\"]\nlisten = 12:\n");
        assert_eq!(settings.problems[0].key.as_deref(), Some("listen"), "{:?}", settings.problems);
    }

    fn number(text: &str) -> Result<u32, String> {
        text.parse().map_err(|_| format!("`{text}` is not a number"))
    }

    #[test]
    fn a_later_source_wins_and_a_problem_names_the_one_that_won() {
        let mut settings = Settings::default();
        settings.add_file(Path::new("f.toml"), "a = 1\n[t]\nb = 2\nc = 3\n");
        settings.add_environment([("ISOCAST_T__B".to_owned(), "20".to_owned())]);
        settings.add_environment([("ISOCAST_T__C".to_owned(), "thirty".to_owned())]);
        settings.add_flag("--a", "a", "100".to_owned());
        assert_eq!(settings.take("a", 0, number), 100);
        assert_eq!(settings.take("t.b", 0, number), 20);
        assert_eq!(settings.take("t.c", 7, number), 7);
        let problems: Vec<String> = settings.finish().iter().map(ToString::to_string).collect();
        assert_eq!(problems, ["environment variable ISOCAST_T__C: t.c: `thirty` is not a number"]);
    }

    #[test]
    fn parts_come_after_the_file_in_the_order_of_their_names() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("isocast.toml");
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("isocast.toml", "a = 1\n[t]\nb = 1\nc = 1\n");
        let mut settings = Settings::default();
        settings.add_file_and_parts(&file);
        assert_eq!((settings.take("a", 0, number), settings.take("t.b", 0, number)), (1, 1), "without any parts");

        std::fs::create_dir(folder.path().join("conf.d")).unwrap();
        write("conf.d/20-b.toml", "[t]\nc = 20\n");
        write("conf.d/10-a.toml", "a = 10\n[t]\nc = 10\n");
        write("conf.d/30.toml.disabled", "a = = 30\n");
        write("conf.d/._10-a.toml", "\0\x05\x16\x07");
        std::os::unix::fs::symlink("someone@host.123", folder.path().join("conf.d/.#10-a.toml")).unwrap();
        std::fs::create_dir(folder.path().join("conf.d/50.toml")).unwrap();
        let mut settings = Settings::default();
        settings.add_file_and_parts(&file);
        let taken = (settings.take("a", 0, number), settings.take("t.b", 0, number), settings.take("t.c", 0, number));
        assert_eq!(taken, (10, 1, 20));
        assert!(settings.finish().is_empty());

        write("conf.d/40.toml", "\na = \"x\"\n");
        let mut settings = Settings::default();
        settings.add_file_and_parts(&file);
        settings.take("a", 0, number);
        settings.take_table("t", number);
        let problems: Vec<String> = settings.finish().iter().map(ToString::to_string).collect();
        assert_eq!(problems.len(), 1);
        assert!(problems[0].ends_with("conf.d/40.toml:2: a: `x` is not a number"), "{problems:?}");
    }

    #[test]
    fn an_unread_key_is_named_with_its_line_and_a_guess() {
        let mut settings = Settings::default();
        settings.add_file(Path::new("f.toml"), "\n[schedule]\n\ncylce = \"250ms\"\nsomething = 1\n");
        settings.add_environment([("ISOCAST_BUILD".to_owned(), "x".to_owned())]);
        settings.take("schedule.cycle", 0, number);
        let problems: Vec<String> = settings.finish().iter().map(ToString::to_string).collect();
        assert_eq!(problems[0], "f.toml:4: schedule.cylce: there is no such key; did you mean `schedule.cycle`?");
        assert!(
            problems[1].starts_with("f.toml:5: schedule.something: there is no such key; docs/"),
            "{}",
            problems[1]
        );
        assert_eq!(problems.len(), 2, "an unrelated variable is left alone");
    }

    #[test]
    fn the_tables_of_an_array_are_read_one_by_one() {
        let mut settings = Settings::default();
        settings.add_file(Path::new("a.toml"), "[[t]]\nn = 1\n[[t]]\n\n[[t]]\nn = \"x\"\nm = 2\n");
        settings.add_file(Path::new("b.toml"), "[[t]]\nn = 4\n[u]\nn = 1\n");
        let needed = |entry: &mut Settings| {
            let taken = entry.take_optional("n", number);
            if taken.is_none() {
                entry.contradiction("n", "it is needed".to_owned());
            }
            taken
        };
        assert_eq!(settings.take_each("t", 3, needed), [1, 4]);
        assert!(settings.take_each("u", 3, needed).is_empty());
        let mut problems: Vec<String> = settings.finish().iter().map(ToString::to_string).collect();
        problems.sort();
        assert_eq!(problems.len(), 6, "{problems:?}");
        assert!(problems[0].starts_with("a.toml:3: t.n: it is needed"), "{problems:?}");
        assert!(problems.iter().any(|said| said == "a.toml:6: t.n: `x` is not a number"), "{problems:?}");
        assert!(problems.iter().any(|said| said.starts_with("a.toml:7: t.m: there is no such key")), "{problems:?}");
        assert!(
            problems
                .iter()
                .any(|said| said == "b.toml:4: u: there may be several: write `[[u]]` in a file, with two brackets"),
            "{problems:?}"
        );
        assert!(problems.iter().any(|said| said == "t: there are 4; 3 at most"), "{problems:?}");
    }

    #[test]
    fn broken_toml_is_placed() {
        let mut settings = Settings::default();
        settings.add_file(Path::new("f.toml"), "a = 1\nb = = 2\n");
        let problems = settings.finish();
        assert_eq!(problems[0].origin, Some(Origin::File("f.toml".into(), 2)));
    }

    #[test]
    fn lists_come_as_files_write_them_and_from_colons() {
        let mut settings = Settings::default();
        settings.add_file(Path::new("f.toml"), "roots = [\"/a\", \"/b\"]\n");
        assert_eq!(settings.take_list("roots"), ["/a", "/b"]);
        settings.add_environment([("ISOCAST_ROOTS".to_owned(), "/c:/d".to_owned())]);
        assert_eq!(settings.take_list("roots"), ["/c", "/d"]);
        // An origin has a colon of its own.
        let origins = r#"["https://a.example", "http://b.example:81"]"#;
        settings.add_environment([("ISOCAST_ROOTS".to_owned(), origins.to_owned())]);
        assert_eq!(settings.take_list("roots"), ["https://a.example", "http://b.example:81"]);
        settings.add_flag("--set", "roots", "[\"/e\"]".to_owned());
        assert_eq!(settings.take_list("roots"), ["/e"]);
        settings.add_file(Path::new("f.toml"), "roots = \"/a\"\n");
        assert!(settings.take_list("roots").is_empty());
        let problems = settings.finish();
        assert!(problems[0].to_string().contains("write `roots = [\"/a\"]`"), "{}", problems[0]);
    }
}
