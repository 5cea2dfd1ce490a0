//! Sends of the fake data plane, to sockets and to outlets.

use std::io::Write;
use std::net::TcpStream as StdStream;
use std::sync::{Arc, Mutex, mpsc};

use dataplane::control::{Delivery, DeliveryDestination};
use dataplane::outlet::{Outlet, OutletHost};
use dataplane::port::{IoFault, Span, Token};

/// The bytes of a send to an outlet, and how it ends.
#[derive(Debug)]
pub(crate) struct Memory {
    bytes: Mutex<Vec<u8>>,
    ended: mpsc::Sender<Result<u32, IoFault>>,
}

impl OutletHost for Memory {
    fn append(&self, memory: Span, bytes: &mut Vec<u8>) {
        let (from, length) = (usize::try_from(memory.offset).expect("small"), memory.length as usize);
        bytes.extend_from_slice(&self.bytes.lock().expect("lock")[from..from + length]);
    }

    fn done(&self, _: Token, result: Result<u32, IoFault>, _: bool) {
        let _ = self.ended.send(result);
    }
}

/// The destination of a delivery.
pub(crate) enum Sends {
    Socket(StdStream),
    Outlet(Arc<Outlet>, Arc<Memory>, mpsc::Receiver<Result<u32, IoFault>>),
}

impl Sends {
    pub(crate) fn to(delivery: &Delivery) -> Self {
        match &delivery.destination {
            DeliveryDestination::Socket(socket) => {
                let socket = StdStream::from(socket.try_clone().expect("a descriptor"));
                socket.set_nonblocking(false).expect("a socket");
                Self::Socket(socket)
            }
            DeliveryDestination::Outlet(outlet) => {
                let (ended, ends) = mpsc::channel();
                let memory = Arc::new(Memory { bytes: Mutex::default(), ended });
                let host: Arc<dyn OutletHost> = Arc::<Memory>::clone(&memory);
                outlet.attach(&host);
                Self::Outlet(Arc::clone(outlet), memory, ends)
            }
        }
    }

    /// Sends all of `bytes`; false if the client is gone. `posted` reports that they lie in an outlet.
    pub(crate) fn send(&mut self, bytes: &[u8], posted: impl FnOnce()) -> bool {
        match self {
            Self::Socket(socket) => socket.write_all(bytes).is_ok(),
            Self::Outlet(outlet, memory, ends) => {
                *memory.bytes.lock().expect("lock") = bytes.to_vec();
                let memory = Span { offset: 0, length: u32::try_from(bytes.len()).expect("small") };
                if !outlet.post(Token(0), memory, true) {
                    return false;
                }
                posted();
                ends.recv().expect("it completes once").is_ok()
            }
        }
    }
}

impl Drop for Sends {
    fn drop(&mut self) {
        if let Self::Socket(socket) = self {
            socket.set_nonblocking(true).expect("a socket");
        }
    }
}
