//! The objects of a part of the tree at one moment, in the order of a walk.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::oid::Oid;
use crate::wire::WireWriter;

/// Value of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MibValue {
    /// `Integer32`, and enumerations.
    Integer(i32),
    /// `OCTET STRING`, and the types derived from it.
    Text(String),
    /// `OBJECT IDENTIFIER`.
    Name(Oid),
    /// `Gauge32` and `Unsigned32`.
    Gauge(u32),
    /// `TimeTicks`: hundredths of a second.
    Ticks(u32),
    /// `Counter64`.
    Counter(u64),
}

impl MibValue {
    fn code(&self) -> u16 {
        match self {
            Self::Integer(_) => 2,
            Self::Text(_) => 4,
            Self::Name(_) => 6,
            Self::Gauge(_) => 66,
            Self::Ticks(_) => 67,
            Self::Counter(_) => 70,
        }
    }

    /// As one variable, with its name (RFC 2741 §5.4).
    pub(crate) fn write(&self, name: &Oid, to: &mut WireWriter) {
        to.u16(self.code());
        to.u16(0);
        name.write(to);
        match self {
            Self::Integer(value) => to.u32(value.cast_unsigned()),
            Self::Text(text) => to.text(text.as_bytes()),
            Self::Name(name) => name.write(to),
            Self::Gauge(value) | Self::Ticks(value) => to.u32(*value),
            Self::Counter(value) => to.u64(*value),
        }
    }
}

/// MibObjects by their names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MibObjects(BTreeMap<Oid, MibValue>);

impl MibObjects {
    /// Adds an object, or changes it.
    pub fn add(&mut self, name: Oid, value: MibValue) {
        self.0.insert(name, value);
    }

    /// The object of this name.
    #[must_use]
    pub fn exact(&self, name: &Oid) -> Option<&MibValue> {
        self.0.get(name)
    }

    /// The first object behind `start`, or at it if it is included, and before `end`, if there is an end.
    #[must_use]
    pub fn next(&self, (start, is_included): (&Oid, bool), end: Option<&Oid>) -> Option<(&Oid, &MibValue)> {
        let from = if is_included { Bound::Included(start) } else { Bound::Excluded(start) };
        let found = self.0.range((from, Bound::Unbounded)).next()?;
        end.is_none_or(|end| found.0 < end).then_some(found)
    }
}
