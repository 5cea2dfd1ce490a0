//! The store on real folders, and on file systems made for it.

mod background;
mod common;
mod directory;
mod mounts;
mod plane;
mod uploads;
mod walk;
