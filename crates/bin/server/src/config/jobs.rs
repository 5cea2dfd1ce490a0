//! `[[job]]`: work at set times.
//!
//! Promise: a job that is read can be begun: its expression comes true, its kind has all keys that it needs and none that it does not know.
//! Not here: doing it (crate `automation`).

use std::time::Duration;

use automation::{CopyEnd, JobConfig, JobWork};
use jiff::tz::TimeZone;
use jobs::{CronSchedule, Missed};
use program::process;
use service::operations::RemovalLimits;
use store::ContentPath;
use units::Nanos;

use super::settings::Settings;
use super::toml_text::{AsToml, parse_word};
use super::{parse_path, parse_rate, parse_size, parse_span, span_up_to, time_up_to};

/// Longest name: it stands in addresses and labels.
const NAME_BYTES_MAX: usize = 64;
/// Keys that not all kinds have.
const KIND_KEYS: [&str; 10] =
    ["folder", "max_age", "max_size", "min_age", "protected", "from", "to", "login", "rate", "command"];
const DAY: Nanos = Nanos::from_secs(86_400);

/// Reads one `[[job]]`.
pub(super) fn take(entry: &mut Settings) -> Option<JobConfig> {
    let name = needed(entry, "name", "tells it from others: `nightly-copy`", parse_name);
    let cron =
        needed(entry, "schedule", "says when: `30 3 * * *` is half past three each night", |text| Ok(text.to_owned()));
    let time_zone = entry.take_optional("time_zone", |text| zone(Some(text)).map(|_| text.to_owned()));
    let jitter = entry.take("jitter", Nanos::ZERO, span_up_to(DAY));
    let missed = entry.take("missed", Missed::Skip, parse_word);
    let time_limit = entry.take("time_limit", DAY, time_up_to(Nanos::from_secs(30 * 86_400)));
    let kind = needed(entry, "kind", "is `keep`, `copy`, `scrub`, `measure` or `command`", |text| Ok(text.to_owned()));
    let Some(kind) = kind else {
        entry.pass_over(&KIND_KEYS);
        return None;
    };
    let work = match kind.as_str() {
        "keep" => take_keep(entry),
        "copy" => take_copy(entry),
        "scrub" => Some(take_scrub(entry)),
        "measure" => Some(JobWork::Measure),
        "command" => take_command(entry).map(JobWork::Command),
        other => {
            let message = format!("`{other}` is none of `keep`, `copy`, `scrub`, `measure`, `command`");
            entry.contradiction("kind", message);
            entry.pass_over(&KIND_KEYS);
            None
        }
    };
    entry.refuse_others(&KIND_KEYS, &format!("kind `{kind}`"));
    let (name, cron) = (name?, cron?);
    let zone = zone(time_zone.as_deref()).ok()?;
    let schedule = match CronSchedule::parse(&cron, zone, Duration::from_nanos(jitter.0), &name) {
        Ok(schedule) => schedule,
        Err(error) => {
            entry.contradiction("schedule", error.to_string());
            return None;
        }
    };
    Some(JobConfig { name, cron, time_zone, jitter, missed, time_limit, schedule, work: work? })
}

/// The reason that keeps the job from running on this machine.
pub(super) fn problem(job: &JobConfig) -> Option<String> {
    match &job.work {
        JobWork::Command(command) => process::problem(command).map(|problem| format!("command: {problem}")),
        JobWork::Copy { login, .. } => {
            let read = login.as_deref().map(client::Login::read);
            read.and_then(Result::err).map(|error| format!("login: {error:#}"))
        }
        JobWork::Keep(_) | JobWork::Scrub { .. } | JobWork::Measure => None,
    }
}

/// A setting without which the rest means nothing.
pub(super) fn needed<T: AsToml>(
    entry: &mut Settings,
    key: &'static str,
    what: &str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Option<T> {
    let problem = std::cell::Cell::new(false);
    let taken = entry.take_optional(key, |text| parse(text).inspect_err(|_| problem.set(true)));
    if taken.is_none() && !problem.get() {
        entry.contradiction(key, format!("it is needed: `{key}` {what}"));
    }
    taken
}

pub(super) fn parse_name(text: &str) -> Result<String, String> {
    let fits = !text.is_empty()
        && text.len() <= NAME_BYTES_MAX
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if fits {
        Ok(text.to_owned())
    } else {
        Err(format!("`{text}` is no name: letters, digits, `-` and `_`, {NAME_BYTES_MAX} at most"))
    }
}

/// The program and its arguments.
pub(super) fn take_command(entry: &mut Settings) -> Option<Vec<String>> {
    let command = entry.take_list("command");
    if command.first().is_some_and(|program| program.starts_with('/')) {
        return Some(command);
    }
    let message = "a list is needed: the program with its whole path, then its arguments, as no shell is asked: \
                   `[\"/usr/bin/touch\", \"/run/done\"]`";
    if !entry.is_blamed(&["command"]) {
        entry.contradiction("command", message.to_owned());
    }
    None
}

fn zone(name: Option<&str>) -> Result<TimeZone, String> {
    let Some(name) = name else { return Ok(TimeZone::system()) };
    TimeZone::get(name).map_err(|_| {
        format!("`{name}` is no time zone that this machine knows (package tzdata); write for example `Europe/Berlin`, or `UTC`")
    })
}

/// A folder that is served, as it is below `/media/`.
pub(super) fn parse_served(text: &str) -> Result<ContentPath, String> {
    if text.starts_with('/') {
        return Err(format!("`{text}` is a folder of the machine; write the served path below /media/: `recordings`"));
    }
    let mut names = text.trim_end_matches('/').split('/').filter(|_| !text.trim_end_matches('/').is_empty());
    names.try_fold(ContentPath::root(), |path, name| path.child(name).map_err(|error| format!("`{text}`: {error}")))
}

/// Contents and folders that are not removed.
pub(super) fn take_protected(entry: &mut Settings) -> Vec<ContentPath> {
    let protected = entry.take_list_of("protected", parse_served);
    if protected.is_empty() {
        entry.hide("protected");
    }
    protected
}

fn parse_end(text: &str) -> Result<CopyEnd, String> {
    if let Some(remote) = text.strip_prefix("rclone:") {
        let is_remote = remote
            .split_once(':')
            .is_some_and(|(name, _)| !name.is_empty() && !name.starts_with('-') && !name.contains('/'));
        return if is_remote {
            Ok(CopyEnd::Rclone(remote.trim_end_matches('/').to_owned()))
        } else {
            Err(format!(
                "`{text}` names no remote; write `rclone:REMOTE:PATH` with a remote of rclone's own configuration"
            ))
        };
    }
    match text.split_once("://") {
        None => parse_served(text).map(CopyEnd::Served),
        Some(("http" | "https", _)) => client::check_address(text).map(|()| CopyEnd::Isocast(text.to_owned())),
        Some(_) => Err(format!("`{text}`: only http://, https:// and `rclone:REMOTE:PATH` are understood")),
    }
}

fn take_keep(entry: &mut Settings) -> Option<JobWork> {
    let folder = needed(entry, "folder", "is the folder that is kept small, as it is below /media/", parse_served);
    let max_age = entry.take_optional("max_age", parse_span);
    let max_size = entry.take_optional("max_size", parse_size);
    let min_age = entry.take("min_age", RemovalLimits::MIN_AGE, parse_span);
    let protected = take_protected(entry);
    let limits = RemovalLimits { folder: folder.clone().unwrap_or_default(), max_age, max_size, min_age, protected };
    if !entry.is_blamed(&["max_age", "max_size", "min_age"])
        && let Some((key, message)) = limits.contradiction()
    {
        entry.contradiction(key, message.to_owned());
    }
    folder.map(|_| JobWork::Keep(limits))
}

fn take_scrub(entry: &mut Settings) -> JobWork {
    let folder = entry.take("folder", ContentPath::root(), parse_served);
    JobWork::Scrub { folder, rate: entry.take_optional("rate", parse_rate) }
}

fn take_copy(entry: &mut Settings) -> Option<JobWork> {
    let what = "is a folder below /media/, or `http://HOST:PORT/media/FOLDER` of another Isocast";
    let from = needed(entry, "from", what, parse_end);
    let to = needed(entry, "to", &format!("{what}, or `rclone:REMOTE:PATH`"), parse_end);
    let login = entry.take_optional("login", parse_path);
    let rate = entry.take_optional("rate", parse_rate);
    let (from, to) = (from?, to?);
    match (&from, &to) {
        (CopyEnd::Rclone(_), _) => entry.contradiction("from", "a target of rclone can only be copied to".to_owned()),
        (CopyEnd::Served(_), CopyEnd::Served(_)) => {
            entry.contradiction("to", "both ends are this server; one has to be another".to_owned());
        }
        _ => {}
    }
    Some(JobWork::Copy { from, to, login, rate })
}

#[cfg(test)]
mod tests {
    use super::super::Config;

    fn load(text: &str) -> Result<Config, String> {
        Config::load_file("f.toml".as_ref(), text).map_err(|error| error.to_string())
    }

    fn job(text: &str) -> String {
        let text = format!("[[job]]\nname = \"a\"\n{text}\n");
        load(&text).map_or_else(|error| error, |config| config.to_string())
    }

    #[test]
    fn an_error_in_a_job_is_reported_with_its_line() {
        let keep = "kind = \"keep\"\nfolder = \"a/b\"\nmax_age = \"30d\"\n";
        for (text, part) in [
            (format!("{keep}schedule = \"61 * * * *\""), "f.toml:1: job.schedule: `61` is no minute (0-59"),
            (format!("{keep}schedule = \"every night\""), "has 2 fields; write five"),
            (keep.to_owned(), "f.toml:1: job.schedule: it is needed"),
            (
                format!("{keep}schedule = \"@daily\"\ntime_zone = \"Mars/Base\""),
                "f.toml:7: job.time_zone: `Mars/Base` is no time zone",
            ),
            (format!("{keep}schedule = \"@daily\"\nmissed = \"twice\""), "neither `skip` nor `once`"),
            (format!("{keep}schedule = \"@daily\"\nmax_sise = \"1G\""), "did you mean `max_size`"),
            ("schedule = \"@daily\"".to_owned(), "job.kind: it is needed"),
            ("schedule = \"@daily\"\nkind = \"sweep\"".to_owned(), "`sweep` is none of"),
            (
                "schedule = \"@daily\"\nkind = \"keep\"\nfolder = \"/srv/x\"\nmax_age = \"1d\"".to_owned(),
                "the served path below /media/",
            ),
            ("schedule = \"@daily\"\nkind = \"keep\"\nfolder = \"../x\"\nmax_age = \"1d\"".to_owned(), "not allowed"),
            ("schedule = \"@daily\"\nkind = \"keep\"\nfolder = \"x\"".to_owned(), "one of `max_age` and `max_size`"),
            (
                format!("{keep}schedule = \"@daily\"\nmin_age = \"31d\""),
                "f.toml:1: job.max_age: it is shorter than `min_age`",
            ),
            (
                "schedule = \"@daily\"\nkind = \"keep\"\nfolder = \"x\"\nmax_age = \"30min\"".to_owned(),
                "`1h` where that is not written",
            ),
            (
                "schedule = \"@daily\"\nkind = \"copy\"\nfrom = \"x\"\nto = \"y\"".to_owned(),
                "both ends are this server",
            ),
            (
                "schedule = \"@daily\"\nkind = \"copy\"\nfrom = \"x\"\nto = \"ftp://y/media/\"".to_owned(),
                "only http://",
            ),
            (
                "schedule = \"@daily\"\nkind = \"copy\"\nfrom = \"x\"\nto = \"http://y/\"".to_owned(),
                "http://HOST:PORT/media/FILE",
            ),
            ("schedule = \"@daily\"\nkind = \"copy\"\nfrom = \"x\"\nto = \"rclone:y\"".to_owned(), "names no remote"),
            (
                "schedule = \"@daily\"\nkind = \"copy\"\nfrom = \"x\"\nto = \"rclone:/tmp/y:\"".to_owned(),
                "names no remote",
            ),
            (
                "schedule = \"@daily\"\nkind = \"copy\"\nfrom = \"rclone:y:\"\nto = \"x\"".to_owned(),
                "only be copied to",
            ),
            ("schedule = \"@daily\"\nkind = \"command\"\ncommand = [\"rm\"]".to_owned(), "with its whole path"),
            (
                "schedule = \"@daily\"\nkind = \"measure\"\nrate = \"1M\"".to_owned(),
                "f.toml:5: job.rate: `rate` is not for kind `measure`",
            ),
            (
                "schedule = \"@daily\"\nkind = \"scrub\"\nmax_age = \"1d\"".to_owned(),
                "`max_age` is not for kind `scrub`",
            ),
            (
                "schedule = \"@daily\"\nkind = \"copy\"\nfrom = \"x\"\nto = \"rclone:y:\"\ncommand = [\"/bin/x\"]"
                    .to_owned(),
                "`command` is not for kind `copy`",
            ),
        ] {
            assert!(job(&text).contains(part), "{part}: {}", job(&text));
        }
        // One mistake is one line: no key is called missing or foreign because another one was not understood.
        for text in [
            format!("{keep}schedule = \"@daily\"").replace("30d", "soon"),
            format!("{keep}schedule = \"@daily\"").replace("keep", "sweep"),
            format!("{keep}schedule = \"@daily\"").replace("kind", "#"),
            "schedule = \"@daily\"\nkind = \"command\"\ncommand = \"/bin/true\"".to_owned(),
        ] {
            assert_eq!(job(&text).lines().count(), 2, "{text}: {}", job(&text));
        }
        let twice = "[[job]]\nname = \"a\"\nschedule = \"@daily\"\nkind = \"measure\"\n".repeat(2);
        assert!(load(&twice).unwrap_err().contains("job: `a` is the name of two"));
        assert!(load("[job]\nname = \"a\"\n").unwrap_err().contains("write `[[job]]`"));
    }

    #[test]
    fn a_shown_job_loads_as_the_same() {
        let text = "[[job]]\nname = \"a\"\nkind = \"keep\"\nschedule = \"30 3 * * 1-5\"\ntime_zone = \"UTC\"\njitter = \"5min\"\n\
                    missed = \"once\"\nfolder = \"re cordings/\"\nmax_age = \"30d\"\nmax_size = \"500GB\"\nprotected = [\"re cordings/x\"]\n[[job]]\nname = \"b\"\n\
                    kind = \"copy\"\nschedule = \"@hourly\"\nfrom = \"\"\nto = \"http://h:1/media/x\"\nlogin = \"/l\"\nrate = \"8M\"\n\
                    [[job]]\nname = \"c\"\nkind = \"command\"\nschedule = \"*/10 * * * * *\"\ncommand = [\"/bin/a b\", \"\\\"\"]\n\
                    [[job]]\nname = \"d\"\nkind = \"copy\"\nschedule = \"@daily\"\nfrom = \"x\"\nto = \"rclone:s3:bucket/x\"\n\
                    [[job]]\nname = \"e\"\nkind = \"scrub\"\nschedule = \"@weekly\"\n\
                    [[job]]\nname = \"f\"\nkind = \"scrub\"\nschedule = \"@weekly\"\nfolder = \"x\"\nrate = \"8M\"\n";
        let config = load(text).expect("good");
        assert_eq!(config.jobs.len(), 6);
        assert_eq!(load(&config.to_string()).expect("shown"), config, "{config}");
    }
}
