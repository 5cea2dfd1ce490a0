//! SNMP: this server as a subagent of the machine's own agent (AgentX, RFC 2741), with the objects of packaging/ISOCAST-MIB.txt.
//!
//! Promise: an agent that is absent, slow, restarted or faulty costs the server nothing but one line of log and a try now and then; the
//! objects are read from the same figures as `/metrics`. Not here: messages (`agentx`), rights to read (the agent's own settings).

mod address;
mod objects;
mod traps;

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agentx::{AgentxEffect, AgentxHeader, AgentxSession, AgentxSettings, HEADER_BYTES};
use anyhow::{Context as _, bail};
use bytes::BytesMut;
use service::MediaService;
use service::access::{Permit, ToObserve};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

pub use address::AgentxAddress;

/// Before the second try to reach the agent; each pause is twice the one before …
const PAUSE: Duration = Duration::from_secs(1);
/// … up to this.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// A silent agent is pinged after this time; after as long again it is given up.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// Longest wait for a connection, and for the agent to take a message.
const SEND_MAX: Duration = Duration::from_secs(5);

/// The subagent.
pub struct Snmp {
    service: Arc<MediaService>,
    permit: Permit<ToObserve>,
    notice: fn(&str),
    running: Mutex<Option<Subagent>>,
}

/// The task that speaks with the agent there.
struct Subagent {
    address: AgentxAddress,
    speaking: JoinHandle<()>,
}

impl Drop for Subagent {
    fn drop(&mut self) {
        self.speaking.abort();
    }
}

impl Snmp {
    /// Begins on the current runtime, if an agent is named. Managers see the objects that `permit` allows; `notice` shows the operator that
    /// the agent cannot be reached.
    #[must_use]
    pub fn start(
        address: Option<&AgentxAddress>,
        service: &Arc<MediaService>,
        permit: Permit<ToObserve>,
        notice: fn(&str),
    ) -> Self {
        let snmp = Self { service: Arc::clone(service), permit, notice, running: Mutex::default() };
        snmp.configure(address);
        snmp
    }

    /// From now on with the agent there.
    pub fn configure(&self, address: Option<&AgentxAddress>) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.as_ref().map(|running| &running.address) != address {
            *running = address.map(|address| Subagent {
                address: address.clone(),
                speaking: tokio::spawn(speak(
                    address.clone(),
                    Arc::clone(&self.service),
                    (self.permit.clone(), self.notice),
                )),
            });
        }
    }
}

/// Speaks with the agent, again and again.
async fn speak(address: AgentxAddress, service: Arc<MediaService>, (permit, notice): (Permit<ToObserve>, fn(&str))) {
    // Of tries that fail one after the other, the first is reported.
    let (mut pause, mut told) = (PAUSE, false);
    loop {
        let mut registered = false;
        let ended = match connect(&address).await {
            Ok(stream) => {
                let connection = AgentConnection { stream, came: BytesMut::new(), service: &service, permit: &permit };
                connection.serve(&mut registered).await.with_context(|| format!("the agent at {address}"))
            }
            Err(error) => Err(error.context(format!("no agent at {address}"))),
        };
        if registered {
            (pause, told) = (PAUSE, false);
        }
        let Err(error) = ended;
        if !std::mem::replace(&mut told, true) {
            notice(&format!("SNMP: {error:#}; tried again, at least every {} s", PAUSE_MAX.as_secs()));
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// A connection of either kind.
trait AgentStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> AgentStream for S {}

async fn connect(address: &AgentxAddress) -> anyhow::Result<Box<dyn AgentStream>> {
    Ok(match address {
        AgentxAddress::Unix(path) => Box::new(timeout(SEND_MAX, UnixStream::connect(path)).await??),
        AgentxAddress::Tcp(address) => Box::new(timeout(SEND_MAX, TcpStream::connect(address)).await??),
    })
}

/// A connection to the agent.
struct AgentConnection<'a> {
    stream: Box<dyn AgentStream>,
    /// Bytes received that are not a whole message yet: bounded by the longest message.
    came: BytesMut,
    service: &'a MediaService,
    permit: &'a Permit<ToObserve>,
}

impl AgentConnection<'_> {
    /// Answers until the agent is no more.
    async fn serve(mut self, registered: &mut bool) -> anyhow::Result<Infallible> {
        let (mut session, open) = AgentxSession::open(AgentxSettings {
            description: concat!("Isocast ", env!("CARGO_PKG_VERSION")).to_owned(),
            root: objects::root(),
            answer_seconds: 5,
        });
        self.send(&open).await?;
        let (mut heard, mut asked) = (Instant::now(), false);
        let latest = self.service.latest_events(self.permit);
        let mut last = latest.last();
        let mut seen = *last.borrow_and_update();
        loop {
            tokio::select! {
                _ = last.changed() => {
                    last.borrow_and_update();
                    for (number, line) in latest.after(seen, self.permit) {
                        seen = number;
                        let notification = traps::notification(&line, || objects::all(self.service, self.permit));
                        if let Some((name, variables)) = notification.filter(|_| *registered) {
                            let notify = session.notify(&name, &variables);
                            self.send(&notify).await?;
                        }
                    }
                }
                came = self.stream.read_buf(&mut self.came) => {
                    if came? == 0 {
                        bail!("it ended the connection");
                    }
                    (heard, asked) = (Instant::now(), false);
                    self.answer(&mut session, registered).await?;
                }
                () = tokio::time::sleep_until(heard + SILENCE_MAX) => {
                    if asked || !*registered {
                        bail!("it does not answer");
                    }
                    (heard, asked) = (Instant::now(), true);
                    let ping = session.ping();
                    self.send(&ping).await?;
                }
            }
        }
    }

    /// Takes the whole messages that came.
    async fn answer(&mut self, session: &mut AgentxSession, registered: &mut bool) -> anyhow::Result<()> {
        while let Some(head) = self.came.first_chunk::<HEADER_BYTES>() {
            let header = AgentxHeader::read(head)?;
            let whole = HEADER_BYTES + usize::try_from(header.payload_bytes)?;
            if self.came.len() < whole {
                self.came.reserve(whole - self.came.len());
                break;
            }
            let message = self.came.split_to(whole);
            match session.take(&header, &message[HEADER_BYTES..], || objects::all(self.service, self.permit))? {
                AgentxEffect::None => {}
                AgentxEffect::Send(bytes) => self.send(&bytes).await?,
                AgentxEffect::Registered => *registered = true,
                AgentxEffect::NotTaken(why) => bail!("it does not take a notification: {why}"),
            }
        }
        Ok(())
    }

    async fn send(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        timeout(SEND_MAX, self.stream.write_all(bytes)).await.context("it does not read")??;
        Ok(())
    }
}
