//! Documents on accounts: users, groups, rights, tokens, logins, signed links, and the requests that change them.
//!
//! Promise: a request with an unknown member is refused, so that no misspelt member is passed over. No document but
//! [`TokenText`] and [`LinkEntry`] has a credential in it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A right, as documents have it.
#[derive(Debug, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum RightWord {
    /// To read contents.
    Read,
    /// To store them.
    Write,
    /// To remove and rename them.
    Delete,
    /// To make signed links.
    Share,
    /// To administer the server, where it is over everything.
    Admin,
}

/// Rights over a folder, of an account or group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GrantEntry {
    /// The folder, from the root on.
    pub folder: String,
    /// `read`, `write`, `delete`, `share`, `admin`.
    #[schema(value_type = Vec<RightWord>)]
    pub rights: Vec<String>,
}

/// An account (`isocast user list --json`, `GET /api/v1/users`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AccountEntry {
    /// Its name.
    pub name: String,
    /// The groups it is a member of.
    pub groups: Vec<String>,
    /// Its own rights, without those of its groups.
    pub rights: Vec<GrantEntry>,
    /// When it was made, seconds since 1970.
    pub created: u64,
}

/// A group (`isocast user groups --json`, `GET /api/v1/groups`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GroupEntry {
    /// Its name.
    pub name: String,
    /// Its members.
    pub members: Vec<String>,
    /// Its rights.
    pub rights: Vec<GrantEntry>,
}

/// A token or a login of a browser, without its text (`isocast token list --json`, `GET /api/v1/tokens`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenEntry {
    /// Its number.
    pub id: i64,
    /// The account that it belongs to.
    pub user: String,
    /// True of a login by a browser.
    #[serde(default)]
    pub is_login: bool,
    /// Its purpose, or the browser.
    pub label: String,
    /// Its bounds.
    pub folder: String,
    /// The rights that it gives there, within those of its account.
    #[schema(value_type = Vec<RightWord>)]
    pub rights: Vec<String>,
    /// When it was made, seconds since 1970.
    pub created: u64,
    /// The time from which it is no longer valid, seconds since 1970.
    pub expires: Option<u64>,
    /// When it was used last, to the minute, seconds since 1970.
    pub last_used: Option<u64>,
}

/// A signed link (`isocast share list --json`, `GET /api/v1/shares`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LinkEntry {
    /// Its number.
    pub id: i64,
    /// The content or folder.
    pub path: String,
    /// The rights that it gives there.
    #[schema(value_type = Vec<RightWord>)]
    pub rights: Vec<String>,
    /// The value of `share=`; null after it has expired.
    pub share: Option<String>,
    /// When it was made, seconds since 1970.
    pub created: u64,
    /// The time from which it is no longer valid, seconds since 1970.
    pub expires: u64,
    /// The rate of its streams, and the most that they may have.
    pub rate_bps: Option<u64>,
    /// How often it may be used.
    pub uses: Option<u64>,
    /// How often it was, where that is limited.
    pub used: u64,
    /// Networks from which it is valid; empty: from all.
    pub from: Vec<String>,
    /// Most bytes that it may store.
    pub stored_max: Option<u64>,
    /// Bytes that were, where that is limited.
    pub stored: u64,
    /// The account that made it; null: the operator.
    pub by: Option<String>,
}

/// A new account (`POST /api/v1/users`).
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewAccount {
    /// Its name: 1 to 64 bytes, no colon, no control characters.
    pub name: String,
    /// Its password, 8 to 1024 bytes.
    pub password: String,
    /// Its rights over everything.
    #[serde(default)]
    #[schema(value_type = Vec<RightWord>)]
    pub rights: Vec<String>,
}

/// The first account, with all rights (`POST /api/v1/first-account`).
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FirstAccount {
    /// The code of the address that the server printed at its start.
    pub code: String,
    /// Its name: 1 to 64 bytes, no colon, no control characters.
    pub name: String,
    /// Its password, 8 to 1024 bytes.
    pub password: String,
}

/// Another password (`PUT /api/v1/users/{name}/password`).
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewPassword {
    /// The new one, 8 to 1024 bytes.
    pub password: String,
    /// The present password; an administrator needs none for another account.
    #[serde(default)]
    pub present: Option<String>,
}

/// A new token (`POST /api/v1/tokens`).
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// The account that it belongs to; null: the account that makes it.
    #[serde(default)]
    pub user: Option<String>,
    /// Its purpose, at most 200 bytes.
    #[serde(default)]
    pub label: String,
    /// Its bounds.
    #[serde(default = "root")]
    pub folder: String,
    /// The rights that it gives there, within those of its account.
    #[schema(value_type = Vec<RightWord>)]
    pub rights: Vec<String>,
    /// Seconds until it expires; null: never.
    #[serde(default)]
    pub expires_seconds: Option<u32>,
}

fn root() -> String {
    "/".to_owned()
}

/// A token that was made. Its text is shown this once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenText {
    /// Its number.
    pub id: i64,
    /// Its text, as `Authorization: Bearer` takes it.
    pub token: String,
}

/// A new signed link (`POST /api/v1/shares`).
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewLink {
    /// The content or folder, below `/media/`, not encoded.
    pub path: String,
    /// Seconds until it expires.
    pub expires_seconds: u32,
    /// The rate of its streams, and the most that they may have, bit/s.
    #[serde(default)]
    pub rate_bps: Option<u64>,
    /// How often it may be used.
    #[serde(default)]
    pub uses: Option<u64>,
    /// Networks or addresses from which it is valid; empty: from all.
    #[serde(default)]
    pub from: Vec<String>,
    /// True if it permits to store contents in the folder; false if it permits to read.
    #[serde(default)]
    pub upload: bool,
    /// Most bytes that it may store.
    #[serde(default)]
    pub stored_max: Option<u64>,
}

/// A signed link that was made.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LinkText {
    /// Its number.
    pub id: i64,
    /// The value of `share=`.
    pub share: String,
    /// The address, from this server's root on.
    pub address: String,
}

/// A new reservation ahead (`POST /api/v1/reservations`).
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewReservation {
    /// The content or folder, below `/media/`, not encoded.
    pub path: String,
    /// The rate, bit/s.
    pub rate_bps: u64,
    /// Its beginning, seconds since 1970.
    pub from: u64,
    /// Its end, seconds since 1970.
    pub until: u64,
}

/// A reservation ahead (`GET /api/v1/reservations`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReservationEntry {
    /// Its number.
    pub id: i64,
    /// The content or folder.
    pub path: String,
    /// Its rate.
    pub rate_bps: u64,
    /// Its beginning, seconds since 1970.
    pub from: u64,
    /// Its end, seconds since 1970.
    pub until: u64,
    /// The value of `session=` by which a read uses it.
    pub session: String,
    /// The account that made it; null: the operator.
    pub by: Option<String>,
    /// Its room.
    pub state: ReservationPhase,
    /// The resource that is short while it waits, with the name of a disk or link: `disk sda`.
    pub short: Option<String>,
}

/// The room of a reservation ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReservationPhase {
    /// It begins in more than an hour: its room is not kept yet.
    Planned,
    /// Its room is kept.
    Kept,
    /// It is near, and there is no room yet: newcomers get none of the resource that is short.
    Waiting,
}

/// A login by password (`POST /api/v1/session`).
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PasswordLogin {
    /// The account.
    pub name: String,
    /// Its password.
    pub password: String,
}

/// The account of a request, and the rights that it has (`GET /api/v1/session`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LoginStatus {
    /// The account; null if the request has no login.
    pub user: Option<String>,
    /// True if it administers the server.
    pub administers: bool,
    /// True if all may read everything.
    pub open: bool,
    /// True if passwords are taken over this connection.
    pub takes_passwords: bool,
    /// The provider of logins (OpenID Connect) to which `/login` leads; null if there is none.
    pub provider: Option<String>,
    /// Rights of the account over folders, its groups' included.
    pub rights: Vec<GrantEntry>,
}
