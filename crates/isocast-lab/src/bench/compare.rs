//! `bench compare`: the README's comparison, and every table behind it, made from committed raw results so that nobody has
//! to believe it.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;

use super::group::Group;
use super::report::{self, Found, Results};

const BEGIN: &str = "<!-- results:begin -->";
const END: &str = "<!-- results:end -->";
/// Every table, in the folder of the results.
const TABLES: &str = "README.md";

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
        let all = report::read(&self.results)?;
        let folder = self.results.display().to_string();
        let readme = fs::read_to_string(&self.readme).with_context(|| format!("reading {}", self.readme.display()))?;
        let readme =
            replaced(&readme, &comparison(&all, &folder)?).with_context(|| self.readme.display().to_string())?;
        let files = [(self.readme.clone(), readme), (self.results.join(TABLES), every_table(&all)?)];
        for (path, text) in files {
            let shown = path.display();
            if self.check {
                if fs::read_to_string(&path).ok().as_ref() != Some(&text) {
                    bail!("{shown} does not show what {folder} holds; run `isocast bench compare {folder}`");
                }
            } else {
                fs::write(&path, text).with_context(|| format!("writing {shown}"))?;
            }
        }
        Ok(())
    }
}

/// `text` with what stands between the markers replaced.
fn replaced(text: &str, table: &str) -> anyhow::Result<String> {
    let (before, rest) = text.split_once(BEGIN).with_context(|| format!("the marker `{BEGIN}` is missing"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("the marker `{END}` is missing"))?;
    Ok(format!("{before}{BEGIN}\n{table}{END}{after}"))
}

/// What was measured where; nothing measured is an error.
fn measured(all: &[Results]) -> anyhow::Result<String> {
    let Some(first) = all.first() else { bail!("no results there: `isocast bench all --quick` makes some") };
    let host = &first.host;
    Ok(format!(
        "Measured {} on {} × {}, Linux {}",
        host.date.split('T').next().unwrap_or_default(),
        host.processors,
        host.processor,
        host.kernel,
    ))
}

/// The README's comparison as Markdown: of each experiment with a peer the most streams. Of a full set those that were
/// repeated, so that a reader sees a few figures with their spread; the others are one link away.
fn comparison(all: &[Results], folder: &str) -> anyhow::Result<String> {
    let mut text = format!(
        "{}; [every table]({folder}/{TABLES}), [plots]({folder}/report.html), and beside them raw results, commands and configurations.\n\n\
         | | server | streams | J (1 s) | J (100 ms) | stalled | CPU s/Gbit | uploads MB/s |\n\
         |---|---|---:|---:|---:|---:|---:|---:|\n",
        measured(all)?
    );
    let is_repeated = |results: &Results| not_searched(results).iter().any(|group| group.runs > 1);
    let any_repeated = all.iter().any(is_repeated);
    for results in all.iter().filter(|results| is_repeated(results) || !any_repeated) {
        let told = not_searched(results);
        let most = told.iter().map(|group| group.streams).max();
        let told: Vec<_> = told.into_iter().filter(|group| Some(group.streams) == most).collect();
        if told.len() > 1 {
            text.extend(told.iter().enumerate().map(|(n, group)| short_row(first_only(n, &results.title), group)));
        }
    }
    text.push_str(
        "\nJ is how far the bytes of each second (each 100 ms) are from the rate, in the mean: 0 % is a constant stream. \
         *Stalled* are the streams whose player ran dry.\n",
    );
    Ok(text)
}

/// A cell that is said once for several rows.
fn first_only(n: usize, text: &str) -> &str {
    if n == 0 { text } else { "" }
}

/// Every table as Markdown.
fn every_table(all: &[Results]) -> anyhow::Result<String> {
    let mut text =
        format!("# Results\n\n{}. Plots: [report.html](report.html). Made by `make compare`.\n", measured(all)?);
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
            let title = first_only(n, &results.title);
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

/// A figure with its spread, or a dash where there is none.
fn cell(group: &Group, name: &str, places: usize, unit: &str) -> String {
    match group.figure(name) {
        None => "–".to_owned(),
        Some(f) if group.runs == 1 => format!("{:.places$}{unit}", f.median),
        Some(f) => format!("{:.places$}{unit} ({:.places$}…{:.places$})", f.median, f.min, f.max),
    }
}

/// J over a second: beside the writer, where it came later.
fn j_1s(group: &Group) -> String {
    let with_writer = group.figure("j_1s_with_writer").is_some();
    cell(group, if with_writer { "j_1s_with_writer" } else { "j_1s_mean" }, 3, " %")
}

fn short_row(title: &str, group: &Group) -> String {
    format!(
        "| {title} | {} | {} | {} | {} | {} | {} | {} |\n",
        group.server,
        group.streams,
        j_1s(group),
        cell(group, "j_100ms_mean", 2, " %"),
        cell(group, "stalled_streams", 0, ""),
        cell(group, "server_s_per_gbit", 4, ""),
        cell(group, "upload_mb_per_s", 1, ""),
    )
}

fn row(group: &Group) -> String {
    let admitted = group.median("admitted").filter(|&a| a < super::summary::f(group.streams as u64));
    let streams = match admitted {
        Some(admitted) => format!("{} ({admitted:.0} admitted)", group.streams),
        None => group.streams.to_string(),
    };
    format!(
        "| {} | {streams} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
        group.server,
        cell(group, "ratio", 4, ""),
        j_1s(group),
        cell(group, "j_1s_worst_stream", 2, " %"),
        cell(group, "j_100ms_mean", 2, " %"),
        cell(group, "stalled_streams", 0, ""),
        cell(group, "server_s_per_gbit", 4, ""),
        cell(group, "upload_mb_per_s", 1, ""),
        percent(group.median("upload_share_of_left")),
    )
}

#[cfg(test)]
mod tests {
    use std::path::Path;

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
        CompareCommand { check: true, ..command.clone() }.run().unwrap();
        for file in [&readme, &command.results.join(TABLES)] {
            let text = fs::read_to_string(file).unwrap();
            assert!(text.contains("| nginx | 200 |") && text.contains("Contents in memory"), "{text}");
            fs::write(file, text.replace("| nginx |", "| other |")).unwrap();
            assert!(CompareCommand { check: true, ..command.clone() }.run().is_err(), "{}", file.display());
            fs::write(file, text).unwrap();
        }
    }

    /// The READMEs of this repository show what their results hold.
    #[test]
    fn the_readmes_show_the_committed_results() {
        let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for name in ["README.md", "README.ja.md"] {
            let readme = fs::read_to_string(top.join(name)).unwrap();
            let (_, shown) = readme.split_once(BEGIN).expect("a place for results");
            let (shown, _) = shown.split_once(END).expect("its end");
            // The folder the table names is the one it was made from.
            let (folder, _) = shown
                .split_once("[every table](")
                .and_then(|(_, t)| t.split_once("/README.md)"))
                .expect("a folder of results");
            let all = report::read(&top.join(folder)).unwrap();
            assert_eq!(shown.trim(), comparison(&all, folder).unwrap().trim(), "{name}");
            let tables = fs::read_to_string(top.join(folder).join(TABLES)).unwrap();
            assert_eq!(tables, every_table(&all).unwrap());
        }
    }
}
