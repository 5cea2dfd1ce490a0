//! The memory of connections: one budget for the bytes that all of them hold, and the buffer that each one reads into.
//!
//! Promise: a connection has [`FREE_BYTES`] of its own; all bytes beyond that (a long head, a body on its way, a reply that its client
//! does not read) count against the budget while the connection holds them. A connection that waits for its client holds no buffer.
//! Not here: how many connections there are (`connection_limit`).

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::client_stream::ClientStream;

/// Bytes a connection may hold outside the budget: the number of connections bounds them.
pub(crate) const FREE_BYTES: usize = 4 * 1024;
/// Most bytes in a buffer: a head of the greatest length, and more of a body than the network brings at once.
pub(crate) const BUFFER_BYTES_MAX: usize = 64 * 1024;
/// Read and dropped at once.
const DROPPED_BYTES: usize = 16 * 1024;

const _: () = assert!(BUFFER_BYTES_MAX > crate::message::head::HEAD_BYTES_MAX);

/// Budget of all connections together, beyond the bytes that each has of its own.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionMemory(Arc<Semaphore>);

/// Memory of a connection. It is given back when this is dropped.
#[derive(Debug)]
pub(crate) struct HeldMemory(#[allow(dead_code, reason = "it is given back when it is dropped")] OwnedSemaphorePermit);

impl ConnectionMemory {
    pub(crate) fn new(bytes: usize) -> Self {
        Self(Arc::new(Semaphore::new(bytes)))
    }

    /// Room for `bytes`, if there is: as few as each connection has of its own are not counted.
    pub(crate) fn reserve(&self, bytes: usize) -> Option<HeldMemory> {
        let counted = if bytes <= FREE_BYTES { 0 } else { u32::try_from(bytes).ok()? };
        Arc::clone(&self.0).try_acquire_many_owned(counted).ok().map(HeldMemory)
    }
}

/// Bytes that a connection has received and no reader has taken yet.
#[derive(Debug)]
pub(crate) struct ConnectionBuffer {
    pub(crate) bytes: BytesMut,
    memory: ConnectionMemory,
    /// Share of the budget for the bytes beyond [`FREE_BYTES`].
    held: Option<HeldMemory>,
    /// The last read brought as many bytes as a connection has of its own, or all there was room for: the next one brings more at once.
    flows: bool,
}

impl ConnectionBuffer {
    pub(crate) fn new(memory: ConnectionMemory) -> Self {
        Self { bytes: BytesMut::new(), memory, held: None, flows: false }
    }

    /// Reads more, once some is there; zero at the end of the connection. Room is made when bytes are there, as much as the budget allows
    /// where they flow.
    ///
    /// # Errors
    /// The connection's; [`io::ErrorKind::OutOfMemory`] if the budget is used up and the bytes here cannot be taken without more.
    pub(crate) async fn read_from(&mut self, stream: &mut ClientStream) -> io::Result<usize> {
        poll_fn(|context| self.poll_read(stream, context)).await
    }

    fn poll_read(&mut self, stream: &mut ClientStream, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.make_room()?;
        let room = self.bytes.capacity() - self.bytes.len();
        let polled = pin!(stream.read_buf(&mut self.bytes)).poll(context);
        match &polled {
            Poll::Ready(read) => self.flows = matches!(read, Ok(bytes) if *bytes >= room.min(FREE_BYTES)),
            Poll::Pending => self.let_go(),
        }
        polled
    }

    /// Gives back the memory of a buffer that is empty.
    pub(crate) fn let_go(&mut self) {
        if self.bytes.is_empty() {
            *self = Self { flows: self.flows, ..Self::new(self.memory.clone()) };
        }
    }

    fn make_room(&mut self) -> io::Result<()> {
        if self.held.is_none() && (self.flows || self.bytes.len() >= FREE_BYTES) {
            self.held = self.memory.reserve(BUFFER_BYTES_MAX);
        }
        let most = if self.held.is_some() { BUFFER_BYTES_MAX } else { FREE_BYTES };
        match most.checked_sub(self.bytes.len()) {
            None | Some(0) => Err(io::ErrorKind::OutOfMemory.into()),
            Some(more) => {
                // Not for a few bytes: the rest of the room may be small.
                if self.bytes.capacity() - self.bytes.len() < more.min(FREE_BYTES / 2) {
                    self.bytes.reserve(more);
                }
                Ok(())
            }
        }
    }
}

/// Reads the bytes that are there and drops them; zero at the end of the connection. Between two calls it holds no memory.
pub(crate) async fn drop_some(stream: &mut ClientStream) -> io::Result<usize> {
    poll_fn(|context| {
        let mut scratch = [0; DROPPED_BYTES];
        let mut sink = ReadBuf::new(&mut scratch);
        ready!(pin!(&mut *stream).poll_read(context, &mut sink))?;
        Poll::Ready(Ok(sink.filled().len()))
    })
    .await
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    async fn pair() -> (TcpStream, ClientStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let client = TcpStream::connect(listener.local_addr().expect("an address")).await.expect("connected");
        (client, listener.accept().await.expect("accepted").0.into())
    }

    fn left(memory: &ConnectionMemory) -> usize {
        memory.0.available_permits()
    }

    #[tokio::test]
    async fn a_connection_that_waits_holds_nothing_and_one_that_flows_holds_a_whole_buffer() {
        let (mut client, mut server) = pair().await;
        let memory = ConnectionMemory::new(BUFFER_BYTES_MAX);
        let mut buffer = ConnectionBuffer::new(memory.clone());
        {
            let mut waits = pin!(buffer.read_from(&mut server));
            assert!(poll_fn(|context| Poll::Ready(waits.as_mut().poll(context).is_pending())).await);
        }
        assert_eq!(buffer.bytes.capacity(), 0);
        client.write_all(&[7; 3 * FREE_BYTES]).await.expect("sent");
        let mut came = 0;
        while came < 3 * FREE_BYTES {
            let more = buffer.read_from(&mut server).await.expect("read");
            assert!(more > 0 && buffer.bytes.len() == more);
            came += more;
            buffer.bytes.clear();
        }
        assert_eq!(left(&memory), 0, "the second read was of a buffer that the budget pays for");
        let mut waits = pin!(buffer.read_from(&mut server));
        assert!(poll_fn(|context| Poll::Ready(waits.as_mut().poll(context).is_pending())).await);
        assert_eq!(left(&memory), BUFFER_BYTES_MAX);
        client.write_all(&[7; 4 * FREE_BYTES]).await.expect("sent");
        assert!(waits.await.expect("read") > FREE_BYTES, "a piece of a body that flows is one read");
    }

    #[tokio::test]
    async fn bytes_without_budget_pass_in_small_pieces_or_are_refused() {
        let (mut client, mut server) = pair().await;
        let memory = ConnectionMemory::new(BUFFER_BYTES_MAX - 1);
        let mut buffer = ConnectionBuffer::new(memory.clone());
        client.write_all(&[7; 4 * FREE_BYTES]).await.expect("sent");
        assert_eq!(buffer.read_from(&mut server).await.expect("read"), FREE_BYTES);
        let error = buffer.read_from(&mut server).await.expect_err("it is full");
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
        buffer.bytes.clear();
        assert_eq!(buffer.read_from(&mut server).await.expect("read"), FREE_BYTES);
        assert!(memory.reserve(BUFFER_BYTES_MAX).is_none() && memory.reserve(FREE_BYTES).is_some());
    }

    #[tokio::test]
    async fn bytes_are_dropped_up_to_the_end() {
        let (mut client, mut server) = pair().await;
        client.write_all(&[7; 2 * DROPPED_BYTES]).await.expect("sent");
        drop(client);
        let mut dropped = 0;
        loop {
            match drop_some(&mut server).await.expect("read") {
                0 => break,
                more => dropped += more,
            }
        }
        assert_eq!(dropped, 2 * DROPPED_BYTES);
    }
}
