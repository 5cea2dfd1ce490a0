//! Embeds the page: all files of `web/dist` if it is built, else nothing (the program then shows a minimal page).

#![allow(clippy::disallowed_methods, reason = "a build script reads files")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by Cargo")).join("../../../web/dist");
    println!("cargo::rerun-if-changed={}", root.display());
    let mut files = Vec::new();
    collect(&root, "", &mut files);
    files.sort();
    let mut table = String::from("&[\n");
    for (name, path) in &files {
        println!("cargo::rerun-if-changed={}", path.display());
        writeln!(table, "    ({name:?}, include_bytes!({:?})),", path.display().to_string()).expect("a string grows");
    }
    table.push_str("]\n");
    let target = PathBuf::from(env::var_os("OUT_DIR").expect("set by Cargo")).join("page_files.rs");
    fs::write(target, table).expect("OUT_DIR can be written");
}

/// Files below `folder` with their names relative to the page's address.
fn collect(folder: &Path, prefix: &str, files: &mut Vec<(String, PathBuf)>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let Ok(path) = entry.path().canonicalize() else { continue };
        if path.is_dir() {
            collect(&path, &format!("{prefix}{name}/"), files);
        } else {
            files.push((format!("{prefix}{name}"), path));
        }
    }
}
