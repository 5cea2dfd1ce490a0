//! One control connection: commands in their order, and their replies.
//!
//! Promise: the state from before TLS is dropped when TLS begins; during a transfer the control connection is read, so that
//! ABOR, or the end of the connection, ends the transfer; a silent connection is closed. Not here: the effect on contents
//! (`names`, `transfer`).

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use service::contents::{ContentPath, NameKind};
use service::delivery::Client;
use tls::HANDSHAKE_TIME_MAX;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use units::BitRate;

use crate::command::{CommandError, EpsvKind, FtpCommand};
use crate::control::{ControlStream, Duplex, FtpReply};
use crate::data::{self, DataWay};
use crate::listing::ListingForm;
use crate::login::FtpClient;
use crate::names::{self, resolve};
use crate::problem;
use crate::shared::{FtpShared, FtpTls};
use crate::transfer::{self, DataTransfer, StoreFrom, TransferRoute};

/// Longest time from the beginning of a connection to a login.
const LOGIN_TIME_MAX: Duration = Duration::from_secs(60);
/// Longest time between two commands, as in other servers (vsftpd's `idle_session_timeout`).
const IDLE_TIME_MAX: Duration = Duration::from_secs(300);
/// Wrong passwords after which a connection is closed.
const WRONG_LOGINS_MAX: u32 = 3;
/// Commands that may wait during a transfer; then no more are read.
const WAITING_MAX: usize = 16;
/// Least port of a client's data connection: lower ports belong to other services (RFC 2577 §3).
const CLIENT_PORT_MIN: u16 = 1024;

/// Serves the connection of the client `peer` to its end; `socket_peer` is the other end of the socket, perhaps a proxy.
pub(crate) async fn serve(
    shared: Arc<FtpShared>,
    stream: TcpStream,
    (peer, socket_peer): (SocketAddr, IpAddr),
    is_implicit: bool,
) {
    let Ok(local) = stream.local_addr() else { return };
    let is_proxy = shared.settings().trusted_proxies.has(peer.ip());
    let ends = Client { address: peer.ip(), local: local.ip().to_canonical(), is_proxy };
    let hello = FtpReply::new(220, "Isocast");
    let mut stream = stream;
    if !is_implicit {
        let mut control = ControlStream::new(stream);
        let mut session = FtpSession::new(&shared, (ends, socket_peer), peer, false);
        if control.reply(&hello).await.is_none() || !session.converse(&mut control).await {
            return;
        }
        stream = control.into_stream();
    }
    let Some(acceptor) = &shared.acceptor else { return };
    let Ok(stream) = acceptor.begin().seal(stream, HANDSHAKE_TIME_MAX).await else {
        shared.service.connection_stats.handshakes_failed.fetch_add(1, Ordering::Relaxed);
        return;
    };
    let mut control = ControlStream::new(stream);
    let mut session = FtpSession::new(&shared, (ends, socket_peer), peer, true);
    session.is_private = is_implicit;
    if is_implicit && control.reply(&hello).await.is_none() {
        return;
    }
    session.converse(&mut control).await;
    control.end().await;
}

/// State of a control connection, from its beginning or from TLS on.
struct FtpSession {
    shared: Arc<FtpShared>,
    client: FtpClient,
    /// The viewer of its transfers.
    viewer: String,
    is_sealed: bool,
    login: LoginState,
    login_until: Instant,
    folder: ContentPath,
    /// Data connections are sealed.
    is_private: bool,
    /// `EPSV ALL` was sent.
    only_epsv: bool,
    way: Option<DataWay>,
    rest: u64,
    rename_from: Option<ContentPath>,
    rate: Option<BitRate>,
    /// Commands received during a transfer.
    waiting: VecDeque<Result<FtpCommand, CommandError>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum LoginState {
    None { wrong: u32 },
    Named { name: String, wrong: u32 },
    Done,
}

/// Effect of a command.
enum FtpAnswer {
    Reply(FtpReply),
    Transfer(DataTransfer),
    /// TLS begins behind the reply.
    Seal(FtpReply),
    /// The connection ends behind the reply.
    End(FtpReply),
}

impl FtpSession {
    fn new(shared: &Arc<FtpShared>, (ends, socket_peer): (Client, IpAddr), peer: SocketAddr, is_sealed: bool) -> Self {
        // A name that other clients cannot guess.
        let viewer = format!("ftp {:016x}", shared.service.hash(("ftp", peer, shared.next_number())));
        Self {
            shared: Arc::clone(shared),
            client: FtpClient::new(shared, ends, socket_peer),
            viewer,
            is_sealed,
            login: LoginState::None { wrong: 0 },
            login_until: Instant::now() + LOGIN_TIME_MAX,
            folder: ContentPath::root(),
            is_private: false,
            only_epsv: false,
            way: None,
            rest: 0,
            rename_from: None,
            rate: None,
            waiting: VecDeque::new(),
        }
    }

    /// Answers commands until the connection ends (false) or TLS must begin (true).
    async fn converse<S: Duplex>(&mut self, control: &mut ControlStream<S>) -> bool {
        loop {
            let command = match self.next(control).await {
                Ok(Some(Err(CommandError::Http)) | None) => return false,
                Ok(Some(command)) => command,
                Err(reply) => {
                    control.reply(&reply).await;
                    return false;
                }
            };
            let request = command.as_ref().ok().and_then(|command| self.request(command));
            let answer = match command {
                Ok(command) => self.answer(command).await.unwrap_or_else(FtpAnswer::Reply),
                Err(error) => FtpAnswer::Reply(problem::of_command(&error)),
            };
            let (code, bytes, is_open) = match answer {
                FtpAnswer::Reply(reply) => (reply.code(), 0, control.reply(&reply).await),
                FtpAnswer::Transfer(transfer) => self.carry(control, transfer).await,
                FtpAnswer::Seal(reply) => return control.reply(&reply).await.is_some(),
                FtpAnswer::End(reply) => (reply.code(), 0, control.reply(&reply).await.and(None)),
            };
            if let Some(request) = request {
                self.client.note(request, (code, bytes));
            }
            if is_open.is_none() {
                return false;
            }
        }
    }

    /// The command's line for the access log, if it names a content, a folder or a user.
    fn request(&self, command: &FtpCommand) -> Option<String> {
        match (command, &self.login) {
            (FtpCommand::Pass(_), LoginState::Named { name, .. }) => Some(format!("USER {name} FTP")),
            _ => command.about().map(|(verb, name)| match resolve(&self.folder, name) {
                Ok(path) => format!("{verb} /{} FTP", path.joined()),
                Err(_) => format!("{verb} {name} FTP"),
            }),
        }
    }

    /// The next command; `None`: the connection has ended.
    ///
    /// # Errors
    /// The reply before the connection is closed.
    async fn next<S: Duplex>(
        &mut self,
        control: &mut ControlStream<S>,
    ) -> Result<Option<Result<FtpCommand, CommandError>>, FtpReply> {
        if let Some(waiting) = self.waiting.pop_front() {
            return Ok(Some(waiting));
        }
        let until = if self.login == LoginState::Done { Instant::now() + IDLE_TIME_MAX } else { self.login_until };
        tokio::select! {
            biased;
            () = self.shared.drains() => Err(FtpReply::new(421, "the server is about to stop")),
            command = timeout_at(until, control.next()) => {
                command.map_err(|_| FtpReply::new(421, "the connection was idle for too long"))
            }
        }
    }

    /// Runs a transfer and replies at its end. Returns the reply's code, the bytes transferred, and `None` if the control
    /// connection has ended.
    async fn carry<S: Duplex>(
        &mut self,
        control: &mut ControlStream<S>,
        transfer: DataTransfer,
    ) -> (u16, u64, Option<()>) {
        let settings = self.shared.settings();
        let Some(way) = self.way.take() else {
            let reply = FtpReply::new(425, "PASV, EPSV, PORT or EPRT comes first");
            return (reply.code(), 0, control.reply(&reply).await);
        };
        let carried = AtomicU64::new(0);
        let route = TransferRoute {
            seal: self.shared.data_acceptor.as_ref().filter(|_| self.is_private),
            stall_max: settings.stall_max,
            upload_idle_max: settings.upload_idle_max,
            carried: &carried,
        };
        let mut is_open = control.reply(&FtpReply::new(150, "the transfer begins on the data connection")).await;
        // Boxed, so that an idle connection does not hold memory for it.
        let mut running = Box::pin(transfer.run(&self.client, way, route));
        let ended = loop {
            if is_open.is_none() {
                break None;
            }
            tokio::select! {
                biased;
                command = control.next(), if self.waiting.len() < WAITING_MAX => match command {
                    Some(Ok(FtpCommand::Abor)) => break None,
                    Some(other) => self.waiting.push_back(other),
                    None => is_open = None,
                },
                reply = &mut running => break Some(reply),
            }
        };
        // The transfer is dropped before the reply is sent.
        drop(running);
        let is_aborted = ended.is_none();
        let reply = ended.unwrap_or_else(|| FtpReply::new(426, "the transfer was aborted"));
        if is_open.is_some() {
            is_open = control.reply(&reply).await;
        }
        if is_aborted && is_open.is_some() {
            is_open = control.reply(&FtpReply::new(226, "the transfer has ended")).await;
        }
        (reply.code(), carried.into_inner(), is_open)
    }

    /// Answers a command.
    ///
    /// # Errors
    /// The refusal.
    async fn answer(&mut self, command: FtpCommand) -> Result<FtpAnswer, FtpReply> {
        self.check_order(&command)?;
        let rename_from = self.rename_from.take();
        // Commands for the data connection may come between `REST` and the transfer.
        let rest = if command.is_transfer() { std::mem::take(&mut self.rest) } else { self.rest };
        let reply = |code, text: &str| Ok(FtpAnswer::Reply(FtpReply::new(code, text)));
        match command {
            FtpCommand::User(name) => self.name(name),
            FtpCommand::Pass(password) => self.log_in(&password).await,
            FtpCommand::AuthTls => self.seal(),
            FtpCommand::Pbsz => reply(200, "PBSZ=0"),
            FtpCommand::Prot(is_private) => self.protect(is_private),
            FtpCommand::Quit => Ok(FtpAnswer::End(FtpReply::new(221, "goodbye"))),
            FtpCommand::Syst => reply(215, "UNIX Type: L8"),
            FtpCommand::Noop => reply(200, "done"),
            FtpCommand::Feat => Ok(FtpAnswer::Reply(self.features())),
            FtpCommand::Help => reply(214, "docs/guide/ftp.md lists the commands"),
            FtpCommand::Stat => reply(211, "the connection is open"),
            FtpCommand::OptsUtf8 => reply(200, "names are UTF-8"),
            FtpCommand::OptsMlst => reply(200, "MLST OPTS type;size;modify;"),
            FtpCommand::Type | FtpCommand::Stru | FtpCommand::Mode => reply(200, "contents are sent as they are"),
            FtpCommand::Allo => reply(202, "room is reserved by the upload itself"),
            FtpCommand::Abor => {
                self.way = None;
                reply(226, "no transfer is under way")
            }
            FtpCommand::Rest(byte) => {
                self.rest = byte;
                reply(350, "the next transfer begins at that offset")
            }
            FtpCommand::SiteRate(rate) => Ok(FtpAnswer::Reply(self.pace(rate))),
            FtpCommand::Port(address) => self.active(address).map(FtpAnswer::Reply),
            FtpCommand::Pasv => self.passive().map(FtpAnswer::Reply),
            FtpCommand::Epsv(kind) => self.extended_passive(kind).map(FtpAnswer::Reply),
            FtpCommand::Retr(name) => {
                let path = resolve(&self.folder, &name)?;
                transfer::retrieve(&self.client, &path, (rest, self.rate), &self.viewer).await.map(FtpAnswer::Transfer)
            }
            FtpCommand::Stor(name) => self.store(&name, StoreFrom::Byte(rest)).await,
            FtpCommand::Appe(name) => self.store(&name, StoreFrom::End).await,
            FtpCommand::List(name) => self.list(&name, ListingForm::Long).await,
            FtpCommand::Nlst(name) => self.list(&name, ListingForm::Names).await,
            FtpCommand::Mlsd(name) => self.list(&name, ListingForm::Facts).await,
            named => self.answer_named(named, rename_from).await.map(FtpAnswer::Reply),
        }
    }

    /// Answers a command about a name.
    async fn answer_named(
        &mut self,
        command: FtpCommand,
        rename_from: Option<ContentPath>,
    ) -> Result<FtpReply, FtpReply> {
        let path = |name: &str| resolve(&self.folder, name);
        let client = &self.client;
        match command {
            FtpCommand::Pwd => Ok(FtpReply::new(257, format!("{} is the current folder", names::quoted(&self.folder)))),
            FtpCommand::Cwd(name) => self.go_to(&name).await,
            FtpCommand::Cdup => self.go_to("..").await,
            FtpCommand::Mkd(name) => names::make_folder(client, &path(&name)?).await,
            FtpCommand::Rmd(name) => names::remove(client, &path(&name)?, NameKind::Directory).await,
            FtpCommand::Dele(name) => names::remove(client, &path(&name)?, NameKind::File).await,
            FtpCommand::Size(name) => names::size(client, &path(&name)?).await,
            FtpCommand::Mdtm(name) => names::modified(client, &path(&name)?).await,
            FtpCommand::Mfmt(time, name) => names::modify(client, &path(&name)?, time).await,
            FtpCommand::Mlst(name) => names::describe(client, &path(&name)?).await,
            FtpCommand::Rnfr(name) => {
                let path = path(&name)?;
                let reply = names::leave_name(client, &path).await?;
                self.rename_from = Some(path);
                Ok(reply)
            }
            FtpCommand::Rnto(name) => {
                let from = rename_from.ok_or_else(|| FtpReply::new(503, "RNFR comes first"))?;
                names::rename(client, &from, &path(&name)?).await
            }
            _ => Err(problem::of_command(&CommandError::Unused)),
        }
    }

    /// Commands have an order: TLS where it is required, then a login, then all others.
    fn check_order(&self, command: &FtpCommand) -> Result<(), FtpReply> {
        let is_before_all = matches!(
            command,
            FtpCommand::AuthTls
                | FtpCommand::Quit
                | FtpCommand::Syst
                | FtpCommand::Noop
                | FtpCommand::Feat
                | FtpCommand::Help
                | FtpCommand::OptsUtf8
        );
        if is_before_all {
            return Ok(());
        }
        let requires_tls = self.shared.settings().tls == FtpTls::Required;
        if requires_tls && !self.is_sealed {
            return Err(FtpReply::new(530, "TLS is required here: AUTH TLS comes first"));
        }
        let is_login =
            matches!(command, FtpCommand::User(_) | FtpCommand::Pass(_) | FtpCommand::Pbsz | FtpCommand::Prot(_));
        if !is_login && self.login != LoginState::Done {
            return Err(FtpReply::new(530, "log in first: USER and PASS"));
        }
        if requires_tls && !self.is_private && command.is_transfer() {
            return Err(FtpReply::new(522, "data connections are sealed here: PROT P comes first"));
        }
        Ok(())
    }

    fn name(&mut self, name: String) -> Result<FtpAnswer, FtpReply> {
        let wrong = match self.login {
            LoginState::None { wrong } | LoginState::Named { wrong, .. } => wrong,
            LoginState::Done => return Err(FtpReply::new(530, "this connection has a login already")),
        };
        self.login = LoginState::Named { name, wrong };
        Ok(FtpAnswer::Reply(FtpReply::new(331, "send the password")))
    }

    async fn log_in(&mut self, password: &str) -> Result<FtpAnswer, FtpReply> {
        let LoginState::Named { name, wrong } = &self.login else { return Err(FtpReply::new(503, "USER comes first")) };
        let (name, wrong) = (name.clone(), wrong + 1);
        let takes_passwords = self.is_sealed || self.client.is_here() || self.shared.settings().plain_passwords;
        match self.client.log_in(&name, password, takes_passwords).await {
            Ok(()) => {
                self.login = LoginState::Done;
                Ok(FtpAnswer::Reply(FtpReply::new(230, "welcome")))
            }
            Err(reply) if wrong >= WRONG_LOGINS_MAX => Ok(FtpAnswer::End(reply)),
            Err(reply) => {
                self.login = LoginState::None { wrong };
                Err(reply)
            }
        }
    }

    fn seal(&self) -> Result<FtpAnswer, FtpReply> {
        if self.is_sealed {
            return Err(FtpReply::new(503, "this connection is sealed already"));
        }
        if self.shared.acceptor.is_none() || self.shared.settings().tls == FtpTls::Off {
            return Err(FtpReply::new(502, "this server has no TLS"));
        }
        Ok(FtpAnswer::Seal(FtpReply::new(234, "TLS begins")))
    }

    fn protect(&mut self, is_private: bool) -> Result<FtpAnswer, FtpReply> {
        if !self.is_sealed {
            return Err(FtpReply::new(503, "AUTH TLS comes first"));
        }
        if !is_private && self.shared.settings().tls == FtpTls::Required {
            return Err(FtpReply::new(534, "data connections are sealed here: PROT P"));
        }
        self.is_private = is_private;
        Ok(FtpAnswer::Reply(FtpReply::new(200, if is_private { "data is sealed" } else { "data is not sealed" })))
    }

    fn features(&self) -> FtpReply {
        let mut features =
            ["EPRT", "EPSV", "MDTM", "MFMT", "MLST type*;size*;modify*;", "PASV", "REST STREAM", "SIZE", "TVFS"]
                .map(str::to_owned)
                .to_vec();
        if self.shared.acceptor.is_some() && self.shared.settings().tls != FtpTls::Off {
            features.extend(["AUTH TLS", "PBSZ", "PROT"].map(str::to_owned));
        }
        features.extend(["SITE RATE", "UTF8"].map(str::to_owned));
        FtpReply::list(211, "Features:", features, "End")
    }

    fn pace(&mut self, rate: Option<BitRate>) -> FtpReply {
        self.rate = rate;
        match rate {
            Some(rate) => FtpReply::new(200, format!("each download gets {rate}, or is refused")),
            None => FtpReply::new(200, "downloads get the rate of their folder, or best effort"),
        }
    }

    fn active(&mut self, address: SocketAddr) -> Result<FtpReply, FtpReply> {
        self.check_epsv()?;
        if address.ip().to_canonical() != self.client.ends.address || address.port() < CLIENT_PORT_MIN {
            return Err(FtpReply::new(504, "data connections go to the client itself, from port 1024 on"));
        }
        self.way = Some(DataWay::Active(address));
        Ok(FtpReply::new(200, "data connections go to that address"))
    }

    fn passive(&mut self) -> Result<FtpReply, FtpReply> {
        self.check_epsv()?;
        let own = match self.client.ends.local {
            IpAddr::V4(own) => own,
            IpAddr::V6(_) => return Err(FtpReply::new(425, "this connection is by IPv6: use EPSV")),
        };
        let port = self.listen()?;
        let [a, b, c, d] = self.shared.settings().passive_address.unwrap_or(own).octets();
        let [high, low] = port.to_be_bytes();
        Ok(FtpReply::new(227, format!("Entering Passive Mode ({a},{b},{c},{d},{high},{low})")))
    }

    fn extended_passive(&mut self, kind: EpsvKind) -> Result<FtpReply, FtpReply> {
        let own = if self.client.ends.local.is_ipv4() { 1 } else { 2 };
        match kind {
            EpsvKind::All => {
                self.only_epsv = true;
                Ok(FtpReply::new(200, "only EPSV is accepted from now on"))
            }
            EpsvKind::Kind(kind) if kind != own => {
                Err(FtpReply::new(522, format!("this connection's kind of address is ({own})")))
            }
            EpsvKind::Own | EpsvKind::Kind(_) => {
                let port = self.listen()?;
                Ok(FtpReply::new(229, format!("Entering Extended Passive Mode (|||{port}|)")))
            }
        }
    }

    fn check_epsv(&self) -> Result<(), FtpReply> {
        if self.only_epsv { Err(FtpReply::new(503, "EPSV ALL was sent")) } else { Ok(()) }
    }

    /// Opens a passive port, and closes the one before.
    fn listen(&mut self) -> Result<u16, FtpReply> {
        self.way = None;
        let settings = self.shared.settings();
        let chance = self.shared.service.hash(("passive port", self.shared.next_number()));
        let none = |error: std::io::Error| FtpReply::new(425, format!("no passive port is free: {error}"));
        let listener = data::listen(self.client.ends.local, &settings.passive_ports, chance).map_err(none)?;
        let port = listener.local_addr().map_err(none)?.port();
        self.way = Some(DataWay::Passive(listener));
        Ok(port)
    }

    async fn go_to(&mut self, name: &str) -> Result<FtpReply, FtpReply> {
        let path = resolve(&self.folder, name)?;
        names::enter(&self.client, &path).await?;
        self.folder = path;
        Ok(FtpReply::new(250, "the folder is changed"))
    }

    async fn store(&self, name: &str, from: StoreFrom) -> Result<FtpAnswer, FtpReply> {
        let path = resolve(&self.folder, name)?;
        transfer::store(&self.client, &path, from, &self.viewer).await.map(FtpAnswer::Transfer)
    }

    async fn list(&self, name: &str, form: ListingForm) -> Result<FtpAnswer, FtpReply> {
        let path = resolve(&self.folder, name)?;
        transfer::list(&self.client, &path, form).await.map(FtpAnswer::Transfer)
    }
}
