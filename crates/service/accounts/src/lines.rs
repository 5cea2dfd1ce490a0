//! Lines of state that must survive a restart: locks and dead properties of WebDAV, unfinished uploads.
//!
//! Promise: a kept line is durable; the lines of a kind are returned in their order. The accounts' thread writes them, since a
//! change through another connection would make it read all accounts again. Not here: the meaning of the lines.

use std::io;
use std::sync::Arc;

use service::line_journal::LineJournal;

use crate::keeper::Keeper;

/// The lines of one kind in the database of a server.
#[derive(Debug)]
pub struct KeptLines {
    keeper: Arc<Keeper>,
    kind: &'static str,
}

impl KeptLines {
    /// The lines of `kind`.
    #[must_use]
    pub const fn new(keeper: Arc<Keeper>, kind: &'static str) -> Self {
        Self { keeper, kind }
    }
}

const INSERT: &str = "INSERT INTO kept_line (kind, line) VALUES (?1, ?2)";

impl LineJournal for KeptLines {
    fn read(&self) -> io::Result<Vec<String>> {
        let kind = self.kind;
        self.keeper.work(move |tables| {
            let mut lines = tables.prepare("SELECT line FROM kept_line WHERE kind = ?1 ORDER BY id")?;
            lines.query_map([kind], |row| row.get(0))?.collect()
        })
    }

    fn append(&self, line: &str) -> io::Result<()> {
        let (kind, line) = (self.kind, line.to_owned());
        self.keeper.work(move |tables| tables.execute(INSERT, [kind, &line]).map(drop))
    }

    fn replace(&self, lines: &[String]) -> io::Result<()> {
        let (kind, lines) = (self.kind, lines.to_vec());
        self.keeper.work(move |tables| {
            let changes = tables.unchecked_transaction()?;
            changes.execute("DELETE FROM kept_line WHERE kind = ?1", [kind])?;
            for line in &lines {
                changes.execute(INSERT, [kind, line])?;
            }
            changes.commit()
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use service::accounts::Accounts;

    use super::*;

    fn lines(state: &Path, kind: &'static str) -> KeptLines {
        KeptLines::new(Keeper::start(state, &[], &Arc::<Accounts>::default()).expect("started"), kind)
    }

    #[test]
    fn lines_are_kept_by_kind_and_replaced_as_a_whole() {
        let place = tempfile::tempdir().expect("a folder");
        let first = lines(place.path(), "first");
        let second = KeptLines::new(Arc::clone(&first.keeper), "second");
        assert!(first.read().expect("read").is_empty());
        for (kept, line) in [(&first, "a"), (&second, "x"), (&first, "b")] {
            kept.append(line).expect("kept");
        }
        drop((first, second));
        let first = lines(place.path(), "first");
        assert_eq!(first.read().expect("read"), ["a", "b"]);
        first.replace(&["c".to_owned()]).expect("replaced");
        first.append("d").expect("kept");
        assert_eq!(first.read().expect("read"), ["c", "d"]);
        assert_eq!(KeptLines::new(Arc::clone(&first.keeper), "second").read().expect("read"), ["x"]);
    }
}
