//! Results as text tables.

use std::fmt::Write;

use super::group::{FIGURES, RunFigure, RunGroup};

/// Rows of medians, with the spread if there were several runs; the first row is the heading. Figures that no group has are left out.
pub(crate) fn groups(groups: &[RunGroup]) -> Vec<Vec<String>> {
    let is_shown = |figure: &&RunFigure| {
        !figure.heading.is_empty() && groups.iter().any(|group| group.figure(figure.name).is_some())
    };
    let figures: Vec<&RunFigure> = FIGURES.iter().filter(is_shown).collect();
    let headings = ["server", "streams", "runs"].into_iter().chain(figures.iter().map(|figure| figure.heading));
    let mut rows = vec![headings.map(str::to_owned).collect()];
    for group in groups {
        let mut row = vec![group.server.clone(), group.streams.to_string(), group.runs.to_string()];
        row.extend(figures.iter().map(|figure| group.cell(figure.name, figure.places, "")));
        rows.push(row);
    }
    rows
}

/// The table of groups as text.
pub(crate) fn text(of: &[RunGroup]) -> String {
    align(&groups(of))
}

/// Aligns columns by their widest cells: the first column to the left, figures to the right.
pub(crate) fn align(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |c: usize| rows.iter().filter_map(|r| r.get(c)).map(|s| s.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        for (c, cell) in row.iter().enumerate() {
            let _ = match c {
                0 => write!(text, "{cell:<width$}", width = widths[c]),
                _ => write!(text, "  {cell:>width$}", width = widths[c]),
            };
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [vec!["a".into(), "1".into()], vec!["bcd".into(), "100".into()]];
        assert_eq!(align(&rows), "a      1\nbcd  100\n");
    }
}
