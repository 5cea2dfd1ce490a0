//! Configuration files: the parts beside one, places in their text, and a text replaced as a whole.
//!
//! Not here: the settings in them (`settings`).

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

use device::state_file;
use program::output::say;

/// The folder of further files, beside the configuration file.
pub(super) const PARTS: &str = "conf.d";
/// Files in it.
const PARTS_MAX: usize = 1000;

/// The configuration file, and then each `*.toml` in the folder [`PARTS`] beside it, in the order of their names.
///
/// # Errors
/// In words: the folder cannot be read, or has too many.
pub(super) fn with_parts(path: &Path) -> Result<Vec<PathBuf>, String> {
    let parts = path.parent().unwrap_or(Path::new("")).join(PARTS);
    let mut files = vec![path.to_owned()];
    let entries = match fs::read_dir(&parts) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(files),
        entries => entries.map_err(|error| format!("cannot read {}: {error}", parts.display()))?,
    };
    let named = entries.flatten().map(|entry| entry.path());
    let mut named: Vec<PathBuf> = named.filter(|path| path.extension() == Some("toml".as_ref())).collect();
    named.sort();
    named.retain(|path| is_part(path));
    if named.len() > PARTS_MAX {
        return Err(format!("more than {PARTS_MAX} files in {}", parts.display()));
    }
    files.append(&mut named);
    Ok(files)
}

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

/// True if a name in the folder is a part: not an editor's lock (`.#x.toml`), another system's companion of a file (`._x.toml`), or a
/// folder. The log names the others.
fn is_part(path: &Path) -> bool {
    let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    let why = match () {
        () if is_hidden => "its name is hidden",
        () if path.is_dir() => "it is a folder",
        () => return true,
    };
    say(format_args!("{} is passed over: {why}", path.display()));
    false
}

/// The line of an array that is still open where a line `before`, counted from 1, gives another key its value.
pub(super) fn unclosed_array(text: &str, before: usize) -> Option<usize> {
    let lines: Vec<&str> = text.lines().collect();
    let begins = |line: &str| line.split_once('=').is_some_and(|(key, _)| !key.contains(['"', '\'', '[', '#']));
    let last = before.checked_sub(1).filter(|last| lines.get(*last).is_none_or(|line| begins(line)))?;
    let start = lines.get(..last)?.iter().rposition(|line| begins(line))?;
    let (mut depth, mut quoted) = (0i32, false);
    for c in lines[start..last].iter().flat_map(|line| line.split('#').next().unwrap_or_default().chars()) {
        match c {
            '"' | '\'' => quoted = !quoted,
            '[' if !quoted => depth += 1,
            ']' if !quoted => depth -= 1,
            _ => {}
        }
    }
    (depth > 0).then_some(start + 1)
}

/// The line, counted from 1, that byte `position` of `text` is on.
pub(super) fn line_of(text: &str, position: usize) -> usize {
    let before = text.as_bytes().get(..position).unwrap_or(text.as_bytes());
    1 + before.iter().filter(|byte| **byte == b'\n').count()
}
