//! The data plane's world in memory and virtual time: disks, clients, store threads and a control side, all from one
//! seed, with faults, and with the laws of the schedule checked on the way.
//!
//! Promise: the same seed does the same things at the same times on every machine (the log's hash says so); no byte
//! leaves the plane unchecked. Not here: the plane and the schedule themselves, which run unchanged. See
//! docs/ARCHITECTURE.md and `make sim`.

mod arena;
mod audit;
mod bounds;
mod camera;
mod channel;
mod contents;
mod control_side;
mod course;
mod delays;
mod disk;
mod disk_side;
pub mod drive;
mod events;
mod faults;
mod handles;
mod io;
mod laws;
mod ledger;
mod load;
mod log;
mod measure;
mod random;
mod received_file;
mod run;
mod scenario;
mod socket;
mod store_thread;
mod tally;
mod thread;
mod transfer;
mod viewers;
mod world;
mod writers;

pub use audit::DiskTally;
pub use camera::Camera;
pub use disk::Spent;
pub use io::SimIo;
pub use laws::{BrokenLaw, Law};
pub use ledger::DeliveryTally;
pub use load::{
    ContentLoad, Fault, FaultAt, Load, Popularity, RecordingLoad, SegmentLayout, SegmentViewers, UploadLoad,
};
pub use log::Trace;
pub use measure::{VirtualDisk, measure};
pub use random::Random;
pub use run::{RunReport, SimMachine, run, run_with};
pub use scenario::{DiskSetup, Scenario};
pub use socket::ClientReading;
pub use tally::{Calm, Tally};
pub use viewers::ViewersTally;
pub use writers::WriteTally;
