//! Names of a good configuration that lead nowhere now, and may later.
//!
//! Promise: a name that cannot be looked for, in a volume that is in use, gives no hint of its own; another hint says so. Not here: parts
//! that this machine cannot give (`machine_check`).

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use automation::{CopyEnd, JobConfig, JobWork};
use copy::Rclone;
use copy::pattern::is_like;
use service::quota::QuotaConfig;
use store::ContentPath;
use volumes::{StoredNames, VolumeDiskError};

use super::Config;

/// Folder entries looked at for a pattern. Chosen: a second or two on a cold disk.
const ENTRIES_MAX: usize = 10_000;

impl Config {
    /// Folders, contents and interfaces that are not there yet, and a remote that this user's rclone does not have.
    pub(crate) fn hints(&self) -> Vec<String> {
        let served = ServedNames { roots: &self.roots, volumes: &self.volumes, stored: OnceCell::new() };
        let of_job = |job: &JobConfig| {
            let about = format!("the job `{}`", job.name);
            match &job.work {
                JobWork::Keep(limits) => served.hints(&about, &limits.folder, &limits.protected),
                JobWork::Scrub { folder, .. } => served.hints(&about, folder, &[]),
                JobWork::Copy { from, to, .. } => {
                    let folder = if let CopyEnd::Served(folder) = from { Some(folder) } else { None };
                    let remote = if let CopyEnd::Rclone(remote) = to { Rclone::unknown_remote(remote) } else { None };
                    let of_folder = folder.into_iter().flat_map(|folder| served.hints(&about, folder, &[]));
                    of_folder.chain(remote.map(|why| format!("{about}: {why}"))).collect()
                }
                JobWork::Measure | JobWork::Command(_) => Vec::new(),
            }
        };
        let of_quota = |quota: &QuotaConfig| {
            served.hints(&format!("the quota of `{}`", quota.folder.joined()), &quota.folder, &quota.protected)
        };
        let prefixes = self.path_rates.iter().map(|(prefix, _)| ("path_rates", prefix));
        let prefixes = prefixes.chain(self.path_when_full.iter().map(|(prefix, _)| ("path_when_full", prefix)));
        let prefixes = prefixes.chain(self.path_durable.iter().map(|(prefix, _)| ("path_durable", prefix)));
        let unused = prefixes.filter(|(_, prefix)| !served.may_have(&prefix_names(prefix)));
        let interfaces = self.links.iter().filter(|link| !Path::new("/sys/class/net").join(&link.name).exists());
        let hints = (self.jobs.iter().flat_map(of_job))
            .chain(self.quotas.iter().flat_map(of_quota))
            .chain(unused.map(|(key, prefix)| format!("{key}: no served path begins with `{prefix}` now")))
            .chain(interfaces.map(|link| format!("links: this machine has no interface `{}` now", link.name)));
        let mut hints: Vec<String> = hints.collect();
        hints.extend(served.unread());
        hints
    }
}

/// A root, or a volume that is not in use.
enum NameSource<'a> {
    Root(&'a Path),
    Volume(&'a StoredNames),
}

impl NameSource<'_> {
    fn has(&self, name: &str) -> bool {
        match self {
            Self::Root(root) => root.join(name).symlink_metadata().is_ok(),
            Self::Volume(names) => names.has(name),
        }
    }

    fn has_folder(&self, name: &str) -> bool {
        match self {
            Self::Root(root) => root.join(name).is_dir(),
            Self::Volume(names) => names.has_folder(name),
        }
    }

    fn list(&self, folder: &str) -> Box<dyn Iterator<Item = String>> {
        match self {
            Self::Root(root) => {
                let entries = std::fs::read_dir(root.join(folder)).into_iter().flatten().flatten();
                Box::new(entries.map(|entry| entry.file_name().to_string_lossy().into_owned()))
            }
            Self::Volume(names) => Box::new(names.list(folder).into_iter()),
        }
    }

    /// True if names below `folder`, as patterns of a job have them, lead to something, or may: not all entries were looked at.
    fn leads_somewhere(&self, folder: &str, names: &[String], entries_left: &mut usize) -> bool {
        let Some((name, below)) = names.split_first() else { return true };
        let child = |name: &str| if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
        if !name.is_empty() && self.has(&child(name)) {
            return self.leads_somewhere(&child(name), below, entries_left);
        }
        let is_pattern = name.contains(['*', '?']);
        let mut entries = is_pattern.then(|| self.list(folder)).into_iter().flatten();
        entries.any(|entry| {
            *entries_left = entries_left.saturating_sub(1);
            *entries_left == 0 || is_like(name, &entry) && self.leads_somewhere(&child(&entry), below, entries_left)
        })
    }
}

/// The names that are served.
struct ServedNames<'a> {
    roots: &'a [PathBuf],
    volumes: &'a [Vec<PathBuf>],
    /// Of each volume, read when no root has a name.
    stored: OnceCell<Vec<Result<StoredNames, VolumeDiskError>>>,
}

impl ServedNames<'_> {
    fn stored(&self) -> &[Result<StoredNames, VolumeDiskError>] {
        self.stored.get_or_init(|| self.volumes.iter().map(|disks| StoredNames::read(disks)).collect())
    }

    fn any(&self, mut is_true: impl FnMut(&NameSource<'_>) -> bool) -> bool {
        self.roots.iter().any(|root| is_true(&NameSource::Root(root)))
            || self.stored().iter().flatten().any(|names| is_true(&NameSource::Volume(names)))
    }

    /// A folder that is none, and patterns that name nothing.
    fn hints(&self, about: &str, folder: &ContentPath, protected: &[ContentPath]) -> Vec<String> {
        let name = folder.joined();
        let folder = match () {
            () if self.any(|source| source.has_folder(&name)) => None,
            () if self.any(|source| source.has(&name)) => Some(format!("{about}: `{name}` is a content, no folder")),
            () if self.has_unread() => None,
            () => Some(format!("{about}: no served folder has `{name}` now")),
        };
        let unused = protected.iter().filter(|pattern| !self.may_have(pattern.components()));
        let unused = unused.map(|pattern| format!("{about}: protected: nothing is named `{}` now", pattern.joined()));
        folder.into_iter().chain(unused).collect()
    }

    /// True if these names, which may be patterns, lead to something served, or may in a volume that is in use.
    fn may_have(&self, names: &[String]) -> bool {
        let mut entries_left = ENTRIES_MAX;
        self.any(|source| source.leads_somewhere("", names, &mut entries_left)) || self.has_unread()
    }

    fn has_unread(&self) -> bool {
        self.stored().iter().any(Result::is_err)
    }

    /// The volumes in which names should have been looked for.
    fn unread(&self) -> impl Iterator<Item = String> {
        let stored = self.stored.get().map_or(&[][..], Vec::as_slice);
        let unread =
            self.volumes.iter().zip(stored).filter_map(|(disks, stored)| Some((disks, stored.as_ref().err()?)));
        unread.map(|(disks, error)| {
            let disks: Vec<_> = disks.iter().map(|disk| disk.display().to_string()).collect();
            let disks = disks.join(",");
            let why = match error {
                VolumeDiskError::InUse(_) => {
                    format!("which is in use: `isocast volume ls {disks} FOLDER` lists them")
                }
                other => format!("which cannot be read: {other}"),
            };
            format!("volumes: names that no root has were not looked for in the volume of {disks}, {why}")
        })
    }
}

/// The names of the paths that begin with a prefix: the last of them is a pattern, unless it is whole.
fn prefix_names(prefix: &str) -> Vec<String> {
    let whole =
        if prefix.is_empty() || prefix.ends_with('/') { prefix.trim_end_matches('/') } else { &format!("{prefix}*") };
    whole.split('/').filter(|_| !whole.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_nowhere_now_are_hints() {
        let folder = tempfile::tempdir().expect("/tmp can be written");
        std::fs::create_dir(folder.path().join("cams")).expect("there is room");
        std::fs::write(folder.path().join("cams/door.ts"), "x").expect("there is room");
        let hints = |text: &str| {
            let text = format!("roots = [\"{}\"]\n{text}", folder.path().display());
            Config::load_file("f.toml".as_ref(), &text).expect("a good text").hints()
        };
        let job = |name: &str, folder: &str, protected: &str| {
            format!(
                "[[job]]\nname = \"{name}\"\nschedule = \"@daily\"\nkind = \"keep\"\nmax_age = \"3d\"\nfolder = \"{folder}\"\n\
                 protected = [{protected}]\n"
            )
        };
        let found = "\"cams\", \"cams/d*.ts\", \"*/door.t?\", \"c*/door.ts\"";
        let lost = "\"cams/Door.ts\", \"cams/e*\", \"cams/door.ts/x\"";
        let jobs =
            [job("a", "cams", found), job("b", "camms", ""), job("c", "cams/door.ts", ""), job("d", "cams", lost)];
        let missing = |pattern: &str| format!("the job `d`: protected: nothing is named `{pattern}` now");
        assert_eq!(
            hints(&jobs.concat()),
            [
                "the job `b`: no served folder has `camms` now".to_owned(),
                "the job `c`: `cams/door.ts` is a content, no folder".to_owned(),
                missing("cams/Door.ts"),
                missing("cams/e*"),
                missing("cams/door.ts/x"),
            ]
        );
        let quota = "[[quota]]\nmax_size = \"1GB\"\nwhen_full = \"overwrite_oldest\"\nprotected = [\"none\"]\nfolder = \"cams/door.ts\"\n";
        let about = "the quota of `cams/door.ts`: ";
        assert_eq!(
            hints(quota),
            [
                format!("{about}`cams/door.ts` is a content, no folder"),
                format!("{about}protected: nothing is named `none` now")
            ]
        );
        let paths = ["", "cams", "ca", "cams/", "cams/do", "cams/door.ts", "cam/", "cams/x", "/cams", "door"];
        let settings = |table: &str, value: &str| {
            paths.iter().fold(format!("[{table}]\n"), |text, path| format!("{text}\"{path}\" = \"{value}\"\n"))
        };
        let unused = |table: &str| {
            ["/cams", "cam/", "cams/x", "door"].map(|path| format!("{table}: no served path begins with `{path}` now"))
        };
        let tables = [("path_rates", "1M"), ("path_when_full", "refuse"), ("path_durable", "5s")];
        let found = hints(&tables.map(|(table, value)| settings(table, value)).concat());
        assert_eq!(found, tables.map(|(table, _)| unused(table)).as_flattened());
        assert_eq!(
            hints("[links]\nlo = \"1G\"\nnosuch0 = \"1G\"\n"),
            ["links: this machine has no interface `nosuch0` now"]
        );
    }
}
