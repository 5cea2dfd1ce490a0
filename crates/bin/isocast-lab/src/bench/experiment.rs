//! One run: streams, concurrent writers and the counters, on one time line.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use units::{BitRate, Nanos, real};

use super::account::{self, CountedNames, RunCounters};
use super::cameras::{self, Cameras};
use super::client::crowd::{self, Crowd};
use super::client::habits::{HabitFigures, ViewerHabits};
use super::client::{self, ClientPlan, RunProgress, ViewerTerms};
use super::content_choice::{ContentSpread, mix, nth_in_turn, zipf};
use super::server::{Choice, RunningServer, ServerGround};
use super::server_counts::{self, ServerCounts};
use super::summary::{Run, RunPhase};
use super::writer;
use super::{Stop, clock, hostile, idle, joined, lab_disk, side_programs};
use crate::disk::Statistics;
use crate::say;

/// Time to start and end a server and to empty the page cache.
const PER_RUN: Nanos = Nanos::from_secs(1);
/// Time from the call to the first stream.
const LEAD: Nanos = Nanos::from_millis(200);
/// Bounds of a socket's receive buffer, which holds 1.5 s at the rate, doubled for the kernel's overhead.
const BUFFER_BYTES_MIN: u64 = 1024 * 1024;
const BUFFER_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// Seconds of measuring from which a disturbed run is not repeated: in a long run some disturbance is certain, and the result
/// names it.
const REPEATED_SECONDS_MAX: u64 = 300;

/// Parameters of a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunRequest {
    /// Number of streams.
    pub streams: usize,
    /// Rate of each stream.
    pub rate: BitRate,
    /// Names of the contents.
    pub contents: Vec<String>,
    /// Distribution of the contents to the streams.
    pub spread: ContentSpread,
    /// Span over which the streams start.
    pub ramp: Nanos,
    /// Time after that without measuring.
    pub warm_up: Nanos,
    /// Whole seconds measured.
    pub seconds: u64,
    /// Habits of viewers: pauses and seeks.
    pub habits: ViewerHabits,
    /// Media that the modelled player holds before the first picture.
    pub start: Nanos,
    /// Media that it holds to continue after a stall.
    pub rebuffer: Nanos,
    /// Seed of the choices and of the sessions' names.
    pub seed: u64,
    /// Concurrent writers.
    pub writers: Writers,
    /// Drop the pages of the contents from the page cache first.
    pub cold: bool,
    /// The emulated disk under the contents.
    pub lab_disk: Option<String>,
    /// Slowdown of that disk.
    pub slower: Option<Slower>,
    /// Number of clients that request a stream and take no bytes.
    pub stalled_clients: usize,
    /// Number of hostile clients.
    pub hostile_clients: usize,
    /// Shell commands that run once a second during the run.
    pub beside: Vec<String>,
    /// Concurrent HLS viewers.
    pub crowd: Option<Crowd>,
    /// Concurrent cameras.
    pub cameras: Option<Cameras>,
    /// End the run at the first stall.
    pub give_up: bool,
}

/// A disk that becomes slower than its profile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Slower {
    /// Multiple of the disk's service times.
    pub factor: f64,
    /// Time since the first stream began.
    pub after: Nanos,
}

/// Writers during the streams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Writers {
    /// Number of writers; zero: none.
    pub count: usize,
    /// Bytes of one upload.
    pub upload_bytes: u64,
    /// Time from the beginning of measuring to that of the writers.
    pub after: Nanos,
}

impl RunRequest {
    /// Duration of a run, including the server's start and end.
    pub(crate) fn length(&self) -> Nanos {
        self.ramp + self.warm_up + Nanos::from_secs(self.seconds) + PER_RUN
    }

    /// The content of stream `n`.
    fn content(&self, n: usize) -> &str {
        let count = self.contents.len().max(1);
        let index = match self.spread {
            ContentSpread::Turn => nth_in_turn(n, count),
            ContentSpread::One => 0,
            ContentSpread::Random => {
                let mixed = mix(self.seed.wrapping_add(n as u64));
                usize::try_from(mixed % count as u64).unwrap_or(0)
            }
            ContentSpread::Zipf(contents) => {
                let chance = real(mix(self.seed.wrapping_add(n as u64)) >> 11) / real(1 << 53);
                nth_in_turn(zipf(chance, contents.min(count)), count)
            }
        };
        self.contents.get(index).map_or("", String::as_str)
    }

    fn plan(&self, server: &RunningServer) -> ClientPlan {
        let begin = clock::now() + LEAD;
        // Twice 1.5 s of media: nginx sends the bytes of a second at once, and the kernel counts its overhead too.
        let buffer = self.rate.bytes_in(Nanos::from_secs(3)).clamp(BUFFER_BYTES_MIN, BUFFER_BYTES_MAX);
        ClientPlan {
            terms: ViewerTerms {
                address: server.address,
                sealed: server.sealed.clone(),
                rate: self.rate,
                start: self.start,
                rebuffer: self.rebuffer,
                buffer_bytes: usize::try_from(buffer).unwrap_or(1 << 20),
            },
            authority: server.authority.clone(),
            paths: (0..self.streams).map(|n| server.path_of(self.content(n), self.rate, n)).collect(),
            habits: self.habits,
            seed: self.seed,
            begin,
            ramp: self.ramp,
            measure: begin + self.ramp + self.warm_up,
            seconds: self.seconds,
            give_up: self.give_up,
        }
    }
}

/// Starts the server, runs `job` and stops the server; repeats this once if the machine disturbed the run and `spare` time is
/// left. Returns the last run and the server's configuration.
///
/// # Errors
/// The server cannot be started, or the benchmark was interrupted.
pub(crate) fn run(
    choice: &Choice,
    ground: &ServerGround,
    job: &RunRequest,
    stop: &Stop,
    spare: &mut Nanos,
) -> anyhow::Result<(Run, String)> {
    let (run, configuration) = once(choice, ground, job, stop)?;
    // A search needs only to know whether the streams were carried: streams carried in spite of a disturbance would be carried without it.
    let enough = job.give_up && run.carried().is_some();
    if run.disturbed.is_empty() || enough {
        return Ok((run, configuration));
    }
    let why = run.disturbed.join("; ");
    if run.seconds >= REPEATED_SECONDS_MAX {
        say(format_args!("disturbed ({why}); too long to be repeated, marked"));
        return Ok((run, configuration));
    }
    if job.length() > *spare {
        say(format_args!("disturbed ({why}); no time is left for repeats, marked"));
        return Ok((run, configuration));
    }
    *spare = spare.saturating_sub(job.length());
    say(format_args!("disturbed ({why}); repeated once"));
    once(choice, ground, job, stop)
}

fn once(choice: &Choice, ground: &ServerGround, job: &RunRequest, stop: &Stop) -> anyhow::Result<(Run, String)> {
    stop.check()?;
    if job.cold {
        drop_caches(&ground.roots, ColdPart::Pages);
    }
    let server = RunningServer::start(choice, ground, stop)?;
    if matches!(choice, Choice::Url(_)) {
        server.probe(&server.path_of(job.content(0), job.rate, 0), stop)?;
    }
    let configuration = server.configuration.clone();
    let result = measure(&server, ground, job, stop);
    server.end()?;
    Ok((result?, configuration))
}

/// Runs `job` against a server that answers.
pub(crate) fn measure(
    server: &RunningServer,
    ground: &ServerGround,
    job: &RunRequest,
    stop: &Stop,
) -> anyhow::Result<Run> {
    let watched = CountedNames { server: server.pid, disk: ground.roots.first().and_then(|r| account::device_of(r)) };
    if let Some(name) = &job.lab_disk {
        lab_disk::reset(name)?;
    }
    let plan = job.plan(server);
    let (plan, progress) = (&plan, &RunProgress::default());
    let (uploads, over) = (&Mutex::new(Vec::new()), &AtomicBool::new(false));
    let (report, (samples, server_counts), held, hostile, beside, crowd, cameras, lab) = thread::scope(|scope| {
        let sampler = scope.spawn(|| sample(&watched, server.address, plan, stop, progress));
        let idle = scope.spawn(|| idle::hold(job.stalled_clients, plan, stop, progress));
        let hostile = scope.spawn(|| hostile::act(job.hostile_clients, plan, stop, progress));
        let beside = job.beside.iter();
        let beside: Vec<_> =
            beside.map(|line| scope.spawn(move || side_programs::repeat(line, plan, stop, progress))).collect();
        let crowd = job.crowd.as_ref().map(|crowd| {
            let path_of = |content: &str| server.path_of(content, crowd.rate, 0);
            scope.spawn(move || crowd::run(crowd, plan, path_of, stop, progress))
        });
        let cameras = job.cameras.as_ref();
        let cameras =
            cameras.map(|cameras| scope.spawn(move || cameras::record(cameras, server, plan, stop, progress)));
        if let (Some(name), Some(slower)) = (&job.lab_disk, job.slower) {
            scope.spawn(move || slow_down(name, slower, plan, stop, over));
        }
        for n in 0..job.writers.count {
            let (begin, writer) = (plan.measure + job.writers.after, (server, n, job.writers.upload_bytes));
            scope.spawn(move || writer::upload(writer, begin, &|| progress.end(plan), stop, uploads));
        }
        let begun = scope.spawn(|| lab_when_writers_begin(job, plan, stop, progress));
        let length = plan.end().saturating_sub(plan.begin).as_secs_f64();
        say(format_args!("{}: {} streams × {}, {length:.0} s", server.name, plan.paths.len(), plan.terms.rate));
        let report = client::run(plan, stop, progress);
        // Read the disk's statistics at once: unfinished uploads continue for a while, alone on the disk.
        let ended = job.lab_disk.as_deref().map(lab_disk::statistics).transpose();
        over.store(true, Ordering::Relaxed);
        let lab = ended.map(|ended| (joined(begun), ended));
        let beside = beside.into_iter().map(joined).collect::<anyhow::Result<Vec<_>>>();
        let (crowd, cameras) = (crowd.map(joined).transpose(), cameras.map(joined).transpose());
        (report, joined(sampler), joined(idle), joined(hostile), beside, crowd, cameras, lab)
    });
    (0..job.writers.count).for_each(|n| writer::remove(server, n));
    // After an interrupt, figures of an incomplete run would be wrong.
    stop.check()?;
    let (lab_begun, lab) = lab?;
    let report = report?;
    let mut run = Run::of(&server.name, job.rate, &report, &samples);
    run.habits = (job.habits != ViewerHabits::default()).then(|| HabitFigures::of(&report.streams));
    run.crowd = crowd?;
    run.cameras = cameras?;
    if let Some(cameras) = &mut run.cameras {
        cameras.charge(run.cost.server_cpu_percent);
    }
    run.beside = beside?;
    run.hostile = Some(hostile?).filter(|_| job.hostile_clients > 0);
    run.probe = job.give_up;
    run.given_up = run.seconds < job.seconds;
    run.server_counts = server_counts;
    run.lab = lab.as_ref().map(lab_disk::LabFigures::of);
    run.stalled_clients = Some(held).filter(|_| job.stalled_clients > 0);
    if let Some(lab) = run.lab.filter(|l| l.over_10ms > 0) {
        run.disturbed.push(format!("the emulated disk was more than 10 ms late {} times", lab.over_10ms));
    }
    if job.writers.count > 0 {
        let uploads = uploads.lock().map(|mut done| std::mem::take(&mut *done)).unwrap_or_default();
        let Writers { count, upload_bytes, after } = job.writers;
        for second in &mut run.series {
            let from = plan.measure + Nanos::from_secs(second.at - 1);
            let within = |u: &&writer::UploadResult| u.at > from && u.at <= from + Nanos::from_secs(1);
            let done = uploads.iter().filter(within).filter(|u| u.failure.is_none()).count() as u64;
            second.uploaded_mbps = Some(real(done * upload_bytes) * 8.0 / 1e6);
        }
        let figures = writer::figures(plan.measure + after, progress.end(plan), count, upload_bytes, &uploads);
        let disk = lab.zip(lab_begun).and_then(|(ended, begun)| lab_disk::head_share(&begun, &ended));
        run.uploads = Some(writer::UploadFigures { disk, ..figures });
        if after > Nanos::ZERO {
            let (before, with) = run.series.split_at(whole_seconds(after).min(run.series.len()));
            (run.before_writer, run.with_writer) = (RunPhase::of(before), RunPhase::of(with));
        }
    }
    Ok(run)
}

fn whole_seconds(span: Nanos) -> usize {
    usize::try_from(span.0.div_ceil(1_000_000_000)).unwrap_or(usize::MAX)
}

/// Statistics of the emulated disk, if there is one, at the beginning of the writers, if there are any.
fn lab_when_writers_begin(
    job: &RunRequest,
    plan: &ClientPlan,
    stop: &Stop,
    progress: &RunProgress,
) -> Option<Statistics> {
    let name = job.lab_disk.as_deref().filter(|_| job.writers.count > 0)?;
    let begin = plan.measure + job.writers.after;
    clock::wait_until(begin, || stop.is_set() || begin >= progress.end(plan));
    lab_disk::statistics(name).ok()
}

/// Makes the emulated disk slower at the due time, and restores its speed at the end of the run.
fn slow_down(name: &str, slower: Slower, plan: &ClientPlan, stop: &Stop, over: &AtomicBool) {
    let is_over = || stop.is_set() || over.load(Ordering::Relaxed);
    clock::wait_until(plan.begin + slower.after, is_over);
    say(format_args!("the disk takes {} times as long from now on", slower.factor));
    for factor in [slower.factor, 1.0] {
        if let Err(error) = lab_disk::slow(name, factor) {
            say(format_args!("{error:#}"));
        }
        if factor > 1.0 {
            clock::wait_until(Nanos::MAX, is_over);
        }
    }
}

/// Reads the counters at the beginning of measuring and after each second, and the server's figures before the last reading.
fn sample(
    watched: &CountedNames,
    address: SocketAddr,
    plan: &ClientPlan,
    stop: &Stop,
    progress: &RunProgress,
) -> (Vec<RunCounters>, Option<ServerCounts>) {
    let (mut samples, mut words) = (Vec::new(), None);
    for second in 0..=plan.seconds {
        if second > progress.seconds(plan) {
            break;
        }
        if second == progress.seconds(plan) {
            words = server_counts::ask(address, stop);
        }
        let due = plan.measure + Nanos::from_secs(second);
        clock::wait_until(due, || stop.is_set());
        if stop.is_set() {
            break;
        }
        samples.push(watched.read());
    }
    (samples, words)
}

/// The cached data that a cold run drops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColdPart {
    /// Contents.
    Pages,
    /// Contents, and the file system's directories and inodes.
    PagesAndNames,
}

/// Drops cached data of the contents, so that it is read from the disk: as root the caches of the whole machine, else the pages
/// of each file.
pub(crate) fn drop_caches(roots: &[std::path::PathBuf], part: ColdPart) {
    rustix::fs::sync();
    let which = match part {
        ColdPart::Pages => "1",
        ColdPart::PagesAndNames => "3",
    };
    if std::fs::write("/proc/sys/vm/drop_caches", which).is_err() {
        for root in roots {
            drop_pages_below(root);
        }
    }
}

fn drop_pages_below(root: &Path) {
    for entry in std::fs::read_dir(root).into_iter().flatten().flatten() {
        if let Ok(file) = std::fs::File::open(entry.path()) {
            // Only an advice: a file whose advice fails stays cached, which the disk's figures show.
            let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
        }
    }
}
