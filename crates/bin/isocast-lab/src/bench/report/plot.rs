//! Line plots as SVG text, like the papers' figures.

use anyhow::anyhow;
use plotters::prelude::*;

const SIZE: (u32, u32) = (760, 420);
/// Distinct on paper and for most readers that do not see red and green as different (Okabe and Ito's colours).
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(120, 120, 120),
];

/// A plot.
pub(crate) struct Plot<'a> {
    /// Title above the plot.
    pub title: &'a str,
    /// Below.
    pub x: &'a str,
    /// To the left.
    pub y: &'a str,
    /// The lines.
    pub lines: Vec<PlotLine>,
}

/// One line of a plot.
pub(crate) struct PlotLine {
    /// Its name in the legend.
    pub name: String,
    /// Its points, in the order drawn.
    pub points: Vec<(f64, f64)>,
    /// Whether points are marked.
    pub marked: bool,
}

impl PlotLine {
    /// Adds a point to the line `name` of `lines`, which is made if it is missing.
    pub(crate) fn add(lines: &mut Vec<Self>, name: &str, point: (f64, f64)) {
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(point),
            None => lines.push(Self { name: name.to_owned(), points: vec![point], marked: true }),
        }
    }
}

impl Plot<'_> {
    /// The plot as SVG; `None` if there is nothing to draw.
    ///
    /// # Errors
    /// The drawing library refused.
    pub(crate) fn svg(&self) -> anyhow::Result<Option<String>> {
        let points = || self.lines.iter().flat_map(|l| &l.points).copied();
        if points().count() < 2 {
            return Ok(None);
        }
        let (x_min, x_max) = range(points().map(|p| p.0));
        let (_, y_max) = range(points().map(|p| p.1));
        let mut text = String::new();
        {
            let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
            self.draw(&area, x_min..x_max, 0.0..y_max * 1.08).map_err(|e| anyhow!("drawing {}: {e}", self.title))?;
        }
        Ok(Some(text))
    }

    fn draw(
        &self,
        area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
        x: std::ops::Range<f64>,
        y: std::ops::Range<f64>,
    ) -> Result<(), Box<dyn std::error::Error>> {
        area.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(area)
            .caption(self.title, ("sans-serif", 17))
            .margin(12)
            .x_label_area_size(42)
            .y_label_area_size(62)
            .build_cartesian_2d(x, y)?;
        chart
            .configure_mesh()
            .x_desc(self.x)
            .y_desc(self.y)
            .light_line_style(WHITE)
            .label_style(("sans-serif", 12))
            .draw()?;
        for (line, colour) in self.lines.iter().zip(COLOURS.iter().cycle()) {
            let style = colour.stroke_width(2);
            chart
                .draw_series(LineSeries::new(line.points.iter().copied(), style))?
                .label(line.name.clone())
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
            if line.marked {
                chart.draw_series(line.points.iter().map(|&p| Circle::new(p, 3, colour.filled())))?;
            }
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.8))
            .border_style(RGBColor(200, 200, 200))
            .label_font(("sans-serif", 12))
            .draw()?;
        area.present()?;
        Ok(())
    }
}

/// The least and the greatest, apart from each other even if all are alike.
fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (min, max) = values.fold((f64::MAX, f64::MIN), |(min, max), v| (min.min(v), max.max(v)));
    if max > min { (min, max) } else { (min, min + 1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_is_svg_with_its_words_and_lines() {
        let line = PlotLine { name: "isocast".to_owned(), points: vec![(0.0, 1.0), (10.0, 2.0)], marked: true };
        let plot = Plot { title: "Rates", x: "requested", y: "delivered", lines: vec![line] };
        let svg = plot.svg().unwrap().unwrap();
        assert!(svg.starts_with("<svg"));
        for word in ["Rates", "requested", "delivered", "isocast", "<polyline", "<circle"] {
            assert!(svg.contains(word), "{word}");
        }
    }

    #[test]
    fn nothing_is_no_plot() {
        assert_eq!(Plot { title: "", x: "", y: "", lines: Vec::new() }.svg().unwrap(), None);
    }
}
