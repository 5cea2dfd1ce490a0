//! Measures the latency of the path from a program to the daemon and back, so that it can be subtracted.
//!
//! A processor that has slept for a millisecond takes longer to wake than a processor that has hardly stopped. So the path of
//! small reads is measured at two paces: at a flash drive's it takes half of the time at a hard disk's.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use kernel::aligned::AlignedBlock;
use units::Nanos;

use super::control;
use super::engine::Compensation;
use super::state::Places;
use super::sys;
use crate::say;

/// Reads in a burst; few, so that a quiet moment of a busy machine holds one.
const SAMPLES: usize = 50;
const SAMPLES_QUICK: usize = 300;
const SAMPLES_BIG: usize = 20;
/// Bursts until the two quickest agree, and the pause between them.
const BURSTS_MIN: usize = 3;
const BURSTS_MAX: usize = 16;
const PAUSE: Duration = Duration::from_millis(20);
/// So close they agree: this, or a tenth.
const AGREE: Duration = Duration::from_micros(5);
/// More than this is not the path but a busy machine.
const EXCESS_MAX: Duration = Duration::from_micros(400);
/// Below the daemon's.
const PRIORITY: u8 = 20;
/// Time of the daemon for an answer where the drive's own time does not matter.
const FIXED: Duration = Duration::from_nanos(Compensation::LONG.0);

/// Measures and sets the compensation, for a drive of which no read takes less than `least`; returns (microseconds, microseconds per MiB).
#[allow(clippy::cast_precision_loss, reason = "figures for people")]
pub(crate) fn run(places: &Places, device: &Path, least: Nanos) -> anyhow::Result<(f64, f64)> {
    control::ask(places, "compensate 0 0 0 0")?;
    let file = sys::open_direct(device, false).with_context(|| format!("cannot open {}", device.display()))?;
    let path = Trodden { places, file: &file };
    // In real time, in a thread of its own: the load of other programs does not belong to the path.
    let (quick, small, big) = sys::in_real_time(PRIORITY, || {
        let big = path.settled_excess(FIXED, 1 << 20, SAMPLES_BIG)?;
        let small = path.settled_excess(FIXED, 4096, SAMPLES)?;
        let least = Duration::from_nanos(least.0);
        let at_pace = || at_the_pace_of(least, |span| path.settled_excess(span, 4096, SAMPLES_QUICK));
        let quick = if least < FIXED { at_pace()? } else { small };
        anyhow::Ok((quick, small, big))
    })??;
    let unsettled = [&quick, &small, &big].iter().any(|settled| settled.agreed.is_none());
    let small = small.least.min(EXCESS_MAX);
    let quick = quick.least.min(small);
    let big = big.least.min(small + EXCESS_MAX);
    if small == EXCESS_MAX {
        say(format_args!(
            "warning: the machine is busy: path latency over {EXCESS_MAX:?}, the disk will seem slower than its model"
        ));
    } else if quick.as_nanos() > u128::from(least.0) {
        say(format_args!(
            "warning: the machine is busy: the path takes {quick:?}, the drive but {least}: single small reads will be \
             slower than the model's; make the disk anew in a quiet moment"
        ));
    } else if unsettled {
        say(format_args!(
            "warning: the machine is busy: no two measurements of the path's latency agree, the least is taken; \
             a fast disk made in a quiet moment is nearer to its model"
        ));
    }
    let per_mib = big.saturating_sub(small);
    let (base, per_byte, at_least) = (small.as_nanos(), per_mib.as_nanos(), quick.as_nanos());
    control::ask(places, &format!("timing off; compensate {base} {per_byte} {at_least} {}", least.0))?;
    Ok((quick.as_nanos() as f64 / 1e3, per_mib.as_nanos() as f64 / 1e3))
}

/// The path's latency from several bursts. Other work of the machine only ever adds to it: the least is the path's.
#[derive(Debug, Clone, Copy)]
struct Settled {
    least: Duration,
    /// Another burst found as little.
    agreed: Option<Duration>,
}

impl Settled {
    fn of(mut bursts: Vec<Duration>) -> Self {
        bursts.sort_unstable();
        let least = bursts.first().copied().unwrap_or_default();
        Self { least, agreed: bursts.get(1).copied().filter(|second| *second - least <= AGREE.max(least / 10)) }
    }
}

/// The path of small reads when the drive's own time is `least` or more, from the time that reads take beyond a span.
fn at_the_pace_of<E>(least: Duration, mut excess: impl FnMut(Duration) -> Result<Settled, E>) -> Result<Settled, E> {
    // The path is to be a part of the drive's time, not an addition to it.
    let slower = excess(least)?;
    excess(least.saturating_sub(slower.least))
}

/// The way that a read takes to the daemon and back.
struct Trodden<'a> {
    places: &'a Places,
    file: &'a File,
}

impl Trodden<'_> {
    /// Time of reads of `bytes` beyond `span`, after which the daemon answers.
    fn settled_excess(&self, span: Duration, bytes: usize, samples: usize) -> anyhow::Result<Settled> {
        let micros = u64::try_from(span.as_micros())?.max(1);
        let span = Duration::from_micros(micros);
        control::ask(self.places, &format!("timing fixed {micros}us"))?;
        let mut bursts = Vec::with_capacity(BURSTS_MAX);
        loop {
            bursts.push(self.usual_excess(span, bytes, samples)?);
            let settled = Settled::of(bursts.clone());
            if bursts.len() == BURSTS_MAX || bursts.len() >= BURSTS_MIN && settled.agreed.is_some() {
                return Ok(settled);
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// The lower quartile of a burst: other load on the machine hardly moves it.
    fn usual_excess(&self, span: Duration, bytes: usize, samples: usize) -> anyhow::Result<Duration> {
        let mut memory = AlignedBlock::zeroed(bytes);
        let mut times = Vec::with_capacity(samples);
        for _ in 0..samples {
            let began = Instant::now();
            self.file.read_exact_at(memory.bytes_mut(), 0).context("cannot read the loop device")?;
            times.push(began.elapsed().saturating_sub(span));
        }
        times.sort_unstable();
        Ok(times[samples / 4])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_measured_at_the_pace_of_the_drive() {
        let micros = Duration::from_micros;
        // A processor that sleeps longer wakes later.
        let path = |asleep: Duration| if asleep > micros(200) { micros(75) } else { micros(30) };
        let at = |least: Duration| {
            let mut spans = Vec::new();
            let found = at_the_pace_of(least, |span| {
                spans.push(span);
                Ok::<_, ()>(Settled::of(vec![path(span)]))
            });
            (found.expect("measured").least, spans)
        };
        assert_eq!(at(micros(500)), (micros(75), vec![micros(500), micros(425)]));
        assert_eq!(at(micros(80)), (micros(30), vec![micros(80), micros(50)]));
        assert_eq!(at(micros(10)), (micros(30), vec![micros(10), Duration::ZERO]));
    }

    #[test]
    fn a_busy_moment_does_not_count_where_two_quiet_ones_agree() {
        let of = |micros: &[u64]| Settled::of(micros.iter().map(|&us| Duration::from_micros(us)).collect());
        let quiet = of(&[390, 62, 180, 60]);
        assert_eq!((quiet.least, quiet.agreed), (Duration::from_micros(60), Some(Duration::from_micros(62))));
        assert_eq!(of(&[390, 60, 180]).agreed, None);
        assert_eq!(of(&[60]).agreed, None);
    }
}
