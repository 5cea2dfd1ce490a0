//! Control socket of a running emulated disk: a connection sends one line of commands and receives one answer.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use sim::drive::{FaultKind, FaultRange};
use units::Nanos;

use super::engine::{Compensation, DiskEngine, Timing};
use super::state::Places;
use crate::say;

const LINE_BYTES_MAX: u64 = 64 * 1024;
/// Commands of `ctl`, for help and error messages.
pub(crate) const COMMANDS: &str = "stat, reset, timing on|off, drop, slow FACTOR, spike SPAN EVERY, spike off, \
    fault START LENGTH [r|w|rw [DELAY]], fault clear, hang, die, cut [SEED], revive";

pub(crate) fn listen(places: &Places) -> anyhow::Result<UnixListener> {
    let path = places.control();
    // A crash may have left the socket; `up` has checked that no daemon serves it.
    let _stale = std::fs::remove_file(&path);
    UnixListener::bind(&path).with_context(|| format!("cannot listen on {}", path.display()))
}

/// Answers connections, one after the other, for ever.
pub(crate) fn serve(listener: &UnixListener, engine: &DiskEngine) {
    for stream in listener.incoming().flatten() {
        if let Err(error) = answer(&stream, engine) {
            say(format_args!("control: {error:#}"));
        }
    }
}

fn answer(mut stream: &UnixStream, engine: &DiskEngine) -> anyhow::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.set_write_timeout(Some(Duration::from_secs(5)))?;
    let mut line = String::new();
    BufReader::new(stream.take(LINE_BYTES_MAX)).read_line(&mut line)?;
    let mut text = String::new();
    for command in line.split(';').map(str::trim).filter(|c| !c.is_empty()) {
        match obey(command, engine) {
            Ok(answer) => {
                text.push_str(&answer);
                text.push('\n');
            }
            Err(error) => {
                text.push_str(&format!("error: {error:#}\n"));
                break;
            }
        }
    }
    stream.write_all(text.as_bytes())?;
    Ok(())
}

fn obey(command: &str, engine: &DiskEngine) -> anyhow::Result<String> {
    let words: Vec<&str> = command.split_whitespace().collect();
    let mut answer = "ok".to_owned();
    match words.as_slice() {
        ["ping"] => {}
        ["stat"] => answer = serde_json::to_string(&engine.statistics())?,
        ["reset"] => engine.reset_stats(),
        ["timing", "on"] => engine.set_timing(Timing::Model),
        ["timing", "off"] => engine.set_timing(Timing::Off),
        ["timing", "fixed", span] => engine.set_timing(Timing::Fixed(units::parse_duration(span)?)),
        ["compensate", base, per_mib, quick, least] => {
            let nanos = |text: &str| text.parse().map(Nanos).context("nanoseconds");
            engine.set_compensation(Compensation {
                base: nanos(base)?,
                per_mib: nanos(per_mib)?,
                quick: nanos(quick)?,
                least: nanos(least)?,
            });
        }
        ["drop"] => engine.change_drive(|drive, now| drive.drop_read_buffer(now)),
        ["slow", factor] => {
            let factor: f64 = factor.parse().ok().filter(|f| (0.01..=1000.0).contains(f)).ok_or_else(|| {
                anyhow!("`{factor}` is not a factor from 0.01 to 1000; 1.3 makes everything take 30 % longer")
            })?;
            engine.set_slow(factor);
        }
        ["spike", "off"] => engine.change_drive(|drive, now| drive.set_spike(Nanos::ZERO, Nanos::ZERO, now)),
        ["spike", span, every] => {
            let (span, every) = (units::parse_duration(span)?, units::parse_duration(every)?);
            engine.change_drive(|drive, now| drive.set_spike(span, every, now));
        }
        ["fault", "clear"] => engine.change_drive(|drive, _| drive.clear_faults()),
        ["fault", start, length, rest @ ..] => {
            let fault = fault(start, length, rest)?;
            let size = engine.size();
            if fault.start.checked_add(fault.bytes).is_none_or(|end| end > size) {
                bail!("`{start} {length}` ends beyond the disk, which has {}", units::ByteCount(size));
            }
            engine.change_drive(|drive, _| drive.add_fault(fault));
        }
        ["hang"] => engine.change_drive(|drive, now| drive.hang(now)),
        ["die"] => engine.change_drive(|drive, now| drive.power_off(now)),
        ["cut"] => answer = cut(0, engine)?,
        ["cut", seed] => answer = cut(seed.parse().context("the seed is a whole number")?, engine)?,
        ["revive"] => engine.revive(),
        _ => bail!("unknown command `{}`; there are: {COMMANDS}", command.escape_debug()),
    }
    Ok(answer)
}

fn cut(seed: u64, engine: &DiskEngine) -> anyhow::Result<String> {
    let report = engine.cut_power(seed).context("the backing file")?;
    Ok(format!(
        "power is off (seed {seed}): of the writes not flushed {} kept, {} torn, {} dropped; `revive` turns it on",
        report.kept, report.torn, report.dropped
    ))
}

fn fault(start: &str, length: &str, rest: &[&str]) -> anyhow::Result<FaultRange> {
    let start = if start == "0" { 0 } else { units::parse_size(start)?.0 };
    let (kind, delay) = match rest {
        [] => ("rw", None),
        [kind] => (*kind, None),
        [kind, delay] => (*kind, Some(*delay)),
        _ => bail!("fault START LENGTH [r|w|rw [DELAY]], for example `fault 10G 4K r 3s`"),
    };
    Ok(FaultRange {
        start,
        bytes: units::parse_size(length)?.0,
        kind: match kind {
            "r" => FaultKind::Read,
            "w" => FaultKind::Write,
            "rw" => FaultKind::Both,
            _ => bail!("`{}` is none of r, w and rw", kind.escape_debug()),
        },
        delay: delay.map(units::parse_duration).transpose()?.unwrap_or(Nanos::ZERO),
    })
}

/// Sends commands to a disk and returns its answer.
pub(crate) fn ask(places: &Places, commands: &str) -> anyhow::Result<String> {
    ask_within(places, commands, Duration::from_secs(30))
}

/// As [`ask`], with the longest wait `patience`.
pub(crate) fn ask_within(places: &Places, commands: &str, patience: Duration) -> anyhow::Result<String> {
    let path = places.control();
    let mut stream = UnixStream::connect(&path).with_context(|| {
        format!("disk `{}` is not up (no answer at {}); see `isocast lab disk list`", places.name, path.display())
    })?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    let answered = stream
        .write_all(format!("{}\n", commands.replace('\n', ";")).as_bytes())
        .and_then(|()| {
            let mut text = String::new();
            stream.read_to_string(&mut text).map(|_| text)
        })
        .with_context(|| format!("the daemon of disk `{}` does not answer", places.name))?;
    if let Some(line) = answered.lines().find(|line| line.starts_with("error: ")) {
        bail!("{}", line.trim_start_matches("error: "));
    }
    Ok(answered.trim_end().to_owned())
}
