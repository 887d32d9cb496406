//! Traffic profiles: which messages, how often, and how connections are closed.

use crate::address::{AddressRange, PortRange};
use serde::{Deserialize, Serialize};

/// One kind of traffic, the same for both hosts. Every field has a default; TOML with unknown keys
/// is refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Profile {
    /// Name, shown in the heading of results.
    pub name: String,
    /// Share of connections that are UDP, 0 to 100.
    pub udp_percent: f64,
    /// Requests and replies in each connection.
    pub messages: u32,
    /// Text of each request, for servers other than this crate's; TCP only. It sets the request's length, and
    /// payloads are then not compared.
    pub request_text: Option<String>,
    /// Text of each reply, for clients other than this crate's.
    pub reply_text: Option<String>,
    /// Bytes of each request.
    pub request_bytes: u32,
    /// Bytes of each reply.
    pub reply_bytes: u32,
    /// How long the server waits before each reply, in milliseconds. The first wait starts at the request;
    /// each later one starts when the previous reply was due, but lasts at least half this time from its own
    /// request. With a rate of connections, each wait varies at random by up to a fiftieth.
    pub server_wait_ms: u32,
    /// How long the client waits after each reply except the last, in milliseconds.
    pub think_time_ms: u32,
    /// Connections opened per second; `None` opens as many as [`Profile::connections_at_once`] admits.
    pub connections_per_second: Option<u64>,
    /// Linear rise to that rate, in milliseconds.
    pub ramp_ms: u64,
    /// Most connections that a client has alive at once.
    pub connections_at_once: u32,
    /// Which side closes TCP connections, and how.
    pub close: Close,
    /// How long the side that closed first stays in TIME-WAIT, in milliseconds; 0 disables TIME-WAIT.
    pub time_wait_ms: u32,
    /// Largest TCP segment, in bytes of payload.
    pub mss: u16,
    /// Receive window in bytes; above 65,535 by window scaling.
    pub window_bytes: u32,
    /// First congestion window, in segments.
    pub initial_window: u8,
    /// Retransmission timeout before the first round trip is measured, in milliseconds; for UDP the only
    /// timeout.
    pub initial_rto_ms: u32,
    /// Shortest retransmission timeout, in milliseconds. RFC 6298 section 2.4 asks for 1,000; Linux uses 200
    /// (`TCP_RTO_MIN` of `include/net/tcp.h`), and so does this generator: hosts behind a switch are mostly
    /// Linux, a lost packet counts as lost whenever it is sent again, and a connection that lost its last
    /// segment ends within the sample. At measured rates, all queues between two hosts hold less than a tenth
    /// of this time.
    pub min_rto_ms: u32,
    /// Longest retransmission timeout, in milliseconds.
    pub max_rto_ms: u32,
    /// Retransmissions of one SYN before the connection counts as timed out.
    pub syn_retries: u8,
    /// Retransmissions of one segment or datagram before the connection counts as timed out.
    pub retries: u8,
    /// Longest wait for the peer's next message, in milliseconds.
    pub idle_timeout_ms: u32,
    /// Whether payload that arrives is compared with the pattern.
    pub verify_payload: bool,
    /// Addresses of the clients.
    pub clients: AddressRange,
    /// Source ports of the clients.
    pub client_ports: PortRange,
    /// Addresses of the servers.
    pub servers: AddressRange,
    /// Ports that the servers accept TCP on.
    pub tcp_ports: PortRange,
    /// Ports that the servers accept UDP on.
    pub udp_ports: PortRange,
}

/// Which side closes a TCP connection first, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Close {
    /// The client sends FIN after the last reply.
    ClientFin,
    /// The server sends FIN with the last reply.
    ServerFin,
    /// The client sends RST after the last reply.
    ClientReset,
}

impl Default for Profile {
    /// The short-lived profile, whose TOML file contains only its name.
    fn default() -> Self {
        let range = |text: &str| text.parse::<AddressRange>();
        let ports = |text: &str| text.parse::<PortRange>();
        let (Ok(clients), Ok(servers), Ok(client_ports), Ok(tcp_ports), Ok(udp_ports)) = (
            range("16.0.0.1-16.0.255.254"),
            range("48.0.0.1-48.0.0.254"),
            ports("1024-65535"),
            ports("8080"),
            ports("5353"),
        ) else {
            unreachable!("these constants are ranges, as every test sees")
        };
        Profile {
            name: "short-lived".to_owned(),
            udp_percent: 0.0,
            messages: 1,
            request_text: None,
            reply_text: None,
            request_bytes: 20,
            reply_bytes: 20,
            server_wait_ms: 0,
            think_time_ms: 0,
            connections_per_second: None,
            ramp_ms: 0,
            connections_at_once: 10_000,
            close: Close::ClientFin,
            time_wait_ms: 500,
            mss: 1460,
            window_bytes: 65_535,
            initial_window: 10,
            initial_rto_ms: 1000,
            min_rto_ms: 200,
            max_rto_ms: 5000,
            syn_retries: 6,
            retries: 15,
            idle_timeout_ms: 60_000,
            verify_payload: true,
            clients,
            client_ports,
            servers,
            tcp_ports,
            udp_ports,
        }
    }
}

/// Longest stream in one direction: sequence numbers must not wrap.
const STREAM_BYTES: u64 = 1 << 30;

impl Profile {
    /// The names that [`Profile::built_in`] knows.
    pub const BUILT_IN: [&'static str; 4] = ["short-lived", "long-lived", "http", "dns"];

    /// Returns a built-in profile, or `None` for an unknown name.
    pub fn built_in(name: &str) -> Option<Result<Profile, ProfileError>> {
        let text = match name {
            "short-lived" => include_str!("../profiles/short-lived.toml"),
            "long-lived" => include_str!("../profiles/long-lived.toml"),
            "http" => include_str!("../profiles/http.toml"),
            "dns" => include_str!("../profiles/dns.toml"),
            _ => return None,
        };
        Some(Profile::from_toml(text))
    }

    /// Parses and checks a profile.
    pub fn from_toml(text: &str) -> Result<Profile, ProfileError> {
        let mut profile: Profile = toml::from_str(text)?;
        for (text, bytes) in [
            (&profile.request_text, &mut profile.request_bytes),
            (&profile.reply_text, &mut profile.reply_bytes),
        ] {
            if let Some(text) = text {
                *bytes = u32::try_from(text.len()).unwrap_or(u32::MAX);
                profile.verify_payload = false;
            }
        }
        match profile.check() {
            Ok(()) => Ok(profile),
            Err(ProfileError::Impossible { field, why, .. }) => {
                let says = |line: &str| line.split('=').next().is_some_and(|k| k.trim() == field);
                let line = text.lines().position(says).map(|index| index + 1);
                Err(ProfileError::Impossible { field, why, line })
            }
            Err(other) => Err(other),
        }
    }

    /// Returns the profile with all its keys, as [`Profile::from_toml`] reads it.
    pub fn to_toml(&self) -> Result<String, ProfileError> {
        Ok(toml::to_string(self)?)
    }

    /// Checks that hosts can follow the profile. The error names the wrong field.
    pub fn check(&self) -> Result<(), ProfileError> {
        let bad = |field, why: String| Err(ProfileError::Impossible { field, why, line: None });
        if !(0.0..=100.0).contains(&self.udp_percent) {
            return bad("udp_percent", format!("{} is not from 0 to 100", self.udp_percent));
        }
        if self.messages == 0 {
            return bad("messages", "a connection needs at least 1".to_owned());
        }
        for (field, bytes) in
            [("request_bytes", self.request_bytes), ("reply_bytes", self.reply_bytes)]
        {
            let stream = u64::from(bytes) * u64::from(self.messages);
            if bytes == 0 || stream > STREAM_BYTES {
                return bad(field, format!("{bytes} x {} is not from 1 to 2^30", self.messages));
            }
            if self.udp_percent > 0.0 && !(4..=1456).contains(&bytes) {
                return bad(field, format!("{bytes}: a UDP message has 4 to 1456 bytes"));
            }
        }
        for (field, text, bytes) in [
            ("request_text", &self.request_text, self.request_bytes),
            ("reply_text", &self.reply_text, self.reply_bytes),
        ] {
            if text.as_ref().is_some_and(|text| text.len() as u64 != u64::from(bytes)) {
                return bad(field, format!("is not {bytes} bytes long, as its messages are"));
            }
            if text.is_some() && self.udp_percent > 0.0 {
                return bad(field, "is sent over TCP only; set udp_percent to 0".to_owned());
            }
        }
        if !(64..=9000).contains(&self.mss) {
            return bad("mss", format!("{} is not from 64 to 9000", self.mss));
        }
        if self.window_bytes < u32::from(self.mss) || self.window_bytes > STREAM_BYTES as u32 {
            return bad("window_bytes", format!("{} is not from mss to 2^30", self.window_bytes));
        }
        if self.min_rto_ms == 0
            || self.initial_rto_ms < self.min_rto_ms
            || self.max_rto_ms < self.initial_rto_ms
        {
            return bad("min_rto_ms", "must be 1 <= min <= initial <= max".to_owned());
        }
        if self.initial_window == 0 {
            return bad("initial_window", "must be at least 1 segment".to_owned());
        }
        if self.idle_timeout_ms <= self.server_wait_ms {
            return bad("idle_timeout_ms", "must be longer than server_wait_ms".to_owned());
        }
        if self.connections_at_once == 0 {
            return bad("connections_at_once", "must be at least 1".to_owned());
        }
        if self.connections_per_second == Some(0) {
            return bad("connections_per_second", "must be at least 1".to_owned());
        }
        if self.clients.is_v4() != self.servers.is_v4() {
            return bad("clients", "and servers must both be IPv4 or both IPv6".to_owned());
        }
        self.check_tuples()
    }

    fn check_tuples(&self) -> Result<(), ProfileError> {
        for (used, ports) in
            [(self.udp_percent < 100.0, self.tcp_ports), (self.udp_percent > 0.0, self.udp_ports)]
        {
            let counts = [self.client_ports.count(), self.servers.count(), ports.count()];
            let tuples = counts.into_iter().fold(self.clients.count(), u64::saturating_mul);
            if used && tuples < u64::from(self.connections_at_once) {
                return Err(ProfileError::Impossible {
                    field: "connections_at_once",
                    why: format!(
                        "{} are more than the {tuples} combinations of addresses and ports; \
                         widen a range",
                        self.connections_at_once
                    ),
                    line: None,
                });
            }
        }
        Ok(())
    }
}

/// Why a profile cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// The text is not valid TOML, or not a profile.
    #[error("the profile cannot be read: {0}")]
    Text(#[from] toml::de::Error),
    /// The profile cannot be written as TOML.
    #[error("the profile cannot be written: {0}")]
    Write(#[from] toml::ser::Error),
    /// Hosts cannot follow the profile.
    #[error("profile{}: {field}: {why}", at(*line))]
    Impossible {
        /// The field that is wrong.
        field: &'static str,
        /// What is wrong with it.
        why: String,
        /// Line in the TOML text, from 1, where the text names the field.
        line: Option<usize>,
    },
}

fn at(line: Option<usize>) -> String {
    line.map_or(String::new(), |line| format!(", line {line}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_profiles_are_what_they_say() {
        let get = |name| Profile::built_in(name).unwrap().unwrap();
        for name in Profile::BUILT_IN {
            let profile = get(name);
            assert_eq!(profile.name, name);
            let again = profile.to_toml().unwrap();
            assert_eq!(Profile::from_toml(&again).unwrap(), profile);
        }
        assert!(Profile::built_in("other").is_none());
        let short = get("short-lived");
        assert_eq!(short, Profile::default());
        assert_eq!((short.messages, short.request_bytes, short.reply_bytes), (1, 20, 20));
        assert_eq!((short.server_wait_ms, short.think_time_ms), (0, 0));
        let long = get("long-lived");
        assert_eq!((long.messages, long.messages * long.server_wait_ms), (500, 25_000));
        assert_eq!(get("dns").udp_percent, 100.0);
    }

    #[test]
    fn what_cannot_work_is_refused_with_the_field() {
        let cases = [
            ("colour = 'red'", "unknown field"),
            ("messages = 0", "profile, line 1: messages: a connection"),
            ("name = 'x'\nmss = 20", "profile, line 2: mss"),
            ("udp_percent = 100.5", "udp_percent: 100.5"),
            ("udp_percent = nan", "udp_percent"),
            ("udp_percent = 1\nrequest_bytes = 3", "request_bytes: 3: a UDP"),
            ("messages = 1000000\nreply_bytes = 10000", "reply_bytes: 10000 x 1000000"),
            ("mss = 20", "mss: 20"),
            ("window_bytes = 100", "window_bytes: 100"),
            ("max_rto_ms = 10", "min_rto_ms"),
            ("initial_window = 0", "initial_window"),
            ("server_wait_ms = 60000", "idle_timeout_ms"),
            ("connections_at_once = 0", "connections_at_once"),
            ("connections_per_second = 0", "connections_per_second"),
            ("servers = 'fd00::1'", "clients: and servers"),
            ("clients = '10.0.0.9-10.0.0.1'", "ends before it starts"),
            ("close = 'never'", "unknown variant"),
            ("request_text = ''", "request_bytes: 0"),
            ("udp_percent = 1\nreply_text = 'hello'", "line 2: reply_text: is sent over TCP"),
            (
                "clients = '10.0.0.1'\nservers = '10.0.0.2'\nclient_ports = '1-100'",
                "more than the 100 combinations",
            ),
        ];
        for (text, expected) in cases {
            let said = Profile::from_toml(text).unwrap_err().to_string();
            assert!(said.contains(expected), "{text}: {said}");
        }
    }
}
