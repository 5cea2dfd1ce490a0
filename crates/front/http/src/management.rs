//! Paths for operators and their programs: health, readiness, metrics, figures.
//!
//! Not here: where the figures come from (`service::figures`), the Prometheus format (`metrics`).

use std::time::SystemTime;

use api::{Alarm, AlarmSeverity};
use http_types::StatusCode;
use service::access::{Permit, ToObserve};
use service::alarms::{alarms, quotas};
use service::budget_use::budgets;
use service::figures;

use crate::exchange::Exchange;
use crate::message::query::pairs;
use crate::message::reply::Reply;
use crate::metrics::metrics;
use crate::routes::Call;
use crate::{event_feed, live, login, problem};

/// Seconds of a history where the query does not say.
const HISTORY_SECONDS: u64 = 3600;

/// Answers a GET of a management path, if it is one.
pub(crate) async fn answer(exchange: &Exchange, path: &str) -> Option<Reply> {
    let reply = match path {
        "/health" => Reply::with_body(StatusCode::OK, "text/plain; charset=utf-8", "ok\n"),
        "/ready" => ready(exchange).await,
        "/metrics" => observed(exchange, |permit| {
            let page = metrics(&exchange.shared, permit);
            Reply::with_body(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", page)
        })
        .await
        .unwrap_or_else(|reply| reply),
        _ => return None,
    };
    Some(reply.uncached())
}

/// Answers a call for figures.
///
/// # Errors
/// The answer to a client that may not see them.
pub(crate) async fn figures(exchange: &Exchange, call: Call) -> Result<Reply, Reply> {
    let service = &exchange.shared.service;
    if call == Call::Budgets {
        let permit = login::permit_budgets(exchange).await?;
        let all = budgets(service, &permit, exchange.client()).await?;
        return Ok(Reply::json(&all));
    }
    let seconds = pairs(exchange.head.query.as_deref()).find(|(key, _)| *key == "seconds");
    let Ok(seconds) = seconds.map_or(Ok(HISTORY_SECONDS), |(_, value)| value.parse::<u64>()) else {
        return Err(Reply::malformed("`seconds=` is a number of seconds"));
    };
    observed(exchange, |permit| match call {
        Call::History => Reply::json(&figures::history(service, seconds, SystemTime::now(), permit)),
        Call::Live => live::now(service, permit),
        Call::Disks => Reply::json(&figures::disks(service, permit)),
        Call::Jobs => Reply::json(&service.operations.jobs(permit)),
        Call::Volumes => Reply::json(&figures::volumes(service, permit)),
        Call::Alarms => Reply::json(&alarms(service, permit)),
        Call::Quotas => Reply::json(&quotas(service, permit)),
        Call::Uploads => Reply::json(&exchange.shared.uploads.list(permit)),
        Call::Forecasts => Reply::json(&service.operations.forecasts(permit)),
        Call::Webhooks => Reply::json(&service.operations.webhooks(permit)),
        Call::Certificates => Reply::json(&service.operations.certificates(permit)),
        Call::Events => event_feed::latest(service.latest_events(permit), permit),
        _ => Reply::json(&figures::system(service, permit)),
    })
    .await
}

/// The answer that `render` makes for a client that may see figures.
async fn observed(exchange: &Exchange, render: impl Fn(&Permit<ToObserve>) -> Reply) -> Result<Reply, Reply> {
    login::permit_server(exchange).await.map(|permit| render(&permit))
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
        // Any client is answered: a client that may not see alarms is refused nothing.
        let principal = login::principal(exchange).await.ok();
        let permit = principal.and_then(|principal| service.permit_server::<ToObserve>(&principal).ok());
        let all = permit.map_or_else(Vec::new, |permit| alarms(service, &permit));
        let serious = all.iter().filter(|alarm| alarm.severity == AlarmSeverity::Serious);
        let line = |alarm: &Alarm| {
            format!("alarm: {}: {}; {}: {}\n", alarm.about, alarm.text, alarm.why, alarm.noted_remedy())
        };
        let lines = serious.map(line);
        let body = std::iter::once("streams are admitted\n".to_owned()).chain(lines).collect::<String>();
        return Reply::with_body(StatusCode::OK, "text/plain; charset=utf-8", body);
    };
    problem::not_ready(why_not)
}
