//! Options of sockets for which no library has a name.
//!
//! Promise: the kernel's errors. Not here: all other options (`socket2`).

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd};

/// Wakes a waiting reader when `bytes` bytes or the end of the stream are there, and not for each segment (`SO_RCVLOWAT`
/// of socket(7)). TCP makes room for twice as many, as far as the system's limit allows, and counts at most half of its
/// room.
///
/// # Errors
/// The error that the kernel gave.
pub fn wake_reader_at(socket: impl AsFd, bytes: usize) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_RCVLOWAT, u32::try_from(bytes).unwrap_or(u32::MAX >> 1))
}

/// Sets an option that is a number.
pub(crate) fn set(socket: impl AsFd, level: libc::c_int, option: libc::c_int, value: u32) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of::<u32>()).expect("4 bytes");
    // SAFETY: the value lives through the call and is as long as said; the descriptor is borrowed for it.
    let done =
        unsafe { libc::setsockopt(socket.as_fd().as_raw_fd(), level, option, (&raw const value).cast(), length) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_reader_gets_whole_messages_and_the_rest_at_the_end() {
        const MESSAGE: usize = 100_000;
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut sender = TcpStream::connect(listener.local_addr().expect("its address")).expect("it listens");
        let (mut reader, _) = listener.accept().expect("somebody came");
        wake_reader_at(&reader, MESSAGE).expect("every socket has it");
        let writing = std::thread::spawn(move || {
            for _ in 0..20 {
                sender.write_all(&[7; MESSAGE / 2]).expect("it is read");
                std::thread::yield_now();
            }
            sender.write_all(&[7; 10]).expect("it is read");
        });
        let mut buffer = vec![0; MESSAGE];
        let reads: Vec<usize> =
            std::iter::repeat_with(|| reader.read(&mut buffer).expect("bytes")).take_while(|read| *read > 0).collect();
        writing.join().expect("no panic");
        assert_eq!(reads, [vec![MESSAGE; 10], vec![10]].concat());
    }
}
