//! The first bytes of a connection: version, proof of the token, and which message comes first.
//!
//! Promise: nothing is believed and little is kept before the other side has shown that it has the token; the token itself
//! is never sent. Each side proves it over the other's fresh random bytes, by a keyed hash (BLAKE2b, RFC 7693) that is
//! compared in constant time; so a recorded greeting is worth nothing later, and an impostor that offers the same TIPC
//! service learns nothing. The messages that follow are neither encrypted nor signed.
//!
//! ```text
//! caller   8 bytes `isocast>`, version (u16), proves (u8), random (32), session (u64), first number (u64)
//! listener 8 bytes `isocast<`, version (u16), wants proof (u8), random (32)
//! caller   proof (32; zeros without a token)
//! listener verdict (u8), proof (32)
//! ```

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use blake2::digest::consts::U32;
use blake2::digest::{Digest, Mac};
use blake2::{Blake2b512, Blake2bMac};
use socket2::Socket;

/// The version of everything that follows, frames included: two programs of different versions do not talk.
pub const VERSION: u16 = 1;
/// A greeting is over within this time, or the connection.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// A token shorter than this can be guessed.
pub const TOKEN_BYTES_MIN: usize = 16;

const CALLER: [u8; 8] = *b"isocast>";
const LISTENER: [u8; 8] = *b"isocast<";
const RANDOM_BYTES: usize = 32;
const PROOF_BYTES: usize = 32;
const HELLO_BYTES: usize = 8 + 2 + 1 + RANDOM_BYTES;

/// A secret known to both sides alone. Only its hash is kept.
#[derive(Clone)]
pub struct SharedSecret([u8; 64]);

impl std::fmt::Debug for SharedSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

/// A token that would not protect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a token has {TOKEN_BYTES_MIN} bytes or more, this one {0}; make one: head -c 24 /dev/urandom | base64")]
pub struct TokenError(usize);

impl SharedSecret {
    /// The token that `text` is, white space at its ends left out.
    ///
    /// # Errors
    /// It is too short.
    pub fn new(text: &str) -> Result<Self, TokenError> {
        let text = text.trim();
        if text.len() < TOKEN_BYTES_MIN {
            return Err(TokenError(text.len()));
        }
        Ok(Self(Blake2b512::digest(text).into()))
    }

    fn mac(&self, side: [u8; 8], caller: &[u8], listener: &[u8]) -> Blake2bMac<U32> {
        let mac = <Blake2bMac<U32> as Mac>::new_from_slice(&self.0).expect("64 bytes are a key of BLAKE2b");
        mac.chain_update(side).chain_update(caller).chain_update(listener)
    }

    fn proof(&self, side: [u8; 8], caller: &[u8], listener: &[u8]) -> [u8; PROOF_BYTES] {
        self.mac(side, caller, listener).finalize().into_bytes().into()
    }

    fn is_proven(&self, side: [u8; 8], caller: &[u8], listener: &[u8], proof: &[u8]) -> bool {
        self.mac(side, caller, listener).verify_slice(proof).is_ok()
    }
}

/// The session and numbers of a connection's messages: those missing between two connections of one session were lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numbered {
    /// Random, the same for all connections of one sender.
    pub session: u64,
    /// The number of the first message on this connection; the first of all is 0.
    pub first: u64,
}

impl Numbered {
    /// A new session.
    ///
    /// # Errors
    /// The kernel has no random bytes.
    pub fn new() -> io::Result<Self> {
        let bytes: [u8; RANDOM_BYTES] = random()?;
        Ok(Self { session: u64::from_le_bytes(bytes[..8].try_into().expect("8 of 32 bytes")), first: 0 })
    }
}

/// The reason that there is no connection after all.
#[derive(Debug, thiserror::Error)]
pub enum GreetingError {
    /// The socket failed or the other side said nothing for [`PATIENCE`].
    #[error("no greeting came")]
    Io(#[from] io::Error),
    /// Something else answers there.
    #[error("the program there does not speak this protocol: is it `isocast net serve`?")]
    Stranger,
    /// Another version.
    #[error(
        "the other side speaks version {theirs} of the protocol, this program {VERSION}: install the same release on both"
    )]
    Version {
        /// The other side's.
        theirs: u16,
    },
    /// The listener wants a token.
    #[error("the other side wants a token: give the one it was started with (--token-file FILE)")]
    TokenWanted,
    /// The tokens differ.
    #[error("the token is not the other side's: both need the same file (--token-file FILE)")]
    TokenWrong,
    /// The listener knows no token, and the caller wants it to.
    #[error(
        "the other side has no token, so it cannot prove itself: start it with --token-file FILE, or leave yours out"
    )]
    TokenUnknown,
}

/// The verdict of the listener, in its last message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ListenerVerdict {
    Welcome = 0,
    TokenWrong = 1,
}

/// Greets as the caller.
///
/// # Errors
/// The other side is none of ours, of another version, or does not know the token.
pub fn call(socket: &Socket, token: Option<&SharedSecret>, numbered: Numbered) -> Result<(), GreetingError> {
    let deadline = Instant::now() + PATIENCE;
    socket.set_write_timeout(Some(PATIENCE))?;
    let ours: [u8; RANDOM_BYTES] = random()?;
    let mut text = hello(CALLER, token.is_some(), ours).to_vec();
    text.extend_from_slice(&numbered.session.to_le_bytes());
    text.extend_from_slice(&numbered.first.to_le_bytes());
    let mut stream = socket;
    stream.write_all(&text)?;
    let heard = hear(socket, LISTENER, deadline)?;
    match (token.is_some(), heard.proof) {
        (false, true) => return Err(GreetingError::TokenWanted),
        (true, false) => return Err(GreetingError::TokenUnknown),
        _ => {}
    }
    let proof = token.map_or([0; PROOF_BYTES], |token| token.proof(CALLER, &ours, &heard.random));
    stream.write_all(&proof)?;
    let mut answer = [0; 1 + PROOF_BYTES];
    read_by(socket, &mut answer, deadline)?;
    let proven = token.is_none_or(|token| token.is_proven(LISTENER, &ours, &heard.random, &answer[1..]));
    if answer[0] != ListenerVerdict::Welcome as u8 || !proven {
        return Err(GreetingError::TokenWrong);
    }
    settle(socket)
}

/// Greets as the side that was connected to; returns the session and first number of the messages that will come.
///
/// # Errors
/// As [`call`]; the other side has the verdict.
pub fn answer(socket: &Socket, token: Option<&SharedSecret>) -> Result<Numbered, GreetingError> {
    let deadline = Instant::now() + PATIENCE;
    socket.set_write_timeout(Some(PATIENCE))?;
    let heard = hear(socket, CALLER, deadline);
    let ours: [u8; RANDOM_BYTES] = random()?;
    let mut stream = socket;
    if matches!(heard, Ok(_) | Err(GreetingError::Version { .. })) {
        stream.write_all(&hello(LISTENER, token.is_some(), ours))?;
    }
    let heard = heard?;
    let mut numbers = [0; 16];
    read_by(socket, &mut numbers, deadline)?;
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
    let numbered = Numbered { session: number(&numbers[..8]), first: number(&numbers[8..]) };
    let mut proof = [0; PROOF_BYTES];
    read_by(socket, &mut proof, deadline)?;
    let mut text = [0; 1 + PROOF_BYTES];
    if let Some(token) = token {
        if !token.is_proven(CALLER, &heard.random, &ours, &proof) {
            text[0] = ListenerVerdict::TokenWrong as u8;
            stream.write_all(&text)?;
            return Err(GreetingError::TokenWrong);
        }
        text[1..].copy_from_slice(&token.proof(LISTENER, &heard.random, &ours));
    }
    stream.write_all(&text)?;
    settle(socket)?;
    Ok(numbered)
}

struct Heard {
    proof: bool,
    random: [u8; RANDOM_BYTES],
}

fn hello(side: [u8; 8], proof: bool, random: [u8; RANDOM_BYTES]) -> [u8; HELLO_BYTES] {
    let mut text = [0; HELLO_BYTES];
    text[..8].copy_from_slice(&side);
    text[8..10].copy_from_slice(&VERSION.to_le_bytes());
    text[10] = u8::from(proof);
    text[11..].copy_from_slice(&random);
    text
}

fn hear(socket: &Socket, side: [u8; 8], deadline: Instant) -> Result<Heard, GreetingError> {
    // Bytes that are the same in every version come first, so that another version is distinguished from a stranger.
    let mut head = [0; 10];
    read_by(socket, &mut head, deadline)?;
    if head[..8] != side {
        return Err(GreetingError::Stranger);
    }
    let theirs = u16::from_le_bytes([head[8], head[9]]);
    if theirs != VERSION {
        return Err(GreetingError::Version { theirs });
    }
    let mut rest = [0; 1 + RANDOM_BYTES];
    read_by(socket, &mut rest, deadline)?;
    let mut random = [0; RANDOM_BYTES];
    random.copy_from_slice(&rest[1..]);
    Ok(Heard { proof: rest[0] != 0, random })
}

/// Reads all of `bytes` until `deadline`, however slowly they come.
fn read_by(socket: &Socket, mut bytes: &mut [u8], deadline: Instant) -> io::Result<()> {
    let mut stream = socket;
    while !bytes.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "it took too long"));
        }
        socket.set_read_timeout(Some(left))?;
        match stream.read(bytes) {
            Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the connection was closed")),
            Ok(read) => bytes = &mut bytes[read..],
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn settle(socket: &Socket) -> Result<(), GreetingError> {
    socket.set_read_timeout(None)?;
    Ok(socket.set_write_timeout(None)?)
}

fn random() -> io::Result<[u8; RANDOM_BYTES]> {
    let mut bytes = [0; RANDOM_BYTES];
    // The kernel gives as many as requested, up to 256, once it has any.
    let got = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    if got == RANDOM_BYTES { Ok(bytes) } else { Err(io::ErrorKind::Interrupted.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::{Domain, Type};

    /// Both sides' ends of one greeting.
    fn greet(
        caller: Option<&str>,
        listener: Option<&str>,
    ) -> (Result<(), GreetingError>, Result<Numbered, GreetingError>) {
        let (ours, theirs) = Socket::pair(Domain::UNIX, Type::STREAM, None).expect("a pair");
        let token = |text: Option<&str>| text.map(|text| SharedSecret::new(text).expect("long enough"));
        let (caller, listener) = (token(caller), token(listener));
        std::thread::scope(|scope| {
            let answered = scope.spawn(move || answer(&theirs, listener.as_ref()));
            let called = call(&ours, caller.as_ref(), Numbered { session: 7, first: 9 });
            drop(ours);
            (called, answered.join().expect("no panic"))
        })
    }

    const TOKEN: &str = "correct horse battery";

    #[test]
    fn both_sides_show_that_they_have_the_token() {
        let (called, answered) = greet(Some(TOKEN), Some(TOKEN));
        called.expect("the same token");
        assert_eq!(answered.expect("the same token"), Numbered { session: 7, first: 9 });
        greet(None, None).0.expect("no token, none wanted");
    }

    #[test]
    fn a_wrong_missing_or_unknown_token_is_named() {
        let (called, answered) = greet(Some("some other token here"), Some(TOKEN));
        assert!(matches!(called, Err(GreetingError::TokenWrong)), "{called:?}");
        assert!(matches!(answered, Err(GreetingError::TokenWrong)), "{answered:?}");
        assert!(matches!(greet(None, Some(TOKEN)).0, Err(GreetingError::TokenWanted)));
        assert!(matches!(greet(Some(TOKEN), None).0, Err(GreetingError::TokenUnknown)));
        assert_eq!(SharedSecret::new(" short ").err(), Some(TokenError(5)));
    }

    #[test]
    fn another_version_and_a_stranger_get_different_errors() {
        for (said, version) in [(b"isocast<\x02\x00".as_slice(), Some(2)), (b"HTTP/1.1 400 ", None)] {
            let (ours, theirs) = Socket::pair(Domain::UNIX, Type::STREAM, None).expect("a pair");
            (&theirs).write_all(said).expect("a pair has room");
            match call(&ours, None, Numbered { session: 0, first: 0 }) {
                Err(GreetingError::Version { theirs }) => assert_eq!(Some(theirs), version),
                Err(GreetingError::Stranger) => assert_eq!(version, None),
                other => panic!("{other:?}"),
            }
        }
    }
}
