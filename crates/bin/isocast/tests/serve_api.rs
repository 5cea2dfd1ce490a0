//! Calls of the API as its description allows and forbids them, by a property-based fuzzer (schemathesis), on a server that runs.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::client::pattern;
use crate::common::server::Setup;
use crate::common::skip::skipped;
use crate::serve_accounts::isocast;

/// The fuzzer, where `scripts/setup --api` puts it.
const FUZZER: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/../schemathesis/bin/schemathesis");

/// A schema cannot express all rules of paths, names and rates, so 400 with its reason may answer a document that has the form of one.
const SETTINGS: &str = r#"
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "400", "401", "403", "404", "405", "409", "412", "423", "429", "503", "507"]
"#;

#[test]
fn a_fuzzer_finds_no_call_that_differs_from_the_description() {
    if !Path::new(FUZZER).exists() {
        skipped("schemathesis is not there: `scripts/setup --api`");
        return;
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let [root, state, settings] = ["root", "state", "settings.toml"].map(|name| folder.path().join(name));
    fs::create_dir(&root).expect("a folder");
    fs::write(root.join("a.ts"), pattern(1000)).expect("written");
    fs::write(&settings, SETTINGS).expect("written");
    isocast(&state, &["user", "add", "ada", "--admin", "--password-stdin"], "secret\n");
    let token = isocast(&state, &["token", "add", "ada", "--rights", "read,write,delete,share,admin"], "");
    let server = Setup::on(&[&root], &state, &[]).start();
    // Calls that change users come last: they take the rights of the fuzzer's own as well.
    // A list of events that is followed has no end.
    for part in [["--exclude-path-regex", r"/users/\{|/events$"], ["--include-path-regex", r"/users/\{"]] {
        let mut fuzzer = Command::new(FUZZER);
        fuzzer.current_dir(folder.path()).arg("--config-file").arg(&settings).arg("run");
        fuzzer.arg(format!("http://{}/api/v1/openapi.json", server.address)).args(part);
        fuzzer.args(["--header", &format!("Authorization: Bearer {token}"), "--no-color", "--seed", "1"]);
        fuzzer.args(["--max-examples", "3", "--phases", "examples,coverage,fuzzing"]);
        let output = fuzzer.output().expect("the fuzzer");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    assert!(server.stop().0.success());
}
