//! The parts of HTTP that are pure functions: heads, chunked bodies, queries, CMCD, ranges, conditions, media types, replies.
//!
//! Promise: no input or output, no clock; no bytes from a peer cause a panic here. Not here: connections
//! (`connection`), the answers (`content`, `upload`, `management`). See RFC 9110 and RFC 9112.

pub mod accept;
pub mod authority;
pub mod chunked;
pub mod cmcd;
pub mod conditional;
pub mod cookie;
pub mod digest;
pub mod head;
pub mod media_type;
pub mod problem_type;
pub mod query;
pub mod range;
pub mod reply;
pub mod tus;
pub mod zip;
