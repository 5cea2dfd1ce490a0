//! Names in the tree of objects.

use std::fmt;

use crate::wire::{MasterMalformed, WireReader, WireWriter};

/// Most parts of a name (RFC 2578 §3.5).
const PARTS_MAX: usize = 128;
/// Start of a name that its short form leaves out: `1.3.6.1`, `internet` (RFC 2741 §5.1).
const INTERNET: [u32; 4] = [1, 3, 6, 1];

/// The name of an object: numbers from the root of the tree. They are in the order in which a walk comes by them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Oid(Vec<u32>);

impl Oid {
    /// The name with these numbers.
    ///
    /// # Panics
    /// There are more than 128.
    #[must_use]
    pub fn new(parts: &[u32]) -> Self {
        assert!(parts.len() <= PARTS_MAX, "a name has at most {PARTS_MAX} numbers");
        Self(parts.to_vec())
    }

    /// The name below this one.
    ///
    /// # Panics
    /// There are more than 128 numbers then.
    #[must_use]
    pub fn below(&self, parts: &[u32]) -> Self {
        Self::new(&[self.0.as_slice(), parts].concat())
    }

    /// Its numbers.
    #[must_use]
    pub fn parts(&self) -> &[u32] {
        &self.0
    }

    pub(crate) fn write(&self, to: &mut WireWriter) {
        self.write_start(false, to);
    }

    /// As [`Self::write`]; `is_included` is true if the start of a range belongs to it.
    pub(crate) fn write_start(&self, is_included: bool, to: &mut WireWriter) {
        // The short form has one byte for the number behind `internet`, and zero means that the form is long.
        let (prefix, rest) = match self.0.as_slice() {
            [a, b, c, d, prefix @ 1..=255, rest @ ..] if [*a, *b, *c, *d] == INTERNET => (*prefix, rest),
            all => (0, all),
        };
        to.byte(u8::try_from(rest.len()).expect("at most PARTS_MAX"));
        to.byte(u8::try_from(prefix).expect("matched above"));
        to.byte(u8::from(is_included));
        to.byte(0);
        rest.iter().for_each(|part| to.u32(*part));
    }

    pub(crate) fn read(from: &mut WireReader<'_>) -> Result<Self, MasterMalformed> {
        Ok(Self::read_start(from)?.0)
    }

    /// Reads a name; the flag is true if it belongs to the range that it begins.
    pub(crate) fn read_start(from: &mut WireReader<'_>) -> Result<(Self, bool), MasterMalformed> {
        let (count, prefix, include) = (usize::from(from.byte()?), from.byte()?, from.byte()?);
        from.byte()?;
        let mut parts = Vec::with_capacity(count + INTERNET.len() + 1);
        if prefix != 0 {
            parts.extend(INTERNET);
            parts.push(u32::from(prefix));
        }
        if parts.len() + count > PARTS_MAX {
            return Err(MasterMalformed::LongName(parts.len() + count));
        }
        for _ in 0..count {
            parts.push(from.u32()?);
        }
        Ok((Self(parts), include != 0))
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|part| write!(f, ".{part}"))
    }
}

impl fmt::Debug for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
