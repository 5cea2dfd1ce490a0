//! `isocast cp`: its arguments, and its output.
//!
//! Not here: the copy itself (the crate's root).

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use client::{Login, Tree, decoded};
use program::output::counted;
use units::{BitRate, ByteCount};

use super::pattern::is_like;
use super::shared::LocalServer;
use super::{CopyTerms, Endpoint, Summary, copy_tree, pacing};

const EXAMPLES: &str = "\
Examples:
  isocast cp --rate 40M http://archive:8080/media/series /media/series
  isocast cp --rate 40M --login login.txt /media/film.ts https://archive/media/
  isocast cp --delete --exclude '*.tmp' --dry-run /media/series /backup";

/// Copy or read files at a given rate, locally, from an Isocast server, or to one.
///
/// SRC and DST are paths or addresses (`http://HOST:PORT/media/…`). A folder is copied with all that is below it, and becomes DST. DST
/// `/dev/null` only reads. Files in the folders of a server of this machine go through that server, so that its streams are not disturbed.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CopyArgs {
    /// The rate, for example 15Mbit/s; `max` takes all capacity that is left.
    #[arg(long, value_name = "RATE", default_value = "max", value_parser = parse_rate)]
    rate: Rate,
    /// Continue where an earlier copy was broken off: files that were copied whole and not changed since are left as they are.
    #[arg(long)]
    resume: bool,
    /// Read both sides again afterwards, and compare them.
    #[arg(long)]
    verify: bool,
    /// A file that holds `name:password`, or a token, for the server.
    #[arg(long, value_name = "FILE")]
    login: Option<PathBuf>,
    /// The server that may serve paths of this machine [default: http://127.0.0.1:8080, if one answers there].
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Read and write paths of this machine directly, though a server may serve them.
    #[arg(long, conflicts_with = "url")]
    alone: bool,
    /// Pass over files with a name or path below SRC like this: `*` stands for any part of it, `?` for one character (repeatable).
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
    /// Remove from DST the files that SRC does not have, after everything was copied.
    #[arg(long)]
    delete: bool,
    /// Only print the files that would be copied or removed.
    #[arg(long, conflicts_with = "verify")]
    dry_run: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// The files and folders to copy; several go below DST, each by its own name.
    #[arg(value_name = "SRC", required = true)]
    sources: Vec<String>,
    /// The path or URL it is copied to.
    #[arg(value_name = "DST")]
    destination: String,
}

/// The rate asked for; none: as fast as may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Rate(Option<BitRate>);

fn parse_rate(text: &str) -> Result<Rate, String> {
    match text {
        "max" => Ok(Rate(None)),
        text => units::parse_rate(text)
            .map(|rate| Rate(Some(rate)))
            .map_err(|error| format!("{error}; `max` takes the rate that is left")),
    }
}

impl CopyArgs {
    /// Copies, and prints the figures of that to `out`.
    ///
    /// # Errors
    /// An end that cannot be read, written, admitted or compared.
    pub fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let login = self.login.as_deref().map(Login::read).transpose()?;
        let server = if self.alone { None } else { LocalServer::find(self.url.as_deref(), login.as_ref())? };
        let end = |text: &str, is_written| Endpoint::new(text, login.as_ref(), server.as_ref(), is_written);
        let terms = CopyTerms { rate: self.rate.0, resume: self.resume || self.delete, verify: self.verify };
        let mut whole: Option<Summary> = None;
        for text in &self.sources {
            let source = end(text, false)?;
            let mut tree = source.files()?;
            self.leave_out(&mut tree);
            anyhow::ensure!(!self.delete || tree.is_folder, "--delete: {text} is a file, not a folder");
            let whole_destination = end(&self.destination, true)?;
            let name = self.name_within(&whole_destination, (text, &source), &tree)?;
            let destination = placed(whole_destination, name.as_deref());
            anyhow::ensure!(!destination.is_within(&source), "{} lies in the source of the copy", self.destination);
            let is_sink = matches!(&destination, Endpoint::Here(folder) if folder.is_sink());
            let keeps = "keeps nothing to compare with";
            anyhow::ensure!(!is_sink || !(self.verify || self.delete), "{} {keeps}", self.destination);
            if self.dry_run {
                self.foretell(out, (&source, &tree), &destination)?;
                continue;
            }
            let moved = Arc::default();
            let shown = pacing::show_progress(&moved);
            let outcome = copy_tree(&tree, &source, &destination, terms, &moved);
            shown.end();
            let mut summary = outcome?;
            if self.delete && summary.failures.count() == 0 {
                self.delete_others(&tree, &destination, &mut summary)?;
            }
            match &mut whole {
                Some(whole) => whole.add(summary),
                None => whole = Some(summary),
            }
        }
        let Some(summary) = whole else { return Ok(()) };
        write!(out, "{}", if self.json { summary.json()? } else { summary.table() })?;
        if let Some(broken) = summary.broken_rate() {
            program::output::say(format_args!("{broken}"));
        }
        summary.check()
    }

    /// Takes out the files that are excluded.
    fn leave_out(&self, tree: &mut Tree) {
        let before = tree.files.len() + tree.folders.len();
        tree.files.retain(|file| !self.is_excluded(&file.name));
        tree.folders.retain(|folder| !self.is_excluded(folder));
        let left_out = before - tree.files.len() - tree.folders.len();
        tree.excluded += u64::try_from(left_out).unwrap_or(u64::MAX);
    }

    /// True if the path, a folder above it, or the name of one of these is like a pattern.
    fn is_excluded(&self, path: &Path) -> bool {
        let is_like_one = |text: &str| self.exclude.iter().any(|pattern| is_like(pattern, text));
        path.ancestors().filter(|above| !above.as_os_str().is_empty()).any(|above| {
            let name = above.file_name().unwrap_or_default();
            is_like_one(&above.to_string_lossy()) || is_like_one(&name.to_string_lossy())
        })
    }

    /// Prints the files that a copy would write and remove.
    fn foretell(&self, out: &mut dyn Write, (source, tree): (&Endpoint, &Tree), to: &Endpoint) -> anyhow::Result<()> {
        let (mut files, mut bytes) = (0u64, 0);
        for file in &tree.files {
            match self.is_there(&file.name, source, to) {
                Ok(true) => {}
                Ok(false) => {
                    writeln!(out, "copy    {}  {}", to.shown(&file.name), ByteCount(file.bytes))?;
                    (files, bytes) = (files + 1, bytes + file.bytes);
                }
                Err(error) => writeln!(out, "cannot  {}: {error:#}", to.shown(&file.name))?,
            }
        }
        let others = if self.delete { self.others(tree, to)? } else { Vec::new() };
        for name in &others {
            writeln!(out, "remove  {}", to.shown(name))?;
        }
        tree.unreadable.iter().try_for_each(|what| writeln!(out, "cannot  {what}"))?;
        let removed = if self.delete { format!(", {} to remove", others.len()) } else { String::new() };
        Ok(writeln!(out, "{} to copy, {}{removed}", counted(files, "file"), ByteCount(bytes))?)
    }

    /// True if the copy of a file is there already and stays as it is.
    fn is_there(&self, name: &Path, source: &Endpoint, to: &Endpoint) -> anyhow::Result<bool> {
        to.check_name(name)?;
        if !(self.resume || self.delete) {
            return Ok(false);
        }
        let version = source.version(name)?;
        Ok(to.stored(name)?.is_some_and(|stored| crate::is_copy(&stored, &version)))
    }

    /// The files of the destination that the source does not have and that are not excluded.
    fn others(&self, tree: &Tree, to: &Endpoint) -> anyhow::Result<Vec<PathBuf>> {
        if !to.is_folder()? {
            return Ok(Vec::new());
        }
        let kept: BTreeSet<&Path> = tree.files.iter().map(|file| file.name.as_path()).collect();
        let there = to.files()?.files.into_iter().map(|file| file.name);
        Ok(there.filter(|name| !kept.contains(name.as_path()) && !self.is_excluded(name)).collect())
    }

    fn delete_others(&self, tree: &Tree, to: &Endpoint, summary: &mut Summary) -> anyhow::Result<()> {
        for name in self.others(tree, to)? {
            match to.remove(&name) {
                Ok(()) => summary.removed += 1,
                Err(error) => summary.failures.add(format_args!("{}: not removed: {error:#}", to.shown(&name))),
            }
        }
        Ok(())
    }

    /// The name of one source within the destination, if it goes into that: a file that is copied into a folder keeps its name, and
    /// so does each of several sources.
    fn name_within(
        &self,
        destination: &Endpoint,
        (text, source): (&str, &Endpoint),
        tree: &Tree,
    ) -> anyhow::Result<Option<String>> {
        let is_into = self.destination.ends_with('/') || destination.is_folder()?;
        if self.sources.len() == 1 && (tree.is_folder || !is_into) {
            return Ok(None);
        }
        anyhow::ensure!(
            is_into,
            "{}: several sources go into a folder: make it, or end its name with a slash",
            self.destination
        );
        let name = text.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        anyhow::ensure!(!name.is_empty() && name != "..", "{text}: name the file or folder that is to be copied");
        Ok(Some(if source.here().is_some() { name.to_owned() } else { decoded(name) }))
    }
}

/// The destination, or the place of this name in it.
fn placed(destination: Endpoint, name: Option<&str>) -> Endpoint {
    match (destination, name) {
        (Endpoint::Here(folder), Some(name)) => Endpoint::Here(folder.below(name)),
        (Endpoint::Shared(shared), Some(name)) => Endpoint::Shared(shared.below(name)),
        (Endpoint::There(remote), Some(name)) => Endpoint::There(remote.below(name)),
        (other, _) => other,
    }
}
