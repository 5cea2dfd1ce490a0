//! The greeting of two nodes: any bytes of the other side give an answer, and no node is welcome without the token.

use std::io::Write;
use std::net::Shutdown;

use net::greeting::{Numbered, SharedSecret, answer, call};
use socket2::{Domain, Socket, Type};

/// A socket to which the other side has sent `bytes`, 4096 at most, and sends no more.
fn socket_with(bytes: &[u8]) -> (Socket, Socket) {
    let (ours, theirs) = Socket::pair(Domain::UNIX, Type::STREAM, None).expect("two sockets");
    (&theirs).write_all(&bytes[..bytes.len().min(4096)]).expect("it fits into the buffer");
    theirs.shutdown(Shutdown::Write).expect("a socket that is connected");
    (ours, theirs)
}

/// The target.
pub fn target(bytes: &[u8]) {
    let token = SharedSecret::new("0123456789abcdef0123456789abcdef").expect("a token");
    let numbered = Numbered { session: 1, first: 1 };
    let (ours, _theirs) = socket_with(bytes);
    let _ = answer(&ours, None);
    let (ours, _theirs) = socket_with(bytes);
    assert!(answer(&ours, Some(&token)).is_err());
    let (ours, _theirs) = socket_with(bytes);
    let _ = call(&ours, None, numbered);
    let (ours, _theirs) = socket_with(bytes);
    assert!(call(&ours, Some(&token), numbered).is_err());
}
