//! Configuration: one TOML file and the parts in its folder `conf.d`, every key also as `ISOCAST_A__B`, the common ones as flags.
//!
//! Promise: read once, checked as a whole, unit-typed; an error names file, line, key and the right notation. Not here:
//! the effect of the settings. Reference: docs/reference/config.md; sample: packaging/isocast.toml (tests keep both in
//! step with these files).

mod access;
mod arrays;
mod budgets;
mod change;
mod command;
pub(crate) mod edit;
mod file;
mod ftp;
mod hints;
mod jobs;
mod limits;
mod links;
mod machine_check;
mod openid;
mod plane;
mod problem;
mod quotas;
mod removals;
mod schedule;
mod settings;
mod shown;
mod tls;
mod toml_text;
mod values;
mod webhooks;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use service::budgets::{BudgetLimits, BudgetScope};
use service::config::{RECORDING_DURABLE_MAX, WhenFull};
use service::quota::QuotaConfig;
use snmp::AgentxAddress;
use units::{BitRate, ByteCount, Nanos};

use access::{Anonymous, parse_host, parse_origin};
pub(crate) use change::{Change, needs_restart};
pub use command::{ConfigArgs, ServeArgs};
pub(crate) use file::replace_text;
pub(crate) use ftp::FtpConfig;
use limits::LimitsConfig;
pub(crate) use links::LinkSetting;
pub(crate) use openid::OpenIdConfig;
pub(crate) use plane::PlaneSettings;
use problem::Problem;
pub(crate) use problem::{ConfigError, Origin};
pub(crate) use schedule::ScheduleConfig;
use settings::Settings;
use shown::ShownSettings;
pub(crate) use tls::TlsConfig;
use toml_text::parse_word;
use values::{
    any_path, parse_address, parse_choice, parse_disks, parse_path, parse_rate, parse_size, parse_span, span_between,
    span_up_to, time_up_to,
};

/// Every key with its meaning and its default.
const SAMPLE: &str = include_str!("../../../../../packaging/isocast.toml");
/// Jobs, webhooks, and quotas, at most.
const JOBS_MAX: usize = 64;

/// Settings that `serve` runs with.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Config {
    /// Address at which HTTP is served.
    pub(crate) listen: SocketAddr,
    /// HTTP over TLS, in addition to that.
    pub(crate) tls: TlsConfig,
    /// FTP, in addition to that.
    pub(crate) ftp: FtpConfig,
    /// Folders to serve files from, merged into one namespace. May be empty here; `serve` needs one, or a volume.
    pub(crate) roots: Vec<PathBuf>,
    /// Volumes that are served in addition to them, each as its disks.
    pub(crate) volumes: Vec<Vec<PathBuf>>,
    /// Those of the folders that are served only while a file system is mounted there.
    pub(crate) require_mount: Vec<PathBuf>,
    /// True: names that begin with a dot, and `lost+found`, are served.
    pub(crate) hidden_files: bool,
    pub(crate) refill_disks: bool,
    /// Folder for disk profiles and the index.
    pub(crate) state: PathBuf,
    /// The data plane's and the disks' clockwork.
    pub(crate) schedule: ScheduleConfig,
    /// The data plane's thread and memory.
    pub(crate) plane: PlaneSettings,
    /// How streams start and end.
    pub(crate) streams: StreamsConfig,
    /// Time for which a paused viewer keeps its reservation.
    pub(crate) session_hold: Nanos,
    /// Time for which an upload waits to be continued.
    pub(crate) uploads_expire: Nanos,
    /// Time for which the trash keeps an item; zero: there is none.
    pub(crate) trash_keep: Nanos,
    /// Most bytes of the trash.
    pub(crate) trash_size: ByteCount,
    /// Longest part of a recording that may be missing after a power cut.
    pub(crate) recording_durable: Nanos,
    /// Bounds on clients.
    pub(crate) limits: LimitsConfig,
    /// Rates of network interfaces, where their own reports are wrong or missing.
    pub(crate) links: Vec<LinkSetting>,
    /// The rate of a stream where neither the request nor the content says one, by path prefix below `/media/`.
    pub(crate) path_rates: Vec<(String, BitRate)>,
    /// Treatment of a stream for which there is no room, by path prefix below `/media/`.
    pub(crate) path_when_full: Vec<(String, WhenFull)>,
    /// Longest part of a recording that may be missing, by path prefix below `/media/`.
    pub(crate) path_durable: Vec<(String, Nanos)>,
    /// Users that are taken over into the accounts: name and argon2 hash (PHC string).
    pub(crate) users: Vec<(String, String)>,
    /// Without users, programs on this machine may write.
    pub(crate) local_writes: bool,
    /// Clients without a login read everything.
    pub(crate) anonymous_reads: bool,
    /// Networks of proxies that say for which client they speak.
    pub(crate) trusted_proxies: Vec<IpNet>,
    /// Passwords are taken from other machines without encryption, too.
    pub(crate) proxy_protocol: bool,
    pub(crate) plain_passwords: bool,
    /// The provider of identities that logs browsers in.
    pub(crate) openid: Option<OpenIdConfig>,
    /// Origins with pages that may read answers.
    pub(crate) cors_origins: Vec<String>,
    /// Names that the server goes by, besides addresses and names that no other machine can have.
    pub(crate) hosts: Vec<String>,
    /// Files to write logs to.
    pub(crate) log: LogConfig,
    /// Address of the machine's SNMP agent, at which this server registers.
    pub(crate) agentx: Option<AgentxAddress>,
    /// Bounds on the contents of folders.
    pub(crate) quotas: Vec<QuotaConfig>,
    /// Budgets of users, groups, tokens, links and addresses.
    pub(crate) budgets: Vec<(BudgetScope, BudgetLimits)>,
    /// Work at set times.
    pub(crate) jobs: Vec<automation::JobConfig>,
    /// Receivers of events.
    pub(crate) webhooks: Vec<automation::WebhookConfig>,
    /// All these values, as they are shown.
    pub(crate) shown: ShownSettings,
    /// Files that hold a setting.
    files: BTreeSet<PathBuf>,
}

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.shown.fmt(f)
    }
}

/// How streams start and end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StreamsConfig {
    /// Seconds of media sent ahead of the rate at the start.
    pub(crate) start_burst: Nanos,
    /// A client that takes nothing for this long gives up its reservation.
    pub(crate) stall: Nanos,
}

/// Files to write logs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogConfig {
    /// Requests, in the combined format; `None`: nowhere.
    pub(crate) access: Option<PathBuf>,
    /// Events, one JSON object per line; `None`: standard error.
    pub(crate) events: Option<PathBuf>,
}

impl Config {
    /// Reads the file, the environment and the flags, in this order, and checks the whole.
    ///
    /// # Errors
    /// All problems at once.
    pub(crate) fn load(args: &ServeArgs) -> Result<Self, ConfigError> {
        let written = Self::written(args, &|file| std::fs::read_to_string(file));
        let files = written.files();
        Ok(Self { files, ..Self::check(written)? })
    }

    /// The same for a server, which needs something to serve.
    ///
    /// # Errors
    /// All problems at once.
    pub(crate) fn load_to_serve(args: &ServeArgs) -> Result<Self, ConfigError> {
        let config = Self::load(args)?;
        config.nothing_served().map_or(Ok(config), |problem| Err(ConfigError(vec![problem])))
    }

    /// The same for a server that runs by `running`, which may not lose its rules by a file that was emptied.
    ///
    /// # Errors
    /// All problems at once.
    pub(crate) fn load_again(args: &ServeArgs, running: &Self) -> Result<Self, ConfigError> {
        let config = Self::load_to_serve(args)?;
        let emptied = running.files.iter().filter(|file| file.exists() && !config.files.contains(*file));
        let problem = |file: &PathBuf| Problem {
            origin: None,
            key: None,
            message: format!(
                "{} held settings and is empty of them now: write them anew; to run without them, remove the file (the one of `--config`: \
                 start the server again)",
                file.display()
            ),
        };
        let problems: Vec<_> = emptied.map(problem).collect();
        if problems.is_empty() { Ok(config) } else { Err(ConfigError(problems)) }
    }

    /// The same as [`Self::load`], with `text` in the place of a file's.
    ///
    /// # Errors
    /// All problems at once.
    pub(crate) fn load_edited(args: &ServeArgs, path: &Path, text: &str) -> Result<Self, ConfigError> {
        let read = |file: &Path| if file == path { Ok(text.to_owned()) } else { std::fs::read_to_string(file) };
        Self::check(Self::written(args, &read))
    }

    /// All values where nothing is written.
    pub(crate) fn default_entries() -> BTreeMap<String, toml::Value> {
        Self::check(Settings::default()).map_or_else(|_| BTreeMap::new(), |config| config.shown.entries())
    }

    /// Where each setting is written now.
    pub(crate) fn origins(args: &ServeArgs) -> BTreeMap<String, Origin> {
        Self::written(args, &|file| std::fs::read_to_string(file)).origins()
    }

    /// The settings as they are written.
    fn written(args: &ServeArgs, read: &dyn Fn(&Path) -> io::Result<String>) -> Settings {
        let mut settings = Settings::default();
        if let Some(path) = &args.config {
            settings.add_files(path, read);
        }
        settings.add_environment(
            std::env::vars_os().filter_map(|(n, v)| Some((n.into_string().ok()?, v.into_string().ok()?))),
        );
        args.add_to(&mut settings);
        settings
    }

    /// Checks a file and its parts: neither the environment nor flags.
    ///
    /// # Errors
    /// All problems at once.
    pub(crate) fn load_with_parts(path: &Path) -> Result<Self, ConfigError> {
        let mut settings = Settings::default();
        settings.add_file_and_parts(path);
        Self::check(settings)
    }

    /// Checks a text as one file by itself.
    ///
    /// # Errors
    /// All problems at once.
    #[cfg(test)]
    pub(crate) fn load_file(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let mut settings = Settings::default();
        settings.add_file(path, text);
        Self::check(settings)
    }

    fn check(settings: Settings) -> Result<Self, ConfigError> {
        let (config, problems) = Self::read(settings);
        if problems.is_empty() { Ok(config) } else { Err(ConfigError(problems)) }
    }

    /// The configuration with these values, which may not fit each other.
    fn of_shown(shown: &ShownSettings) -> (Self, Vec<Problem>) {
        let (mut settings, text) = (Settings::default(), shown.to_string());
        assert!(text.parse::<toml::Table>().is_ok(), "a shown configuration can be read");
        settings.add_file(Path::new(""), &text);
        Self::read(settings)
    }

    fn read(mut settings: Settings) -> (Self, Vec<Problem>) {
        let settings_ref = &mut settings;
        let ftp = FtpConfig::take(settings_ref);
        let tls = TlsConfig::take(settings_ref, ftp.listen.or(ftp.implicit_listen).is_some());
        let schedule = ScheduleConfig::take(settings_ref);
        let durable_min = schedule.recording_durable_min();
        let durable_span = span_between(durable_min, RECORDING_DURABLE_MAX);
        let config = Self {
            listen: settings_ref.take("listen", SocketAddr::from(([127, 0, 0, 1], 8080)), parse_address),
            tls,
            ftp,
            roots: settings_ref.take_list_of("roots", any_path),
            volumes: settings_ref.take_list_of("volumes", parse_disks).into_iter().map(|disks| disks.0).collect(),
            require_mount: settings_ref.take_list_of("require_mount", any_path),
            hidden_files: settings_ref.take("hidden_files", false, parse_choice),
            refill_disks: settings_ref.take("refill_disks", true, parse_choice),
            state: settings_ref.take("state", program::default_state(), parse_path),
            schedule,
            plane: PlaneSettings::take(settings_ref),
            streams: StreamsConfig {
                start_burst: settings_ref.take("streams.start_burst", Nanos::ZERO, span_up_to(Nanos::from_secs(60))),
                stall: settings_ref.take("streams.stall", Nanos::from_secs(30), time_up_to(Nanos::from_secs(3600))),
            },
            session_hold: settings_ref.take("sessions.hold", Nanos::from_secs(60), span_up_to(Nanos::from_secs(3600))),
            uploads_expire: settings_ref.take(
                "uploads.expire",
                Nanos::from_secs(7 * 86_400),
                span_between(Nanos::from_secs(60), Nanos::from_secs(366 * 86_400)),
            ),
            trash_keep: settings_ref.take(
                "trash.keep",
                Nanos::from_secs(7 * 86_400),
                span_up_to(Nanos::from_secs(366 * 86_400)),
            ),
            trash_size: settings_ref.take("trash.size", ByteCount(100 << 30), parse_size),
            recording_durable: settings_ref.take(
                "recordings.durable",
                durable_min.max(Nanos::from_secs(10)),
                &durable_span,
            ),
            limits: LimitsConfig::take(settings_ref),
            links: links::take(settings_ref),
            path_rates: settings_ref.take_table("path_rates", parse_rate),
            path_when_full: settings_ref.take_table("path_when_full", parse_word),
            path_durable: settings_ref.take_table("path_durable", &durable_span),
            users: settings_ref.take_table("users", |text| match text.starts_with("$argon2") {
                true => Ok(text.to_owned()),
                false => Err("an argon2 hash is needed, not a password: `isocast user add NAME` makes it".to_owned()),
            }),
            local_writes: settings_ref.take("access.local_writes", false, parse_choice),
            anonymous_reads: settings_ref.take("access.anonymous", Anonymous::Read, parse_word) == Anonymous::Read,
            trusted_proxies: settings_ref.take_list_of("access.trusted_proxies", |text| {
                service::accounts::parse_network(text).map_err(|error| error.to_string())
            }),
            proxy_protocol: settings_ref.take("access.proxy_protocol", false, parse_choice),
            plain_passwords: settings_ref.take("access.plain_passwords", false, parse_choice),
            openid: OpenIdConfig::take(settings_ref),
            cors_origins: settings_ref.take_list_of("access.cors_origins", parse_origin),
            hosts: settings_ref.take_list_of("access.hosts", parse_host),
            log: LogConfig {
                access: settings_ref.take_optional("log.access", parse_path),
                events: settings_ref.take_optional("log.events", parse_path),
            },
            agentx: settings_ref.take_optional("snmp.agentx", AgentxAddress::parse),
            quotas: settings_ref.take_each("quota", JOBS_MAX, quotas::take),
            budgets: settings_ref.take_each("budget", JOBS_MAX, budgets::take),
            jobs: settings_ref.take_each("job", JOBS_MAX, jobs::take),
            webhooks: settings_ref.take_each("webhook", JOBS_MAX, webhooks::take),
            shown: settings_ref.shown(),
            files: BTreeSet::new(),
        };
        let addresses = [
            ("listen", Some(config.listen)),
            ("tls.listen", config.tls.listen),
            ("ftp.listen", config.ftp.listen),
            ("ftp.implicit_listen", config.ftp.implicit_listen),
        ];
        for (at, (key, address)) in addresses.iter().enumerate() {
            let mut before = addresses.iter().take(at);
            if let Some((other, _)) = before.find(|(_, other)| address.zip(*other).is_some_and(overlap)) {
                settings.contradiction(key, format!("its port is the one of `{other}`; name another one"));
            }
        }
        if let Some(message) = config.ftp.contradiction(&config.tls) {
            settings.contradiction("ftp.tls", message);
        }
        if config.proxy_protocol && config.trusted_proxies.is_empty() {
            let message =
                "name the proxies, else no connection begins so; write for example `[\"10.0.0.7\"]`".to_owned();
            settings.contradiction("access.trusted_proxies", message);
        }
        twice(&mut settings, "quota", quotas::folders(&config.quotas).iter().map(String::as_str));
        let holders: Vec<String> = config.budgets.iter().map(|(of, _)| of.to_string()).collect();
        twice(&mut settings, "budget", holders.iter().map(String::as_str));
        twice(&mut settings, "job", config.jobs.iter().map(|job| job.name.as_str()));
        twice(&mut settings, "webhook", config.webhooks.iter().map(|webhook| webhook.name.as_str()));
        if let Some(other) = config.require_mount.iter().find(|path| !config.roots.contains(path)) {
            let message = format!("{} is none of `roots`", other.display());
            settings.contradiction("require_mount", message);
        }
        (config, settings.finish())
    }
}

/// True if only one of two addresses can be listened on. With port 0 the system chooses.
fn overlap((a, b): (SocketAddr, SocketAddr)) -> bool {
    let is_all = a.is_ipv4() == b.is_ipv4() && (a.ip().is_unspecified() || b.ip().is_unspecified());
    a.port() == b.port() && a.port() != 0 && (a.ip() == b.ip() || is_all)
}

/// Blames a name that two have.
fn twice<'a>(settings: &mut Settings, key: &str, names: impl Iterator<Item = &'a str>) {
    let mut seen = BTreeSet::new();
    for name in names.filter(|name| !seen.insert(*name)) {
        settings.contradiction(key, format!("`{name}` is the name of two"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFERENCE: &str = include_str!("../../../../../docs/reference/config.md");

    fn load(text: &str) -> Result<Config, String> {
        Config::load_file(Path::new("isocast.toml"), text).map_err(|error| error.to_string())
    }

    /// The sample with every `#key = value` line made real.
    fn uncommented_sample() -> String {
        let real = |line: &str| match line.strip_prefix('#') {
            Some(rest) if !rest.starts_with(' ') && !rest.is_empty() => rest.to_owned(),
            _ => line.to_owned(),
        };
        SAMPLE.lines().map(|line| real(line) + "\n").collect()
    }

    #[test]
    fn the_sample_as_shipped_says_nothing_but_the_defaults() {
        assert_eq!(load(SAMPLE).unwrap(), load("").unwrap());
        let set = SAMPLE.lines().find(|line| !line.is_empty() && !line.starts_with(['#', '[']));
        assert_eq!(set, None, "a default stands behind a `#`");
    }

    #[test]
    fn the_sample_names_every_key_with_its_default() {
        let text = uncommented_sample();
        let mut config = load(&text).unwrap();
        assert_eq!(load(&config.to_string()).unwrap(), config, "as it is shown");
        let defaults = load("").unwrap();
        assert_eq!(config.roots, [PathBuf::from("/srv/media")]);
        assert_eq!((config.links.len(), config.links[0].into), (1, Some(BitRate(1_000_000_000))));
        assert!(config.log.access.is_some() && config.log.events.is_some());
        assert_eq!(config.require_mount, config.roots);
        config.roots.clear();
        config.require_mount.clear();
        assert_eq!(config.volumes, [[PathBuf::from("/dev/sdb"), PathBuf::from("/dev/sdc")]]);
        config.volumes.clear();
        assert_eq!(config.path_rates, [("lectures/".to_owned(), BitRate(8_000_000))]);
        assert_eq!(config.path_when_full, [("previews/".to_owned(), WhenFull::BestEffort)]);
        assert_eq!(config.path_durable, [("doors/".to_owned(), Nanos::from_secs(5))]);
        assert_eq!(config.users.len(), 1);
        assert_eq!(config.agentx, Some(AgentxAddress::Unix("/var/agentx/master".into())));
        config.agentx = None;
        assert!(config.tls.listen.is_some() && config.tls.pairs.len() == 1);
        config.tls = defaults.tls.clone();
        assert!(config.ftp.listen.is_some() && config.ftp.passive_address.is_some());
        config.ftp = defaults.ftp.clone();
        let kinds: Vec<&str> = config.jobs.iter().map(|job| job.work.kind()).collect();
        assert_eq!((kinds, config.webhooks.len()), (vec!["keep", "copy", "scrub", "measure", "command"], 2));
        assert_eq!(config.quotas.len(), 2);
        config.quotas.clear();
        assert_eq!(config.budgets.len(), 2);
        config.budgets.clear();
        assert!(config.openid.as_ref().is_some_and(|openid| openid.groups_claim.is_some()));
        config.openid = None;
        config.jobs.clear();
        config.webhooks.clear();
        config.links.clear();
        config.path_rates.clear();
        config.path_when_full.clear();
        config.path_durable.clear();
        config.users.clear();
        config.log = defaults.log.clone();
        config.shown = defaults.shown.clone();
        config.state.clone_from(&defaults.state);
        assert_eq!(config, defaults);
        for key in keys() {
            let name = key.rsplit('.').next().unwrap_or(&key);
            let begins = [format!("{name} = "), format!("[{name}]"), format!("[[{name}]]")];
            let named = text.lines().any(|line| begins.iter().any(|begin| line.starts_with(begin)));
            assert!(named, "packaging/isocast.toml lacks {key}");
        }
    }

    #[test]
    fn the_reference_explains_every_key() {
        for key in keys() {
            assert!(REFERENCE.contains(&format!("`{key}`")), "docs/reference/config.md lacks {key}");
        }
    }

    #[test]
    fn the_reference_states_the_default_of_every_key_that_has_one() {
        for (key, value) in Config::default_entries() {
            let row = REFERENCE.lines().find_map(|line| line.strip_prefix(&format!("| `{key}` | ")));
            let cell = row.unwrap_or_else(|| panic!("docs/reference/config.md lacks a row for {key}"));
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            // The other cells describe a default in words, and that of `state` is the machine's.
            let is_stated = !cell.starts_with('`') || key == "state" || cell.starts_with(&format!("`{text}`"));
            assert!(is_stated, "{key}: `{text}` is the default: {cell}");
        }
    }

    /// Every key there is: those that are asked for.
    fn keys() -> Vec<String> {
        let sources = [
            ("", include_str!("mod.rs")),
            ("", include_str!("schedule.rs")),
            ("", include_str!("plane.rs")),
            ("", include_str!("limits.rs")),
            ("", include_str!("links.rs")),
            ("", include_str!("tls.rs")),
            ("", include_str!("ftp.rs")),
            ("", include_str!("openid.rs")),
            ("quota.", include_str!("quotas.rs")),
            ("budget.", include_str!("budgets.rs")),
            ("job.", include_str!("jobs.rs")),
            ("webhook.", include_str!("webhooks.rs")),
        ];
        let mut keys = Vec::new();
        for (prefix, source) in sources {
            let code = source.split("\nmod tests").next().unwrap_or_default().replace("needed(entry, ", ".take(");
            let asked = code.split(".take").filter_map(|call| call.split_once('(')?.1.trim_start().strip_prefix('"'));
            keys.extend(asked.filter_map(|rest| rest.split('"').next()).map(|key| format!("{prefix}{key}")));
        }
        assert!(keys.len() > 90, "the keys are found in the text of these files: {keys:?}");
        keys.sort_unstable();
        keys
    }

    #[test]
    fn a_toml_error_names_line_and_key_but_no_value() {
        for (text, said) in [
            ("[snmp]\nagentx = \"/a\"\n[snmp]\n", "isocast.toml:3: [snmp]: duplicate key"),
            ("listen = \"127.0.0.1:1\"\n listen=\"127.0.0.1:2\"\n", "isocast.toml:2: listen: duplicate key"),
            ("[users]\nalice = hash\n", "isocast.toml:2: alice: "),
            ("listen = [\n\"$argon2id$hash\" \"\"]\n", "isocast.toml:2: "),
        ] {
            let error = load(text).unwrap_err();
            assert!(error.contains(said) && !error.contains("hash"), "{error}");
        }
    }

    #[test]
    fn units_are_required_and_the_place_is_named() {
        let error = load("\n[schedule]\ncycle = 250\n").unwrap_err();
        assert!(
            error.contains("isocast.toml:3: schedule.cycle: `250` has no unit; write for example `250ms"),
            "{error}"
        );
        let error = load("[links]\neth0 = \"1000\"\n").unwrap_err();
        assert!(error.contains("isocast.toml:2: links.eth0: `1000` has no unit"), "{error}");
    }

    #[test]
    fn a_value_that_would_stop_the_server_from_serving_is_refused() {
        for (text, said) in [
            ("limits.head_timeout = \"0s\"", "limits.head_timeout: `0s`: nothing is done in no time"),
            ("limits.upload_idle = \"0s\"", "limits.upload_idle: `0s`: nothing is done in no time"),
            ("streams.stall = \"0s\"", "streams.stall: `0s`: nothing is done in no time"),
            ("log.access = true", "log.access: a path is needed"),
            ("access.proxy_protocol = true", "access.trusted_proxies: name the proxies"),
            ("links = \"1G\"", "links: a table is needed: write `[links]`"),
            ("tls.hsts = \"1000d\"", "tls.hsts: `1000d` is too long (730d at most)"),
        ] {
            let error = load(text).and(Ok(())).unwrap_err();
            assert!(error.contains(said) && error.lines().count() == 2, "{error}");
        }
    }

    #[test]
    fn every_problem_is_reported_at_once() {
        let error = load("listen = \"localhost\"\n[plane]\npriority = 100\nmemory = \"1M\"\n").unwrap_err();
        assert_eq!(error.lines().count(), 4, "{error}");
    }

    #[test]
    fn an_address_is_listened_on_once() {
        let ftp = |listen: &str, ftp: &str| load(&format!("listen = \"{listen}\"\nftp.listen = \"{ftp}\"\n"));
        for (http, other) in [("127.0.0.1:80", "127.0.0.1:80"), ("0.0.0.0:80", "127.0.0.1:80"), ("[::1]:80", "[::]:80")]
        {
            let error = ftp(http, other).and(Ok(())).unwrap_err();
            assert!(error.contains("ftp.listen: its port is the one of `listen`"), "{error}");
        }
        for (http, other) in
            [("127.0.0.1:80", "127.0.0.1:21"), ("127.0.0.1:80", "127.0.0.2:80"), ("127.0.0.1:0", "127.0.0.1:0")]
        {
            assert!(ftp(http, other).is_ok(), "{http} {other}");
        }
    }

    #[test]
    fn a_password_is_not_taken_for_its_hash() {
        let error = load("[users]\nalice = \"secret\"\n").unwrap_err();
        assert!(error.contains("isocast.toml:2: users.alice: an argon2 hash is needed"), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
}
