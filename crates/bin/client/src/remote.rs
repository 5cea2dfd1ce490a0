//! Contents of an Isocast server, over HTTP.
//!
//! Promise: bytes read or sent at a rate were admitted by the server at that rate; a refusal names the rate that would
//! be granted. A server that neither takes nor sends for a minute is given up.

use std::io::{self, Read};
use std::ops::Range;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail};
use api::{Disk, EntryKind, ListingEntry, MODIFIED_FIELD, VolumeStatus, format_modified, parse_modified};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use units::BitRate;
use ureq::http::header::{CONTENT_LENGTH, CONTENT_RANGE, ETAG, EXPECT, IF_MATCH, LAST_MODIFIED, LOCATION, RANGE};
use ureq::http::{HeaderName, Response};
use ureq::{Body, SendBody};

use crate::http::{HttpClient, Login, NoAnswer, expect};
use crate::server_api::ServerApi;

/// Characters that stand in a path unescaped (RFC 3986, unreserved).
const IN_PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');
const MODIFIED: HeaderName = HeaderName::from_static(MODIFIED_FIELD);
const OC_MTIME: HeaderName = HeaderName::from_static("x-oc-mtime");
/// Pauses before each attempt to reach a server that went, for a file or for the rest of one: a server that is started again answers
/// within them.
pub const REOPEN_PAUSES: [Duration; 5] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
    Duration::from_secs(16),
];
/// Entries asked for at once.
const PAGE: usize = 10_000;

/// A content or folder of a server.
#[derive(Debug, Clone)]
pub struct Remote {
    pub(crate) client: HttpClient,
    /// Without a slash at the end.
    pub(crate) url: String,
}

/// A folder or content that a server has under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemoteEntry {
    /// A folder, and when a name in it changed last; 1970 if that is not known.
    Folder(SystemTime),
    /// A content.
    Content(RemoteContent),
}

/// A content of a server, in the version that it had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteContent {
    /// Its length.
    pub bytes: u64,
    /// When it was written, if the server says so.
    pub modified: Option<SystemTime>,
    /// The name of the version, quotes included.
    pub etag: Option<String>,
}

/// A file below a content's or folder's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// Its path below the end of the copy; empty for the end itself. On a file system it may be no text.
    pub name: PathBuf,
    /// Its length.
    pub bytes: u64,
}

/// A version of a file, as it is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileVersion {
    /// Distinguishes the version from others.
    pub tag: String,
    /// Its length.
    pub bytes: u64,
    /// When it was written, if that is known.
    pub modified: Option<SystemTime>,
}

/// A file that is being read.
pub struct SourceReader {
    /// Reader of the file's bytes.
    pub reader: Box<dyn Read>,
    /// Length of the whole file.
    pub bytes: u64,
}

/// The files and folders below a folder, or one file.
#[derive(Debug, Default)]
pub struct Tree {
    /// False: it is one file.
    pub is_folder: bool,
    /// In the order of their names.
    pub files: Vec<SourceFile>,
    /// The folders below it.
    pub folders: Vec<PathBuf>,
    /// Number of entries that are neither file nor folder, or links to a folder.
    pub passed_over: u64,
    /// Files and folders that the user left out.
    pub excluded: u64,
    /// Unreadable entries, each with the reason.
    pub unreadable: Vec<String>,
}

/// An entry of a folder, for [`Tree::of_folder`].
#[derive(Debug)]
pub struct TreeEntry {
    /// Its name in the folder.
    pub name: String,
    /// True of a folder, or of a link to one.
    pub is_folder: bool,
    /// The name is a link.
    pub is_link: bool,
    /// Length of a file.
    pub bytes: u64,
}

impl Tree {
    /// The files below a folder, which `list` lists: the folder itself by an empty name, the others by theirs. `shown` names them to
    /// people.
    ///
    /// # Errors
    /// The folder cannot be listed, or no other could be.
    pub fn of_folder(
        mut list: impl FnMut(&str) -> anyhow::Result<Vec<TreeEntry>>,
        shown: impl Fn(&str) -> String,
    ) -> anyhow::Result<Self> {
        let mut tree = Self { is_folder: true, ..Self::default() };
        let mut waiting = vec![String::new()];
        while let Some(folder) = waiting.pop() {
            let entries = match list(&folder) {
                // One folder does not keep the others from being read, unless it is the only one.
                Err(error) if !folder.is_empty() && !error.is::<NoAnswer>() => {
                    tree.unreadable.push(format!("{}: {error:#}", shown(&folder)));
                    continue;
                }
                entries => entries?,
            };
            for entry in entries {
                let name = if folder.is_empty() { entry.name } else { format!("{folder}/{}", entry.name) };
                match entry.is_folder {
                    false => tree.files.push(SourceFile { name: name.into(), bytes: entry.bytes }),
                    // It leads elsewhere, or above.
                    true if entry.is_link => tree.passed_over += 1,
                    true => {
                        tree.folders.push(name.clone().into());
                        waiting.push(name);
                    }
                }
            }
        }
        tree.files.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(tree)
    }
}

/// Checks that this can be the address of a content or folder.
///
/// # Errors
/// The fault of the address.
pub fn check_address(url: &str) -> Result<(), String> {
    let path = url.splitn(4, '/').nth(3).unwrap_or_default();
    if path != "media" && !path.starts_with("media/") {
        return Err(format!("{url}: contents have addresses as http://HOST:PORT/media/FILE"));
    }
    if path.contains(['?', '#']) {
        return Err(format!("{url}: give the rate by itself, and encode `?` and `#` in names"));
    }
    Ok(())
}

impl Remote {
    /// The content or folder at this address.
    ///
    /// # Errors
    /// As [`check_address`].
    pub fn new(url: &str, login: Option<&Login>) -> anyhow::Result<Self> {
        check_address(url).map_err(anyhow::Error::msg)?;
        Ok(Self { client: HttpClient::new(login.cloned()), url: url.trim_end_matches('/').to_owned() })
    }

    /// The content or folder of this name below it.
    #[must_use]
    pub fn below(&self, name: &str) -> Self {
        Self { url: self.at(name), ..self.clone() }
    }

    /// The address of a name below it; its own if that is empty.
    #[must_use]
    pub fn at(&self, name: &str) -> String {
        if name.is_empty() { self.url.clone() } else { format!("{}/{}", self.url, utf8_percent_encode(name, IN_PATH)) }
    }

    /// The server, and the path below `/media/`, not encoded.
    pub(crate) fn split(&self) -> (String, String) {
        let parts: Vec<&str> = self.url.splitn(4, '/').collect();
        let path = parts.get(3).copied().unwrap_or_default();
        let path = path.strip_prefix("media").unwrap_or(path).trim_matches('/');
        let server = parts.iter().take(3).copied().collect::<Vec<_>>().join("/");
        (server, percent_decode_str(path).decode_utf8_lossy().into_owned())
    }

    /// The content or folder of this name; `None` if there is none.
    ///
    /// # Errors
    /// As [`HttpClient::ask`]; the server's own.
    pub fn find(&self, name: &str) -> anyhow::Result<Option<RemoteEntry>> {
        let mut answer = self.client.ask("HEAD", &self.at(name), &[])?;
        if answer.status() == 503 {
            // An answer to HEAD has no document: the answer to GET says which part of the server is away.
            answer = self.client.ask("GET", &self.at(name), &[])?;
        }
        let field = |name: &HeaderName| answer.headers().get(name).and_then(|value| value.to_str().ok());
        let exact = field(&MODIFIED).and_then(parse_modified);
        let date = || field(&LAST_MODIFIED).and_then(|time| httpdate::parse_http_date(time).ok());
        let modified = exact.or_else(date);
        if answer.status() == 404 {
            return Ok(None);
        }
        if answer.status() == 301
            && field(&LOCATION).is_some_and(|to| to.split('?').next().unwrap_or(to).ends_with('/'))
        {
            return Ok(Some(RemoteEntry::Folder(modified.unwrap_or(UNIX_EPOCH))));
        }
        let answer = expect(answer, &[200])?;
        let field = |name: &HeaderName| answer.headers().get(name).and_then(|value| value.to_str().ok());
        let bytes = field(&CONTENT_LENGTH).and_then(|length| length.parse().ok());
        Ok(Some(RemoteEntry::Content(RemoteContent {
            bytes: bytes.with_context(|| format!("{}: the server does not say how long it is", self.at(name)))?,
            modified,
            etag: field(&ETAG).map(str::to_owned),
        })))
    }

    fn content(&self, name: &str) -> anyhow::Result<RemoteContent> {
        match self.find(name)? {
            Some(RemoteEntry::Content(content)) => Ok(content),
            Some(RemoteEntry::Folder(_)) => bail!("{}: it is a folder", self.at(name)),
            None => bail!("{}: there is nothing of this name", self.at(name)),
        }
    }

    /// True of a folder.
    ///
    /// # Errors
    /// As [`Remote::find`].
    pub fn is_folder(&self) -> anyhow::Result<bool> {
        Ok(matches!(self.find("")?, Some(RemoteEntry::Folder(_))))
    }

    /// The files below it, or the file itself.
    ///
    /// # Errors
    /// As [`Remote::entries`].
    pub fn files(&self) -> anyhow::Result<Tree> {
        if !self.is_folder()? {
            let bytes = self.content("")?.bytes;
            return Ok(Tree { files: vec![SourceFile { name: PathBuf::new(), bytes }], ..Tree::default() });
        }
        let entry = |entry: ListingEntry| TreeEntry {
            name: entry.name,
            is_folder: entry.kind == EntryKind::Directory,
            is_link: entry.is_link,
            bytes: entry.size,
        };
        Tree::of_folder(|folder| Ok(self.entries(folder)?.into_iter().map(entry).collect()), |folder| self.at(folder))
    }

    /// The entries of a folder.
    ///
    /// # Errors
    /// As [`HttpClient::json`]; a name that would lead elsewhere.
    pub fn entries(&self, folder: &str) -> anyhow::Result<Vec<ListingEntry>> {
        let mut all: Vec<ListingEntry> = Vec::new();
        loop {
            let after = all.last().map_or_else(String::new, |last| {
                format!("&after={}", utf8_percent_encode(&last.name, NON_ALPHANUMERIC))
            });
            let page: Vec<ListingEntry> =
                self.client.json(&format!("{}/?format=json&limit={PAGE}{after}", self.at(folder)))?;
            let is_last = page.len() < PAGE;
            for entry in &page {
                // A name is one part of a path; anything else would be written somewhere else.
                anyhow::ensure!(
                    !entry.name.contains(['/', '\0']) && !["", ".", ".."].contains(&entry.name.as_str()),
                    "{}: the server lists `{}`, which is no name",
                    self.url,
                    entry.name
                );
            }
            all.extend(page);
            if is_last {
                return Ok(all);
            }
        }
    }

    /// The bytes that its server's disks and volumes have room for, and those of them that are free.
    ///
    /// # Errors
    /// As [`HttpClient::json`].
    pub fn space(&self) -> anyhow::Result<(u64, u64)> {
        let server = ServerApi { client: self.client.clone(), url: self.split().0 };
        let mut disks: Vec<Disk> = server.read("disks")?;
        let volumes: Vec<VolumeStatus> = server.read("volumes")?;
        let members = volumes.iter().flat_map(|volume| &volume.disks);
        disks.retain(|disk| !members.clone().any(|member| member.disk == Some(disk.id)));
        // Of a file system in memory the capacity is not known.
        let of_disks = disks.iter().map(|disk| (disk.capacity_bytes.max(disk.free_bytes), disk.free_bytes));
        let of_volumes = volumes.iter().map(|volume| (volume.room_bytes(), volume.free_bytes));
        Ok(of_disks.chain(of_volumes).fold((0, 0), |(all, left), (room, free)| (all + room, left + free)))
    }

    /// The version that a content has now.
    ///
    /// # Errors
    /// As [`Remote::find`]; there is no such content.
    pub fn version(&self, name: &str) -> anyhow::Result<FileVersion> {
        Ok(self.version_of(name, &self.content(name)?))
    }

    /// The same; none if there is no content of this name.
    ///
    /// # Errors
    /// As [`Remote::find`].
    pub fn find_version(&self, name: &str) -> anyhow::Result<Option<FileVersion>> {
        Ok(self.find(name)?.and_then(|found| match found {
            RemoteEntry::Content(content) => Some(self.version_of(name, &content)),
            RemoteEntry::Folder(_) => None,
        }))
    }

    fn version_of(&self, name: &str, content: &RemoteContent) -> FileVersion {
        FileVersion {
            tag: format!("{} {:?} {:?}", self.at(name), content.etag, content.modified),
            bytes: content.bytes,
            modified: content.modified,
        }
    }

    /// True if its address is that of the other, or lies below it.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        self.url.strip_prefix(&other.url).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Reads a part of a content in the version that was found; a rate is guaranteed, except for a short part, which the server sends with
    /// the capacity left over.
    ///
    /// # Errors
    /// As [`HttpClient::ask`]; the rate is refused; it is another version by now.
    pub fn read(
        &self,
        name: &str,
        version: &RemoteContent,
        part: Range<u64>,
        rate: Option<(BitRate, &str)>,
    ) -> anyhow::Result<Box<dyn Read + Send>> {
        let mut fields = vec![(RANGE, format!("bytes={}-{}", part.start, part.end - 1))];
        fields.extend(version.etag.clone().map(|etag| (IF_MATCH, etag)));
        let query = rate
            .map_or_else(|| "rate=max".to_owned(), |(rate, session)| format!("rate={}bit/s&session={session}", rate.0));
        let answer = expect(self.client.ask("GET", &format!("{}?{query}", self.at(name)), &fields)?, &[206])?;
        Ok(Box::new(answer.into_body().into_reader()))
    }

    /// Opens a content to be read from `from` on.
    ///
    /// # Errors
    /// As [`Remote::read`].
    pub fn open(&self, name: &str, from: u64, rate: Option<BitRate>) -> anyhow::Result<SourceReader> {
        self.open_body(name, from, rate).map(|source| SourceReader { bytes: source.bytes, reader: source.body })
    }

    /// Opens a content for reading from `from` on; after a break it requests the rest again, for half a minute.
    ///
    /// # Errors
    /// As [`Remote::read`].
    pub fn open_resumed(&self, name: &str, from: u64, rate: Option<BitRate>) -> anyhow::Result<SourceReader> {
        self.open_body(name, from, rate).map(|source| SourceReader { bytes: source.bytes, reader: Box::new(source) })
    }

    fn open_body(&self, name: &str, from: u64, rate: Option<BitRate>) -> anyhow::Result<ResumedBody> {
        let etag = if from > 0 { self.content(name)?.etag } else { None };
        let answer = expect(self.ask_from(name, from, etag.as_deref(), rate)?, &[200, 206])?;
        let number =
            |name: &HeaderName| answer.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let bytes = match number(&CONTENT_RANGE) {
            Some(range) => range.rsplit('/').next().and_then(|whole| whole.parse().ok()),
            None if from > 0 => None,
            None => number(&CONTENT_LENGTH).and_then(|length| length.parse().ok()),
        };
        let bytes = bytes.with_context(|| format!("{}: the server does not say how long it is", self.at(name)))?;
        self.check_granted(name, &answer, rate)?;
        let etag = number(&ETAG);
        let body = Box::new(answer.into_body().into_reader());
        Ok(ResumedBody { remote: self.clone(), name: name.to_owned(), etag, rate, at: from, bytes, body, tries: 0 })
    }

    fn ask_from(
        &self,
        name: &str,
        from: u64,
        etag: Option<&str>,
        rate: Option<BitRate>,
    ) -> anyhow::Result<Response<Body>> {
        let mut fields = Vec::new();
        if from > 0 {
            fields.push((RANGE, format!("bytes={from}-")));
        }
        fields.extend(etag.map(|etag| (IF_MATCH, etag.to_owned())));
        let query = rate.map_or_else(|| "rate=max".to_owned(), |rate| format!("rate={}bit/s&burst=0", rate.0));
        self.client.ask("GET", &format!("{}?{query}", self.at(name)), &fields)
    }

    fn check_granted(&self, name: &str, answer: &Response<Body>, rate: Option<BitRate>) -> anyhow::Result<()> {
        let granted = answer.headers().get("x-isocast-rate").and_then(|value| value.to_str().ok()?.parse().ok());
        match rate {
            Some(rate) if granted != Some(rate.0) => {
                bail!("{}: the server does not guarantee {rate}: is it an Isocast?", self.at(name))
            }
            _ => Ok(()),
        }
    }

    /// Removes a content.
    ///
    /// # Errors
    /// As [`HttpClient::ask`]; the server's own.
    pub fn remove(&self, name: &str) -> anyhow::Result<()> {
        let answer = self.client.ask("DELETE", &self.at(name), &[])?;
        expect(answer, &[200, 204]).map(drop)
    }

    /// Writes a content of the length and modification time of this version.
    ///
    /// # Errors
    /// As [`HttpClient::ask`]; the server's own.
    pub fn put(
        &self,
        name: &str,
        version: &FileVersion,
        rate: Option<BitRate>,
        reader: &mut dyn Read,
    ) -> anyhow::Result<()> {
        // Nothing of a copy that broke off is kept: it is sent again from its beginning.
        let query = rate.map_or_else(String::new, |rate| format!("?rate={}bit/s&on_break=discard", rate.0));
        let url = format!("{}{query}", self.at(name));
        // If the server refuses the content, it does so before anything of it is sent.
        let mut fields = vec![(CONTENT_LENGTH, version.bytes.to_string()), (EXPECT, "100-continue".to_owned())];
        fields.extend(version.modified.map(|time| (OC_MTIME, format_modified(time))));
        let answer = self.client.send("PUT", &url, &fields, SendBody::from_reader(reader))?;
        expect(answer, &[200, 201, 204]).map(drop)
    }
}

/// The body of a content. If it breaks off, with its connection or its server, the rest is requested again from there.
struct ResumedBody {
    remote: Remote,
    name: String,
    /// Entity tag of the version that is read.
    etag: Option<String>,
    rate: Option<BitRate>,
    at: u64,
    /// Length of the content.
    bytes: u64,
    body: Box<dyn Read + Send>,
    /// Tries since the last byte came.
    tries: usize,
}

impl ResumedBody {
    /// Requests the missing rest.
    fn reopen(&mut self, broken: String) -> anyhow::Result<()> {
        let Some(etag) = self.etag.as_deref() else { bail!(broken) };
        let mut last = anyhow::Error::msg(broken);
        let whole_or_rest = if self.at == 0 { 200 } else { 206 };
        while let Some(&pause) = REOPEN_PAUSES.get(self.tries) {
            self.tries += 1;
            std::thread::sleep(pause);
            match self.remote.ask_from(&self.name, self.at, Some(etag), self.rate) {
                Ok(answer) if answer.status() == 412 => bail!("it was changed meanwhile; copy it again"),
                Ok(answer) if answer.status() == 503 => last = expect(answer, &[whole_or_rest]).err().unwrap_or(last),
                Ok(answer) => {
                    let answer = expect(answer, &[whole_or_rest])?;
                    self.remote.check_granted(&self.name, &answer, self.rate)?;
                    self.body = Box::new(answer.into_body().into_reader());
                    return Ok(());
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

impl Read for ResumedBody {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let broken = match self.body.read(buffer) {
                Ok(0) if self.at < self.bytes && !buffer.is_empty() => {
                    "the server ended its answer: its alarms and events say why".to_owned()
                }
                Ok(count) => {
                    self.at += count as u64;
                    self.tries = if count > 0 { 0 } else { self.tries };
                    return Ok(count);
                }
                Err(error) => error.to_string(),
            };
            let at = self.at;
            self.reopen(broken).map_err(|error| io::Error::other(format!("broke off at byte {at}: {error:#}")))?;
        }
    }
}

/// The last part of an address, as a name.
#[must_use]
pub fn decoded(name: &str) -> String {
    percent_decode_str(name).decode_utf8_lossy().replace('/', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_server_and_a_path() {
        let split = |url: &str| Remote::new(url, None).expect("an address").split();
        let server = "http://h:1".to_owned();
        assert_eq!(split("http://h:1/media/a%20b/c/"), (server.clone(), "a b/c".to_owned()));
        assert_eq!(split("http://h:1/media"), (server, String::new()));
    }
}
