//! The port: the plane's calls become events of the world.

use std::cell::RefCell;
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;

use content::Content;
use content::layout::FileAccess;
use dataplane::control::{Command, Report};
use dataplane::outlet::Outlet;
use dataplane::port::{Completion, FileSlot, Io, MemoryChange, ReadRequest, SendRequest, SocketSlot, Span, Token};
use storage::grant::{Grant, StoreMessage};
use units::Nanos;

use crate::world::World;

/// The plane's end of a simulated world. The runner keeps the other.
#[derive(Debug)]
pub struct SimIo(pub(crate) Rc<RefCell<World>>);

impl Io for SimIo {
    fn now(&mut self) -> Nanos {
        self.0.borrow().course.now()
    }

    fn processor_time(&mut self) -> Nanos {
        self.0.borrow().thread.processor()
    }

    fn chunk_count(&self) -> u32 {
        self.0.borrow().transfers.chunks()
    }

    fn change_memory(&mut self, token: Token, change: MemoryChange) {
        let world = &mut *self.0.borrow_mut();
        world.thread.calls();
        world.transfers.begin_memory_change(token, change, &mut world.course);
    }

    fn open_file(&mut self, slot: FileSlot, file: &OwnedFd, _access: FileAccess) {
        let world = &mut *self.0.borrow_mut();
        world.transfers.open_file(slot, file.as_raw_fd(), &mut world.course);
    }

    fn close_file(&mut self, slot: FileSlot) {
        let world = &mut *self.0.borrow_mut();
        world.transfers.close_file(slot, &mut world.course);
    }

    fn open_socket(&mut self, slot: SocketSlot, socket: &OwnedFd) {
        let world = &mut *self.0.borrow_mut();
        world.transfers.open_socket(slot, socket.as_raw_fd(), &mut world.course);
    }

    fn open_outlet(&mut self, slot: SocketSlot, _: &Arc<Outlet>) {
        unreachable!("{slot:?}: simulated deliveries go to sockets");
    }

    fn close_socket(&mut self, slot: SocketSlot) {
        let world = &mut *self.0.borrow_mut();
        world.transfers.close_socket(slot, &mut world.ledger, &mut world.course);
    }

    fn fill(&mut self, memory: Span, bytes: &[u8]) {
        let world = &mut *self.0.borrow_mut();
        world.transfers.fill(memory, bytes, &mut world.course);
    }

    fn read(&mut self, request: ReadRequest) {
        self.0.borrow_mut().transfers.queue_read(request);
    }

    fn verify(&mut self, token: Token, content: &Arc<Content>, offset: u64, memory: Span) {
        let world = &mut *self.0.borrow_mut();
        world.transfers.begin_look(token, content, offset, memory, &mut world.course);
    }

    fn send(&mut self, request: SendRequest) {
        self.0.borrow_mut().transfers.queue_send(request);
    }

    fn await_room(&mut self, token: Token, socket: SocketSlot) {
        let world = &mut *self.0.borrow_mut();
        world.transfers.begin_waiting(token, socket, &mut world.ledger, &mut world.course);
    }

    fn cancel_send(&mut self, token: Token, _: SocketSlot) {
        let world = &mut *self.0.borrow_mut();
        world.transfers.cancel(token, &mut world.ledger, &mut world.course);
    }

    fn grant(&mut self, grant: Grant) {
        self.0.borrow_mut().granted(grant);
    }

    fn store_message(&mut self) -> Option<StoreMessage> {
        self.0.borrow_mut().channel.take_store_message()
    }

    fn command(&mut self) -> Option<Command> {
        let world = &mut *self.0.borrow_mut();
        world.channel.take_command(&mut world.course)
    }

    fn report(&mut self, report: Report) -> Result<(), Report> {
        let world = &mut *self.0.borrow_mut();
        world.channel.report(report, &mut world.course)?;
        world.thread.calls();
        Ok(())
    }

    fn wait(&mut self, until: Nanos, completions: &mut Vec<Completion>) {
        self.0.borrow_mut().wait(until, completions);
    }
}
