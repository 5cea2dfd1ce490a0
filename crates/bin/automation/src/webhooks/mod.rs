//! Webhooks: addresses and programs that receive events.
//!
//! Promise: a target receives events as they stand in the event log, signed (`signature`); each event is sent again until the
//! target accepts or refuses it, for a day at most (`queue`). A target that hangs delays no other. Waiting events survive a
//! restart of the server (`waiting_events`); a killed server loses those of its last second. Not here: the events
//! (`service::events`), one request to an address (`post`).

mod post;
mod queue;
mod signature;
mod waiting_events;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, anyhow};
use api::WebhookStatus;
use program::process::{self, Exit};
use serde_json::Value;
use service::MediaService;
use service::access::Permit;
use service::events;
use service::lock::lock;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::webhook_config::{WebhookConfig, WebhookTarget};
use queue::{Failure, Next, Queue, WaitingEvent};
use signature::Secret;
use waiting_events::KeptEvents;

/// The time from a change to the write of the waiting events to the state folder.
const SAVE_DELAY: Duration = Duration::from_secs(1);

/// All webhooks.
pub struct Webhooks {
    service: Arc<MediaService>,
    state: PathBuf,
    hooks: Mutex<Vec<Webhook>>,
    /// Number of the last event that was given to the webhooks.
    seen: Mutex<u64>,
    /// Start of this run of the server, milliseconds since 1970: distinguishes its events from those of other runs.
    begun_ms: u128,
    changed: Arc<Notify>,
    /// Held while the file of waiting events is written.
    saving: Mutex<()>,
}

/// A webhook and the task that sends to its target.
struct Webhook {
    target: Arc<Target>,
    sending: JoinHandle<()>,
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.sending.abort();
    }
}

/// The target of a webhook and its events.
struct Target {
    config: WebhookConfig,
    secret: Option<Secret>,
    queue: Mutex<Queue>,
    /// Notified when an event enters the queue.
    came: Notify,
    /// Notified when the queue differs from its copy in the state folder.
    changed: Arc<Notify>,
    service: Arc<MediaService>,
}

/// Configured webhooks, each with its secret.
pub struct ReadWebhooks(Vec<(WebhookConfig, Option<Secret>)>);

impl ReadWebhooks {
    /// Reads the secrets.
    ///
    /// # Errors
    /// A secret cannot be read.
    pub fn read(configs: &[WebhookConfig]) -> anyhow::Result<Self> {
        configs.iter().map(|config| Ok((config.clone(), config.secret()?))).collect::<anyhow::Result<_>>().map(Self)
    }
}

impl Webhooks {
    /// Starts the sending of events on the current runtime, first of those that waited when the server last ended.
    ///
    /// # Errors
    /// A secret cannot be read.
    pub fn start(configs: &[WebhookConfig], service: &Arc<MediaService>, state: &Path) -> anyhow::Result<Arc<Self>> {
        let begun = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let webhooks = Arc::new(Self {
            service: Arc::clone(service),
            state: state.to_owned(),
            hooks: Mutex::default(),
            seen: Mutex::default(),
            begun_ms: begun.as_millis(),
            changed: Arc::default(),
            saving: Mutex::default(),
        });
        webhooks.arrange(ReadWebhooks::read(configs)?, waiting_events::load(state));
        tokio::spawn(Arc::clone(&webhooks).follow());
        tokio::spawn(Arc::clone(&webhooks).keep());
        Ok(webhooks)
    }

    /// Replaces the webhooks. Events that wait for a webhook stay if a webhook of its name is still configured.
    pub fn configure(&self, webhooks: ReadWebhooks) {
        self.arrange(webhooks, KeptEvents::default());
    }

    /// Ends the sending, and keeps the events that wait.
    pub fn end(&self) {
        self.hand_out();
        self.save();
        self.hooks().clear();
    }

    /// The status of each webhook.
    pub fn statuses(&self) -> Vec<WebhookStatus> {
        let status = |hook: &Webhook| {
            let queue = lock(&hook.target.queue);
            WebhookStatus {
                name: hook.target.config.name.clone(),
                waiting: queue.waiting().len() as u64,
                delivered: queue.delivered,
                retried: queue.retried,
                failed: queue.failed,
                dropped: queue.dropped,
                ended: queue.is_gone,
                error: queue.error.clone(),
            }
        };
        self.hooks().iter().map(status).collect()
    }

    /// Sends a webhook a test event. False if no webhook has this name.
    pub fn test(&self, name: &str) -> bool {
        let hooks = self.hooks();
        let Some(hook) = hooks.iter().find(|hook| hook.target.config.name == name) else { return false };
        let now = SystemTime::now();
        let (kind, text) = (events::WEBHOOK_TEST.to_owned(), events::webhook_test(name, now));
        let id = format!("test-{:x}", now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos());
        self.hand(hook, WaitingEvent::new(kind, id, text, now));
        true
    }

    fn hand(&self, hook: &Webhook, event: WaitingEvent) {
        lock(&hook.target.queue).push(event);
        hook.target.came.notify_one();
        self.changed.notify_one();
    }

    fn hooks(&self) -> MutexGuard<'_, Vec<Webhook>> {
        lock(&self.hooks)
    }

    fn arrange(&self, ReadWebhooks(all): ReadWebhooks, mut kept: KeptEvents) {
        let mut hooks = self.hooks();
        let mut before: BTreeMap<String, Webhook> =
            hooks.drain(..).map(|hook| (hook.target.config.name.clone(), hook)).collect();
        for (config, secret) in all {
            let old = before.remove(&config.name);
            match old {
                Some(hook) if hook.target.config == config && !lock(&hook.target.queue).is_gone => hooks.push(hook),
                _ => {
                    let waited = old.map(|hook| lock(&hook.target.queue).waiting().to_vec());
                    let waited = waited.or_else(|| kept.remove(&config.name)).unwrap_or_default();
                    hooks.push(self.hook(config, secret, waited));
                }
            }
        }
        let gone = before.into_iter().map(|(name, hook)| (name, lock(&hook.target.queue).waiting().to_vec()));
        for (name, waiting) in gone.chain(kept) {
            tell_given_up(&self.service, &name, &waiting, "no webhook of this name is configured any more");
        }
        self.changed.notify_one();
    }

    fn hook(&self, config: WebhookConfig, secret: Option<Secret>, waited: Vec<WaitingEvent>) -> Webhook {
        let target = Arc::new(Target {
            config,
            secret,
            queue: Mutex::new(Queue::with(waited, SystemTime::now())),
            came: Notify::new(),
            changed: Arc::clone(&self.changed),
            service: Arc::clone(&self.service),
        });
        Webhook { sending: tokio::spawn(Arc::clone(&target).send_all()), target }
    }

    /// Gives each event to the webhooks that subscribe to its kind, until the program ends.
    async fn follow(self: Arc<Self>) {
        let mut last = self.service.latest_events(&Permit::of_server()).last();
        loop {
            self.hand_out();
            if last.changed().await.is_err() {
                return;
            }
        }
    }

    /// Gives the events since the last call to the webhooks that subscribe to their kinds.
    fn hand_out(&self) {
        let mut seen = lock(&self.seen);
        for (number, line) in self.service.latest_events(&Permit::of_server()).after(*seen, &Permit::of_server()) {
            // The event log keeps a limited number of events, and some were dropped before they were read here: their kinds are unknown.
            let lost = number - *seen - 1;
            *seen = number;
            let hooks = self.hooks();
            hooks.iter().for_each(|hook| lock(&hook.target.queue).dropped += lost);
            let Ok(event) = serde_json::from_str::<Value>(&line) else { continue };
            let Some(kind) = event["event"].as_str() else { continue };
            for hook in hooks.iter().filter(|hook| hook.target.config.wants(kind, &event)) {
                let id = format!("{:x}-{number}", self.begun_ms);
                self.hand(hook, WaitingEvent::new(kind.to_owned(), id, line.to_string(), SystemTime::now()));
            }
        }
    }

    /// Writes the waiting events to the state folder after each change, until the program ends.
    async fn keep(self: Arc<Self>) {
        loop {
            self.changed.notified().await;
            tokio::time::sleep(SAVE_DELAY).await;
            let webhooks = Arc::clone(&self);
            let _ = tokio::task::spawn_blocking(move || webhooks.save()).await;
        }
    }

    fn save(&self) {
        let _saving = lock(&self.saving);
        let waiting = |hook: &Webhook| {
            let events = lock(&hook.target.queue).waiting().to_vec();
            (!events.is_empty()).then(|| (hook.target.config.name.clone(), events))
        };
        let kept = self.hooks().iter().filter_map(waiting).collect();
        waiting_events::save(&self.state, &kept);
    }
}

/// Logs an event: the webhook will not receive these events.
fn tell_given_up(service: &MediaService, webhook: &str, given_up: &[WaitingEvent], reason: &str) {
    for event in given_up {
        service.events.tell(events::webhook_failed(webhook, &event.kind, reason, SystemTime::now()));
    }
}

impl WebhookConfig {
    /// True if the target gets this event. The event of a failed delivery goes to the other webhooks only; if that delivery
    /// fails too, no webhook gets an event: two silent targets would otherwise report each other's failures without end.
    fn wants(&self, kind: &str, event: &Value) -> bool {
        let is_circle = event["webhook"] == self.name || event["of"] == events::WEBHOOK_FAILED;
        self.events.iter().any(|wanted| wanted == kind) && !(kind == events::WEBHOOK_FAILED && is_circle)
    }

    /// The key that signs requests to an address; `None` for a program.
    ///
    /// # Errors
    /// The secret's file cannot be read, or holds no key.
    fn secret(&self) -> anyhow::Result<Option<Secret>> {
        match &self.target {
            WebhookTarget::Url { secret, .. } => {
                Secret::read(secret).map(Some).with_context(|| format!("webhook {}", self.name))
            }
            WebhookTarget::Command(_) => Ok(None),
        }
    }

    /// The reason why the webhook cannot be used on this machine.
    pub fn problem(&self) -> Option<String> {
        match &self.target {
            WebhookTarget::Command(command) => {
                process::problem(command).map(|problem| format!("webhook {}: command: {problem}", self.name))
            }
            WebhookTarget::Url { .. } => self.secret().err().map(|error| format!("{error:#}")),
        }
    }
}

impl Target {
    /// Sends the due events, one at a time, until the webhook is removed.
    async fn send_all(self: Arc<Self>) {
        loop {
            let next = lock(&self.queue).next(SystemTime::now());
            match next {
                Next::Send(event) => {
                    let outcome = self.send(&event).await;
                    let given_up = lock(&self.queue).settle(&event, &outcome, SystemTime::now());
                    self.changed.notify_one();
                    let reason = outcome.err().map(|failure| failure.to_string()).unwrap_or_default();
                    tell_given_up(&self.service, &self.config.name, &given_up, &reason);
                }
                Next::Sleep(pause) => {
                    let _ = tokio::time::timeout(pause, self.came.notified()).await;
                }
            }
        }
    }

    /// One attempt to send an event.
    async fn send(self: &Arc<Self>, event: &WaitingEvent) -> Result<(), Failure> {
        let limit = Duration::from_nanos(self.config.timeout.0);
        match &self.config.target {
            WebhookTarget::Command(command) => {
                let (kind, line) = ([("ISOCAST_EVENT", event.kind.as_str())], format!("{}\n", event.line));
                match process::run(command, &kind, line.as_bytes(), tokio::time::sleep(limit)).await {
                    Ok(Exit::Good) => Ok(()),
                    Ok(Exit::Bad(reason)) => Err(Failure::Unreached(anyhow!(reason))),
                    Ok(Exit::Stopped(said)) => {
                        Err(Failure::Unreached(anyhow!("it took longer than {}{said}", self.config.timeout)))
                    }
                    Err(error) => Err(Failure::Unreached(error)),
                }
            }
            WebhookTarget::Url { url, .. } => {
                let (target, event, url) = (Arc::clone(self), event.clone(), url.clone());
                let post = move || {
                    let secret = target.secret.as_ref().expect("a secret was read with the address");
                    post::post(&url, &event, secret, limit)
                };
                let posted = tokio::task::spawn_blocking(post).await;
                posted.unwrap_or_else(|error| Err(Failure::Unreached(error.into())))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use units::Nanos;

    use super::*;

    #[test]
    fn a_failed_delivery_goes_to_other_webhooks_once() {
        let hook = |name: &str, events: &[&str]| WebhookConfig {
            name: name.to_owned(),
            events: events.iter().map(|kind| (*kind).to_owned()).collect(),
            timeout: Nanos::from_secs(1),
            target: WebhookTarget::Command(vec!["/bin/true".to_owned()]),
        };
        let (a, b) = (hook("a", &["miss", "webhook_failed"]), hook("b", &["webhook_failed"]));
        let failed = |of: &str| json!({ "event": "webhook_failed", "webhook": "a", "of": of });
        let wanted =
            |event: &Value| [&a, &b].map(|hook| hook.wants(event["event"].as_str().unwrap_or_default(), event));
        assert_eq!(wanted(&failed("miss")), [false, true]);
        assert_eq!(wanted(&failed("webhook_failed")), [false, false]);
        assert_eq!(wanted(&json!({ "event": "miss", "webhook": "a" })), [true, false]);
    }
}
