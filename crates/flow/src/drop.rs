//! Why packets are dropped. Every reason is a counter.

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// Why the datapath dropped a packet.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum DropReason {
            $($(#[$doc])* $name,)*
        }

        impl DropReason {
            /// All reasons, in the order of their numbers.
            pub const ALL: &[DropReason] = &[$(DropReason::$name,)*];

            /// The counter's name: Open vSwitch's where it counts the same.
            pub const fn name(self) -> &'static str {
                match self {
                    $(DropReason::$name => $text,)*
                }
            }
        }
    };
}

reasons! {
    /// The flow has no action that sends the packet.
    NoAction = "drop_action_of_pipeline",
    /// Translation stopped: `resubmit` nested too deep.
    ResubmitDepth = "drop_action_recursion_too_deep",
    /// Translation stopped: too many `resubmit`s.
    Resubmits = "drop_action_too_many_resubmit",
    /// Translation stopped: too much on the stack.
    StackDepth = "drop_action_stack_too_deep",
    /// Translation stopped: the bridge was not found or is gone.
    NoBridge = "drop_action_bridge_not_found",
    /// Translation stopped: `encap` or `decap` does not support the type of the packet.
    PacketType = "drop_action_unsupported_packet_type",
    /// Translation stopped: the packet would have more MPLS labels than a flow key, or has more and lacks one.
    MplsLabels = "drop_action_too_many_mpls_labels",
    /// The recirculation id is no longer known.
    RecircUnknown = "drop_action_no_recirculation_context",
    /// The packet was recirculated too often.
    RecircDepth = "datapath_drop_recirc_error",
    /// The frame is shorter than an Ethernet header, or a length field in it is wrong.
    Malformed = "datapath_drop_rx_invalid_packet",
    /// The queue of misses to the control side is full, or the control side refused the miss.
    UpcallQueueFull = "datapath_drop_upcall_error",
    /// The port does not exist any more.
    NoPort = "datapath_drop_invalid_port",
    /// The transmit queue was full.
    TxQueueFull = "ovs_tx_failure_drops",
    /// The device refused the frame.
    TxError = "ovs_tx_invalid_drops",
    /// There is no headroom for a VLAN tag or a label.
    NoHeadroom = "datapath_drop_no_headroom",
    /// There is no route to the tunnel's remote end.
    TunnelRoute = "drop_action_tunnel_routing_failed",
    /// The Ethernet address of the next hop to the tunnel's remote end is unknown.
    TunnelNeighbour = "drop_action_tunnel_neigh_cache_miss",
    /// The tunnel's protocol cannot carry the packet.
    TunnelHeader = "drop_action_tunnel_header_build_failed",
    /// The underlay's MTU leaves no room for an IP packet behind the outer headers.
    TunnelMtu = "drop_action_tunnel_mtu_too_small",
    /// The outer packet exceeded the MTU of the underlay; the sender got an ICMP error where that is allowed.
    TunnelTooBig = "datapath_drop_tunnel_too_big",
    /// The underlay signalled congestion (ECN), and the inner packet does not support ECN.
    TunnelCongestion = "drop_action_congestion",
    /// No tunnel port matches the key and addresses of the packet.
    TunnelUnknown = "drop_action_tunnel_not_found",
    /// The outer headers could not be added.
    TunnelPush = "datapath_drop_tunnel_push_error",
    /// A tunnel's packet is malformed: a length field is wrong, or a field has a value that the protocol does
    /// not allow.
    TunnelPop = "datapath_drop_tunnel_pop_error",
    /// A tunnel's packet has an option with the critical bit that its bridge does not know (RFC 8926 section 3.5),
    /// or an option of another length than the bridge expects.
    TunnelOption = "drop_action_invalid_tunnel_metadata",
    /// The checksum of a tunnel's packet is wrong.
    TunnelChecksum = "datapath_drop_tunnel_csum_error",
    /// A meter's rate was exceeded.
    Meter = "datapath_drop_meter",
}

/// A counter for each reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropCounters([u64; DropReason::ALL.len()]);

impl DropCounters {
    /// All at zero.
    pub const fn new() -> Self {
        DropCounters([0; DropReason::ALL.len()])
    }

    /// Counts `packets` dropped for `reason`.
    pub fn count(&mut self, reason: DropReason, packets: u64) {
        self.0[reason as usize] += packets;
    }

    /// Returns how many packets were dropped for `reason`.
    pub fn get(&self, reason: DropReason) -> u64 {
        self.0[reason as usize]
    }

    /// Returns how many packets were dropped in total.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Adds another worker's counters.
    pub fn add(&mut self, other: &DropCounters) {
        for (sum, more) in self.0.iter_mut().zip(&other.0) {
            *sum += more;
        }
    }

    /// Returns each reason with its count.
    pub fn iter(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        DropReason::ALL.iter().map(|&reason| (reason, self.get(reason)))
    }
}

impl Default for DropCounters {
    fn default() -> Self {
        Self::new()
    }
}
