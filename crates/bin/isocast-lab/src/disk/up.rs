//! `up`: daemon, loop device, file system, mount; all or nothing.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use sim::drive::{DriveProfile, Parameters};
use units::ByteCount;

use super::state::{EmulatorState, Places, ProcessId, make_shared_file, memory_backing};
use super::{calibrate, control, down, sys};
use crate::say;

/// Make an emulated disk: a drive's service times, a real block device, a file system on it.
#[derive(Debug, Args)]
pub(crate) struct DiskUp {
    /// Name of the disk.
    #[arg(default_value = "disk0")]
    name: String,
    /// Drive to emulate: t7k250 (2005, 68…33 MB/s), desktop (7200 rpm, 180…85), surveillance (5400 rpm, 150…70), ssd-sata.
    #[arg(long, default_value = "desktop", value_parser = |text: &str| text.parse::<DriveProfile>())]
    profile: DriveProfile,
    /// A drive parameter, for example --set wcache=0 --set avg=9ms (repeatable; `isocast lab disk params` lists all).
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// File system to make and mount.
    #[arg(long, value_enum, default_value_t = FileSystem::Ext4)]
    fs: FileSystem,
    /// Mount point [default: /run/isocast-lab/NAME/mnt].
    #[arg(long)]
    mount: Option<PathBuf>,
    /// More options for mkfs, in one argument.
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    mkfs: String,
    /// Mount options.
    #[arg(long, default_value = "noatime")]
    options: String,
    /// Kernel I/O scheduler [default: mq-deadline, none for flash].
    #[arg(long)]
    scheduler: Option<String>,
    /// Kernel read-ahead of the device, KiB.
    #[arg(long, default_value_t = 128)]
    read_ahead: u32,
    /// Keep the data in this file instead of memory (it stays; if it holds something it is not formatted).
    #[arg(long)]
    backing: Option<PathBuf>,
    /// Seed of the platters' angle at the start.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Take it down when this process ends.
    #[arg(long, hide = true, value_name = "PID")]
    owner: Option<i32>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// File system to format with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FileSystem {
    /// ext4.
    Ext4,
    /// XFS.
    Xfs,
    /// Nothing: a raw device.
    None,
}

impl FileSystem {
    fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::None => "none",
        }
    }

    fn program(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Ext4 => Some(("mkfs.ext4", "e2fsprogs")),
            Self::Xfs => Some(("mkfs.xfs", "xfsprogs")),
            Self::None => None,
        }
    }
}

impl DiskUp {
    /// A raw device for `check`, which goes with this process.
    pub(crate) fn raw(name: &str, profile: DriveProfile, set: &[String]) -> Self {
        Self {
            name: name.to_owned(),
            profile,
            set: set.to_vec(),
            fs: FileSystem::None,
            mount: None,
            mkfs: String::new(),
            options: String::new(),
            scheduler: Some("none".to_owned()),
            read_ahead: 128,
            backing: None,
            seed: 1,
            owner: i32::try_from(std::process::id()).ok(),
            json: false,
        }
    }

    pub(crate) fn run(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let (state, compensation) = self.make()?;
        self.report(&state, compensation, out)
    }

    /// Makes the disk without saying so.
    pub(crate) fn run_quietly(&self) -> anyhow::Result<()> {
        self.make().map(|_| ())
    }

    fn make(&self) -> anyhow::Result<(EmulatorState, (f64, f64))> {
        let places = Places::of(&self.name)?;
        let parameters = self.parameters()?;
        self.check_machine()?;
        self.check_backing(&parameters)?;
        let owner = self.owner.map(|pid| ProcessId::of(pid).with_context(|| format!("there is no process {pid}")));
        let owner = owner.transpose()?;
        down::reap();
        if down::is_alive(&places) {
            bail!("disk `{0}` is already up; `isocast lab disk down {0}` first, or choose another name", self.name);
        }
        down::take_down(&places).context("cannot remove the remains of an earlier disk of this name")?;
        match self.build(&places, &parameters, owner) {
            Ok(made) => Ok(made),
            Err(error) => {
                let log = fs::read_to_string(places.log()).unwrap_or_default();
                if let Err(left) = down::take_down(&places) {
                    say(format_args!("isocast-lab: while cleaning up: {left:#}"));
                }
                let error = match log.lines().rev().find_map(|line| line.strip_prefix("isocast-lab: ")) {
                    // The daemon's own reason says more than its exit.
                    Some(reason) => anyhow::anyhow!("{reason}"),
                    None => error,
                };
                Err(error.context(format!("disk `{}` could not be made", self.name)))
            }
        }
    }

    pub(crate) fn parameters(&self) -> anyhow::Result<Parameters> {
        let mut parameters = Parameters::of(self.profile);
        for pair in &self.set {
            parameters.set(pair)?;
        }
        parameters.check()?;
        if !parameters.size.is_multiple_of(4096) {
            bail!(crate::wrong_usage("drive parameter size must be a multiple of 4096"));
        }
        Ok(parameters)
    }

    fn check_machine(&self) -> anyhow::Result<()> {
        need_root()?;
        if !Path::new("/dev/fuse").exists() {
            bail!("/dev/fuse is missing: load FUSE (`modprobe fuse`), or give the container --device /dev/fuse");
        }
        if !Path::new("/dev/loop-control").exists() {
            bail!("/dev/loop-control is missing: load loop (`modprobe loop`), or give the container --privileged");
        }
        if let Some((program, package)) = self.fs.program()
            && crate::in_path(program).is_none()
        {
            bail!("{program} is missing: `apt-get install {package}`, or use --fs none");
        }
        Ok(())
    }

    /// A file that holds something is neither cut nor stretched: it may be the wrong one.
    fn check_backing(&self, parameters: &Parameters) -> anyhow::Result<()> {
        let Some(path) = &self.backing else { return Ok(()) };
        let there = fs::metadata(path).map_or(0, |file| file.len());
        if there > 0 && there != parameters.size {
            bail!(
                "the backing file {} has {}, the drive {}: give the drive the file's size (--set size={there}B), or \
                 another file",
                path.display(),
                ByteCount(there),
                ByteCount(parameters.size)
            );
        }
        Ok(())
    }

    fn build(
        &self,
        places: &Places,
        parameters: &Parameters,
        owner: Option<ProcessId>,
    ) -> anyhow::Result<(EmulatorState, (f64, f64))> {
        places.make().with_context(|| format!("cannot make {}", places.fuse().display()))?;
        let backing = match &self.backing {
            Some(path) => std::path::absolute(path)?,
            None => memory_backing(&self.name),
        };
        let fresh = !fs::metadata(&backing).is_ok_and(|m| std::os::unix::fs::MetadataExt::blocks(&m) > 0);
        let mut state = EmulatorState {
            name: self.name.clone(),
            profile: self.profile.to_string(),
            parameters: parameters.listed().iter().map(|(key, value)| format!("{key}={value}")).collect(),
            keep: self.backing.is_some(),
            backing,
            seed: self.seed,
            // If this is killed before the disk is whole, its daemon takes down the parts made.
            owner: i32::try_from(std::process::id()).ok().and_then(ProcessId::of),
            ..EmulatorState::default()
        };
        if state.keep {
            let parent = state.backing.parent().context("the backing file has no directory")?;
            fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
        } else {
            make_shared_file(&state.backing).with_context(|| format!("cannot make {}", state.backing.display()))?;
        }
        places.save(&state)?;
        state.daemon = Some(start_daemon(places)?);
        places.save(&state)?;
        let number = sys::loop_attach(&places.disk())?;
        let device = sys::loop_path(number);
        state.device = Some(device.clone());
        places.save(&state)?;
        self.tune(number, parameters)?;
        let least = if parameters.rotational { parameters.turn() } else { parameters.latency_read };
        let compensation = calibrate::run(places, &device, least)?;
        if self.fs != FileSystem::None {
            if fresh {
                self.format(&device)?;
            }
            let target = self.mount.clone().unwrap_or_else(|| places.mount());
            let target = std::path::absolute(target)?;
            let missing = target.ancestors().take_while(|directory| !directory.exists());
            state.made = missing.filter(|d| !d.starts_with(&places.home)).map(Path::to_path_buf).collect();
            state.file_system = Some(self.fs.name().to_owned());
            state.mount = Some(target.clone());
            places.save(&state)?;
            fs::create_dir_all(&target).with_context(|| format!("cannot make {}", target.display()))?;
            self.mount(&device, &target)?;
        }
        state.ready = true;
        state.owner = owner;
        places.save(&state)?;
        control::ask(places, "timing on; drop; reset")?;
        Ok((state, compensation))
    }

    /// Makes the kernel treat the loop device as the drive it stands for.
    fn tune(&self, number: u32, parameters: &Parameters) -> anyhow::Result<()> {
        let queue = PathBuf::from(format!("/sys/block/loop{number}/queue"));
        let rotational = parameters.rotational;
        let scheduler = self.scheduler.as_deref().unwrap_or(if rotational { "mq-deadline" } else { "none" });
        let write_cache = if parameters.wcache > 0 { "write back" } else { "write through" };
        let tags = parameters.ncq.clamp(4, 128).to_string();
        let read_ahead = self.read_ahead.to_string();
        // Order matters: the number of tags set without an elevator stays in force below it, and other changes may
        // reset the read-ahead (Linux 6.17).
        for (key, value, needed) in [
            ("rotational", if rotational { "1" } else { "0" }, true),
            ("max_sectors_kb", "1024", true),
            ("write_cache", write_cache, true),
            ("discard_max_bytes", "0", false),
            ("scheduler", "none", true),
            ("nr_requests", &tags, true),
            ("scheduler", scheduler, true),
            ("nr_requests", "64", false),
            ("read_ahead_kb", &read_ahead, true),
        ] {
            let result = fs::write(queue.join(key), value);
            if needed {
                result.with_context(|| format!("cannot set {key} of loop{number} to `{value}`"))?;
            }
        }
        let direct = fs::read_to_string(format!("/sys/block/loop{number}/loop/dio")).unwrap_or_default();
        if direct.trim() != "1" {
            say(format_args!(
                "warning: loop{number} does not use direct I/O: the page cache will answer in the drive's place"
            ));
        }
        Ok(())
    }

    fn format(&self, device: &Path) -> anyhow::Result<()> {
        let Some((program, _)) = self.fs.program() else { return Ok(()) };
        let mut command = Command::new(program);
        match self.fs {
            // The device reads as zeros: nothing need be zeroed now (mkfs) or later (the mount's noinit_itable). Nothing is
            // kept for root: contents lie on all of it.
            FileSystem::Ext4 => {
                command.args(["-q", "-F", "-m", "0", "-E", "nodiscard,lazy_itable_init=1,lazy_journal_init=1"])
            }
            FileSystem::Xfs => command.args(["-q", "-f", "-K"]),
            FileSystem::None => return Ok(()),
        };
        let output = command
            .args(self.mkfs.split_whitespace())
            .arg(device)
            .output()
            .with_context(|| format!("cannot run {program}"))?;
        if !output.status.success() {
            bail!("{program} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(())
    }

    fn mount(&self, device: &Path, target: &Path) -> anyhow::Result<()> {
        let mut options = self.options.clone();
        if self.fs == FileSystem::Ext4 {
            // Else ext4 writes its inode tables in the background for minutes.
            options.push_str(",noinit_itable");
        }
        let output = Command::new("mount")
            .args(["-t", self.fs.name(), "-o", options.trim_start_matches(',')])
            .arg(device)
            .arg(target)
            .output()
            .context("cannot run mount")?;
        if !output.status.success() {
            bail!("mount failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(())
    }

    fn report(&self, state: &EmulatorState, compensation: (f64, f64), out: &mut dyn Write) -> anyhow::Result<()> {
        if self.json {
            return Ok(writeln!(out, "{}", serde_json::to_string_pretty(state)?)?);
        }
        let device = state.device.as_deref().unwrap_or(Path::new("?"));
        match &state.mount {
            Some(mount) => {
                writeln!(out, "{}: {} on {} at {}", self.name, self.profile, device.display(), mount.display())
            }
            None => writeln!(out, "{}: {} on {}", self.name, self.profile, device.display()),
        }?;
        let (fixed, per_mib) = compensation;
        Ok(writeln!(out, "path latency {fixed:.0} us + {per_mib:.0} us/MiB, subtracted from each answer")?)
    }
}

pub(crate) fn need_root() -> anyhow::Result<()> {
    if !rustix::process::geteuid().is_root() {
        bail!("emulated disks need root (mounts, loop devices): run it with sudo");
    }
    Ok(())
}

/// Starts the daemon and waits until it serves.
fn start_daemon(places: &Places) -> anyhow::Result<ProcessId> {
    let log = fs::File::create(places.log()).context("cannot make the daemon's log")?;
    let program = std::env::current_exe().context("cannot find the program itself")?;
    let mut command = Command::new(program);
    command.args(["disk", "daemon", &places.name]).current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
    let mut child = command.spawn().context("cannot start the daemon")?;
    let pid = i32::try_from(child.id()).context("a process number")?;
    let id = ProcessId::of(pid);
    let stdout = child.stdout.take().context("the daemon's output")?;
    for line in BufReader::new(stdout).lines() {
        let line = line.context("the daemon's output")?;
        if line == "ready" {
            return id.context("the daemon ended at once");
        }
        say(format_args!("{line}"));
    }
    let status = child.wait().context("the daemon")?;
    bail!("the daemon ended before it served ({status})")
}
