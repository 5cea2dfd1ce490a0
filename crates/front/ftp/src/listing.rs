//! Listings of folders, as `MLSD`, `LIST` and `NLST` send them.
//!
//! Promise: one piece is made when the one before is taken, so that a client which does not read holds one; names with a line's end in
//! them are left out, because a client would take the rest for another name.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use service::MediaService;
use service::access::{Permit, ToRead};
use service::contents::{Entry, NameKind, StoreError};
use service::listing::Listing;

/// Entries of a piece.
const PIECE_ENTRIES: usize = 500;
/// Entries of a part, of a folder that has too many for one listing.
const PART_ENTRIES: usize = 10_000;
/// `LIST` has the year of a time that lies further back, and the hour of any other, as ls(1) does.
const HALF_A_YEAR: Duration = Duration::from_secs(182 * 86_400);

/// Form of a listing's lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListingForm {
    Facts,
    Long,
    Names,
}

/// A listing under way.
pub(crate) struct FolderListing {
    service: Arc<MediaService>,
    permit: Permit<ToRead>,
    listing: Arc<Listing>,
    form: ListingForm,
    next: usize,
    in_parts: bool,
}

impl FolderListing {
    /// Lists the permit's folder.
    ///
    /// # Errors
    /// The store's error.
    pub(crate) async fn begin(
        service: &Arc<MediaService>,
        permit: Permit<ToRead>,
        form: ListingForm,
    ) -> Result<Self, StoreError> {
        let (listing, in_parts) = match service.list(&permit).await {
            Err(StoreError::TooManyNames(_)) => (service.list_part(&permit, "", PART_ENTRIES).await?, true),
            listed => (listed?, false),
        };
        Ok(Self { service: Arc::clone(service), permit, listing, form, next: 0, in_parts })
    }

    /// The next lines; none at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
        if self.next >= self.listing.entries.len() {
            let Some(last) = self.listing.entries.last().filter(|_| self.in_parts) else { return Ok(None) };
            let after = last.name.clone();
            self.listing = self.service.list_part(&self.permit, &after, PART_ENTRIES).await?;
            self.next = 0;
        }
        let end = self.listing.entries.len().min(self.next + PIECE_ENTRIES);
        if end == self.next {
            return Ok(None);
        }
        let mut text = String::new();
        for entry in &self.listing.entries[self.next..end] {
            line(&mut text, entry, self.form);
        }
        self.next = end;
        Ok(Some(text.into()))
    }
}

/// The line of an entry; nothing for a name that would be two.
pub(crate) fn line(text: &mut String, entry: &Entry, form: ListingForm) {
    let name = &entry.name;
    if name.contains(['\r', '\n']) {
        return;
    }
    let _ = match form {
        ListingForm::Facts => write!(text, "{} {name}\r\n", facts(entry)),
        ListingForm::Names => write!(text, "{name}\r\n"),
        ListingForm::Long => {
            let kind = if entry.kind == NameKind::Directory { "drwxr-xr-x" } else { "-rw-r--r--" };
            let when = long_time(entry.modified, SystemTime::now());
            write!(text, "{kind} 1 ftp ftp {:>13} {when} {name}\r\n", entry.size)
        }
    };
}

/// Facts of an entry (RFC 3659 §7.2).
pub(crate) fn facts(entry: &Entry) -> String {
    let modified = stamp(entry.modified);
    match entry.kind {
        NameKind::Directory => format!("type=dir;modify={modified};"),
        NameKind::File => format!("type=file;size={};modify={modified};", entry.size),
    }
}

/// `20260101120000` (RFC 3659 §2.3).
pub(crate) fn stamp(time: SystemTime) -> String {
    Timestamp::try_from(time).unwrap_or_default().strftime("%Y%m%d%H%M%S").to_string()
}

/// `Jan  1 12:00`, or `Jan  1  2020`.
fn long_time(time: SystemTime, now: SystemTime) -> String {
    let is_recent = now.duration_since(time).is_ok_and(|age| age < HALF_A_YEAR);
    let zoned = Timestamp::try_from(time).unwrap_or_default().to_zoned(TimeZone::UTC);
    zoned.strftime(if is_recent { "%b %e %H:%M" } else { "%b %e  %Y" }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use service::contents::FileId;

    #[test]
    fn lines_are_those_that_clients_parse() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_225_600);
        assert_eq!(stamp(at), "20260101000000");
        assert_eq!(long_time(at, at + Duration::from_secs(60)), "Jan  1 00:00");
        assert_eq!(long_time(at, at + 2 * HALF_A_YEAR), "Jan  1  2026");
        assert_eq!(
            long_time(at, at - Duration::from_secs(60)),
            "Jan  1  2026",
            "the clock of the file's machine is ahead"
        );
        let entry = |name: &str| Entry {
            name: name.to_owned(),
            kind: NameKind::File,
            id: Some(FileId { device: 1, inode: 2 }),
            is_link: false,
            size: 7,
            modified: at,
            created: None,
            etag: String::new(),
            disk: units::DiskId(0),
            rate: None,
        };
        let mut text = String::new();
        line(&mut text, &entry("a b"), ListingForm::Facts);
        line(&mut text, &entry("two\r\ntype=file; lines"), ListingForm::Facts);
        assert_eq!(text, "type=file;size=7;modify=20260101000000; a b\r\n");
    }
}
