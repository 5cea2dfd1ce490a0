//! Paths for operators and their programs: health, readiness, metrics, figures.
//!
//! Not here: where the figures come from (`service::figures`), the Prometheus format (`metrics`).

use api::AlarmSeverity;
use http_types::StatusCode;
use http_types::header::CACHE_CONTROL;
use service::access::{Permit, ToObserve};
use service::alarms::{alarms, quotas};
use service::figures;

use crate::exchange::Exchange;
use crate::message::reply::Reply;
use crate::metrics::metrics;
use crate::{follow, login, problem, removals};

/// Description of the requests below `/api/v1` (OpenAPI 3.1). A test holds it to the real answers.
const OPENAPI: &str = include_str!("openapi.json");

/// Answers a GET of a management path, if it is one.
pub(crate) async fn answer(exchange: &Exchange, path: &str) -> Option<Reply> {
    let reply = match path {
        "/health" => Reply::with_body(StatusCode::OK, "text/plain; charset=utf-8", "ok\n"),
        "/ready" => ready(exchange).await,
        "/api/v1/removals" => removals::answer(exchange).await,
        "/api/v1/openapi.json" => Reply::with_body(StatusCode::OK, "application/json", OPENAPI),
        _ => observed(exchange, path).await?,
    };
    Some(reply.field(CACHE_CONTROL, "no-store"))
}

/// Answers a GET of figures, which needs a permit.
async fn observed(exchange: &Exchange, path: &str) -> Option<Reply> {
    let shared = &exchange.shared;
    let service = &shared.service;
    let render: &(dyn Fn(&Permit<ToObserve>) -> Reply + Sync) = match path {
        "/metrics" => &|permit| {
            let page = metrics(shared, permit);
            Reply::with_body(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", page)
        },
        "/api/v1/streams" => &|permit| Reply::json(&figures::streams(service, permit)),
        "/api/v1/disks" => &|permit| Reply::json(&figures::disks(service, permit)),
        "/api/v1/system" => &|permit| Reply::json(&figures::system(service, permit)),
        "/api/v1/jobs" => &|permit| Reply::json(&service.jobs(permit)),
        "/api/v1/volumes" => &|permit| Reply::json(&figures::volumes(service, permit)),
        "/api/v1/alarms" => &|permit| Reply::json(&alarms(service, permit)),
        "/api/v1/quotas" => &|permit| Reply::json(&quotas(service, permit)),
        "/api/v1/forecasts" => &|permit| Reply::json(&service.forecasts(permit)),
        "/api/v1/webhooks" => &|permit| Reply::json(&service.webhooks(permit)),
        "/api/v1/events" => &|permit| follow::latest(service.latest_events(permit), permit),
        _ => return None,
    };
    Some(login::permit_server(exchange).await.map_or_else(|reply| reply, |permit| render(&permit)))
}

/// True for the paths that are answered when all connections are taken, too.
pub(crate) fn is_health(path: &str) -> bool {
    matches!(path, "/health" | "/ready" | "/metrics")
}

/// Serious alarms are listed for a client that may see them.
async fn ready(exchange: &Exchange) -> Reply {
    let service = &exchange.shared.service;
    let why_not = if service.is_draining() {
        "starting, or about to stop"
    } else if figures::every_disk_fails(service) {
        "every disk is failing: /api/v1/disks says how"
    } else if figures::every_folder_is_away(service) {
        "every folder is away: /api/v1/alarms says which"
    } else {
        let permit = login::permit_server::<ToObserve>(exchange).await;
        let all = permit.map_or_else(|_| Vec::new(), |permit| alarms(service, &permit));
        let serious = all.iter().filter(|alarm| alarm.severity == AlarmSeverity::Serious);
        let lines = serious.map(|alarm| format!("alarm: {}: {}\n", alarm.about, alarm.text));
        let body = std::iter::once("streams are admitted\n".to_owned()).chain(lines).collect::<String>();
        return Reply::with_body(StatusCode::OK, "text/plain; charset=utf-8", body);
    };
    problem::not_ready(why_not)
}
