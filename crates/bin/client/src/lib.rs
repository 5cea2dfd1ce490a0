//! Requests of commands to an Isocast server, over HTTP and TLS: documents of its API, and contents.
//!
//! Promise: the caller gets an error of the server in the server's own words; a request fails if the server neither takes nor
//! sends bytes for a minute. Not here: the commands that use the answers.

mod http;
mod names;
mod remote;
mod server_api;
mod tls;

pub use http::{HttpClient, Login, NoAnswer, RateRefusal, USUAL_SERVER, expect, explained};
pub use remote::{
    FileVersion, REOPEN_PAUSES, Remote, RemoteContent, RemoteEntry, SourceFile, SourceReader, Tree, TreeEntry,
    check_address, decoded,
};
pub use server_api::ServerApi;
pub use tls::machines_authorities;
