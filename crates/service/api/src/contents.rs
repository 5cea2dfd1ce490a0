//! Contents and folders: listings, details, searches, the trash, uploads that continue.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One line of a directory's listing (`GET /media/<dir>/?format=json`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ListingEntry {
    /// Its name in the directory, not encoded.
    pub name: String,
    /// File or directory.
    pub kind: EntryKind,
    /// True if the name is a link to it; omitted otherwise.
    #[serde(rename = "link", default, skip_serializing_if = "std::ops::Not::not")]
    pub is_link: bool,
    /// Bytes; zero for a directory.
    pub size: u64,
    /// Last modification, RFC 3339 in UTC.
    pub modified: String,
    /// The rate it needs, if known.
    pub rate_bps: Option<u64>,
    /// The part of the content from which that rate was found, in lower case with hyphens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_source: Option<String>,
    /// Its size over its playing time. A stream sends media ahead at its start, so a short content needs a slightly lower rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_bps: Option<u64>,
}

/// An item of the trash (`GET /api/v1/trash`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TrashEntry {
    /// Its name in the trash.
    pub id: String,
    /// The path that it had, not encoded.
    pub path: String,
    /// File or directory.
    pub kind: EntryKind,
    /// Its bytes, with those of all below it.
    pub bytes: u64,
    /// When it was removed, seconds since 1970.
    pub removed: f64,
    /// Time of its final removal, unless the trash is full before.
    pub expires: f64,
}

/// Details of a content (`GET /api/v1/contents/details`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ContentDetails {
    /// Its container; null if the server does not recognize it.
    pub container: Option<String>,
    /// The formats in it, as far as they are known: pictures, sound, texts.
    #[serde(default)]
    pub codecs: Vec<String>,
    /// The disks that it lies on, those of the first copy first.
    pub disks: Vec<String>,
    /// Its copies.
    pub copies: u64,
}

/// The result of a search (`GET /api/v1/contents/search`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FoundNames {
    /// Contents and folders, those with names that begin with the first word first.
    pub entries: Vec<FoundEntry>,
    /// True if further items match, or not all names could be searched.
    pub is_part: bool,
}

/// A content or folder that a search found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FoundEntry {
    /// Its path below all contents, not encoded.
    pub path: String,
    /// Its line in the listing of its folder.
    pub entry: ListingEntry,
}

/// File or directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum EntryKind {
    /// A content.
    File,
    /// A directory.
    Directory,
}

/// An upload that its client can continue (`GET /api/v1/uploads`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UploadStatus {
    /// Its name below `/upload/`.
    pub id: String,
    /// The content that it becomes, below `/media/`.
    pub path: String,
    /// Durable bytes.
    pub offset: u64,
    /// Bytes in all, if they are known.
    pub length: Option<u64>,
    /// End of its time, seconds since 1970.
    pub expires: u64,
    /// Address of the client that began it.
    pub client: String,
    /// Its user; null if no login was needed.
    pub user: Option<String>,
}
