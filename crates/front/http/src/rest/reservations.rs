//! Reservations ahead.
//!
//! Not here: their rules (`service::reservations`).

use api::NewReservation;
use http_types::StatusCode;
use service::access::{Permit, ToRead};
use service::account_changes::{ChangeError, ListPart};
use service::administration::WishError;
use service::contents::ContentPath;
use service::reservations;

use super::json::{listed, part, read};
use crate::body::RequestBody;
use crate::exchange::Exchange;
use crate::login;
use crate::message::reply::Reply;
use crate::problem::{of_reservation, of_wish};
use crate::routes::{Call, FoundCall};

pub(super) async fn answer(exchange: &Exchange, found: &FoundCall, body: &mut RequestBody<'_>) -> Result<Reply, Reply> {
    let own = login::permit_own(exchange).await?;
    let service = &exchange.shared.service;
    match found.route.call {
        Call::Reservations => {
            let part: ListPart<i64> = part(exchange)?;
            let all = reservations::list(service, &part, &own);
            Ok(listed(exchange, &part, &all, |one| one.id.to_string()))
        }
        Call::AddReservation => {
            let wanted: NewReservation = read(exchange, body).await?;
            let invalid = |error| of_wish(&WishError::Path(wanted.path.clone(), error));
            let path = ContentPath::parse(&wanted.path).map_err(invalid)?;
            let permit: Permit<ToRead> = login::permit(exchange, &path).await?;
            let made = reservations::add(service, &wanted, (&permit, &own), exchange.local.ip()).await;
            made.map(|made| Reply { status: StatusCode::CREATED, ..Reply::json(&made) }).map_err(Reply::from)
        }
        _ => {
            let id = found.name(0).parse().map_err(|_| of_reservation(&ChangeError::NoReservation(0).into()))?;
            let removed = reservations::remove(service, id, &own).await;
            removed.map(|()| Reply::empty(StatusCode::NO_CONTENT)).map_err(Reply::from)
        }
    }
}
