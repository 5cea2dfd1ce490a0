//! Logins of browsers by a provider of identities, a small one of the test's own on loopback.

use std::collections::HashMap;
use std::fs;
use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use percent_encoding::percent_decode_str;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};

use crate::common::client::{Answer, Client};
use crate::common::http::Received;
use crate::common::server::{Server, Setup};
use crate::serve_accounts::isocast;

/// A provider with one user, whose claims a test may change.
#[derive(Clone)]
struct TestProvider {
    address: SocketAddr,
    state: Arc<Mutex<ProviderState>>,
}

struct ProviderState {
    issuer: String,
    keys: Vec<EcdsaKeyPair>,
    /// Claims of an ID token, in addition to or in place of those that it needs.
    claims: Value,
    user_info: Value,
    /// Parameters of logins whose code was not redeemed yet, by code.
    codes: HashMap<String, HashMap<String, String>>,
    redeemed: usize,
}

fn key() -> EcdsaKeyPair {
    let (algorithm, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
    let made = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("a key");
    EcdsaKeyPair::from_pkcs8(algorithm, made.as_ref(), &random).expect("the same")
}

fn fields(query: &str) -> HashMap<String, String> {
    let decoded = |text: &str| percent_decode_str(text).decode_utf8().expect("UTF-8").into_owned();
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (decoded(name), decoded(value))).collect()
}

impl TestProvider {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let state = ProviderState {
            issuer: format!("http://{address}/home"),
            keys: vec![key()],
            claims: json!({}),
            user_info: json!({"sub": "7"}),
            codes: HashMap::new(),
            redeemed: 0,
        };
        let provider = Self { address, state: Arc::new(Mutex::new(state)) };
        let own = provider.clone();
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                own.answer(connection.expect("a connection"));
            }
        });
        provider
    }

    fn change(&self, change: impl FnOnce(&mut ProviderState)) {
        change(&mut self.state.lock().expect("no panic"));
    }

    /// The page at `location`, where the user agrees: the query with which the browser is sent back.
    fn agree(&self, location: &str) -> String {
        let (page, query) = location.split_once('?').expect("a query");
        assert_eq!(page, format!("http://{}/authorize", self.address));
        let fields = fields(query);
        for (name, value) in [
            ("response_type", "code"),
            ("client_id", "isocast"),
            ("scope", "openid profile email"),
            ("code_challenge_method", "S256"),
        ] {
            assert_eq!(fields[name], value);
        }
        let mut state = self.state.lock().expect("no panic");
        let code = format!("code{}", state.codes.len() + state.redeemed);
        let query = format!("code={code}&state={}", fields["state"]);
        state.codes.insert(code, fields);
        query
    }

    fn answer(&self, connection: TcpStream) {
        let Some(mut received) = Received::read(connection) else { return };
        let body = std::str::from_utf8(&received.body).expect("a form");
        let (status, document) = self.document(received.path(), received.field("authorization"), body);
        let text = document.to_string();
        let answer =
            format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}", text.len());
        let _ = received.stream.write_all(answer.as_bytes());
    }

    fn document(&self, path: &str, authorization: Option<&str>, body: &str) -> (u16, Value) {
        let mut state = self.state.lock().expect("no panic");
        let here = format!("http://{}", self.address);
        match path {
            "/home/.well-known/openid-configuration" => {
                let document = json!({
                    "issuer": state.issuer, "authorization_endpoint": format!("{here}/authorize"),
                    "token_endpoint": format!("{here}/token"), "jwks_uri": format!("{here}/keys"),
                    "userinfo_endpoint": format!("{here}/user"),
                });
                (200, document)
            }
            "/keys" => {
                let keys = state.keys.iter().enumerate().map(|(number, key)| {
                    let (x, y) = key.public_key().as_ref()[1..].split_at(32);
                    let [x, y] = [x, y].map(|half| URL_SAFE_NO_PAD.encode(half));
                    json!({"kty": "EC", "crv": "P-256", "use": "sig", "kid": number.to_string(), "x": x, "y": y})
                });
                (200, json!({ "keys": keys.collect::<Vec<_>>() }))
            }
            "/token" => state.redeem(authorization, &fields(body)),
            "/user" if authorization == Some("Bearer access") => (200, state.user_info.clone()),
            other => panic!("{other} was asked for"),
        }
    }
}

impl ProviderState {
    fn redeem(&mut self, authorization: Option<&str>, fields: &HashMap<String, String>) -> (u16, Value) {
        assert_eq!(authorization, Some(&*format!("Basic {}", STANDARD.encode("isocast:s%2Fcret"))));
        assert_eq!(fields["grant_type"], "authorization_code");
        let Some(login) = self.codes.remove(&fields["code"]) else {
            return (400, json!({"error": "invalid_grant", "error_description": "no such code"}));
        };
        self.redeemed += 1;
        let challenge = ring::digest::digest(&ring::digest::SHA256, fields["code_verifier"].as_bytes());
        assert_eq!(URL_SAFE_NO_PAD.encode(challenge), login["code_challenge"], "PKCE");
        assert_eq!(fields["redirect_uri"], login["redirect_uri"]);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("later").as_secs();
        let mut claims = json!({
            "iss": self.issuer, "aud": "isocast", "sub": "7", "exp": now + 300, "iat": now, "nonce": login["nonce"],
        });
        for (name, value) in self.claims.as_object().expect("claims") {
            claims[name] = value.clone();
        }
        let number = self.keys.len() - 1;
        let header = json!({"alg": "ES256", "kid": number.to_string()});
        let [header, claims] = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
        let signed = format!("{header}.{claims}");
        let signature = self.keys[number].sign(&SystemRandom::new(), signed.as_bytes()).expect("signed");
        let token = format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature));
        (200, json!({"id_token": token, "access_token": "access", "token_type": "Bearer"}))
    }
}

/// A server whose logins are the provider's, and a browser's cookies.
struct Browser<'a> {
    server: &'a Server,
    cookies: HashMap<String, String>,
}

impl Browser<'_> {
    fn get(&mut self, target: &str) -> Answer {
        let cookies = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("; ");
        let mut client = Client::to(self.server.address);
        client.send(format!(
            "GET {target} HTTP/1.1\r\nHost: localhost\r\nCookie: {cookies}\r\nConnection: close\r\n\r\n"
        ));
        let answer = client.answer(true);
        for (_, cookie) in answer.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie")) {
            let (pair, attributes) = cookie.split_once("; ").expect("attributes");
            assert!(attributes.contains("HttpOnly; SameSite=Lax"), "{cookie}");
            let (name, value) = pair.split_once('=').expect("a pair");
            match attributes.contains("Max-Age=0;") {
                true => drop(self.cookies.remove(name)),
                false => drop(self.cookies.insert(name.to_owned(), value.to_owned())),
            }
        }
        answer
    }

    /// The whole way: the answer at its end.
    fn log_in(&mut self, provider: &TestProvider) -> Answer {
        let begun = self.get("/login");
        assert_eq!(begun.status, 303, "{}", String::from_utf8_lossy(&begun.body));
        let query = provider.agree(begun.field("location").expect("an address"));
        self.get(&format!("/login/callback?{query}"))
    }

    fn user(&mut self) -> Value {
        let answer = self.get("/api/v1/session");
        serde_json::from_slice::<Value>(&answer.body).expect("a document")["user"].clone()
    }
}

fn detail(answer: &Answer) -> String {
    let problem: Value = serde_json::from_slice(&answer.body).expect("a problem");
    problem["detail"].as_str().expect("a detail").to_owned()
}

/// A server that knows the provider, with these lines more.
fn start(provider: &TestProvider, more: &str) -> Server {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let secret = folder.path().join("secret");
    fs::write(&secret, "s/cret\n").expect("written");
    let (issuer, secret) = (format!("http://{}/home", provider.address), secret.display().to_string());
    let config = format!("[openid]\nissuer = \"{issuer}\"\nclient = \"isocast\"\nsecret = \"{secret}\"\n{more}");
    Setup::default().set("access.anonymous=none").config(&config).start()
}

fn browser(server: &Server) -> Browser<'_> {
    Browser { server, cookies: HashMap::new() }
}

#[test]
fn a_user_of_the_provider_gets_the_account_of_its_name_with_its_groups() {
    let provider = TestProvider::start();
    let server = start(&provider, "groups_claim = \"groups\"\n");
    let state = server.folders.path().join("state");
    isocast(&state, &["user", "add", "ada", "--password-stdin"], "pw\n");
    isocast(&state, &["user", "grant", "group:cutters", "read", "/"], "");
    provider.change(|state| state.claims = json!({"preferred_username": "ada", "groups": ["cutters", "a:b", 7]}));
    let mut ada = browser(&server);
    let status: Value = serde_json::from_slice(&ada.get("/api/v1/session").body).expect("a document");
    assert_eq!((&status["user"], &status["provider"]), (&Value::Null, &provider.address.to_string().into()));
    let done = ada.log_in(&provider);
    assert_eq!((done.status, done.field("location")), (303, Some("/")), "{}", String::from_utf8_lossy(&done.body));
    assert_eq!(ada.cookies.keys().collect::<Vec<_>>(), ["isocast"], "the login's secret is gone");
    assert_eq!((ada.user(), ada.get("/media/").status), ("ada".into(), 200));
    server.wait_stderr_line("\"event\":\"login\",\"right\":true");

    provider.change(|state| state.claims = json!({"preferred_username": "adele", "groups": []}));
    ada.log_in(&provider);
    assert_eq!((ada.user(), ada.get("/media/").status), ("ada".into(), 403), "the same user, in no group any more");
    provider.change(|state| state.claims = json!({"sub": "8", "preferred_username": "ada", "groups": []}));
    let taken = browser(&server).log_in(&provider);
    assert_eq!(taken.status, 403);
    assert!(detail(&taken).contains("belongs to another user of the provider"), "{}", detail(&taken));
    provider.change(|state| state.claims = json!({"sub": "8", "preferred_username": "bob", "groups": []}));
    let unknown = browser(&server).log_in(&provider);
    assert!(unknown.status == 403 && detail(&unknown).contains("no user bob here"), "{}", detail(&unknown));
    server.wait_stderr_line("\"provider_failed\",\"reason\":\"there is no user bob here");
}

#[test]
fn users_are_added_and_claims_may_come_from_the_providers_account_of_them() {
    let provider = TestProvider::start();
    let server = start(&provider, "add_users = true\nname_claim = \"email\"\n");
    let mut user = browser(&server);
    provider.change(|state| state.user_info = json!({"sub": "7", "email": "cy@example.org"}));
    let unverified = user.log_in(&provider);
    assert!(unverified.status == 403 && detail(&unverified).contains("`email_verified`"), "{}", detail(&unverified));
    provider.change(|state| state.user_info["email_verified"] = true.into());
    assert_eq!((user.log_in(&provider).status, user.user()), (303, "cy@example.org".into()));
    provider.change(|state| state.user_info["sub"] = "9".into());
    let other = browser(&server).log_in(&provider);
    assert!(other.status == 503 && detail(&other).contains("another user's (`sub`)"), "{}", detail(&other));
    assert_eq!(user.get("/media/").status, 403, "it was added without rights");
}

#[test]
fn an_answer_that_proves_nothing_logs_no_browser_in() {
    let provider = TestProvider::start();
    let server = start(&provider, "add_users = true\n");
    provider.change(|state| state.claims = json!({"preferred_username": "ada"}));
    let refused = |browser: &mut Browser<'_>, target: &str, said: &str| {
        let answer = browser.get(target);
        assert!(answer.status == 403 && detail(&answer).contains(said), "{said}: {}", detail(&answer));
        assert_eq!(browser.user(), Value::Null);
    };
    let begin = |browser: &mut Browser<'_>| {
        let answer = browser.get("/login");
        format!("/login/callback?{}", provider.agree(answer.field("location").expect("an address")))
    };
    let (mut one, mut other) = (browser(&server), browser(&server));
    let (of_one, of_other) = (begin(&mut one), begin(&mut other));
    refused(&mut browser(&server), &of_one, "no answer to a login that this browser began");
    refused(&mut one, &of_other, "no answer to a login that this browser began");
    refused(&mut one, &of_one, "no answer to a login that this browser began");
    let denied = format!("{}&error=access_denied&error_description=Not+today", begin(&mut one));
    refused(&mut one, &denied, "access_denied: Not today");
    let mixed = format!("{}&iss=https%3A%2F%2Fevil.example", begin(&mut one));
    refused(&mut one, &mixed, "another issuer");
    assert_eq!(provider.state.lock().expect("no panic").redeemed, 0, "no code was redeemed for any of them");

    for (claims, said) in [
        (json!({"nonce": "other"}), "`nonce`"),
        (json!({"aud": "other"}), "`aud`"),
        (json!({"iss": "https://evil.example"}), "`iss`"),
        (json!({"exp": 1_000_000_000}), "has expired"),
        (json!({"preferred_username": Value::Null}), "`preferred_username`"),
        (json!({"preferred_username": ""}), "`preferred_username`"),
    ] {
        provider.change(|state| state.claims = claims);
        let target = begin(&mut one);
        if said == "`preferred_username`" {
            let answer = one.get(&target);
            assert!(matches!(answer.status, 400 | 403), "{}", detail(&answer));
            assert_eq!(one.user(), Value::Null);
        } else {
            refused(&mut one, &target, said);
        }
    }
    provider.change(|state| state.claims = json!({"preferred_username": "ada"}));
    let target = begin(&mut one);
    let secret = one.cookies.clone();
    assert_eq!(one.get(&target).status, 303);
    assert_eq!(one.user(), "ada");
    let mut replay = Browser { server: &server, cookies: secret };
    refused(&mut replay, &target, "invalid_grant: no such code");
    let posted = server.ask("POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(posted.status, 405);
}

#[test]
fn a_provider_that_fails_is_named_and_its_new_keys_are_read() {
    let provider = TestProvider::start();
    provider.change(|state| {
        state.claims = json!({"preferred_username": "ada"});
        state.issuer = "https://evil.example".to_owned();
    });
    let server = start(&provider, "add_users = true\n");
    let mut user = browser(&server);
    let other = user.get("/login");
    assert!(other.status == 503 && detail(&other).contains("`https://evil.example`"), "{}", detail(&other));
    server.wait_stderr_line("\"provider_failed\",\"reason\":\"the description of the provider");
    provider.change(|state| state.issuer = format!("http://{}/home", provider.address));
    server.wait_for("the provider's description to be read again", |_| browser(&server).get("/login").status == 303);
    assert_eq!(user.log_in(&provider).status, 303);
    let other_key = key();
    provider.change(|state| state.keys.push(other_key));
    server.wait_for("the provider's new key", |_| browser(&server).log_in(&provider).status == 303);

    let gone = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let server = start(&TestProvider { address: gone, ..provider }, "");
    let answer = browser(&server).get("/login");
    assert!(answer.status == 503 && detail(&answer).contains("no program listens there"), "{}", detail(&answer));
    let plain = server.ask("GET /login HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n");
    assert_eq!(plain.status, 403, "a login does not travel in the clear");
}
