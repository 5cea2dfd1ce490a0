//! Values as TOML shows them, in the notation in which they are read.

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;

use automation::{CopyEnd, ProofKind};
use ftp::FtpTls;
use ipnet::IpNet;
use jobs::Missed;
use kernel::EngineChoice;
use service::budgets::BudgetScope;
use service::config::WhenFull;
use service::quota::WhenQuotaFull;
use snmp::AgentxAddress;
use store::ContentPath;
use toml::Value;
use units::{BitRate, ByteCount, Nanos};

use super::values::{DiskPaths, Percent, rate_text, size_text, span_text};

/// A value of a setting: as it is shown, it is read back as the same.
pub(super) trait AsToml {
    fn as_toml(&self) -> Value;
}

macro_rules! as_toml {
    ($($shown:ty => $show:expr;)+) => { $(impl AsToml for $shown {
        fn as_toml(&self) -> Value {
            let show: fn(&Self) -> _ = $show;
            show(self).into()
        }
    })+ };
}

as_toml! {
    bool => |choice| *choice;
    u32 => |number| *number;
    u64 => |number| i64::try_from(*number).unwrap_or(i64::MAX);
    String => String::clone;
    PathBuf => |path| path.display().to_string();
    ContentPath => ContentPath::joined;
    SocketAddr => SocketAddr::to_string;
    Ipv4Addr => Ipv4Addr::to_string;
    IpNet => IpNet::to_string;
    AgentxAddress => AgentxAddress::to_string;
    BudgetScope => BudgetScope::to_string;
    CopyEnd => CopyEnd::to_string;
    RangeInclusive<u16> => |range| format!("{}-{}", range.start(), range.end());
    Nanos => |time| span_text(*time);
    ByteCount => |bytes| size_text(*bytes);
    BitRate => |bits| rate_text(*bits);
    Percent => |share| format!("{}%", share.0);
    Option<Percent> => |share| share.map_or_else(|| "off".into(), |share| share.as_toml());
    Option<u32> => |cpu| cpu.map_or_else(|| "auto".into(), |cpu| cpu.as_toml());
    DiskPaths => |disks| disks.0.iter().map(|disk| disk.display().to_string()).collect::<Vec<_>>().join(",");
}

impl<T: AsToml> AsToml for Vec<T> {
    fn as_toml(&self) -> Value {
        Value::Array(self.iter().map(AsToml::as_toml).collect())
    }
}

/// A value that is written as one of a few words.
pub(super) trait Word: Copy + PartialEq + 'static {
    const WORDS: &'static [(&'static str, Self)];
}

impl<T: Word> AsToml for T {
    fn as_toml(&self) -> Value {
        let word = T::WORDS.iter().find(|(_, value)| value == self).map_or("", |(word, _)| *word);
        Value::String(word.to_owned())
    }
}

/// Reads one of the words.
pub(super) fn parse_word<T: Word>(text: &str) -> Result<T, String> {
    let known = T::WORDS.iter().find(|(word, _)| *word == text);
    known.map(|(_, value)| *value).ok_or_else(|| {
        let words: Vec<String> = T::WORDS.iter().map(|(word, _)| format!("`{word}`")).collect();
        let (last, others) = words.split_last().expect("there are words");
        format!("`{text}` is neither {} nor {last}", others.join(", "))
    })
}

impl Word for EngineChoice {
    const WORDS: &'static [(&'static str, Self)] =
        &[("auto", Self::Auto), ("io_uring", Self::IoUring), ("threads", Self::Threads)];
}

impl Word for WhenFull {
    const WORDS: &'static [(&'static str, Self)] = &[("refuse", Self::Refuse), ("best-effort", Self::BestEffort)];
}

impl Word for WhenQuotaFull {
    const WORDS: &'static [(&'static str, Self)] =
        &[("refuse", Self::Refuse), ("overwrite_oldest", Self::OverwriteOldest)];
}

impl Word for Missed {
    const WORDS: &'static [(&'static str, Self)] = &[("skip", Self::Skip), ("once", Self::Once)];
}

impl Word for ProofKind {
    const WORDS: &'static [(&'static str, Self)] = &[("tls", Self::Tls), ("http", Self::Http)];
}

impl Word for FtpTls {
    const WORDS: &'static [(&'static str, Self)] =
        &[("required", Self::Required), ("offered", Self::Offered), ("off", Self::Off)];
}
