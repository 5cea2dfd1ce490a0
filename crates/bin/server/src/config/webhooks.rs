//! `[[webhook]]`: receivers of events, and the events for each.
//!
//! Not here: sending them (crate `automation`).

use automation::{WebhookConfig, WebhookTarget};
use service::events::KINDS;
use units::Nanos;

use super::jobs::{needed, parse_name, take_command};
use super::parse_path;
use super::settings::Settings;
use super::time_up_to;

/// Reads one `[[webhook]]`.
pub(super) fn take(entry: &mut Settings) -> Option<WebhookConfig> {
    let name = needed(entry, "name", "tells it from others: `chat`", parse_name);
    let events = entry.take_list("events");
    if events.is_empty() && !entry.is_blamed(&["events"]) {
        entry.contradiction("events", format!("it is needed: a list of some of {}", KINDS.join(", ")));
    }
    if let Some(unknown) = events.iter().find(|event| !KINDS.contains(&event.as_str())) {
        entry.contradiction("events", format!("there is no event `{unknown}`; there are {}", KINDS.join(", ")));
    }
    let timeout = entry.take("timeout", Nanos::from_secs(10), time_up_to(Nanos::from_secs(600)));
    let url = entry.take_optional("url", |text| Ok(text.to_owned()));
    let target = if let Some(url) = url {
        entry.refuse_others(&["command"], "a webhook with `url`");
        if !matches!(url.split_once("://"), Some(("http" | "https", rest)) if !rest.is_empty()) {
            entry.contradiction("url", format!("`{url}`: write http:// or https:// and the rest of an address"));
        }
        let what = "is a file with the secret that signs: `openssl rand -base64 32` makes it";
        let secret = needed(entry, "secret", what, parse_path)?;
        WebhookTarget::Url { url, secret }
    } else {
        entry.refuse_others(&["secret"], "a webhook without `url`");
        WebhookTarget::Command(take_command(entry)?)
    };
    Some(WebhookConfig { name: name?, events, timeout, target })
}

#[cfg(test)]
mod tests {
    use super::super::Config;

    fn load(text: &str) -> Result<Config, String> {
        Config::load_file("f.toml".as_ref(), text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_webhook_is_read_and_shown_or_blamed() {
        let good = "[[webhook]]\nname = \"a\"\nevents = [\"job_failed\"]\nurl = \"http://h:1/x\"\nsecret = \"/s\"\n\
                    [[webhook]]\nname = \"b\"\nevents = [\"disk_failing\", \"miss\"]\ncommand = [\"/bin/true\"]\ntimeout = \"2s\"\n";
        let config = load(good).expect("good");
        assert_eq!(load(&config.to_string()).expect("shown"), config, "{config}");
        for (text, part) in [
            ("name = \"a\"\nurl = \"http://h\"\nsecret = \"/s\"", "f.toml:1: webhook.events: it is needed"),
            ("name = \"a\"\nevents = [\"jobs\"]\nurl = \"http://h\"\nsecret = \"/s\"", "there is no event `jobs`"),
            ("name = \"a\"\nevents = [\"miss\"]\nurl = \"ftp://h\"", "write http:// or https://"),
            ("name = \"a\"\nevents = [\"miss\"]\nurl = \"http://h\"", "webhook.secret: it is needed"),
            ("name = \"a\"\nevents = [\"miss\"]\ncommand = [\"/bin/true\"]\ntimeout = \"0s\"", "in no time at all"),
            (
                "name = \"a\"\nevents = [\"miss\"]\nurl = \"http://h\"\nsecret = \"/s\"\ncommand = [\"/bin/true\"]",
                "f.toml:6: webhook.command: `command` is not for a webhook with `url`",
            ),
            (
                "name = \"a\"\nevents = [\"miss\"]\nsecret = \"/s\"\ncommand = [\"/bin/true\"]",
                "`secret` is not for a webhook without `url`",
            ),
            ("name = \"a/b\"\nevents = [\"miss\"]\ncommand = [\"/bin/true\"]", "`a/b` is no name"),
            ("name = \"a\"\nevents = [\"miss\"]\ncommand = [\"true\"]", "with its whole path"),
        ] {
            let said = load(&format!("[[webhook]]\n{text}\n")).expect_err(text);
            assert!(said.contains(part), "{said}");
        }
        let one = "[[webhook]]\nname = \"a\"\nevents = [\"miss\"]\nurl = \"ftp://h\"\nsecret = \"/s\"\n";
        let said = load(one).expect_err("no such scheme");
        assert!(!said.contains("command") && !said.contains("no such key"), "what is right is not blamed: {said}");
    }
}
