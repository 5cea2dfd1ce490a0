//! `snmp.agentx`: the address at which the SNMP agent of this machine takes subagents.

use std::fmt;
use std::path::PathBuf;

/// Address of a master agent, written as in net-snmp's `agentXSocket`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentxAddress {
    /// A Unix socket, by its whole path.
    Unix(PathBuf),
    /// `HOST:PORT`.
    Tcp(String),
}

impl AgentxAddress {
    /// Reads it as the configuration has it.
    ///
    /// # Errors
    /// The fault of the text, and the right notation.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.starts_with('/') {
            return Ok(Self::Unix(text.into()));
        }
        let address = text.strip_prefix("tcp:").filter(|address| {
            let parts = address.rsplit_once(':');
            parts.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0))
        });
        address.map(|address| Self::Tcp(address.to_owned())).ok_or_else(|| {
            format!(
                "`{text}` is no address of an agent; write `/var/agentx/master`, or for example `tcp:127.0.0.1:705`"
            )
        })
    }
}

impl fmt::Display for AgentxAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => path.display().fmt(f),
            Self::Tcp(address) => write!(f, "tcp:{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_and_shown_or_blamed() {
        for text in ["/var/agentx/master", "tcp:127.0.0.1:705", "tcp:localhost:705", "tcp:[::1]:705"] {
            assert_eq!(AgentxAddress::parse(text).expect("good").to_string(), text);
        }
        for text in ["", "master", "tcp:", "tcp:705", "tcp::705", "tcp:h:0", "tcp:h:99999", "udp:h:705", "unix:/x"] {
            assert!(AgentxAddress::parse(text).expect_err(text).contains("is no address of an agent"));
        }
    }
}
