//! Every command of FTP that reads or changes something, with every kind of client, against a table of the replies.

use std::io::Read;

use crate::ftp::{Ftp, address};
use crate::serve_accounts::{ada_bob_and_eve, isocast};

/// Kinds of clients: no account, a wrong password, `bob`, who reads and writes below `films`, a token of `ada` that reads there, `eve`, who
/// reads everything, `ada`, who has all rights.
const KINDS: usize = 6;

/// A command, and the code of its last reply for each kind; 230 of `LOGIN` lets it in.
const TABLE: [(&str, [u16; KINDS]); 17] = [
    ("LOGIN", [530, 530, 230, 230, 230, 230]),
    ("CWD /", [530, 530, 250, 250, 250, 250]),
    ("CWD /films", [530, 530, 250, 250, 250, 250]),
    ("LIST /", [530, 530, 550, 550, 226, 226]),
    ("NLST /films", [530, 530, 226, 226, 226, 226]),
    ("RETR /films/a.ts", [530, 530, 226, 226, 226, 226]),
    ("RETR /films/../other/b.ts", [530, 530, 550, 550, 226, 226]),
    ("RETR /other/b.ts", [530, 530, 550, 550, 226, 226]),
    ("SIZE /other/b.ts", [530, 530, 550, 550, 213, 213]),
    ("STOR /films/c.ts", [530, 530, 226, 550, 550, 226]),
    ("STOR /other/c.ts", [530, 530, 550, 550, 550, 226]),
    ("MKD /films/new", [530, 530, 257, 550, 550, 550]),
    ("MKD /other/new", [530, 530, 550, 550, 550, 257]),
    ("MOVE /films/c.ts /other/d.ts", [530, 530, 550, 550, 550, 250]),
    ("DELE /films/a.ts", [530, 530, 550, 550, 550, 250]),
    ("DELE /other/c.ts", [530, 530, 550, 550, 550, 250]),
    ("RMD /other/new", [530, 530, 550, 550, 550, 250]),
];

/// The code of the last reply to a command.
fn tried(ftp: &mut Ftp, (name, password): (&str, &str), command: &str) -> u16 {
    let (verb, rest) = command.split_once(' ').unwrap_or((command, ""));
    match verb {
        "LOGIN" => {
            let named = ftp.ask(&format!("USER {name}")).0;
            if named == 331 { ftp.ask(&format!("PASS {password}")).0 } else { named }
        }
        "LIST" | "NLST" | "RETR" | "STOR" => {
            let (code, text) = ftp.ask("EPSV");
            if code != 229 {
                return code;
            }
            let port = text.split("|||").nth(1).and_then(|rest| rest.split('|').next()).expect("a port");
            let port: u16 = port.parse().expect("a port");
            let mut data = std::net::TcpStream::connect(("127.0.0.1", port)).expect("a data connection");
            match ftp.ask(command).0 {
                150 => {
                    if verb == "STOR" {
                        drop(data);
                    } else {
                        let _ = data.read_to_end(&mut Vec::new());
                    }
                    ftp.reply().0
                }
                refused => refused,
            }
        }
        "MOVE" => {
            let (from, to) = rest.split_once(' ').expect("two paths");
            match ftp.ask(&format!("RNFR {from}")).0 {
                350 => ftp.ask(&format!("RNTO {to}")).0,
                refused => refused,
            }
        }
        _ => ftp.ask(command).0,
    }
}

#[test]
fn each_command_asks_for_its_right() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let server = ada_bob_and_eve(folder.path()).set("ftp.listen=127.0.0.1:0").start();
    let state = folder.path().join("state");
    let token = isocast(&state, &["token", "add", "ada", "--rights", "read", "--folder", "films"], "");
    let kinds = [("anonymous", "guest@"), ("ada", "wrong"), ("bob", "p"), ("ada", &*token), ("eve", "p"), ("ada", "p")];
    let mut wrong = Vec::new();
    let mut clients: Vec<Ftp> = kinds.iter().map(|_| Ftp::connect(address(&server, "ftp"))).collect();
    clients.iter_mut().for_each(|ftp| assert_eq!(ftp.reply().0, 220));
    for (command, expected) in TABLE {
        for ((kind, ftp), code) in kinds.into_iter().zip(&mut clients).zip(expected) {
            let got = tried(ftp, kind, command);
            if got != code {
                wrong.push(format!("{command} of {}: {got} for {code}", kind.0));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
