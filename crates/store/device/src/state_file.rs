//! Files of the state folder: written whole, by their owner only, through no link.
//!
//! Promise: a reader sees the old file or the new one; a link in the place of a file to write is replaced, not followed.
//! Not here: the contents of the files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Replaces the file at `path` by the bytes that `write` writes; only its owner may read the new one.
///
/// # Errors
/// The system's; the old file is still at `path` then.
pub fn replace(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    replace_with(path, 0o600, |file| {
        let mut writer = BufWriter::new(file);
        write(&mut writer)?;
        writer.flush()
    })
}

/// As [`replace`], with the permissions `mode`, and with the file itself.
///
/// # Errors
/// The system's; the old file is still at `path` then.
pub fn replace_with(path: &Path, mode: u32, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let new = path.with_extension("new");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&new)?;
    write(&mut file)?;
    file.sync_all()?;
    fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn a_link_is_replaced_and_not_written_through() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, other) = (folder.path().join("index.json"), folder.path().join("other"));
        fs::write(&other, "precious").expect("written");
        for planted in [&path, &folder.path().join("index.new")] {
            symlink(&other, planted).expect("a link");
        }
        replace(&path, |writer| writer.write_all(b"text")).expect("replaced");
        assert_eq!(fs::read_to_string(&other).expect("there"), "precious");
        assert_eq!(fs::read_to_string(&path).expect("there"), "text");
        let facts = fs::symlink_metadata(&path).expect("there");
        assert!(facts.is_file() && facts.permissions().mode() & 0o777 == 0o600);
    }
}
