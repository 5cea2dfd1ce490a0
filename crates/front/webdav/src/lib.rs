//! The rules of WebDAV (RFC 4918): bodies of requests, header fields, the table of locks, dead properties, multistatus bodies.
//!
//! Promise: no I/O, clock, chance; times and tokens are arguments. Bodies, fields and tables have bounds, and any bytes get an
//! answer. Not here: contents, rights, connections (`http`).

mod body;
mod field;
mod if_field;
mod lock;
mod multistatus;
mod path;
mod property;
mod state;
mod xml;

pub use body::{LockWish, PropertyChange, PropertyWish, lock_body, propfind_body, proppatch_body};
pub use field::{
    DavDepth, Destination, FieldError, LOCK_SECONDS_MAX, depth, destination, overwrite, timeout_seconds, unlock_token,
};
pub use if_field::{IfCondition, IfField, IfList};
pub use lock::{DavLock, HOLDER_LOCKS_MAX, LOCKS_MAX, LockError, LockScope, LockTable, Submitted, UnixSeconds};
pub use multistatus::{
    DavCondition, Multistatus, PropertyStatus, error_body, lock_discovery, prop_body, supported_lock,
};
pub use property::{DeadProperties, PROPERTY_BYTES_MAX, PropertyError};
pub use state::{DavChange, DavState};
pub use xml::{BODY_BYTES_MAX, DAV, XmlElement, XmlError, XmlName, XmlNode};
