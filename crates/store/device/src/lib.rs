//! Block devices: the device under a folder, and its profile.
//!
//! Promise: folders on one disk get the same [`Device`]; a profile is measured by reading only, and kept.
//! Not here: the use of a profile (`schedule`), files (`folder`).

pub mod calibrate;
mod location;
pub mod state_file;
mod sysfs;

pub use location::{Device, Location, actuator_ranges, location_of};
