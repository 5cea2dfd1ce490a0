//! Systems that permit less: few descriptors, no io_uring. A process of its own, since limits are the process's.

mod common;

use std::io;
use std::os::fd::AsFd;
use std::thread;

use channel::connect;
use common::{Bench, CHUNK, pattern};
use content::layout::FileAccess;
use dataplane::port::{FileSlot, Io, ReadRequest, SocketSlot, Span, Token};
use kernel::direct::DirectWriter;
use kernel::permissions::{OPEN_FILES, PermissionSubject, StartError};
use kernel::pool::{LEASE_BYTES, LeasePool};
use kernel::{EngineChoice, IoConfig, KernelIo};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use units::DiskId;

#[test]
fn few_descriptors_are_raised_as_permitted_and_reported() {
    setrlimit(Resource::Nofile, Rlimit { current: Some(200), maximum: Some(400) }).unwrap();
    let mut bench = Bench::new(2);
    let limit = getrlimit(Resource::Nofile).current.unwrap();
    assert!(limit >= 400, "the soft limit was raised to what is permitted at least");
    let said = bench.permissions.of(PermissionSubject::OpenFiles).unwrap();
    // A process that may raise the hard limit (CAP_SYS_RESOURCE) has as many as are wanted all the same.
    assert_eq!(said.granted, limit >= OPEN_FILES, "{}", said.sentence);
    assert!(said.granted || said.sentence.contains(&format!("LimitNOFILE={OPEN_FILES}")), "{}", said.sentence);

    read_and_send(&mut bench);
}

fn read_and_send(bench: &mut Bench) {
    let (file, direct) = common::direct_file(CHUNK);
    let (socket, _peer) = common::connection();
    bench.io.open_file(FileSlot(3), &file, if direct { FileAccess::Direct } else { FileAccess::Buffered });
    bench.io.open_socket(SocketSlot(4), &socket);
    let memory = Span { offset: CHUNK, length: 1 << 20 };
    bench.io.read(ReadRequest { token: Token(1), disk: DiskId(0), file: FileSlot(3), offset: 0, memory });
    bench.send(SocketSlot(4), Token(2), 1000);
    let mut done = bench.completions(2);
    done.sort_by_key(|c| c.token);
    assert_eq!((done[0].result, done[1].result), (Ok(1 << 20), Ok(1000)));
    assert!(bench.arena(CHUNK, 1 << 20) == pattern(0, 1 << 20));
    bench.io.close_socket(SocketSlot(4));
    bench.io.close_file(FileSlot(3));
}

#[test]
fn the_plane_without_io_uring_names_the_remedy() {
    // A filter holds for the thread that installs it and for good.
    let forbidden = || {
        forbid_io_uring().unwrap();
        let config = IoConfig { chunk_count: 1, engine: EngineChoice::IoUring, readers: 1, helper_cpus: None };
        let error = KernelIo::new(&config, connect(0).unwrap().plane).map(drop).unwrap_err();
        assert!(matches!(error, StartError::Ring { .. }));
        assert!(error.to_string().contains("seccomp"), "{error}");

        // By default it runs all the same.
        let mut bench = common::with_engine(EngineChoice::Auto, || Bench::new(2));
        let engine = bench.permissions.of(PermissionSubject::Engine).unwrap();
        assert!(!engine.granted && engine.sentence.contains("seccomp"), "{}", engine.sentence);
        read_and_send(&mut bench);

        let mut writer = DirectWriter::new();
        assert!(!writer.overlaps());
        let mut lease = LeasePool::new(1).unwrap().try_lease().unwrap();
        lease.copy_from_slice(&pattern(0, LEASE_BYTES));
        let file = tempfile::tempfile_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let written = writer.write_run(file.as_fd(), 0, &[&lease], units::limits::PIECE_BYTES_MAX, || true);
        assert_eq!((written.bytes, written.error.map(|e| e.to_string())), (CHUNK, None));
    };
    thread::spawn(forbidden).join().unwrap();
}

/// Installs a seccomp filter for the calling thread that answers `io_uring_setup` with EPERM, as containers do.
fn forbid_io_uring() -> io::Result<()> {
    let statement = |code: u32, k: u32| libc::sock_filter { code: u16::try_from(code).unwrap(), jt: 0, jf: 0, k };
    let setup = u32::try_from(libc::SYS_io_uring_setup).unwrap();
    let filter = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0), // the system call's number
        libc::sock_filter { jf: 1, ..statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, setup) },
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | u32::try_from(libc::EPERM).unwrap()),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: u16::try_from(filter.len()).unwrap(), filter: filter.as_ptr().cast_mut() };
    // SAFETY: PR_SET_NO_NEW_PRIVS takes plain numbers.
    let no_new = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    // SAFETY: the kernel copies the program, which lives through the call.
    let set = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program) };
    if no_new == 0 && set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
