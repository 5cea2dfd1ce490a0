//! The text of a configuration file, replaced as a whole.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};
use std::path::Path;

use device::state_file;

/// Replaces the text of a configuration file, which keeps its owner and permissions. A link leads to the file that is replaced.
pub(crate) fn replace_text(file: &Path, text: &str) -> io::Result<()> {
    let file = fs::canonicalize(file)?;
    let facts = fs::metadata(&file)?;
    state_file::replace_with(&file, facts.permissions().mode() & 0o777, |new| {
        let own = new.metadata()?;
        if (own.uid(), own.gid()) != (facts.uid(), facts.gid()) {
            fchown(&*new, Some(facts.uid()), Some(facts.gid()))?;
        }
        new.set_permissions(facts.permissions())?;
        new.write_all(text.as_bytes())
    })
}
