//! What the machine says of itself, read by whoever may.

/// What the machine says of itself: counts since its start, and levels.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct MachineSample {
    /// Processor seconds spent busy, over all processors.
    pub cpu_busy_seconds: f64,
    /// Processor seconds there were, over all processors.
    pub cpu_total_seconds: f64,
    /// Processor seconds of this process.
    pub process_seconds: f64,
    /// Resident memory of this process.
    pub memory_bytes: u64,
    /// Memory of the machine.
    pub memory_total_bytes: u64,
    /// Bytes sent and received on all interfaces but loopback.
    pub interface_bytes: u64,
}

/// The machine, as whoever may read `/proc` sees it.
pub trait Machine: Send + Sync + 'static {
    /// A look at it now; none if it cannot be read.
    fn sample(&self) -> Option<MachineSample>;
}

/// A machine that says nothing of itself.
impl Machine for () {
    fn sample(&self) -> Option<MachineSample> {
        None
    }
}
