//! Checks of the house that no compiler makes: dependencies of crates, places of `unsafe`, sizes, heads, words, links.
//!
//! Promise: every failure names the file and line, and a remedy. Reads only the working tree and
//! `cargo metadata`; needs no network. The table it enforces is in docs/ARCHITECTURE.md.

mod crates;
mod documents;
mod imports;
mod sources;
mod words;
