//! One page with everything in a folder of results; it needs nothing else to be shown.

use std::fmt::Write;

use super::super::table;
use super::{Results, figures};

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#222}\
table{border-collapse:collapse;font-size:13px;display:block;overflow-x:auto}\
th,td{padding:.25rem .6rem;text-align:right;border-bottom:1px solid #ddd;white-space:nowrap}\
th:first-child,td:first-child{text-align:left}svg{max-width:100%;height:auto}\
pre{background:#f6f6f6;padding:.8rem;overflow-x:auto;font-size:12px}h2{margin-top:2.5rem}.note{color:#a40}";

/// The page of all results.
pub(super) fn page(all: &[Results]) -> anyhow::Result<String> {
    let mut page = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>isocast bench</title><style>{STYLE}</style>\n\
         <h1>Measured</h1>\n"
    );
    for (n, results) in all.iter().enumerate() {
        if n == 0 {
            let _ = writeln!(page, "<p>{}</p>", host(results));
        }
        page.push_str(&section(results)?);
    }
    Ok(page)
}

fn host(Results { host, .. }: &Results) -> String {
    let (machine, commit) = (host.sentence(), host.commit.as_deref().unwrap_or("no commit known"));
    let (memory, version) = (host.memory_kib, &host.version);
    escaped(&format!("{machine} · {memory} KiB of memory · isocast {version} ({commit})"))
}

fn section(results: &Results) -> anyhow::Result<String> {
    let mut text = format!("<h2>{}</h2>\n", escaped(&results.title));
    if let Some(disk) = &results.host.disk {
        let kind = if disk.rotational { "spinning" } else { "not spinning" };
        // A disk need not report its model.
        let told = [disk.model.as_str(), kind, &disk.file_system].into_iter().filter(|word| !word.is_empty());
        let told = told.map(escaped).collect::<Vec<_>>().join(", ");
        let device = escaped(&disk.device);
        let _ = writeln!(text, "<p>Contents on {device} ({told}, read-ahead {} KiB)</p>", disk.read_ahead_kb);
    }
    if let Some(yardstick) = &results.yardstick {
        let _ = writeln!(text, "<p>One sequential durable writer alone: {:.1} MB/s</p>", yardstick.mb_per_s);
    }
    for found in &results.found {
        let _ = writeln!(text, "<p>{}</p>", escaped(&found.sentence()));
    }
    let rows = table::groups(&results.groups);
    text.push_str("<table>");
    for (n, row) in rows.iter().enumerate() {
        let cell = if n == 0 { "th" } else { "td" };
        let cells: String = row.iter().fold(String::new(), |mut cells, c| {
            let _ = write!(cells, "<{cell}>{}</{cell}>", escaped(c));
            cells
        });
        let _ = writeln!(text, "<tr>{cells}</tr>");
    }
    text.push_str("</table>\n");
    for run in results.runs.iter().filter(|r| !r.disturbed.is_empty()) {
        let reasons = escaped(&run.disturbed.join("; "));
        let _ =
            writeln!(text, "<p class=\"note\">{} × {}: disturbed: {reasons}</p>", escaped(&run.server), run.streams);
    }
    for svg in figures::of(results)? {
        text.push_str(&svg);
    }
    for (server, configuration) in &results.configurations {
        let _ = writeln!(
            text,
            "<details><summary>How {} was set up</summary><pre>{}</pre></details>",
            escaped(server),
            escaped(configuration)
        );
    }
    let _ = writeln!(
        text,
        "<details><summary>Command</summary><pre>{}</pre></details>",
        escaped(&results.command.join(" "))
    );
    Ok(text)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
