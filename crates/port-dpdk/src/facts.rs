//! Properties, state and counters of a device.

use base::MacAddr;

/// The properties and state of a device.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Facts {
    /// DPDK's port number.
    pub port: u16,
    /// Its address.
    pub mac: MacAddr,
    /// Its MTU, in bytes of IP packet.
    pub mtu: u16,
    /// The largest supported MTU.
    pub max_mtu: u16,
    /// Whether it is administratively up.
    pub admin_up: bool,
    /// Whether its link is up.
    pub link_up: bool,
    /// The link's speed in Mbit/s; 0 if unknown.
    pub link_mbps: u32,
    /// Whether it sends and receives at the same time.
    pub full_duplex: bool,
    /// Its NUMA node; negative if unknown.
    pub numa: i32,
    /// Its driver, such as "net_pcap".
    pub driver: String,
    /// Its bus, such as "pci".
    pub bus: String,
    /// The bus's description of it, such as the vendor; may be empty.
    pub bus_info: String,
    /// The smallest buffer that it receives into, in bytes.
    pub min_rx_buffer: u32,
    /// The longest frame that it receives, in bytes.
    pub max_rx_bytes: u32,
    /// Maximum number of receive queues.
    pub max_rx_queues: u16,
    /// Maximum number of transmit queues.
    pub max_tx_queues: u16,
    /// Maximum number of MAC address filters.
    pub max_mac_addresses: u32,
    /// Receive queues in use.
    pub rx_queues: u16,
    /// Transmit queues in use.
    pub tx_queues: u16,
    /// Whether it verifies transport checksums of received packets.
    pub receives_checksums: bool,
    /// Whether it completes transport checksums of sent packets.
    pub sends_checksums: bool,
    /// Whether it segments large TCP packets.
    pub cuts_tcp: bool,
}

/// The counters of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Statistics {
    /// Packets received.
    pub rx_packets: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets lost for lack of a descriptor or a buffer.
    pub rx_dropped: u64,
    /// Packets that the device did not accept in time.
    pub tx_dropped: u64,
    /// Malformed packets received.
    pub rx_errors: u64,
    /// Packets that could not be sent.
    pub tx_errors: u64,
}
