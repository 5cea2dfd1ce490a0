//! `[plane]`: the thread and the memory of the data plane.

use kernel::EngineChoice;
use toml::Value;
use units::ByteCount;

use super::settings::Settings;
use super::toml_text::{AsToml, parse_word};
use super::values::{Percent, parse_number, parse_percent};

const MIB: u64 = 1024 * 1024;
/// Buffers by default: this share of the machine's memory …
const MEMORY_PERCENT: u8 = 25;
/// … but no more than this.
const MEMORY_MAX: ByteCount = ByteCount(16 * 1024 * MIB);
/// Below this not even a few streams can be carried.
const MEMORY_MIN: ByteCount = ByteCount(16 * MIB);

/// The data plane's thread and memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PlaneSettings {
    /// CPU the thread is pinned to; `None`: chosen at start.
    pub(crate) cpu: Option<u32>,
    /// `SCHED_FIFO` priority, `1..=99`; `None`: ordinary scheduling.
    pub(crate) priority: Option<u8>,
    /// Way of requests to the kernel.
    pub(crate) engine: EngineChoice,
    /// Buffers for blocks.
    pub(crate) memory: MemorySetting,
}

/// Memory of the buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MemorySetting {
    /// This many percent of the machine's memory, at most [`MEMORY_MAX`].
    Percent(u8),
    /// This many bytes.
    Size(ByteCount),
}

impl MemorySetting {
    /// Bytes to use on a machine with `total` bytes of memory.
    pub(crate) fn of(self, total: ByteCount) -> ByteCount {
        match self {
            Self::Percent(percent) => {
                let share = total.0 / 100 * u64::from(percent);
                ByteCount(share.clamp(MEMORY_MIN.0, MEMORY_MAX.0))
            }
            Self::Size(size) => size,
        }
    }
}

impl AsToml for MemorySetting {
    fn as_toml(&self) -> Value {
        match self {
            Self::Percent(percent) => Percent(*percent).as_toml(),
            Self::Size(size) => size.as_toml(),
        }
    }
}

impl PlaneSettings {
    pub(super) fn take(settings: &mut Settings) -> Self {
        Self {
            cpu: settings.take("plane.cpu", None, parse_cpu),
            priority: u8::try_from(settings.take("plane.priority", 10, |text| parse_number(text, 0, 99)))
                .ok()
                .filter(|priority| *priority > 0),
            engine: settings.take("plane.engine", EngineChoice::Auto, parse_word),
            memory: settings.take("plane.memory", MemorySetting::Percent(MEMORY_PERCENT), parse_memory),
        }
    }
}

/// `auto` for a processor that is chosen at the start.
fn parse_cpu(text: &str) -> Result<Option<u32>, String> {
    match text {
        "auto" => Ok(None),
        _ => parse_number(text, 0, 1023).map(Some).map_err(|error| format!("{error}, or `auto`")),
    }
}

fn parse_memory(text: &str) -> Result<MemorySetting, String> {
    if text.trim().ends_with('%') {
        return parse_percent(text, 1, 80).map(|share| MemorySetting::Percent(share.0));
    }
    let size = units::parse_size(text).map_err(|error| format!("{error}, or a share of the memory such as `25%`"))?;
    if size < MEMORY_MIN {
        Err(format!("`{text}` is too little; {MEMORY_MIN} at least"))
    } else {
        Ok(MemorySetting::Size(size))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    fn load(text: &str) -> Result<Config, String> {
        Config::load_file("isocast.toml".as_ref(), text).map_err(|error| error.to_string())
    }

    #[test]
    fn memory_is_a_share_with_a_cap_or_a_size() {
        let gib = 1024 * MIB;
        let share = load("").unwrap().plane.memory;
        assert_eq!(share.of(ByteCount(8 * gib)).0 / MIB, 2047);
        assert_eq!(share.of(ByteCount(1024 * gib)), MEMORY_MAX);
        let fixed = load("[plane]\nmemory = \"512MiB\"\n").unwrap().plane.memory;
        assert_eq!(fixed.of(ByteCount(8 * gib)), ByteCount(512 * MIB));
    }

    #[test]
    fn a_priority_of_zero_means_ordinary_scheduling() {
        assert_eq!(load("[plane]\npriority = 0\ncpu = 1\n").unwrap().plane.priority, None);
        assert_eq!(load("[plane]\ncpu = 1\n").unwrap().plane.cpu, Some(1));
        assert!(load("[plane]\ncpu = \"two\"\n").unwrap_err().contains("or `auto`"));
    }
}
