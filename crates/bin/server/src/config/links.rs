//! Rates of network interfaces, by name and direction, where their own reports are wrong or missing.
//!
//! Not here: the interfaces of this machine (`serve::links`).

use toml::{Table, Value};
use units::BitRate;

use super::settings::Settings;
use super::toml_text::AsToml;
use super::values::{parse_choice, parse_rate};

/// Settings of one interface.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct LinkSetting {
    pub(crate) name: String,
    /// Rate at which it sends.
    pub(crate) out: Option<BitRate>,
    /// Rate at which it receives.
    pub(crate) into: Option<BitRate>,
    /// Both directions share one rate.
    pub(crate) shared: Option<bool>,
}

/// One setting of an interface.
enum LinkPart {
    Both(BitRate),
    Out(BitRate),
    Into(BitRate),
    Shared(bool),
}

impl AsToml for LinkSetting {
    fn as_toml(&self) -> Value {
        let parts = [
            ("out", self.out.map(|rate| rate.as_toml())),
            ("in", self.into.map(|rate| rate.as_toml())),
            ("shared", self.shared.map(Value::Boolean)),
        ];
        parts.into_iter().filter_map(|(part, value)| Some((part.to_owned(), value?))).collect::<Table>().into()
    }
}

/// Reads `eth0 = "1G"` and `eth0 = { out = "1G", in = "100M", shared = false }`.
pub(super) fn take(settings: &mut Settings) -> Vec<LinkSetting> {
    let mut links: Vec<LinkSetting> = Vec::new();
    for (key, parts) in settings.take_names("links", parse) {
        let name = split(&key).0;
        if !links.iter().any(|link| link.name == name) {
            links.push(LinkSetting { name: name.to_owned(), ..LinkSetting::default() });
        }
        let link = links.iter_mut().find(|link| link.name == name).expect("it was added");
        for part in parts {
            match part {
                LinkPart::Both(rate) => (link.out, link.into) = (Some(rate), Some(rate)),
                LinkPart::Out(rate) => link.out = Some(rate),
                LinkPart::Into(rate) => link.into = Some(rate),
                LinkPart::Shared(shared) => link.shared = Some(shared),
            }
        }
    }
    links.sort_by(|a, b| a.name.cmp(&b.name));
    for link in &links {
        if link.shared == Some(true)
            && let (Some(out), Some(into)) = (link.out, link.into)
            && out != into
        {
            let message = format!("{} shares one rate, and two are named, {out} and {into}: leave one out", link.name);
            settings.contradiction("links", message);
        }
        settings.show(&format!("links.{}", link.name), link);
    }
    links
}

/// The interface of a key, and its direction; a name may have dots, as those of VLANs have.
fn split(key: &str) -> (&str, &str) {
    match key.rsplit_once('.') {
        Some((name, part @ ("out" | "in" | "shared"))) => (name, part),
        _ => (key, ""),
    }
}

fn parse(key: &str, text: &str) -> Result<Vec<LinkPart>, String> {
    // As a flag or the environment write a table.
    if text.starts_with('{') {
        let table: Table = format!("link = {text}").parse().map_err(|_| format!("`{text}` is not understood"))?;
        let parts = table.get("link").and_then(Value::as_table).into_iter().flatten();
        let parts = parts.map(|(part, value)| {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            parse_part(part, &text)
        });
        return parts.collect();
    }
    parse_part(split(key).1, text).map(|part| vec![part])
}

fn parse_part(part: &str, text: &str) -> Result<LinkPart, String> {
    match part {
        "" => parse_rate(text).map(LinkPart::Both),
        "out" => parse_rate(text).map(LinkPart::Out),
        "in" => parse_rate(text).map(LinkPart::Into),
        "shared" => parse_choice(text).map(LinkPart::Shared),
        _ => Err(format!("`{part}` is neither `out`, `in` nor `shared`")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    fn load(text: &str) -> Result<Config, String> {
        Config::load_file("isocast.toml".as_ref(), text).map_err(|error| error.to_string())
    }

    #[test]
    fn directions_are_named_together_or_each() {
        let text = "[links]\neth0 = \"1G\"\n\"eth0.5\" = { out = \"1G\", in = \"100M\", shared = false }\nwlan0.shared = true\n";
        let config = load(text).unwrap();
        let link = |name: &str, out: Option<u64>, into: Option<u64>, shared| LinkSetting {
            name: name.to_owned(),
            out: out.map(BitRate),
            into: into.map(BitRate),
            shared,
        };
        let (giga, mega) = (Some(1_000_000_000), Some(100_000_000));
        let expected = [
            link("eth0", giga, giga, None),
            link("eth0.5", giga, mega, Some(false)),
            link("wlan0", None, None, Some(true)),
        ];
        assert_eq!(config.links, expected);
        assert_eq!(load(&config.to_string()).unwrap().links, expected, "as it is shown");
    }

    #[test]
    fn a_table_is_a_flag_too_and_a_contradiction_is_named() {
        let mut settings = Settings::default();
        settings.add_flag("--set", "links.lo", "{ out = \"20M\", shared = true }".to_owned());
        assert_eq!((take(&mut settings)[0].out, settings.finish()), (Some(BitRate(20_000_000)), Vec::new()));
        for (text, said) in [
            ("lo = { out = \"1G\", in = \"2G\", shared = true }", "links: lo shares one rate"),
            ("lo = { out = \"1000\" }", "isocast.toml:2: links.lo.out: `1000` has no unit"),
        ] {
            let error = load(&format!("[links]\n{text}\n")).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }
}
