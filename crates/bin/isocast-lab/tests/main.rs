//! Tests of the measuring tools' program.

mod file_rates;
mod grammar;
