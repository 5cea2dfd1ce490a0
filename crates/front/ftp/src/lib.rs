//! The FTP front end (RFC 959, with TLS by RFC 4217): control connections, data connections, listings. Turns commands into calls of the
//! service, and its errors into replies.
//!
//! Promise: an upload is answered with 226 when it is durable, and is not visible before; an upload that is aborted, reset or closed
//! without the end that TLS has leaves nothing. A data connection is made with the client of the control connection and with no other.
//! Nothing that came before TLS counts after it. Not here: rights, rates, storing (`service`), certificates (`tls`). See
//! docs/decisions/0076-ftp-has-a-control-connection-of-its-own.md.

mod control;
mod data;
mod listing;
mod login;
mod names;
mod problem;
mod server;
mod session;
mod shared;
mod transfer;

pub mod command;

pub use server::{FtpListener, FtpParts, FtpServer};
pub use shared::{FtpSettings, FtpTls};
