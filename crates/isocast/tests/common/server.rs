//! `isocast serve` as a process: started, asked, ended by force or by request.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;

use super::http::fetch;
use super::{PATIENCE, program, until};

pub struct Server {
    pub address: SocketAddr,
    child: Child,
    said: Arc<Mutex<String>>,
    listener: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts it on a free port, and waits until it admits streams.
    pub fn start(roots: &[&Path], state: &Path, arguments: &[&str]) -> Self {
        Self::start_at("127.0.0.1:0", roots, state, arguments)
    }

    /// Starts it at an address, and waits until it admits streams.
    pub fn start_at(listen: &str, roots: &[&Path], state: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(program());
        command
            .args(["serve", "--local-writes", "--listen", listen, "--set", "plane.memory=512M", "--state"])
            .arg(state)
            .args(arguments);
        // What the tests are told by the environment is not the server's.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ISOCAST_")) {
            command.env_remove(name);
        }
        for root in roots {
            command.arg("--root").arg(root);
        }
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the program runs");
        let lines = BufReader::new(child.stderr.take().expect("a pipe"));
        let said = Arc::new(Mutex::new(String::new()));
        let (tell, told) = mpsc::channel();
        let heard = Arc::clone(&said);
        let listener = std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                if let Some((_, address)) = line.split_once(" on http://") {
                    let _ = tell.send(address.trim_end_matches('/').parse());
                }
                let mut text = heard.lock().expect("no panic while it is held");
                text.push_str(&line);
                text.push('\n');
            }
        });
        let Ok(Ok(address)) = told.recv_timeout(PATIENCE) else {
            let _ = child.kill();
            panic!("it does not start: {}", said.lock().expect("no panic while it is held"));
        };
        let server = Self { address, child, said, listener: Some(listener) };
        until("/ready", || match fetch(address, "GET", "/ready") {
            Ok((200, _)) => Ok(()),
            other => Err(format!("{other:?}")),
        });
        server
    }

    /// Measures the disk of a folder for so long, so that the first start need not take its time.
    pub fn calibrate(root: &Path, state: &Path) {
        let mut command = Command::new(program());
        command.args(["disk", "calibrate", "--time", "2s", "--state"]).arg(state).arg(root);
        let output = command.output().expect("the program runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// What it said on standard error so far.
    pub fn said(&self) -> String {
        self.said.lock().expect("no panic while it is held").clone()
    }

    /// `kill -9`. Gives what it had said.
    pub fn kill(mut self) -> String {
        self.child.kill().expect("it was ours to kill");
        self.ended();
        self.said()
    }

    /// SIGTERM, and waits until it has ended.
    pub fn stop(mut self) -> (ExitStatus, String) {
        let status = Command::new("kill").arg(self.child.id().to_string()).status().expect("kill runs");
        assert!(status.success());
        (self.ended(), self.said())
    }

    fn ended(&mut self) -> ExitStatus {
        let status = self.child.wait().expect("it is our child");
        self.listener.take().map(JoinHandle::join);
        status
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A failed test must not leave its server behind.
        if self.listener.is_some() {
            let _ = self.child.kill();
            self.ended();
        }
    }
}
