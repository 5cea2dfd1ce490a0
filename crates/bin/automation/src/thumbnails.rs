//! Thumbnails of films, made by ffmpeg where it is installed, at the first request for each.
//!
//! Promise: the beginning and the end of a content are read as best effort, one content at a time; ffmpeg runs behind everything else (nice
//! 19), for 20 s at most, reads that part alone (no playlist, no other file, no network), and 5,000 thumbnails are kept in the state folder.
//! A content that has none is not tried again. Not here: the right to see them (`service`).

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use program::process::{self, Exit};
use service::MediaService;
use service::access::{Permit, ToRead};
use service::contents::NameKind;
use service::delivery::Client;
use service::namespace::read_parts;
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;

/// Bytes of the beginning of a content, and of its end, where some containers have their index.
const BEGINNING_BYTES: u64 = 8 << 20;
const END_BYTES: u64 = 4 << 20;
/// Thumbnails that are kept …
const KEPT_MAX: usize = 5000;
/// … and this number of the oldest go when there are more.
const KEPT_LESS: usize = 500;
/// Requests that wait for a thumbnail.
const WAITING_MAX: usize = 64;
const TIME_MAX: Duration = Duration::from_secs(20);
/// Containers that name no other files.
const FORMATS: &str = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,mpegts,mpeg,avi,flv,ogg";

/// All thumbnails.
pub struct Thumbnails {
    service: Arc<MediaService>,
    folder: PathBuf,
    /// None: it is not installed.
    ffmpeg: Option<String>,
    waiting: Semaphore,
    turn: Semaphore,
}

impl Thumbnails {
    /// Keeps them below the state folder.
    #[must_use]
    pub fn new(service: &Arc<MediaService>, state: &Path) -> Arc<Self> {
        let places = std::env::var_os("PATH").unwrap_or_default();
        let programs = std::env::split_paths(&places).map(|place| place.join("ffmpeg").display().to_string());
        let usable = |program: &String| process::problem(std::slice::from_ref(program)).is_none();
        Arc::new(Self {
            service: Arc::clone(service),
            folder: state.join("thumbnails"),
            ffmpeg: programs.into_iter().find(usable),
            waiting: Semaphore::new(WAITING_MAX),
            turn: Semaphore::new(1),
        })
    }

    /// The thumbnail of a content, a JPEG; none: it has none, or too many wait.
    pub async fn of(&self, permit: &Permit<ToRead>, client: Client) -> Option<Bytes> {
        let ffmpeg = self.ffmpeg.as_ref()?;
        let entry = self.service.lookup(permit).await.ok()?;
        if entry.kind == NameKind::Directory || entry.size == 0 {
            return None;
        }
        let key = Sha256::digest(format!("{}\0{}", entry.etag, permit.path().joined()));
        let file = self.folder.join(key.iter().take(16).map(|byte| format!("{byte:02x}")).collect::<String>());
        if let Some(kept) = kept(&file).await {
            return Some(kept).filter(|bytes| !bytes.is_empty());
        }
        let _waiting = self.waiting.try_acquire().ok()?;
        let _turn = self.turn.acquire().await.ok()?;
        if let Some(kept) = kept(&file).await {
            return Some(kept).filter(|bytes| !bytes.is_empty());
        }
        // A content that cannot be read now may be read later.
        let wanted = [(0, BEGINNING_BYTES), (entry.size.saturating_sub(END_BYTES), END_BYTES)];
        let parts = read_parts(&self.service, permit, client, &wanted).await.ok()?;
        let made = self.make(ffmpeg, entry.size, parts).await.ok()?;
        let (folder, bytes) = (self.folder.clone(), made.clone());
        let _ = tokio::task::spawn_blocking(move || keep(&folder, &file, &bytes)).await;
        Some(Bytes::from(made)).filter(|bytes| !bytes.is_empty())
    }

    /// Has ffmpeg look at a file of this size that has these parts, and nothing between.
    async fn make(&self, ffmpeg: &str, size: u64, parts: Vec<(u64, Bytes)>) -> io::Result<Vec<u8>> {
        let (source, picture) = (self.folder.join("content"), self.folder.join("picture.jpg"));
        let (folder, partial) = (self.folder.clone(), source.clone());
        let write = move || {
            fs::create_dir_all(folder)?;
            let file = File::create(partial)?;
            file.set_len(size)?;
            parts.iter().try_for_each(|(offset, bytes)| file.write_all_at(bytes, *offset))
        };
        tokio::task::spawn_blocking(write).await.map_err(io::Error::other)??;
        let (from, to) = (source.display().to_string(), picture.display().to_string());
        let command = [
            ffmpeg,
            "-v",
            "error",
            "-y",
            "-threads",
            "1",
            "-protocol_whitelist",
            "file",
            "-format_whitelist",
            FORMATS,
            "-i",
            &from,
            "-map",
            "0:v:0",
            "-frames:v",
            "1",
            "-vf",
            "thumbnail=50,scale=320:-2",
            "-q:v",
            "5",
            "-f",
            "image2",
            "-update",
            "1",
            &to,
        ];
        let ran = process::run(&command.map(str::to_owned), &[], &[], tokio::time::sleep(TIME_MAX)).await;
        let read = move || {
            let read = fs::read(&picture);
            let _ = (fs::remove_file(source), fs::remove_file(picture));
            read
        };
        let read = tokio::task::spawn_blocking(read).await.map_err(io::Error::other)?;
        match ran {
            Ok(Exit::Good) => read,
            Ok(Exit::Bad(_)) => Ok(Vec::new()),
            // On a busy machine it may be made later.
            Ok(Exit::Stopped(_)) => Err(io::ErrorKind::TimedOut.into()),
            Err(error) => Err(io::Error::other(error)),
        }
    }
}

async fn kept(file: &Path) -> Option<Bytes> {
    let file = file.to_owned();
    tokio::task::spawn_blocking(move || fs::read(file)).await.ok()?.ok().map(Bytes::from)
}

/// Keeps a thumbnail, an empty one where there is none. The oldest make room.
fn keep(folder: &Path, file: &Path, bytes: &[u8]) -> io::Result<()> {
    fs::write(file.with_extension("new"), bytes)?;
    fs::rename(file.with_extension("new"), file)?;
    let modified = |entry: fs::DirEntry| Some((entry.metadata().ok()?.modified().ok()?, entry.path()));
    let mut all: Vec<_> = fs::read_dir(folder)?.flatten().filter_map(modified).collect();
    if all.len() > KEPT_MAX {
        all.sort_unstable();
        all.iter().take(KEPT_LESS).try_for_each(|(_, oldest)| fs::remove_file(oldest))?;
    }
    Ok(())
}
