//! Replaces this program by another of Isocast: the measuring tools or the mount, which a server does not need.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, anyhow, bail};
use clap::Args;

/// Arguments that are passed on unchanged, `--help` included.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub struct LabArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<OsString>,
}

impl LabArgs {
    /// Runs `isocast-lab` with `first` and these arguments instead of this program.
    ///
    /// # Errors
    /// As [`become_program`].
    pub fn become_lab(self, first: &[&str]) -> anyhow::Result<()> {
        let arguments = first.iter().map(OsString::from).chain(self.arguments);
        become_program("isocast-lab", ["lab", "install-lab"], arguments)
    }
}

/// Runs another program of Isocast in place of this one: from this program's folder, else from `PATH`. `build` and `install`
/// are the make targets that do so for it.
///
/// # Errors
/// The program is not installed.
pub fn become_program(
    name: &str,
    [build, install]: [&str; 2],
    arguments: impl IntoIterator<Item = OsString>,
) -> anyhow::Result<()> {
    let beside = std::env::current_exe().context("finding this program")?.with_file_name(name);
    let program = if beside.is_file() { &beside } else { Path::new(name) };
    let error = Command::new(program).args(arguments).exec();
    if error.kind() == std::io::ErrorKind::NotFound {
        bail!(
            "this is a program of its own, `{name}`, which is neither beside this one nor on the path: in the sources `make {build}` \
             builds it, and `make {install}`, as root, installs it"
        );
    }
    Err(anyhow!(error).context(format!("starting {}", program.display())))
}
