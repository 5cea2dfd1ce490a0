//! The subagent's side of AgentX (RFC 2741): how a program answers for a part of the tree of an SNMP agent, the *master*, and has it
//! send notifications.
//!
//! Promise: no message of a master makes it panic; the message's length is bounded before it is read, and that of an answer by the
//! question and the objects there are. No I/O, clock, chance or threads: bytes come in and go out, and the owner of the connection moves
//! them. Not here: the choice of the objects; sets, which are refused, contexts and the allocation of indices.

mod objects;
mod oid;
mod pdu;
mod session;
mod wire;

pub use objects::{MibObjects, MibValue};
pub use oid::Oid;
pub use pdu::{AgentxHeader, HEADER_BYTES};
pub use session::{AgentxEffect, AgentxSession, AgentxSettings, MasterRefusal};
pub use wire::MasterMalformed;
