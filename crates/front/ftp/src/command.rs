//! Commands of a control connection: from bytes to lines, from lines to commands (RFC 959 §5.3, 2228, 2389, 2428, 3659, 4217).
//!
//! Promise: no bytes make it panic or grow beyond [`LINE_BYTES_MAX`]; the bytes may come in any pieces. Telnet's own codes (RFC 854)
//! are left out. Not here: the effect of a command (`session`).

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, SystemTime};

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use units::{BitRate, parse_rate};

/// Longest line without its end: a path has at most 64 names of 255 bytes, of which few are that long.
pub const LINE_BYTES_MAX: usize = 8192;

const IAC: u8 = 255;
/// WILL, WONT, DO and DONT have an option behind them.
const WITH_OPTION: std::ops::RangeInclusive<u8> = 251..=254;

/// Bytes of a control connection that are not a line yet.
#[derive(Debug, Default)]
pub struct CommandLines {
    line: Vec<u8>,
    telnet: TelnetState,
    is_too_long: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum TelnetState {
    #[default]
    Data,
    Command,
    Option,
}

impl CommandLines {
    /// Takes bytes up to the end of a line. Gives the number of bytes taken, and the line's command if it is whole.
    pub fn take(&mut self, bytes: &[u8]) -> (usize, Option<Result<FtpCommand, CommandError>>) {
        for (at, &byte) in bytes.iter().enumerate() {
            if self.push(byte) {
                let line = std::mem::take(&mut self.line);
                let is_too_long = std::mem::take(&mut self.is_too_long);
                return (at + 1, Some(if is_too_long { Err(CommandError::TooLong) } else { parse(&line) }));
            }
        }
        (bytes.len(), None)
    }

    /// True if the byte ends a line.
    fn push(&mut self, byte: u8) -> bool {
        match (self.telnet, byte) {
            (TelnetState::Data, IAC) => self.telnet = TelnetState::Command,
            (TelnetState::Command, code) if WITH_OPTION.contains(&code) => self.telnet = TelnetState::Option,
            (TelnetState::Command | TelnetState::Option, _) => self.telnet = TelnetState::Data,
            (TelnetState::Data, b'\n') => {
                if self.line.last() == Some(&b'\r') {
                    self.line.pop();
                }
                return true;
            }
            // Telnet sends it behind a carriage return that is one (RFC 854).
            (TelnetState::Data, 0) => {}
            (TelnetState::Data, _) if self.line.len() >= LINE_BYTES_MAX => self.is_too_long = true,
            (TelnetState::Data, byte) => self.line.push(byte),
        }
        false
    }
}

/// A command.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the command of its name")]
pub enum FtpCommand {
    User(String),
    Pass(String),
    AuthTls,
    Pbsz,
    /// True: data connections are sealed.
    Prot(bool),
    Cwd(String),
    Cdup,
    Pwd,
    Quit,
    /// `PORT` and `EPRT`.
    Port(SocketAddr),
    Pasv,
    Epsv(EpsvKind),
    Type,
    Stru,
    Mode,
    Rest(u64),
    Retr(String),
    Stor(String),
    Appe(String),
    Allo,
    Rnfr(String),
    Rnto(String),
    Abor,
    Dele(String),
    Rmd(String),
    Mkd(String),
    List(String),
    Nlst(String),
    Mlsd(String),
    Mlst(String),
    Size(String),
    Mdtm(String),
    Mfmt(SystemTime, String),
    /// `SITE RATE`; none: as the folder has it, or as fast as can be.
    SiteRate(Option<BitRate>),
    Syst,
    Stat,
    Help,
    Noop,
    Feat,
    OptsUtf8,
    OptsMlst,
}

impl FtpCommand {
    /// The verb and the name of a command about a content or a folder.
    #[must_use]
    pub fn about(&self) -> Option<(&'static str, &str)> {
        Some(match self {
            Self::Cwd(name) => ("CWD", name),
            Self::Retr(name) => ("RETR", name),
            Self::Stor(name) => ("STOR", name),
            Self::Appe(name) => ("APPE", name),
            Self::Rnfr(name) => ("RNFR", name),
            Self::Rnto(name) => ("RNTO", name),
            Self::Dele(name) => ("DELE", name),
            Self::Rmd(name) => ("RMD", name),
            Self::Mkd(name) => ("MKD", name),
            Self::List(name) => ("LIST", name),
            Self::Nlst(name) => ("NLST", name),
            Self::Mlsd(name) => ("MLSD", name),
            Self::Mlst(name) => ("MLST", name),
            Self::Size(name) => ("SIZE", name),
            Self::Mdtm(name) => ("MDTM", name),
            Self::Mfmt(_, name) => ("MFMT", name),
            _ => return None,
        })
    }

    /// True for those with a data connection.
    #[must_use]
    pub fn is_transfer(&self) -> bool {
        matches!(self.about(), Some(("RETR" | "STOR" | "APPE" | "LIST" | "NLST" | "MLSD", _)))
    }
}

/// The argument of `EPSV`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EpsvKind {
    /// Of the control connection's own kind.
    Own,
    /// IPv4, IPv6, or a kind that is neither.
    Kind(u8),
    /// From now on no other command makes data connections.
    All,
}

/// Why a line is no command.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// There is no such command.
    #[error("there is no such command here")]
    Unknown,
    /// It is known, and has no use here.
    #[error("this command is not used here")]
    Unused,
    /// Its argument is missing or not understood.
    #[error("{0}")]
    Argument(&'static str),
    /// Its argument is understood, and not served.
    #[error("{0}")]
    Parameter(&'static str),
    /// Too long.
    #[error("the line is longer than {LINE_BYTES_MAX} bytes")]
    TooLong,
    /// The line is the head of a request of HTTP, which a page of any origin can have a browser send here.
    #[error("this is FTP")]
    Http,
}

/// The command of a line.
///
/// # Errors
/// Why it is none.
pub fn parse(line: &[u8]) -> Result<FtpCommand, CommandError> {
    let text = std::str::from_utf8(line).map_err(|_| CommandError::Argument("names are UTF-8 here"))?;
    let (verb, argument) = text.split_once(' ').unwrap_or((text, ""));
    if argument.ends_with("HTTP/1.1") || argument.ends_with("HTTP/1.0") {
        return Err(CommandError::Http);
    }
    let named = || match argument {
        "" => Err(CommandError::Argument("a name is missing")),
        name => Ok(name.to_owned()),
    };
    Ok(match verb.to_ascii_uppercase().as_str() {
        "USER" => FtpCommand::User(named()?),
        "PASS" => FtpCommand::Pass(argument.to_owned()),
        "AUTH" => auth(argument)?,
        "PBSZ" => FtpCommand::Pbsz,
        "PROT" => protection(argument)?,
        "CWD" | "XCWD" => FtpCommand::Cwd(named()?),
        "CDUP" | "XCUP" => FtpCommand::Cdup,
        "PWD" | "XPWD" => FtpCommand::Pwd,
        "QUIT" => FtpCommand::Quit,
        "PORT" => FtpCommand::Port(port(argument).ok_or(CommandError::Argument("PORT h1,h2,h3,h4,p1,p2"))?),
        "EPRT" => FtpCommand::Port(extended_port(argument)?),
        "PASV" => FtpCommand::Pasv,
        "EPSV" => FtpCommand::Epsv(extended_passive(argument)?),
        "TYPE" => only(FtpCommand::Type, argument, &["I", "A", "A N", "L 8"])?,
        "STRU" => only(FtpCommand::Stru, argument, &["F"])?,
        "MODE" => only(FtpCommand::Mode, argument, &["S"])?,
        "REST" => FtpCommand::Rest(argument.trim().parse().map_err(|_| CommandError::Argument("REST BYTES"))?),
        "RETR" => FtpCommand::Retr(named()?),
        "STOR" => FtpCommand::Stor(named()?),
        "APPE" => FtpCommand::Appe(named()?),
        "ALLO" => FtpCommand::Allo,
        "RNFR" => FtpCommand::Rnfr(named()?),
        "RNTO" => FtpCommand::Rnto(named()?),
        "ABOR" => FtpCommand::Abor,
        "DELE" => FtpCommand::Dele(named()?),
        "RMD" | "XRMD" => FtpCommand::Rmd(named()?),
        "MKD" | "XMKD" => FtpCommand::Mkd(named()?),
        "LIST" => FtpCommand::List(without_options(argument).to_owned()),
        "NLST" => FtpCommand::Nlst(without_options(argument).to_owned()),
        "MLSD" => FtpCommand::Mlsd(argument.to_owned()),
        "MLST" => FtpCommand::Mlst(argument.to_owned()),
        "SIZE" => FtpCommand::Size(named()?),
        "MDTM" => FtpCommand::Mdtm(named()?),
        "MFMT" => modification(argument)?,
        "SITE" => site(argument)?,
        "SYST" => FtpCommand::Syst,
        "STAT" if argument.is_empty() => FtpCommand::Stat,
        "HELP" => FtpCommand::Help,
        "NOOP" => FtpCommand::Noop,
        "FEAT" => FtpCommand::Feat,
        "OPTS" => options(argument)?,
        "ACCT" | "SMNT" | "REIN" | "STOU" | "CCC" | "STAT" | "ADAT" | "MIC" | "CONF" | "ENC" => {
            return Err(CommandError::Unused);
        }
        _ => return Err(CommandError::Unknown),
    })
}

fn auth(argument: &str) -> Result<FtpCommand, CommandError> {
    // `SSL` and `TLS-C` are older names of the same.
    match argument.trim().to_ascii_uppercase().as_str() {
        "TLS" | "TLS-C" | "SSL" => Ok(FtpCommand::AuthTls),
        _ => Err(CommandError::Parameter("AUTH TLS is the one that there is")),
    }
}

fn protection(argument: &str) -> Result<FtpCommand, CommandError> {
    match argument.trim().to_ascii_uppercase().as_str() {
        "P" => Ok(FtpCommand::Prot(true)),
        "C" => Ok(FtpCommand::Prot(false)),
        _ => Err(CommandError::Parameter("PROT P or PROT C")),
    }
}

fn only(command: FtpCommand, argument: &str, served: &[&str]) -> Result<FtpCommand, CommandError> {
    let is_served = served.iter().any(|each| each.eq_ignore_ascii_case(argument.trim()));
    if is_served { Ok(command) } else { Err(CommandError::Parameter("contents are files, sent as they are")) }
}

fn site(argument: &str) -> Result<FtpCommand, CommandError> {
    let (name, value) = argument.split_once(' ').unwrap_or((argument, ""));
    if !name.eq_ignore_ascii_case("RATE") {
        return Err(CommandError::Parameter("SITE RATE is the one that there is"));
    }
    if value.trim().eq_ignore_ascii_case("off") {
        return Ok(FtpCommand::SiteRate(None));
    }
    let rate = parse_rate(value.trim()).map_err(|_| CommandError::Argument("SITE RATE 8M, or SITE RATE OFF"))?;
    Ok(FtpCommand::SiteRate(Some(rate)))
}

fn options(argument: &str) -> Result<FtpCommand, CommandError> {
    let upper = argument.trim().to_ascii_uppercase();
    match upper.split(' ').next().unwrap_or_default() {
        "UTF8" if upper != "UTF8 OFF" => Ok(FtpCommand::OptsUtf8),
        "UTF-8" => Ok(FtpCommand::OptsUtf8),
        "MLST" => Ok(FtpCommand::OptsMlst),
        _ => Err(CommandError::Argument("there is no such option here")),
    }
}

/// `h1,h2,h3,h4,p1,p2` (RFC 959 §5.3.2).
fn port(argument: &str) -> Option<SocketAddr> {
    let mut numbers = argument.trim().split(',').map(|number| number.parse::<u8>().ok());
    let mut next = || numbers.next().flatten();
    let address = Ipv4Addr::new(next()?, next()?, next()?, next()?);
    let port = u16::from_be_bytes([next()?, next()?]);
    numbers.next().is_none().then_some(SocketAddr::new(address.into(), port))
}

/// `|1|192.0.2.1|6275|`, with any delimiter (RFC 2428 §2).
fn extended_port(argument: &str) -> Result<SocketAddr, CommandError> {
    let wrong = CommandError::Argument("EPRT |1|ADDRESS|PORT|, or |2|ADDRESS|PORT|");
    let argument = argument.trim();
    let delimiter = argument.chars().next().ok_or(wrong.clone())?;
    let fields: Vec<&str> = argument.split(delimiter).take(6).collect();
    let ["", kind, address, port, ""] = fields[..] else { return Err(wrong) };
    let address: IpAddr = address.parse().map_err(|_| wrong.clone())?;
    match (kind, address) {
        ("1", IpAddr::V4(_)) | ("2", IpAddr::V6(_)) => {}
        ("1" | "2", _) => return Err(wrong),
        _ => return Err(CommandError::Parameter("the kinds of addresses are 1 and 2")),
    }
    Ok(SocketAddr::new(address, port.parse().map_err(|_| wrong)?))
}

fn extended_passive(argument: &str) -> Result<EpsvKind, CommandError> {
    match argument.trim() {
        "" => Ok(EpsvKind::Own),
        all if all.eq_ignore_ascii_case("all") => Ok(EpsvKind::All),
        kind => kind.parse().map(EpsvKind::Kind).map_err(|_| CommandError::Argument("EPSV 1, EPSV 2 or EPSV ALL")),
    }
}

/// `MFMT 20260101120000 NAME` (draft-somers-ftp-mfxx-04 §3).
fn modification(argument: &str) -> Result<FtpCommand, CommandError> {
    let wrong = CommandError::Argument("MFMT YYYYMMDDHHMMSS NAME");
    let (time, name) = argument.split_once(' ').filter(|(_, name)| !name.is_empty()).ok_or(wrong.clone())?;
    Ok(FtpCommand::Mfmt(parse_time(time).ok_or(wrong)?, name.to_owned()))
}

/// `20260101120000`, with decimals of the second or without, in UTC (RFC 3659 §2.3).
fn parse_time(text: &str) -> Option<SystemTime> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() != 14 || !is_number(whole) || !is_number(fraction) || fraction.len() > 9 {
        return None;
    }
    let number = |range: std::ops::Range<usize>| whole[range].parse::<i8>().ok();
    let year = whole[..4].parse().ok()?;
    let nanos = format!("{fraction:0<9}").parse().ok()?;
    let date =
        DateTime::new(year, number(4..6)?, number(6..8)?, number(8..10)?, number(10..12)?, number(12..14)?, nanos);
    let seconds = date.ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp();
    let since = Duration::try_from(seconds.duration_since(jiff::Timestamp::UNIX_EPOCH)).ok()?;
    SystemTime::UNIX_EPOCH.checked_add(since)
}

/// `-la NAME` names `NAME`: clients have the options of ls(1) from older servers.
fn without_options(mut argument: &str) -> &str {
    while argument.starts_with('-') {
        argument = argument.split_once(' ').map_or("", |(_, rest)| rest.trim_start());
    }
    argument
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8], piece: usize) -> Vec<Result<FtpCommand, CommandError>> {
        let (mut lines, mut found) = (CommandLines::default(), Vec::new());
        for mut part in bytes.chunks(piece) {
            while !part.is_empty() {
                let (taken, command) = lines.take(part);
                part = &part[taken..];
                found.extend(command);
            }
        }
        found
    }

    #[test]
    fn commands_may_come_in_any_pieces() {
        let bytes = b"USER ada\r\nnoop\nRETR a b.mp4 \r\n\xff\xf4\xff\xf2ABOR\r\n\xff\xfb\x01PWD\r\n";
        let whole = lines(bytes, bytes.len());
        let name = |text: &str| text.to_owned();
        let expected = [
            FtpCommand::User(name("ada")),
            FtpCommand::Noop,
            FtpCommand::Retr(name("a b.mp4 ")),
            FtpCommand::Abor,
            FtpCommand::Pwd,
        ];
        assert_eq!(whole, expected.map(Ok));
        for piece in 1..8 {
            assert_eq!(lines(bytes, piece), whole, "{piece} bytes at once");
        }
    }

    #[test]
    fn long_lines_are_refused_and_the_next_one_is_read() {
        let mut bytes = b"RETR ".to_vec();
        bytes.resize(100 * LINE_BYTES_MAX, b'a');
        bytes.extend_from_slice(b"\r\nNOOP\r\n");
        assert_eq!(lines(&bytes, 4096), [Err(CommandError::TooLong), Ok(FtpCommand::Noop)]);
    }

    #[test]
    fn arguments_are_checked() {
        let of = |text: &str| parse(text.as_bytes());
        let v4 = "192.0.2.1:6275".parse().expect("an address");
        assert_eq!(of("PORT 192,0,2,1,24,131"), Ok(FtpCommand::Port(v4)));
        assert_eq!(of("EPRT |1|192.0.2.1|6275|"), Ok(FtpCommand::Port(v4)));
        assert!(matches!(of("eprt !2!::1!99!"), Ok(FtpCommand::Port(address)) if address.is_ipv6()));
        for wrong in
            ["PORT 192,0,2,1,24", "PORT 192,0,2,1,24,256", "PORT 1,1,1,1,1,1,1", "EPRT |1|::1|9|", "EPRT", "REST -1"]
        {
            assert!(matches!(of(wrong), Err(CommandError::Argument(_))), "{wrong}: {:?}", of(wrong));
        }
        assert_eq!(of("SITE RATE 8M"), Ok(FtpCommand::SiteRate(Some(BitRate(8_000_000)))));
        assert_eq!(of("site rate off"), Ok(FtpCommand::SiteRate(None)));
        assert!(of("SITE RATE 8").is_err() && of("SITE CHMOD 777 a").is_err());
        assert_eq!(of("LIST -la a b"), Ok(FtpCommand::List("a b".to_owned())));
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_225_600);
        assert_eq!(of("MFMT 20260101000000 a b"), Ok(FtpCommand::Mfmt(at, "a b".to_owned())));
        assert!(of("MFMT 20261301000000 a").is_err() && of("MFMT 2026 a").is_err());
        assert_eq!(of("POST / HTTP/1.1"), Err(CommandError::Http));
        assert!(of("RETR").is_err() && parse(b"RETR \xff").is_err());
    }
}
