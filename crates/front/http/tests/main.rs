//! The HTTP front end over sockets, with a store in memory.

mod accounts;
mod archives;
mod connection;
mod cors;
mod floods;
mod http2;
mod management;
mod metrics;
mod reload;
mod rights;
mod sealed;
mod support;
mod upload_rights;
mod viewing;
mod writing;
