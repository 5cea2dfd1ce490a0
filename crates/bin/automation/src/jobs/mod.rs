//! Jobs of the configuration: begun when they are due or on request, watched, ended.
//!
//! Promise: they run on ordinary threads; their reads and writes of contents go through the disks' schedule like any client's. A job never
//! runs twice at once; a run that is over time, got the order to stop, or is under way when the server ends, is ended. Not here: when a job
//! is due (crate `jobs`), the work of each kind (the modules below).

mod job_state;
mod keep;
mod measure;
mod protected;
mod quotas;
mod scrub;
mod transfer;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use api::{JobOutcome, JobProgress, JobRun, JobStatus, Removals};
use copy::MoveProgress;
use jiff::{SignedDuration, Timestamp};
use jobs::Timetable;
use program::process::{self, Exit};
use service::MediaService;
use service::events::{self, unix_seconds};
use service::operations::{JobError, RemovalLimits, RemovalRule, Requester};
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore, oneshot, watch};

use crate::job_config::{JobConfig, JobWork};
use crate::room;
use job_state::KeptJob;
pub use measure::MeasuredDisks;
pub use quotas::removal_limits;

/// The clock is read this often, also if no job is due, for it may be set.
const CLOCK_CHECK_PERIOD: Duration = Duration::from_secs(30);
/// The longest time from the end of the server's work to the end of the jobs'.
const END_TIME_MAX: Duration = Duration::from_secs(10);

/// The parts of the server that jobs need.
pub struct Surroundings {
    /// The service with the contents that they keep and copy.
    pub service: Arc<MediaService>,
    /// A folder on each disk that can be measured.
    pub disks: Vec<PathBuf>,
    /// The state folder.
    pub state: PathBuf,
    /// Takes note when disks were measured.
    pub measured: Arc<MeasuredDisks>,
}

/// All jobs.
pub struct Jobs {
    around: Surroundings,
    runtime: Handle,
    table: Mutex<JobTable>,
    /// A run ended, or the configuration changed.
    changed: Notify,
    ending: watch::Sender<bool>,
    /// Held while the file of jobs is written: runs may end at the same time.
    saving: Mutex<()>,
    /// A permit for a dry run: each reads a folder.
    dry_runs: Arc<Semaphore>,
}

#[derive(Default)]
struct JobTable {
    timetable: Timetable,
    /// Jobs in the order of the timetable's numbers.
    jobs: Vec<KnownJob>,
}

/// A job and the results of its runs.
struct KnownJob {
    config: Arc<JobConfig>,
    running: Option<Running>,
    last: Option<JobRun>,
    last_success: Option<f64>,
    succeeded: u64,
    failed: u64,
    stopped: u64,
    /// Missed runs that are in the event log.
    missed_logged: u64,
}

/// A run under way.
#[derive(Clone)]
struct Running {
    started: SystemTime,
    began: Instant,
    stop: Arc<watch::Sender<bool>>,
    moved: Arc<MoveProgress>,
}

impl Jobs {
    /// Jobs that begin from now on, on the current runtime.
    pub fn start(configs: &[JobConfig], around: Surroundings) -> Arc<Self> {
        let kept = job_state::load(&around.state);
        let jobs = Arc::new(Self {
            around,
            runtime: Handle::current(),
            table: Mutex::default(),
            changed: Notify::new(),
            ending: watch::Sender::new(false),
            saving: Mutex::default(),
            dry_runs: Arc::new(Semaphore::new(1)),
        });
        jobs.arrange(configs, kept);
        tokio::spawn(quotas::look_after(Arc::downgrade(&jobs.around.service)));
        tokio::spawn(room::watch(Arc::downgrade(&jobs.around.service), jobs.around.state.clone()));
        tokio::spawn(Arc::clone(&jobs).keep_time());
        jobs
    }

    /// Puts other jobs in force. The run of a job that remains continues; that of a removed job is stopped.
    pub fn configure(&self, configs: &[JobConfig]) {
        let kept = self.table().kept();
        self.arrange(configs, kept);
        self.changed.notify_one();
    }

    /// Ends the runs, and begins no more.
    pub async fn end(&self) {
        self.ending.send_replace(true);
        let stops: Vec<_> =
            self.table().jobs.iter().filter_map(|job| Some(Arc::clone(&job.running.as_ref()?.stop))).collect();
        for stop in &stops {
            stop.send_replace(true);
        }
        // A run lets go of the other end of this when it is over.
        let over = async {
            for stop in stops {
                stop.closed().await;
            }
        };
        let _ = tokio::time::timeout(END_TIME_MAX, over).await;
        self.save();
    }

    /// True while any job runs.
    pub fn is_running(&self) -> bool {
        self.table().jobs.iter().any(|job| job.running.is_some())
    }

    /// All jobs, as they are shown.
    pub fn statuses(&self) -> Vec<JobStatus> {
        let table = self.table();
        table.jobs.iter().enumerate().map(|(at, job)| job.status(&table.timetable, at)).collect()
    }

    /// Begins a job now.
    pub fn run_now(self: &Arc<Self>, name: &str, by: Requester<'_>) -> Result<(), JobError> {
        if *self.ending.borrow() || self.around.service.is_draining() {
            return Err(JobError::Stopping);
        }
        let mut table = self.table();
        let at = table.number(name).ok_or(JobError::Unknown)?;
        if !table.timetable.begin(at) {
            return Err(JobError::Runs);
        }
        self.begin(&mut table.jobs[at], Some(by));
        Ok(())
    }

    /// Orders a job's run to end.
    pub fn stop(&self, name: &str, by: Requester<'_>) -> Result<(), JobError> {
        let table = self.table();
        let at = table.number(name).ok_or(JobError::Unknown)?;
        let running = table.jobs[at].running.as_ref().ok_or(JobError::RunsNot)?;
        running.stop.send_replace(true);
        let told = events::job_stop_asked(name, (by.address, by.user), SystemTime::now());
        self.around.service.events.tell(told);
        Ok(())
    }

    /// Begins to look which contents would go now, one look at a time.
    pub fn removals(&self, rule: RemovalRule) -> Result<oneshot::Receiver<Result<Removals, String>>, JobError> {
        let service = Arc::clone(&self.around.service);
        let rule = match rule {
            RemovalRule::Limits(limits) => limits,
            RemovalRule::Job(name) => self.rule_of_job(&name)?,
            RemovalRule::Quota(folder) => {
                quotas::rule(&service.quotas, folder.trim_matches('/')).ok_or(JobError::NoRing)?
            }
        };
        let turn = Arc::clone(&self.dry_runs).try_acquire_owned().map_err(|_| JobError::LooksAlready)?;
        let (answer, answered) = oneshot::channel();
        self.runtime.spawn(async move {
            let found = keep::would_remove(&service, &rule).await;
            drop(turn);
            // A client that has gone needs no answer.
            let _ = answer.send(found.map_err(|error| format!("{error:#}")));
        });
        Ok(answered)
    }

    fn rule_of_job(&self, name: &str) -> Result<RemovalLimits, JobError> {
        let table = self.table();
        let at = table.number(name).ok_or(JobError::Unknown)?;
        match &table.jobs[at].config.work {
            JobWork::Keep(limits) => Ok(limits.clone()),
            _ => Err(JobError::RemovesNot),
        }
    }

    fn table(&self) -> MutexGuard<'_, JobTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the timetable anew.
    fn arrange(&self, configs: &[JobConfig], kept: BTreeMap<String, KeptJob>) {
        let now = Timestamp::now();
        let mut table = self.table();
        let mut before: BTreeMap<String, KnownJob> =
            table.jobs.drain(..).map(|job| (job.config.name.clone(), job)).collect();
        table.timetable = Timetable::default();
        for config in configs {
            let kept = kept.get(&config.name);
            let accounted = kept.and_then(|kept| Timestamp::from_second(kept.accounted).ok()).unwrap_or(now);
            let at = table.timetable.add(config.schedule.clone(), config.missed, accounted.min(now));
            let mut job = before.remove(&config.name).unwrap_or_else(|| KnownJob::new(config, kept));
            job.config = Arc::new(config.clone());
            job.missed_logged = 0;
            if job.running.is_some() {
                table.timetable.begin(at);
            }
            table.jobs.push(job);
        }
        for running in before.into_values().filter_map(|job| job.running) {
            running.stop.send_replace(true);
        }
    }

    /// Begins due jobs, until the server ends.
    async fn keep_time(self: Arc<Self>) {
        let mut ending = self.ending.subscribe();
        while !*ending.borrow_and_update() {
            let pause = self.begin_due();
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.changed.notified() => {}
                _ = ending.changed() => {}
            }
        }
    }

    /// Begins due jobs; gives for how long none is.
    fn begin_due(self: &Arc<Self>) -> Duration {
        if self.around.service.is_draining() {
            return CLOCK_CHECK_PERIOD;
        }
        let mut table = self.table();
        for at in table.timetable.begin_due(Timestamp::now()) {
            self.begin(&mut table.jobs[at], None);
        }
        let JobTable { timetable, jobs } = &mut *table;
        for (at, job) in jobs.iter_mut().enumerate() {
            let missed = timetable.missed(at);
            if missed > std::mem::replace(&mut job.missed_logged, missed) {
                self.around.service.events.tell(events::job_missed(&job.config.name, missed, SystemTime::now()));
            }
        }
        let wakeup = timetable.next_wakeup().map_or(CLOCK_CHECK_PERIOD, |wakeup| {
            Duration::try_from(wakeup.duration_since(Timestamp::now())).unwrap_or(Duration::ZERO)
        });
        wakeup.min(CLOCK_CHECK_PERIOD)
    }

    /// Begins a run, which the timetable counts as begun.
    fn begin(self: &Arc<Self>, job: &mut KnownJob, by: Option<Requester<'_>>) {
        let now = SystemTime::now();
        let (stop, stopped) = watch::channel(false);
        let running = Running { started: now, began: Instant::now(), stop: Arc::new(stop), moved: Arc::default() };
        job.running = Some(running.clone());
        let config = Arc::clone(&job.config);
        let by = by.map(|by| (by.address, by.user));
        self.around.service.events.tell(events::job_started(&config.name, config.work.kind(), by, now));
        let jobs = Arc::clone(self);
        self.runtime.spawn(async move {
            let outcome = jobs.work(&config, &running, stopped.clone()).await;
            jobs.ended(&config, &running, outcome);
            drop(stopped);
        });
    }

    /// Does the job's work, until it is done, stopped, or out of time.
    async fn work(
        &self,
        config: &JobConfig,
        running: &Running,
        mut stopped: watch::Receiver<bool>,
    ) -> anyhow::Result<JobOutcome> {
        let (tell, mut end) = watch::channel(false);
        let over = Arc::new(tell);
        let (limit, ends, moved) = (config.time_limit, Arc::clone(&over), Arc::clone(&running.moved));
        // The stop or the time limit, the first that comes: the work gets the order to end in the same way, and is awaited.
        let watching = tokio::spawn(async move {
            let is_over_time = tokio::select! {
                _ = stopped.wait_for(|stop| *stop) => false,
                () = tokio::time::sleep(Duration::from_nanos(limit.0)) => true,
            };
            moved.stop();
            ends.send_replace(true);
            is_over_time
        });
        let around = &self.around;
        let mut last_words = String::new();
        let outcome = match &config.work {
            JobWork::Keep(limits) => keep::keep(&around.service, &config.name, limits, &running.moved, &end).await,
            JobWork::Copy { from, to, login, rate } => {
                let (ends, login) = ((from.clone(), to.clone()), login.clone());
                let copy = transfer::Transfer { ends, login, rate: *rate, moved: Arc::clone(&running.moved) };
                copy.run(&around.service, end.clone()).await
            }
            JobWork::Scrub { folder, rate } => scrub::scrub(&around.service, folder, *rate, &running.moved).await,
            JobWork::Measure => measure::measure(around, end.clone()).await,
            JobWork::Command(command) => {
                let stop = async { drop(end.wait_for(|end| *end).await) };
                let exit = process::run(command, &[("ISOCAST_JOB", &config.name)], b"", stop).await;
                exit.and_then(|exit| match exit {
                    Exit::Good => Ok(()),
                    Exit::Stopped(said) => {
                        last_words = said;
                        Ok(())
                    }
                    Exit::Bad(reason) => Err(anyhow::anyhow!(reason)),
                })
            }
        };
        if !*over.borrow() {
            watching.abort();
            return outcome.map(|()| JobOutcome::Succeeded);
        }
        if watching.await.unwrap_or(false) {
            anyhow::bail!("it was not done within {}{last_words}", config.time_limit);
        }
        Ok(JobOutcome::Stopped)
    }

    fn ended(&self, config: &JobConfig, running: &Running, outcome: anyhow::Result<JobOutcome>) {
        let (outcome, reason) = match outcome {
            Ok(outcome) => (outcome, None),
            Err(error) => (JobOutcome::Failed, Some(format!("{error:#}"))),
        };
        let run = JobRun {
            started: unix_seconds(running.started),
            seconds: running.began.elapsed().as_secs_f64(),
            outcome,
            reason,
            files: running.moved.files(),
            bytes: running.moved.moved_bytes(),
        };
        let told = events::job_ended(&config.name, config.work.kind(), &run, SystemTime::now());
        {
            let mut table = self.table();
            if let Some(at) = table.number(&config.name) {
                table.timetable.end(at);
                table.jobs[at].note(run);
            }
        }
        self.save();
        // This comes before the event, so that a reader of the event finds the run ended.
        self.around.service.events.tell(told);
        self.changed.notify_one();
    }

    /// Keeps until when runs are accounted for, and how the last of each came out.
    fn save(&self) {
        let _saving = self.saving.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = self.table().kept();
        job_state::save(&self.around.state, &kept);
    }
}

impl JobTable {
    fn number(&self, name: &str) -> Option<usize> {
        self.jobs.iter().position(|job| job.config.name == name)
    }

    fn kept(&self) -> BTreeMap<String, KeptJob> {
        let accounted = Timestamp::now().as_second();
        let kept = |job: &KnownJob| KeptJob { accounted, last: job.last.clone(), last_success: job.last_success };
        self.jobs.iter().map(|job| (job.config.name.clone(), kept(job))).collect()
    }
}

impl KnownJob {
    fn new(config: &JobConfig, kept: Option<&KeptJob>) -> Self {
        Self {
            config: Arc::new(config.clone()),
            running: None,
            last: kept.and_then(|kept| kept.last.clone()),
            last_success: kept.and_then(|kept| kept.last_success),
            succeeded: 0,
            failed: 0,
            stopped: 0,
            missed_logged: 0,
        }
    }

    fn note(&mut self, run: JobRun) {
        match run.outcome {
            JobOutcome::Succeeded => {
                self.succeeded += 1;
                self.last_success = Some(run.started + run.seconds);
            }
            JobOutcome::Failed => self.failed += 1,
            JobOutcome::Stopped => self.stopped += 1,
        }
        self.last = Some(run);
        self.running = None;
    }

    /// The first time at which it was to begin after the end of its last success.
    fn due_after_success(&self) -> Option<Timestamp> {
        let ended = SignedDuration::try_from_secs_f64(self.last_success?).ok()?;
        let nominal = self.config.schedule.after(Timestamp::from_duration(ended).ok()?)?;
        Some(self.config.schedule.begin(nominal))
    }

    fn status(&self, timetable: &Timetable, at: usize) -> JobStatus {
        let progress = |running: &Running| JobProgress {
            started: unix_seconds(running.started),
            bytes: running.moved.bytes(),
            bytes_total: running.moved.all(),
            stopping: *running.stop.borrow(),
        };
        let next = timetable.next_run(at).map(SystemTime::from);
        let due = self.due_after_success().map(SystemTime::from);
        JobStatus {
            name: self.config.name.clone(),
            kind: self.config.work.kind().to_owned(),
            schedule: self.config.cron.clone(),
            time_zone: self.config.time_zone.clone(),
            next: next.map(unix_seconds),
            running: self.running.as_ref().map(progress),
            last: self.last.clone(),
            last_success: self.last_success,
            due: due.map(unix_seconds),
            succeeded: self.succeeded,
            failed: self.failed,
            stopped: self.stopped,
            missed: timetable.missed(at),
        }
    }
}
