//! Volumes on disks in memory: crashes, faults, growth, and a model of the state that must be there.

mod ageing;
mod common;
mod folders;
mod full;
mod given_up;
mod grow;
mod images;
mod model;
mod start;
mod write_sets;
