//! `isocast bench`: measures servers of paced streams, ours and others, the same way.
//!
//! Promise: the same client, files, disk and run for every server; raw results kept; disturbed runs say so. Not here:
//! the emulated disk (`isocast lab`), predictions (`isocast plan`). The figures' definitions: `docs/guide/bench.md`.

mod access;
mod account;
mod admitted;
mod ageing;
mod all;
mod args;
mod buffer;
mod cameras;
mod client;
mod content_choice;
mod contents;
mod disks;
mod experiment;
mod figure_table;
mod files;
mod group;
mod hls;
mod host;
mod hostile;
mod idle;
mod jitter;
mod lab_disk;
mod live;
mod load;
mod network;
mod nginx;
mod papers;
mod parts;
mod plain;
mod plan_count;
mod promises;
mod quantiles;
mod reasons;
mod recorder;
mod report;
mod requests;
mod scratch;
mod search;
mod segments;
mod server;
mod server_counts;
mod session;
mod side_programs;
mod store_site;
mod streams;
mod summary;
mod table;
#[cfg(test)]
mod tests;
mod windows;
mod writer;
mod yardstick;

use std::io::Write;
use std::panic::resume_unwind;
use std::thread::ScopedJoinHandle;

use clap::{Args, Subcommand};

use crate::stop::Stop;
use crate::{child, clock};
pub(crate) use account::CountedNames;
pub(crate) use host::Host;
pub(crate) use report::{Plot, PlotLine, ReportCommand};
pub(crate) use table::align;

/// Measure servers of paced streams: rate, jitter, stalls, cost.
#[derive(Debug, Args)]
pub(crate) struct BenchCommand {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Debug, Subcommand)]
enum Experiment {
    /// Measure the number of streams and their cost: requested against delivered rate, J, stalls, processor, memory, disk, network.
    Streams(streams::StreamsCommand),
    /// Measure the effect of uploads on the J of streams.
    Jitter(jitter::JitterCommand),
    /// Measure streams and an upload through the page cache and the kernel's scheduler: the same load without a cyclic schedule.
    Plain(plain::PlainCommand),
    /// Measure the load of the server while streams come and go, from a folder and from a volume.
    Load(load::LoadCommand),
    /// Measure throughput by the size of messages and of the TCP window, from memory to memory.
    Windows(windows::WindowsCommand),
    /// Measure a crowd of HLS viewers beside streams: segments in time, first bytes, refusals, and the streams' J.
    Hls(hls::HlsCommand),
    /// Measure viewers of HLS segments on a disk: smooth, stalled and refused ones, and how long segments take.
    Segments(segments::SegmentsCommand),
    /// Measure live channels that are put as HLS segments beside their viewers: how long publishing takes, and stalls.
    Live(live::LiveCommand),
    /// Measure cameras that record beside viewers: recorded and refused ones, hold-ups, losses, and the viewers' J and stalls.
    Recorder(recorder::RecorderCommand),
    /// Measure the processor time of reading a file at a rate, by the way it is read (fio, and `isocast cp`).
    Access(access::AccessCommand),
    /// Measure how fast files are read through buffers of several sizes, from memory and from the disk.
    Buffer(buffer::BufferCommand),
    /// Measure the effect of repeated filling and deleting on a volume, ext4 and XFS: rate of reading, runs, streams carried.
    Ageing(ageing::AgeingCommand),
    /// Measure the gain from several disks: files from one and two, a content of all disks, streams on 1 to 8.
    Disks(disks::DisksCommand),
    /// Make every table and figure of the papers anew.
    Papers(papers::PapersCommand),
    /// Measure the whole set: contents in memory, cold on an emulated disk, uploads beside, the papers' experiments; nginx in each.
    All(all::AllCommand),
}

impl BenchCommand {
    /// Runs the experiment and prints its results to `out`.
    ///
    /// # Errors
    /// Wrong arguments, servers that cannot be started or reached, results that cannot be written, or an interrupt;
    /// whatever was started is stopped before.
    pub(crate) fn run(self, out: &mut dyn Write) -> anyhow::Result<()> {
        let stop = Stop::on_signals()?;
        match self.experiment {
            Experiment::Streams(command) => command.run(&stop, out),
            Experiment::Jitter(command) => command.run(&stop, out),
            Experiment::Plain(command) => command.run(&stop, out),
            Experiment::Load(command) => command.run(&stop, out),
            Experiment::Windows(command) => command.run(&stop, out),
            Experiment::Papers(command) => command.run(&stop, out),
            Experiment::Hls(command) => command.run(&stop, out),
            Experiment::Segments(command) => command.run(&stop, out),
            Experiment::Live(command) => command.run(&stop, out),
            Experiment::Recorder(command) => command.run(&stop, out),
            Experiment::Access(command) => command.run(&stop, out),
            Experiment::Buffer(command) => command.run(&stop, out),
            Experiment::Ageing(command) => command.run(&stop, out),
            Experiment::Disks(command) => command.run(&stop, out),
            Experiment::All(command) => command.run(&stop),
        }
    }
}

/// The result of a thread; its panic is the caller's as well.
fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}
