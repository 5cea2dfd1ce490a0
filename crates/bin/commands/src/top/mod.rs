//! `isocast top`: live view of a server, as HPSM's `disp` gave it.
//!
//! Promise: shows the figures of `/api/v1`, read once a second; costs the server six small answers. Not here: the source of the figures
//! (`figures`), the screen (`screen`).

mod figures;
mod screen;
mod table;

use std::io::{IsTerminal as _, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use client::{Login, ServerApi};
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use figures::Figures;
use screen::{KeyAction, Screen};

/// Time between two reads of the figures: the server's own figures are a second old at most.
const PERIOD: Duration = Duration::from_secs(1);

/// Show the work of a server: streams, disks, processors, memory, network.
///
/// Keys: s sorts by the next column, r turns the order round, / filters by client or path, arrows choose a stream, x stops it,
/// q ends.
#[derive(Debug, Args)]
pub struct TopArgs {
    /// The server.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080")]
    url: String,
    /// Print the figures once, and end.
    #[arg(long)]
    once: bool,
    /// Print the figures once, as JSON.
    #[arg(long)]
    json: bool,
    /// A file that holds `name:password` or a token, where reading needs a login, and for stopping streams.
    #[arg(long, visible_alias = "token", value_name = "FILE")]
    login: Option<PathBuf>,
}

impl TopArgs {
    /// Shows the figures, once to `out` or on the terminal until it is ended.
    ///
    /// # Errors
    /// The server does not answer, or there is no terminal.
    pub fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let login = self.login.as_deref().map(Login::read).transpose()?;
        let is_address = self.url.starts_with("http://") || self.url.starts_with("https://");
        anyhow::ensure!(is_address, "{}: write http://HOST:PORT, or https://", self.url);
        let server = ServerApi::new(&self.url, login);
        let first = Figures::read(&server)
            .with_context(|| format!("no figures of {}; `--url` names another server", self.url))?;
        if self.once || self.json {
            let text = if self.json { serde_json::to_string_pretty(&first)? + "\n" } else { table::text(&first) };
            return Ok(out.write_all(text.as_bytes())?);
        }
        anyhow::ensure!(
            std::io::stdout().is_terminal(),
            "this is no terminal: `--once` prints the figures, `--json` for programs"
        );
        let mut terminal = ratatui::try_init().context("cannot use the terminal")?;
        let shown = show(&mut terminal, &server, first);
        ratatui::restore();
        shown
    }
}

/// Looks once a second and handles keys, until a key ends it.
fn show(terminal: &mut ratatui::DefaultTerminal, server: &ServerApi, first: Figures) -> anyhow::Result<()> {
    let mut screen = Screen::new(server.url(), first);
    let mut next = std::time::Instant::now() + PERIOD;
    loop {
        terminal.draw(|frame| screen.draw(frame))?;
        let left = next.saturating_duration_since(std::time::Instant::now());
        if event::poll(left)? {
            let Event::Key(key) = event::read()? else { continue };
            if key.kind != KeyEventKind::Press {
                continue;
            }
            match screen.key(key) {
                KeyAction::Nothing => {}
                KeyAction::End => return Ok(()),
                KeyAction::Stop(id) => screen.say(match server.order(&format!("streams/{id}/stop")) {
                    Ok(()) => format!("stream {id} is to end"),
                    Err(error) => format!("{error:#}"),
                }),
            }
            continue;
        }
        match Figures::read(server) {
            Ok(figures) => screen.update(figures),
            Err(error) => screen.lose(&format!("{error:#}"), std::time::Instant::now()),
        }
        next = std::time::Instant::now() + PERIOD;
    }
}
