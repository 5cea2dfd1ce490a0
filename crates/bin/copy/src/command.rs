//! `isocast cp`: its arguments, and its output.
//!
//! Not here: the copy itself (the crate's root).

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use client::{Login, Tree, decoded};
use units::{BitRate, ByteCount, counted};

use super::pattern::{leaves_out, parse_pattern};
use super::shared::{LocalServer, server_of_this_machine};
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
    /// Pass over files and folders with a name or path below SRC like this: `*` stands for any part of it, `?` for one character
    /// (repeatable). `cache/` is of folders only, `/cache` directly below SRC only.
    #[arg(long, value_name = "PATTERN", value_parser = parse_pattern)]
    exclude: Vec<String>,
    /// Remove from DST the files and folders that SRC does not have, after everything was copied; those in the way of a copy before it.
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
        self.check_names()?;
        let login = self.login.as_deref().map(Login::read).transpose()?;
        let server =
            if self.alone { None } else { LocalServer::find(self.url.as_deref(), self.own_server(), login.as_ref())? };
        self.check_destination(login.as_ref(), server.as_ref())?;
        let mut whole = Summary::begin(self.rate.0, &Tree::default());
        for text in &self.sources {
            let ends = self.ends(text, login.as_ref(), server.as_ref());
            let copied = ends.and_then(|ends| {
                if self.dry_run { self.foretell(out, &ends, &mut whole) } else { self.copy(&ends, &mut whole) }
            });
            match copied {
                Err(error) if self.sources.len() == 1 => return Err(error),
                Err(error) => whole.failures.add(format_args!("{error:#}")),
                Ok(()) => {}
            }
        }
        if !self.dry_run {
            write!(out, "{}", if self.json { whole.json()? } else { whole.table() })?;
        }
        if let Some(broken) = whole.broken_rate() {
            program::output::say(format_args!("{broken}"));
        }
        if self.dry_run { whole.failures.judge("cannot be copied") } else { whole.check() }
    }

    /// The server of an end, if it is one of this machine.
    fn own_server(&self) -> Option<&str> {
        self.sources.iter().chain([&self.destination]).find_map(|end| server_of_this_machine(end))
    }

    /// Fails if two sources would have one place in the destination.
    fn check_names(&self) -> anyhow::Result<()> {
        let mut places = BTreeMap::new();
        for source in self.sources.iter().filter(|_| self.sources.len() > 1) {
            if let Some(other) = places.insert(name_of(source)?, source) {
                anyhow::bail!(
                    "{other} and {source} have one name in {}: copy each to a folder of its own",
                    self.destination
                );
            }
        }
        Ok(())
    }

    /// Fails if several sources would have the place of one file.
    fn check_destination(&self, login: Option<&Login>, server: Option<&LocalServer>) -> anyhow::Result<()> {
        let is_into = self.sources.len() == 1
            || self.destination.ends_with('/')
            || Endpoint::new(&self.destination, login, server, true)?.is_folder()?;
        let why = "several sources go into a folder: make it, or end its name with a slash";
        anyhow::ensure!(is_into, "{}: {why}", self.destination);
        Ok(())
    }

    /// Both ends of the copy of one source.
    fn ends(&self, text: &str, login: Option<&Login>, server: Option<&LocalServer>) -> anyhow::Result<Ends> {
        let end = |text: &str, is_written| Endpoint::new(text, login, server, is_written);
        let source = end(text, false)?;
        let mut tree = source.files()?;
        self.leave_out(&mut tree);
        anyhow::ensure!(!self.delete || tree.is_folder, "--delete: {text} is a file, not a folder");
        let whole = end(&self.destination, true)?;
        let name = self.name_within(&whole, text, &tree)?;
        let destination = placed(whole, name.as_deref());
        // With several served folders nothing is written through the server, and yet it shows what is written.
        let shown = placed(end(&self.destination, false)?, name.as_deref());
        anyhow::ensure!(!shown.is_within(&source), "{} lies in the source of the copy", self.destination);
        let is_sink = matches!(&destination, Endpoint::Here(folder) if folder.is_sink());
        let keeps = "keeps nothing to compare with";
        anyhow::ensure!(!is_sink || !(self.verify || self.delete), "{} {keeps}", self.destination);
        Ok(Ends { tree, source, destination })
    }

    /// Copies one source, and removes the others if it is copied whole.
    fn copy(&self, Ends { tree, source, destination }: &Ends, whole: &mut Summary) -> anyhow::Result<()> {
        let terms = CopyTerms { rate: self.rate.0, resume: self.resume || self.delete, verify: self.verify };
        let kept = items(tree);
        let others = if self.delete { self.others(&kept, destination)? } else { Vec::new() };
        let (in_way, others): (Vec<_>, Vec<_>) = others.into_iter().partition(|other| is_in_way(other, &kept));
        let failed_before = whole.failures.count();
        remove(&in_way, destination, whole);
        let moved = Arc::default();
        let shown = pacing::show_progress(&moved);
        let outcome = copy_tree(tree, source, destination, terms, &moved);
        shown.end();
        whole.add(outcome?);
        if whole.failures.count() == failed_before {
            remove(&others, destination, whole);
        }
        Ok(())
    }

    /// Takes out the files that are excluded.
    fn leave_out(&self, tree: &mut Tree) {
        let before = tree.files.len() + tree.folders.len();
        tree.files.retain(|file| !self.is_excluded(&file.name, false));
        tree.folders.retain(|folder| !self.is_excluded(folder, true));
        let left_out = before - tree.files.len() - tree.folders.len();
        tree.excluded += u64::try_from(left_out).unwrap_or(u64::MAX);
    }

    /// True if a pattern leaves out the item, or a folder above it.
    fn is_excluded(&self, path: &Path, is_folder: bool) -> bool {
        path.ancestors().filter(|above| !above.as_os_str().is_empty()).any(|above| {
            let is_folder = is_folder || above != path;
            self.exclude.iter().any(|pattern| leaves_out(pattern, above, is_folder))
        })
    }

    /// Prints the files that a copy would write and remove.
    fn foretell(&self, out: &mut dyn Write, ends: &Ends, whole: &mut Summary) -> anyhow::Result<()> {
        let Ends { tree, source, destination: to } = ends;
        let (mut files, mut bytes) = (0u64, 0);
        let mut cannot = tree.unreadable.clone();
        for file in &tree.files {
            match self.is_there(&file.name, source, to) {
                Ok(true) => {}
                Ok(false) => {
                    writeln!(out, "copy    {}  {}", to.shown(&file.name), ByteCount(file.bytes))?;
                    (files, bytes) = (files + 1, bytes + file.bytes);
                }
                Err(error) => cannot.push(format!("{}: {error:#}", source.shown(&file.name))),
            }
        }
        for what in &cannot {
            writeln!(out, "cannot  {what}")?;
            whole.failures.add(what);
        }
        let kept = items(tree);
        let mut others = if self.delete { self.others(&kept, to)? } else { Vec::new() };
        // Where a file cannot be copied, no other is removed but those in the way.
        others.retain(|other| cannot.is_empty() || is_in_way(other, &kept));
        for (name, _) in &others {
            writeln!(out, "remove  {}", to.shown(name))?;
        }
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

    /// The items of the destination that the source does not have and that are not excluded, those in a folder before it. A folder stays
    /// with the items that stay in it.
    fn others(&self, kept: &BTreeSet<Item>, to: &Endpoint) -> anyhow::Result<Vec<Item>> {
        if !to.is_folder()? {
            return Ok(Vec::new());
        }
        let stays = |item: &Item| kept.contains(item) || self.is_excluded(&item.0, item.1);
        let (staying, others): (BTreeSet<Item>, BTreeSet<Item>) = items(&to.files()?).into_iter().partition(stays);
        let keeps_one = |folder: &Path| {
            let first = staying.range((folder.to_owned(), false)..).next();
            first.is_some_and(|(name, _)| name.starts_with(folder))
        };
        let is_other = |(name, is_folder): &Item| !is_folder || !keeps_one(name);
        Ok(others.into_iter().filter(is_other).rev().collect())
    }

    /// The name of one source within the destination, if it goes into that: a file that is copied into a folder keeps its name, and
    /// so does each of several sources.
    fn name_within(&self, destination: &Endpoint, text: &str, tree: &Tree) -> anyhow::Result<Option<String>> {
        let is_into = || anyhow::Ok(self.destination.ends_with('/') || destination.is_folder()?);
        if self.sources.len() == 1 && (tree.is_folder || !is_into()?) {
            return Ok(None);
        }
        name_of(text).map(Some)
    }
}

/// A file or folder below an end of a copy; true of a folder.
pub(super) type Item = (PathBuf, bool);

/// A source with its files, and the place that it is copied to.
struct Ends {
    tree: Tree,
    source: Endpoint,
    destination: Endpoint,
}

fn items(tree: &Tree) -> BTreeSet<Item> {
    let files = tree.files.iter().map(|file| (file.name.clone(), false));
    files.chain(tree.folders.iter().map(|folder| (folder.clone(), true))).collect()
}

/// True if one of the kept items needs its name, or that of a folder above it.
fn is_in_way((name, is_folder): &Item, kept: &BTreeSet<Item>) -> bool {
    kept.contains(&(name.clone(), !is_folder)) || is_below_file(name, kept)
}

fn is_below_file(name: &Path, kept: &BTreeSet<Item>) -> bool {
    name.ancestors().skip(1).any(|above| kept.contains(&(above.to_owned(), false)))
}

fn remove(items: &[Item], from: &Endpoint, summary: &mut Summary) {
    for item in items {
        match from.remove(item) {
            Ok(is_gone) => summary.removed += u64::from(is_gone),
            Err(error) => summary.failures.add(format_args!("{}: not removed: {error:#}", from.shown(&item.0))),
        }
    }
}

/// The name of a source, by which it goes into a folder.
fn name_of(source: &str) -> anyhow::Result<String> {
    let name = source.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    anyhow::ensure!(!["", ".", ".."].contains(&name), "{source}: name the file or folder that is to be copied");
    Ok(if source.contains("://") { decoded(name) } else { name.to_owned() })
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
