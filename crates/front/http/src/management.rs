//! What operators and their programs ask: health, readiness, metrics, figures.
//!
//! Not here: where the figures come from (`service::figures`), the Prometheus format (`metrics`).

use http_types::StatusCode;
use http_types::header::CACHE_CONTROL;
use serde::Serialize;
use service::figures;

use crate::message::reply::Reply;
use crate::metrics::metrics;
use crate::shared::Shared;
use crate::{follow, problem};

/// What programs may ask below `/api/v1` (OpenAPI 3.1). A test holds it to what is answered.
const OPENAPI: &str = include_str!("openapi.json");

/// Answers a GET of a management path, if it is one.
pub(crate) fn answer(shared: &Shared, path: &str) -> Option<Reply> {
    let reply = match path {
        "/health" => Reply::with_body(StatusCode::OK, "text/plain; charset=utf-8", "ok\n"),
        "/ready" => ready(shared),
        "/metrics" => Reply::with_body(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", metrics(shared)),
        "/api/v1/streams" => json(&figures::streams(&shared.service)),
        "/api/v1/disks" => json(&figures::disks(&shared.service)),
        "/api/v1/system" => json(&figures::system(&shared.service)),
        "/api/v1/jobs" => json(&shared.service.jobs()),
        "/api/v1/volumes" => json(&figures::volumes(&shared.service)),
        "/api/v1/webhooks" => json(&shared.service.webhooks()),
        "/api/v1/openapi.json" => Reply::with_body(StatusCode::OK, "application/json", OPENAPI),
        "/api/v1/events" => follow::latest(shared),
        _ => return None,
    };
    Some(reply.field(CACHE_CONTROL, "no-store"))
}

/// True for the paths that are answered when all connections are taken, too.
pub(crate) fn is_health(path: &str) -> bool {
    matches!(path, "/health" | "/ready" | "/metrics")
}

fn ready(shared: &Shared) -> Reply {
    let why_not = if shared.service.is_draining() {
        "starting, or about to stop"
    } else if figures::every_disk_fails(&shared.service) {
        "every disk is failing: /api/v1/disks says how"
    } else {
        return Reply::with_body(StatusCode::OK, "text/plain; charset=utf-8", "streams are admitted\n");
    };
    problem::not_ready(why_not)
}

fn json(value: &impl Serialize) -> Reply {
    let body = serde_json::to_vec(value).expect("the keys of wire types are texts");
    Reply::with_body(StatusCode::OK, "application/json", body)
}
