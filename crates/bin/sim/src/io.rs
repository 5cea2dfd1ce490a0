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

use crate::laws::Law;
use crate::log::LogKind;
use crate::world::World;

/// The plane's end of a simulated world. The runner keeps the other.
#[derive(Debug)]
pub struct SimIo(pub(crate) Rc<RefCell<World>>);

impl Io for SimIo {
    fn now(&mut self) -> Nanos {
        self.0.borrow().now
    }

    fn processor_time(&mut self) -> Nanos {
        self.0.borrow().processor
    }

    fn chunk_count(&self) -> u32 {
        self.0.borrow().settings.chunks
    }

    fn change_memory(&mut self, token: Token, change: MemoryChange) {
        self.0.borrow_mut().begin_memory_change(token, change);
    }

    fn open_file(&mut self, slot: FileSlot, file: &OwnedFd, _access: FileAccess) {
        self.0.borrow_mut().open_file(slot, file.as_raw_fd());
    }

    fn close_file(&mut self, slot: FileSlot) {
        self.0.borrow_mut().close_file(slot);
    }

    fn open_socket(&mut self, slot: SocketSlot, socket: &OwnedFd) {
        self.0.borrow_mut().open_socket(slot, socket.as_raw_fd());
    }

    fn open_outlet(&mut self, slot: SocketSlot, _: &Arc<Outlet>) {
        unreachable!("{slot:?}: simulated deliveries go to sockets");
    }

    fn close_socket(&mut self, slot: SocketSlot) {
        self.0.borrow_mut().close_socket(slot);
    }

    fn fill(&mut self, memory: Span, bytes: &[u8]) {
        let world = &mut *self.0.borrow_mut();
        let found = world.arena.fill(memory, bytes).map_err(|e| e.0);
        world.laws.check(Law::OneOwner, world.now, found);
    }

    fn read(&mut self, request: ReadRequest) {
        self.0.borrow_mut().queued_reads.push(request);
    }

    fn verify(&mut self, token: Token, content: &Arc<Content>, offset: u64, memory: Span) {
        self.0.borrow_mut().begin_look(token, content, offset, memory);
    }

    fn send(&mut self, request: SendRequest) {
        self.0.borrow_mut().queued_sends.push(request);
    }

    fn await_room(&mut self, token: Token, socket: SocketSlot) {
        self.0.borrow_mut().begin_waiting(token, socket);
    }

    fn cancel_send(&mut self, token: Token, _: SocketSlot) {
        self.0.borrow_mut().cancel(token);
    }

    fn grant(&mut self, grant: Grant) {
        self.0.borrow_mut().granted(grant);
    }

    fn store_message(&mut self) -> Option<StoreMessage> {
        self.0.borrow_mut().store_messages.pop_front()
    }

    fn command(&mut self) -> Option<Command> {
        let world = &mut *self.0.borrow_mut();
        let command = world.commands.pop_front()?;
        world.log.event(world.now, LogKind::Command, 0, 0, || "taken".to_owned());
        Some(command)
    }

    fn report(&mut self, report: Report) -> Result<(), Report> {
        self.0.borrow_mut().reported(report)
    }

    fn wait(&mut self, until: Nanos, completions: &mut Vec<Completion>) {
        self.0.borrow_mut().wait(until, completions);
    }
}
