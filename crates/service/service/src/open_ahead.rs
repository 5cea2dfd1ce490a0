//! Opening the next content of a session before its request: the segment behind `s07.ts` is `s08.ts`.
//!
//! The look-ups of an open (the directory, the extents, on a volume the checksums, where nothing says the rate the container too) are in
//! memory by the time the player asks. The content itself is not read: its session's clock says when that is due.
//!
//! Promise: a wrong guess costs one look-up; no more than [`OPENS_MAX`] are under way, and further contents are not opened ahead. Not
//! here: which sessions read content after content (`session`).

use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::contents::ContentPath;

/// Opens ahead at once. Chosen: a disk seeks as often in a fifth of a second.
const OPENS_MAX: usize = 16;
/// Digits that count: more are no number of a segment (as many as 64 bits hold).
const DIGITS_MAX: usize = 18;

/// The opens under way.
#[derive(Debug, Clone)]
pub(crate) struct OpensAhead(Arc<Semaphore>);

impl Default for OpensAhead {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(OPENS_MAX)))
    }
}

impl OpensAhead {
    /// Opens the content that follows `path`, and lets it go.
    pub(crate) fn open_next<F>(&self, path: &str, open: impl FnOnce(ContentPath) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let Some(next) = next_content(path) else { return };
        let Ok(place) = Arc::clone(&self.0).try_acquire_owned() else { return };
        let open = open(next);
        tokio::spawn(async move {
            open.await;
            drop(place);
        });
    }
}

/// The name with the last number in its last component one higher, as wide.
fn next_content(path: &str) -> Option<ContentPath> {
    let name = path.rfind('/').map_or(0, |slash| slash + 1);
    let end = name + path[name..].rfind(|c: char| c.is_ascii_digit())? + 1;
    // The digit of `.mp4` or `.m4s` is none of a number.
    let end = match path[name..end].rfind('.') {
        Some(dot) if dot > 0 && !path[name + dot + 1..].bytes().all(|b| b.is_ascii_digit()) => {
            name + path[name..name + dot].rfind(|c: char| c.is_ascii_digit())? + 1
        }
        _ => end,
    };
    let start = name + path[name..end].rfind(|c: char| !c.is_ascii_digit()).map_or(0, |at| at + 1);
    let digits = &path[start..end];
    if digits.len() > DIGITS_MAX {
        return None;
    }
    let number = digits.parse::<u64>().ok()? + 1;
    let next = format!("{}{number:0width$}{}", &path[..start], &path[end..], width = digits.len());
    next.split('/').try_fold(ContentPath::root(), |path, name| path.child(name)).ok()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// A player may ask for any number of segments at once, and a disk may not answer.
    #[tokio::test]
    async fn no_more_opens_than_the_bound_are_under_way() {
        let (ahead, begun, answers) =
            (OpensAhead::default(), Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
        for answered in 1..=3 {
            for n in 0..1000 {
                let (begun, answers) = (Arc::clone(&begun), Arc::clone(&answers));
                ahead.open_next(&format!("film/s{n}.ts"), |_| async move {
                    begun.fetch_add(1, Ordering::Relaxed);
                    answers.acquire().await.expect("never closed").forget();
                });
            }
            while begun.load(Ordering::Relaxed) < answered * OPENS_MAX {
                tokio::task::yield_now().await;
            }
            answers.add_permits(OPENS_MAX);
            while ahead.0.available_permits() < OPENS_MAX {
                tokio::task::yield_now().await;
            }
            assert_eq!(begun.load(Ordering::Relaxed), answered * OPENS_MAX);
        }
    }

    #[test]
    fn the_next_content_has_the_next_number() {
        let next = |path: &str| next_content(path).map(|path| path.joined());
        for (path, expected) in [
            ("s07.ts", "s08.ts"),
            ("film/1080p/seg-00099.m4s", "film/1080p/seg-00100.m4s"),
            ("show.s01e09.mp4", "show.s01e10.mp4"),
            ("a9.ts", "a10.ts"),
            ("day2/stream3_17", "day2/stream3_18"),
            ("chunk-stream0-00001.m4s", "chunk-stream0-00002.m4s"),
            ("video.7", "video.8"),
        ] {
            assert_eq!(next(path).as_deref(), Some(expected), "{path}");
        }
        for none in ["film.mp4", "day2/film.ts", "x99999999999999999999.ts", ""] {
            assert_eq!(next(none), None, "{none}");
        }
    }
}
