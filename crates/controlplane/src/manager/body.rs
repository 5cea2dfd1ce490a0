//! Source: the body of a request.
//!
//! Promise: not read while nobody asks, so a slow disk slows the client; a client that says nothing for too long is
//! given up.

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::timeout;

use super::{Source, Step};
use crate::message::reply::Reply;

struct RequestBody {
    body: Incoming,
    idle_max: Duration,
}

pub(crate) fn request_body(body: Incoming, idle_max: Duration) -> impl Source {
    RequestBody { body, idle_max }
}

impl RequestBody {
    async fn piece(&mut self) -> Result<Option<Bytes>, Reply> {
        loop {
            let Ok(frame) = timeout(self.idle_max, self.body.frame()).await else {
                let detail = "nothing of the upload came for too long; nothing of it was kept";
                return Err(Reply::problem(StatusCode::REQUEST_TIMEOUT, detail));
            };
            match frame {
                None => return Ok(None),
                Some(Err(_)) => {
                    let detail = "the upload broke off or is badly framed; nothing of it was kept";
                    return Err(Reply::problem(StatusCode::BAD_REQUEST, detail));
                }
                // Trailers say nothing that matters here.
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        return Ok(Some(bytes));
                    }
                }
            }
        }
    }
}

impl Source for RequestBody {
    fn next(&mut self) -> Step<'_, Option<Bytes>> {
        Box::pin(self.piece())
    }
}
