//! Settings, as the API shows and changes them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A setting in force (`GET /api/v1/settings`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SettingEntry {
    /// Its key, `limits.connections` for example.
    pub key: String,
    /// Its value, as the configuration file writes it.
    pub value: SettingValue,
    /// Its default; null if the entry exists only when it is written.
    pub default: Option<SettingValue>,
    /// Its source.
    pub source: SettingSource,
    /// The file with its line, the variable or the flag; null for a default.
    pub written_at: Option<String>,
    /// True if `PATCH` can change it: a new value is in force at once, and no variable or flag overrides the file.
    pub changeable: bool,
    /// True if a change is in force from the next start on.
    pub needs_restart: bool,
}

/// The value of a setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum SettingValue {
    /// A choice.
    Choice(bool),
    /// A number.
    Number(i64),
    /// A text, also of a quantity with its unit.
    Text(String),
    /// Texts.
    List(Vec<String>),
    /// An entry of an array of tables, `job.nightly` for `[[job]]` with the name `nightly`: its members.
    #[schema(no_recursion)]
    Table(BTreeMap<String, Self>),
}

/// The source of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SettingSource {
    /// None wrote it.
    Default,
    /// A configuration file.
    File,
    /// An environment variable.
    Environment,
    /// A flag of the command line.
    Flag,
}

/// Settings to be changed (`PATCH /api/v1/settings`), by key; `null` removes one from the file, so that it has its default, and an entry
/// of an array is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(value_type = Object)]
pub struct SettingsPatch(pub BTreeMap<String, Option<SettingValue>>);
