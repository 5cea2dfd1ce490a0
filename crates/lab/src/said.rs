//! What is said on standard error beside the output.
//!
//! Promise: a reader that has gone breaks nothing off, least of all what takes apart or removes what was made.

use std::fmt::Arguments;
use std::io::{self, Write};

/// A line on standard error, whether anybody reads it or not.
pub fn say(line: Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{line}");
}
