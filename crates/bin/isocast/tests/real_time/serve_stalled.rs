//! Clients that never read, next to good ones: the good ones are unaffected, and the stalled ones lose their reservations.

use crate::common::client::{Client, pattern};
use crate::common::server::Setup;

const STALLED: usize = 200;
const GOOD: usize = 20;

#[test]
fn two_hundred_stalled_clients_disturb_no_stream() {
    // In memory, so that it is not this machine's disk that decides how many are admitted.
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    let server = Setup::default().root(folder.path()).set("plane.memory=512MiB").set("streams.stall=6s").start();
    let film = pattern(1_500_000);
    server.file("film.ts", &film);
    server.file("long.ts", &pattern(8_000_000));
    let stalled: Vec<Client> = (0..STALLED)
        .map(|_| {
            let mut client = server.connect();
            client.get("/media/long.ts?rate=1M");
            client
        })
        .collect();
    server.wait_for("the stalled", |server| server.metric("isocast_streams_started_total") >= 200.0);
    let address = server.address;
    let good: Vec<_> = (0..GOOD)
        .map(|_| {
            std::thread::spawn(move || {
                let mut client = Client::to(address);
                client.get("/media/film.ts?rate=4M");
                client.answer(true)
            })
        })
        .collect();
    for client in good {
        let answer = client.join().expect("a good client");
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert!(answer.body == film, "every byte");
    }
    // They get only the bytes that the kernel's buffers took; then the configured seconds pass.
    server.wait_for("the end of the stalled", |server| {
        server.events().lines().filter(|line| line.contains("ClientStalled")).count() == STALLED
    });
    server.wait_for("their room", |server| server.metric("isocast_promised_bytes_per_second") == 0.0);
    server.wait_for("an empty listing", |server| server.json("/api/v1/streams").as_array().map(Vec::len) == Some(0));
    drop(stalled);
}
