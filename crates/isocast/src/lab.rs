//! `isocast bench` and `isocast lab`: the program `isocast-lab` in this one's place. A server does without it.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, anyhow, bail};
use clap::Args;

/// What is passed on as it stands, `--help` included.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct LabArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<OsString>,
}

impl LabArgs {
    /// Runs `isocast-lab` with `first` and these arguments instead of this program: beside it, else from the path.
    ///
    /// # Errors
    /// It is not installed.
    pub(crate) fn become_lab(self, first: &[&str]) -> anyhow::Result<()> {
        let beside = std::env::current_exe().context("finding this program")?.with_file_name("isocast-lab");
        let program = if beside.is_file() { &beside } else { Path::new("isocast-lab") };
        let error = Command::new(program).args(first).args(self.arguments).exec();
        if error.kind() == std::io::ErrorKind::NotFound {
            bail!(
                "the measuring tools are a program of their own, `isocast-lab`, which is neither beside this one nor on the \
                 path: build it with `make lab` in the sources, or copy it from where they were built"
            );
        }
        Err(anyhow!(error).context(format!("starting {}", program.display())))
    }
}
