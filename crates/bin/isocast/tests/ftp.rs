//! FTP: lftp, curl and Python's ftplib against the real server, and the control connection byte by byte.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output};

use crate::common::PATIENCE;
use crate::common::client::pattern;
use crate::common::server::{Server, Setup};
use crate::common::skip::skipped;
use crate::common::volume::{disks, joined, volume};
use rustix::net::sockopt::set_socket_linger;
use rustix::net::{SendFlags, send};
use tempfile::TempDir;

/// Settings of a server with FTP on a free port of this machine.
pub(crate) fn with_ftp() -> Setup {
    Setup::default().set("ftp.listen=127.0.0.1:0")
}

/// The address that the server has for a scheme.
pub(crate) fn address(server: &Server, scheme: &str) -> SocketAddr {
    let line = server.wait_stderr_line(&format!(" {scheme}://"));
    let (_, rest) = line.split_once(&format!(" {scheme}://")).expect("waited for");
    rest.split('/').next().and_then(|address| address.parse().ok()).expect("an address")
}

fn is_missing(program: &str) -> bool {
    let missing = Command::new("sh").args(["-c", &format!("command -v {program}")]).output().expect("sh");
    if !missing.status.success() {
        skipped(&format!("{program} is not installed (`scripts/setup --snmp`)"));
    }
    !missing.status.success()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// A control connection, as plain as it is.
pub(crate) struct Ftp {
    pub(crate) lines: BufReader<TcpStream>,
}

impl Ftp {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
        Self { lines: BufReader::new(stream) }
    }

    /// With a login.
    pub(crate) fn anonymous(server: &Server) -> Self {
        let mut ftp = Self::connect(address(server, "ftp"));
        assert_eq!(ftp.reply().0, 220);
        assert_eq!(ftp.ask("USER anonymous").0, 331);
        assert_eq!(ftp.ask("PASS guest@").0, 230);
        ftp
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.lines.get_mut().write_all(bytes).expect("the server reads");
    }

    pub(crate) fn ask(&mut self, command: &str) -> (u16, String) {
        self.send(format!("{command}\r\n").as_bytes());
        self.reply()
    }

    /// The next reply; code 0 at the end of the connection.
    pub(crate) fn reply(&mut self) -> (u16, String) {
        let (mut text, mut line) = (String::new(), String::new());
        loop {
            line.clear();
            if self.lines.read_line(&mut line).unwrap_or(0) == 0 {
                return (0, text);
            }
            text.push_str(&line);
            if line.len() > 3 && line.as_bytes()[3] == b' ' && line.as_bytes()[..3].iter().all(u8::is_ascii_digit) {
                return (line[..3].parse().expect("a code"), text);
            }
        }
    }

    /// The passive port.
    pub(crate) fn passive(&mut self) -> SocketAddr {
        let (code, text) = self.ask("EPSV");
        assert_eq!(code, 229, "{text}");
        let port = text.split("|||").nth(1).and_then(|rest| rest.split('|').next()).expect("a port");
        SocketAddr::new(self.lines.get_ref().peer_addr().expect("an end").ip(), port.parse().expect("a port"))
    }

    pub(crate) fn data(&mut self) -> TcpStream {
        let stream = TcpStream::connect(self.passive()).expect("a data connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
        stream
    }

    /// The bytes that a command sends.
    pub(crate) fn fetch(&mut self, command: &str) -> Vec<u8> {
        let mut data = self.data();
        let (code, text) = self.ask(command);
        assert_eq!(code, 150, "{command}: {text}");
        let mut bytes = Vec::new();
        data.read_to_end(&mut bytes).expect("all of it");
        assert_eq!(self.reply().0, 226, "{command}");
        bytes
    }

    pub(crate) fn store(&mut self, command: &str, bytes: &[u8]) -> (u16, String) {
        let mut data = self.data();
        let begun = self.ask(command);
        if begun.0 != 150 {
            return begun;
        }
        // A refusal may come, and the connection end, before all of it is sent.
        let _ = data.write_all(bytes);
        drop(data);
        self.reply()
    }
}

#[test]
fn contents_are_stored_listed_and_read() {
    let server = with_ftp().start();
    let mut ftp = Ftp::anonymous(&server);
    let bytes = pattern(300_000);
    assert_eq!(ftp.ask("MKD a b").0, 257);
    assert_eq!(ftp.ask("CWD a b").0, 250);
    let (code, text) = ftp.store("STOR film é.ts", &bytes);
    assert_eq!(code, 226, "{text}");
    assert!(fs::read(server.root.join("a b/film é.ts")).expect("it is durable") == bytes);
    assert!(ftp.fetch("RETR film é.ts") == bytes);
    assert_eq!(ftp.ask("REST 299990").0, 350);
    assert_eq!(ftp.fetch("RETR film é.ts"), bytes[299_990..]);
    assert_eq!(ftp.ask("SIZE film é.ts").1, "213 300000\r\n");
    assert_eq!(ftp.ask("MFMT 20260102030405 film é.ts").1, "213 Modify=20260102030405; /a b/film é.ts\r\n");
    assert_eq!(ftp.ask("MDTM film é.ts").1, "213 20260102030405\r\n");
    let modified = fs::metadata(server.root.join("a b/film é.ts")).and_then(|facts| facts.modified()).expect("a time");
    let since = modified.duration_since(std::time::SystemTime::UNIX_EPOCH).expect("later");
    assert_eq!(since.as_secs(), 1_767_323_045);
    assert_eq!((ftp.ask("MFMT 20260102030405 /a b").0, ftp.ask("MFMT 20260102030405 none").0), (550, 550));
    let listed = String::from_utf8(ftp.fetch("MLSD")).expect("UTF-8");
    assert!(listed.starts_with("type=file;size=300000;modify=") && listed.ends_with("; film é.ts\r\n"), "{listed}");
    let listed = String::from_utf8(ftp.fetch("LIST -la /")).expect("UTF-8");
    assert!(listed.starts_with("drwxr-xr-x 1 ftp ftp") && listed.ends_with(" a b\r\n"), "{listed}");
    assert_eq!(ftp.fetch("NLST"), "film é.ts\r\n".as_bytes());
    assert!(ftp.ask("MLST film é.ts").1.contains(" type=file;size=300000;"));

    assert_eq!(ftp.store("APPE film é.ts", b"more").0, 226);
    assert_eq!(ftp.ask("SIZE film é.ts").1, "213 300004\r\n");
    assert_eq!(ftp.ask("REST 2").0, 350);
    assert_eq!(ftp.store("STOR film é.ts", b"xyz").0, 226);
    assert_eq!(ftp.fetch("RETR film é.ts"), [&bytes[..2], b"xyz"].concat());
    assert_eq!(ftp.store("APPE new", b"").0, 226, "an empty content");

    assert_eq!((ftp.ask("RNFR film é.ts").0, ftp.ask("RNTO ../other").0), (350, 250));
    assert_eq!(ftp.ask("RNTO x").0, 503, "RNFR comes first");
    assert_eq!((ftp.ask("DELE new").0, ftp.ask("CDUP").0, ftp.ask("RMD a b").0), (250, 250, 250));
    assert_eq!(ftp.ask("PWD").1, "257 \"/\" is the current folder\r\n");
    assert_eq!(server.names(), ["other"]);
    assert_eq!(ftp.ask("QUIT").0, 221);
}

#[test]
fn an_upload_that_is_reset_aborted_or_left_leaves_nothing() {
    let server = with_ftp().start();
    server.file("kept", b"before");
    let half = pattern(200_000);
    // The data connection is reset.
    let mut ftp = Ftp::anonymous(&server);
    let mut data = ftp.data();
    assert_eq!(ftp.ask("STOR kept").0, 150);
    data.write_all(&half).expect("the server reads");
    set_socket_linger(&data, Some(std::time::Duration::ZERO)).expect("a socket");
    drop(data);
    assert_eq!(ftp.reply().0, 426);
    // ABOR, with the codes of Telnet that clients send before it.
    let mut data = ftp.data();
    assert_eq!(ftp.ask("STOR kept").0, 150);
    data.write_all(&half).expect("the server reads");
    ftp.send(b"NOOP\r\n\xff\xf4\xff\xf2ABOR\r\n");
    assert_eq!((ftp.reply().0, ftp.reply().0, ftp.reply().0), (426, 226, 200));
    // ABOR as Python's ftplib sends it: its last byte is urgent.
    let mut data = ftp.data();
    assert_eq!(ftp.ask("STOR kept").0, 150);
    data.write_all(&half).expect("the server reads");
    send(ftp.lines.get_ref(), b"ABOR\r\n", SendFlags::OOB).expect("the server reads");
    assert_eq!((ftp.reply().0, ftp.reply().0), (426, 226));
    // The control connection ends.
    let mut data = ftp.data();
    assert_eq!(ftp.ask("STOR kept").0, 150);
    data.write_all(&half).expect("the server reads");
    ftp.lines.get_ref().shutdown(Shutdown::Both).expect("a socket");
    assert!(matches!(data.read(&mut [0]), Ok(0) | Err(_)), "the server closes it");
    server.wait_for("the end of all uploads", |server| server.metric("isocast_uploads") == 0.0);
    assert_eq!(
        (server.names(), fs::read(server.root.join("kept")).expect("there")),
        (vec!["kept".to_owned()], b"before".to_vec())
    );
}

#[test]
fn data_connections_are_made_with_the_client_alone() {
    let server = with_ftp().start();
    server.file("a", b"secret");
    let mut ftp = Ftp::anonymous(&server);
    // Another client comes to the passive port first.
    let passive = ftp.passive();
    let mut thief = crate::common::client::Client::from_to("127.0.0.9", passive);
    let mut data = TcpStream::connect(passive).expect("a data connection");
    assert_eq!(ftp.ask("RETR a").0, 150);
    let mut bytes = Vec::new();
    data.read_to_end(&mut bytes).expect("all of it");
    assert_eq!((bytes.as_slice(), ftp.reply().0), (b"secret".as_slice(), 226));
    assert!(!thief.more() && thief.buffer.is_empty(), "it got nothing");
    // A third party, and a service of this machine.
    for (command, code) in
        [("PORT 127,0,0,9,24,131", 504), ("EPRT |1|127.0.0.9|6275|", 504), ("PORT 127,0,0,1,0,22", 504)]
    {
        assert_eq!(ftp.ask(command).0, code, "{command}");
    }
    let own = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = own.local_addr().expect("an address").port();
    assert_eq!(ftp.ask(&format!("PORT 127,0,0,1,{},{}", port / 256, port % 256)).0, 200);
    assert_eq!(ftp.ask("RETR a").0, 150);
    let mut bytes = Vec::new();
    own.accept().expect("the server connects").0.read_to_end(&mut bytes).expect("all of it");
    assert_eq!((bytes.as_slice(), ftp.reply().0), (b"secret".as_slice(), 226));
    assert_eq!(ftp.ask("RETR a").0, 425, "no way was agreed");
    assert_eq!((ftp.ask("EPSV ALL").0, ftp.ask("PASV").0, ftp.ask("EPSV 2").0), (200, 503, 522));
}

#[test]
fn commands_come_in_any_pieces_and_paths_lead_nowhere_above_the_root() {
    let server = with_ftp().start();
    fs::write(server.root.parent().expect("a folder").join("outside"), b"no").expect("room");
    let mut ftp = Ftp::connect(address(&server, "ftp"));
    assert_eq!(ftp.reply().0, 220);
    for byte in b"USER anonymous\r\nPASS x\r\nCWD ..\r\nPWD\r\n" {
        ftp.send(&[*byte]);
    }
    assert_eq!([ftp.reply().0, ftp.reply().0, ftp.reply().0], [331, 230, 250]);
    assert_eq!(ftp.reply().1, "257 \"/\" is the current folder\r\n");
    for path in ["../outside", "/../outside", "..//../outside", "./.././outside"] {
        assert_eq!(ftp.ask(&format!("SIZE {path}")).0, 550, "{path}");
    }
    ftp.send(b"RETR a\xff\xfe\x01b\r\n");
    assert_eq!(ftp.reply().0, 550, "an option of Telnet is no part of a name");
    ftp.send(b"RETR a\xc3\r\n");
    assert_eq!((ftp.reply().0, ftp.ask("SITE EXEC ls").0, ftp.ask("XYZ").0), (501, 504, 500));
    let long = "a".repeat(100_000);
    assert_eq!((ftp.ask(&format!("RETR {long}")).0, ftp.ask("NOOP").0), (500, 200));
    // A page of any origin can have a browser send a form here.
    let mut page = Ftp::connect(address(&server, "ftp"));
    assert_eq!(page.reply().0, 220);
    page.send(b"POST / HTTP/1.1\r\nHost: x\r\n\r\nUSER anonymous\r\nPASS x\r\nMKD a\r\n");
    assert_eq!(page.reply().0, 0, "closed");
    assert!(server.names().is_empty());
}

#[test]
fn curl_and_ftplib_store_and_read() {
    let server = with_ftp().start();
    let at = address(&server, "ftp");
    let folder = TempDir::new().expect("a folder");
    let bytes = pattern(3_000_000);
    let (source, back) = (folder.path().join("film.ts"), folder.path().join("back.ts"));
    fs::write(&source, &bytes).expect("room");
    let curl = |arguments: &[&str]| {
        let output =
            Command::new("curl").args(["-sS", "--max-time", "60"]).args(arguments).output().expect("curl runs");
        assert!(output.status.success(), "{arguments:?}: {}", said(&output));
        said(&output)
    };
    let path = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let target = format!("ftp://{at}/cams/film.ts");
    curl(&["--ftp-create-dirs", "-T", &path(&source), &target]);
    curl(&["-o", &path(&back), &target]);
    assert!(fs::read(&back).expect("read") == bytes);
    fs::write(&back, &bytes[..1_000_000]).expect("room");
    curl(&["-C", "-", "-o", &path(&back), &target]);
    assert!(fs::read(&back).expect("continued") == bytes);
    assert!(curl(&[&format!("ftp://{at}/cams/")]).contains(" 3000000 "));
    curl(&["-a", "-T", &path(&source), &target]);
    assert_eq!(fs::metadata(server.root.join("cams/film.ts")).expect("there").len(), 6_000_000);

    let script = format!(
        "import ftplib, io\nf = ftplib.FTP()\nf.encoding = 'utf-8'\nf.connect('127.0.0.1', {})\nf.login()\n\
         f.mkd('neu ü')\nf.cwd('neu ü')\nf.storbinary('STOR a', io.BytesIO(b'x' * 100000))\n\
         assert f.size('a') == 100000\nassert [n for n, _ in f.mlsd()] == ['a'], list(f.mlsd())\n\
         assert f.nlst() == ['a']\nf.rename('a', 'b')\nf.set_pasv(False)\ngot = []\nf.retrbinary('RETR b', got.append, rest=99990)\n\
         assert b''.join(got) == b'x' * 10\nf.delete('b')\nf.cwd('/')\nf.rmd('neu ü')\n\
         try:\n    f.cwd('none')\n    raise SystemExit('no error')\nexcept ftplib.error_perm:\n    pass\nf.quit()\n",
        at.port()
    );
    let output = Command::new("python3").args(["-c", &script]).output().expect("python3 runs");
    assert!(output.status.success(), "{}", said(&output));
}

/// Runs commands of lftp at the server.
fn lftp(server: &Server, commands: &str) -> String {
    let home = TempDir::new().expect("a folder");
    let script = format!(
        "set net:max-retries 2; set net:timeout 30; set cmd:fail-exit yes; set ftp:ssl-allow no; open ftp://{}; {commands}",
        address(server, "ftp")
    );
    let mut lftp = Command::new("lftp");
    // Names are UTF-8, which lftp takes from the locale.
    lftp.args(["-c", &script]).env("HOME", home.path()).env("LC_ALL", "C.UTF-8");
    let output = lftp.output().expect("lftp runs");
    assert!(output.status.success(), "{commands}: {}", said(&output));
    said(&output)
}

#[test]
fn lftp_mirrors_both_ways_and_continues() {
    if is_missing("lftp") {
        return;
    }
    let server = with_ftp().start();
    let folder = TempDir::new().expect("a folder");
    let (there, back) = (folder.path().join("there"), folder.path().join("back"));
    fs::create_dir_all(there.join("cam 1/2026")).expect("room");
    for number in 0..20 {
        let path = there.join(format!("cam 1/2026/clip {number}.ts"));
        fs::write(path, pattern(20_000 + number)).expect("room");
    }
    fs::write(there.join("ü.jpg"), pattern(1_000)).expect("room");
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(1_000_000);
    fs::File::open(there.join("ü.jpg")).and_then(|file| file.set_modified(long_ago)).expect("ours");
    lftp(&server, &format!("mirror -R --parallel=3 {} /shots", there.display()));
    lftp(&server, &format!("mirror --parallel=3 /shots {}", back.display()));
    let time = |path: &Path| fs::metadata(path).and_then(|facts| facts.modified()).expect("a time");
    let seconds = |path: &Path| time(path).duration_since(std::time::SystemTime::UNIX_EPOCH).expect("later").as_secs();
    assert_eq!(seconds(&server.root.join("shots/ü.jpg")), seconds(&there.join("ü.jpg")), "by MFMT");
    let same = Command::new("diff").arg("-r").arg(&there).arg(&back).output().expect("diff runs");
    assert!(same.status.success(), "{}", said(&same));

    let whole = pattern(500_000);
    let (up, down) = (folder.path().join("up"), folder.path().join("down"));
    fs::write(&up, &whole).expect("room");
    server.file("part", &whole[..200_000]);
    server.file("all", &whole);
    fs::write(&down, &whole[..100_000]).expect("room");
    lftp(&server, &format!("put -c {} -o part; get -c all -o {}", up.display(), down.display()));
    assert!(fs::read(server.root.join("part")).expect("there") == whole, "an upload that continued");
    assert!(fs::read(&down).expect("there") == whole, "a download that continued");
}

/// Settings of a server with both kinds of FTP, and a certificate of its own.
fn with_tls() -> Setup {
    with_ftp().set("ftp.implicit_listen=127.0.0.1:0").set("ftp.tls=required").set("tls.self_signed=true")
}

#[test]
fn sealed_connections_store_and_read() {
    let server = with_tls().start();
    let (explicit, implicit) = (address(&server, "ftp"), address(&server, "ftps"));
    let folder = TempDir::new().expect("a folder");
    let bytes = pattern(3_000_000);
    let (source, back) = (folder.path().join("film.ts"), folder.path().join("back.ts"));
    fs::write(&source, &bytes).expect("room");
    let (from, to) = (source.to_str().expect("UTF-8"), back.to_str().expect("UTF-8"));
    for (number, url) in [format!("ftp://{explicit}/a.ts"), format!("ftps://{implicit}/b.ts")].iter().enumerate() {
        for arguments in [["-T", from, url.as_str()], ["-o", to, url.as_str()]] {
            let mut curl = Command::new("curl");
            let output = curl.args(["-sS", "-k", "--ssl-reqd", "--max-time", "60"]).args(arguments).output();
            let output = output.expect("curl runs");
            assert!(output.status.success(), "{arguments:?}: {}", said(&output));
        }
        assert!(fs::read(&back).expect("read") == bytes, "{number}");
    }
    let script = format!(
        "import ftplib, io, ssl\nc = ssl._create_unverified_context()\nf = ftplib.FTP_TLS(context=c)\n\
         f.connect('127.0.0.1', {})\nf.login()\nf.prot_p()\nf.storbinary('STOR c', io.BytesIO(b'x' * 100000))\n\
         got = []\nf.retrbinary('RETR c', got.append)\nassert b''.join(got) == b'x' * 100000\n\
         assert sorted(f.nlst()) == ['a.ts', 'b.ts', 'c']\n\
         # The data connection ends without the end that TLS has.\n\
         d = f.transfercmd('STOR half')\nd.sendall(b'y' * 100000)\nd = ssl.SSLSocket.detach(d)\nimport os\nos.close(d)\n\
         try:\n    f.voidresp()\n    raise SystemExit('stored')\nexcept ftplib.error_temp as e:\n    assert str(e).startswith('426'), e\n\
         assert sorted(f.nlst()) == ['a.ts', 'b.ts', 'c']\nf.quit()\n",
        explicit.port()
    );
    let output = Command::new("python3").args(["-c", &script]).output().expect("python3 runs");
    assert!(output.status.success(), "{}", said(&output));
    if is_missing("lftp") {
        return;
    }
    let secure = "set ssl:verify-certificate no; set ftp:ssl-force yes; set ftp:ssl-allow-anonymous yes";
    let script =
        format!("{secure}; set net:max-retries 2; open ftp://{explicit}; get a.ts -o {to}.lftp; put {from} -o d.ts");
    let output = Command::new("lftp").args(["-c", &script]).env("HOME", folder.path()).output().expect("lftp runs");
    assert!(output.status.success(), "{}", said(&output));
    assert!(fs::read(format!("{to}.lftp")).expect("read") == bytes);
    assert!(fs::read(server.root.join("d.ts")).expect("stored") == bytes);
}

#[test]
fn nothing_in_the_clear_counts_where_tls_is_required() {
    let server = with_tls().start();
    let mut ftp = Ftp::connect(address(&server, "ftp"));
    assert_eq!(ftp.reply().0, 220);
    assert_eq!((ftp.ask("USER anonymous").0, ftp.ask("RETR a").0, ftp.ask("PROT P").0), (530, 530, 530));
    assert!(ftp.ask("FEAT").1.contains(" AUTH TLS\r\n"));
    // Commands behind AUTH TLS, as a program on the way would put them there (CVE-2011-4130), are no handshake.
    let script = format!(
        "import socket, ssl\nc = ssl._create_unverified_context()\n\
         def begin(behind):\n  s = socket.create_connection(('127.0.0.1', {}))\n  f = s.makefile('rb')\n  \
         assert f.readline().startswith(b'220')\n  s.sendall(b'AUTH TLS\\r\\n' + behind)\n  \
         assert f.readline().startswith(b'234')\n  return c.wrap_socket(s)\n\
         try:\n  begin(b'USER anonymous\\r\\nPASS x\\r\\nMKD evil\\r\\n')\n  raise SystemExit('it is one')\n\
         except OSError:\n  pass\n\
         t = begin(b'')\nt.sendall(b'NOOP\\r\\nMKD evil\\r\\n')\nr = t.makefile('rb')\n\
         assert r.readline().startswith(b'200') and r.readline().startswith(b'530')\n\
         t.sendall(b'USER anonymous\\r\\nPASS x\\r\\nPASV\\r\\nNLST\\r\\nPROT C\\r\\n')\n\
         codes = [r.readline()[:3] for _ in range(5)]\nassert codes == [b'331', b'230', b'227', b'522', b'534'], codes\n",
        address(&server, "ftp").port()
    );
    let output = Command::new("python3").args(["-c", &script]).output().expect("python3 runs");
    assert!(output.status.success(), "{}", said(&output));
    assert!(server.names().is_empty());
}

#[test]
fn the_commands_of_filezilla_have_their_answers() {
    let server = with_ftp().start();
    server.file("a.ts", b"abc");
    let mut ftp = Ftp::connect(address(&server, "ftp"));
    assert_eq!(ftp.reply().0, 220);
    // FileZilla 3.66, plain FTP: it tries both kinds of TLS first.
    for (command, code) in [
        ("AUTH TLS", 502),
        ("AUTH SSL", 502),
        ("USER anonymous", 331),
        ("PASS anonymous@example.com", 230),
        ("SYST", 215),
        ("FEAT", 211),
        ("OPTS UTF8 ON", 200),
        ("PWD", 257),
        ("CWD /", 250),
        ("TYPE I", 200),
    ] {
        assert_eq!(ftp.ask(command).0, code, "{command}");
    }
    let (code, text) = ftp.ask("PASV");
    let numbers: Vec<u16> = text.split(['(', ')']).nth(1).expect("numbers").split(',').flat_map(str::parse).collect();
    assert_eq!((code, &numbers[..4]), (227, [127, 0, 0, 1].as_slice()));
    let mut data = TcpStream::connect(("127.0.0.1", numbers[4] * 256 + numbers[5])).expect("a data connection");
    assert_eq!(ftp.ask("MLSD").0, 150);
    let mut listed = String::new();
    data.read_to_string(&mut listed).expect("all of it");
    assert!(listed.contains("; a.ts\r\n"), "{listed}");
    assert_eq!(ftp.reply().0, 226);
    assert_eq!((ftp.ask("CWD new").0, ftp.ask("MKD new").0, ftp.ask("CWD new").0), (550, 257, 250));
    assert_eq!((ftp.ask("SIZE b.ts").0, ftp.store("STOR b.ts", b"x").0, ftp.ask("MDTM b.ts").0), (550, 226, 213));
    assert_eq!((ftp.ask("SITE CHMOD 644 b.ts").0, ftp.ask("STAT").0, ftp.ask("QUIT").0), (504, 211, 221));
}

#[test]
fn contents_of_a_volume_are_stored_and_have_their_times() {
    let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let disks = disks(folder.path(), 2);
    volume(&["create", "--name", "films", "--layout", "mirror", "--unit", "1MiB", "--yes"], &disks);
    let setup = Setup::on(&[], &folder.path().join("state"), &["--volume", &joined(&disks)]);
    let server = setup.set("ftp.listen=127.0.0.1:0").start();
    let bytes = pattern(1_500_000);
    let mut ftp = Ftp::anonymous(&server);
    assert_eq!((ftp.ask("MKD a").0, ftp.ask("CWD a").0, ftp.store("STOR b.ts", &bytes).0), (257, 250, 226));
    assert_eq!(ftp.ask("MFMT 20200102030405 b.ts").0, 213);
    let listed = String::from_utf8(ftp.fetch("MLSD")).expect("UTF-8");
    assert_eq!(listed, "type=file;size=1500000;modify=20200102030405; b.ts\r\n");
    assert_eq!(ftp.store("APPE b.ts", b"more").0, 226);
    assert!(ftp.fetch("RETR b.ts") == [&bytes[..], b"more"].concat());
    assert_eq!((ftp.ask("RNFR b.ts").0, ftp.ask("RNTO /c.ts").0, ftp.ask("RMD /a").0), (350, 250, 250));
}
