//! The data plane's world in memory and virtual time: disks, clients, store threads and a control side, all from one
//! seed, with faults, and with the laws of the schedule checked on the way.
//!
//! Promise: the same seed does the same things at the same times on every machine (the log's hash says so); no byte
//! leaves the plane unchecked. Not here: the plane and the schedule themselves, which run unchanged. See
//! docs/ARCHITECTURE.md and `make sim`.

mod arena;
mod audit;
mod camera;
mod contents;
mod control_side;
mod delays;
mod disk;
pub mod drive;
mod faults;
mod handles;
mod io;
mod laws;
mod ledger;
mod load;
mod log;
mod measure;
mod random;
mod run;
mod scenario;
mod socket;
mod store_thread;
mod transfer;
mod viewers;
mod workload;
mod world;

pub use camera::Camera;
pub use disk::Spent;
pub use io::SimIo;
pub use laws::{BrokenLaw, Law};
pub use load::{Calm, Fault, FaultAt, Load, Popularity, SegmentLayout, SegmentViewers, Tally};
pub use log::Trace;
pub use measure::{VirtualDisk, measure};
pub use random::Random;
pub use run::{RunReport, SimMachine, run, run_with};
pub use scenario::{DiskSetup, Scenario};
pub use socket::ClientReading;
pub use viewers::ViewersTally;
