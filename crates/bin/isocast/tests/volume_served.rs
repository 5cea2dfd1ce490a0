//! `isocast volume` with the disks of a volume that a server has: each command reaches the server.

use std::fs;
use std::io::{self, BufRead, BufReader, Read as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::common::program;
use crate::common::server::Server;
use crate::common::skip::skipped;
use crate::common::volume::{disks, films, gives_all, joined, run_volume_command, volume};

/// The films as files of a folder.
fn written(folder: &Path) {
    for (name, bytes) in films() {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("there is room");
        fs::write(path, bytes).expect("there is room");
    }
}

fn holds_all(folder: &Path) {
    for (name, bytes) in films() {
        assert!(fs::read(folder.join(&name)).expect("it is there") == bytes, "{name}");
    }
}

#[test]
fn each_command_reaches_the_server_of_the_volume() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let (disks, state) = (disks(folder.path(), 2), folder.path().join("state"));
    volume(&["create", "--name", "films", "--layout", "mirror", "--unit", "1MiB", "--yes"], &disks);
    let (source, out) = (folder.path().join("source"), folder.path().join("out"));
    written(&source);
    fs::create_dir(&out).expect("there is room");
    let path = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let both = joined(&disks);
    let server = Server::on(&[], &state, &["--volume", &both]);
    let done = |arguments: &[&str]| {
        let (code, said) = run_volume_command(&server, arguments);
        assert_eq!(code, Some(0), "{arguments:?}: {said}");
        said
    };
    // Any one of its disks names the volume.
    assert!(done(&["import", "--to", "all", &path(&disks[1]), &path(&source)]).contains("10 contents"));
    let served: Vec<_> = films().into_iter().map(|(name, bytes)| (format!("all/source/{name}"), bytes)).collect();
    gives_all(&server, &served, "what was imported");
    let listed = done(&["ls", &both, "all/source/2"]);
    assert!(listed.contains("2.ts") && listed.contains("1000014") && !listed.contains("3.ts"), "{listed}");
    let status: serde_json::Value = serde_json::from_str(&done(&["status", "--json", &both])).expect("JSON");
    assert!(status["disks"][0]["free_units"].is_u64() && status["unit_bytes"] == 1 << 20, "{status}");
    assert!(status["sound"] == true && status["contents"] == 10 && status["disks"][1]["state"] == "active", "{status}");
    assert!(done(&["status", &both]).contains("mirror"));
    done(&["export", "--to", &path(&out), &both]);
    holds_all(&out.join("all/source"));
    done(&["export", "--to", &path(&out), &both, "all/source/1/1.ts"]);
    let check = Command::new(program()).args(["volume", "check", &both]).output().expect("the program runs");
    let said = String::from_utf8_lossy(&check.stderr);
    assert!(check.status.code() == Some(3) && said.contains("volume scrub"), "not damage: {said}");
    mounts(&server, &both, folder.path());
    server.stop();
    let mut alone = Command::new(program());
    let alone = alone.args(["volume", "status", "--json", &both]).output().expect("the program runs");
    let alone: serde_json::Value = serde_json::from_slice(&alone.stdout).expect("JSON");
    assert_eq!(alone, status, "served or not");
    let mut mount = Command::new(program());
    let alone = mount.args(["volume", "mount", &both]).arg(&out).output().expect("the program runs");
    assert!(String::from_utf8_lossy(&alone.stderr).contains("no server serves"), "{alone:?}");
    // Contents of a folder next to the volume are not taken for the volume's.
    let server = Server::on(&[&source], &state, &["--volume", &both]);
    for command in [&["ls", &both][..], &["import", &both, &path(&source)], &["export", "--to", &path(&out), &both]] {
        let (code, said) = run_volume_command(&server, command);
        assert!(code == Some(1) && said.contains("beside it"), "{command:?}: {said}");
    }
    server.stop();
}

fn mounts(server: &Server, disks: &str, folder: &Path) {
    if rustix::fs::access("/dev/fuse", rustix::fs::Access::WRITE_OK).is_err() {
        return skipped("a mount needs /dev/fuse");
    }
    let at = folder.join("mounted");
    fs::create_dir(&at).expect("there is room");
    let mut mount = Command::new(program());
    mount.args(["volume", "mount", "--url", &format!("http://{}", server.address), disks]).arg(&at);
    let mut mount = mount.stdout(Stdio::piped()).spawn().expect("the program runs");
    let mut line = String::new();
    BufReader::new(mount.stdout.take().expect("a pipe")).read_line(&mut line).expect("it says so");
    assert!(line.contains("is mounted on"), "{line}");
    holds_all(&at.join("all/source"));
    let told = Command::new("kill").arg(mount.id().to_string()).status().expect("kill runs");
    assert!(told.success() && mount.wait().expect("it is our child").success());
}

/// Relays connections to a server; each that brings `cut_at` bytes back ends there. Its address, and how many ended so.
fn cutting_relay(server: SocketAddr, cut_at: u64) -> (SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (address, cuts) = (listener.local_addr().expect("an address"), Arc::<AtomicU64>::default());
    let counted = Arc::clone(&cuts);
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let Ok(server) = TcpStream::connect(server) else { return };
            let (mut asks, mut asked) = (client.try_clone().expect("a copy"), server.try_clone().expect("a copy"));
            thread::spawn(move || io::copy(&mut asks, &mut asked));
            let counted = Arc::clone(&counted);
            thread::spawn(move || {
                let brought = io::copy(&mut (&server).take(cut_at), &mut &client);
                counted.fetch_add(u64::from(brought.is_ok_and(|bytes| bytes == cut_at)), Ordering::Relaxed);
                let _ = (client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both));
            });
        }
    });
    (address, cuts)
}

#[test]
fn an_export_continues_where_its_connection_broke_off() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let (disks, out) = (disks(folder.path(), 1), folder.path().join("out"));
    volume(&["create", "--name", "films", "--layout", "span", "--unit", "1MiB", "--yes"], &disks);
    let server = Server::on(&[], &folder.path().join("state"), &["--volume", &joined(&disks)]);
    for (name, bytes) in films() {
        assert_eq!(server.put(&format!("/media/{name}"), "", &bytes).status, 201);
    }
    let (relay, cuts) = cutting_relay(server.address, 2 << 20);
    let mut export = Command::new(program());
    export.args(["volume", "export", "--url", &format!("http://{relay}"), "--to"]).arg(&out).arg(&disks[0]);
    let export = export.output().expect("the program runs");
    assert!(export.status.success(), "{export:?}");
    assert!(cuts.load(Ordering::Relaxed) > 1, "films of more than 2 MiB came in two parts");
    holds_all(&out);
    let names = ["", "0", "1", "2"].map(|folder| fs::read_dir(out.join(folder)).expect("a folder").count());
    assert_eq!(names, [3, 4, 3, 3], "nothing but the films");
}

/// A span of two disks that starts without the second.
#[test]
fn a_refusal_names_the_disk_that_is_missing_and_its_volume() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let disks = disks(folder.path(), 2);
    volume(&["create", "--name", "films", "--layout", "span", "--unit", "1MiB", "--yes"], &disks);
    let both = format!("{},{}", disks[0].display(), disks[1].display());
    let server = Server::on(&[], &folder.path().join("state"), &["--volume", &both]);
    // The disk with the most room is taken in turn.
    let names: Vec<String> = (0..4).map(|number| format!("{number}.ts")).collect();
    for name in &names {
        assert_eq!(server.put(&format!("/media/{name}"), "", &vec![7; 3_000_000]).status, 201);
    }
    drop(server);
    fs::rename(&disks[1], folder.path().join("away")).expect("a file");
    let server = Server::on(&[], &folder.path().join("state"), &["--volume", &both]);
    let lost = names.iter().map(|name| server.get(&format!("/media/{name}"))).find(|answer| answer.status == 503);
    let lost = lost.expect("some lay on the second disk").text();
    let gone = disks[1].display().to_string();
    assert!(lost.contains(&format!("the disk {gone} of the volume `films` is missing")), "{lost}");
    assert!(lost.contains("\"resource\":\"disk_away\"") && lost.contains(&format!("\"name\":\"{gone}\"")), "{lost}");
    for target in ["/media/new.ts", "/media/new.ts?rate=1M"] {
        let refused = server.put(target, "", b"new");
        let text = refused.text();
        assert_eq!(refused.status, 507, "{text}");
        assert!(
            text.contains(&gone) && text.contains("takes no changes until the server is started again with this disk"),
            "{text}"
        );
    }
}

#[test]
fn a_server_that_has_just_ended_has_its_disks_a_moment_longer() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let disks = disks(folder.path(), 1);
    volume(&["create", "--name", "films", "--layout", "span", "--unit", "1MiB", "--yes"], &disks);
    let held = || {
        let disk = fs::File::open(&disks[0]).expect("it is there");
        disk.lock().expect("nobody has it");
        disk
    };
    let run = |arguments: &[&str]| {
        let mut command = Command::new(program());
        command.arg("volume").args(arguments).arg(&disks[0]).stderr(Stdio::piped()).stdout(Stdio::null());
        command.spawn().expect("the program runs")
    };
    let scrub = ["scrub", "--url", "http://127.0.0.1:1"];
    for arguments in [&scrub[..], &["check"]] {
        let disk = held();
        let looked = run(arguments);
        std::thread::sleep(std::time::Duration::from_millis(300));
        drop(disk);
        let looked = looked.wait_with_output().expect("it ends");
        assert!(looked.status.success(), "{arguments:?}: {looked:?}");
        let disk = held();
        let refused = run(arguments).wait_with_output().expect("it ends");
        drop(disk);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(refused.status.code() == Some(3) && said.contains("is in use"), "{arguments:?}: {said}");
    }
}

#[test]
fn a_check_of_the_configuration_looks_for_names_in_a_volume_no_server_has() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let (disks, source) = (disks(folder.path(), 1), folder.path().join("cams"));
    volume(&["create", "--name", "v", "--layout", "span", "--unit", "1MiB", "--yes"], &disks);
    fs::create_dir_all(source.join("door")).expect("there is room");
    fs::write(source.join("door/a.ts"), "x").expect("there is room");
    volume(&["import"], &[disks[0].clone(), source]);
    let file = folder.path().join("isocast.toml");
    let keep = |name: &str, folder: &str, protected: &str| {
        format!(
            "[[job]]\nname = {name:?}\nkind = \"keep\"\nschedule = \"@daily\"\nmax_age = \"9d\"\nfolder = {folder:?}\nprotected = [{protected}]\n"
        )
    };
    let copy = "[[job]]\nname = \"d\"\nkind = \"copy\"\nschedule = \"@daily\"\nfrom = \"cam\"\nto = \"rclone:no:x\"\n";
    let (state, root) = (folder.path().join("state"), folder.path().join("root"));
    fs::create_dir(&root).expect("there is room");
    let jobs = keep("a", "cams/door", "\"cams/*/a.t?\", \"cams/x*\"")
        + &keep("b", "camms", "")
        + &keep("c", "cams/door/a.ts", "");
    let top = format!("roots = [{root:?}]\nvolumes = [{:?}]\nstate = {state:?}\n", disks[0]);
    let rates = "[path_rates]\n\"cams/do\" = \"1M\"\n\"cams/da\" = \"1M\"\n";
    fs::write(&file, top + rates + &jobs + copy).expect("there is room");
    let hints = || {
        let output = Command::new(program()).args(["config", "check"]).arg(&file).output().expect("the program runs");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{said} {}", String::from_utf8_lossy(&output.stderr));
        let said = said.lines().filter_map(|line| line.strip_prefix("hint: ")).filter(|line| !line.contains("rclone"));
        said.map(str::to_owned).collect::<Vec<_>>()
    };
    let found = [
        "the job `a`: protected: nothing is named `cams/x*` now",
        "the job `b`: no served folder has `camms` now",
        "the job `c`: `cams/door/a.ts` is a content, no folder",
        "the job `d`: no served folder has `cam` now",
        "path_rates: no served path begins with `cams/da` now",
    ];
    assert_eq!(hints(), found);
    let server = Server::on(&[], &state, &["--volume", &joined(&disks)]);
    let said = hints();
    assert!(said.len() == 1 && said[0].contains("were not looked for") && said[0].contains("is in use"), "{said:?}");
    drop(server);
}
