//! A file in which a state is kept, that of locks and dead properties of WebDAV for one: a change in each line.
//!
//! Promise: a line that was written is there after a crash; half a line at the end is none. Not here: the meaning of the lines.

use std::fs::{File, OpenOptions, rename};
use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use service::line_journal::LineJournal;

/// The file.
#[derive(Debug)]
pub(super) struct JournalFile {
    path: PathBuf,
    open: Mutex<Option<File>>,
}

impl JournalFile {
    /// The file at `path`, which need not be there.
    pub(super) const fn new(path: PathBuf) -> Self {
        Self { path, open: Mutex::new(None) }
    }
}

impl LineJournal for JournalFile {
    fn read(&self) -> io::Result<Vec<String>> {
        let mut text = Vec::new();
        match File::open(&self.path) {
            Ok(mut file) => drop(file.read_to_end(&mut text)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        Ok(String::from_utf8_lossy(&text[..whole]).lines().map(str::to_owned).collect())
    }

    fn append(&self, line: &str) -> io::Result<()> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let file = match &mut *open {
            Some(file) => file,
            none => none.insert(OpenOptions::new().append(true).create(true).open(&self.path)?),
        };
        file.write_all(format!("{line}\n").as_bytes())?;
        file.sync_data()
    }

    fn replace(&self, lines: &[String]) -> io::Result<()> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let new = self.path.with_extension("new");
        let mut file = File::create(&new)?;
        for line in lines {
            file.write_all(format!("{line}\n").as_bytes())?;
        }
        file.sync_all()?;
        rename(&new, &self.path)?;
        *open = None;
        match self.path.parent() {
            Some(folder) => File::open(folder)?.sync_all(),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_lines_are_kept() {
        let place = tempfile::tempdir().unwrap();
        let journal = || JournalFile::new(place.path().join("webdav.jsonl"));
        assert!(journal().read().unwrap().is_empty());
        let first = journal();
        first.append("a").unwrap();
        first.append("b").unwrap();
        std::fs::OpenOptions::new().append(true).open(&first.path).unwrap().write_all(b"half").unwrap();
        assert_eq!(journal().read().unwrap(), ["a", "b"]);
        first.replace(&["c".to_owned()]).unwrap();
        first.append("d").unwrap();
        assert_eq!(journal().read().unwrap(), ["c", "d"]);
    }
}
