//! Webhooks: addresses and programs that are told of events.
//!
//! Promise: events are passed on as the event log has them, signed (`signature`), each until the target takes it or has failed ten times
//! with growing pauses; a target that hangs is given up after its time-out and holds up no other; what waits is bounded, and what does not
//! fit is counted. Not here: what the events are (`service::events`), one request to an address (`post`).

mod post;
mod signature;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, bail};
use api::WebhookStatus;
use program::process::{self, Exit};
use serde_json::Value;
use service::MediaService;
use service::events;
use service::lock::lock;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::webhook_config::{WebhookConfig, WebhookTarget};
use signature::Secret;

/// Events that wait for one target.
const WAITING_MAX: usize = 256;
/// Tries for one event, the last 8.5 minutes after the first.
const TRIES: u32 = 10;
/// Before the second try; each pause is twice the one before.
const PAUSE: Duration = Duration::from_secs(1);

/// All webhooks.
pub struct Webhooks {
    service: Arc<MediaService>,
    hooks: Mutex<Vec<Webhook>>,
}

/// A webhook and the task that tells it.
struct Webhook {
    config: WebhookConfig,
    queue: mpsc::Sender<EventCopy>,
    counts: Arc<Counts>,
    telling: JoinHandle<()>,
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.telling.abort();
    }
}

#[derive(Debug, Default)]
struct Counts {
    waiting: AtomicU64,
    delivered: AtomicU64,
    retried: AtomicU64,
    failed: AtomicU64,
    dropped: AtomicU64,
    error: Mutex<Option<String>>,
}

/// An event on its way.
#[derive(Debug, Clone)]
struct EventCopy {
    kind: Arc<str>,
    /// The same in each try, and another for each event.
    id: Arc<str>,
    line: Arc<str>,
}

impl Webhooks {
    /// Tells of what happens from now on, on the current runtime.
    ///
    /// # Errors
    /// A secret cannot be read.
    pub fn start(configs: &[WebhookConfig], service: &Arc<MediaService>) -> anyhow::Result<Arc<Self>> {
        let webhooks = Arc::new(Self { service: Arc::clone(service), hooks: Mutex::default() });
        webhooks.configure(configs)?;
        tokio::spawn(Arc::clone(&webhooks).follow());
        Ok(webhooks)
    }

    /// Puts other webhooks in force; of those that stay as they were, nothing that waits is lost.
    ///
    /// # Errors
    /// A secret cannot be read; those in force stay.
    pub fn configure(&self, configs: &[WebhookConfig]) -> anyhow::Result<()> {
        let secrets = configs.iter().map(WebhookConfig::secret).collect::<anyhow::Result<Vec<_>>>()?;
        let mut hooks = self.hooks();
        let mut before: BTreeMap<String, Webhook> =
            hooks.drain(..).map(|hook| (hook.config.name.clone(), hook)).collect();
        for (config, secret) in configs.iter().zip(secrets) {
            let unchanged = before.remove(&config.name).filter(|hook| hook.config == *config);
            hooks.push(unchanged.unwrap_or_else(|| self.hook(config, secret)));
        }
        Ok(())
    }

    /// All webhooks, as they are shown.
    pub fn statuses(&self) -> Vec<WebhookStatus> {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let status = |hook: &Webhook| WebhookStatus {
            name: hook.config.name.clone(),
            waiting: read(&hook.counts.waiting),
            delivered: read(&hook.counts.delivered),
            retried: read(&hook.counts.retried),
            failed: read(&hook.counts.failed),
            dropped: read(&hook.counts.dropped),
            error: lock(&hook.counts.error).clone(),
        };
        self.hooks().iter().map(status).collect()
    }

    fn hooks(&self) -> MutexGuard<'_, Vec<Webhook>> {
        lock(&self.hooks)
    }

    fn hook(&self, config: &WebhookConfig, secret: Option<Secret>) -> Webhook {
        let (queue, waiting) = mpsc::channel(WAITING_MAX);
        let counts = Arc::new(Counts::default());
        let target = Arc::new(WebhookFollower { config: config.clone(), secret });
        let telling = tokio::spawn(tell_all(target, waiting, Arc::clone(&counts), Arc::clone(&self.service)));
        Webhook { config: config.clone(), queue, counts, telling }
    }

    /// Hands events to those who want them, until the program ends.
    async fn follow(self: Arc<Self>) {
        let latest = &self.service.events.latest;
        let mut last = latest.last();
        let mut seen = *last.borrow_and_update();
        let begun = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis();
        while last.changed().await.is_ok() {
            last.borrow_and_update();
            for (number, line) in latest.after(seen) {
                // More came at once than are kept: nobody knows of which kind they were.
                let lost = number - seen - 1;
                seen = number;
                let hooks = self.hooks();
                for hook in hooks.iter() {
                    hook.counts.dropped.fetch_add(lost, Ordering::Relaxed);
                }
                let Some(kind) = kind_of(&line).filter(|_| !hooks.is_empty()) else { continue };
                let event = EventCopy { kind: kind.into(), id: format!("{begun:x}-{number}").into(), line };
                hooks.iter().filter(|hook| hook.config.events.iter().any(|wanted| *wanted == *event.kind)).for_each(
                    |hook| {
                        let taken = hook.queue.try_send(event.clone()).is_ok();
                        let count = if taken { &hook.counts.waiting } else { &hook.counts.dropped };
                        count.fetch_add(1, Ordering::Relaxed);
                    },
                );
            }
        }
    }
}

fn kind_of(line: &str) -> Option<String> {
    let event: Value = serde_json::from_str(line).ok()?;
    Some(event["event"].as_str()?.to_owned())
}

impl WebhookConfig {
    /// What signs, where there is an address.
    ///
    /// # Errors
    /// It cannot be read, or is none.
    fn secret(&self) -> anyhow::Result<Option<Secret>> {
        match &self.target {
            WebhookTarget::Url { secret, .. } => {
                Secret::read(secret).map(Some).with_context(|| format!("webhook {}", self.name))
            }
            WebhookTarget::Command(_) => Ok(None),
        }
    }

    /// What keeps it from being used on this machine.
    pub fn problem(&self) -> Option<String> {
        match &self.target {
            WebhookTarget::Command(command) => process::problem(command),
            WebhookTarget::Url { .. } => self.secret().err().map(|error| format!("{error:#}")),
        }
    }
}

/// Who is told.
struct WebhookFollower {
    config: WebhookConfig,
    secret: Option<Secret>,
}

/// Tells a target of one event after the other.
async fn tell_all(
    target: Arc<WebhookFollower>,
    mut waiting: mpsc::Receiver<EventCopy>,
    counts: Arc<Counts>,
    service: Arc<MediaService>,
) {
    while let Some(event) = waiting.recv().await {
        let mut outcome = target.tell(&event).await;
        for pause in (0..TRIES - 1).map(|tries| PAUSE * 2u32.pow(tries)) {
            *lock(&counts.error) = outcome.as_ref().err().map(|error| format!("{error:#}"));
            if outcome.is_ok() {
                break;
            }
            tokio::time::sleep(pause).await;
            counts.retried.fetch_add(1, Ordering::Relaxed);
            outcome = target.tell(&event).await;
        }
        counts.waiting.fetch_sub(1, Ordering::Relaxed);
        match outcome {
            Ok(()) => {
                counts.delivered.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => {
                counts.failed.fetch_add(1, Ordering::Relaxed);
                let (reason, now) = (format!("{error:#}"), SystemTime::now());
                service.events.tell(events::webhook_failed(&target.config.name, &event.kind, &reason, now));
            }
        }
    }
}

impl WebhookFollower {
    /// One try.
    async fn tell(self: &Arc<Self>, event: &EventCopy) -> anyhow::Result<()> {
        let limit = Duration::from_nanos(self.config.timeout.0);
        match &self.config.target {
            WebhookTarget::Command(command) => {
                let (over, mut stop) = watch::channel(false);
                let ending = tokio::spawn(async move {
                    tokio::time::sleep(limit).await;
                    over.send_replace(true);
                    over.closed().await;
                });
                let (kind, line) = ([("ISOCAST_EVENT", &*event.kind)], format!("{}\n", event.line));
                let exit = process::run(command, &kind, line.as_bytes(), &mut stop).await;
                ending.abort();
                match exit? {
                    Exit::Good => Ok(()),
                    Exit::Bad(reason) => bail!(reason),
                    Exit::Stopped => bail!("it took longer than {}", self.config.timeout),
                }
            }
            WebhookTarget::Url { url, .. } => {
                let (target, event, url) = (Arc::clone(self), event.clone(), url.clone());
                let post = move || {
                    let secret = target.secret.as_ref().context("a secret was read with the address")?;
                    post::post(&url, &event, secret, limit)
                };
                tokio::task::spawn_blocking(post).await.context("telling")?
            }
        }
    }
}
