//! Names: the path that a command means, and commands that look at names or change them.
//!
//! Promise: a path leads nowhere above the root; a change is durable when it is answered. A folder is never replaced, nor removed with
//! contents in it.

use std::time::SystemTime;

use service::access::{Permit, ToDelete, ToRead, ToWrite};
use service::contents::{ContentPath, Entry, NameKind, Precondition};
use service::{ingest, namespace};

use crate::control::FtpReply;
use crate::listing::{facts, stamp};
use crate::login::FtpClient;
use crate::problem;

/// The path that a command means by `text` in `folder`: `..` is the folder above, and the root is above itself.
///
/// # Errors
/// It is no path of a content.
pub(crate) fn resolve(folder: &ContentPath, text: &str) -> Result<ContentPath, FtpReply> {
    let start = if text.starts_with('/') { ContentPath::root() } else { folder.clone() };
    text.split('/').try_fold(start, |path, name| match name {
        "" | "." => Ok(path),
        ".." => Ok(path.split().map_or_else(ContentPath::root, |(above, _)| above)),
        name => path.child(name).map_err(problem::of_path),
    })
}

/// A folder to work in: readable for the client, or open to its uploads.
pub(crate) async fn enter(client: &FtpClient, path: &ContentPath) -> Result<(), FtpReply> {
    if path.components().is_empty() {
        return Ok(());
    }
    let service = &client.service;
    let entry = match client.permit::<ToRead>("CWD", path) {
        Ok(permit) => service.lookup(&permit).await,
        Err(denied) => {
            let permit: Permit<ToWrite> = client.permit("CWD", path).map_err(|_| denied)?;
            service.lookup(&permit).await
        }
    };
    let entry = entry?;
    if entry.kind == NameKind::Directory { Ok(()) } else { Err(FtpReply::new(550, "this is a content, not a folder")) }
}

pub(crate) async fn make_folder(client: &FtpClient, path: &ContentPath) -> Result<FtpReply, FtpReply> {
    let permit: Permit<ToWrite> = client.permit("MKD", path)?;
    namespace::make_folder(&client.service, &permit, client.ends).await?;
    Ok(FtpReply::new(257, format!("{} was made", quoted(path))))
}

pub(crate) async fn remove(client: &FtpClient, path: &ContentPath, kind: NameKind) -> Result<FtpReply, FtpReply> {
    let command = if kind == NameKind::Directory { "RMD" } else { "DELE" };
    let permit: Permit<ToDelete> = client.permit(command, path)?;
    let entry = client.service.lookup(&permit).await?;
    match (entry.kind, kind) {
        (NameKind::Directory, NameKind::File) => return Err(FtpReply::new(550, "this is a folder: RMD removes it")),
        (NameKind::File, NameKind::Directory) => return Err(FtpReply::new(550, "this is a content: DELE removes it")),
        _ => {}
    }
    ingest::delete(&client.service, &permit, Precondition::None, client.ends).await?;
    Ok(FtpReply::new(250, "removed"))
}

/// `RNFR`: the item is there, and may leave its name.
pub(crate) async fn leave_name(client: &FtpClient, path: &ContentPath) -> Result<FtpReply, FtpReply> {
    let permit: Permit<ToDelete> = client.permit("RNFR", path)?;
    client.service.lookup(&permit).await?;
    Ok(FtpReply::new(350, "to which name?"))
}

/// `RNTO`. A content replaces another one; a folder replaces nothing, and nothing replaces a folder.
pub(crate) async fn rename(client: &FtpClient, from: &ContentPath, to: &ContentPath) -> Result<FtpReply, FtpReply> {
    let leaving: Permit<ToDelete> = client.permit("RNFR", from)?;
    let taking: Permit<ToWrite> = client.permit("RNTO", to)?;
    let is_content = |entry: &Entry| entry.kind == NameKind::File;
    let source = client.service.lookup(&leaving).await?;
    let replaces = is_content(&source) && client.service.lookup(&taking).await.is_ok_and(|entry| is_content(&entry));
    namespace::rename(&client.service, (&leaving, &taking), replaces, client.ends).await?;
    Ok(FtpReply::new(250, "renamed"))
}

pub(crate) async fn look_up(client: &FtpClient, command: &str, path: &ContentPath) -> Result<Entry, FtpReply> {
    let permit: Permit<ToRead> = client.permit(command, path)?;
    client.service.lookup(&permit).await.map_err(FtpReply::from)
}

pub(crate) async fn size(client: &FtpClient, path: &ContentPath) -> Result<FtpReply, FtpReply> {
    match look_up(client, "SIZE", path).await? {
        Entry { kind: NameKind::File, size, .. } => Ok(FtpReply::new(213, size.to_string())),
        _ => Err(FtpReply::new(550, "a folder has no size")),
    }
}

pub(crate) async fn modified(client: &FtpClient, path: &ContentPath) -> Result<FtpReply, FtpReply> {
    let entry = look_up(client, "MDTM", path).await?;
    Ok(FtpReply::new(213, stamp(entry.last_modified(SystemTime::now()).unwrap_or(entry.modified))))
}

/// `MFMT`.
pub(crate) async fn modify(client: &FtpClient, path: &ContentPath, time: SystemTime) -> Result<FtpReply, FtpReply> {
    let permit: Permit<ToWrite> = client.permit("MFMT", path)?;
    namespace::set_modified(&client.service, &permit, time).await?;
    Ok(FtpReply::new(213, format!("Modify={}; {path}", stamp(time))))
}

/// `MLST`.
pub(crate) async fn describe(client: &FtpClient, path: &ContentPath) -> Result<FtpReply, FtpReply> {
    let entry = look_up(client, "MLST", path).await?;
    Ok(FtpReply::list(250, "of one name:", vec![format!("{} /{}", facts(&entry), path.joined())], "End"))
}

/// A path in quotes, which double the path's own (RFC 959, appendix II).
pub(crate) fn quoted(path: &ContentPath) -> String {
    format!("\"/{}\"", path.joined().replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_path_leads_above_the_root() {
        let folder = ContentPath::parse("a/b").expect("a path");
        for (text, expected) in [
            ("c", "a/b/c"),
            ("/c", "c"),
            ("..", "a"),
            ("../../../../etc", "etc"),
            ("/../../x/./y//z/", "x/y/z"),
            (".", "a/b"),
            ("%2e%2e/c", "a/b/%2e%2e/c"),
        ] {
            assert_eq!(resolve(&folder, text).map(|path| path.joined()), Ok(expected.to_owned()), "{text}");
        }
        assert!(resolve(&folder, "a\0b").is_err() && resolve(&folder, &"x/".repeat(100)).is_err());
    }
}
