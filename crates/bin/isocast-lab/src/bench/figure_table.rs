//! Results in a table: figures of several methods over one quantity, as text, JSON, and a plot for each figure.
//!
//! Promise: tables and plots are made from the raw results in the same folder, with a description of the measured machine.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use serde::Serialize;

use super::{Host, Plot, PlotLine, align};

/// Format name in a file of raw results.
const FORMAT: &str = "isocast-figures-1";

/// Options of the output.
#[derive(Debug, Clone, Args)]
pub(super) struct FigureOutput {
    /// Keep raw results, table and plot in this folder.
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// Print the results as JSON.
    #[arg(long)]
    pub(super) json: bool,
}

/// See the module.
#[derive(Debug, Serialize)]
pub(super) struct FigureTable {
    format: &'static str,
    experiment: &'static str,
    title: &'static str,
    /// Quantity of the horizontal axis.
    x: &'static str,
    /// That quantity as written below a plot.
    #[serde(skip)]
    x_of_plot: String,
    #[serde(skip)]
    scale: Scale,
    figures: Vec<TableFigure>,
    notes: Vec<String>,
    host: Host,
    rows: Vec<TableRow>,
}

/// Scale of a plot's horizontal axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scale {
    /// Logarithmic, for rates and sizes that are chosen in multiples.
    Log2,
    Linear,
}

/// A figure of the table.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct TableFigure {
    name: &'static str,
    heading: &'static str,
    places: usize,
}

#[derive(Debug, Serialize)]
struct TableRow {
    way: String,
    x: f64,
    values: BTreeMap<&'static str, f64>,
}

impl TableFigure {
    pub(super) const fn new(name: &'static str, heading: &'static str, places: usize) -> Self {
        Self { name, heading, places }
    }

    /// Name in the raw results.
    pub(super) const fn name(&self) -> &'static str {
        self.name
    }
}

impl FigureTable {
    /// An empty table; `root` is a folder on the measured disk.
    pub(super) fn new(
        experiment: &'static str,
        title: &'static str,
        x: &'static str,
        figures: &[TableFigure],
        root: Option<&Path>,
    ) -> Self {
        let (x_of_plot, figures, host) = (format!("2^x {x}"), figures.to_vec(), Host::here(root));
        let (notes, rows, scale) = (Vec::new(), Vec::new(), Scale::Log2);
        Self { format: FORMAT, experiment, title, x, x_of_plot, scale, figures, notes, host, rows }
    }

    /// Makes the horizontal axis of the plots linear.
    pub(super) fn linear(self) -> Self {
        Self { x_of_plot: self.x.to_owned(), scale: Scale::Linear, ..self }
    }

    /// Adds a sentence that the reader must know.
    pub(super) fn note(&mut self, text: String) {
        self.notes.push(text);
    }

    pub(super) fn add(&mut self, way: &str, x: f64, values: &[(&'static str, f64)]) {
        self.rows.push(TableRow { way: way.to_owned(), x, values: values.iter().copied().collect() });
    }

    /// Prints the table, or the results as JSON, and writes the output folder.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub(super) fn finish(&self, output: &FigureOutput, out: &mut dyn Write) -> anyhow::Result<()> {
        self.keep(output)?;
        let printed = if output.json { self.raw()? } else { align(&self.cells()) };
        Ok(write!(out, "{printed}")?)
    }

    /// Writes raw results, table and plots of the measurements so far to the output folder, if one is given: a later failure
    /// does not lose them.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub(super) fn keep(&self, output: &FigureOutput) -> anyhow::Result<()> {
        let Some(folder) = output.out.as_deref() else { return Ok(()) };
        let name = |ending: &str| folder.join(format!("{}{ending}", self.experiment));
        fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        fs::write(name(".json"), self.raw()?).with_context(|| format!("writing {}", name(".json").display()))?;
        let mut page = self.page(&align(&self.cells()));
        for figure in &self.figures {
            if let Some(svg) = self.plot(figure).svg()? {
                let ending = format!("-{}.svg", figure.name);
                fs::write(name(&ending), svg)?;
                let _ = writeln!(page, "\n![{}]({}{ending})", figure.heading, self.experiment);
            }
        }
        Ok(fs::write(name(".md"), page)?)
    }

    fn raw(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    fn cells(&self) -> Vec<Vec<String>> {
        let head = ["", self.x].into_iter().chain(self.figures.iter().map(|figure| figure.heading));
        let mut cells = vec![head.map(str::to_owned).collect()];
        for row in &self.rows {
            let value = |figure: &TableFigure| {
                row.values.get(figure.name).map_or("–".to_owned(), |value| format!("{value:.*}", figure.places))
            };
            cells
                .push([row.way.clone(), row.x.to_string()].into_iter().chain(self.figures.iter().map(value)).collect());
        }
        cells
    }

    fn page(&self, table: &str) -> String {
        let mut page = format!("# {}\n\n{}\n\n", self.title, self.host.sentence());
        for note in &self.notes {
            let _ = writeln!(page, "{note}.\n");
        }
        let _ = writeln!(page, "Raw results: [{0}.json]({0}.json).\n\n```\n{table}```", self.experiment);
        page
    }

    fn plot(&self, figure: &TableFigure) -> Plot<'_> {
        let mut lines: Vec<PlotLine> = Vec::new();
        for row in &self.rows {
            let Some(value) = row.values.get(figure.name) else { continue };
            let x = match self.scale {
                Scale::Log2 => row.x.max(f64::MIN_POSITIVE).log2(),
                Scale::Linear => row.x,
            };
            PlotLine::add(&mut lines, &row.way, (x, *value));
        }
        Plot { title: self.title, x: &self.x_of_plot, y: figure.heading, lines }
    }
}

/// The median of the runs' figures.
pub(crate) fn median(repeats: usize, mut run: impl FnMut() -> anyhow::Result<f64>) -> anyhow::Result<f64> {
    let mut all = (0..repeats).map(|_| run()).collect::<anyhow::Result<Vec<_>>>()?;
    all.sort_by(f64::total_cmp);
    Ok(all[repeats / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_page_and_plots_come_from_the_same_rows() {
        let figures = [TableFigure::new("cpu_percent", "CPU %", 1), TableFigure::new("mbps", "Mbit/s", 0)];
        let mut table = FigureTable::new("access", "Reading", "Mbit/s", &figures, None);
        table.note("on paper".to_owned());
        table.add("mmap", 8.0, &[("cpu_percent", 1.25), ("mbps", 8.0)]);
        table.add("mmap", 16.0, &[("cpu_percent", 2.5)]);
        let folder = tempfile::tempdir().expect("a folder");
        let mut printed = Vec::new();
        let output = FigureOutput { out: Some(folder.path().to_owned()), json: false };
        table.finish(&output, &mut printed).expect("written");
        let printed = String::from_utf8(printed).expect("text");
        assert!(printed.contains("mmap") && printed.contains("1.2") && printed.contains('–'), "{printed}");
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).expect("there");
        let page = read("access.md");
        assert!(
            page.contains(&printed) && page.contains("on paper.") && page.contains("access-cpu_percent.svg"),
            "{page}"
        );
        assert!(!page.contains("access-mbps.svg"), "one point is no line");
        assert!(read("access-cpu_percent.svg").contains("mmap"));
        assert!(read("access.json").contains("isocast-figures-1"));
    }
}
