//! `isocast state`: the database of the state folder.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::accounts::StateOfServer;

/// Back up the accounts, tokens and links of a server.
#[derive(Debug, Args)]
pub struct StateCommand {
    #[command(subcommand)]
    command: StateSubcommand,
}

#[derive(Debug, Subcommand)]
enum StateSubcommand {
    /// Write a copy of the present database, whether the server runs or not.
    Backup {
        /// The file to write, which must not exist.
        file: PathBuf,
        #[command(flatten)]
        state: StateOfServer,
    },
}

impl StateCommand {
    /// Runs the subcommand, and prints to `out`.
    ///
    /// # Errors
    /// The database cannot be read, or the copy not be written.
    pub fn run(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let StateSubcommand::Backup { file, state } = &self.command;
        state.database()?.copy_to(file)?;
        let database = state.folder().join(::accounts::FILE);
        let line = format!(
            "{} is a copy; to restore it, stop the server, remove {}* and put the copy in its place",
            file.display(),
            database.display()
        );
        state.say(out, &serde_json::json!({ "file": file }), line)
    }
}
