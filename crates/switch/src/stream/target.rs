//! Parsing of connection names.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// An address to connect to or to listen on.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Target {
    /// `unix:FILE`
    Unix(PathBuf),
    /// `tcp:HOST:PORT`
    Tcp(SocketAddr),
    /// `ssl:HOST:PORT`
    Tls(SocketAddr),
    /// `punix:FILE`
    ListenUnix(PathBuf),
    /// `ptcp:[PORT][:HOST]`
    ListenTcp(SocketAddr),
    /// `pssl:[PORT][:HOST]`
    ListenTls(SocketAddr),
}

/// The text is not a connection name.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("'{text}' names no connection: {reason}")]
pub struct TargetError {
    text: String,
    reason: &'static str,
}

impl Target {
    /// Parses a name, with the default port (6653 for OpenFlow, 6640 for OVSDB).
    pub fn parse(text: &str, default_port: u16) -> Result<Target, TargetError> {
        let bad = |reason| TargetError { text: text.to_owned(), reason };
        let (method, rest) = text
            .split_once(':')
            .ok_or_else(|| bad("it begins with no method like unix: or tcp:"))?;
        let active = || active(rest, default_port).ok_or_else(|| bad("expected HOST:PORT"));
        let passive = || passive(rest, default_port).ok_or_else(|| bad("expected [PORT][:HOST]"));
        let file = || match rest {
            "" => Err(bad("expected a file name behind the colon")),
            name => Ok(PathBuf::from(name)),
        };
        match method {
            "unix" => Ok(Target::Unix(file()?)),
            "punix" => Ok(Target::ListenUnix(file()?)),
            "tcp" => Ok(Target::Tcp(active()?)),
            "ssl" => Ok(Target::Tls(active()?)),
            "ptcp" => Ok(Target::ListenTcp(passive()?)),
            "pssl" => Ok(Target::ListenTls(passive()?)),
            _ => Err(bad("the methods are unix:, tcp:, ssl:, punix:, ptcp: and pssl:")),
        }
    }

    /// Resolves a relative Unix socket to connect to against the run directory (ovs: `lib/stream-unix.c`,
    /// `unix_open`). A socket to listen on is unchanged.
    pub fn beside(self, run_dir: &Path) -> Self {
        match self {
            Target::Unix(path) if path.components().count() == 1 => {
                Target::Unix(run_dir.join(path))
            }
            other => other,
        }
    }

    /// Returns whether it is a target to listen on.
    pub fn is_passive(&self) -> bool {
        matches!(self, Target::ListenUnix(_) | Target::ListenTcp(_) | Target::ListenTls(_))
    }
}

/// Parses `HOST[:PORT]`, with IPv6 hosts in brackets.
fn active(rest: &str, default_port: u16) -> Option<SocketAddr> {
    if let Ok(address) = SocketAddr::from_str(rest) {
        return Some(address);
    }
    Some(SocketAddr::new(host(rest)?, default_port))
}

/// Parses `[PORT][:HOST]`; the default is every IPv4 address of the machine.
fn passive(rest: &str, default_port: u16) -> Option<SocketAddr> {
    let (port, at) = rest.split_once(':').unwrap_or((rest, ""));
    let port = if port.is_empty() { default_port } else { port.parse().ok()? };
    let address = if at.is_empty() { Ipv4Addr::UNSPECIFIED.into() } else { host(at)? };
    Some(SocketAddr::new(address, port))
}

fn host(text: &str) -> Option<IpAddr> {
    match text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(inner) => inner.parse().ok(),
        None if text == "localhost" => Some(Ipv4Addr::LOCALHOST.into()),
        None => text.parse().ok(),
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = |ip: &IpAddr| match ip {
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        };
        match self {
            Target::Unix(path) => write!(f, "unix:{}", path.display()),
            Target::ListenUnix(path) => write!(f, "punix:{}", path.display()),
            Target::Tcp(address) => write!(f, "tcp:{address}"),
            Target::Tls(address) => write!(f, "ssl:{address}"),
            Target::ListenTcp(a) => write!(f, "ptcp:{}:{}", a.port(), host(&a.ip())),
            Target::ListenTls(a) => write!(f, "pssl:{}:{}", a.port(), host(&a.ip())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_mean_something() {
        for (text, back) in [
            ("unix:/run/db.sock", "unix:/run/db.sock"),
            ("tcp:127.0.0.1:6640", "tcp:127.0.0.1:6640"),
            ("tcp:127.0.0.1", "tcp:127.0.0.1:6653"),
            ("ssl:[::1]:6641", "ssl:[::1]:6641"),
            ("tcp:localhost:1", ""),
            ("ptcp:", "ptcp:6653:0.0.0.0"),
            ("ptcp:6634:127.0.0.1", "ptcp:6634:127.0.0.1"),
            ("pssl:6634:[::1]", "pssl:6634:[::1]"),
            ("punix:x.mgmt", "punix:x.mgmt"),
        ] {
            match Target::parse(text, 6653) {
                Ok(target) => assert_eq!(target.to_string(), back, "{text}"),
                Err(_) => assert_eq!(back, "", "{text}"),
            }
        }
    }

    #[test]
    fn names_that_mean_nothing_say_so() {
        for text in
            ["", "unix:", "br0", "tcp:", "tcp:a.b.c:1", "ptcp:x", "http://x", "tcp:1.2.3.4:99999"]
        {
            let error = Target::parse(text, 6653).unwrap_err().to_string();
            assert!(error.starts_with(&format!("'{text}' names no connection: ")), "{error}");
        }
    }
}
