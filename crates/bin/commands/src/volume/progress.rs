//! Progress of a long command, on a terminal.

use std::io::{IsTerminal, Write};

/// A progress line that overwrites itself; silent if standard error is not a terminal.
#[derive(Debug)]
pub(crate) struct ProgressLine {
    terminal: Option<std::io::Stderr>,
    label: &'static str,
    shown: Option<u64>,
}

impl ProgressLine {
    pub(crate) fn new(label: &'static str) -> Self {
        Self { terminal: Some(std::io::stderr()).filter(IsTerminal::is_terminal), label, shown: None }
    }

    pub(crate) fn show(&mut self, done: u64, of: u64) {
        let percent = done.saturating_mul(100) / of.max(1);
        if self.shown.replace(percent) == Some(percent) {
            return;
        }
        if let Some(terminal) = &mut self.terminal {
            let bar = "#".repeat(usize::try_from(percent / 4).unwrap_or(25).min(25));
            let _ = write!(terminal, "\r{} [{bar:25}] {percent:3} %", self.label);
        }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if let Some(terminal) = &mut self.terminal {
            let _ = write!(terminal, "\r{:60}\r", "");
        }
    }
}
