//! What a device says of itself.

use base::MacAddr;

/// What a device is and how it stands.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Facts {
    /// DPDK's number of it.
    pub port: u16,
    /// Its address.
    pub mac: MacAddr,
    /// Its MTU, in bytes of IP packet.
    pub mtu: u16,
    /// The largest MTU that it takes.
    pub max_mtu: u16,
    /// Whether it was brought up.
    pub admin_up: bool,
    /// Whether its link is up.
    pub link_up: bool,
    /// The link's speed in Mbit/s; 0 where it is unknown.
    pub link_mbps: u32,
    /// Whether it sends and receives at once.
    pub full_duplex: bool,
    /// Its NUMA node; negative where it has none.
    pub numa: i32,
    /// Its driver, such as "net_pcap".
    pub driver: String,
    /// Its bus, such as "pci".
    pub bus: String,
    /// What the bus says of it, such as its vendor; may be empty.
    pub bus_info: String,
    /// The smallest buffer that it receives into, in bytes.
    pub min_rx_buffer: u32,
    /// The longest frame that it receives, in bytes.
    pub max_rx_bytes: u32,
    /// The most receive queues.
    pub max_rx_queues: u16,
    /// The most transmit queues.
    pub max_tx_queues: u16,
    /// The most addresses that it filters by.
    pub max_mac_addresses: u32,
    /// Receive queues in use.
    pub rx_queues: u16,
    /// Transmit queues in use.
    pub tx_queues: u16,
    /// Whether it verifies the transport checksums of what is received.
    pub receives_checksums: bool,
    /// Whether it finishes the transport checksums of what is sent.
    pub sends_checksums: bool,
    /// Whether it cuts large TCP packets that are sent.
    pub cuts_tcp: bool,
}

/// What a device counted.
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
    /// Packets lost for want of a descriptor or a buffer.
    pub rx_dropped: u64,
    /// Packets that the device did not take in time.
    pub tx_dropped: u64,
    /// Packets received broken.
    pub rx_errors: u64,
    /// Packets that could not be sent.
    pub tx_errors: u64,
}
