//! Settings of the HTTP front end; their builder checks them.

use std::sync::Arc;
use std::time::Duration;

use openid::Provider;
use proxy::TrustedProxies;
use tls::Challenges;

/// Settings of the HTTP front end.
#[derive(Debug, Clone)]
pub struct HttpConfig {
    /// Budget of all connections together for heads, bodies and replies on their way, beyond 4 KiB that each has of its own. In force from
    /// the start to the end.
    pub memory_bytes: usize,
    /// From the first byte of a request head (or the start of the connection) to its last.
    pub head_time_max: Duration,
    /// Between two requests of a connection.
    pub idle_time_max: Duration,
    /// From the last request for an upload that its client may continue to its end.
    pub uploads_expire: Duration,
    /// Without a byte of an upload's body.
    pub upload_idle_max: Duration,
    /// For the client to take something of a response that this side writes; the data plane has the same limit for its own.
    pub stall_max: Duration,
    /// Origins (`https://player.example`) with pages that may read the answers; `*` is every one.
    pub cors_origins: Vec<String>,
    /// Names of this server, in lower case, besides addresses and names that no other host can have; `*` is every one.
    pub hosts: Vec<String>,
    /// Port with TLS that requests without it are sent to.
    pub redirect_to: Option<u16>,
    /// Time for which browsers must use TLS only; zero: they need not.
    pub hsts: Duration,
    /// Networks of proxies that say for which client they speak.
    pub trusted_proxies: TrustedProxies,
    /// Passwords are taken from other machines without encryption, too.
    pub plain_passwords: bool,
    /// Logins of browsers by a provider of identities.
    pub openid: Option<OpenIdLogins>,
    /// Proofs for an authority that signs certificates.
    pub challenges: Option<Arc<Challenges>>,
}

/// Logins of browsers by a provider of identities.
#[derive(Debug, Clone)]
pub struct OpenIdLogins {
    /// The provider.
    pub provider: Provider,
    /// A user whom the provider knows gets an account, if there is none of the name.
    pub adds_users: bool,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            memory_bytes: 32 << 20,
            head_time_max: Duration::from_secs(10),
            idle_time_max: Duration::from_secs(75),
            uploads_expire: Duration::from_secs(7 * 86_400),
            upload_idle_max: Duration::from_secs(30),
            stall_max: Duration::from_secs(30),
            cors_origins: Vec::new(),
            hosts: Vec::new(),
            redirect_to: None,
            hsts: Duration::ZERO,
            trusted_proxies: TrustedProxies::default(),
            plain_passwords: false,
            openid: None,
            challenges: None,
        }
    }
}
