//! The folders that this very server serves, as one end of a copy, or read for their own sake.
//!
//! Promise: reads are those of any client, on loopback, so that the plane gives them their time; writes go to the same service as
//! an upload's, and are durable when they are done. Called on a thread that may wait, never on one of the runtime's own.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::Context as _;
use bytes::Bytes;
use dirstore::{ContentPath, OnBreak, Precondition};
use service::MediaService;
use service::delivery::Client;
use service::ingest::{self, IngestRequest};
use service::pipeline::Stages;
use tokio::runtime::Handle;
use units::BitRate;

use super::pacing::{MoveProgress, PacedReader};
use super::remote::Remote;
use super::{READ_BYTES, SourceFile, fill};

/// Who writes, as the event log tells it.
const OWN: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// What reading a whole folder found.
#[derive(Debug, Default)]
pub(crate) struct FolderReading {
    /// Contents that were read whole.
    pub(crate) files: u64,
    /// Bytes of these.
    pub(crate) bytes: u64,
    /// Those that were not, and why.
    pub(crate) unreadable: Vec<String>,
}

/// A folder below `/media/`.
pub(crate) struct OwnFolder {
    pub(super) remote: Remote,
    path: ContentPath,
    service: Arc<MediaService>,
    runtime: Handle,
}

impl OwnFolder {
    /// `address` is where this server answers.
    pub(crate) fn new(service: &Arc<MediaService>, address: SocketAddr, path: &ContentPath, runtime: Handle) -> Self {
        let remote = Remote::of_own(address, path);
        Self { remote, path: path.clone(), service: Arc::clone(service), runtime }
    }

    pub(super) fn shown(&self, name: &str) -> String {
        let slash = if name.is_empty() || self.path.components().is_empty() { "" } else { "/" };
        format!("{}{slash}{name}", self.path.joined())
    }

    pub(super) fn put(
        &self,
        name: &str,
        bytes: u64,
        rate: Option<BitRate>,
        reader: &mut PacedReader<'_>,
    ) -> anyhow::Result<()> {
        let mut names = name.split('/').filter(|name| !name.is_empty());
        let path = names.try_fold(self.path.clone(), |path, name| path.child(name));
        let request = IngestRequest {
            path: path.with_context(|| name.to_owned())?,
            length: Some(bytes),
            precondition: Precondition::None,
            rate,
            on_break: OnBreak::Discard,
            client: Client { address: OWN, local: OWN },
        };
        let mut writer = self.runtime.block_on(ingest::begin(&self.service, request, Stages::default()))?;
        loop {
            let mut piece = vec![0; READ_BYTES];
            let count = fill(reader, &mut piece).inspect_err(|error| writer.give_up(&error.to_string()))?;
            piece.truncate(count);
            self.runtime.block_on(writer.write(Bytes::from(piece)))?;
            if count < READ_BYTES {
                break;
            }
        }
        self.runtime.block_on(writer.finish())?;
        Ok(())
    }

    /// Reads every content below it, each at `rate`, or with what is left over.
    ///
    /// # Errors
    /// It cannot be listed, or was told to stop.
    pub(crate) fn read_all(&self, rate: Option<BitRate>, moved: &MoveProgress) -> anyhow::Result<FolderReading> {
        let files = self.remote.files()?.files;
        moved.expect(files.iter().map(|file| file.bytes).sum());
        let mut reading = FolderReading::default();
        for file in files {
            let read = self.read(&file, rate, moved);
            moved.check()?;
            match read {
                Ok(bytes) => {
                    reading.files += 1;
                    reading.bytes += bytes;
                }
                // Somebody removed it meanwhile.
                Err(_) if self.remote.length(&file.name).is_ok_and(|length| length.is_none()) => {}
                Err(error) => reading.unreadable.push(format!("{}: {error:#}", self.shown(&file.name))),
            }
        }
        Ok(reading)
    }

    fn read(&self, file: &SourceFile, rate: Option<BitRate>, moved: &MoveProgress) -> anyhow::Result<u64> {
        let opened = self.remote.open(&file.name, 0, rate)?;
        let mut reader = PacedReader::new(opened.reader, None, moved);
        Ok(std::io::copy(&mut reader, &mut std::io::sink())?)
    }
}
