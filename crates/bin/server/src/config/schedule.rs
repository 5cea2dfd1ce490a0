//! `[schedule]`: the clockwork of the data plane and the disks.

use dataplane::PlaneConfig;
use units::Nanos;

use super::settings::Settings;
use super::values::{Percent, parse_choice, parse_percent, parse_span};

/// The cycle of HiTactix (§4.1; docs/references.md), the only one that is not a whole number to the second.
const HITACTIX_CYCLE: Nanos = Nanos::from_millis(256);
const SECOND: Nanos = Nanos::from_secs(1);

/// The data plane's and the disks' clockwork.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScheduleConfig {
    /// Period of the data plane.
    pub(crate) cycle: Nanos,
    /// Fraction of a cycle at which sockets are fed.
    pub(crate) tick: Nanos,
    /// Period in which a disk is scheduled; whole cycles.
    pub(crate) round: Nanos,
    /// Share of disk time kept for best effort (uploads), in percent, `0..=90`.
    pub(crate) best_effort_percent: u8,
    /// Streams of one content share its reads, with this reserve for those that then need their own.
    pub(crate) sharing_reserve_percent: Option<u8>,
    /// Mirrored contents are promised time on all disks that have a copy, so that any one may fail.
    pub(crate) survive_disk_loss: bool,
}

impl ScheduleConfig {
    /// No recording is durable sooner.
    pub(crate) fn recording_durable_min(&self) -> Nanos {
        PlaneConfig { tick: self.tick, round: self.round, ..PlaneConfig::default() }.recording_durable_min()
    }

    pub(super) fn take(settings: &mut Settings) -> Self {
        let cycle = settings.take("schedule.cycle", Nanos::from_millis(250), parse_cycle);
        let tick = settings.take("schedule.tick", default_tick(cycle), parse_span);
        let round = settings.take("schedule.round", default_round(cycle), parse_span);
        if tick < Nanos::from_millis(5) || !cycle.0.is_multiple_of(tick.0) {
            let message =
                format!("{tick} must be 5 ms or more and go into the cycle ({cycle}) without rest; leave it out");
            settings.contradiction("schedule.tick", message);
        }
        if round > Nanos::from_secs(8) || !round.0.is_multiple_of(cycle.0) || round.0 == 0 {
            let message = format!("{round} must be whole cycles ({cycle}), 8 s at most; leave it out");
            settings.contradiction("schedule.round", message);
        }
        Self {
            cycle,
            tick,
            round,
            best_effort_percent: settings.take("schedule.be_share", Percent(10), |text| parse_percent(text, 0, 90)).0,
            sharing_reserve_percent: settings
                .take("schedule.sharing", Some(Percent(10)), parse_sharing)
                .map(|share| share.0),
            survive_disk_loss: settings.take("schedule.survive_disk_loss", true, parse_choice),
        }
    }
}

/// `off` for streams that share nothing.
fn parse_sharing(text: &str) -> Result<Option<Percent>, String> {
    match text {
        "off" => Ok(None),
        _ => parse_percent(text, 0, 100).map(Some).map_err(|error| format!("{error}, or `off`")),
    }
}

fn parse_cycle(text: &str) -> Result<Nanos, String> {
    let cycle = parse_span(text)?;
    let fits = cycle >= Nanos::from_millis(50) && cycle <= SECOND && SECOND.0.is_multiple_of(cycle.0);
    if fits || cycle == HITACTIX_CYCLE {
        Ok(cycle)
    } else {
        Err(format!(
            "`{text}` cannot be a cycle: 50 ms to 1 s, a whole number to the second (such as `250ms`), or `256ms`"
        ))
    }
}

/// 50 ms, or an eighth of a cycle that this does not go into.
fn default_tick(cycle: Nanos) -> Nanos {
    let usual = Nanos::from_millis(50);
    if cycle.0.is_multiple_of(usual.0) { usual } else { Nanos(cycle.0 / 8) }
}

/// The whole cycles nearest to a second.
fn default_round(cycle: Nanos) -> Nanos {
    cycle.saturating_mul(((SECOND.0 + cycle.0 / 2) / cycle.0.max(1)).max(1))
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    fn load(text: &str) -> Result<Config, String> {
        Config::load_file("isocast.toml".as_ref(), text).map_err(|error| error.to_string())
    }

    #[test]
    fn the_seeds_cycle_gets_a_tick_and_a_round_that_fit() {
        let schedule = load("[schedule]\ncycle = \"256ms\"\n").unwrap().schedule;
        assert_eq!(schedule.tick, Nanos::from_millis(32));
        assert_eq!(schedule.round, Nanos::from_millis(1024));
        let error = load("[schedule]\ncycle = \"300ms\"\n").unwrap_err();
        assert!(error.contains("cannot be a cycle"), "{error}");
        let error = load("[schedule]\ntick = \"40ms\"\nround = \"900ms\"\n").unwrap_err();
        assert!(error.contains("schedule.tick") && error.contains("schedule.round"), "{error}");
    }
}
