//! Figures of the machine from `/proc` (proc(5)), as in HPSM's `disp`.
//!
//! Promise: reading the figures never waits for a disk. Not here: differences and rendering (`service::figures`).

use std::fs;

use service::machine::MachineSample;
use units::real;

/// The present figures; `None` if `/proc` cannot be read.
pub fn sample() -> Option<MachineSample> {
    let tick = real(rustix::param::clock_ticks_per_second());
    let (busy, total) = processors(&fs::read_to_string("/proc/stat").ok()?)?;
    let (own, resident_pages) = process(&fs::read_to_string("/proc/self/stat").ok()?)?;
    let page = u64::try_from(rustix::param::page_size()).ok()?;
    Some(MachineSample {
        cpu_busy_seconds: real(busy) / tick,
        cpu_total_seconds: real(total) / tick,
        process_seconds: real(own) / tick,
        memory_bytes: resident_pages.saturating_mul(page),
        open_files: fs::read_dir("/proc/self/fd").ok()?.count().try_into().ok()?,
        memory_total_bytes: memory_total(&fs::read_to_string("/proc/meminfo").ok()?)?,
        interface_bytes: interfaces(&fs::read_to_string("/proc/net/dev").ok()?),
    })
}

/// Busy and all ticks of the first line of `/proc/stat`. Guest time is part of user time already.
fn processors(text: &str) -> Option<(u64, u64)> {
    let fields: Vec<u64> =
        text.lines().next()?.split_whitespace().skip(1).take(8).filter_map(|n| n.parse().ok()).collect();
    let idle = fields.get(3)? + fields.get(4)?;
    let total: u64 = fields.iter().sum();
    Some((total.saturating_sub(idle), total))
}

/// User and system ticks, and resident pages, of `/proc/self/stat`. The process name in brackets may contain any character.
fn process(text: &str) -> Option<(u64, u64)> {
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some((number(11)? + number(12)?, number(21)?))
}

fn memory_total(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib.saturating_mul(1024))
}

fn interfaces(text: &str) -> u64 {
    let lines = text.lines().filter_map(|line| line.split_once(':')).filter(|(name, _)| name.trim() != "lo");
    let bytes = lines.map(|(_, counts)| {
        let counts: Vec<u64> = counts.split_whitespace().filter_map(|n| n.parse().ok()).collect();
        counts.first().unwrap_or(&0) + counts.get(8).unwrap_or(&0)
    });
    bytes.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_words_are_understood() {
        assert_eq!(processors("cpu  10 1 5 100 4 0 2 3 0 0\ncpu0 1\n"), Some((21, 125)));
        let stat = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 30 12 0 0 20 0 3 0 99 1000 55 0";
        assert_eq!(process(stat), Some((42, 55)));
        assert_eq!(memory_total("MemTotal:  16 kB\n"), Some(16_384));
        let net = "Inter-|\n face |\n lo: 9 0 0 0 0 0 0 0 9 0\neth0: 5 0 0 0 0 0 0 0 7 0\n";
        assert_eq!(interfaces(net), 12);
    }

    #[test]
    fn this_machine_can_be_looked_at() {
        let sample = sample().expect("/proc is there");
        assert!(sample.memory_bytes > 0 && sample.memory_total_bytes > sample.memory_bytes);
        assert!(sample.cpu_total_seconds >= sample.cpu_busy_seconds);
    }
}
