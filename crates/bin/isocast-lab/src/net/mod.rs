//! `isocast-lab net`: throughput of a network from memory to memory, and nodes with TIPC on an emulated Ethernet, where the
//! machine's own kernel has none.
//!
//! Promise: `down` removes everything that `up` makes, and nothing of the machine's own network is touched. Between network
//! namespaces of one kernel TIPC leaves out the device, so nodes are guests with kernels of their own (User-mode Linux):
//! their frames can be counted, lost and delayed.

mod commands;
mod daemon;
mod experiments;
mod figures;
mod guests;
mod hub;
mod network_folder;
mod transfer;
mod up;

pub(crate) use commands::NetCommand;
