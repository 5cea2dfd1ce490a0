//! Block devices: which one a folder lies on, and what it can do.
//!
//! Promise: folders on one disk are told to be; a profile is measured by reading only, and kept.
//! Not here: what is done with a profile (`schedule`), files (`dirstore`).

pub mod calibrate;
mod location;
pub mod state_file;
mod sysfs;

pub use location::{Device, Location, actuator_ranges, location_of};
