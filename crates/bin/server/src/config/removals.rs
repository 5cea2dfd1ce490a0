//! `config removals`: the contents that the `keep` jobs and rings of a configuration would remove now.
//!
//! Promise: nothing is removed; the configuration needs not be in force. The server that serves the folders looks through them.

use std::io::Write;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use api::{RemovableContent, Removals};
use client::{Login, ServerApi};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use program::output::say;
use serde_json::json;
use service::operations::RemovalLimits;
use units::{ByteCount, counted};

use automation::{JobWork, removal_limits};

use super::Config;
use super::values::span_text;

/// Contents that are shown of each rule; `--json` has all that the server names.
const SHOWN: usize = 10;

/// The address of the server that listens at `listen`, for programs on its machine.
pub(super) fn own_url(mut listen: SocketAddr) -> String {
    if listen.ip().is_unspecified() {
        let is_v4 = listen.is_ipv4();
        listen.set_ip(if is_v4 { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() });
    }
    format!("http://{listen}")
}

/// Queries the server at `url` by each rule, and prints the contents that would be removed to `out`.
///
/// # Errors
/// The server does not answer, or refuses; one rule would fail.
pub(super) fn show(
    config: &Config,
    (url, login): (&str, Option<Login>),
    is_json: bool,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let server = ServerApi::new(url, login);
    let (mut answers, mut failed) = (Vec::new(), 0);
    for (name, limits) in rules(config) {
        match server.read::<Removals>(&format!("removals?{}", query(&limits))) {
            Ok(removals) => {
                failed += u32::from(removals.problem.is_some());
                if !is_json {
                    print(out, &name, &removals)?;
                }
                answers.push(json!({ "rule": name, "removals": removals }));
            }
            Err(error) => {
                failed += 1;
                say(format_args!("{name}: {error:#}"));
                answers.push(json!({ "rule": name, "error": format!("{error:#}") }));
            }
        }
    }
    if is_json {
        writeln!(out, "{:#}", json!(answers))?;
    } else if answers.is_empty() {
        writeln!(out, "no `keep` job and no quota with `when_full = \"overwrite_oldest\"`: nothing is ever removed")?;
    }
    anyhow::ensure!(failed == 0, "rules that cannot remove what they should: {failed} of {}", answers.len());
    Ok(())
}

/// The rules by which contents are removed, with their names.
fn rules(config: &Config) -> Vec<(String, RemovalLimits)> {
    let jobs = config.jobs.iter().filter_map(|job| match &job.work {
        JobWork::Keep(limits) => Some((format!("job {}", job.name), limits.clone())),
        _ => None,
    });
    let rings = config.quotas.iter().filter_map(|quota| {
        let limits = removal_limits(quota)?;
        Some((format!("quota {}", quota.folder.joined()), limits))
    });
    jobs.chain(rings).collect()
}

fn query(limits: &RemovalLimits) -> String {
    let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let mut query = format!("folder={}", encoded(&limits.folder.joined()));
    let spans = [("max_age", limits.max_age), ("min_age", Some(limits.min_age))];
    for (key, value) in spans.into_iter().filter_map(|(key, value)| Some((key, value?))) {
        query += &format!("&{key}={}", span_text(value));
    }
    if let Some(size) = limits.max_size {
        query += &format!("&max_size={}B", size.0);
    }
    limits.protected.iter().for_each(|path| query += &format!("&protected={}", encoded(&path.joined())));
    query
}

fn print(out: &mut dyn Write, name: &str, removals: &Removals) -> std::io::Result<()> {
    let Removals { folder, stored_bytes, contents, bytes, first, problem } = removals;
    let (stored, goes) = (ByteCount(*stored_bytes), ByteCount(*bytes));
    writeln!(out, "{name}: would remove {} with {goes} of the {stored} in `{folder}`", counted(*contents, "content"))?;
    for RemovableContent { path, bytes, age_seconds, reason } in first.iter().take(SHOWN) {
        let (size, hours) = (ByteCount(*bytes), age_seconds / 3600.0);
        writeln!(out, "  {path}  {size}, stored {hours:.1} h ago, {reason}")?;
    }
    let more = contents.saturating_sub(u64::try_from(first.len().min(SHOWN)).unwrap_or(u64::MAX));
    if more > 0 {
        writeln!(out, "  and {more} more")?;
    }
    problem.as_ref().map_or(Ok(()), |problem| writeln!(out, "  it would fail: {problem}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_asked_for_as_it_is_configured() {
        let text = "[[job]]\nname = \"a\"\nkind = \"keep\"\nschedule = \"@daily\"\nfolder = \"re cordings\"\nmax_age = \"30d\"\n\
                    protected = [\"re cordings/x&y\"]\n[[job]]\nname = \"m\"\nkind = \"measure\"\nschedule = \"@daily\"\n\
                    [[quota]]\nfolder = \"ring\"\nmax_size = \"1600B\"\nwhen_full = \"overwrite_oldest\"\n\
                    [[quota]]\nfolder = \"up\"\nmax_size = \"10GB\"\n";
        let config = Config::load_file("f.toml".as_ref(), text).expect("good");
        let asked: Vec<_> = rules(&config).iter().map(|(name, limits)| (name.clone(), query(limits))).collect();
        let job = "folder=re%20cordings&max_age=30d&min_age=1h&protected=re%20cordings%2Fx%26y";
        let ring = "folder=ring&min_age=0s&max_size=1500B";
        assert_eq!(asked, [("job a".to_owned(), job.to_owned()), ("quota ring".to_owned(), ring.to_owned())]);
    }
}
