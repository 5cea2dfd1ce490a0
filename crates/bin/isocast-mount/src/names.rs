//! The names that the kernel knows of a mounted tree, each with its number.
//!
//! Promise: a number stands for one path until the kernel has forgotten it; memory holds only the names that the kernel remembers.

use std::collections::HashMap;

use fuser::INodeNo;

/// Names and their numbers.
#[derive(Debug)]
pub(crate) struct Names {
    by_number: HashMap<INodeNo, KnownName>,
    by_path: HashMap<String, INodeNo>,
    next: u64,
}

#[derive(Debug)]
struct KnownName {
    path: String,
    /// Lookups that the kernel got of it.
    lookups: u64,
}

impl Names {
    /// The root alone.
    pub(crate) fn new() -> Self {
        let root = KnownName { path: String::new(), lookups: 1 };
        Self {
            by_number: HashMap::from([(INodeNo::ROOT, root)]),
            by_path: HashMap::from([(String::new(), INodeNo::ROOT)]),
            next: INodeNo::ROOT.0 + 1,
        }
    }

    /// The path below the root; none if the kernel should not know the number any more.
    pub(crate) fn path(&self, number: INodeNo) -> Option<String> {
        self.by_number.get(&number).map(|known| known.path.clone())
    }

    /// The number of a path, for an answer to the kernel.
    pub(crate) fn tell(&mut self, path: String) -> INodeNo {
        let number = self.by_path.get(&path).copied().unwrap_or_else(|| {
            let number = INodeNo(self.next);
            self.next += 1;
            self.by_path.insert(path.clone(), number);
            self.by_number.insert(number, KnownName { path, lookups: 0 });
            number
        });
        if let Some(known) = self.by_number.get_mut(&number) {
            known.lookups += 1;
        }
        number
    }

    /// The kernel forgets a name, which it had looked up this number of times.
    pub(crate) fn forget(&mut self, number: INodeNo, lookups: u64) {
        let Some(known) = self.by_number.get_mut(&number) else { return };
        known.lookups = known.lookups.saturating_sub(lookups);
        if known.lookups == 0 && number != INodeNo::ROOT {
            let path = std::mem::take(&mut known.path);
            self.by_path.remove(&path);
            self.by_number.remove(&number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_kept_while_the_kernel_knows_it() {
        let mut names = Names::new();
        let film = names.tell("a/film.ts".to_owned());
        assert_eq!(names.tell("a/film.ts".to_owned()), film);
        names.forget(film, 1);
        assert_eq!(names.path(film).as_deref(), Some("a/film.ts"));
        names.forget(film, 1);
        assert_eq!(names.path(film), None);
        assert_ne!(names.tell("a/film.ts".to_owned()), film, "numbers are not used again");
        names.forget(INodeNo::ROOT, 7);
        assert_eq!(names.path(INodeNo::ROOT).as_deref(), Some(""));
    }
}
