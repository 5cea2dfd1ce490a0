//! The store on real folders, and on file systems and volumes made for it.

mod background;
mod common;
mod directory;
mod mounts;
mod plane;
mod uploads;
mod volume_opens;
mod walk;
