//! FTP: rights, rates, quotas, bounds, and the access log.

use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;

use crate::common::client::pattern;
use crate::common::server::Setup;
use crate::ftp::{Ftp, address, with_ftp};
use crate::serve_accounts::isocast;
use tempfile::TempDir;

#[test]
fn accounts_have_their_rights_by_folder() {
    let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let (root, state) = (folder.path().join("root"), folder.path().join("state"));
    fs::create_dir_all(root.join("cams")).expect("a folder");
    fs::create_dir_all(root.join("films")).expect("a folder");
    fs::write(root.join("films/a.ts"), b"film").expect("room");
    isocast(&state, &["user", "add", "cam", "--password-stdin"], "secret\n");
    isocast(&state, &["user", "grant", "cam", "write", "cams"], "");
    let events = format!("log.events={}", folder.path().join("events.jsonl").display());
    let setup =
        Setup::on(&[&root], &state, &[]).set("access.anonymous=none").set("ftp.listen=127.0.0.1:0").set(&events);
    let server = setup.start();
    let log_in = |name: &str, password: &str| {
        let mut ftp = Ftp::connect(address(&server, "ftp"));
        assert_eq!((ftp.reply().0, ftp.ask(&format!("USER {name}")).0), (220, 331));
        let code = ftp.ask(&format!("PASS {password}")).0;
        (ftp, code)
    };
    assert_eq!((log_in("anonymous", "x").1, log_in("cam", "wrong").1), (530, 530));
    let token = isocast(&state, &["token", "add", "cam", "--rights", "write", "--folder", "cams"], "");
    for password in ["secret", token.as_str()] {
        let (mut ftp, code) = log_in("cam", password);
        assert_eq!(code, 230);
        // As a camera does: it may store there, and do nothing else.
        assert_eq!((ftp.ask("TYPE I").0, ftp.ask("CWD cams").0, ftp.store("STOR shot.jpg", b"jpg").0), (200, 250, 226));
        assert_eq!(ftp.store("STOR ../films/b.ts", b"x").0, 550);
        assert_eq!(ftp.store("RETR /films/a.ts", b"").0, 550);
        assert_eq!((ftp.ask("DELE shot.jpg").0, ftp.ask("CWD /films").0, ftp.ask("SIZE shot.jpg").0), (550, 550, 550));
    }
    assert_eq!(fs::read(root.join("cams/shot.jpg")).expect("stored"), b"jpg");
    let (mut ftp, _) = log_in("cam", "a");
    assert_eq!(
        (ftp.ask("USER cam").0, ftp.ask("PASS b").0, ftp.ask("USER cam").0, ftp.ask("PASS c").0),
        (331, 530, 331, 530)
    );
    assert_eq!(ftp.ask("NOOP").0, 0, "closed after three");
    server.wait_for("the event", |_| {
        let events = fs::read_to_string(folder.path().join("events.jsonl")).expect("events");
        events.lines().any(|line| line.contains("\"event\":\"access_refused\"") && line.contains("\"method\":\"STOR\""))
    });
}

#[test]
fn downloads_have_the_rate_that_site_rate_or_the_folder_names() {
    let server = with_ftp().config("[path_rates]\n\"slow/\" = \"8M\"\n").start();
    server.file("slow/a", &pattern(3_000_000));
    server.file("b", &pattern(3_000_000));
    let mut ftp = Ftp::anonymous(&server);
    let rates = |ftp: &mut Ftp, command: &str| {
        let data = ftp.data();
        assert_eq!(ftp.ask(command).0, 150);
        let mut rate = None;
        server.wait_for("a stream", |server| {
            let streams = server.json("/api/v1/streams");
            let all = streams.as_array().expect("a list");
            rate = all.first().map(|stream| stream["rate_bps"].as_u64());
            rate.is_some()
        });
        drop(data);
        assert!(matches!(ftp.reply().0, 226 | 426));
        server.wait_for("its end", |server| server.json("/api/v1/streams").as_array().is_some_and(Vec::is_empty));
        rate.flatten()
    };
    assert_eq!(ftp.ask("SITE RATE 4M").0, 200);
    assert_eq!(rates(&mut ftp, "RETR b"), Some(4_000_000));
    assert_eq!(ftp.ask("SITE RATE OFF").0, 200);
    assert_eq!(rates(&mut ftp, "RETR slow/a"), Some(8_000_000));
    assert_eq!(ftp.ask("SITE RATE 900G").0, 200);
    let (code, text) = ftp.store("RETR b", b"");
    assert!(code == 450 && text.contains("would be granted"), "{text}");
}

#[test]
fn a_full_quota_is_552_and_leaves_nothing() {
    let server = with_ftp().config("[[quota]]\nfolder = \"kept\"\nmax_size = \"1MiB\"\n").start();
    server.file("kept/a", b"x");
    let mut ftp = Ftp::anonymous(&server);
    let (code, text) = ftp.store("STOR kept/b", &pattern(2 << 20));
    assert!(code == 552 && text.contains("the quota of `kept`"), "{text}");
    assert_eq!(ftp.ask("NOOP").0, 200);
    server.wait_for("the removal of what came of it", |server| {
        fs::read_dir(server.root.join("kept")).expect("a folder").count() == 1
    });
}

#[test]
fn idle_connections_are_bounded_and_other_clients_are_served() {
    let server = with_ftp().set("limits.connections=1000").start();
    let at = address(&server, "ftp");
    let mut idle: Vec<Ftp> = (0..1000).map(|_| Ftp::connect(at)).collect();
    let refused = idle.iter_mut().map(Ftp::reply).filter(|(code, _)| *code != 220).collect::<Vec<_>>();
    assert!(refused.len() >= 500 && refused.iter().all(|(code, _)| *code == 421), "{refused:?}");
    let mut other = crate::common::client::Client::from_to("127.0.0.9", at);
    assert!(other.more() && other.buffer.starts_with(b"220 "), "{:?}", other.buffer);
    drop(idle);
    server.wait_for("places", |_| Ftp::connect(at).reply().0 == 220);
}

#[test]
fn commands_are_counted_and_in_the_access_log() {
    let folder = TempDir::new().expect("a folder");
    let log = folder.path().join("access.log");
    let server = with_ftp().set(&format!("log.access={}", log.display())).start();
    let mut ftp = Ftp::anonymous(&server);
    assert_eq!((ftp.ask("MKD a b").0, ftp.ask("CWD a b").0), (257, 250));
    assert_eq!(ftp.store("STOR c\".ts", &pattern(300_000)).0, 226);
    assert_eq!(ftp.ask("REST 100000").0, 350);
    assert_eq!(ftp.fetch("RETR c\".ts").len(), 200_000);
    assert_eq!((ftp.ask("SIZE none").0, ftp.ask("SIZE x/../../..//none").0, ftp.ask("NOOP").0), (550, 550, 200));
    // One is aborted, and of one the control connection ends.
    let mut data = ftp.data();
    assert_eq!(ftp.ask("STOR d").0, 150);
    data.write_all(&[0; 1000]).expect("the server reads");
    server.wait_for("its bytes", |server| server.metric("isocast_upload_bytes_total") >= 301_000.0);
    assert_eq!((ftp.ask("ABOR").0, ftp.reply().0), (426, 226));
    let mut data = ftp.data();
    assert_eq!(ftp.ask("STOR e").0, 150);
    ftp.lines.get_ref().shutdown(Shutdown::Both).expect("a socket");
    assert!(matches!(data.read(&mut [0]), Ok(0) | Err(_)), "the server closes it");
    let expected = [
        "\"USER anonymous FTP\" 230 0 \"-\" \"-\"",
        "\"MKD /a b FTP\" 257 0",
        "\"CWD /a b FTP\" 250 0",
        "\"STOR /a b/c\\\".ts FTP\" 226 300000",
        "\"RETR /a b/c\\\".ts FTP\" 226 200000",
        "\"SIZE /a b/none FTP\" 550 0",
        "\"SIZE /none FTP\" 550 0",
        "\"STOR /a b/d FTP\" 426 1000",
        "\"STOR /a b/e FTP\" 426 0",
    ];
    let lines = || fs::read_to_string(&log).expect("a log").lines().map(str::to_owned).collect::<Vec<_>>();
    let of_ftp = || lines().into_iter().filter(|line| line.contains(" FTP\" ")).collect::<Vec<_>>();
    server.wait_for("all lines", |_| of_ftp().len() == expected.len());
    for (line, expected) in of_ftp().iter().zip(expected) {
        assert!(line.starts_with("127.0.0.1 - - [") && line.contains(expected), "{line}: {expected}");
    }
    let count = |class: u8| server.metric(&format!("isocast_ftp_commands_total{{status=\"{class}xx\"}}"));
    assert_eq!([1, 2, 3, 4, 5].map(count), [0.0, 5.0, 0.0, 2.0, 2.0]);
}

#[test]
fn passive_ports_lie_in_their_range_at_the_address_that_clients_know() {
    // Below the ports that the system gives to clients.
    let server = with_ftp().set("ftp.passive_ports=21210-21211").set("ftp.passive_address=192.0.2.7").start();
    let mut ftp = Ftp::anonymous(&server);
    for _ in 0..4 {
        let (code, text) = ftp.ask("PASV");
        assert!(code == 227 && text.contains("(192,0,2,7,82,21"), "{text}");
    }
    // No port of the range is free for a third client.
    let mut second = Ftp::anonymous(&server);
    let mut third = Ftp::anonymous(&server);
    let all = [second.ask("EPSV").0, third.ask("EPSV").0];
    assert_eq!((all, ftp.ask("PASV").0), ([229, 425], 227), "its own port is free for it");
    drop(second);
    server.wait_for("a port", |_| third.ask("EPSV").0 == 229);
}
