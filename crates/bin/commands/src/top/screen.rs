//! The screen: the streams shown and their order, the effect of keys, and the drawing.
//!
//! Promise: no look at the server and no terminal here, so that all of it can be tested on a screen in memory.

use std::cmp::Ordering;
use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use api::{AlarmSeverity, HeldUpBy, Stream};
use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph, Row, Sparkline, Table, TableState};
use units::{counted, real};

use super::figures::Figures;
use super::table::{
    Column, DISK_COLUMNS, STREAM_COLUMNS, alarm_line, beginning_of, disk_row, end_of, fitting, flow, stream_row,
    system_items, work_lines, wrapped,
};

/// Seconds that the graphs show at most.
const HISTORY: usize = 600;

/// Alarms that are shown at most; `isocast doctor` prints all.
const ALARMS_SHOWN: usize = 4;
/// On a lower screen an advice takes one line; `isocast doctor` prints all of it.
const ADVICE_WHOLE_HEIGHT: u16 = 30;
/// They take this part of the screen at most.
const ALARMS_PART: u16 = 3;
/// Volumes and running jobs that are shown at most.
const WORK_SHOWN: usize = 8;
/// Disks that are shown at most.
const DISKS_SHOWN: usize = 8;
/// Lines of the graphs, and those that streams have at least.
const GRAPH_LINES: u16 = 6;
const STREAM_LINES_MIN: u16 = 3;

/// Action that a key requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyAction {
    Nothing,
    End,
    /// The end of a stream.
    Stop(u64),
}

/// A sorting of streams: its name, and its order, in which streams that need attention come first.
type Sorting = (&'static str, fn(&Stream, &Stream) -> Ordering);

const SORTINGS: [Sorting; 7] = [
    ("id", |a, b| a.id.cmp(&b.id)),
    ("client", |a, b| a.client.cmp(&b.client)),
    ("rate", |a, b| b.rate_bps.cmp(&a.rate_bps)),
    ("J", |a, b| b.j_percent.unwrap_or(-1.0).total_cmp(&a.j_percent.unwrap_or(-1.0))),
    ("misses", |a, b| b.misses.cmp(&a.misses)),
    ("held up by", |a, b| held_up_rank(a).cmp(&held_up_rank(b))),
    ("path", |a, b| a.path.cmp(&b.path)),
];

const fn held_up_rank(stream: &Stream) -> u8 {
    match stream.held_up_by {
        Some(HeldUpBy::Disk) => 0,
        Some(HeldUpBy::Client) => 1,
        None => 2,
    }
}

/// Use that is made of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Watch,
    /// Letters go to the filter.
    Filter,
    /// `y` stops the chosen stream.
    Confirm(u64),
}

/// All that is shown.
pub(super) struct Screen {
    server: String,
    figures: Figures,
    /// Bits per second of each stream since the look before.
    rates: HashMap<u64, f64>,
    sent: VecDeque<u64>,
    disks: VecDeque<u64>,
    processors: VecDeque<u64>,
    /// Number in [`SORTINGS`].
    sorting: usize,
    reversed: bool,
    filter: String,
    mode: Mode,
    chosen: TableState,
    notice: String,
    /// The server's silence: since when, and the error.
    lost: Option<String>,
}

impl Screen {
    pub(super) fn new(server: &str, figures: Figures) -> Self {
        let mut screen = Self {
            server: server.to_owned(),
            figures,
            rates: HashMap::new(),
            sent: VecDeque::new(),
            disks: VecDeque::new(),
            processors: VecDeque::new(),
            sorting: 0,
            reversed: false,
            filter: String::new(),
            mode: Mode::Watch,
            chosen: TableState::default(),
            notice: String::new(),
            lost: None,
        };
        screen.remember();
        screen
    }

    /// Says something in the last line until the next look.
    pub(super) fn say(&mut self, text: String) {
        self.notice = text;
    }

    /// The server gives no figures: those shown are of its last answer.
    pub(super) fn lose(&mut self, error: &str, now: Instant) {
        let silent = now.duration_since(self.figures.at).as_secs();
        self.lost = Some(format!("NOT LIVE  figures of {silent} s ago: {error}"));
        self.rates.clear();
    }

    /// Takes other figures.
    pub(super) fn update(&mut self, figures: Figures) {
        let seconds = figures.at.duration_since(self.figures.at).as_secs_f64().max(1e-3);
        let moved = |stream: &Stream| stream.sent_bytes.saturating_add(stream.received_bytes);
        let before: HashMap<u64, u64> = self.figures.streams.iter().map(|stream| (stream.id, moved(stream))).collect();
        self.rates = figures
            .streams
            .iter()
            .filter_map(|stream| Some((stream.id, moved(stream).saturating_sub(*before.get(&stream.id)?))))
            .map(|(id, bytes)| (id, real(bytes) * 8.0 / seconds))
            .collect();
        self.figures = figures;
        self.notice.clear();
        self.lost = None;
        self.remember();
    }

    fn remember(&mut self) {
        let system = &self.figures.system;
        let sent = (system.network_bps + system.upload_bps) / 1_000;
        let busy = |phases: &api::Phases| per_mille(1.0 - phases.idle);
        let disks = self.figures.disks.iter().filter_map(|disk| disk.phases.as_ref()).map(busy).max().unwrap_or(0);
        let processors = system.cpu_share.map_or(0, per_mille);
        for (history, value) in [(&mut self.sent, sent), (&mut self.disks, disks), (&mut self.processors, processors)] {
            history.push_front(value);
            history.truncate(HISTORY);
        }
    }

    /// The streams to be shown, in order.
    fn shown(&self) -> Vec<&Stream> {
        let wanted = self.filter.to_lowercase();
        let mut shown: Vec<&Stream> = self
            .figures
            .streams
            .iter()
            .filter(|s| wanted.is_empty() || s.client.contains(&wanted) || s.path.to_lowercase().contains(&wanted))
            .collect();
        // Equal ones stay in the order of their numbers.
        shown.sort_by(|a, b| SORTINGS[self.sorting].1(a, b));
        if self.reversed {
            shown.reverse();
        }
        shown
    }

    /// Handles a key.
    pub(super) fn key(&mut self, key: KeyEvent) -> KeyAction {
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return KeyAction::End;
        }
        match self.mode {
            Mode::Watch => return self.command(key.code),
            Mode::Filter => match key.code {
                KeyCode::Char(letter) => self.filter.push(letter),
                KeyCode::Backspace => {
                    self.filter.pop();
                }
                KeyCode::Esc => {
                    self.filter.clear();
                    self.mode = Mode::Watch;
                }
                KeyCode::Enter => self.mode = Mode::Watch,
                _ => {}
            },
            Mode::Confirm(id) => {
                self.mode = Mode::Watch;
                if key.code == KeyCode::Char('y') {
                    return KeyAction::Stop(id);
                }
            }
        }
        KeyAction::Nothing
    }

    fn command(&mut self, code: KeyCode) -> KeyAction {
        match code {
            KeyCode::Char('q') | KeyCode::Esc => return KeyAction::End,
            KeyCode::Char('s') => self.sorting = (self.sorting + 1) % SORTINGS.len(),
            KeyCode::Char('r') => self.reversed = !self.reversed,
            KeyCode::Char('/') => self.mode = Mode::Filter,
            KeyCode::Down => self.choose(1),
            KeyCode::Up => self.choose(-1),
            KeyCode::PageDown => self.choose(20),
            KeyCode::PageUp => self.choose(-20),
            KeyCode::Char('x') => {
                let chosen = self.chosen.selected().and_then(|at| self.shown().get(at).map(|stream| stream.id));
                match chosen {
                    Some(id) => self.mode = Mode::Confirm(id),
                    None => self.say("choose a stream first, by the arrow keys".to_owned()),
                }
            }
            _ => {}
        }
        KeyAction::Nothing
    }

    fn choose(&mut self, by: isize) {
        let last = self.shown().len().saturating_sub(1);
        let at = self.chosen.selected().map_or(0, |at| at.saturating_add_signed(by));
        self.chosen.select(Some(at.min(last)));
    }

    /// Draws it. On a low screen the streams keep their lines longest, then the head, alarms, work, disks, graphs.
    pub(super) fn draw(&mut self, frame: &mut Frame<'_>) {
        let area = frame.area();
        let width = usize::from(area.width);
        let bottom: Vec<Line<'_>> = flow(&self.bottom(), width).into_iter().map(Line::from).collect();
        let head = system_items(&self.figures.system);
        let head: Vec<Line<'_>> = head.iter().flat_map(|items| flow(items, width)).map(Line::from).collect();
        let alarms = self.figures.alarms.iter().take(ALARMS_SHOWN).flat_map(|alarm| match alarm.severity {
            AlarmSeverity::Advice if area.height < ADVICE_WHOLE_HEIGHT => vec![beginning_of(&alarm_line(alarm), width)],
            _ => wrapped(&alarm_line(alarm), width),
        });
        let lost = self.lost.iter().flat_map(|text| wrapped(text, width));
        let alarms: Vec<Line<'_>> = lost.chain(alarms).map(Line::from).collect();
        let work: Vec<Line<'_>> = work_lines(&self.figures).into_iter().take(WORK_SHOWN).map(Line::from).collect();
        let disks = self.figures.disks.len().min(DISKS_SHOWN) + 1;
        let lines = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
        let mut left = area.height.saturating_sub(STREAM_LINES_MIN);
        let mut take = |wanted: u16| {
            let taken = wanted.min(left);
            left -= taken;
            taken
        };
        let bottom_lines = take(lines(bottom.len()));
        let alarm_lines = take(lines(alarms.len()).min(area.height / ALARMS_PART));
        let head_lines = take(lines(head.len()));
        let work_lines = take(lines(work.len()));
        let disk_lines = take(lines(disks));
        let graph_lines = if left >= GRAPH_LINES { GRAPH_LINES } else { 0 };
        let parts = [head_lines, alarm_lines, graph_lines, work_lines, disk_lines].map(Constraint::Length);
        let parts = parts.into_iter().chain([Constraint::Min(1), Constraint::Length(bottom_lines)]);
        let [head_area, alarm_area, graphs, work_area, disk_table, stream_table, bottom_area] =
            Layout::vertical(parts).areas(area);
        frame.render_widget(Paragraph::new(head), head_area);
        self.draw_graphs(frame, graphs);
        frame.render_widget(Paragraph::new(work), work_area);
        self.draw_disks(frame, disk_table);
        self.draw_streams(frame, stream_table);
        if self.lost.is_some() {
            frame.buffer_mut().set_style(area, Style::new().add_modifier(Modifier::DIM));
        }
        frame.render_widget(Paragraph::new(alarms).style(Style::new().add_modifier(Modifier::BOLD)), alarm_area);
        frame.render_widget(Paragraph::new(bottom), bottom_area);
    }

    fn draw_graphs(&self, frame: &mut Frame<'_>, area: Rect) {
        let areas: [Rect; 3] = Layout::horizontal([Constraint::Fill(1); 3]).areas(area);
        let most = self.sent.iter().max().copied().unwrap_or(0);
        let graphs = [
            (&self.sent, most.max(1), format!("network, up to {:.1} Mbit/s", real(most) / 1e3)),
            (&self.disks, 1_000, "busiest disk".to_owned()),
            (&self.processors, 1_000, "processors".to_owned()),
        ];
        for (area, (history, max, title)) in areas.into_iter().zip(graphs) {
            let graph = Sparkline::default()
                .block(Block::bordered().title(title))
                .data(history.iter().copied())
                .max(max)
                .direction(ratatui::widgets::RenderDirection::RightToLeft);
            frame.render_widget(graph, area);
        }
    }

    fn draw_disks(&self, frame: &mut Frame<'_>, area: Rect) {
        let columns = fitting(&DISK_COLUMNS, area.width);
        let rows = self.figures.disks.iter().map(|disk| cells(&columns, disk_row(disk)));
        frame.render_widget(table(&DISK_COLUMNS, &columns, rows), area);
    }

    fn draw_streams(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let columns = fitting(&STREAM_COLUMNS, area.width);
        let others: u16 = columns.iter().rev().skip(1).map(|at| STREAM_COLUMNS[*at].1 + 1).sum();
        let path_width = usize::from(area.width.saturating_sub(others));
        let (rows, count) = {
            let shown = self.shown();
            let first = self.first_row(shown.len(), area);
            let visible = shown.iter().skip(first).take(usize::from(area.height));
            let row = |stream: &&Stream| {
                let mut row = stream_row(stream, self.rates.get(&stream.id).copied());
                row[STREAM_COLUMNS.len() - 1] = end_of(&row[STREAM_COLUMNS.len() - 1], path_width);
                cells(&columns, row)
            };
            (visible.map(row).collect::<Vec<_>>(), first)
        };
        let table =
            table(&STREAM_COLUMNS, &columns, rows).row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
        let mut chosen = TableState::default();
        chosen.select(self.chosen.selected().and_then(|at| at.checked_sub(count)));
        frame.render_stateful_widget(table, area, &mut chosen);
    }

    /// Of many streams only those in view become rows.
    fn first_row(&self, streams: usize, area: Rect) -> usize {
        let height = usize::from(area.height.saturating_sub(1)).max(1);
        let chosen = self.chosen.selected().unwrap_or(0).min(streams.saturating_sub(1));
        (chosen + 1).saturating_sub(height)
    }

    fn bottom(&self) -> Vec<String> {
        match self.mode {
            Mode::Filter => vec![format!("filter: {}_", self.filter), "Enter keeps it, Esc shows all".to_owned()],
            Mode::Confirm(id) => vec![format!("stop stream {id}? y stops it, any other key does not")],
            Mode::Watch if !self.notice.is_empty() => vec![self.notice.clone()],
            Mode::Watch => {
                let (shown, all) = (self.shown().len(), self.figures.streams.len());
                let reversed = if self.reversed { ", reversed" } else { "" };
                let streams =
                    format!("{shown} of {} by {}{reversed}", counted(all, "stream"), SORTINGS[self.sorting].0);
                let keys = ["s sort", "r reverse", "/ filter", "x stop", "q end"].map(str::to_owned);
                [self.server.clone(), streams].into_iter().chain(keys).collect()
            }
        }
    }
}

/// The cells of a row that are shown.
fn cells<const N: usize>(columns: &[usize], row: [String; N]) -> Row<'static> {
    Row::new(columns.iter().map(|at| row[*at].clone()).collect::<Vec<_>>())
}

fn table<const N: usize>(
    all: &[Column; N],
    columns: &[usize],
    rows: impl IntoIterator<Item = Row<'static>>,
) -> Table<'static> {
    let last = columns.len().saturating_sub(1);
    let width = |(number, at): (usize, &usize)| match all[*at].1 {
        _ if number == last => Constraint::Fill(1),
        width => Constraint::Length(width),
    };
    let heads = columns.iter().map(|at| all[*at].0).collect::<Vec<_>>();
    let head = Row::new(heads).style(Style::new().add_modifier(Modifier::BOLD));
    Table::new(rows, columns.iter().enumerate().map(width)).header(head)
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share, and float casts saturate")]
fn per_mille(share: f64) -> u64 {
    (share * 1_000.0) as u64
}

#[cfg(test)]
mod tests;
