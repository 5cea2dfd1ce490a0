//! `scrub`: reads every content, so that damage is found while another copy or a backup is still good.
//!
//! Promise: it reads as any client does, through the disks' schedule; contents of a volume are verified by their checksums on the way. An
//! unreadable content does not end the run; a refused rate does. Not here: the copy of a mirror that was not read, and mending
//! (`isocast volume scrub`).

use std::sync::Arc;

use anyhow::{Context as _, bail};
use copy::{Failures, MoveProgress, OwnFolder};
use service::access::Permit;
use service::{MediaService, figures};
use store::ContentPath;
use tokio::runtime::Handle;
use units::{BitRate, counted};

/// Reads all contents of a folder, on a thread that may wait.
///
/// # Errors
/// The contents that cannot be read, or the disk that erred meanwhile.
pub(super) async fn scrub(
    service: &Arc<MediaService>,
    folder: &ContentPath,
    rate: Option<BitRate>,
    moved: &Arc<MoveProgress>,
) -> anyhow::Result<()> {
    let before = disk_errors(service);
    let (own, counted) = (OwnFolder::new(service, folder, Handle::current()), Arc::clone(moved));
    let unreadable = tokio::task::spawn_blocking(move || own.read_all(rate, &counted)).await.context("reading")??;
    judge(moved.files(), &unreadable, disk_errors(service).saturating_sub(before))
}

fn disk_errors(service: &MediaService) -> u64 {
    figures::disks(service, &Permit::of_server()).iter().map(|disk| disk.errors).sum()
}

fn judge(files: u64, unreadable: &Failures, errors: u64) -> anyhow::Result<()> {
    unreadable.judge(&format!("not read whole, {files} were"))?;
    if errors > 0 {
        bail!(
            "all of {} can be read, but disks erred {} meanwhile: `isocast doctor --url URL` names them, `isocast volume scrub` mends a \
             mirror",
            counted(files, "content"),
            counted(errors, "time")
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unread_contents_are_named_and_counted() {
        let found = |unreadable: usize, errors: u64| {
            let names = (1..=unreadable).map(|number| format!("{number}.ts: it broke off"));
            let unreadable = names.fold(Failures::default(), |mut all, name| {
                all.add(name);
                all
            });
            judge(9, &unreadable, errors).map_err(|error| error.to_string())
        };
        assert_eq!(found(0, 0), Ok(()));
        let said = found(7, 3).expect_err("seven are missing");
        assert!(said.starts_with("7 not read whole, 9 were: 1.ts: it broke off; 2.ts"), "{said}");
        assert!(said.ends_with("5.ts: it broke off; and 2 more"), "{said}");
        let said = found(0, 3).expect_err("a disk erred");
        assert!(said.contains("erred 3 times") && said.contains("volume scrub"), "{said}");
    }
}
