//! Paths of this machine that a running server serves: they are read and written through its schedule.
//!
//! Promise: a file is read through the server only where it shows that file, in the version that lies here; its streams are not
//! disturbed then. Files that it does not show (hidden ones, and those that an earlier folder hides) are read directly.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use api::Disk;
use client::{FileVersion, Login, Remote, RemoteEntry, ServerApi, SourceReader, USUAL_SERVER};
use units::BitRate;

use super::local::Folder;
use super::pacing::PacedReader;

/// A running server, and the folders of this machine that it serves.
pub(super) struct LocalServer {
    url: String,
    login: Option<Login>,
    folders: Vec<PathBuf>,
}

/// A file or folder of this machine, as a server shows it.
pub struct SharedFolder {
    pub(super) folder: Folder,
    pub(super) remote: Remote,
}

impl LocalServer {
    /// The server at `url`, or at the likely or usual address if one answers there.
    ///
    /// # Errors
    /// `url` does not answer.
    pub(super) fn find(url: Option<&str>, likely: Option<&str>, login: Option<&Login>) -> anyhow::Result<Option<Self>> {
        let at = url.or(likely).unwrap_or(USUAL_SERVER).trim_end_matches('/').to_owned();
        let disks = ServerApi::new(&at, login.cloned()).read::<Vec<Disk>>("disks");
        match (disks, url) {
            (Ok(disks), _) => {
                let folders = disks.into_iter().flat_map(|disk| disk.folders).map(PathBuf::from);
                let folders = folders.filter(|folder| folder.is_dir()).collect();
                Ok(Some(Self { url: at, login: login.cloned(), folders }))
            }
            (Err(_), None) => Ok(None),
            (Err(error), Some(_)) => Err(error),
        }
    }

    /// `folder` through this server, if it serves it. A file must come to lie where it was named: with several folders the server chooses.
    pub(super) fn through(&self, folder: &Folder, is_written: bool) -> anyhow::Result<Option<SharedFolder>> {
        if is_written && self.folders.len() != 1 {
            return Ok(None);
        }
        let below = self.folders.iter().find_map(|root| folder.below_root(root));
        let Some(path) = below else { return Ok(None) };
        let root = Remote::new(&format!("{}/media", self.url), self.login.as_ref())?;
        Ok(Some(SharedFolder { folder: folder.clone(), remote: root.below(&path) }))
    }
}

/// The server of an address, if it has one of this machine's own.
pub(super) fn server_of_this_machine(address: &str) -> Option<&str> {
    let (scheme, rest) = address.split_once("://")?;
    let authority = rest.split('/').next()?;
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host).trim_matches(['[', ']']);
    let is_own = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    is_own.then(|| &address[..scheme.len() + "://".len() + authority.len()])
}

impl SharedFolder {
    pub(super) fn below(&self, name: &str) -> Self {
        Self { folder: self.folder.below(name), remote: self.remote.below(name) }
    }

    pub(super) fn open(&self, name: &Path, from: u64, rate: Option<BitRate>) -> anyhow::Result<SourceReader> {
        let Some(shown) = name.to_str() else { return self.folder.open(name, from) };
        match self.remote.find(shown) {
            Ok(Some(RemoteEntry::Content(content))) if content.etag == Some(self.folder.etag(name)?) => {
                self.remote.open_resumed(shown, from, rate)
            }
            _ => self.folder.open(name, from),
        }
    }

    pub(super) fn put(
        &self,
        name: &str,
        version: &FileVersion,
        rate: Option<BitRate>,
        reader: &mut PacedReader<'_>,
    ) -> anyhow::Result<()> {
        self.remote.put(name, version, rate, reader).with_context(|| {
            format!(
                "{} serves this folder (`--login FILE` names the user that writes, `--alone` writes past it)",
                self.remote.at("")
            )
        })
    }
}
