//! Processors and priorities of threads, seen from outside while a plane runs. One test: it looks at all threads of its
//! process.

use std::sync::mpsc;

use channel::connect;
use kernel::permissions::PermissionSubject;
use kernel::thread::{ThreadConfig, cpus, start};
use rustix::thread::{Pid, sched_getaffinity};

#[test]
fn the_plane_has_its_cpu_and_priority_and_its_helpers_have_neither() {
    let usable = cpus().unwrap();
    let cpu = *usable.last().unwrap();
    let config = ThreadConfig {
        chunk_count: 2,
        engine: kernel::EngineChoice::Auto,
        cpu: Some(cpu),
        priority: Some(5),
        readers: 3,
    };
    let (release, released) = mpsc::channel::<()>();
    let plane = start(config, connect(0).unwrap().plane, move |_| {
        let _ = released.recv(); // ends when the test lets go
    })
    .unwrap();
    assert!(plane.permissions.of(PermissionSubject::Processor).unwrap().granted, "{}", plane.permissions);
    let real_time = plane.permissions.of(PermissionSubject::RealTime).unwrap().granted;

    let planes = threads("plane");
    assert_eq!(planes.len(), 1);
    // Without the permission it keeps the policy of the tests.
    let ours = policy(rustix::thread::gettid());
    let expected = if real_time { libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK } else { ours };
    assert_eq!(policy(planes[0]), expected);
    let own = sched_getaffinity(Some(planes[0])).unwrap();
    assert!(own.count() == 1 && own.is_set(cpu));

    let helpers = threads("reader-");
    assert_eq!(helpers.len(), 3);
    for helper in helpers {
        assert!([libc::SCHED_OTHER, ours].contains(&policy(helper)), "a helper of policy {}", policy(helper));
        let may_use = sched_getaffinity(Some(helper)).unwrap();
        // With a single CPU there is no other to go to.
        assert!(!may_use.is_set(cpu) || usable.len() == 1);
    }
    drop(release);
    plane.join().unwrap();
}

/// Threads of this process with this prefix of their names.
fn threads(name: &str) -> Vec<Pid> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    tasks
        .filter(|task| std::fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm.starts_with(name)))
        .map(|task| Pid::from_raw(task.file_name().unwrap().to_str().unwrap().parse().unwrap()).unwrap())
        .collect()
}

fn policy(thread: Pid) -> i32 {
    // SAFETY: takes a number, returns a number.
    unsafe { libc::sched_getscheduler(thread.as_raw_pid()) }
}
