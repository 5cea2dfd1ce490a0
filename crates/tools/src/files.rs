//! The limit of open files: raised as far as is needed and permitted.

use anyhow::{Context, bail};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors needed beside those of the purpose.
const SPARE: u64 = 64;

/// Lets this process open `files` more.
///
/// # Errors
/// That many are not permitted; the text says how to permit them.
pub(crate) fn allow(files: u64) -> anyhow::Result<()> {
    let needed = files.saturating_add(SPARE);
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    if let Some(maximum) = limit.maximum.filter(|&maximum| maximum < needed) {
        bail!(
            "{needed} open files are needed, {maximum} permitted: raise the limit (`ulimit -n {needed}` or LimitNOFILE=)"
        );
    }
    let wanted = Rlimit { current: limit.maximum, maximum: limit.maximum };
    setrlimit(Resource::Nofile, wanted).context("raising the limit of open files")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_is_permitted_says_how_to_permit_it() {
        allow(1).unwrap();
        if getrlimit(Resource::Nofile).maximum.is_some() {
            assert!(allow(u64::MAX).unwrap_err().to_string().contains("ulimit -n"));
        }
    }
}
