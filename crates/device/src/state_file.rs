//! Files in the state folder: replaced whole.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Puts `bytes` in the place of the file at `path`, durably and in one step. What is written is a new file that only its
/// owner may read: a link that somebody has put there is replaced, not followed.
///
/// # Errors
/// The file cannot be written.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_added_extension("new");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_link_is_replaced_and_what_it_leads_to_stays() {
        let place = tempfile::tempdir().unwrap();
        let (other, file) = (place.path().join("other"), place.path().join("state.json"));
        fs::write(&other, "precious").unwrap();
        symlink(&other, &file).unwrap();
        symlink(&other, place.path().join("state.json.new")).unwrap();
        replace(&file, b"new").unwrap();
        assert_eq!((fs::read(&file).unwrap(), fs::read(&other).unwrap()), (b"new".to_vec(), b"precious".to_vec()));
        let facts = fs::symlink_metadata(&file).unwrap();
        assert!(facts.is_file() && facts.permissions().mode() & 0o777 == 0o600, "{facts:?}");
    }
}
