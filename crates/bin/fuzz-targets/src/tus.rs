//! Header fields of tus: any text gives values or a reason, and these are within their bounds.

use std::time::{Duration, SystemTime};

use api::MODIFIED_SECONDS_MAX;
use http::message::digest::BodyChecks;
use http::message::tus::{UPLOADS, UploadConcat, UploadMetadata};

/// The target.
pub fn target(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(metadata) = UploadMetadata::parse(&text) {
        let end = SystemTime::UNIX_EPOCH + Duration::from_secs(MODIFIED_SECONDS_MAX + 1);
        assert!(metadata.modified.is_none_or(|modified| modified < end));
        assert!(metadata.path.is_none_or(|path| path.len() <= text.len()));
    }
    if let Ok(UploadConcat::Final(ids)) = UploadConcat::parse(&text) {
        assert!(ids.iter().all(|id| !id.contains([' ']) && !id.contains(UPLOADS)));
    }
    let _ = BodyChecks::of_tus(&text);
}
