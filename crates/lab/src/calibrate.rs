//! Measures what the path from a program to the daemon and back costs, so that it can be subtracted.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::control;
use crate::state::Places;
use crate::sys::{self, Aligned};

const SAMPLES: usize = 150;
const SAMPLES_BIG: usize = 60;
/// More than this is not the path but a busy machine.
const EXCESS_MAX: Duration = Duration::from_micros(400);
/// Below the daemon's.
const PRIORITY: i32 = 20;
const FIXED: Duration = Duration::from_millis(1);

/// Measures and sets the compensation; returns (microseconds, microseconds per MiB).
#[allow(clippy::cast_precision_loss, reason = "figures for people")]
pub(crate) fn run(places: &Places, device: &Path) -> anyhow::Result<(f64, f64)> {
    control::ask(places, &format!("compensate 0 0; timing fixed {}us", FIXED.as_micros()))?;
    let file = sys::open_direct(device, false).with_context(|| format!("cannot open {}", device.display()))?;
    // In real time, in a thread of its own: what other programs cost is not the path's.
    let (small, big) = std::thread::scope(|scope| {
        let measuring = scope.spawn(|| {
            let _refused = sys::real_time(PRIORITY);
            anyhow::Ok((usual_excess(&file, 4096, SAMPLES)?, usual_excess(&file, 1 << 20, SAMPLES_BIG)?))
        });
        measuring.join().map_err(|_| anyhow::anyhow!("the measuring thread panicked"))?
    })?;
    let small = small.min(EXCESS_MAX);
    let big = big.min(small + EXCESS_MAX);
    if small == EXCESS_MAX {
        eprintln!(
            "warning: the machine is busy: path latency over {EXCESS_MAX:?}, the disk will seem slower than its model"
        );
    }
    let per_mib = big.saturating_sub(small);
    control::ask(places, &format!("timing off; compensate {} {}", small.as_nanos(), per_mib.as_nanos()))?;
    Ok((small.as_nanos() as f64 / 1e3, per_mib.as_nanos() as f64 / 1e3))
}

/// How much longer than the fixed time a read takes: the lower quartile, which other load on the machine hardly moves.
fn usual_excess(file: &File, bytes: usize, samples: usize) -> anyhow::Result<Duration> {
    let mut memory = Aligned::new(bytes);
    let mut times = Vec::with_capacity(samples);
    for _ in 0..samples {
        let began = Instant::now();
        file.read_exact_at(memory.as_mut(), 0).context("cannot read the loop device")?;
        times.push(began.elapsed().saturating_sub(FIXED));
    }
    times.sort_unstable();
    Ok(times[samples / 4])
}
