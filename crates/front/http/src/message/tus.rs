//! Header fields of tus 1.0: the metadata of an upload, and its part in another one.
//!
//! Promise: any text gives a value or the reason why it has none. Not here: checksums (`digest`), the protocol (`crate::tus`).

use std::time::SystemTime;

use api::parse_modified;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Where uploads are.
pub const UPLOADS: &str = "/upload/";
/// Bytes of `Upload-Metadata`, which is given back.
const METADATA_BYTES_MAX: usize = 4096;

/// `Upload-Metadata`: names, each with a value in base 64.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct UploadMetadata {
    /// Of the content, below `/media/`.
    pub path: Option<String>,
    /// The modification time.
    pub modified: Option<SystemTime>,
}

impl UploadMetadata {
    /// Reads the field.
    ///
    /// # Errors
    /// The reason for the client.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text.len() > METADATA_BYTES_MAX {
            return Err("`Upload-Metadata` has at most 4096 bytes");
        }
        let mut metadata = Self::default();
        for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once(' ').unwrap_or((pair, ""));
            if !matches!(name, "path" | "mtime") {
                continue;
            }
            let value = STANDARD.decode(value.trim()).ok().and_then(|value| String::from_utf8(value).ok());
            let value = value.ok_or("a value of `Upload-Metadata` is no text in base 64")?;
            if name == "path" {
                metadata.path = Some(value);
            } else {
                let time =
                    parse_modified(&value).ok_or("`mtime` of `Upload-Metadata` is a number of seconds since 1970")?;
                metadata.modified = Some(time);
            }
        }
        Ok(metadata)
    }
}

/// `Upload-Concat`.
#[derive(Debug, PartialEq, Eq)]
pub enum UploadConcat {
    /// It is to be a part of another upload.
    Partial,
    /// It is made of the uploads with these identifiers.
    Final(Vec<String>),
}

impl UploadConcat {
    /// Reads the field.
    ///
    /// # Errors
    /// The reason for the client.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text == "partial" {
            return Ok(Self::Partial);
        }
        let unread = "`Upload-Concat` is `partial` or `final;` and uploads";
        let parts = text.strip_prefix("final;").ok_or(unread)?.split(' ').filter(|part| !part.is_empty());
        let id = |address: &str| address.rsplit_once(UPLOADS).map(|(_, id)| id.to_owned());
        parts.map(id).collect::<Option<Vec<_>>>().map(Self::Final).ok_or(unread)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn metadata_names_the_path_and_the_time() {
        let parsed =
            UploadMetadata::parse("filename YQ==,path YS9iIGMudHM=, mtime MTYwMDAwMDAwMA==,empty").expect("metadata");
        let modified = Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1_600_000_000));
        assert_eq!(parsed, UploadMetadata { path: Some("a/b c.ts".to_owned()), modified });
        assert_eq!(UploadMetadata::parse(""), Ok(UploadMetadata::default()));
        // Bytes that are no text, a word, and a value that is not encoded.
        for text in ["path /w==", "mtime c29vbg==", "path a/b", &"x".repeat(5000)] {
            assert!(UploadMetadata::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_upload_is_a_part_or_made_of_parts() {
        assert_eq!(UploadConcat::parse("partial"), Ok(UploadConcat::Partial));
        let parts = UploadConcat::Final(vec!["1a".to_owned(), "2b".to_owned()]);
        assert_eq!(UploadConcat::parse("final;/upload/1a http://h/upload/2b"), Ok(parts));
        assert!(UploadConcat::parse("final;1a").is_err() && UploadConcat::parse("whole").is_err());
    }
}
