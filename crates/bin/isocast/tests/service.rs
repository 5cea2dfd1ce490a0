//! The service of the guide: its commands are run in a tree of their own, and systemd's own verifier looks at the outcome.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::common::program_and_others;
use crate::common::skip::skipped;

const GUIDE: &str = include_str!("../../../../docs/guide/operate.md");
const UNITS: [&str; 2] = ["isocast.service", "isocast-measure.service"];
/// Highest exposure that `systemd-analyze security` may give, in tenths.
const EXPOSURE_MAX: u32 = 25;

fn packaging() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../packaging"))
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// True if this machine has systemd's tools (it need not have been started by systemd).
fn has_systemd() -> bool {
    let there = Command::new("systemd-analyze").arg("--version").output().is_ok();
    if !there {
        skipped("systemd-analyze is not installed");
    }
    there
}

#[test]
fn the_units_are_confined() {
    if !has_systemd() {
        return;
    }
    for unit in UNITS {
        let mut command = Command::new("systemd-analyze");
        let output = command.args(["security", "--offline=yes", "--no-pager"]).arg(packaging().join(unit)).output();
        let said = text(&output.expect("it runs"));
        let level = said.rsplit_once("exposure level for ").and_then(|(_, rest)| rest.split_whitespace().nth(1));
        let level = level.unwrap_or_else(|| panic!("no level in {said}"));
        let tenths: u32 = level.replace('.', "").parse().expect("a figure with one decimal");
        assert!(tenths <= EXPOSURE_MAX, "{unit}: {level}");
    }
}

#[test]
fn the_server_may_open_no_disk() {
    let unit = fs::read_to_string(packaging().join(UNITS[0])).expect("the unit");
    assert!(unit.contains("\nDevicePolicy=closed\n") && unit.contains("\nCapabilityBoundingSet=\n"), "{unit}");
    assert!(!unit.contains("SupplementaryGroups") && !unit.contains("DeviceAllow"), "{unit}");
    let measure = fs::read_to_string(packaging().join(UNITS[1])).expect("the unit");
    assert!(measure.contains("\nDeviceAllow=block-* r\n") && measure.contains("\nPrivateNetwork=yes\n"), "{measure}");
}

/// The commands of the guide's section: to install, to upgrade, to remove, and to remove the files that are left.
fn commands() -> [&'static str; 4] {
    let (_, section) = GUIDE.split_once("\n## As a service\n").expect("the section");
    let section = section.split("\n## ").next().expect("its end");
    let blocks = section.split("```sh\n").skip(1).map(|block| block.split_once("```").expect("its end").0);
    blocks.collect::<Vec<_>>().try_into().expect("four blocks")
}

/// In a tree over this machine's, in which everything may be changed and nothing stays (needs root): user and folders are
/// made, the units are enabled and verified, their programs run as their user, and an upgrade and the removal follow.
#[test]
fn the_guides_commands_make_a_service_that_starts() {
    if !rustix::process::geteuid().is_root() {
        skipped("a tree to install into takes root");
        return;
    }
    if !has_systemd() {
        return;
    }
    let [install, upgrade, removal, rest] = commands();
    let scratch = tempfile::tempdir_in("/dev/shm").expect("a folder in memory, which an overlay can be made of");
    let script = format!(
        "set -eu
         cd {source}
         mount -t tmpfs none {scratch}
         mkdir {scratch}/upper {scratch}/work {scratch}/tree
         mount -t overlay overlay -o lowerdir=/,upperdir={scratch}/upper,workdir={scratch}/work {scratch}/tree
         for name in proc sys dev; do mount --rbind /$name {scratch}/tree/$name; done
         mkdir -p {scratch}/tree/run/program {scratch}/tree/srv
         cp {program} {program}-mount {scratch}/tree/run/program/
         cat >{scratch}/tree/run/commands <<'END'
         set -eu
         export SYSTEMD_IN_CHROOT=1 SYSTEMD_OFFLINE=1
         cd {source}
         make() {{ command make --no-print-directory BINARY=/run/program/isocast \"$@\"; }}
         # Nothing can be started in a tree that was not booted: what would be is verified and run below.
         systemctl() {{ for word; do shift; test \"$word\" = --now || set -- \"$@\" \"$word\"; done; command systemctl \"$@\"; }}
         {install}
         isocast volume mount --help | grep -q isocast-mount && isocast-mount --version
         systemd-analyze verify /usr/local/lib/systemd/system/isocast.service /usr/local/lib/systemd/system/isocast-measure.service
         test -e /etc/systemd/system/multi-user.target.wants/isocast.service
         install -d -o isocast -g isocast -m 750 /var/lib/isocast
         as_isocast() {{ setpriv --reuid isocast --regid isocast --clear-groups env STATE_DIRECTORY=/var/lib/isocast \"$@\"; }}
         as_isocast /usr/local/bin/isocast config check /etc/isocast/isocast.toml
         echo secret | isocast user add alice
         as_isocast /usr/local/bin/isocast user list --state /var/lib/isocast | grep -q alice
         as_isocast /usr/local/bin/isocast serve --config /etc/isocast/isocast.toml --measure-only
         echo '# edited' >>/etc/isocast/isocast.toml
         echo old >/usr/local/bin/isocast
         {upgrade}
         cmp /usr/local/bin/isocast /run/program/isocast
         grep -q edited /etc/isocast/isocast.toml
         {removal}
         test ! -e /etc/systemd/system/multi-user.target.wants/isocast.service
         test ! -e /usr/local/bin/isocast && test ! -e /usr/local/lib/systemd/system/isocast.service
         test -e /var/lib/isocast/state.db && test -d /srv/video
         {rest}
         left=$(find /etc /usr/local /var/lib /var/log -name '*isocast*')
         test -z \"$left\" || {{ echo \"left: $left\"; exit 1; }}
         test -d /srv/video
         echo all done
END
         chroot {scratch}/tree sh /run/commands",
        source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.."),
        scratch = scratch.path().display(),
        program = program_and_others().display(),
    );
    let output = Command::new("unshare").args(["--mount", "--fork", "sh", "-c", &script]).output().expect("unshare");
    let said = text(&output);
    if said.contains("mount:") && said.contains("overlay") {
        skipped("no overlay can be mounted here");
        return;
    }
    assert!(output.status.success() && said.contains("all done"), "{said}");
}
