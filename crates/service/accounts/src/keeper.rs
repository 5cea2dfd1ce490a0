//! The thread of a server that has the database, and the socket by which commands announce their changes.
//!
//! Promise: no caller waits for the database on its own thread; changes that wait become durable together; a change by a command is in
//! force when [`announce`] returns, and an unannounced change within [`LOOK_PERIOD`]. Not here: the changes (`apply`).

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use api::{AccountEntry, GroupEntry, LinkEntry, TokenEntry};
use rusqlite::Connection;
use service::account_changes::{AccountChange, AccountStore, ChangeError, Changed, ListPart, PendingChange, Waiting};
use service::accounts::{Accounts, FolderRights};
use service::contents::ContentPath;
use tokio::sync::oneshot;

use crate::apply::ChangeAuthor;
use crate::database::{Database, DatabaseError};

/// The socket in the state folder.
const SOCKET: &str = "accounts.sock";
/// Changes that wait at once.
const WAITING_MAX: usize = 1024;
/// Changes that become durable together at most.
const TOGETHER_MAX: usize = 256;
/// Period of the look for changes that were not announced.
const LOOK_PERIOD: Duration = Duration::from_secs(1);
/// Period in which uses of tokens are written, and expired tokens, logins, links and reservations end.
const CARE_PERIOD: Duration = Duration::from_secs(60);
/// Longest wait of a command for the server.
const ANNOUNCE_TIME_MAX: Duration = Duration::from_secs(5);
/// Longest wait for the announcement of a connected command: less than another waits behind it.
const ANNOUNCED_TIME_MAX: Duration = Duration::from_secs(2);
/// Longest line of a command, bytes.
const ANNOUNCED_BYTES_MAX: usize = 32 * 1024;
/// First word of the line of a command that is about to make a link.
const SHARES: &str = "shares";

/// A line of a command to the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandNotice<'a> {
    /// It made a change: the call of the API that makes such a one, and its path below `/api/v1`.
    Made(&'a str, &'a str),
    /// It is about to make a link with these rights.
    Shares(FolderRights),
}

/// Takes lines of commands, and gives its objections.
type CommandEar = Box<dyn Fn(CommandNotice<'_>) -> Option<String> + Send + Sync>;

/// An order to the thread.
enum KeeperOrder {
    Change(AccountChange, oneshot::Sender<Result<Changed, ChangeError>>),
    /// Reads entries or writes lines, and answers by itself.
    Work(Box<dyn FnOnce(&Database) + Send>),
    /// Another program changed the database; the sender is dropped when that is in force.
    Look(SyncSender<()>),
    /// The server stops; the sender is dropped when uses of tokens and all ends are written.
    Care(SyncSender<()>),
}

/// The accounts of a server: facts in memory, and the thread that keeps them.
pub struct Keeper {
    orders: SyncSender<KeeperOrder>,
    /// Tokens that were used since the thread wrote them last, with the time.
    used: Arc<Mutex<HashMap<i64, u64>>>,
    accounts: Arc<Accounts>,
    socket: PathBuf,
    ear: Arc<OnceLock<CommandEar>>,
}

/// The reason why accounts cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum KeeperError {
    /// The database.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// The thread or the socket.
    #[error("cannot keep accounts: {0}")]
    Io(#[from] io::Error),
}

impl Keeper {
    /// Opens the database of the state folder, takes `users` of the configuration over, and puts the accounts in force in `accounts`. The
    /// thread ends with the last reference.
    ///
    /// # Errors
    /// The database or the socket cannot be used.
    pub fn start(state: &Path, users: &[(String, String)], accounts: &Arc<Accounts>) -> Result<Arc<Self>, KeeperError> {
        let mut database = Database::open(state)?;
        database.take_over(users, accounts.now())?;
        accounts.put(database.facts()?);
        let (orders, waiting) = sync_channel(WAITING_MAX);
        let used = Arc::<Mutex<HashMap<i64, u64>>>::default();
        let work = KeeperThread {
            seen: database.version()?,
            database,
            accounts: Arc::clone(accounts),
            used: Arc::clone(&used),
            cared: Instant::now(),
        };
        std::thread::Builder::new().name("accounts".to_owned()).spawn(move || work.run(&waiting))?;
        let socket = state.join(SOCKET);
        let ear = Arc::<OnceLock<CommandEar>>::default();
        listen(&socket, orders.clone(), Arc::clone(&ear));
        Ok(Arc::new(Self { orders, used, accounts: Arc::clone(accounts), socket, ear }))
    }

    /// Passes lines of commands to `ear` from now on, which may object to a change before it is made. Has no effect the second time.
    pub fn hear(&self, ear: impl Fn(CommandNotice<'_>) -> Option<String> + Send + Sync + 'static) {
        let _ = self.ear.set(Box::new(ear));
    }

    /// Takes over users that came into the configuration.
    ///
    /// # Errors
    /// None was taken over.
    pub fn take_over(state: &Path, users: &[(String, String)], accounts: &Accounts) -> Result<(), KeeperError> {
        let made = Database::open(state)?.take_over(users, accounts.now())?;
        if !made.is_empty() {
            announce(state, None);
        }
        Ok(())
    }
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper").field("socket", &self.socket).finish_non_exhaustive()
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let (done, waits) = sync_channel(1);
        if self.orders.send(KeeperOrder::Care(done)).is_ok() {
            let _ = waits.recv();
        }
        let _ = fs::remove_file(&self.socket);
    }
}

impl Keeper {
    /// Works on the tables, on their thread; waits for that.
    ///
    /// # Errors
    /// That of the work, or the thread has ended.
    pub(crate) fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let ended = || io::Error::other("the thread of the database has ended");
        let (reply, waits) = sync_channel(1);
        let order = KeeperOrder::Work(Box::new(move |database| {
            let _ = reply.send(database.with_shared(work));
        }));
        self.orders.send(order).map_err(|_| ended())?;
        waits.recv().map_err(|_| ended())?.map_err(io::Error::other)
    }

    /// Sends the thread an order, which answers by the sender that it is given.
    fn order<T: Send + 'static>(
        &self,
        order: impl FnOnce(oneshot::Sender<Result<T, ChangeError>>) -> KeeperOrder,
    ) -> Waiting<'_, T> {
        let (reply, waits) = oneshot::channel();
        let sent = self.orders.try_send(order(reply));
        Box::pin(async move {
            let busy = || ChangeError::Unavailable("too many changes wait; try again later".to_owned());
            sent.map_err(|_| busy())?;
            waits.await.unwrap_or_else(|_| Err(busy()))
        })
    }

    fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Database) -> Result<T, DatabaseError> + Send + 'static,
    ) -> Waiting<'_, T> {
        self.order(|reply| {
            KeeperOrder::Work(Box::new(move |database| {
                let found = read(database).map_err(|error| ChangeError::Unavailable(error.to_string()));
                let _ = reply.send(found);
            }))
        })
    }
}

impl AccountStore for Keeper {
    fn change(&self, change: AccountChange) -> PendingChange<'_> {
        self.order(|reply| KeeperOrder::Change(change, reply))
    }

    fn accounts(&self, part: ListPart<String>) -> Waiting<'_, Vec<AccountEntry>> {
        self.read(move |database| database.accounts(&part))
    }

    fn groups(&self, part: ListPart<String>) -> Waiting<'_, Vec<GroupEntry>> {
        self.read(move |database| database.groups(&part))
    }

    fn tokens(&self, of: Option<String>, part: ListPart<i64>) -> Waiting<'_, Vec<TokenEntry>> {
        self.read(move |database| database.tokens(of.as_deref(), &part))
    }

    fn links(&self, by: Option<String>, part: ListPart<i64>) -> Waiting<'_, Vec<LinkEntry>> {
        self.read(move |database| database.links(by.as_deref(), &part))
    }

    fn stored(&self) -> Waiting<'_, HashMap<String, u64>> {
        self.read(Database::stored)
    }

    fn token_used(&self, id: i64) {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).insert(id, self.accounts.now());
    }
}

struct KeeperThread {
    database: Database,
    accounts: Arc<Accounts>,
    used: Arc<Mutex<HashMap<i64, u64>>>,
    /// `PRAGMA data_version` of the facts in force.
    seen: i64,
    cared: Instant,
}

impl KeeperThread {
    fn run(mut self, waiting: &Receiver<KeeperOrder>) {
        loop {
            match waiting.recv_timeout(LOOK_PERIOD) {
                Ok(first) => self.obey(first, waiting),
                Err(RecvTimeoutError::Timeout) => {
                    let _ = self.look();
                }
                Err(RecvTimeoutError::Disconnected) => return self.care(),
            }
            if self.cared.elapsed() >= CARE_PERIOD {
                self.care();
            }
        }
    }

    /// Makes all changes that wait, up to a limit, as one set.
    fn obey(&mut self, first: KeeperOrder, waiting: &Receiver<KeeperOrder>) {
        let (mut changes, mut replies, mut looks, mut works) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut cares = Vec::new();
        for order in std::iter::once(first).chain(waiting.try_iter().take(TOGETHER_MAX)) {
            match order {
                KeeperOrder::Change(change, reply) => {
                    changes.push(change);
                    replies.push(reply);
                }
                KeeperOrder::Look(look) => looks.push(look),
                KeeperOrder::Care(care) => cares.push(care),
                KeeperOrder::Work(work) => works.push(work),
            }
        }
        if !looks.is_empty() {
            let _ = self.look();
            drop(looks);
        }
        self.make(&changes, replies);
        for work in works {
            work(&self.database);
        }
        if !cares.is_empty() {
            self.care();
        }
    }

    /// Makes changes as one set, puts them in force and answers.
    fn make(&mut self, changes: &[AccountChange], replies: Vec<oneshot::Sender<Result<Changed, ChangeError>>>) {
        if changes.is_empty() {
            return;
        }
        let is_count = |change| matches!(change, &AccountChange::UseLink { .. } | &AccountChange::Store { .. });
        let counts_only = changes.iter().all(is_count);
        let made = self.database.apply(changes, ChangeAuthor::Client, self.accounts.now()).and_then(|results| {
            // Counts of uses and of stored bytes are facts of no request.
            if !counts_only {
                self.accounts.put(self.database.facts()?);
            }
            Ok(results)
        });
        let results = made.unwrap_or_else(|error| {
            let reason = ChangeError::Unavailable(error.to_string());
            changes.iter().map(|_| Err(reason.clone())).collect()
        });
        for (reply, result) in replies.into_iter().zip(results) {
            let _ = reply.send(result);
        }
    }

    /// Puts changes of other programs in force.
    fn look(&mut self) -> Result<(), DatabaseError> {
        let version = self.database.version()?;
        if version != self.seen {
            self.accounts.put(self.database.facts()?);
            self.seen = version;
        }
        Ok(())
    }

    fn care(&mut self) {
        self.cared = Instant::now();
        let used = std::mem::take(&mut *self.used.lock().unwrap_or_else(PoisonError::into_inner));
        let used: Vec<(i64, u64)> = used.into_iter().collect();
        // If the database is locked or its disk is full, the next time is soon enough; times of tokens' uses are lost.
        let _ = self.database.look_after(&used, self.accounts.now());
        // A login lasts for as long as it is used.
        if !used.is_empty()
            && let Ok(facts) = self.database.facts()
        {
            self.accounts.put(facts);
        }
    }
}

impl Database {
    /// A number that changes with each change by another program.
    fn version(&self) -> Result<i64, DatabaseError> {
        self.with_shared(|connection| connection.query_row("PRAGMA data_version", [], |row| row.get(0)))
    }
}

/// Takes announcements at the socket. Without it (its path may be too long for one) changes are in force within [`LOOK_PERIOD`].
fn listen(socket: &Path, orders: SyncSender<KeeperOrder>, ear: Arc<OnceLock<CommandEar>>) {
    let _ = fs::remove_file(socket);
    let Ok(listener) = UnixListener::bind(socket) else { return };
    let take = move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let (look, seen) = sync_channel(0);
            if orders.send(KeeperOrder::Look(look)).is_err() {
                return;
            }
            let _ = seen.recv();
            // A program that announces no change has it in force all the same.
            let line = line(&mut stream).unwrap_or_default();
            let objection = ear.get().zip(CommandNotice::read(line.trim_end())).and_then(|(ear, line)| ear(line));
            let answer = objection.unwrap_or_default() + "\n";
            let _ =
                stream.set_write_timeout(Some(ANNOUNCE_TIME_MAX)).and_then(|()| stream.write_all(answer.as_bytes()));
        }
    };
    let _ = std::thread::Builder::new().name("accounts-socket".to_owned()).spawn(take);
}

impl<'a> CommandNotice<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let (call, about) = line.split_once(' ')?;
        if call != SHARES {
            return Some(Self::Made(call, about));
        }
        let (rights, folder) = about.split_once(' ')?;
        Some(Self::Shares(FolderRights { folder: ContentPath::parse(folder).ok()?, rights: rights.parse().ok()? }))
    }
}

/// A line of a program.
fn line(stream: &mut UnixStream) -> io::Result<String> {
    let until = Instant::now() + ANNOUNCED_TIME_MAX;
    let (mut line, mut byte) = (Vec::new(), [0]);
    while byte != *b"\n" && line.len() < ANNOUNCED_BYTES_MAX {
        // A time of zero is an error.
        stream.set_read_timeout(Some(until.saturating_duration_since(Instant::now())))?;
        stream.read_exact(&mut byte)?;
        line.extend(byte);
    }
    String::from_utf8(line).map_err(io::Error::other)
}

/// Waits until a server that has this state folder has put the changes of this program in force, and has logged `change`. False: no server
/// runs, or it does not answer within 5 s.
pub fn announce(state: &Path, change: Option<&AccountChange>) -> bool {
    let call = change.and_then(AccountChange::call).map_or_else(String::new, |(call, about)| format!("{call} {about}"));
    say(state, &call).is_ok()
}

/// The objection to a link with these rights of a server that has this state folder.
///
/// # Errors
/// No server runs, or it does not answer within 5 s.
pub fn link_objection(state: &Path, given: &FolderRights) -> io::Result<Option<String>> {
    let line = format!("{SHARES} {} {}", given.rights, given.folder);
    // A name with a line feed is not asked about.
    let objection = if line.contains('\n') { String::new() } else { say(state, &line)? };
    Ok((!objection.is_empty()).then_some(objection))
}

/// Sends a line to the server that has this state folder. Gives its answer.
fn say(state: &Path, line: &str) -> io::Result<String> {
    let mut stream = UnixStream::connect(state.join(SOCKET))?;
    stream.set_read_timeout(Some(ANNOUNCE_TIME_MAX))?;
    writeln!(stream, "{line}")?;
    let mut answer = String::new();
    match BufReader::new(stream).read_line(&mut answer)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(answer.trim_end().to_owned()),
    }
}
