//! The folders that this very server serves, as one end of a copy, or read for their own sake.
//!
//! Promise: reads are those of any client, on loopback, so that the plane gives them their time; writes go to the same service as
//! an upload's, and are durable when they are done; one that breaks off is gone on with where it was. Called on a thread that may wait,
//! never on one of the runtime's own.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::Context as _;
use bytes::Bytes;
use client::{FileVersion, RateRefusal, Remote, SourceFile, Tree};
use dirstore::{ContentPath, OnBreak, Precondition, WalkedKind};
use service::MediaService;
use service::access::Permit;
use service::delivery::Client;
use service::ingest::{self, IngestRequest, Writer};
use service::pipeline::Stages;
use tokio::runtime::Handle;
use units::BitRate;

use super::pacing::{MoveProgress, PacedReader};
use super::{READ_BYTES, fill, utf8};
use crate::failures::Failures;

/// A file with an identifier that changes with each start of the machine.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// Who writes, as the event log tells it.
const OWN: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A folder below `/media/`.
pub struct OwnFolder {
    pub(super) remote: Remote,
    path: ContentPath,
    service: Arc<MediaService>,
    runtime: Handle,
}

impl OwnFolder {
    /// `address` is where this server answers.
    pub fn new(service: &Arc<MediaService>, address: SocketAddr, path: &ContentPath, runtime: Handle) -> Self {
        let remote = Remote::at_address(address, &path.joined());
        Self { remote, path: path.clone(), service: Arc::clone(service), runtime }
    }

    /// The files below it, as clients are shown them; what no address can name counts as unreadable.
    pub(super) fn files(&self) -> anyhow::Result<Tree> {
        let mut tree = self.remote.files()?;
        if tree.is_folder {
            tree.unreadable.extend(self.runtime.block_on(self.unnamed())?);
        }
        Ok(tree)
    }

    async fn unnamed(&self) -> anyhow::Result<Vec<String>> {
        let mut unnamed = Vec::new();
        let mut walk = self
            .service
            .walk(&Permit::of_configuration(self.path.clone()))
            .await
            .with_context(|| self.path.to_string())?;
        while let Some(met) = walk.next().await {
            let path = match &met {
                Ok(item) if item.is_shown && !matches!(item.walked.kind, WalkedKind::Folder(_)) => &item.walked.path,
                Ok(_) => continue,
                Err(error) => &error.path,
            };
            if path.to_str().is_none() {
                unnamed.push(format!("{}: its name is not UTF-8, so that no address leads to it", path.display()));
            }
        }
        Ok(unnamed)
    }

    pub(super) fn shown(&self, name: &str) -> String {
        let slash = if name.is_empty() || self.path.components().is_empty() { "" } else { "/" };
        format!("{}{slash}{name}", self.path.joined())
    }

    /// Begins to write a content, or goes on with what has come of this version of its source.
    pub(super) fn begin(
        &self,
        file: &SourceFile,
        rate: Option<BitRate>,
        version: &FileVersion,
    ) -> anyhow::Result<OwnUpload> {
        let mut names = utf8(&file.name)?.split('/').filter(|name| !name.is_empty());
        let path = names.try_fold(self.path.clone(), |path, name| path.child(name));
        let mut hasher = DefaultHasher::new();
        // Bytes that were written shortly before the machine stopped may not be on its disk.
        (&version.tag, version.bytes, std::fs::read(BOOT_ID).unwrap_or_default()).hash(&mut hasher);
        let request = IngestRequest {
            length: Some(version.bytes),
            precondition: Precondition::None,
            rate,
            durable: None,
            on_break: OnBreak::Resume(hasher.finish()),
            every: None,
            client: Client { address: OWN, local: OWN },
        };
        let path = path.with_context(|| file.name.display().to_string())?;
        let writer = self.runtime.block_on(ingest::begin(
            &self.service,
            &Permit::of_configuration(path),
            request,
            Stages::default(),
        ))?;
        Ok(OwnUpload { writer, runtime: self.runtime.clone() })
    }

    /// Reads every content below it, each at `rate`, or with what is left over; until the rate is refused, for the next one would be refused
    /// as well. Gives those that were not read whole, and why.
    ///
    /// # Errors
    /// It cannot be listed, or was told to stop.
    pub fn read_all(&self, rate: Option<BitRate>, moved: &MoveProgress) -> anyhow::Result<Failures> {
        let tree = self.files()?;
        moved.expect(tree.files.iter().map(|file| file.bytes).sum());
        let mut unreadable = Failures::default();
        tree.unreadable.iter().for_each(|folder| unreadable.add(folder));
        for file in tree.files {
            let name = utf8(&file.name)?;
            let read = self.read(name, rate, moved);
            moved.check()?;
            match read {
                Ok(()) => moved.file_is_done(0),
                Err(error) if error.is::<RateRefusal>() => {
                    let refused = format!("{}: {error:#}; no other was asked for after it", self.shown(name));
                    unreadable.add(refused);
                    break;
                }
                // Somebody removed it meanwhile.
                Err(_) if self.remote.find(name).is_ok_and(|found| found.is_none()) => {}
                Err(error) => unreadable.add(format_args!("{}: {error:#}", self.shown(name))),
            }
        }
        Ok(unreadable)
    }

    fn read(&self, name: &str, rate: Option<BitRate>, moved: &MoveProgress) -> anyhow::Result<()> {
        let opened = self.remote.open(name, 0, rate)?;
        let mut reader = PacedReader::new(opened.reader, None, moved);
        std::io::copy(&mut reader, &mut std::io::sink())?;
        Ok(())
    }
}

/// A content that is being written.
pub(super) struct OwnUpload {
    writer: Writer,
    runtime: Handle,
}

impl OwnUpload {
    /// Bytes that an earlier copy has left.
    pub(super) fn begun_with(&self) -> u64 {
        self.writer.begun_with()
    }

    /// Says why nothing more will come, for the log.
    pub(super) fn give_up(&mut self, reason: &str) {
        self.runtime.block_on(self.writer.give_up(reason));
    }

    /// Writes all that `reader` has behind that.
    ///
    /// # Errors
    /// It cannot be read or stored; what was written is gone on with by the next one.
    pub(super) fn finish(mut self, reader: &mut PacedReader<'_>) -> anyhow::Result<()> {
        loop {
            let mut piece = vec![0; READ_BYTES];
            let count = fill(reader, &mut piece).inspect_err(|error| self.give_up(&error.to_string()))?;
            piece.truncate(count);
            self.runtime.block_on(self.writer.write(Bytes::from(piece)))?;
            if count < READ_BYTES {
                break;
            }
        }
        self.runtime.block_on(self.writer.finish())?;
        Ok(())
    }
}
