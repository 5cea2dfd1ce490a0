//! Users, groups, tokens and signed links, and their budgets.
//!
//! Not here: the rules of who may see and change them (`service::administration`).

use http_types::StatusCode;
use service::access::{OwnPermit, Permit, ToAdminister, ToRead, ToShare, ToWrite};
use service::account_changes::{AccountChange, ChangeError, Grantee, ListPart};
use service::administration::{self, SharedRight, WishError, checked_name, folder_rights};
use service::contents::ContentPath;

use api::{GrantEntry, LinkText, NewLink};

use super::json::{listed, part, read};
use crate::body::RequestBody;
use crate::dav;
use crate::exchange::Exchange;
use crate::login;
use crate::message::reply::Reply;
use crate::problem::{of_change, of_wish};
use crate::routes::{Call, FoundCall};

pub(super) async fn perform(
    exchange: &Exchange,
    found: &FoundCall,
    body: &mut RequestBody<'_>,
) -> Result<Reply, Reply> {
    match found.route.call {
        Call::Tokens | Call::AddToken | Call::RevokeToken | Call::Shares | Call::RevokeShare | Call::SetPassword => {
            let permit = login::permit_own(exchange).await?;
            own(exchange, found, body, &permit).await
        }
        Call::AddShare => share(exchange, body).await,
        _ => {
            let permit = login::permit_server::<ToAdminister>(exchange).await?;
            administer(exchange, found, body, &permit).await
        }
    }
}

/// Calls about an account's own credentials.
async fn own(
    exchange: &Exchange,
    found: &FoundCall,
    body: &mut RequestBody<'_>,
    permit: &OwnPermit,
) -> Result<Reply, Reply> {
    let service = &exchange.shared.service;
    match found.route.call {
        Call::Tokens => {
            let part = part(exchange)?;
            let tokens = administration::tokens(service, part.clone(), permit).await?;
            Ok(listed(exchange, &part, &tokens, |token| token.id.to_string()))
        }
        Call::Shares => {
            let part = part(exchange)?;
            let links = administration::links(service, part.clone(), permit).await?;
            Ok(listed(exchange, &part, &links, |link| link.id.to_string()))
        }
        Call::AddToken => {
            let made = administration::add_token(service, read(exchange, body).await?, permit).await;
            made.map(|token| Reply { status: StatusCode::CREATED, ..Reply::json(&token) }).map_err(Reply::from)
        }
        Call::RevokeToken => {
            let id = number(found).ok_or_else(|| of_change(&ChangeError::NoToken(0)))?;
            done(administration::revoke_token(service, id, permit).await)
        }
        Call::RevokeShare => {
            let id = number(found).ok_or_else(|| of_change(&ChangeError::NoLink(0)))?;
            done(administration::revoke_link(service, id, permit).await)
        }
        _ => {
            let wish = (found.name(0).to_owned(), read(exchange, body).await?);
            done(administration::set_password(service, wish, permit, exchange.peer.ip()).await)
        }
    }
}

/// Calls of administrators of the server.
async fn administer(
    exchange: &Exchange,
    found: &FoundCall,
    body: &mut RequestBody<'_>,
    permit: &Permit<ToAdminister>,
) -> Result<Reply, Reply> {
    let service = &exchange.shared.service;
    let name = || found.name(0).to_owned();
    let change = match found.route.call {
        Call::Users => {
            let part: ListPart<String> = part(exchange)?;
            let users = administration::users(service, part.clone(), permit).await?;
            return Ok(listed(exchange, &part, &users, |user| user.name.clone()));
        }
        Call::Groups => {
            let part: ListPart<String> = part(exchange)?;
            let groups = administration::groups(service, part.clone(), permit).await?;
            return Ok(listed(exchange, &part, &groups, |group| group.name.clone()));
        }
        Call::AddUser => {
            return done(administration::add_user(service, read(exchange, body).await?, permit).await);
        }
        Call::SetBudget => {
            let limits = read(exchange, body).await?;
            return done(administration::set_budget(service, found.name(0), limits, permit).await);
        }
        Call::RemoveUser => AccountChange::RemoveAccount { name: name() },
        Call::Join => AccountChange::Membership { name: found.name(1).to_owned(), group: group(found)?, joins: true },
        Call::Leave => AccountChange::Membership { name: found.name(1).to_owned(), group: name(), joins: false },
        Call::RotateShares => AccountChange::RotateKeys,
        call => {
            let grant: GrantEntry = read(exchange, body).await?;
            let given = folder_rights(&grant.folder, &grant.rights)?;
            match call {
                Call::GrantUser => AccountChange::Grant { to: Grantee::Account(name()), given },
                Call::RevokeUser => AccountChange::Revoke { of: Grantee::Account(name()), taken: given },
                Call::GrantGroup => AccountChange::Grant { to: Grantee::Group(group(found)?), given },
                _ => AccountChange::Revoke { of: Grantee::Group(name()), taken: given },
            }
        }
    };
    done(administration::change_account(service, change, permit).await)
}

/// Makes a link, for an account that has the right to share and the right that the link gives.
async fn share(exchange: &Exchange, body: &mut RequestBody<'_>) -> Result<Reply, Reply> {
    // The path that is judged stands in the body: the body is read only for a client with a login, or without need of it.
    let knocked = login::permit_own(exchange).await;
    if let Err(reply) = knocked
        && reply.status == StatusCode::UNAUTHORIZED
    {
        return Err(reply);
    }
    let wish: NewLink = read(exchange, body).await?;
    let invalid = |error| of_wish(&WishError::Path(wish.path.clone(), error));
    let path = ContentPath::parse(&wish.path).map_err(invalid)?;
    let permit: Permit<ToShare> = login::permit(exchange, &path).await?;
    let shared = if wish.upload {
        SharedRight::Upload(login::permit::<ToWrite>(exchange, &path).await?)
    } else {
        SharedRight::Read(login::permit::<ToRead>(exchange, &path).await?)
    };
    let (id, share) = administration::add_link(&exchange.shared.service, &wish, (&permit, &shared)).await?;
    let slash = if (wish.upload || wish.path.ends_with('/')) && !path.components().is_empty() { "/" } else { "" };
    let address = format!("{}?share={share}", dav::address(&path.joined(), slash));
    Ok(Reply { status: StatusCode::CREATED, ..Reply::json(&LinkText { id, share, address }) })
}

fn number(found: &FoundCall) -> Option<i64> {
    found.name(0).parse().ok().filter(|id| *id > 0)
}

fn group(found: &FoundCall) -> Result<String, Reply> {
    checked_name(found.name(0)).map(str::to_owned).map_err(Reply::from)
}

fn done(changed: Result<(), WishError>) -> Result<Reply, Reply> {
    changed.map(|()| Reply::empty(StatusCode::NO_CONTENT)).map_err(Reply::from)
}
