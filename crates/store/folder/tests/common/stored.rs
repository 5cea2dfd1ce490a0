//! Contents that tests store, and waits for their effects.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use std::time::{Duration, Instant};

use store::{
    ContentPath, NameTaken, OnBreak, Precondition, Published, Store, StoreError, StoreSettings, Upload, UploadClass,
    UploadRequest,
};

/// Longer than anything here takes; a test that waits this long has failed.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A folder on the file system of the build directory.
pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

pub fn path(text: &str) -> ContentPath {
    ContentPath::parse_encoded(text).unwrap()
}

pub fn settings() -> StoreSettings {
    StoreSettings { patience: PATIENCE, ..StoreSettings::default() }
}

pub fn request(at: &str, length: Option<u64>) -> UploadRequest {
    UploadRequest {
        path: path(at),
        length,
        precondition: Precondition::None,
        class: UploadClass::BestEffort,
        durable: None,
        on_break: OnBreak::Discard,
        name_taken: NameTaken::Replace,
        modified: None,
        memory: None,
    }
}

pub async fn put(store: &Store, at: &str, bytes: &[u8]) -> Result<Published, StoreError> {
    let mut upload: Upload = store.begin_upload(request(at, Some(bytes.len().try_into().unwrap()))).await?;
    upload.append(bytes).await?;
    upload.finish().await
}

/// Bytes that no two places share.
pub fn pattern(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3]
        })
        .collect()
}

/// Looks until it is so, for an unreported effect of another thread or process. Blocks the thread.
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !so() {
        assert!(Instant::now() < end, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
