//! Tests that mostly wait: emulated disks serve in real time, and clients that never read are given up after seconds.
//! `scripts/test` runs them concurrently, with each other and with all others.

mod crash;
mod disk_faults;
mod disk_slower;
mod lab_disk;
mod neighbours;
mod recorders;
mod recordings;
mod serve_stalled;
mod upload_cuts;
mod volume_faults;
