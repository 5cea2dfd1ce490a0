//! The store on volumes made for it.

#[path = "../../folder/tests/common/stored.rs"]
mod common;
mod volume_opens;
