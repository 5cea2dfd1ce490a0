//! Handles of the plane: the file or the stream's socket in each of its slots, by the descriptors that the control side gave it.
//!
//! Promise: a slot is opened while it is free, and closed while it is open; anything else is a broken law. Not here: the reads and sends
//! of open slots (`transfer`).

use std::collections::BTreeMap;
use std::os::fd::RawFd;

use dataplane::port::{FileSlot, SocketSlot};
use units::limits;

use crate::contents::SimFile;
use crate::laws::{Judgement, Law};

/// All handles of a run.
#[derive(Debug)]
pub(crate) struct Handles {
    files: Slots<SimFile>,
    sockets: Slots<u64>,
    file_of_fd: BTreeMap<RawFd, SimFile>,
    stream_of_fd: BTreeMap<RawFd, u64>,
}

impl Handles {
    pub(crate) fn new() -> Self {
        Self {
            files: Slots::new(limits::FILES_MAX),
            sockets: Slots::new(limits::STREAMS_MAX),
            file_of_fd: BTreeMap::new(),
            stream_of_fd: BTreeMap::new(),
        }
    }

    /// The plane is given a file.
    pub(crate) fn give_file(&mut self, fd: RawFd, file: SimFile) {
        self.file_of_fd.insert(fd, file);
    }

    /// The plane is given the socket of a stream.
    pub(crate) fn give_socket(&mut self, fd: RawFd, stream: u64) {
        self.stream_of_fd.insert(fd, stream);
    }

    /// The plane gave the socket of a stream back.
    pub(crate) fn socket_returned(&mut self, fd: RawFd, stream: u64) -> Judgement {
        self.stream_of_fd.remove(&fd);
        match self.slot_of(stream) {
            None => Ok(()),
            Some(slot) => Err((Law::OncePerRequest, format!("stream {stream} comes back with its socket in {slot:?}"))),
        }
    }

    pub(crate) fn open_file(&mut self, slot: FileSlot, fd: RawFd) -> (Option<SimFile>, Judgement) {
        let file = self.file_of_fd.get(&fd).copied();
        (file, self.files.open(slot.0, file).map_err(|(law, how)| (law, format!("{slot:?} {how}"))))
    }

    /// The slot is closed; its file `is_read`.
    pub(crate) fn close_file(&mut self, slot: FileSlot, is_read: bool) -> Judgement {
        self.files.close(slot.0, is_read).map_err(|(law, how)| (law, format!("{slot:?} {how}")))
    }

    pub(crate) fn open_socket(&mut self, slot: SocketSlot, fd: RawFd) -> (Option<u64>, Judgement) {
        let stream = self.stream_of_fd.get(&fd).copied();
        (stream, self.sockets.open(slot.0, stream).map_err(|(law, how)| (law, format!("{slot:?} {how}"))))
    }

    /// The slot is closed; its socket `is_sent_to`.
    pub(crate) fn close_socket(&mut self, slot: SocketSlot, is_sent_to: bool) -> Judgement {
        self.sockets.close(slot.0, is_sent_to).map_err(|(law, how)| (law, format!("{slot:?} {how}")))
    }

    /// The file in a slot, if the plane opened it.
    pub(crate) fn file_at(&self, slot: FileSlot) -> Option<SimFile> {
        self.files.find(slot.0)
    }

    /// The stream with the socket in a slot, if the plane opened it.
    pub(crate) fn stream_at(&self, slot: SocketSlot) -> Option<u64> {
        self.sockets.find(slot.0)
    }

    /// The slot with the socket of a stream.
    pub(crate) fn slot_of(&self, stream: u64) -> Option<SocketSlot> {
        let place = self.sockets.open.iter().position(|open| *open == Some(stream))?;
        Some(SocketSlot(u32::try_from(place).expect("few sockets")))
    }
}

/// Slots of one kind.
#[derive(Debug)]
struct Slots<T> {
    open: Vec<Option<T>>,
    most: usize,
}

impl<T: Copy> Slots<T> {
    fn new(most: usize) -> Self {
        Self { open: Vec::new(), most }
    }

    fn open(&mut self, place: u32, what: Option<T>) -> Result<(), (Law, &'static str)> {
        let place = usize::try_from(place).expect("32 bits");
        if what.is_none() || place >= self.most {
            return Err((Law::QueueBounds, "is no place, or for a descriptor that the plane does not have"));
        }
        if self.open.len() <= place {
            self.open.resize(place + 1, None);
        }
        match std::mem::replace(&mut self.open[place], what) {
            None => Ok(()),
            Some(_) => Err((Law::OncePerRequest, "is in use")),
        }
    }

    fn close(&mut self, place: u32, is_in_use: bool) -> Result<(), (Law, &'static str)> {
        let open = self.open.get_mut(usize::try_from(place).expect("32 bits"));
        match open.and_then(Option::take) {
            None => Err((Law::OncePerRequest, "was not open")),
            Some(_) if is_in_use => Err((Law::OncePerRequest, "is closed while it is read or sent to")),
            Some(_) => Ok(()),
        }
    }

    fn find(&self, place: u32) -> Option<T> {
        self.open.get(usize::try_from(place).ok()?).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use units::DiskId;

    use super::*;

    #[test]
    fn a_slot_is_opened_once_and_closed_once() {
        let mut handles = Handles::new();
        handles.give_file(5, SimFile { content: 1, disk: DiskId(0) });
        handles.give_socket(6, 77);
        let law = |found: Judgement| found.err().map(|(law, _)| law);
        assert_eq!(law(handles.open_file(FileSlot(0), 6).1), Some(Law::QueueBounds), "that is a socket");
        assert_eq!(handles.open_socket(SocketSlot(3), 6), (Some(77), Ok(())));
        assert_eq!(law(handles.open_socket(SocketSlot(3), 6).1), Some(Law::OncePerRequest));
        assert_eq!((handles.stream_at(SocketSlot(3)), handles.slot_of(77)), (Some(77), Some(SocketSlot(3))));
        assert_eq!(law(handles.socket_returned(6, 77)), Some(Law::OncePerRequest), "it is open");
        assert_eq!(law(handles.close_socket(SocketSlot(3), true)), Some(Law::OncePerRequest), "it is sent to");
        assert_eq!(law(handles.close_socket(SocketSlot(3), false)), Some(Law::OncePerRequest), "it was closed");
        assert_eq!(handles.open_socket(SocketSlot(3), 6).0, None, "it came back");
        assert_eq!(handles.open_file(FileSlot(9), 5).1, Ok(()));
        assert_eq!(handles.close_file(FileSlot(9), false), Ok(()));
        assert_eq!(handles.file_at(FileSlot(9)), None);
    }
}
