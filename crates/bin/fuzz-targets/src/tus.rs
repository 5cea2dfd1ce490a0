//! Header fields of tus: any text gives values or a reason, and these are within their bounds.

use std::time::{Duration, SystemTime};

use http::message::digest::BodyChecks;
use http::message::tus::{SECONDS_MAX, UPLOADS, UploadConcat, UploadMetadata};

/// The target.
pub fn target(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(metadata) = UploadMetadata::parse(&text) {
        let latest = SystemTime::UNIX_EPOCH + Duration::from_secs(SECONDS_MAX);
        assert!(metadata.modified.is_none_or(|modified| modified <= latest));
        assert!(metadata.path.is_none_or(|path| path.len() <= text.len()));
    }
    if let Ok(UploadConcat::Final(ids)) = UploadConcat::parse(&text) {
        assert!(ids.iter().all(|id| !id.contains([' ']) && !id.contains(UPLOADS)));
    }
    let _ = BodyChecks::of_tus(&text);
}
