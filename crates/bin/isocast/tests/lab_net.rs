//! `isocast lab net` for real: guests with TIPC, packets on their wire, cables cut and lossy; and that nothing is left.
//!
//! Needs User-mode Linux. Where it is missing the program must name the package to install.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::{program_and_others, until};
use serde_json::Value;

fn lab(arguments: &[&str]) -> Output {
    Command::new(program_and_others())
        .args(["lab", "net"])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("it runs")
}

fn output_text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// A network that goes with the test.
struct Network(String);

impl Network {
    /// `None` if this machine cannot; then the program must have said why.
    fn up(purpose: &str, arguments: &[&str]) -> Option<Self> {
        let name = format!("{purpose}-{}", std::process::id());
        let up = lab(&[&["up", "--json", &name], arguments].concat());
        if output_text(&up).contains("User-mode Linux") {
            assert_eq!(up.status.code(), Some(1));
            crate::common::skip::skipped(output_text(&up).trim());
            return None;
        }
        assert!(up.status.success(), "{}", output_text(&up));
        let nodes = serde_json::from_slice::<Value>(&up.stdout).expect("JSON");
        assert_eq!((&nodes["nodes"][1]["ip"], &nodes["nodes"][1]["tipc"]), (&"10.9.0.2".into(), &"1.1.2".into()));
        Some(Self(name))
    }

    fn ctl(&self, command: &[&str]) -> Value {
        let output = lab(&[&["ctl", &self.0], command].concat());
        assert!(output.status.success(), "{}", output_text(&output));
        serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
    }

    fn run(&self, node: &str, command: &[&str]) -> Output {
        lab(&[&["run", "--name", &self.0, node, "--"], command].concat())
    }

    /// A receiver on node 2 that ends after one test, and a test of it on node 1.
    fn test(&self, token: &str, arguments: &[&str]) -> Value {
        let program = program_and_others().display().to_string();
        std::thread::scope(|scope| {
            let serve = [&program, "net", "serve", "--once", "--listen", "10.9.0.2:5001", "--listen", "tipc:18888:1"];
            let server = scope.spawn(move || self.run("2", &[&serve[..], &["--token-file", token]].concat()));
            let test = [&[&program, "net", "test", "--json", "--token-file", token], arguments].concat();
            let report = until("the receiver", || {
                let tested = self.run("1", &test);
                if tested.status.success() { Ok(tested.stdout) } else { Err(output_text(&tested)) }
            });
            let served = server.join().expect("no panic");
            assert!(served.status.success(), "{}", output_text(&served));
            serde_json::from_slice(&report).expect("JSON")
        })
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = lab(&["down", &self.0]);
    }
}

/// Error output of `up` for a network with this script as guests; `None` on a machine without the other requirements of guests.
/// Networks and their logs are removed when a guest does not start, so `up` has to print the guest's output at once.
fn up_with_guests(purpose: &str, script: &str) -> Option<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let guest = folder.path().join("linux.uml");
    fs::write(&guest, script).expect("written");
    fs::set_permissions(&guest, Permissions::from_mode(0o755)).expect("set");
    let name = format!("{purpose}-{}", std::process::id());
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").expect("a path"));
    let up = Command::new(program_and_others())
        .args(["lab", "net", "up", &name])
        .env("PATH", path)
        .output()
        .expect("it runs");
    assert_eq!(up.status.code(), Some(1), "{}", output_text(&up));
    if output_text(&up).contains("need User-mode Linux") {
        crate::common::skip::skipped(output_text(&up).trim());
        return None;
    }
    assert!(!output_text(&lab(&["list"])).contains(&name), "it is left behind");
    Some(output_text(&up))
}

#[test]
fn a_guest_that_does_not_start_is_reported_with_its_output() {
    let Some(said) = up_with_guests("fails", "#!/bin/sh\necho no ptrace on this machine\n") else { return };
    assert!(said.contains("has ended; it said last: no ptrace on this machine"), "{said}");
}

/// As it is with Debian 12's User-mode Linux on a processor with AMX.
#[test]
fn a_processor_with_too_many_registers_is_reported() {
    let script =
        "#!/bin/sh\necho userspace - ptrace set fp regs failed, errno = 14\necho ' [<6002c0dd>] new_thread_handler'\n";
    let Some(said) = up_with_guests("registers", script) else { return };
    assert!(said.contains("User-mode Linux cannot run on this machine's processor"), "{said}");
}

/// A token where guests see it: their `/tmp` is their own.
fn token() -> tempfile::NamedTempFile {
    let beside = program_and_others();
    let token = tempfile::NamedTempFile::new_in(beside.parent().expect("a folder")).expect("a file");
    std::fs::write(token.path(), "a token for the guests\n").expect("written");
    token
}

#[test]
fn messages_over_tipc_leave_together_and_fill_packets() {
    let Some(network) = Network::up("wire", &[]) else { return };
    let token = token();
    let token = token.path().display().to_string();
    let packets = |said: &Value| said["sender"]["interface"]["sent_packets"].as_u64().expect("counted");
    let tipc = |more: &[&str]| {
        network.test(&token, &[&["--to", "tipc:18888:1", "--size", "16", "--count", "20000"], more].concat())
    };
    let together = tipc(&["--coalesce", "20ms"]);
    assert_eq!(together["receiver"]["bytes"], 320_000, "{together}");
    // 17 bytes each, 1388 to a packet.
    assert!(packets(&together) < 20_000 * 17 / 1388 * 3 / 2, "{together}");
    // Each by itself, but for those that the link puts together while it is full.
    let alone = tipc(&["--no-delay"]);
    assert!(packets(&alone) > 10 * packets(&together), "{alone}");
    let round = network.test(&token, &["--to", "tipc:18888:1", "--size", "100", "--count", "200", "--round-trip"]);
    assert_eq!(round["receiver"]["messages"], 200, "{round}");
    let nobody =
        network.run("1", &[&program_and_others().display().to_string(), "net", "test", "--to", "tipc:18888:9"]);
    assert!(output_text(&nobody).contains("no node of the cluster offers this service"), "{}", output_text(&nobody));
}

#[test]
fn a_cut_cable_takes_the_link_down_and_a_healed_one_brings_it_back() {
    let Some(network) = Network::up("cut", &[]) else { return };
    let link = |state: &'static str| {
        until(state, || {
            let listed = output_text(&network.run("1", &["tipc", "node", "list"]));
            if listed.contains(&format!(" {state}")) { Ok(()) } else { Err(listed) }
        });
    };
    link("up");
    let ran = lab(&["run", "--name", &network.0, "--json", "1", "--", "sh", "-c", "echo here; exit 3"]);
    let told = serde_json::from_slice::<Value>(&ran.stdout).expect("JSON");
    assert_eq!((&told["status"], &told["stdout"]), (&3.into(), &"here\n".into()), "{told}");
    assert_eq!(ran.status.code(), Some(1), "{}", output_text(&ran));
    // As the caller would: in its folder, with its programs.
    let program = program_and_others();
    let folder = program.parent().expect("a folder");
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").expect("a path"));
    let mut as_caller = Command::new(&program);
    as_caller.args(["lab", "net", "run", "--name", &network.0, "1", "--", "sh", "-c", "pwd; isocast --version"]);
    let ran = output_text(&as_caller.current_dir(folder).env("PATH", path).output().expect("it runs"));
    assert!(ran.starts_with(&format!("{}\nisocast ", folder.display())), "{ran}");
    network.ctl(&["cut", "2"]);
    link("down");
    network.ctl(&["heal", "2"]);
    link("up");
    network.ctl(&["loss", "100"]);
    let ping = network.run("1", &["busybox", "ping", "-c", "1", "-W", "1", "10.9.0.2"]);
    assert!(!ping.status.success(), "{}", output_text(&ping));
    network.ctl(&["loss", "0"]);
    let ping = network.run("1", &["busybox", "ping", "-c", "1", "-W", "5", "10.9.0.2"]);
    assert!(ping.status.success(), "{}", output_text(&ping));
    assert!(network.ctl(&["stat"])["lost"].as_u64() > Some(0));
    assert!(output_text(&lab(&["ctl", &network.0, "cut", "3"])).contains("they are 1 to 2"));
}

#[test]
fn nothing_is_left_of_a_network() {
    let Some(network) = Network::up("gone", &[]) else { return };
    let guests = || -> usize {
        let commands = std::fs::read_dir("/proc").expect("proc").flatten();
        commands
            .filter(|e| {
                std::fs::read_to_string(e.path().join("cmdline"))
                    .is_ok_and(|c| c.contains(&network.0) && c.contains("linux.uml"))
            })
            .count()
    };
    assert!(guests() >= 2);
    assert!(output_text(&lab(&["up", &network.0])).contains("already up"));
    let listed = serde_json::from_slice::<Value>(&lab(&["list", "--json"]).stdout).expect("JSON");
    let own = listed.as_array().and_then(|all| all.iter().find(|one| one["name"] == network.0));
    assert_eq!(own.map(|own| &own["up"]), Some(&true.into()), "{listed}");
    let down = lab(&["down", &network.0, "--json"]);
    assert!(down.status.success(), "{}", output_text(&down));
    assert_eq!(serde_json::from_slice::<Vec<String>>(&down.stdout).expect("JSON"), [network.0.as_str()]);
    // A guest is several processes; the last of them end with a signal, and no process waits for them.
    crate::common::until("the end of every guest", || {
        if guests() == 0 { Ok(()) } else { Err(format!("{} left", guests())) }
    });
    assert!(!output_text(&lab(&["list"])).contains(&network.0));
    assert!(output_text(&lab(&["down", &network.0])).contains("is not up"));
    assert!(!Path::new("/run/isocast-lab-net").join(&network.0).exists());
}
