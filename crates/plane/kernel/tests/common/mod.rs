//! Parts that the tests of this crate share: an `Io` with its links, files with a known content, connections.

#![allow(dead_code, reason = "each test binary uses its part")]

#[path = "../../../../bin/isocast/tests/common/skip.rs"]
pub(crate) mod skip;

use std::cell::Cell;
use std::fs::File;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;

use channel::{PlaneHandle, ReportReceiver, StorePort, connect};
use content::layout::{ContentLayout, FileAccess};
use content::{Content, Segment};
use dataplane::control::{Delivery, DeliveryDestination, Service};
use dataplane::port::{COMPLETIONS_MAX, Completion, Io, SendRequest, Sharing, SocketSlot, Span, Token};
use kernel::permissions::Permissions;
use kernel::{EngineChoice, IoConfig, KernelIo};
use units::{BitRate, ContentVersion, DiskId, LinkId, Nanos, StreamId, limits};

pub(crate) const CHUNK: u64 = limits::CHUNK_BYTES;

thread_local! {
    static ENGINE: Cell<EngineChoice> = const { Cell::new(EngineChoice::Auto) };
}

/// The engine that the test of this thread is about.
pub(crate) fn engine() -> EngineChoice {
    ENGINE.get()
}

pub(crate) fn with_engine<T>(choice: EngineChoice, test: impl FnOnce() -> T) -> T {
    ENGINE.set(choice);
    test()
}

/// Declares tests that run on both engines.
#[allow(unused_macros, reason = "each test binary uses its part")]
macro_rules! on_both_engines {
    ($($test:ident),* $(,)?) => {
        mod on_io_uring {
            $(#[test]
            fn $test() {
                crate::common::with_engine(kernel::EngineChoice::IoUring, super::$test);
            })*
        }
        mod on_system_calls {
            $(#[test]
            fn $test() {
                crate::common::with_engine(kernel::EngineChoice::Threads, super::$test);
            })*
        }
    };
}
#[allow(unused_imports, reason = "each test binary uses its part")]
pub(crate) use on_both_engines;

/// An `Io` of the calling thread and the other ends of its links.
pub(crate) struct Bench {
    pub(crate) io: KernelIo,
    pub(crate) permissions: Permissions,
    pub(crate) handle: PlaneHandle,
    pub(crate) reports: ReportReceiver,
    pub(crate) stores: Vec<StorePort>,
}

impl Bench {
    pub(crate) fn new(chunk_count: u32) -> Self {
        let links = connect(1).unwrap();
        let config = IoConfig { chunk_count, engine: engine(), readers: 2, helper_cpus: None };
        let (io, permissions) = KernelIo::new(&config, links.plane).unwrap();
        Self { io, permissions, handle: links.handle, reports: links.reports, stores: links.stores }
    }

    /// Waits for `count` completions. A minute without any is a failure, not a slow machine.
    pub(crate) fn completions(&mut self, count: usize) -> Vec<Completion> {
        let mut all = Vec::with_capacity(count.max(COMPLETIONS_MAX));
        while all.len() < count {
            let before = all.len();
            let patience = self.io.now().saturating_add(Nanos::from_secs(60));
            let mut some = Vec::with_capacity(COMPLETIONS_MAX);
            self.io.wait(patience, &mut some);
            all.append(&mut some);
            assert!(all.len() > before || self.io.now() < patience, "nothing completed; {before} of {count} had");
        }
        assert_eq!(all.len(), count);
        all
    }

    /// Hands over the queued requests; returns the completion if there is one at once (an inline send completes at once).
    pub(crate) fn try_completion(&mut self) -> Option<Completion> {
        let mut some = Vec::with_capacity(1);
        // Twice: the first may only bring a wake-up.
        for _ in 0..2 {
            let now = self.io.now();
            if some.is_empty() {
                self.io.wait(now, &mut some);
            }
        }
        some.pop()
    }

    pub(crate) fn assert_quiet(&mut self) {
        assert_eq!(self.try_completion(), None);
    }

    /// Takes in wake-ups left from the start.
    pub(crate) fn settle(&mut self) {
        self.assert_quiet();
    }

    pub(crate) fn send(&mut self, socket: SocketSlot, token: Token, length: u32) {
        self.io.send(SendRequest {
            token,
            socket,
            memory: Span { offset: 0, length },
            then: None,
            sharing: Sharing::Single,
            is_awaited: true,
        });
    }

    pub(crate) fn fill_chunk(&mut self, chunk: u64) {
        for part in 0..CHUNK / 2048 {
            let offset = chunk * CHUNK + part * 2048;
            self.io.fill(Span { offset, length: 2048 }, &pattern(offset, 2048));
        }
    }

    pub(crate) fn arena(&self, offset: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.io.copy_out(Span { offset, length: u32::try_from(length).unwrap() }, &mut bytes);
        bytes
    }
}

/// The content of the test files from `offset` on.
pub(crate) fn pattern(offset: u64, length: usize) -> Vec<u8> {
    let byte = |at: u64| u8::try_from((at ^ (at >> 8) ^ (at >> 20)) % 251).unwrap();
    (offset..).take(length).map(byte).collect()
}

/// A file of the pattern in the build directory, opened for direct I/O if the file system can (then true).
pub(crate) fn direct_file(bytes: u64) -> (OwnedFd, bool) {
    let mut file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    file.write_all(&pattern(0, usize::try_from(bytes).unwrap())).unwrap();
    file.as_file().sync_all().unwrap();
    let open = |flags| File::options().read(true).custom_flags(flags).open(file.path());
    match open(libc::O_DIRECT) {
        Ok(direct) => (direct.into(), true),
        Err(_) => (open(0).unwrap().into(), false),
    }
}

/// The same for tests of direct I/O; none, with a message, where the build directory has none (tmpfs before Linux 6.6,
/// some containers' file systems).
pub(crate) fn only_direct_file(bytes: u64) -> Option<OwnedFd> {
    let (file, direct) = direct_file(bytes);
    if !direct {
        skip::skipped("the build directory lies on a file system without direct I/O");
    }
    direct.then_some(file)
}

/// A file of the pattern in memory or page cache.
pub(crate) fn buffered_file(bytes: u64) -> File {
    let mut file = tempfile::tempfile_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    file.write_all(&pattern(0, usize::try_from(bytes).unwrap())).unwrap();
    file
}

/// A loopback connection: the server's end, non-blocking as the control plane makes it, and the client's.
pub(crate) fn connection() -> (OwnedFd, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    server.set_nonblocking(true).unwrap();
    socket2::SockRef::from(&server).set_send_buffer_size(256 * 1024).unwrap();
    (server.into(), client)
}

/// The head of every test response.
pub(crate) const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: ...\r\n\r\n";

/// A delivery of a range (offset, length) of a file, at 80 Mbit/s with 1 MiB ahead.
pub(crate) fn delivery(
    stream: u64,
    socket: OwnedFd,
    file: OwnedFd,
    access: FileAccess,
    size: u64,
    range: (u64, u64),
) -> Box<Delivery> {
    let watched = kernel::version_check::watch(file.as_fd()).unwrap();
    let version = ContentVersion(stream);
    let layout = ContentLayout::of_file(DiskId(0), file, access, size, Box::default());
    let content = Content { version, size, layout, watched: Some(watched), checksums: None };
    Box::new(Delivery {
        stream: StreamId(stream),
        destination: DeliveryDestination::Socket(socket),
        link: LinkId(0),
        segments: Arc::new([Segment::Bytes(HEAD.into()), Segment::Range { offset: range.0, length: range.1 }]),
        content: Arc::new(content),
        service: Service::Constant { rate: BitRate(80_000_000), burst_bytes: 1 << 20, held: None, hold: false },
        waited: Nanos::ZERO,
    })
}
