//! Certificates that an authority signs and renews (ACME, RFC 8555).
//!
//! Promise: another is ordered in the last third of the present one's time; while none is signed, the present one stays in force and the reason
//! is a problem of the certificate; attempts after a failure become rarer, so that no limit of the authority is met. The key of the account
//! and the certificates lie in the state folder. Not here: reading and choosing certificates (`tls`).

use std::io::Cursor;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, bail};
use bytes::Bytes;
use client::HttpClient;
use http_body_util::{BodyExt as _, Full};
use instant_acme::{
    Account, AuthorizationStatus, BodyWrapper, BytesResponse, ChallengeType, Error, Identifier, NewAccount, NewOrder,
    Order, OrderStatus, RetryPolicy,
};
use tls::{CertificateChange, Certificates};
use ureq::SendBody;
use ureq::http::header::CONTENT_LENGTH;
use ureq::http::{Request, Response};

/// First pause after a failure; each further one is twice as long.
const RETRY_FIRST: Duration = Duration::from_secs(300);
/// Longest pause after a failure.
const RETRY_MAX: Duration = Duration::from_secs(12 * 3600);
/// Longest pause while no certificate is due: a clock may be set.
const LOOK_PERIOD: Duration = Duration::from_secs(3600);
/// Time for an authority to look at a proof, and to sign.
const ORDER_TIME_MAX: Duration = Duration::from_secs(120);
/// Largest answer of an authority that is read.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// The authority, as the configuration names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorityConfig {
    /// The address of its directory.
    pub directory: String,
    /// Names of hosts that it signs for.
    pub names: Vec<String>,
    /// The address that it may write to.
    pub contact: Option<String>,
    /// The proof that it is shown.
    pub proof: ProofKind,
    /// Folder of the account's key.
    pub folder: PathBuf,
}

/// The proof that a server has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProofKind {
    /// A file, by plain HTTP at port 80.
    Http,
    /// A certificate, in a handshake at port 443.
    Tls,
}

/// Keeps the certificates signed for as long as they are used; `tell` takes each failure.
pub async fn keep_signed(config: AuthorityConfig, certificates: Weak<Certificates>, tell: impl Fn(CertificateChange)) {
    let mut pause = RETRY_FIRST;
    loop {
        let Some(kept) = certificates.upgrade() else { return };
        let due = kept.due_in(&config.names, SystemTime::now());
        if !due.is_zero() {
            drop(kept);
            tokio::time::sleep(due.min(LOOK_PERIOD)).await;
            continue;
        }
        let signed = sign(&config, &kept).await;
        kept.challenges().clear();
        if let Err(error) = signed {
            let reason = format!("{} signs no certificate: {error:#}", config.directory);
            kept.note_refusal(reason).into_iter().for_each(&tell);
            drop(kept);
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(RETRY_MAX);
        } else {
            pause = RETRY_FIRST;
            drop(kept);
            // The files are in force after the next look at them.
            tokio::time::sleep(tls::LOOK_PERIOD * 2).await;
        }
    }
}

/// Orders a certificate, proves the names, and installs it.
async fn sign(config: &AuthorityConfig, certificates: &Arc<Certificates>) -> anyhow::Result<()> {
    let account = account(config).await?;
    let names: Vec<Identifier> = config.names.iter().cloned().map(Identifier::Dns).collect();
    let mut order = account.new_order(&NewOrder::new(&names)).await.context("its order")?;
    prove(&mut order, config.proof, certificates).await?;
    let patience = RetryPolicy::default().timeout(ORDER_TIME_MAX);
    let status = order.poll_ready(&patience).await.context("its look at the proofs")?;
    if status != OrderStatus::Ready {
        bail!("{}", refusal(&mut order).await);
    }
    let key = order.finalize().await.context("its request for the certificate")?;
    let chain = order.poll_certificate(&patience).await.context("its certificate")?;
    certificates.install(&chain, &key)?;
    Ok(())
}

/// Shows the proof of each name, and has the authority look at it.
async fn prove(order: &mut Order, proof: ProofKind, certificates: &Arc<Certificates>) -> anyhow::Result<()> {
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        match authorization.status {
            AuthorizationStatus::Valid => continue,
            AuthorizationStatus::Pending => {}
            other => bail!("a name is {other:?} to it"),
        }
        let kind = match proof {
            ProofKind::Http => ChallengeType::Http01,
            ProofKind::Tls => ChallengeType::TlsAlpn01,
        };
        let name = authorization.identifier().to_string();
        let mut challenge = authorization
            .challenge(kind)
            .with_context(|| format!("it takes no such proof for `{name}`; set `tls.proof`"))?;
        let key = challenge.key_authorization();
        match proof {
            ProofKind::Http => certificates.challenges().show_file(&challenge.token, key.as_str()),
            ProofKind::Tls => {
                certificates.challenges().show_certificate(&name, key.digest().as_ref()).map_err(anyhow::Error::msg)?
            }
        }
        challenge.set_ready().await?;
    }
    Ok(())
}

/// The reasons that an authority gives for its refusal of an order.
async fn refusal(order: &mut Order) -> String {
    let mut reasons = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        let Ok(state) = authorization.refresh().await else { continue };
        let name = state.identifier().to_string();
        let errors = state.challenges.iter().filter_map(|challenge| challenge.error.as_ref());
        reasons.extend(errors.map(|error| format!("`{name}`: {error}")));
    }
    if reasons.is_empty() { "it refuses the order".to_owned() } else { reasons.join("; ") }
}

/// The account with the authority, which is made the first time.
async fn account(config: &AuthorityConfig) -> anyhow::Result<Account> {
    let file = config.folder.join("account.json");
    let builder = || Account::builder_with_http(Box::new(AcmeRequests));
    if let Ok(text) = std::fs::read(&file) {
        let kept = serde_json::from_slice(&text).with_context(|| file.display().to_string())?;
        return builder().from_credentials(kept).await.context("its directory");
    }
    let contact: Vec<String> = config.contact.iter().map(|address| format!("mailto:{address}")).collect();
    let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
    let new = NewAccount { contact: &contact, terms_of_service_agreed: true, only_return_existing: false };
    let made = builder().create(&new, config.directory.clone(), None).await;
    let (account, credentials) = made.context("its account for this server")?;
    let kept = tls::write_private(&file, serde_json::to_vec(&credentials)?.as_slice());
    kept.with_context(|| file.display().to_string())?;
    Ok(account)
}

/// Requests by the client that commands have.
struct AcmeRequests;

impl instant_acme::HttpClient for AcmeRequests {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let body = match body.collect().await {
                Ok(body) => body.to_bytes(),
                Err(never) => match never {},
            };
            let asked = tokio::task::spawn_blocking(move || ask(&Request::from_parts(head, body))).await;
            let answer = asked.map_err(|error| Error::Other(error.into()))?;
            answer.map(BytesResponse::from).map_err(|error| Error::Other(format!("{error:#}").into()))
        })
    }
}

fn ask(request: &Request<Bytes>) -> anyhow::Result<Response<Full<Bytes>>> {
    let mut fields = Vec::new();
    for (name, value) in request.headers() {
        fields.push((name.clone(), value.to_str()?.to_owned()));
    }
    let body = match request.body() {
        none if none.is_empty() => SendBody::none(),
        some => {
            fields.push((CONTENT_LENGTH, some.len().to_string()));
            SendBody::from_owned_reader(Cursor::new(some.clone()))
        }
    };
    let url = request.uri().to_string();
    let mut answer = HttpClient::new(None).send(request.method().as_str(), &url, &fields, body)?;
    let bytes = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec()?;
    let (head, _) = answer.into_parts();
    Ok(Response::from_parts(head, Full::new(Bytes::from(bytes))))
}
