//! HTTP requests to an Isocast server, and their errors.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use ureq::http::header::{ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE};
use ureq::http::{HeaderName, Response};
use ureq::{Agent, Body, SendBody};

use crate::tls::{self, machines_authorities};

/// Largest answer that is read: twenty times the list of all streams that a server can carry.
const ANSWER_BYTES_MAX: u64 = 64 << 20;
/// Largest body of an error that is read.
const PROBLEM_BYTES_MAX: u64 = 64 * 1024;
/// Longest wait for a server that neither takes nor sends anything: a start may wait 5 s for its turn.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// Address of the server if a command names none.
pub const USUAL_SERVER: &str = "http://127.0.0.1:8080";

/// Beginning of each token's text.
const TOKEN_PREFIX: &str = "isocast_";

/// The `Authorization` value of a client: its account and password, or its token.
#[derive(Debug, Clone)]
pub struct Login(String);

impl Login {
    /// Reads `name:password`, or a token, from a file.
    ///
    /// # Errors
    /// The file cannot be read, or holds neither.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let text = text.trim_end_matches(['\r', '\n']);
        if text.starts_with(TOKEN_PREFIX) && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':') {
            return Ok(Self(format!("Bearer {text}")));
        }
        anyhow::ensure!(text.contains(':'), "{}: write name:password into it, or a token", path.display());
        Ok(Self(format!("Basic {}", STANDARD.encode(text))))
    }
}

/// The server refused a rate and would grant a lower one, which the text names.
#[derive(Debug)]
pub struct RateRefusal(pub String);

impl std::fmt::Display for RateRefusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RateRefusal {}

/// The server was not reached, or does not answer: other requests would fail in the same way.
#[derive(Debug)]
pub struct NoAnswer(&'static str);

impl std::fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for NoAnswer {}

/// A client of Isocast servers.
#[derive(Debug, Clone)]
pub struct HttpClient {
    agent: Agent,
    login: Option<Login>,
}

impl HttpClient {
    /// Makes a client; sends nothing yet.
    #[must_use]
    pub fn new(login: Option<Login>) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .tls_config(machines_authorities())
            .timeout_connect(Some(SILENCE_MAX / 6))
            .timeout_recv_response(Some(SILENCE_MAX))
            .timeout_per_read(Some(SILENCE_MAX))
            .timeout_per_write(Some(SILENCE_MAX));
        Self { agent: config.build().new_agent(), login }
    }

    /// Sends a request without a body and returns the answer, whatever its status.
    ///
    /// # Errors
    /// The server is not reached, or is silent for a minute.
    pub fn ask(&self, method: &str, url: &str, fields: &[(HeaderName, String)]) -> anyhow::Result<Response<Body>> {
        self.send(method, url, fields, SendBody::none())
    }

    /// Sends a request with a body and returns the answer, whatever its status.
    ///
    /// # Errors
    /// As [`HttpClient::ask`].
    pub fn send(
        &self,
        method: &str,
        url: &str,
        fields: &[(HeaderName, String)],
        body: SendBody<'_>,
    ) -> anyhow::Result<Response<Body>> {
        let mut request = ureq::http::Request::builder().method(method).uri(url);
        for (name, value) in fields {
            request = request.header(name, value);
        }
        if let Some(Login(login)) = &self.login {
            request = request.header(AUTHORIZATION, login);
        }
        let request = request.body(body).with_context(|| format!("{url} is no address"))?;
        self.agent.run(request).map_err(explained).with_context(|| url.to_owned())
    }

    /// Fetches a document by GET, or by POST of a form, with this `Authorization`. Returns the status and at most `limit` bytes.
    ///
    /// # Errors
    /// As [`HttpClient::ask`]; the document is longer.
    pub fn document(
        &self,
        url: &str,
        authorization: Option<&str>,
        form: Option<&str>,
        limit: u64,
    ) -> anyhow::Result<(u16, Vec<u8>)> {
        let mut fields = vec![(ACCEPT, "application/json".to_owned())];
        fields.extend(authorization.map(|value| (AUTHORIZATION, value.to_owned())));
        let mut answer = match form {
            Some(form) => {
                fields.push((CONTENT_LENGTH, form.len().to_string()));
                fields.push((CONTENT_TYPE, "application/x-www-form-urlencoded".to_owned()));
                self.send("POST", url, &fields, SendBody::from_owned_reader(std::io::Cursor::new(form.to_owned())))?
            }
            None => self.ask("GET", url, &fields)?,
        };
        let body = answer.body_mut().with_config().limit(limit).read_to_vec().with_context(|| url.to_owned())?;
        Ok((answer.status().as_u16(), body))
    }

    /// Reads a JSON document, 64 MiB at most.
    ///
    /// # Errors
    /// As [`HttpClient::ask`]; the server's refusal; the answer is not the expected document.
    pub fn json<T: serde::de::DeserializeOwned>(&self, url: &str) -> anyhow::Result<T> {
        let answer = self.ask("GET", url, &[])?;
        let mut answer = expect(answer, &[200])?;
        // The answer is read whole first: parsing it byte by byte took most of the processor time of `top`.
        let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
        let body = body.with_context(|| url.to_owned())?;
        serde_json::from_slice(&body).with_context(|| format!("{url}: not an answer of Isocast"))
    }
}

/// Errors of a connection that the server closed or reset; an end before the head of an answer is `UnexpectedEof`.
const ENDED: [ErrorKind; 4] =
    [ErrorKind::BrokenPipe, ErrorKind::ConnectionReset, ErrorKind::ConnectionAborted, ErrorKind::UnexpectedEof];

/// The error, with its probable cause or its remedy.
#[must_use]
pub fn explained(error: ureq::Error) -> anyhow::Error {
    if let Some(remedy) = tls::remedy(&error) {
        return anyhow::anyhow!("{error}; {remedy}");
    }
    match error {
        ureq::Error::Io(error) if error.kind() == ErrorKind::ConnectionRefused => {
            NoAnswer("no program listens there: is the server started, and the port right?").into()
        }
        ureq::Error::Io(error) if ENDED.contains(&error.kind()) => {
            NoAnswer("the server ended the connection: was it stopped?").into()
        }
        ureq::Error::HostNotFound => NoAnswer("no machine of this name is known here").into(),
        ureq::Error::Timeout(_) => NoAnswer("no answer came in time").into(),
        error => error.into(),
    }
}

/// The answer if it has one of these statuses, else the detail of its problem document as an error.
///
/// # Errors
/// [`RateRefusal`] if a lower rate would be granted.
pub fn expect(mut answer: Response<Body>, statuses: &[u16]) -> anyhow::Result<Response<Body>> {
    let status = answer.status().as_u16();
    if statuses.contains(&status) {
        return Ok(answer);
    }
    let text = answer.body_mut().with_config().limit(PROBLEM_BYTES_MAX).read_to_string().unwrap_or_default();
    let problem: Value = serde_json::from_str(&text).unwrap_or_default();
    let detail = problem["detail"].as_str().map_or_else(|| "the server does not say why".to_owned(), str::to_owned);
    match problem["grantable_bps"].as_u64() {
        Some(1..) => Err(RateRefusal(format!("{status}: {detail}")).into()),
        // A server that starts or stops answers in this way: the caller may try again, as after no answer.
        _ if matches!(problem["resource"].as_str(), Some("draining" | "starting")) => {
            Err(NoAnswer("the server is starting, or about to stop").into())
        }
        // An answer to HEAD has no problem document.
        _ if status == 503 && text.is_empty() => Err(NoAnswer("the server does not answer at present (503)").into()),
        _ => bail!("{status}: {detail}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_starts_gives_no_answer_with_a_document_and_without() {
        let refused = |document: &str| {
            let answer = Response::builder().status(503).body(Body::builder().data(document)).expect("an answer");
            expect(answer, &[200]).expect_err("refused")
        };
        assert!(refused(r#"{"resource": "starting"}"#).is::<NoAnswer>());
        assert!(refused("").is::<NoAnswer>(), "as HEAD is answered");
        assert!(!refused(r#"{"resource": "disk", "detail": "it errs"}"#).is::<NoAnswer>());
    }

    #[test]
    fn a_file_holds_a_name_with_its_password_or_a_token() {
        let folder = tempfile::tempdir().expect("a folder");
        let read = |text: &str| {
            let path = folder.path().join("login");
            std::fs::write(&path, text).expect("written");
            Login::read(&path).map(|Login(login)| login).map_err(|error| error.to_string())
        };
        assert_eq!(read("ada:p:q\n"), Ok("Basic YWRhOnA6cQ==".to_owned()));
        assert_eq!(read("isocast_ab\r\n"), Ok("Bearer isocast_ab".to_owned()));
        assert_eq!(read("isocast_ab:p"), Ok(format!("Basic {}", STANDARD.encode("isocast_ab:p"))), "a name like one");
        assert!(read("ada").is_err_and(|error| error.contains("name:password")));
    }
}
