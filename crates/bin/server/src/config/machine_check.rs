//! Parts of a good configuration that this machine cannot give: folders, the state folder, processors, logs.
//!
//! Promise: nothing is left or changed by looking. Not here: faults of the text itself (the parent module).

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use kernel::exclusive::Purpose;
use rustix::fs::{AtFlags, Mode, OFlags, open, openat, unlinkat};
use rustix::io::Errno;
use units::limits::CHUNK_BYTES;
use volumes::{FoundDisks, VolumeDiskError};

use super::{Config, ConfigError, Problem};

/// Systemd sets it for its services; `ProtectHome=` then hides these folders.
const IN_A_SERVICE: &str = "INVOCATION_ID";
const HOMES: [&str; 3] = ["/home", "/root", "/run/user"];

impl Config {
    /// Everything that `serve` would fail at, or could not do, as this user on this machine.
    ///
    /// # Errors
    /// All of it at once.
    pub(crate) fn check_machine(&self) -> Result<(), ConfigError> {
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
        config.check_machine().map_or_else(|error| error.to_string(), |()| String::new())
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
