//! Difference of two configurations: the part in force at once, and the part that needs a restart.
//!
//! Promise: settings that shape the running parts (addresses, folders, the plane, the schedule) stay as they were
//! until the next start, and are named. Not here: putting anything in force.

use std::collections::BTreeSet;

use super::Config;
use super::shown::is_within;

/// Settings that need a restart: these, or all below them.
const RESTART: [&str; 17] = [
    "listen",
    "tls.listen",
    "tls.authority",
    "tls.names",
    "tls.contact",
    "tls.proof",
    "ftp.listen",
    "ftp.implicit_listen",
    "ftp.tls",
    "roots",
    "volumes",
    "require_mount",
    "hidden_files",
    "refill_disks",
    "state",
    "schedule",
    "plane",
];

/// A configuration read anew, set against the one in force.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Change {
    /// The configuration to put in force: the new one, except for settings that need a restart.
    pub(crate) config: Config,
    /// Keys that changed and can be in force at once.
    pub(crate) changed: Vec<String>,
    /// Keys that changed and need a restart.
    pub(crate) restart: Vec<String>,
}

impl Change {
    /// From the one in force to `new`. Values that those of the running schedule do not permit wait for the restart with them.
    pub(crate) fn between(running: &Config, new: Config) -> Self {
        let merged = |unfit: &BTreeSet<String>| {
            let stays = |key: &str| needs_restart(key) || unfit.contains(key);
            Config::of_shown(&new.shown.clone().beside(&running.shown, stays))
        };
        let (_, problems) = merged(&BTreeSet::new());
        // A value that is not accepted has an origin; contradictions of several have none.
        let unfit = problems.into_iter().filter(|problem| problem.origin.is_some()).filter_map(|problem| problem.key);
        let unfit: BTreeSet<String> = unfit.collect();
        let keys = differing(running, &new).into_iter();
        let (restart, changed) = keys.partition(|key| needs_restart(key) || unfit.contains(key));
        let config = Config { files: new.files.clone(), ..merged(&unfit).0 };
        Self { config, changed, restart }
    }
}

/// True if a change of it is in force from the next start on.
pub(crate) fn needs_restart(key: &str) -> bool {
    RESTART.iter().any(|name| is_within(key, name))
}

/// Keys with different values: the configuration as it is shown knows all of them.
fn differing(a: &Config, b: &Config) -> BTreeSet<String> {
    let texts = |config: &Config| {
        config.shown.0.iter().map(|(key, value)| (key.clone(), value.to_string())).collect::<BTreeSet<_>>()
    };
    let (a, b) = (texts(a), texts(b));
    a.symmetric_difference(&b).map(|(key, _)| key.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        Config::load_file("test.toml".as_ref(), text).expect("a good configuration")
    }

    #[test]
    fn a_reload_applies_changes_and_names_the_rest() {
        let running = config("listen = \"127.0.0.1:80\"\n[limits]\nconnections = 5\n[users]\na = \"$argon2x\"\n");
        let new = "listen = \"127.0.0.1:81\"\n[limits]\nconnections = 6\n[users]\nb = \"$argon2y\"\n[plane]\nmemory = \"64MiB\"\n\
                   [streams]\nstart_burst = \"2s\"\nstall = \"9s\"\n[links]\neth0 = \"1G\"\n";
        let change = Change::between(&running, config(new));
        let at_once =
            ["limits.connections", "links.eth0", "streams.stall", "streams.start_burst", "users.a", "users.b"];
        assert_eq!(change.changed, at_once);
        assert_eq!(change.restart, ["listen", "plane.memory"]);
        assert_eq!((change.config.listen, change.config.plane), (running.listen, running.plane));
        assert_eq!(change.config.streams.stall, units::Nanos::from_secs(9));
        assert!(change.config.links.len() == 1 && change.config.limits.connections == 6);
        let again = Change::between(&change.config, config(new));
        assert!(again.changed.is_empty(), "in force already");
        assert_eq!(again.restart, change.restart, "still not");
    }

    #[test]
    fn the_guide_names_each_setting_that_needs_a_restart() {
        let guide = include_str!("../../../../../docs/guide/operate.md");
        let signals = guide.split("## Signals").nth(1).and_then(|rest| rest.split("\n## ").next()).expect("a section");
        for key in RESTART {
            assert!(signals.contains(&format!("`{key}`")), "{key}");
        }
    }

    #[test]
    fn keys_with_dots_and_slashes_are_compared_whole() {
        let running = config("[path_rates]\n\"a/b.c/\" = \"1M\"\n");
        let change = Change::between(&running, config("[path_rates]\n\"a/b.c/\" = \"2M\"\n\"roots\" = \"1M\"\n"));
        assert_eq!(change.changed, ["path_rates.a/b.c/", "path_rates.roots"]);
        assert!(change.restart.is_empty());
    }

    #[test]
    fn a_key_with_both_quotes_takes_no_other_setting_along() {
        let text =
            "[access]\nanonymous = \"none\"\n[path_rates]\n\"it's \\\"x\\\"/\" = \"1M\"\n\"two\\nlines/\" = \"2M\"\n";
        let change = Change::between(&config(text), config(text));
        assert!(change.changed.is_empty() && !change.config.anonymous_reads && change.config.path_rates.len() == 2);
    }

    #[test]
    fn a_durable_time_below_the_running_schedule_waits_for_its_restart() {
        let running = config("[schedule]\nround = \"1s\"\n[recordings]\ndurable = \"3s\"\n");
        let new = "[schedule]\nround = \"500ms\"\n[recordings]\ndurable = \"2s\"\n";
        let change = Change::between(&running, config(new));
        assert_eq!(change.config.recording_durable, units::Nanos::from_secs(3));
        assert!(change.changed.is_empty() && change.restart.contains(&"recordings.durable".to_owned()));
    }
}
