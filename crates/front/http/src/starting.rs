//! Answers while the server starts: the program lives, and the step of the start.
//!
//! Promise: from the moment the port is bound, `/health` is 200 and everything else is 503 with the step that is under way
//! and `Retry-After`. One request per connection; connections and heads are bounded. Not here: the start itself.

use std::future::pending;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http_types::{Method, StatusCode};
use tls::Acceptor;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::client_stream::{ClientStream, write_all};
use crate::connection::{LINGER_TIME, linger, next_head};
use crate::memory::{BUFFER_BYTES_MAX, ConnectionBuffer, ConnectionMemory};
use crate::message::reply::{After, Reply, render_reply_head};
use crate::problem;
use crate::server::HttpListener;

/// Connections answered at a time; more wait in the listener's queue.
const CONNECTIONS_MAX: usize = 64;
/// For a whole exchange.
const EXCHANGE_TIME_MAX: Duration = Duration::from_secs(5);

/// Answers on listeners until it is ended; the listeners themselves stay usable, connections in their queues are not lost.
#[derive(Debug)]
pub struct Starting {
    tasks: Vec<JoinHandle<()>>,
}

impl Starting {
    /// Begins to answer on the current tokio runtime. `step` names the step of the start under way.
    ///
    /// # Errors
    /// A listener cannot be used.
    pub fn answer(listeners: &[HttpListener], step: &watch::Receiver<String>) -> io::Result<Self> {
        let mut tasks = Vec::with_capacity(listeners.len());
        for listener in listeners {
            let (listener, tls) = listener.try_clone()?.accepting()?;
            tasks.push(tokio::spawn(accept(listener, tls, step.clone())));
        }
        Ok(Self { tasks })
    }

    /// Takes no more connections; earlier ones are still answered.
    pub async fn end(self) {
        for task in self.tasks {
            task.abort();
            let _cancelled = task.await;
        }
    }
}

async fn accept(listener: TcpListener, tls: Option<Acceptor>, step: watch::Receiver<String>) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let memory = ConnectionMemory::new(CONNECTIONS_MAX * BUFFER_BYTES_MAX);
    loop {
        let permit = Arc::clone(&permits).acquire_owned().await.expect("the semaphore is never closed");
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let step = step.borrow().clone();
        let (buffer, tls) = (ConnectionBuffer::new(memory.clone()), tls.clone());
        tokio::spawn(async move {
            let _permit = permit;
            let answered = async {
                let stream = match tls {
                    None => stream.into(),
                    Some(tls) => {
                        ClientStream::Sealed(Box::new(tls.begin().seal(stream, EXCHANGE_TIME_MAX).await.ok()?))
                    }
                };
                exchange(stream, buffer, &step).await;
                Some(())
            };
            // No wait for a client that is too slow or has gone.
            let _ = timeout(EXCHANGE_TIME_MAX, answered).await;
        });
    }
}

async fn exchange(mut stream: ClientStream, mut buffer: ConnectionBuffer, step: &str) {
    let times = (EXCHANGE_TIME_MAX, || EXCHANGE_TIME_MAX);
    let (reply, bodiless) = match next_head(&mut stream, &mut buffer, times, pending()).await {
        Ok(Some(head)) => (reply(&head.path, step), head.method == Method::HEAD),
        Ok(None) => return,
        Err(reply) => (reply, false),
    };
    let mut answer = render_reply_head(&reply, After::Close, SystemTime::now());
    if !bodiless {
        answer.extend_from_slice(&reply.body);
    }
    if write_all(&mut stream, answer.as_slice()).await.is_ok() {
        linger(stream, LINGER_TIME, pending()).await;
    }
}

fn reply(path: &str, step: &str) -> Reply {
    if path == "/health" {
        return Reply::with_body(StatusCode::OK, "text/plain; charset=utf-8", "ok\n");
    }
    problem::starting(step)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    async fn ask(address: std::net::SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer");
        answer
    }

    #[tokio::test]
    async fn the_start_reports_its_step_and_the_listener_stays() {
        let listener = HttpListener::bind("127.0.0.1:0".parse().expect("an address"), None).expect("a port");
        let address = listener.address().expect("an address");
        let (step, steps) = watch::channel("opening the folders".to_owned());
        let starting = Starting::answer(std::slice::from_ref(&listener), &steps).expect("it answers");
        let health = ask(address, "GET /health HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert!(health.starts_with("HTTP/1.1 200 ") && health.ends_with("ok\n"), "{health}");
        step.send_replace("measuring disks (sda 40 %)".to_owned());
        let ready = ask(address, "GET /ready HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert!(ready.starts_with("HTTP/1.1 503 ") && ready.contains("sda 40 %"), "{ready}");
        assert!(ready.to_ascii_lowercase().contains("retry-after: 1"), "{ready}");
        let upload = ask(address, "PUT /media/a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc").await;
        assert!(upload.starts_with("HTTP/1.1 503 "), "{upload}");
        assert!(ask(address, "nonsense\r\n\r\n").await.starts_with("HTTP/1.1 400 "));
        starting.end().await;
        // A connection that comes between the two is answered by the next one.
        let late = tokio::spawn(async move { ask(address, "GET / HTTP/1.1\r\nHost: a\r\n\r\n").await });
        let (next, _) = listener.accepting().expect("still good");
        let (mut stream, _) = next.accept().await.expect("somebody");
        stream.write_all(b"next").await.expect("sent");
        let _ = stream.read(&mut [0; 99]).await;
        drop(stream);
        assert_eq!(late.await.expect("answered"), "next");
    }
}
