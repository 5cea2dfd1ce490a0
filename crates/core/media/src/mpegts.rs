//! MPEG-TS (ISO/IEC 13818-1) in packets of 188, 192 (M2TS, a clock in front) or 204 bytes (error correction behind): the
//! curve from the program clock (PCR) at several places of the file.
//!
//! The pace reveals a clock that jumps (spliced recordings, wrapped counters): where two places give a rate far from
//! the rate inside the places themselves and amid them, the latter is taken.

use super::curve::{Point, fit};
use super::input::BudgetedFile;
use super::{ContainerFacts, HEADROOM_MARKS_PERCENT, HEADROOM_SAMPLED_PERCENT, ProbeError, RateSource, be_u32};

/// Sizes of packets that are known.
pub const PACKET_SIZES: [usize; 3] = [188, 192, 204];
/// Bytes of a file's start that are looked at, which one read brings: packets may come behind other bytes (a cut amid a packet,
/// another program's head, the rest of an earlier recording).
pub(super) const DETECT_BYTES: usize = 64 << 10;
/// Packets in a row by which a stream is known.
const ROW: usize = 5;
/// Packets in a row by which a stream is known behind other bytes: there [`ROW`] packets may be chance.
const ROW_LATER: usize = 20;
/// Places that are looked at, and the bytes of each. A clock comes each 100 ms at least, 128 KiB at 10 Mbit/s.
const PLACES: u64 = 40;
const PLACE_BYTES: usize = 320 << 10;
/// Ticks of the clock a second, and where it wraps.
const CLOCK: u64 = 27_000_000;
const WRAP: u64 = (1 << 33) * 300;
/// The rates inside the places are not trusted beyond this factor.
const JUMP_FACTOR: u64 = 4;

/// Grid of the packets in a file: the first sync byte of a row, and the distance to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PacketGrid {
    pub(super) first: usize,
    pub(super) size: usize,
}

/// A clock reading: its offset, and its time.
#[derive(Debug, Clone, Copy)]
struct ClockReading {
    offset: u64,
    ticks: u64,
}

/// The readings of one place that follow each other without a jump: the first and the last.
#[derive(Debug, Clone, Copy)]
struct ClockRun {
    first: ClockReading,
    last: ClockReading,
}

pub(super) fn begins(start: &[u8]) -> bool {
    let later = || grid_of(start, ROW_LATER).is_some();
    grid(start).is_some_and(|grid| grid.first < 204) || later()
}

pub(super) fn probe(source: &mut BudgetedFile<'_>) -> Result<ContainerFacts, ProbeError> {
    let size = source.size();
    let places = places(source)?;
    let (Some(first), Some(last)) = (places.first(), places.last()) else {
        return Err(ProbeError::NoDuration);
    };
    let pace = pace(&places).ok_or(ProbeError::NoDuration)?;
    let mut points = Vec::new();
    let mut time = 0;
    let mut add = |ticks: u64, end: u64| points.push(Point { time: super::ticks(ticks, CLOCK), end });
    add(0, first.first.offset);
    let within = |place: &ClockRun| since(place.first.ticks, place.last.ticks);
    let later = places.windows(2).map(|pair| (gap(pair, pace).0, &pair[1]));
    for (passed, place) in std::iter::once((within(first), first)).chain(later) {
        time = passed.saturating_add(time);
        add(time.saturating_sub(within(place)), place.first.offset);
        add(time, place.last.offset);
    }
    // The ends, before the first and behind the last reading, go at the pace of the whole.
    let inner = last.last.offset - first.first.offset;
    let whole = u128::from(time) * u128::from(size) / u128::from(inner.max(1));
    let duration = super::ticks(u64::try_from(whole).unwrap_or(u64::MAX), CLOCK);
    let fit = fit(&points, first.first.offset).ok_or(ProbeError::NoDuration)?;
    let headroom = if varies(&places, pace) { HEADROOM_SAMPLED_PERCENT } else { HEADROOM_MARKS_PERCENT };
    Ok(ContainerFacts::fitted(fit, duration, headroom, RateSource::ProgramClock))
}

/// Clock readings at places spread evenly over the file.
fn places(source: &mut BudgetedFile<'_>) -> Result<Vec<ClockRun>, ProbeError> {
    let mut found = Vec::new();
    let mut program = None;
    for at in source.places(0, PLACES, PLACE_BYTES) {
        match source.view(at, PLACE_BYTES) {
            Ok(bytes) => {
                let later =
                    |run: &ClockRun| found.last().is_none_or(|last: &ClockRun| last.last.offset < run.last.offset);
                found.extend(place(bytes, at, &mut program).filter(later));
            }
            Err(ProbeError::OverBudget(..)) if found.len() > 1 => return Ok(found),
            Err(error) => return Err(error),
        }
    }
    // A gap that the neighbouring places do not explain is a jump, or a part of another pace: a place amid it tells.
    let room = u64::try_from(PLACE_BYTES).unwrap_or(u64::MAX);
    let distance = |pair: &[ClockRun]| pair[1].first.offset.saturating_sub(pair[0].last.offset);
    while let Some(pace) = pace(&found)
        && let Some(index) = found.windows(2).position(|pair| distance(pair) > room && !gap(pair, pace).1)
    {
        let at = found[index].last.offset + (distance(&found[index..]) - room) / 2;
        let Ok(bytes) = source.view(at, PLACE_BYTES) else { break };
        let Some(run) = place(bytes, at, &mut program) else { break };
        found.insert(index + 1, run);
    }
    Ok(found)
}

/// The longest run of readings without a jump in `bytes`. `program` is the packet identifier of the clock that counts:
/// the first found.
fn place(bytes: &[u8], at: u64, program: &mut Option<u16>) -> Option<ClockRun> {
    let mut best: Option<ClockRun> = None;
    let mut run: Option<ClockRun> = None;
    let mut rest = 0;
    while let Some(grid) = grid(bytes.get(rest..).unwrap_or_default()) {
        let mut next = rest + grid.first;
        while bytes.get(next) == Some(&0x47) {
            let packet = &bytes[next..bytes.len().min(next + 188)];
            if let Some((pid, ticks, jump)) = clock(packet)
                && *program.get_or_insert(pid) == pid
            {
                let reading = ClockReading { offset: at + u64::try_from(next).unwrap_or(0), ticks };
                let continues = |run: &ClockRun| !jump && since(run.last.ticks, ticks) < 2 * CLOCK;
                run = Some(
                    run.filter(continues)
                        .map_or(ClockRun { first: reading, last: reading }, |r| ClockRun { last: reading, ..r }),
                );
                best = best.filter(|b| run.is_some_and(|r| length(b) > length(&r))).or(run);
            }
            next += grid.size;
        }
        // Out of step: look for the next row.
        rest = next.max(rest + 1);
    }
    best
}

fn length(place: &ClockRun) -> u64 {
    place.last.offset - place.first.offset
}

/// Finds the next row of packets.
pub(super) fn grid(bytes: &[u8]) -> Option<PacketGrid> {
    grid_of(bytes, ROW)
}

/// Finds the next row of `packets` packets.
fn grid_of(bytes: &[u8], packets: usize) -> Option<PacketGrid> {
    let sync = |at: usize| bytes.get(at) == Some(&0x47);
    let row = |first: usize| PACKET_SIZES.into_iter().find(|size| (0..packets).all(|i| sync(first + i * size)));
    (0..bytes.len()).filter(|at| sync(*at)).find_map(|first| row(first).map(|size| PacketGrid { first, size }))
}

/// Identifier, clock in 27 MHz ticks, and whether it jumps here, if the packet carries a clock.
fn clock(packet: &[u8]) -> Option<(u16, u64, bool)> {
    let head = be_u32(packet, 0)?;
    let adapted = head & 0x20 != 0;
    let broken = head & 0x80_0000 != 0;
    let (length, flags) = (*packet.get(4)?, *packet.get(5)?);
    if !adapted || broken || length < 7 || flags & 0x10 == 0 {
        return None;
    }
    let low = packet.get(6..12)?;
    let base = u64::from(be_u32(low, 0)?) << 1 | u64::from(low[4] >> 7);
    let extension = u64::from(low[4] & 1) << 8 | u64::from(low[5]);
    let pid = u16::try_from(head >> 8 & 0x1fff).ok()?;
    Some((pid, (base * 300 + extension) % WRAP, flags & 0x80 != 0))
}

/// Ticks from `from` to `to`, across a wrap.
fn since(from: u64, to: u64) -> u64 {
    (to + WRAP - from) % WRAP
}

/// Bytes per second between two readings.
fn pace_between(from: ClockReading, to: ClockReading) -> Option<u64> {
    let bytes = to.offset.checked_sub(from.offset).filter(|bytes| *bytes > 0)?;
    let rate = u128::from(bytes) * u128::from(CLOCK) / u128::from(since(from.ticks, to.ticks).max(1));
    u64::try_from(rate).ok().filter(|rate| *rate > 0)
}

/// Bytes per second inside the places: their median. If no place holds two readings, all of them together.
fn pace(places: &[ClockRun]) -> Option<u64> {
    let mut rates: Vec<u64> = places.iter().filter_map(|p| pace_between(p.first, p.last)).collect();
    rates.sort_unstable();
    match rates.get(rates.len() / 2) {
        Some(median) => Some(*median),
        None => pace_between(places.first()?.first, places.last()?.last),
    }
}

/// Ticks from the end of one place to the end of the next, and whether the pace inside the two explains them; `pace` is that of a
/// place with one reading.
fn gap(pair: &[ClockRun], pace: u64) -> (u64, bool) {
    let bytes = length(&ClockRun { first: pair[0].last, last: pair[1].last });
    let expected =
        |pace: u64| u64::try_from(u128::from(bytes) * u128::from(CLOCK) / u128::from(pace.max(1))).unwrap_or(u64::MAX);
    let [before, behind] = [pair[0], pair[1]].map(|place| pace_between(place.first, place.last).unwrap_or(pace));
    let (least, most) = (expected(before.max(behind)), expected(before.min(behind)));
    let told = since(pair[0].last.ticks, pair[1].last.ticks);
    // Two seconds of leeway: places near each other may well differ by more than the factor.
    let slack = 2 * CLOCK;
    let near = told <= most.saturating_mul(JUMP_FACTOR).saturating_add(slack)
        && told.saturating_add(slack) >= least / JUMP_FACTOR;
    (if near { told } else { expected(u64::midpoint(before, behind)) }, near)
}

/// True if the rate inside the places differs by more than a twentieth from the median in a tenth of them.
fn varies(places: &[ClockRun], pace: u64) -> bool {
    let off = |place: &&ClockRun| {
        let ticks = since(place.first.ticks, place.last.ticks);
        let expected = u128::from(length(place)) * u128::from(CLOCK) / u128::from(pace.max(1));
        u128::from(ticks).abs_diff(expected) * 20 > expected
    };
    places.iter().filter(off).count() * 10 > places.len()
}
