//! Logins of browsers: begun by a password, carried by a cookie, ended by a log-out; and the first user.
//!
//! Promise: each login has a text of its own, made here and never taken from a request; a cookie counts for requests of this origin's pages
//! only where they change something (`login`). Not here: keeping logins (the crate `accounts`).

use http_types::StatusCode;
use http_types::header::{SET_COOKIE, USER_AGENT};
use service::access::Principal;
use service::administration::{self, LOGIN_LIFE};

use api::{FirstAccount, PasswordLogin};

use super::json::read;
use crate::body::RequestBody;
use crate::exchange::Exchange;
use crate::login::{self, cookie_name};
use crate::message::cookie::set_cookie;
use crate::message::reply::Reply;
use crate::problem;

/// The account of the request.
pub(super) async fn show(exchange: &Exchange) -> Result<Reply, Reply> {
    let principal = login::principal(exchange).await?;
    Ok(status(exchange, &principal))
}

fn status(exchange: &Exchange, principal: &Principal) -> Reply {
    let service = &exchange.shared.service;
    let config = exchange.shared.config();
    let provider = config.openid.as_ref().map(|openid| openid.provider.host());
    Reply::json(&administration::login_status(service, principal, login::takes_passwords(exchange), provider))
}

/// Logs a browser in.
pub(super) async fn begin(exchange: &Exchange, body: &mut RequestBody<'_>) -> Result<Reply, Reply> {
    if !login::takes_passwords(exchange) {
        return Err(login::password_refused(exchange));
    }
    let PasswordLogin { name, password } = read(exchange, body).await?;
    let service = &exchange.shared.service;
    let login = service.credentials.by_password(&name, &password, exchange.peer.ip()).await;
    let principal = login.map_err(|error| problem::of_login(error, false))?;
    exchange.note_user(Some(&name));
    end_present(exchange).await?;
    let agent = exchange.head.headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    let text = administration::begin_login(service, &name, agent).await?;
    Ok(status(exchange, &principal).field(SET_COOKIE, cookie(exchange, &text, LOGIN_LIFE)))
}

/// Logs the browser out.
pub(super) async fn end(exchange: &Exchange) -> Result<Reply, Reply> {
    end_present(exchange).await?;
    Ok(Reply::empty(StatusCode::NO_CONTENT).field(SET_COOKIE, cookie(exchange, "", 0)))
}

/// Makes the first user.
pub(super) async fn first_user(exchange: &Exchange, body: &mut RequestBody<'_>) -> Result<Reply, Reply> {
    if !login::takes_passwords(exchange) {
        return Err(login::password_refused(exchange));
    }
    let wish: FirstAccount = read(exchange, body).await?;
    let made = administration::add_first_user(&exchange.shared.service, wish).await;
    made.map(|()| Reply::empty(StatusCode::NO_CONTENT)).map_err(Reply::from)
}

/// Ends the login that the request carries, if it is one.
pub(super) async fn end_present(exchange: &Exchange) -> Result<(), Reply> {
    let service = &exchange.shared.service;
    let present = login::cookie_text(exchange).and_then(|text| service.credentials.by_browser(&text).ok());
    let Some((id, principal)) = present else { return Ok(()) };
    exchange.note_user(principal.name());
    administration::end_login(service, id).await.map_err(Reply::from)
}

/// `Set-Cookie` with the text of a login.
pub(super) fn cookie(exchange: &Exchange, text: &str, seconds: u32) -> String {
    set_cookie(cookie_name(exchange), text, seconds)
}
