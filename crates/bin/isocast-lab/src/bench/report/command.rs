//! `isocast-lab report`: tables, the README's comparison and a page of plots, made from raw results so that every reader
//! can check them.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args;

use super::{comparison, html, read};

const BEGIN: &str = "<!-- results:begin -->";
const END: &str = "<!-- results:end -->";

/// Render a folder of results: the tables (README.md) and the chart of the most streams (comparison.svg), which are committed
/// with the results, and a page of plots (report.html), which is not committed.
#[derive(Debug, Clone, Args)]
pub(crate) struct ReportCommand {
    /// Folder of one set of results.
    #[arg(value_name = "DIR")]
    results: PathBuf,
    /// A file with the comparison between two markers (repeatable).
    #[arg(long, value_name = "FILE")]
    readme: Vec<PathBuf>,
    /// Change nothing; fail if the committed files differ from those made from the results.
    #[arg(long)]
    check: bool,
}

impl ReportCommand {
    /// Runs it.
    ///
    /// # Errors
    /// There are no results or no markers, or, with `--check`, a committed file differs.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let all = read(&self.results)?;
        let folder = self.results.display().to_string();
        let folder = folder.trim_end_matches('/');
        let mut files = vec![(self.results.join("README.md"), comparison::tables(&all)?)];
        files.extend(comparison::picture(&all).map(|picture| (self.results.join("comparison.svg"), picture)));
        for path in self.readme {
            let readme = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
            let shown = replaced(&readme, &comparison::comparison(&all, folder)?);
            files.push((path.clone(), shown.with_context(|| path.display().to_string())?));
        }
        for (path, text) in files {
            let shown = path.display();
            if !self.check {
                fs::write(&path, text).with_context(|| format!("writing {shown}"))?;
            } else if fs::read_to_string(&path).ok().as_ref() != Some(&text) {
                bail!("{shown} does not show the results in {folder}; run `isocast-lab report {folder}`");
            }
        }
        if !self.check {
            let path = self.results.join("report.html");
            fs::write(&path, html::page(&all)?).with_context(|| format!("writing {}", path.display()))?;
        }
        Ok(())
    }
}

/// `text` with the part between the markers replaced.
fn replaced(text: &str, table: &str) -> anyhow::Result<String> {
    let (before, rest) = text.split_once(BEGIN).with_context(|| format!("the marker `{BEGIN}` is missing"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("the marker `{END}` is missing"))?;
    Ok(format!("{before}{BEGIN}\n{table}{END}{after}"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::tests::sample;
    use super::*;

    #[test]
    fn only_text_between_the_markers_is_replaced() {
        let text = format!("a\n{BEGIN}\nold\n{END}\nb\n");
        let new = replaced(&text, "new\n").unwrap();
        assert_eq!(new, format!("a\n{BEGIN}\nnew\n{END}\nb\n"));
        assert_eq!(replaced(&new, "new\n").unwrap(), new);
        assert!(replaced("no markers", "x").is_err());
    }

    #[test]
    fn a_report_is_made_from_results_and_checked() {
        let folder = tempfile::tempdir().unwrap();
        let (results, readme) = (folder.path().join("r"), folder.path().join("README.md"));
        sample("01-memory-8.8M").write(&results).unwrap();
        fs::write(&readme, format!("{BEGIN}\n{END}\n")).unwrap();
        let command = ReportCommand { results, readme: vec![readme.clone()], check: false };
        let check = || ReportCommand { check: true, ..command.clone() }.run();
        assert!(check().is_err());
        command.clone().run().unwrap();
        check().unwrap();
        let read = |name: &str| fs::read_to_string(command.results.join(name)).unwrap();
        assert!(read("README.md").contains("| nginx | 200 |") && read("README.md").contains("| RSS MiB |"));
        assert!(!command.results.join("comparison.svg").exists(), "no bars, no picture");
        let page = read("report.html");
        assert!(page.contains("Contents in memory") && page.contains("<svg") && page.contains("&lt;nginx&gt;"));
        let text = fs::read_to_string(&readme).unwrap();
        assert!(text.contains("| Contents in memory | 200 streams: J"), "{text}");
        fs::write(&readme, text.replace("200 streams", "300 streams")).unwrap();
        assert!(check().is_err());
    }

    /// The READMEs of this repository agree with their results.
    #[test]
    fn the_readmes_show_the_committed_results() {
        let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
        for name in ["README.md", "README.ja.md"] {
            let readme = fs::read_to_string(top.join(name)).unwrap();
            let (_, shown) = readme.split_once(BEGIN).expect("a place for results");
            let (shown, _) = shown.split_once(END).expect("its end");
            // The table names the folder of the results that it was made from.
            let (_, rest) = shown.split_once("[every table](").expect("a folder of results");
            let (folder, _) = rest.split_once("/README.md)").expect("its tables");
            let all = read(&top.join(folder)).unwrap();
            assert_eq!(shown.trim(), comparison::comparison(&all, folder).unwrap().trim(), "{name}");
            let kept = |name: &str| fs::read_to_string(top.join(folder).join(name)).unwrap();
            assert_eq!(kept("README.md"), comparison::tables(&all).unwrap());
            assert_eq!(Some(kept("comparison.svg")), comparison::picture(&all));
        }
    }
}
