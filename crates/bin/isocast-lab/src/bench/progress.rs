//! Progress of a run: lines on standard error.

use super::client::ClientPlan;
use crate::say;

/// Output of progress.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Show {
    quiet: bool,
}

impl Show {
    /// Lines.
    pub(crate) fn on_stderr() -> Self {
        Self { quiet: false }
    }

    /// Nothing.
    #[cfg(test)]
    pub(crate) fn nothing() -> Self {
        Self { quiet: true }
    }

    /// One line.
    pub(crate) fn line(&self, text: &str) {
        if !self.quiet {
            say(format_args!("{text}"));
        }
    }

    /// Announces the run that begins.
    pub(super) fn run(&self, server: &str, plan: &ClientPlan) {
        let length = plan.end().saturating_sub(plan.begin);
        self.line(&format!(
            "{server}: {} streams × {}, {:.0} s",
            plan.paths.len(),
            plan.terms.rate,
            length.as_secs_f64()
        ));
    }
}
