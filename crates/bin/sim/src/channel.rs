//! The queues between the plane, its control side and the store threads.
//!
//! Promise: a report is refused while the queue is full, or a fault keeps it unread. Not here: the effects of reports (`world`).

use std::collections::VecDeque;

use content::Segment;
use dataplane::control::{Command, Report};
use storage::grant::StoreMessage;
use units::Nanos;

use crate::course::Course;
use crate::events::WorldEvent;
use crate::log::LogKind;

/// Reports the control side has room for.
const REPORTS_MAX: usize = 4096;

/// The queues of one run.
#[derive(Debug, Default)]
pub(crate) struct SimChannel {
    commands: VecDeque<Command>,
    store_messages: VecDeque<StoreMessage>,
    reports: VecDeque<Report>,
    /// The control side will read its reports, or a fault keeps it from that.
    will_read: bool,
    closed: bool,
    /// Until when reports may have waited unread.
    read_until: Nanos,
}

impl SimChannel {
    pub(crate) fn command(&mut self, command: Command, course: &mut Course) {
        course.log(LogKind::Command, 1, 0, || match &command {
            Command::Start(d) => {
                let ranges: Vec<_> = d.segments.iter().filter(|s| matches!(s, Segment::Range { .. })).collect();
                format!("start {} on {:?}: {:?} {ranges:?}", d.stream.0, d.content.disk(), d.service)
            }
            other => format!("{other:?}"),
        });
        self.commands.push_back(command);
    }

    pub(crate) fn take_command(&mut self, course: &mut Course) -> Option<Command> {
        let command = self.commands.pop_front()?;
        course.log(LogKind::Command, 0, 0, || "taken".to_owned());
        Some(command)
    }

    pub(crate) fn send_store_messages(&mut self, messages: Vec<StoreMessage>) {
        self.store_messages.extend(messages);
    }

    pub(crate) fn take_store_message(&mut self) -> Option<StoreMessage> {
        self.store_messages.pop_front()
    }

    /// True if something waits for the plane.
    pub(crate) fn holds_news(&self) -> bool {
        !self.commands.is_empty() || !self.store_messages.is_empty()
    }

    /// The plane reports.
    pub(crate) fn report(&mut self, report: Report, course: &mut Course) -> Result<(), Report> {
        if self.closed || self.reports.len() >= REPORTS_MAX {
            return Err(report);
        }
        self.reports.push_back(report);
        if !std::mem::replace(&mut self.will_read, true) {
            let latency = Nanos::from_micros(20 + course.random().below(400));
            course.schedule_in(latency, WorldEvent::Reports);
        }
        Ok(())
    }

    /// The control side reads its reports, up to those that came while it did.
    pub(crate) fn take_report(&mut self, course: &mut Course) -> Option<Report> {
        self.will_read = false;
        let report = self.reports.pop_front()?;
        course.log(LogKind::Report, 0, 0, || report_text(&report));
        Some(report)
    }

    pub(crate) fn close_reports(&mut self) {
        self.closed = true;
    }

    pub(crate) fn open_reports(&mut self, now: Nanos) {
        self.closed = false;
        // Waiting reports are read in the next moment.
        self.read_until = now.saturating_add(Nanos::from_millis(1));
    }

    /// True if a fault keeps the control side from its reports.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// True if reports of this time may have waited unread.
    pub(crate) fn was_unread(&self, at: Nanos) -> bool {
        at < self.read_until
    }
}

fn report_text(report: &Report) -> String {
    match report {
        Report::Refused { delivery, refusal } => format!("{} refused: {refusal:?}", delivery.stream.0),
        Report::Finished { delivery, end } => format!("{} finished: {end:?}", delivery.stream.0),
        other => format!("{other:?}"),
    }
}
