//! Tests behind the figures: A, B and C of Kimura's comparison of TIPC and TCP/IP, and the test it left to do.
//!
//! A: one way, at full speed, by message size. B: there and back. C: 256 KiB every 80 ms. The sizes lie around the
//! steps at which TIPC needs one more packet of 1500 bytes, 1404 and 2752 with the header of today's kernels.

use serde::{Deserialize, Serialize};

/// Messages of A, bytes.
pub(super) const SIZES: [usize; 12] = [16, 64, 256, 1024, 1404, 1405, 2752, 2753, 4096, 16_384, 65_536, 262_144];
/// Messages of B, bytes.
const ROUND_TRIP_SIZES: [usize; 5] = [16, 64, 1024, 4096, 16_384];

/// Carrier of messages and its mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Way {
    Tcp,
    TcpNoDelay,
    TcpCoalesced,
    Tipc,
    TipcNoDelay,
    TipcCoalesced,
}

impl Way {
    const ALL: [Self; 6] =
        [Self::Tcp, Self::TcpNoDelay, Self::TcpCoalesced, Self::Tipc, Self::TipcNoDelay, Self::TipcCoalesced];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::TcpNoDelay => "TCP without Nagle",
            Self::TcpCoalesced => "TCP, coalesced",
            Self::Tipc => "TIPC",
            Self::TipcNoDelay => "TIPC without Nagle",
            Self::TipcCoalesced => "TIPC, coalesced",
        }
    }

    pub(super) fn is_tipc(self) -> bool {
        matches!(self, Self::Tipc | Self::TipcNoDelay | Self::TipcCoalesced)
    }

    fn is_coalesced(self) -> bool {
        matches!(self, Self::TcpCoalesced | Self::TipcCoalesced)
    }

    fn words(self) -> Vec<String> {
        let mut words = vec!["--transport".to_owned(), if self.is_tipc() { "tipc" } else { "tcp" }.to_owned()];
        match self {
            Self::TcpNoDelay | Self::TipcNoDelay => words.push("--no-delay".to_owned()),
            Self::TcpCoalesced | Self::TipcCoalesced => words.extend(["--coalesce", "5ms"].map(str::to_owned)),
            Self::Tcp | Self::Tipc => {}
        }
        words
    }
}

/// A, B or C.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum NetExperiment {
    A,
    B,
    C,
    /// 16 bytes every 200 µs: coalesced messages wait no longer than allowed.
    Bound,
}

/// One test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NetCase {
    pub(super) experiment: NetExperiment,
    pub(super) way: Way,
    pub(super) size: usize,
}

impl NetCase {
    /// All of them, TCP and TIPC of one size after the other.
    pub(super) fn all(tipc: bool) -> Vec<Self> {
        let ways = || Way::ALL.into_iter().filter(move |way| tipc || !way.is_tipc());
        let of = |experiment, way, size| Self { experiment, way, size };
        let mut cases = Vec::new();
        for size in SIZES {
            // Messages that fill packets by themselves gain nothing from coalescing.
            let ways = ways().filter(|way| !way.is_coalesced() || size <= 1024);
            cases.extend(ways.map(|way| of(NetExperiment::A, way, size)));
        }
        let plain = || ways().filter(|way| matches!(way, Way::Tcp | Way::Tipc));
        for size in ROUND_TRIP_SIZES {
            cases.extend(plain().map(|way| of(NetExperiment::B, way, size)));
        }
        cases.extend(plain().map(|way| of(NetExperiment::C, way, 256 << 10)));
        cases.extend(ways().filter(|way| way.is_coalesced()).map(|way| of(NetExperiment::Bound, way, 16)));
        cases
    }

    /// The words after `isocast net test --to ADDR`.
    pub(super) fn words(&self, seconds: u32) -> Vec<String> {
        let mut words = self.way.words();
        words.extend(["--size".to_owned(), self.size.to_string(), "--duration".to_owned(), format!("{seconds}s")]);
        match self.experiment {
            NetExperiment::A => {}
            // TCP would wait for an acknowledgement of the message before.
            NetExperiment::B => words.extend(["--round-trip", "--no-delay"].map(str::to_owned)),
            NetExperiment::C => words.extend(["--every", "80ms"].map(str::to_owned)),
            NetExperiment::Bound => words.extend(["--every", "200us"].map(str::to_owned)),
        }
        words
    }
}
