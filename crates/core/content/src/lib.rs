//! Contents as the store describes them and the data plane reads them: version, size, layout, checksums, segments of responses.
//!
//! Promise: pure; a content is looked up and judged here without I/O and, after it is made, without allocation. Not here: names of
//! contents (`store`), reading (`dataplane`), looking at files (`kernel`).

pub mod layout;
mod open_content;
mod segment;
pub mod watched;

pub use open_content::{BlockChecksums, Content, FreshContent, STORED_BYTES_MAX};
pub use segment::{LITERAL_BYTES, Segment};
