//! Figures of the machine. Not here: reading them (the server passes a function for that).

/// Figures of the machine: counts since its start, and levels.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct MachineSample {
    /// Busy processor seconds, over all processors.
    pub cpu_busy_seconds: f64,
    /// Elapsed processor seconds, busy or idle, over all processors.
    pub cpu_total_seconds: f64,
    /// Processor seconds of this process.
    pub process_seconds: f64,
    /// Resident memory of this process.
    pub memory_bytes: u64,
    /// Open files of this process.
    pub open_files: u64,
    /// Memory of the machine.
    pub memory_total_bytes: u64,
    /// Bytes sent and received on all interfaces but loopback.
    pub interface_bytes: u64,
}

/// Function that reads the figures; returns `None` if they cannot be read.
pub type MachineReader = fn() -> Option<MachineSample>;
