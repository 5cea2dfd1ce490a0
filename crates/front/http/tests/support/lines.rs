//! Logs that keep their lines, and waits for what a test expects.

use std::io::Write;
use std::sync::{Arc, Condvar, Mutex};

use super::client::PATIENCE;

/// Waits as long as it is so. A minute of nothing new is a failure, not a slow machine.
pub(super) fn wait_while<T: std::fmt::Debug>(state: &Mutex<T>, changed: &Condvar, so: impl Fn(&T) -> bool) {
    let mut state = state.lock().expect("lock");
    while so(&state) {
        let (next, wait) = changed.wait_timeout(state, PATIENCE).expect("lock");
        assert!(!wait.timed_out() || !so(&next), "waited in vain: {:?}", *next);
        state = next;
    }
}

/// A log that keeps its lines.
#[derive(Clone, Default)]
pub struct Lines(Arc<(Mutex<Vec<u8>>, Condvar)>);

impl Lines {
    /// The text written so far.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.0.lock().expect("lock")).into_owned()
    }

    /// Waits until the log's text makes `true`.
    pub fn wait_until(&self, ready: impl Fn(&str) -> bool) {
        wait_while(&self.0.0, &self.0.1, |bytes| !ready(&String::from_utf8_lossy(bytes)));
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.0.lock().expect("lock").extend_from_slice(bytes);
        self.0.1.notify_all();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
