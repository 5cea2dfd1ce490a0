//! Failures of single items of a longer piece of work, which continues without them.

use std::fmt;

/// Failures that are named at most.
const NAMED_MAX: usize = 5;

/// Number of failures, and the first of them.
#[derive(Debug, Default)]
pub struct Failures {
    count: u64,
    named: Vec<String>,
}

impl Failures {
    /// One more.
    pub fn add(&mut self, what: impl fmt::Display) {
        self.count += 1;
        if self.named.len() < NAMED_MAX {
            self.named.push(what.to_string());
        }
    }

    /// One more, which is named before all others: it ended the work.
    pub fn add_first(&mut self, what: impl fmt::Display) {
        self.count += 1;
        self.named.insert(0, what.to_string());
        self.named.truncate(NAMED_MAX);
    }

    /// Those of another piece of work.
    pub fn append(&mut self, other: Self) {
        self.count += other.count;
        self.named.extend(other.named);
        self.named.truncate(NAMED_MAX);
    }

    /// Number of failures.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Fails if there is one; `what` names the work that was not done: `not copied`.
    ///
    /// # Errors
    /// The number of failures, and the first of them.
    pub fn judge(&self, what: &str) -> anyhow::Result<()> {
        if self.count == 0 { Ok(()) } else { Err(anyhow::anyhow!("{} {what}: {self}", self.count)) }
    }
}

impl fmt::Display for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.named.join("; "))?;
        match self.count.saturating_sub(self.named.len() as u64) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_are_named_and_all_are_counted() {
        let mut failures = Failures::default();
        assert!(failures.judge("not read whole").is_ok());
        for number in 1..=7 {
            failures.add(format_args!("{number}.ts: it broke off"));
        }
        let said = failures.judge("not read whole").expect_err("seven").to_string();
        assert!(said.starts_with("7 not read whole: 1.ts: it broke off; 2.ts"), "{said}");
        assert!(said.ends_with("5.ts: it broke off; and 2 more"), "{said}");
    }
}
