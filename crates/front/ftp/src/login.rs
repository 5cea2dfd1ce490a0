//! The client of a control connection: its principal, and its permits.
//!
//! Promise: a password is taken over TLS or from this machine only, unless the settings say otherwise; a token may stand for it, as over
//! HTTP. Without a login it is `anonymous`, with the rights of a client that has none. Not here: judging (`service::access`).

use std::net::IpAddr;
use std::sync::Arc;

use service::MediaService;
use service::access::{PathRight, Permit, Principal, RightKind, ToRead, ToWrite};
use service::budget_use::count_request;
use service::contents::ContentPath;
use service::delivery::Client;
use service::logins::TOKEN_PREFIX;
use service::operations::Requester;
use service::requests::{FrontRequests, RequestRecord};

use crate::control::FtpReply;
use crate::problem;
use crate::shared::FtpShared;

/// The client of a control connection.
pub(crate) struct FtpClient {
    pub(crate) service: Arc<MediaService>,
    requests: Arc<FrontRequests>,
    /// The two ends of its connection.
    pub(crate) ends: Client,
    /// The other end of its connections: the client, or the proxy that it comes by.
    pub(crate) socket_peer: IpAddr,
    principal: Principal,
    user: Option<String>,
}

impl FtpClient {
    /// Without a login.
    pub(crate) fn new(shared: &FtpShared, ends: Client, socket_peer: IpAddr) -> Self {
        let (service, requests) = (Arc::clone(&shared.service), Arc::clone(&shared.requests));
        let mut client = Self { service, requests, ends, socket_peer, principal: Principal::Local, user: None };
        if !client.is_here() || !ends.local.is_loopback() {
            client.principal = Principal::Remote("are accepted from this machine only, and through no proxy");
        }
        client
    }

    /// True if it is a program on this machine, and came by no proxy.
    pub(crate) fn is_here(&self) -> bool {
        self.ends.address.is_loopback() && self.ends.address == self.socket_peer && !self.ends.is_proxy
    }

    /// Logs in.
    ///
    /// # Errors
    /// The refusal.
    pub(crate) async fn log_in(&mut self, name: &str, password: &str, takes_passwords: bool) -> Result<(), FtpReply> {
        let wrong = |reason: String| FtpReply::new(530, reason);
        let refused = |reason: String| {
            self.tell_refused(("PASS", "/"), None, &reason);
            FtpReply::new(530, reason)
        };
        if name.eq_ignore_ascii_case("anonymous") {
            let root = ContentPath::root();
            let reads = self.service.permit::<ToRead>(&self.principal, &root).map(drop);
            return reads.or_else(|denied| {
                let writes = self.service.permit::<ToWrite>(&self.principal, &root);
                writes.map(drop).map_err(|_| wrong(denied.to_string()))
            });
        }
        let principal = if password.starts_with(TOKEN_PREFIX) {
            self.service.credentials.by_token(password).map_err(|error| refused(error.to_string()))?
        } else if takes_passwords {
            let login = self.service.credentials.by_password(name, password, self.ends.address).await;
            login.map_err(|error| wrong(error.to_string()))?
        } else {
            let reason = "passwords are taken over TLS (AUTH TLS), or from this machine; `access.plain_passwords = true` \
                          permits them without (tokens need no such permission)";
            return Err(refused(reason.to_owned()));
        };
        self.user = principal.name().map(str::to_owned);
        self.principal = principal;
        Ok(())
    }

    /// Logs that a login or token is refused.
    fn tell_refused(&self, command: (&str, &str), user: Option<&str>, reason: &str) {
        let by = Requester { address: self.ends.address, user };
        self.service.events.tell_refused(command, by, reason);
    }

    /// Counts a finished command and writes its line of the access log: its code, and the bytes of its data connection.
    pub(crate) fn note(&self, request: String, ended: (u16, u64)) {
        let none = || "-".to_owned();
        let (peer, user) = (self.ends.address, self.user.clone());
        let record = || RequestRecord { peer, user, request, referer: none(), agent: none() };
        self.service.requests.note(&self.requests, ended, record);
    }

    /// A permit for the right `R` over `path`, for `command`.
    ///
    /// # Errors
    /// The refusal, which the event log has too if there is a login.
    pub(crate) fn permit<R: PathRight + RightKind>(
        &self,
        command: &str,
        path: &ContentPath,
    ) -> Result<Permit<R>, FtpReply> {
        let permit = self.service.permit(&self.principal, path).map_err(|denied| {
            if self.user.is_some() {
                self.tell_refused((command, &path.to_string()), self.user.as_deref(), &denied.to_string());
            }
            problem::of_denied(denied)
        })?;
        let counted = count_request(&self.service, &permit, self.ends);
        counted.map_err(|refusal| FtpReply::new(450, refusal.to_string()))?;
        Ok(permit)
    }
}
