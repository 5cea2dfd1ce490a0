//! `POST /api/v1/jobs/NAME/run` and `…/stop`: somebody who may write begins or ends a job.

use http_types::StatusCode;

use crate::exchange::Exchange;
use crate::login;
use crate::message::reply::Reply;
use crate::operations::{AskedBy, JobError};
use crate::problem;

/// What is asked of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    Run,
    Stop,
}

/// Does what `rest` of the path (`NAME/run`) asks for; none if it is no such path.
pub(crate) async fn answer(exchange: &Exchange, rest: &str, user: &mut Option<String>) -> Option<Reply> {
    let (name, wish) = match rest.rsplit_once('/')? {
        (name, "run") => (name, Wish::Run),
        (name, "stop") => (name, Wish::Stop),
        _ => return None,
    };
    if let Err(reply) = login::authorize_post(exchange, user).await {
        return Some(reply);
    }
    let operations = &exchange.shared.operations;
    let by = AskedBy { address: exchange.peer.ip(), user: user.as_deref() };
    let done = match wish {
        Wish::Run => operations.run_job(name, by),
        Wish::Stop => operations.stop_job(name, by),
    };
    Some(match done {
        Ok(()) => Reply::empty(StatusCode::ACCEPTED),
        Err(error @ JobError::Unknown) => Reply::problem(StatusCode::NOT_FOUND, &error.to_string()),
        Err(error @ (JobError::Runs | JobError::RunsNot)) => Reply::problem(StatusCode::CONFLICT, &error.to_string()),
        Err(JobError::Stopping) => problem::stopping(&exchange.shared),
    })
}
