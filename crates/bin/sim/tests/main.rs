//! Simulated evenings, and the laws that hold in each.

mod closed_output;
mod laws;
mod mirrors;
mod program;
mod recordings;
mod regressions;
mod seeds;
mod seeks;
mod segments;
mod sharing;
mod slower;
mod starts;
mod uploads;
