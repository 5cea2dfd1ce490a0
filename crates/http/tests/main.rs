//! The HTTP front end over sockets, with a store in memory.

mod connection;
mod management;
mod reload;
mod support;
mod viewing;
mod writing;
