//! Lines that outlive the server: the changes of a state, one a line.
//!
//! Promise: a line that was kept is there after a crash. Not here: the meaning of the lines, the database (`accounts`).

use std::io;

/// Keeper of lines.
pub trait LineJournal: Send + Sync + 'static {
    /// All lines that are kept.
    ///
    /// # Errors
    /// They cannot be read.
    fn read(&self) -> io::Result<Vec<String>>;

    /// Keeps one more.
    ///
    /// # Errors
    /// It is not kept.
    fn append(&self, line: &str) -> io::Result<()>;

    /// Keeps these in the place of all.
    ///
    /// # Errors
    /// Those before are kept still.
    fn replace(&self, lines: &[String]) -> io::Result<()>;
}

/// No line is kept: the state ends with the server.
#[derive(Debug, Default)]
pub struct NoJournal;

impl LineJournal for NoJournal {
    fn read(&self) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn append(&self, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn replace(&self, _: &[String]) -> io::Result<()> {
        Ok(())
    }
}
