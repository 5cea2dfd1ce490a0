//! Routes of requests that are no reads of contents.

use http_types::header::ALLOW;
use http_types::{Method, StatusCode};
use service::contents::ContentPath;

use crate::body::RequestBody;
use crate::content::PREFIX;
use crate::exchange::Exchange;
use crate::message::reply::Reply;
use crate::{
    content, cors, dav, draft_upload, hosts, listing, login, management, page, problem, rest, tus, upload, upload_part,
    viewer_name,
};

/// The answer to a request.
pub(crate) async fn respond(exchange: &Exchange, body: &mut RequestBody<'_>) -> Reply {
    if let Some(reply) = cors::preflight(&exchange.shared.config(), &exchange.head) {
        return reply;
    }
    let path = exchange.head.path.as_str();
    if path.starts_with(PREFIX) {
        return dav::for_client(exchange, media(exchange, body).await);
    }
    if upload_part::is_upload(path) {
        return match draft_upload::is_draft(&exchange.head) {
            true => draft_upload::answer(exchange, body).await,
            false => tus::answer(exchange, body).await,
        };
    }
    if let Some(reply) = rest::answer(exchange, body).await {
        return reply;
    }
    if matches!(path, "/" | "/media") {
        match exchange.head.method.as_str() {
            "OPTIONS" => return dav::options(),
            "PROPFIND" if path == "/" => return dav::above(exchange, body).await,
            _ if path == "/" => {}
            _ => {
                if let Some(reply) = dav::answer(exchange, body).await {
                    return dav::for_client(exchange, reply);
                }
            }
        }
    }
    if let Some(reply) = rest::provider::answer(exchange).await {
        return reply;
    }
    let read = exchange.head.method == Method::GET || exchange.head.method == Method::HEAD;
    let found = match path {
        // Contents are below it; without the slash, relative links would lead elsewhere.
        "/media" => Some(root_folder(exchange).await),
        _ => management::answer(exchange, path)
            .await
            .or_else(|| hosts::proof(&exchange.shared.config(), &exchange.head))
            .or_else(|| {
                page::file(path, &exchange.head.headers)
                    .map(|page| if path == "/" { viewer_name::named(exchange, page) } else { page })
            }),
    };
    match found {
        Some(reply) if read => return reply,
        Some(_) => return problem::not_allowed("GET, HEAD"),
        None => {}
    }
    if path == "*" {
        return Reply::empty(StatusCode::NO_CONTENT).field(ALLOW, problem::MEDIA_METHODS);
    }
    Reply::problem(StatusCode::NOT_FOUND, "there is nothing at this path; contents are below /media/")
}

/// `/media` leads to `/media/`.
async fn root_folder(exchange: &Exchange) -> Reply {
    match login::permit(exchange, &ContentPath::root()).await {
        Ok(permit) => content::to_folder(exchange, &permit).await,
        Err(reply) => reply,
    }
}

async fn media(exchange: &Exchange, body: &mut RequestBody<'_>) -> Reply {
    match exchange.head.method {
        Method::GET | Method::HEAD => listing::answer(exchange).await,
        Method::PUT | Method::DELETE if exchange.shared.service.is_draining() => problem::stopping(),
        Method::PUT => upload::put(exchange, body).await,
        Method::DELETE => upload::delete(exchange).await,
        Method::OPTIONS => dav::options(),
        Method::POST => problem::form_refused(),
        _ => match dav::answer(exchange, body).await {
            Some(reply) => reply,
            None => problem::not_allowed(problem::MEDIA_METHODS),
        },
    }
}
