//! `isocast-lab net serve` and `test`: throughput of a network from memory to memory, and its cost on each side.
//!
//! Promise: bytes are written and read as the test requires, with nothing between; both sides are measured alike; a test that
//! is broken off names the side that did so and leaves nothing behind. Beyond loopback only senders with the token are
//! served. Not here: figures over many sizes (`figures`), the transport of messages (the crate `net`).

mod advice;
mod byte_transfer;
mod counters;
mod report;
mod serve;
mod test;
mod wire;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use net::{SharedSecret, Transport};

pub(super) use serve::ServeCommand;
pub(super) use test::TestCommand;

/// The token of both sides.
#[derive(Debug, Args)]
struct TokenArgs {
    /// File with the token that both sides share (16 bytes or more); needed to listen beyond this machine.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl TokenArgs {
    fn read(&self) -> anyhow::Result<Option<SharedSecret>> {
        self.token_file.as_deref().map(token).transpose()
    }
}

fn token(path: &Path) -> anyhow::Result<SharedSecret> {
    let text = std::fs::read_to_string(path).with_context(|| {
        format!("reading the token: make {0} with `head -c 24 /dev/urandom | base64 >{0}`", path.display())
    })?;
    SharedSecret::new(&text).with_context(|| path.display().to_string())
}

fn place(text: &str) -> Result<std::sync::Arc<dyn Transport>, net::AddressError> {
    net::parse_address(text).map(Into::into)
}

/// A number of bytes: bare, or with a unit as everywhere.
fn bytes(text: &str) -> Result<usize, String> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty() {
        return text.parse().map_err(|_| format!("`{text}` bytes are too many"));
    }
    let size = units::parse_size(text).map_err(|error| error.to_string())?;
    usize::try_from(size.0).map_err(|_| format!("{size} are too many"))
}

/// A span that is not nothing.
fn span(text: &str) -> Result<std::time::Duration, String> {
    let span = units::parse_duration(text).map_err(|error| error.to_string())?;
    if span.0 == 0 {
        Err("it must be greater than zero".to_owned())
    } else {
        Ok(std::time::Duration::from_nanos(span.0))
    }
}

/// Refuses to be reached by others without a token.
fn check_reach(place: &dyn Transport, token: Option<&SharedSecret>) -> anyhow::Result<()> {
    if place.reach() == net::transport::Reach::Network && token.is_none() {
        bail!(
            "{place} can be reached from other machines: give --token-file FILE, the same file as `net test` there (make one: \
             head -c 24 /dev/urandom | base64 >FILE), or listen at 127.0.0.1:PORT or unix:PATH"
        );
    }
    Ok(())
}
