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
