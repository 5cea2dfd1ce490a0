//! Targets of fuzzing. Each takes any bytes, as the input of a parser or as orders to damage a volume, and panics if a promise
//! is broken. `fuzz/` runs the targets under libFuzzer (`make fuzz`); the tests of this crate run them on damaged samples.

pub mod agentx;
pub mod chunked;
pub mod frames;
pub mod ftp;
pub mod greeting;
pub mod head;
pub mod media_files;
pub mod proxy_header;
pub mod ranges;
pub mod tus;
pub mod volumes;
pub mod webdav;
