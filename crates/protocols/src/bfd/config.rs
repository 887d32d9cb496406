//! The settings of a session (`Interface.bfd`).

use base::MacAddr;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// The default addresses (ovs: `lib/bfd.c`, `BFD_DEFAULT_SRC_IP`).
pub const DEFAULT_SOURCE: Ipv4Addr = Ipv4Addr::new(169, 254, 1, 1);
const DEFAULT_DESTINATION: Ipv4Addr = Ipv4Addr::new(169, 254, 1, 0);
const DEFAULT_MULTIPLIER: u8 = 3;
const DEFAULT_MIN_TX_MS: u32 = 100;
const DEFAULT_MIN_RX_MS: u32 = 1000;
/// The largest interval that a packet can carry, in microseconds of 32 bits.
const INTERVAL_MAX_MS: u32 = u32::MAX / 1000;

/// The settings of a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// `mult`: after so many missing packets the peer is down.
    pub multiplier: u8,
    /// `min_tx`, in milliseconds.
    pub min_tx_ms: u32,
    /// `min_rx`, in milliseconds.
    pub min_rx_ms: u32,
    /// `decay_min_rx`: the interval while there is no traffic, in milliseconds; 0 is none.
    pub decay_min_rx_ms: u32,
    /// `cpath_down`: the concatenated path is down.
    pub cpath_down: bool,
    /// `forwarding_if_rx`: received packets make the port forward.
    pub forwarding_if_rx: bool,
    /// `oam`: set the tunnel's OAM flag.
    pub oam: bool,
    /// `check_tnl_key`: only packets with tunnel key 0 are the session's.
    pub check_tunnel_key: bool,
    /// `bfd_local_src_mac`; the default is the port's address.
    pub local_source: Option<MacAddr>,
    /// `bfd_local_dst_mac`; the default is [`super::DESTINATION_MAC`].
    pub local_destination: Option<MacAddr>,
    /// `bfd_remote_dst_mac`: packets to other addresses are not the session's.
    pub remote_destination: Option<MacAddr>,
    /// `bfd_src_ip`.
    pub source: Ipv4Addr,
    /// `bfd_dst_ip`.
    pub destination: Ipv4Addr,
}

/// Which packets of a port are the session's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Filter {
    /// The destination that they have.
    pub remote_destination: Option<MacAddr>,
    /// The IP address that they are for; `None` admits all.
    pub address: Option<Ipv4Addr>,
    /// Whether their tunnel key is 0.
    pub check_tunnel_key: bool,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            multiplier: DEFAULT_MULTIPLIER,
            min_tx_ms: DEFAULT_MIN_TX_MS,
            min_rx_ms: DEFAULT_MIN_RX_MS,
            decay_min_rx_ms: 0,
            cpath_down: false,
            forwarding_if_rx: false,
            oam: false,
            check_tunnel_key: false,
            local_source: None,
            local_destination: None,
            remote_destination: None,
            source: DEFAULT_SOURCE,
            destination: DEFAULT_DESTINATION,
        }
    }
}

impl Config {
    /// Returns the settings of the column; `None` without `enable=true`. Invalid values have their defaults, as in
    /// Open vSwitch (`lib/bfd.c`, `bfd_configure`), and are reported to `warn` with their keys.
    pub fn parse(
        pairs: &BTreeMap<String, String>,
        mut warn: impl FnMut(&'static str, String),
    ) -> Option<Config> {
        let is_true = |key: &str| pairs.get(key).is_some_and(|it| it.eq_ignore_ascii_case("true"));
        if !is_true("enable") {
            return None;
        }
        let mut config = Config {
            cpath_down: is_true("cpath_down"),
            forwarding_if_rx: is_true("forwarding_if_rx"),
            oam: is_true("oam"),
            check_tunnel_key: is_true("check_tnl_key"),
            ..Config::default()
        };
        let mut number = |key: &'static str, min: i64, max: i64| {
            let text = pairs.get(key)?;
            let number = text.trim().parse::<i64>().ok().filter(|it| *it <= max && *it >= min);
            if number.is_none() {
                warn(key, format!("\"{text}\" is no number from {min} to {max}; ignored"));
            }
            number
        };
        let interval_max = i64::from(INTERVAL_MAX_MS);
        // One out of range is the default, as is documented; Open vSwitch's tests accept no warning.
        let multiplier = pairs.get("mult").and_then(|text| text.trim().parse::<u8>().ok());
        config.multiplier = multiplier.filter(|it| *it > 0).unwrap_or(DEFAULT_MULTIPLIER);
        // Zero is the shortest interval.
        if let Some(ms) = number("min_tx", 0, interval_max) {
            config.min_tx_ms = ms.max(1) as u32;
        }
        if let Some(ms) = number("min_rx", 0, interval_max) {
            config.min_rx_ms = ms.max(1) as u32;
        }
        if let Some(ms) = number("decay_min_rx", 0, interval_max) {
            config.decay_min_rx_ms = ms as u32;
        }
        if config.decay_min_rx_ms > 0 && config.decay_min_rx_ms < config.min_rx_ms {
            let words = format!("cannot be less than {} ms; ignored", config.min_rx_ms);
            warn("decay_min_rx", words);
            config.decay_min_rx_ms = 0;
        }
        let mut address = |key: &'static str| {
            let text = pairs.get(key).filter(|text| !text.is_empty())?;
            let mac = text.parse::<MacAddr>().ok();
            if mac.is_none() {
                warn(key, format!("\"{text}\" is not an Ethernet address; ignored"));
            }
            mac.filter(|mac| *mac != MacAddr::ZERO)
        };
        config.local_source = address("bfd_local_src_mac");
        config.local_destination = address("bfd_local_dst_mac");
        config.remote_destination = address("bfd_remote_dst_mac");
        let mut ip = |key: &'static str, default: Ipv4Addr| {
            let Some(text) = pairs.get(key).filter(|text| !text.is_empty()) else { return default };
            text.parse().unwrap_or_else(|_| {
                warn(key, format!("\"{text}\" is not a valid IP address; ignored"));
                default
            })
        };
        config.source = ip("bfd_src_ip", DEFAULT_SOURCE);
        config.destination = ip("bfd_dst_ip", DEFAULT_DESTINATION);
        Some(config)
    }

    /// Whether the session depends on the packets that its port received.
    pub fn needs_count(&self) -> bool {
        self.forwarding_if_rx || self.decay_min_rx_ms > 0
    }

    /// Which packets are the session's: with the default address those for any (ovs: `lib/bfd.c`,
    /// `bfd_should_process_flow`).
    pub fn filter(&self) -> Filter {
        Filter {
            remote_destination: self.remote_destination,
            address: Some(self.source).filter(|source| *source != DEFAULT_SOURCE),
            check_tunnel_key: self.check_tunnel_key,
        }
    }
}
