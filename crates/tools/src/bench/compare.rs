//! `bench compare`: the README's comparison, made from committed raw results so that nobody has to believe it.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;

use super::group::Group;
use super::report::{self, Found, Results};

const BEGIN: &str = "<!-- results:begin -->";
const END: &str = "<!-- results:end -->";

/// See the module.
#[derive(Debug, Clone, Args)]
pub(crate) struct CompareCommand {
    /// Folder of one set of results.
    #[arg(value_name = "DIR")]
    results: PathBuf,
    /// The file that holds the table between its markers.
    #[arg(long, value_name = "FILE", default_value = "README.md")]
    readme: PathBuf,
    /// Change nothing; fail if the table is not the one the results make.
    #[arg(long)]
    check: bool,
}

impl CompareCommand {
    /// Runs it.
    ///
    /// # Errors
    /// No results, no markers, or with `--check` another table.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let shown = |e: &Path| e.display().to_string();
        let before = fs::read_to_string(&self.readme).with_context(|| format!("reading {}", shown(&self.readme)))?;
        let text = table(&report::read(&self.results)?, &shown(&self.results))?;
        let after = replaced(&before, &text).with_context(|| shown(&self.readme))?;
        if self.check {
            if before != after {
                bail!(
                    "{} does not show what {} holds; run `isocast bench compare {1}`",
                    shown(&self.readme),
                    shown(&self.results)
                );
            }
            return Ok(());
        }
        fs::write(&self.readme, after).with_context(|| format!("writing {}", shown(&self.readme)))
    }
}

/// `text` with what stands between the markers replaced.
fn replaced(text: &str, table: &str) -> anyhow::Result<String> {
    let (before, rest) = text.split_once(BEGIN).with_context(|| format!("the marker `{BEGIN}` is missing"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("the marker `{END}` is missing"))?;
    Ok(format!("{before}{BEGIN}\n{table}{END}{after}"))
}

/// The comparison as Markdown.
fn table(all: &[Results], folder: &str) -> anyhow::Result<String> {
    let Some(first) = all.first() else { bail!("no results in {folder}: `isocast bench all --quick` makes some") };
    let host = &first.host;
    let mut text = format!(
        "Measured {} on {} × {}, Linux {}; raw results, configurations and plots: [{folder}]({folder}/report.html).\n",
        host.date.split('T').next().unwrap_or_default(),
        host.processors,
        host.processor,
        host.kernel,
    );
    for results in all {
        let told = not_searched(results);
        if !told.is_empty() {
            text.push_str(&one_table(results, &told));
        }
    }
    text.push_str(&searches(all));
    Ok(text)
}

/// One experiment's table.
fn one_table(results: &Results, told: &[&Group]) -> String {
    let mut text = format!(
        "\n**{}**\n\n\
         | server | streams | delivered / requested | J (1 s) | worst stream | J (100 ms) | stalled | CPU s/Gbit | uploads MB/s | of the time left |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
        results.title
    );
    text.extend(told.iter().map(|group| row(group)));
    if let Some(yardstick) = &results.yardstick {
        let _ = writeln!(
            text,
            "\nOne sequential durable writer with the disk to itself: {:.1} MB/s; \"of the time left\" is the uploads' share of \
             what it would get in the time in which the disk was not reading.",
            yardstick.mb_per_s
        );
    }
    text
}

/// All but the tries of searches, which are told in one line each; server by server.
fn not_searched(results: &Results) -> Vec<&Group> {
    let mut told: Vec<&Group> = results.groups.iter().filter(|group| !group.probe).collect();
    told.sort_by_key(|group| results.groups.iter().position(|g| g.server == group.server));
    told
}

/// What all searches found, in one table; nothing if there were none.
fn searches(all: &[Results]) -> String {
    let mut text = String::new();
    for results in all {
        for (n, found) in results.found.iter().enumerate() {
            let title = if n == 0 { results.title.as_str() } else { "" };
            let planned = found.planned.as_ref().map_or_else(|| "–".to_owned(), |p| p.streams.to_string());
            let uploads = found.upload_mb_per_s.map_or_else(|| "–".to_owned(), |u| format!("{u:.1}"));
            let (share, left) = (percent(found.upload_share), percent(found.upload_share_of_left));
            let streams = streams_of(found);
            let _ =
                writeln!(text, "| {title} | {} | {streams} | {planned} | {uploads} | {share} | {left} |", found.server);
        }
    }
    if text.is_empty() {
        return text;
    }
    format!(
        "\n**The most streams carried without a stall**\n\n\
         | | server | streams | `isocast plan` said | uploads MB/s | of one writer alone | of it in the time left |\n\
         |---|---|---:|---:|---:|---:|---:|\n{text}"
    )
}

/// How many, and how exactly that is known.
fn streams_of(found: &Found) -> String {
    // Older results count in what was admitted after the first refusal.
    let streams = found.before_refusal.map_or(found.streams, |before| before.min(found.streams));
    let mut text = streams.to_string();
    if let Some(too_many) = found.too_many.filter(|&too_many| too_many > streams + 1) {
        let _ = write!(text, " ({too_many} not)");
    }
    if found.confirmed == Some(false) {
        text.push_str(", not confirmed");
    }
    text
}

/// A share, or a dash where it is not known.
fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "–".to_owned(), |share| format!("{:.0} %", share * 100.0))
}

fn row(group: &Group) -> String {
    let cell = |name: &str, places: usize, unit: &str| match group.figure(name) {
        None => "–".to_owned(),
        Some(f) if group.runs == 1 => format!("{:.places$}{unit}", f.median),
        Some(f) => format!("{:.places$}{unit} ({:.places$}…{:.places$})", f.median, f.min, f.max),
    };
    let admitted = group.median("admitted").filter(|&a| a < super::summary::f(group.streams as u64));
    let streams = match admitted {
        Some(admitted) => format!("{} ({admitted:.0} admitted)", group.streams),
        None => group.streams.to_string(),
    };
    let with_writer = if group.figure("j_1s_with_writer").is_some() { "j_1s_with_writer" } else { "j_1s_mean" };
    format!(
        "| {} | {streams} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
        group.server,
        cell("ratio", 4, ""),
        cell(with_writer, 3, " %"),
        cell("j_1s_worst_stream", 2, " %"),
        cell("j_100ms_mean", 2, " %"),
        cell("stalled_streams", 0, ""),
        cell("server_s_per_gbit", 4, ""),
        cell("upload_mb_per_s", 1, ""),
        percent(group.median("upload_share_of_left")),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_between_the_markers_is_replaced_and_nothing_else() {
        let text = format!("a\n{BEGIN}\nold\n{END}\nb\n");
        let new = replaced(&text, "new\n").unwrap();
        assert_eq!(new, format!("a\n{BEGIN}\nnew\n{END}\nb\n"));
        assert_eq!(replaced(&new, "new\n").unwrap(), new);
        assert!(replaced("no markers", "x").is_err());
    }

    #[test]
    fn a_table_is_made_from_results_and_checked() {
        let folder = tempfile::tempdir().unwrap();
        let (results, readme) = (folder.path().join("r"), folder.path().join("README.md"));
        report::tests::sample().write(&results).unwrap();
        fs::write(&readme, format!("{BEGIN}\n{END}\n")).unwrap();
        let command = CompareCommand { results, readme: readme.clone(), check: false };
        assert!(CompareCommand { check: true, ..command.clone() }.run().is_err());
        command.clone().run().unwrap();
        CompareCommand { check: true, ..command }.run().unwrap();
        let text = fs::read_to_string(&readme).unwrap();
        assert!(text.contains("| nginx | 200 |") && text.contains("Contents in memory"), "{text}");
    }

    /// The README of this repository shows what its newest results hold.
    #[test]
    fn the_readme_shows_the_committed_results() {
        let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let Ok(readme) = fs::read_to_string(top.join("README.md")) else { return };
        let Some((_, shown)) = readme.split_once(BEGIN) else { return };
        let shown = shown.split(END).next().unwrap_or_default();
        // The folder the table names is the one it was made from.
        let Some(folder) = shown.split("plots: [").nth(1).and_then(|t| t.split(']').next()) else {
            assert!(shown.contains("No results"), "the README's table names no folder of results");
            return;
        };
        let results = report::read(&top.join(folder)).unwrap();
        assert_eq!(shown.trim(), table(&results, folder).unwrap().trim());
    }
}
