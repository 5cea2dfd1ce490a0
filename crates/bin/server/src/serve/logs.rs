//! The files of the access log and the event log.
//!
//! Promise: opening one waits for no other program. Not here: the lines, and the thread that writes them (`service::log`).

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use rustix::fs::{Mode, OFlags, fcntl_setfl, open};
use rustix::io::Errno;
use service::log::LogWriter;

use crate::config::Config;

/// The access log's, if there is to be one, and the event log's, opened anew.
pub(super) fn log_writers(config: &Config) -> anyhow::Result<(Option<LogWriter>, LogWriter)> {
    let access = config.log.access.as_deref().map(log_writer).transpose()?;
    let events = config.log.events.as_deref().map(log_writer).transpose()?;
    // Not by its lock, which other lines wait for while nothing reads the pipe.
    let standard_error = || io::stderr().as_fd().try_clone_to_owned().map(File::from);
    let events = events.map_or_else(|| standard_error().map(|file| Box::new(file) as LogWriter), Ok)?;
    Ok((access, events))
}

fn log_writer(path: &Path) -> anyhow::Result<LogWriter> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let shown = path.display();
    let file = match open(path, flags, Mode::from_raw_mode(0o666)) {
        Err(Errno::NXIO) => {
            bail!(
                "cannot write the log {shown}: it is a FIFO that no program reads, or a socket; start the FIFO's reader first"
            )
        }
        opened => opened.map_err(io::Error::from).with_context(|| format!("cannot write the log {shown}"))?,
    };
    // The log's own thread may wait for a slow reader.
    fcntl_setfl(&file, OFlags::APPEND).with_context(|| format!("cannot write the log {shown}"))?;
    Ok(Box::new(File::from(file)))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use rustix::fs::{CWD, FileType, mknodat};

    use super::*;

    #[test]
    fn a_fifo_needs_a_reader_and_is_then_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a FIFO");
        let error = log_writer(&path).err().expect("no reader").to_string();
        assert!(error.contains("a FIFO that no program reads"), "{error}");
        let reading = OFlags::RDONLY | OFlags::NONBLOCK;
        let mut reader = File::from(open(&path, reading, Mode::empty()).expect("its end"));
        log_writer(&path).expect("a reader").write_all(b"a line\n").expect("written");
        let mut line = String::new();
        reader.read_to_string(&mut line).expect("read");
        assert_eq!(line, "a line\n");
    }
}
