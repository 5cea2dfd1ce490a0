//! What a user sees while a run goes on: a bar on a terminal, plain lines otherwise; always on standard error.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::say;
use indicatif::{ProgressBar, ProgressStyle};
use units::{BitRate, Nanos};

use super::client::{Plan, Progress};
use super::{Stop, clock};

const STEP: Nanos = Nanos::from_millis(250);

/// How progress is shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Show {
    terminal: bool,
    quiet: bool,
}

impl Show {
    /// A bar where standard error is a terminal, lines elsewhere.
    pub(crate) fn on_stderr() -> Self {
        Self { terminal: std::io::stderr().is_terminal(), quiet: false }
    }

    /// Nothing.
    #[cfg(test)]
    pub(crate) fn nothing() -> Self {
        Self { terminal: false, quiet: true }
    }

    /// One line.
    pub(crate) fn line(&self, text: &str) {
        if !self.quiet {
            say(format_args!("{text}"));
        }
    }

    /// Follows one run until it is `over`.
    pub(super) fn run(&self, server: &str, plan: &Plan, progress: &Progress, stop: &Stop, over: &AtomicBool) {
        if self.quiet {
            return;
        }
        let length = plan.end().saturating_sub(plan.begin);
        let rate = plan.terms.rate;
        let title = format!("{server}: {} streams × {rate}", plan.paths.len());
        if !self.terminal {
            say(format_args!("{title}, {:.0} s", length.as_secs_f64()));
            return;
        }
        let bar = ProgressBar::new(length.0 / 1_000_000);
        if let Ok(style) = ProgressStyle::with_template("{prefix} [{bar:30}] {msg}") {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_prefix(title);
        let mut before = (clock::now(), 0);
        while !over.load(Ordering::Relaxed) && !stop.is_set() {
            clock::sleep_until(clock::now() + STEP);
            let (now, bytes) = (clock::now(), progress.bytes.load(Ordering::Relaxed));
            let span = now.saturating_sub(before.0).as_secs_f64().max(0.001);
            let bits = (super::summary::f(bytes - before.1) * 8.0 / span).round();
            bar.set_position(now.saturating_sub(plan.begin).0 / 1_000_000);
            bar.set_message(format!("{} {}", phase(plan, now), BitRate(Nanos::from_secs_f64(bits / 1e9).0)));
            before = (now, bytes);
        }
        bar.finish_and_clear();
    }
}

fn phase(plan: &Plan, now: Nanos) -> &'static str {
    if now < plan.begin + plan.ramp {
        "starting"
    } else if now < plan.measure {
        "warming up"
    } else {
        "measuring"
    }
}
