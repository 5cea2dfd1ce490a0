//! Parts of a good configuration that this machine cannot give: folders, the state folder, processors, logs.
//!
//! Promise: nothing is left or changed by looking. Not here: faults of the text itself (the parent module).

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use automation::{CopyEnd, JobConfig, JobWork};
use copy::Rclone;
use copy::pattern::is_like;
use kernel::exclusive::Purpose;
use rustix::fs::{AtFlags, Mode, OFlags, open, openat, unlinkat};
use rustix::io::Errno;
use service::quota::QuotaConfig;
use store::ContentPath;
use units::limits::CHUNK_BYTES;
use volumes::{FoundDisks, VolumeDiskError};

use super::{Config, ConfigError, Problem};

/// Systemd sets it for its services; `ProtectHome=` then hides these folders.
const IN_A_SERVICE: &str = "INVOCATION_ID";
const HOMES: [&str; 3] = ["/home", "/root", "/run/user"];
/// Folder entries looked at for a pattern. Chosen: a second or two on a cold disk.
const ENTRIES_MAX: usize = 10_000;

impl Config {
    /// Everything that `serve` would fail at, or could not do, as this user on this machine.
    ///
    /// # Errors
    /// All of it at once.
    pub(crate) fn check_here(&self) -> Result<(), ConfigError> {
        let mut problems = Vec::from_iter(self.nothing_served());
        let mut add = |key: &str, message: String| {
            problems.push(Problem { origin: None, key: Some(key.to_owned()), message });
        };
        for disks in &self.volumes {
            let found = FoundDisks::of(disks, Purpose::Read);
            match found.and_then(|found| found.check_named().map(|()| found.identified.superblock.unit_bytes)) {
                Ok(bytes @ ..CHUNK_BYTES) => add("volumes", VolumeDiskError::UnitSize(bytes).to_string()),
                // A server has them.
                Ok(_) | Err(VolumeDiskError::InUse(_)) => {}
                Err(error) => add("volumes", format!("{:#}", anyhow::Error::from(error))),
            }
        }
        let mut folders = BTreeSet::new();
        for root in &self.roots {
            if let Some(message) = folder_problem(root) {
                add("roots", message);
            } else if root.canonicalize().is_ok_and(|folder| !folders.insert(folder)) {
                add("roots", format!("{} is named twice: leave one of the two out", root.display()));
            }
        }
        if let Some(message) = writable_problem(&self.state) {
            add("state", message);
        }
        for (key, file) in [("log.access", &self.log.access), ("log.events", &self.log.events)] {
            if let Some(message) = file.as_deref().and_then(log_problem) {
                add(key, message);
            }
        }
        if let Some(message) = self.tls.problem() {
            add("tls", message);
        }
        let secret = self.openid.as_ref().and_then(|openid| openid.secret.as_ref());
        if let Some((file, error)) = secret.and_then(|file| Some((file, std::fs::read(file).err()?))) {
            add("openid.secret", format!("{} cannot be read: {error}", file.display()));
        }
        for job in &self.jobs {
            if let Some(message) = super::jobs::problem(job) {
                add("job", format!("{}: {message}", job.name));
            }
        }
        for webhook in &self.webhooks {
            if let Some(message) = webhook.problem() {
                add("webhook", message);
            }
        }
        let cpus = kernel::thread::cpus().unwrap_or_default();
        if let Some(cpu) = self.plane.cpu.filter(|cpu| !cpus.iter().any(|known| u32::try_from(*known) == Ok(*cpu))) {
            let known = cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
            add("plane.cpu", format!("there is no CPU {cpu} for this program; it may use {known}"));
        }
        if problems.is_empty() { Ok(()) } else { Err(ConfigError(problems)) }
    }

    /// The problem of a server that is given neither a folder nor a volume.
    pub(super) fn nothing_served(&self) -> Option<Problem> {
        let message = "no folder is named: write for example `roots = [\"/srv/video\"]`, or start with `--root DIR` or `--volume DEV[,DEV…]`";
        let problem = || Problem { origin: None, key: Some("roots".to_owned()), message: message.to_owned() };
        (self.roots.is_empty() && self.volumes.is_empty()).then(problem)
    }

    /// Names that lead nowhere now, and may later: of folders, contents and interfaces that are not there yet, and of a remote that this
    /// user's rclone does not have. Contents of volumes are not looked at.
    pub(crate) fn hints(&self) -> Vec<String> {
        let of_job = |job: &JobConfig| {
            let about = format!("the job `{}`", job.name);
            match &job.work {
                JobWork::Keep(limits) => self.folder_hints(&about, &limits.folder, &limits.protected),
                JobWork::Scrub { folder, .. }
                | JobWork::Copy { from: CopyEnd::Served(folder), to: CopyEnd::Isocast(_), .. } => {
                    self.folder_hints(&about, folder, &[])
                }
                JobWork::Copy { to: CopyEnd::Rclone(remote), .. } => {
                    Rclone::unknown_remote(remote).map(|why| format!("{about}: {why}")).into_iter().collect()
                }
                JobWork::Copy { .. } | JobWork::Measure | JobWork::Command(_) => Vec::new(),
            }
        };
        let of_quota = |quota: &QuotaConfig| {
            self.folder_hints(&format!("the quota of `{}`", quota.folder.joined()), &quota.folder, &quota.protected)
        };
        let prefixes = self.path_rates.iter().map(|(prefix, _)| ("path_rates", prefix));
        let prefixes = prefixes.chain(self.path_when_full.iter().map(|(prefix, _)| ("path_when_full", prefix)));
        let unused = prefixes.filter(|(_, prefix)| !self.has_names(&prefix_names(prefix)));
        let interfaces = self.links.iter().filter(|link| !Path::new("/sys/class/net").join(&link.name).exists());
        (self.jobs.iter().flat_map(of_job))
            .chain(self.quotas.iter().flat_map(of_quota))
            .chain(unused.map(|(key, prefix)| format!("{key}: no served path begins with `{prefix}` now")))
            .chain(interfaces.map(|link| format!("links: this machine has no interface `{}` now", link.name)))
            .collect()
    }

    /// A folder that is none, and patterns that name nothing.
    fn folder_hints(&self, about: &str, folder: &ContentPath, protected: &[ContentPath]) -> Vec<String> {
        let places = || self.roots.iter().map(|root| root.join(folder.joined()));
        let name = folder.joined();
        let folder = match () {
            () if places().any(|place| place.is_dir()) => None,
            () if places().any(|place| place.exists()) => Some(format!("{about}: `{name}` is a content, no folder")),
            () if !self.volumes.is_empty() => None,
            () => Some(format!("{about}: no served folder has `{name}` now")),
        };
        let unused = protected.iter().filter(|pattern| !self.has_names(pattern.components()));
        let unused = unused.map(|pattern| format!("{about}: protected: nothing is named `{}` now", pattern.joined()));
        folder.into_iter().chain(unused).collect()
    }

    /// True if these names, which may be patterns, lead to something served, or may in a volume.
    fn has_names(&self, names: &[String]) -> bool {
        let mut entries_left = ENTRIES_MAX;
        !self.volumes.is_empty() || self.roots.iter().any(|root| lead_somewhere(root, names, &mut entries_left))
    }
}

/// The names of the paths that begin with a prefix: the last of them is a pattern, unless it is whole.
fn prefix_names(prefix: &str) -> Vec<String> {
    let whole =
        if prefix.is_empty() || prefix.ends_with('/') { prefix.trim_end_matches('/') } else { &format!("{prefix}*") };
    whole.split('/').filter(|_| !whole.is_empty()).map(str::to_owned).collect()
}

/// True if names, as patterns of a job have them, lead from a folder to something, or may: not all entries were looked at.
fn lead_somewhere(folder: &Path, names: &[String], entries_left: &mut usize) -> bool {
    let Some((name, below)) = names.split_first() else { return true };
    let exact = folder.join(name);
    if !name.is_empty() && exact.symlink_metadata().is_ok() {
        return lead_somewhere(&exact, below, entries_left);
    }
    let is_pattern = name.contains(['*', '?']);
    let mut entries = std::fs::read_dir(folder).into_iter().filter(|_| is_pattern).flatten().flatten();
    entries.any(|entry| {
        *entries_left = entries_left.saturating_sub(1);
        let is_alike = is_like(name, &entry.file_name().to_string_lossy());
        *entries_left == 0 || is_alike && lead_somewhere(&entry.path(), below, entries_left)
    })
}

fn folder_problem(root: &Path) -> Option<String> {
    let shown = root.display();
    let hidden = HOMES.iter().any(|home| root.starts_with(home)) && std::env::var_os(IN_A_SERVICE).is_some();
    match std::fs::read_dir(root) {
        Ok(_) => None,
        Err(error) if error.kind() == ErrorKind::NotADirectory && root.exists() => Some(format!(
            "{shown} is no folder: name the folder that it lies in; a disk of a volume stands in `volumes`"
        )),
        Err(_) if hidden => Some(format!(
            "{shown} cannot be opened: services see no home folders; put the videos elsewhere, or permit it (`systemctl edit isocast`: `ProtectHome=no`)"
        )),
        Err(error) => Some(format!("{shown} cannot be opened ({error}): make the folder, or let this user read it")),
    }
}

/// The reason that `folder` cannot be written, which may still have to be made.
fn writable_problem(folder: &Path) -> Option<String> {
    let there = folder.ancestors().find(|folder| folder.exists())?;
    let error = make_file(there).err()?;
    let (folder, there) = (folder.display(), there.display());
    Some(format!(
        "{folder} cannot be written: no file can be made in {there} ({error}); give that to the user that this runs as \
         (`chown`), or name a folder on a disk"
    ))
}

/// The reason that the log `file` cannot be opened. A FIFO is left alone: its reader would end.
fn log_problem(file: &Path) -> Option<String> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let append = OFlags::WRONLY | OFlags::APPEND | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let (shown, shown_folder) = (file.display(), folder.display());
    match file.metadata() {
        Ok(facts) if facts.file_type().is_fifo() => None,
        Ok(_) => open(file, append, Mode::empty()).err().map(|error| format!("cannot write the log {shown}: {error}")),
        Err(_) => make_file(folder).err().map(|error| {
            format!("cannot write the log {shown}: no file can be made in {shown_folder} ({error}); make the folder, or give it to the user that this runs as (`chown`)")
        }),
    }
}

/// Makes a file in `folder` and leaves none. access(2) does not tell: it lets root write everywhere, in /proc too.
fn make_file(folder: &Path) -> Result<(), Errno> {
    let mode = Mode::RUSR | Mode::WUSR;
    let without_name = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    match open(folder, without_name, mode) {
        Ok(_) => return Ok(()),
        // Not every file system has files without a name.
        Err(Errno::OPNOTSUPP | Errno::ISDIR) => {}
        Err(error) => return Err(error),
    }
    let directory = open(folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let name = format!(".isocast-check-{}", std::process::id());
    let new = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(&directory, &name, new, mode)?;
    unlinkat(&directory, &name, AtFlags::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> String {
        let config = Config::load_file("f.toml".as_ref(), text).expect("a good text");
        config.check_here().map_or_else(|error| error.to_string(), |()| String::new())
    }

    #[test]
    fn missing_folders_and_processors_are_named() {
        assert!(problems("state = \"/tmp\"").contains("roots: no folder is named"));
        let said = problems(
            "roots = [\"/nonexistent\"]\nstate = \"/etc/passwd/none\"\n[plane]\ncpu = 1023\n[log]\nevents = \"/etc/passwd/e\"\n",
        );
        for part in [
            "roots: /nonexistent cannot be opened",
            "state: /etc/passwd/none cannot be written",
            "plane.cpu: there is no CPU 1023",
            "log.events: cannot write the log /etc/passwd/e: no file can be made in /etc/passwd",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }

    #[test]
    fn logs_that_cannot_be_opened_are_named_and_none_is_left() {
        let folder = tempfile::tempdir().expect("a folder");
        let said = |file: &Path| problems(&format!("roots = [\"/\"]\nstate = \"/tmp\"\nlog.events = {file:?}\n"));
        for (file, why) in [("none/x.log", "no file can be made in"), ("", "Is a directory")] {
            let said = said(&folder.path().join(file));
            assert!(said.contains("log.events: cannot write the log /") && said.contains(why), "{said}");
        }
        assert_eq!(said(&folder.path().join("x.log")), "");
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
    }

    #[test]
    fn disks_that_are_no_volume_are_named() {
        let folder = tempfile::tempdir().expect("/tmp can be written");
        let blank = folder.path().join("blank");
        std::fs::write(&blank, vec![0; 1 << 20]).expect("there is room");
        for (disk, why) in [
            (blank.to_str().expect("plain"), "it holds no Isocast volume"),
            ("/nonexistent", "cannot open the disk /nonexistent"),
        ] {
            let said = problems(&format!("volumes = [\"{disk}\"]\nstate = \"/tmp\""));
            assert!(said.contains("volumes: ") && said.contains(why), "{said}");
        }
    }

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
        let found = hints(&(settings("path_rates", "1M") + &settings("path_when_full", "refuse")));
        assert_eq!(found, [unused("path_rates"), unused("path_when_full")].concat());
        assert_eq!(
            hints("[links]\nlo = \"1G\"\nnosuch0 = \"1G\"\n"),
            ["links: this machine has no interface `nosuch0` now"]
        );
    }

    #[test]
    fn a_file_for_a_folder_is_named_as_one() {
        let file = tempfile::NamedTempFile::new().expect("/tmp can be written");
        let shown = file.path().display();
        let said = problems(&format!("roots = [\"{shown}\"]\nstate = \"/tmp\"\n"));
        assert!(said.contains(&format!("roots: {shown} is no folder: name the folder that it lies in")), "{said}");
    }

    #[test]
    fn a_file_system_without_files_of_ours_is_no_place_for_state() {
        for folder in ["/proc/nix", "/proc", "/sys/nix"] {
            let said = problems(&format!("roots = [\"/\"]\nstate = {folder:?}\n"));
            assert!(said.contains(&format!("state: {folder} cannot be written: no file can be made in /")), "{said}");
        }
        // Files are made there, and have no other kind than those with a name on some kernels.
        let folder = tempfile::tempdir_in("/dev/shm").expect("a folder");
        let before = folder.path().metadata().and_then(|facts| facts.modified()).expect("a time");
        assert_eq!(make_file(folder.path()), Ok(()));
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
        assert_eq!(folder.path().metadata().and_then(|facts| facts.modified()).expect("a time"), before);
    }

    #[test]
    fn a_folder_named_twice_is_found_in_any_spelling() {
        let folder = tempfile::tempdir().expect("a folder");
        let (root, state) = (folder.path().display(), folder.path().join("state"));
        let said = problems(&format!("roots = [\"{root}\", \"{root}/./\"]\nstate = {state:?}\n"));
        assert!(said.contains("is named twice"), "{said}");
    }

    #[test]
    fn a_state_folder_that_is_still_to_be_made_is_no_problem() {
        let folder = tempfile::tempdir().expect("a folder");
        let (root, state) = (folder.path().display(), folder.path().join("a/b"));
        assert_eq!(problems(&format!("roots = [\"{root}\"]\nstate = {state:?}\n")), "");
        assert!(!state.exists());
    }
}
