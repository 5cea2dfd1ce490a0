//! Settings, as the API shows and changes them.
//!
//! A change is checked as a whole configuration first, then written into the file in which its keys stand (else the named file),
//! and then read again as by SIGHUP. Promise: a refused change leaves the file and the settings in force as they were. Not here: the text of the file
//! (`config::edit`), putting settings in force.

use std::collections::BTreeSet;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::path::PathBuf;

use api::{SettingEntry, SettingSource, SettingValue, SettingsPatch};
use service::operations::{PendingSettings, SettingsChange, SettingsError, SettingsInForce};
use tokio::sync::{mpsc, oneshot};
use toml::Value;

use super::StartedServer;
use super::links::Links;
use crate::config::edit::{edited, is_operators};
use crate::config::{Config, Origin, ServeArgs, needs_restart, replace_text};

/// Requests that wait at once.
const WAITING_MAX: usize = 16;
/// Tables of settings that are changed by the API. Those of files, addresses and passwords are the operator's.
const CHANGEABLE: [&str; 15] = [
    "access",
    "budget",
    "job",
    "limits",
    "links",
    "path_durable",
    "path_rates",
    "path_when_full",
    "quota",
    "recordings",
    "sessions",
    "streams",
    "trash",
    "uploads",
    "webhook",
];
/// Tables of settings that are not shown: hashes of passwords.
const HIDDEN: &str = "users.";

/// A request for settings, with its change.
pub(super) struct SettingsOrder {
    change: Option<SettingsChange>,
    reply: oneshot::Sender<Result<SettingsInForce, SettingsError>>,
}

/// The place of requests for settings.
pub(super) struct SettingsDesk(mpsc::Sender<SettingsOrder>);

impl SettingsDesk {
    pub(super) fn new() -> (Self, mpsc::Receiver<SettingsOrder>) {
        let (orders, waiting) = mpsc::channel(WAITING_MAX);
        (Self(orders), waiting)
    }

    pub(super) fn ask(&self, change: Option<SettingsChange>) -> Result<PendingSettings, SettingsError> {
        let (reply, answer) = oneshot::channel();
        self.0.try_send(SettingsOrder { change, reply }).map_err(|_| SettingsError::Busy)?;
        Ok(answer)
    }
}

impl StartedServer {
    /// The configuration in force after an order.
    pub(super) fn obey(&self, args: &ServeArgs, config: Config, links: &Links, order: SettingsOrder) -> Config {
        let SettingsOrder { change, reply } = order;
        let (config, changed) = match change {
            None => (config, Ok(())),
            Some(change) => match self.change_settings(args, &config, links, &change) {
                Ok(changed) => (changed, Ok(())),
                Err(error) => (config, Err(error)),
            },
        };
        // A client that is gone needs no answer.
        let _ = reply.send(changed.map(|()| in_force(args, &config)));
        config
    }

    fn change_settings(
        &self,
        args: &ServeArgs,
        running: &Config,
        links: &Links,
        change: &SettingsChange,
    ) -> Result<Config, SettingsError> {
        if !(change.applies_to)(&tag(running)) {
            return Err(SettingsError::Outdated);
        }
        let file = file_of(args, running, &change.values)?;
        let failed = |error: io::Error| SettingsError::File(format!("{}: {error}", file.display()));
        let old = fs::read_to_string(&file).map_err(failed)?;
        let values = change.values.0.iter().map(|(key, value)| (key.as_str(), value.as_ref()));
        let new = edited(&old, values).map_err(SettingsError::Invalid)?;
        let checked =
            Config::load_edited(args, &file, &new).map_err(|error| SettingsError::Invalid(error.to_string()))?;
        check_removed(&change.values, &checked)?;
        replace_text(&file, &new).map_err(failed)?;
        let read = Config::load_to_serve(args).map_err(anyhow::Error::from);
        read.and_then(|read| self.put_in_force(read, running, links)).map_err(|error| {
            let restored = replace_text(&file, &old);
            let reason = format!("{error:#}");
            SettingsError::Invalid(restored.err().map_or_else(|| reason.clone(), |error| format!("{reason}; {error}")))
        })
    }
}

/// The file in which the settings stand, else the named file.
fn file_of(args: &ServeArgs, running: &Config, values: &SettingsPatch) -> Result<PathBuf, SettingsError> {
    let named = args.config.as_ref().ok_or(SettingsError::NoFile)?;
    let (origins, present) = (Config::origins(args), running.shown.entries());
    let mut files = BTreeSet::new();
    for (key, value) in &values.0 {
        let present = present.get(key).and_then(setting_value);
        if [&present, value].into_iter().flatten().any(|value| !is_changeable(key, value)) || !has_place(key) {
            return Err(SettingsError::NotHere(key.clone()));
        }
        match origins.get(key) {
            Some(Origin::File(file, _)) => files.insert(file.as_path()),
            None => files.insert(named),
            Some(other) => return Err(SettingsError::SetBy(key.clone(), other.to_string())),
        };
    }
    let mut all = files.iter();
    match (all.next(), all.next()) {
        (first, None) => Ok(first.map_or_else(|| named.clone(), |file| file.to_path_buf())),
        _ => {
            let names: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
            Err(SettingsError::SeveralFiles(names.join(", ")))
        }
    }
}

/// A removed entry is no more, or has its default.
fn check_removed(values: &SettingsPatch, checked: &Config) -> Result<(), SettingsError> {
    let (all, defaults) = (checked.shown.entries(), Config::default_entries());
    let is_entry = |key: &str| matches!(all.get(key), Some(Value::Table(_)));
    let stays = |(key, value): &(&String, &Option<SettingValue>)| {
        value.is_none() && is_entry(key) && all.get(*key) != defaults.get(*key)
    };
    values.0.iter().find(stays).map_or(Ok(()), |(key, _)| {
        Err(SettingsError::Invalid(format!(
            "`{key}` is written in a way that is not known here: remove it in the file"
        )))
    })
}

/// True if the API may put a setting or entry there.
fn has_place(key: &str) -> bool {
    key.split_once('.').is_some_and(|(table, name)| CHANGEABLE.contains(&table) && !name.is_empty())
}

/// True if the API may change that with this value, and put it there.
fn is_changeable(key: &str, value: &SettingValue) -> bool {
    let is_operators = match value {
        SettingValue::Table(members) => members.iter().any(|(member, value)| match value {
            SettingValue::Text(text) => is_operators(member, Some(text)),
            _ => is_operators(member, None),
        }),
        _ => false,
    };
    has_place(key) && !is_operators
}

/// The settings in force, and where they are written now.
fn in_force(args: &ServeArgs, config: &Config) -> SettingsInForce {
    let origins = Config::origins(args);
    let defaults = Config::default_entries();
    let shown = config.shown.entries().into_iter().filter(|(key, _)| !key.starts_with(HIDDEN));
    let settings = shown.filter_map(|(key, value)| {
        let origin = origins.get(&key);
        let source = match origin {
            None => SettingSource::Default,
            Some(Origin::File(..)) => SettingSource::File,
            Some(Origin::Environment(_)) => SettingSource::Environment,
            Some(Origin::Flag(_)) => SettingSource::Flag,
        };
        let is_before_file = matches!(source, SettingSource::Environment | SettingSource::Flag);
        let value = setting_value(&value)?;
        Some(SettingEntry {
            changeable: args.config.is_some() && is_changeable(&key, &value) && !is_before_file,
            value,
            default: defaults.get(&key).and_then(setting_value),
            source,
            written_at: origin.map(ToString::to_string),
            needs_restart: needs_restart(&key),
            key,
        })
    });
    SettingsInForce { tag: tag(config), settings: settings.collect() }
}

/// The entity tag of the settings in force.
fn tag(config: &Config) -> String {
    let mut hasher = DefaultHasher::new();
    config.to_string().hash(&mut hasher);
    format!("\"{:016x}\"", hasher.finish())
}

/// As the API shows it.
fn setting_value(value: &Value) -> Option<SettingValue> {
    Some(match value {
        Value::Boolean(choice) => SettingValue::Choice(*choice),
        Value::Integer(number) => SettingValue::Number(*number),
        Value::String(text) => SettingValue::Text(text.clone()),
        Value::Array(items) => {
            SettingValue::List(items.iter().map(|item| item.as_str().map(str::to_owned)).collect::<Option<_>>()?)
        }
        Value::Table(members) => SettingValue::Table(
            members.iter().map(|(key, value)| Some((key.clone(), setting_value(value)?))).collect::<Option<_>>()?,
        ),
        other => SettingValue::Text(other.to_string()),
    })
}
