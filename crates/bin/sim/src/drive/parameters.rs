//! Parameters of a drive: every number of the model, four profiles, and `key=value` to change any of them.
//!
//! Promise: parameters that were checked describe a drive that can be built. T7K250: capacity, rates, zones, average
//! seek and cache are from its published specification, full stroke and track switch from sister models; the other
//! values are guesses. The other profiles are generic, not one product.

use std::fmt;
use std::str::FromStr;

use units::Nanos;

/// A named set of parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DriveProfile {
    /// Deskstar T7K250 of 2005: 250 GB, 7200 rpm, 67.8…32.9 MB/s.
    T7k250,
    /// A present desktop drive: 1 TB, 7200 rpm, 180…85 MB/s.
    #[default]
    Desktop,
    /// A surveillance drive: 4 TB, 5400 rpm, 150…70 MB/s.
    Surveillance,
    /// A SATA flash drive: 500 GB, 540 MB/s.
    SsdSata,
}

impl DriveProfile {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::T7k250, Self::Desktop, Self::Surveillance, Self::SsdSata];

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::T7k250 => "t7k250",
            Self::Desktop => "desktop",
            Self::Surveillance => "surveillance",
            Self::SsdSata => "ssd-sata",
        }
    }
}

impl fmt::Display for DriveProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for DriveProfile {
    type Err = ParameterError;
    fn from_str(text: &str) -> Result<Self, ParameterError> {
        Self::ALL.into_iter().find(|p| p.name() == text).ok_or_else(|| ParameterError::UnknownProfile(shown(text)))
    }
}

/// Why parameters were not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    /// No profile of that name.
    #[error("unknown drive profile `{0}`; there are t7k250, desktop, surveillance and ssd-sata")]
    UnknownProfile(String),
    /// Not of the form key=value.
    #[error("`{0}` is not of the form key=value, for example avg=8.5ms or wcache=0")]
    NotAPair(String),
    /// No parameter of that name.
    #[error("unknown drive parameter `{0}`; `isocast lab disk params` lists all")]
    UnknownKey(String),
    /// The value cannot be read.
    #[error("drive parameter {key}: {reason}")]
    BadValue {
        /// The parameter's name.
        key: String,
        /// Reason of the error.
        reason: String,
    },
    /// Two parameters contradict each other, or one is out of range.
    #[error("drive parameters: {0}")]
    Inconsistent(&'static str),
}

/// Order in which waiting requests are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Shortest positioning time first, with ageing.
    Sptf,
    /// As they came.
    Fifo,
}

/// Every number of the model.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameters {
    /// False: a flash drive (only `size`, `iops_*`, `rate_*`, `latency_*`, `flush` and `ncq` count).
    pub rotational: bool,
    /// Capacity, bytes.
    pub size: u64,
    /// Revolutions per minute.
    pub rpm: u32,
    /// Recording surfaces: tracks per cylinder.
    pub heads: u32,
    /// Zones of equal width.
    pub zones: u32,
    /// Sustained rate of the first zone, bytes per second, skew included.
    pub outer: u64,
    /// Sustained rate of the last zone.
    pub inner: u64,
    /// Time to change track within a stream.
    pub skew: Nanos,
    /// Seek to the next cylinder.
    pub t2t: Nanos,
    /// Seek averaged over random pairs of cylinders.
    pub avg: Nanos,
    /// Seek over the full stroke.
    pub full: Nanos,
    /// Settling time added to a write's seek.
    pub wsettle: Nanos,
    /// Commands the drive holds at once.
    pub ncq: u32,
    /// Which of them is next.
    pub sched: Order,
    /// Ageing of reads: a second of waiting counts as this many seconds of positioning.
    pub age: f64,
    /// Ageing of dirty extents.
    pub dage: f64,
    /// Read buffer, bytes; 0: none.
    pub rcache: u64,
    /// Segments of the read buffer.
    pub rsegs: u32,
    /// Read-ahead behind a read, bytes.
    pub ra: u64,
    /// Volatile write cache, bytes; 0: write through.
    pub wcache: u64,
    /// Dirty extents the write cache can hold.
    pub wsegs: u32,
    /// Bytes drained at a time.
    pub wunit: u64,
    /// Drains in a row while reads wait.
    pub burst: u32,
    /// Reads in a row while a drain is due.
    pub rburst: u32,
    /// Without a read for this long, the cache drains.
    pub wdelay: Nanos,
    /// Fill at which draining begins although reads come, per cent.
    pub whi: u32,
    /// Fill at which that ends, per cent.
    pub wlo: u32,
    /// Age at which an extent is drained although reads come.
    pub wage: Nanos,
    /// Interface rate, bytes per second.
    pub iface: u64,
    /// Overhead of a command that needs the media.
    pub ovh: Nanos,
    /// Overhead of a command served from a buffer.
    pub hovh: Nanos,
    /// Overhead of a FLUSH besides the dirty bytes.
    pub flush: Nanos,
    /// Flash: reads per second at most.
    pub iops_read: u64,
    /// Flash: writes per second at most.
    pub iops_write: u64,
    /// Flash: read rate, bytes per second.
    pub rate_read: u64,
    /// Flash: write rate, bytes per second.
    pub rate_write: u64,
    /// Flash: latency of a read on top of its occupancy.
    pub latency_read: Nanos,
    /// Flash: latency of a write on top of its occupancy.
    pub latency_write: Nanos,
}

const MIB: u64 = 1 << 20;

impl Parameters {
    /// The values of a profile.
    #[must_use]
    pub fn of(profile: DriveProfile) -> Self {
        let desktop = Self::desktop();
        match profile {
            DriveProfile::Desktop => desktop,
            DriveProfile::T7k250 => Self {
                size: 250_059_350_016,
                heads: 3,
                zones: 30,
                outer: 67_800_000,
                inner: 32_900_000,
                skew: Nanos::from_micros(1_480),
                full: Nanos::from_micros(14_700),
                rcache: 4 * MIB,
                rsegs: 8,
                ra: 512 * 1024,
                wcache: 4 * MIB,
                ovh: Nanos::from_micros(250),
                ..desktop
            },
            DriveProfile::Surveillance => Self {
                size: 4_000_787_030_016,
                rpm: 5400,
                heads: 8,
                outer: 150_000_000,
                inner: 70_000_000,
                avg: Nanos::from_micros(12_000),
                full: Nanos::from_micros(22_000),
                ..desktop
            },
            DriveProfile::SsdSata => Self { rotational: false, size: 500_107_862_016, ..desktop },
        }
    }

    fn desktop() -> Self {
        Self {
            rotational: true,
            size: 1_000_204_886_016,
            rpm: 7200,
            heads: 2,
            zones: 24,
            outer: 180_000_000,
            inner: 85_000_000,
            skew: Nanos::from_micros(1_200),
            t2t: Nanos::from_micros(1_000),
            avg: Nanos::from_micros(8_500),
            full: Nanos::from_micros(16_000),
            wsettle: Nanos::from_micros(500),
            ncq: 32,
            sched: Order::Sptf,
            age: 0.03,
            dage: 0.005,
            rcache: 16 * MIB,
            rsegs: 16,
            ra: MIB,
            wcache: 32 * MIB,
            wsegs: 64,
            wunit: MIB,
            burst: 2,
            rburst: 2,
            wdelay: Nanos::from_millis(20),
            whi: 75,
            wlo: 50,
            wage: Nanos::from_secs(2),
            iface: 300_000_000,
            ovh: Nanos::from_micros(200),
            hovh: Nanos::from_micros(50),
            flush: Nanos::from_micros(500),
            iops_read: 90_000,
            iops_write: 80_000,
            rate_read: 540_000_000,
            rate_write: 500_000_000,
            latency_read: Nanos::from_micros(80),
            latency_write: Nanos::from_micros(40),
        }
    }

    /// Time of one revolution.
    #[must_use]
    pub fn turn(&self) -> Nanos {
        Nanos(60_000_000_000 / u64::from(self.rpm.max(1)))
    }

    /// Sets one parameter from `key=value`. Sizes and rates (bytes per second) take `K M G T`, spans `us ms s`.
    ///
    /// # Errors
    /// The form, the key or the value is wrong. Whether all fit together is [`Parameters::check`].
    pub fn set(&mut self, pair: &str) -> Result<(), ParameterError> {
        let (key, text) = pair.split_once('=').ok_or_else(|| ParameterError::NotAPair(shown(pair)))?;
        let (key, text) = (key.trim(), text.trim());
        let slot = self.slots().into_iter().find(|(name, _)| *name == key);
        let (_, slot) = slot.ok_or_else(|| ParameterError::UnknownKey(shown(key)))?;
        let read = match slot {
            Slot::Bytes(slot) => size_or_zero(text).map(|v| *slot = v),
            Slot::Span(slot) => span_or_zero(text).map(|v| *slot = v),
            Slot::Count(slot) => text.parse().map(|v| *slot = v).map_err(|_| number_wanted(text)),
            Slot::Rate(slot) => text.parse().map(|v| *slot = v).map_err(|_| number_wanted(text)),
            Slot::Weight(slot) => {
                let weight = text.parse().ok().filter(|weight| (0.0..=10.0).contains(weight));
                weight.map(|v| *slot = v).ok_or_else(|| format!("`{}` is not a number from 0 to 10", shown(text)))
            }
            Slot::Order(slot) => {
                let order = [("sptf", Order::Sptf), ("fifo", Order::Fifo)].into_iter().find(|(name, _)| *name == text);
                order.map(|(_, v)| *slot = v).ok_or_else(|| format!("`{}` is neither sptf nor fifo", shown(text)))
            }
        };
        read.map_err(|reason| ParameterError::BadValue { key: key.to_owned(), reason })
    }

    /// All keys with their values, as [`Parameters::set`] takes them.
    #[must_use]
    pub fn listed(&self) -> Vec<(&'static str, String)> {
        let value = |slot: Slot<'_>| match slot {
            Slot::Bytes(0) => "0".to_owned(),
            Slot::Bytes(v) => format!("{v}B"),
            Slot::Span(v) if v.0 == 0 => "0".to_owned(),
            Slot::Span(v) => format!("{}us", v.0 / 1000),
            Slot::Count(v) => v.to_string(),
            Slot::Rate(v) => v.to_string(),
            Slot::Weight(v) => v.to_string(),
            Slot::Order(Order::Sptf) => "sptf".to_owned(),
            Slot::Order(Order::Fifo) => "fifo".to_owned(),
        };
        self.clone().slots().into_iter().map(|(key, slot)| (key, value(slot))).collect()
    }

    /// Whether a drive can be built from these.
    ///
    /// # Errors
    /// The first contradiction found.
    pub fn check(&self) -> Result<(), ParameterError> {
        let rules = [
            (self.size >= MIB && self.size <= 1 << 50, "size must be 1 MiB to 1 PiB"),
            ((1..=1024).contains(&self.ncq), "ncq must be 1 to 1024"),
            ((60..=100_000).contains(&self.rpm), "rpm must be 60 to 100000"),
            ((1..=64).contains(&self.heads), "heads must be 1 to 64"),
            ((1..=1000).contains(&self.zones), "zones must be 1 to 1000"),
            (self.inner >= 100_000 && self.inner <= self.outer, "inner must be at least 100kB and at most outer"),
            (self.outer <= 10_000_000_000, "outer must be at most 10GB"),
            (self.skew < self.turn(), "skew must be less than a turn"),
            (self.t2t <= self.avg && self.avg <= self.full, "seeks must rise: t2t, avg, full"),
            (self.full <= Nanos::from_secs(10), "full must be at most 10s"),
            (self.iface >= 1_000_000, "iface must be at least 1MB"),
            (self.rcache == 0 || (1..=1024).contains(&self.rsegs), "rsegs must be 1 to 1024"),
            (self.wcache == 0 || (1..=4096).contains(&self.wsegs), "wsegs must be 1 to 4096"),
            (self.wunit >= 4096, "wunit must be at least 4K"),
            (self.burst >= 1 && self.rburst >= 1, "burst and rburst must be at least 1"),
            (self.wlo <= self.whi && self.whi <= 100, "wlo must not exceed whi, nor whi 100"),
            (self.iops_read >= 1 && self.iops_write >= 1, "iops_read and iops_write must be at least 1"),
            (self.rate_read >= 1000 && self.rate_write >= 1000, "rate_read and rate_write must be at least 1kB"),
        ];
        match rules.into_iter().find(|(holds, _)| !holds) {
            Some((_, rule)) => Err(ParameterError::Inconsistent(rule)),
            None => Ok(()),
        }
    }

    /// All keys with their values, in the order in which they are listed.
    fn slots(&mut self) -> [(&'static str, Slot<'_>); 37] {
        [
            ("size", Slot::Bytes(&mut self.size)),
            ("rpm", Slot::Count(&mut self.rpm)),
            ("heads", Slot::Count(&mut self.heads)),
            ("zones", Slot::Count(&mut self.zones)),
            ("outer", Slot::Bytes(&mut self.outer)),
            ("inner", Slot::Bytes(&mut self.inner)),
            ("skew", Slot::Span(&mut self.skew)),
            ("t2t", Slot::Span(&mut self.t2t)),
            ("avg", Slot::Span(&mut self.avg)),
            ("full", Slot::Span(&mut self.full)),
            ("wsettle", Slot::Span(&mut self.wsettle)),
            ("ncq", Slot::Count(&mut self.ncq)),
            ("sched", Slot::Order(&mut self.sched)),
            ("age", Slot::Weight(&mut self.age)),
            ("dage", Slot::Weight(&mut self.dage)),
            ("rcache", Slot::Bytes(&mut self.rcache)),
            ("rsegs", Slot::Count(&mut self.rsegs)),
            ("ra", Slot::Bytes(&mut self.ra)),
            ("wcache", Slot::Bytes(&mut self.wcache)),
            ("wsegs", Slot::Count(&mut self.wsegs)),
            ("wunit", Slot::Bytes(&mut self.wunit)),
            ("burst", Slot::Count(&mut self.burst)),
            ("rburst", Slot::Count(&mut self.rburst)),
            ("wdelay", Slot::Span(&mut self.wdelay)),
            ("whi", Slot::Count(&mut self.whi)),
            ("wlo", Slot::Count(&mut self.wlo)),
            ("wage", Slot::Span(&mut self.wage)),
            ("iface", Slot::Bytes(&mut self.iface)),
            ("ovh", Slot::Span(&mut self.ovh)),
            ("hovh", Slot::Span(&mut self.hovh)),
            ("flush", Slot::Span(&mut self.flush)),
            ("iops_read", Slot::Rate(&mut self.iops_read)),
            ("iops_write", Slot::Rate(&mut self.iops_write)),
            ("rate_read", Slot::Bytes(&mut self.rate_read)),
            ("rate_write", Slot::Bytes(&mut self.rate_write)),
            ("latency_read", Slot::Span(&mut self.latency_read)),
            ("latency_write", Slot::Span(&mut self.latency_write)),
        ]
    }
}

/// The value of one key.
enum Slot<'a> {
    Bytes(&'a mut u64),
    Span(&'a mut Nanos),
    Count(&'a mut u32),
    Rate(&'a mut u64),
    Weight(&'a mut f64),
    Order(&'a mut Order),
}

fn size_or_zero(text: &str) -> Result<u64, String> {
    if text == "0" { Ok(0) } else { units::parse_size(text).map(|size| size.0).map_err(|e| e.to_string()) }
}

fn span_or_zero(text: &str) -> Result<Nanos, String> {
    if text == "0" { Ok(Nanos::ZERO) } else { units::parse_duration(text).map_err(|e| e.to_string()) }
}

fn number_wanted(text: &str) -> String {
    format!("`{}` is not a whole number", shown(text))
}

fn shown(text: &str) -> String {
    text.chars().take(40).map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// A count as a float, for models.
#[allow(clippy::cast_precision_loss, reason = "models, not deadlines: 52 bits of nanoseconds are 52 days")]
pub(crate) fn float_of(value: u64) -> f64 {
    value as f64
}

/// The nearest whole number, zero for negative ones.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, as intended")]
pub(crate) fn whole_of(value: f64) -> u64 {
    value.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_can_be_built_and_listed_values_read_back() {
        for profile in DriveProfile::ALL {
            let parameters = Parameters::of(profile);
            parameters.check().expect("a profile is consistent");
            let mut copy = Parameters::of(DriveProfile::Desktop);
            copy.rotational = parameters.rotational;
            for (key, value) in parameters.listed() {
                copy.set(&format!("{key}={value}")).expect("a listed value reads back");
            }
            assert_eq!(copy, parameters);
            assert_eq!(profile.name().parse(), Ok(profile));
        }
    }

    #[test]
    fn wrong_parameters_name_the_error() {
        let mut p = Parameters::of(DriveProfile::Desktop);
        assert!(matches!(p.set("avg"), Err(ParameterError::NotAPair(_))));
        assert!(matches!(p.set("speed=1"), Err(ParameterError::UnknownKey(_))));
        assert!(p.set("avg=8").expect_err("no unit").to_string().contains("unit"));
        assert!(p.set("ncq=many").expect_err("no number").to_string().contains("whole number"));
        p.set("wcache=0").expect("write through");
        p.set("avg=30ms").expect("a span");
        assert_eq!(p.check(), Err(ParameterError::Inconsistent("seeks must rise: t2t, avg, full")));
        assert!("floppy".parse::<DriveProfile>().is_err());
    }
}
