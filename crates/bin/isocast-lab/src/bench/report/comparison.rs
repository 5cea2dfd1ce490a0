//! Tables and the picture of a set of results: the few rows and bars of the README, and every table behind them.

use std::fmt::Write;

use anyhow::bail;
use units::real;

use super::super::group::RunGroup;
use super::{MostStreams, Results};

/// The parts that the README shows, in its order: they compare the servers. Its picture has all searches.
const SHOWN: [&str; 4] = ["20-desktop-most-8.8M", "11-disk-uploads", "13-disk-jitter", "01-memory-8.8M"];

/// The comparison for the README as Markdown: one row for each of the parts shown there, the servers side by side.
pub(super) fn comparison(all: &[Results], folder: &str) -> anyhow::Result<String> {
    let bars = picture(all)
        .map(|_| format!("![The most streams carried without a stall]({folder}/comparison.svg)\n\n"))
        .unwrap_or_default();
    let mut text = format!(
        "{}; [every table]({folder}/README.md), and beside it the raw results with commands and configurations.\n\n{bars}\
         | | Isocast | nginx |\n|---|---|---|\n",
        measured(all)?
    );
    for results in SHOWN.iter().filter_map(|label| all.iter().find(|results| results.label == *label)) {
        let cell = |server: &str| {
            let found = results.found.iter().find(|found| found.server == server);
            let most = not_searched(results).into_iter().rfind(|group| group.server == server);
            found
                .map(|found| format!("**{}** streams", found.streams))
                .or_else(|| most.map(short_cell))
                .unwrap_or_default()
        };
        let _ = writeln!(text, "| {} | {} | {} |", results.title, cell("isocast"), cell("nginx"));
    }
    text.push_str(
        "\nJ is how far the bytes of each second are from the rate, in the mean: 0 % is a constant stream. *Stalled* are the \
         streams with a player that ran dry; CPU is the server's, seconds per 10⁹ bits.\n",
    );
    Ok(text)
}

/// The most streams that each server carried, as bars; none where that was not searched for with two servers.
pub(super) fn picture(all: &[Results]) -> Option<String> {
    let both: Vec<&Results> = all.iter().filter(|results| results.found.len() > 1).collect();
    if both.is_empty() {
        return None;
    }
    let most = both.iter().flat_map(|results| &results.found).map(|found| found.streams).max().unwrap_or(1).max(1);
    let mut text = String::new();
    let mut y = 0;
    for results in both {
        let title = results.title.replace('&', "&amp;").replace('<', "&lt;");
        let _ = writeln!(text, "<text x=\"8\" y=\"{}\">{title}</text>", y + 20);
        y += 28;
        for (found, colour) in results.found.iter().zip(["#0072b2", "#d55e00"]) {
            let (width, middle) = (560 * found.streams / most, y + 14);
            let _ = writeln!(
                text,
                "<text x=\"64\" y=\"{middle}\" text-anchor=\"end\">{}</text><rect x=\"72\" y=\"{y}\" width=\"{width}\" height=\"18\" fill=\"{colour}\"/><text x=\"{}\" y=\"{middle}\">{}</text>",
                found.server,
                78 + width,
                found.streams
            );
            y += 22;
        }
        y += 10;
    }
    Some(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 700 {y}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"700\" height=\"{y}\" fill=\"white\"/>\n{text}</svg>\n"
    ))
}

/// A group's figures for viewer and operator, in a line of medians.
fn short_cell(group: &RunGroup) -> String {
    let figure = |name: &str, places: usize| {
        group.median(name).map_or_else(|| "–".to_owned(), |median| format!("{median:.places$}"))
    };
    let j = if group.figure("j_1s_with_writer").is_some() { "j_1s_with_writer" } else { "j_1s_mean" };
    let admitted = group.median("admitted").filter(|&admitted| admitted < real(group.streams as u64));
    let mut text = format!(
        "{}{} streams: J {} %, {} stalled, CPU {}",
        admitted.map_or_else(String::new, |admitted| format!("{admitted:.0} of ")),
        group.streams,
        figure(j, 3),
        figure("stalled_streams", 0),
        figure("server_s_per_gbit", 3)
    );
    if group.figure("upload_mb_per_s").is_some() {
        let _ = write!(text, ", uploads {} MB/s", figure("upload_mb_per_s", 1));
    }
    text
}

/// Description of the measurement and its machine; an error without results.
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

/// A cell that stands once for several rows.
fn first_only(n: usize, text: &str) -> &str {
    if n == 0 { text } else { "" }
}

/// Every table as Markdown.
pub(super) fn tables(all: &[Results]) -> anyhow::Result<String> {
    let mut text = format!(
        "# Results\n\n{}. `isocast-lab report` on this folder makes this page anew, and one with plots.\n",
        measured(all)?
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
fn one_table(results: &Results, told: &[&RunGroup]) -> String {
    let mut text = format!(
        "\n**{}**\n\n\
         | server | streams | delivered / requested | J (1 s) | worst stream | J (100 ms) | stalled | CPU s/Gbit | RSS MiB | disk Mbit/s | network Mbit/s | uploads MB/s | of the time left |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
        results.title
    );
    text.extend(told.iter().map(|group| row(group)));
    for group in told.iter().filter(|group| group.figure("seeks").is_some()) {
        let _ = writeln!(
            text,
            "\n{}, {} viewers: {} pauses, {} seeks, of which {} were refused; first byte after a seek {} ms (95 %).",
            group.server,
            group.streams,
            group.cell("pauses", 0, ""),
            group.cell("seeks", 0, ""),
            group.cell("refused_seeks", 0, ""),
            group.cell("seek_first_byte_p95_ms", 0, ""),
        );
    }
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

/// All groups but the tries of searches, which get one line each; server by server.
fn not_searched(results: &Results) -> Vec<&RunGroup> {
    let mut told: Vec<&RunGroup> = results.groups.iter().filter(|group| !group.probe).collect();
    told.sort_by_key(|group| results.groups.iter().position(|g| g.server == group.server));
    told
}

/// Results of all searches, in one table; empty if there were none.
fn searches<'a>(all: impl IntoIterator<Item = &'a Results>) -> String {
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

/// Number of streams, and its resolution.
fn streams_of(found: &MostStreams) -> String {
    let mut text = found.streams.to_string();
    if let Some(too_many) = found.too_many.filter(|&too_many| too_many > found.streams + 1) {
        let _ = write!(text, " ({too_many} not)");
    }
    if !found.confirmed {
        text.push_str(", not confirmed");
    }
    text
}

/// A share, or a dash where it is not known.
fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "–".to_owned(), |share| format!("{:.0} %", share * 100.0))
}

/// J over a second: beside the writer, where it came later.
fn j_1s(group: &RunGroup) -> String {
    let with_writer = group.figure("j_1s_with_writer").is_some();
    group.cell(if with_writer { "j_1s_with_writer" } else { "j_1s_mean" }, 3, " %")
}

fn row(group: &RunGroup) -> String {
    let admitted = group.median("admitted").filter(|&a| a < real(group.streams as u64));
    let streams = match admitted {
        Some(admitted) => format!("{} ({admitted:.0} admitted)", group.streams),
        None => group.streams.to_string(),
    };
    format!(
        "| {} | {streams} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
        group.server,
        group.cell("ratio", 4, ""),
        j_1s(group),
        group.cell("j_1s_worst_stream", 2, " %"),
        group.cell("j_100ms_mean", 2, " %"),
        group.cell("stalled_streams", 0, ""),
        group.cell("server_s_per_gbit", 4, ""),
        group.cell("server_rss_mib", 0, ""),
        group.cell("disk_read_mbps", 0, ""),
        group.cell("network_mbps", 0, ""),
        group.cell("upload_mb_per_s", 1, ""),
        percent(group.median("upload_share_of_left")),
    )
}

#[cfg(test)]
mod tests {
    use super::super::super::group::Figure;
    use super::*;

    fn group(admitted: Option<f64>, more: &[(&str, f64)]) -> RunGroup {
        let figure =
            |(name, value): (&str, f64)| Figure { name: name.to_owned(), median: value, min: value, max: value };
        let admitted = admitted.map(|admitted| ("admitted", admitted));
        RunGroup {
            server: "isocast".to_owned(),
            streams: 50,
            rate_bps: 8_800_000,
            probe: false,
            runs: 1,
            figures: admitted.into_iter().chain(more.iter().copied()).map(figure).collect(),
        }
    }

    #[test]
    fn a_cell_says_how_many_of_the_streams_were_admitted_where_some_were_not() {
        let figures = [("j_1s_mean", 0.014), ("stalled_streams", 2.0), ("server_s_per_gbit", 0.0456)];
        let rest = "50 streams: J 0.014 %, 2 stalled, CPU 0.046";
        assert_eq!(short_cell(&group(Some(50.0), &figures)), rest);
        assert_eq!(short_cell(&group(None, &figures)), rest);
        assert_eq!(short_cell(&group(Some(41.0), &figures)), format!("41 of {rest}"));
    }

    #[test]
    fn a_cell_beside_uploads_shows_their_rate_and_the_jitter_while_they_ran() {
        let figures = [("j_1s_mean", 0.014), ("j_1s_with_writer", 3.5), ("upload_mb_per_s", 41.46)];
        assert_eq!(short_cell(&group(None, &figures)), "50 streams: J 3.500 %, – stalled, CPU –, uploads 41.5 MB/s");
    }
}
