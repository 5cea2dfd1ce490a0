//! `bench buffer`: how fast files are read through buffers of several sizes, from memory and from the disk.
//!
//! The first experiment of the study of disk parallelism (docs/references.md): `setvbuf` from 4 KiB to 1 MiB, files from 1 KiB to 512
//! MiB. It found that the buffer hardly matters, and memory does.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;

use super::figure_table::{FigureOutput, FigureTable, TableFigure, median};
use super::{Stop, files, scratch};

/// See the module.
#[derive(Debug, Clone, Args)]
pub(crate) struct BufferCommand {
    /// A folder on the disk that is read.
    #[arg(long, value_name = "DIR")]
    root: PathBuf,
    /// Read files of 1 MiB at most, once, to see that it works.
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    output: FigureOutput,
}

const FILE_KIB: [u32; 6] = [1, 64, 1 << 10, 16 << 10, 128 << 10, 512 << 10];
const BUFFER_KIB: [u32; 5] = [4, 16, 64, 256, 1024];
/// Runs, of which the median counts.
const REPEATS: usize = 5;

impl BufferCommand {
    /// Runs it.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub(crate) fn run(self, stop: &Stop, out: &mut dyn Write) -> anyhow::Result<()> {
        let (largest, repeats) = if self.quick { (1 << 10, 1) } else { (u32::MAX, REPEATS) };
        let folder = scratch::folder_in(&self.root)?;
        let mut table = FigureTable::new(
            "buffer",
            "Reading files through buffers of several sizes",
            "buffer, KiB",
            &[TableFigure::new("mb_per_s", "10^6 bytes/s", 1), TableFigure::new("ms", "ms", 3)],
            Some(&self.root),
        );
        table.note(format!("Each file read whole, opening included: the median of {repeats}"));
        for kib in FILE_KIB.into_iter().filter(|kib| *kib <= largest) {
            let path = folder.path().join("file");
            files::write(&path, u64::from(kib) << 10, 1, stop)?;
            for is_cached in [false, true] {
                let way = format!("{kib} KiB, {}", if is_cached { "from memory" } else { "from the disk" });
                for buffer in BUFFER_KIB {
                    stop.check()?;
                    let seconds = median(repeats, || read(&path, buffer, is_cached))?;
                    let bytes = f64::from(kib) * 1024.0;
                    table.add(&way, f64::from(buffer), &[("mb_per_s", bytes / seconds / 1e6), ("ms", seconds * 1e3)]);
                }
            }
            fs::remove_file(&path)?;
        }
        table.finish(&self.output, out)
    }
}

/// Seconds to read the file whole.
fn read(path: &Path, buffer_kib: u32, is_cached: bool) -> anyhow::Result<f64> {
    let mut buffer = vec![0; usize::try_from(buffer_kib)? * 1024];
    files::set_cached(path, is_cached)?;
    let begun = Instant::now();
    files::read_through(path, &mut buffer)?;
    Ok(begun.elapsed().as_secs_f64())
}
