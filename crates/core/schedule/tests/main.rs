//! The laws of admission and of the disk schedule.

mod admission_laws;
mod bulk_reads;
mod recordings;
mod short_rounds;
mod slack_laws;
