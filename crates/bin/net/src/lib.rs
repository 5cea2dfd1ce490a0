//! Messages between nodes, over TCP, TIPC or a Unix socket.
//!
//! Promise: messages arrive whole and in the order sent, over one connection each exactly once. Small ones are put
//! together until their bytes reach a limit or the first has waited as long as the caller allows, urgent ones leave at
//! once. Memory is bounded on both sides: a sender that is faster than its receiver is made to wait. When a connection
//! breaks, messages that the kernel had taken may be lost, never doubled, and the other side learns how many ([`reconnect::Reconnecting`]).
//! Not here: the meaning of messages, encryption (they can be read on the way), choosing nodes.

pub mod connection;
pub mod frame;
pub mod greeting;
pub mod receiver;
pub mod reconnect;
pub mod sender;
pub mod transport;

pub use connection::{ConnectError, Connection, Listener};
pub use greeting::{Numbered, SharedSecret, TokenError};
pub use receiver::{ReceiveError, Receiver};
pub use reconnect::Reconnecting;
pub use sender::{Coalescing, SendError, Sender, SenderStats, Urgency};
pub use transport::{AddressError, Transport, parse_address};
