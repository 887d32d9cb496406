//! The limits of the switch.
//!
//! A limit that Open vSwitch also has gets its default (ovs: `lib/dpif-netdev.c`,
//! `lib/conntrack.c`, `ofproto/ofproto-dpif-xlate.c`, `vswitchd/vswitch.xml`).

/// Packets in one batch.
pub const BATCH_SIZE: usize = 32;
/// The maximum number of recirculations of a packet.
pub const RECIRC_DEPTH: usize = 8;
/// The maximum nesting of `resubmit`.
pub const RESUBMIT_DEPTH: usize = 64;
/// The maximum number of `resubmit`s per packet.
pub const RESUBMITS: usize = 4096;
/// The maximum size of the stack of `push` and `pop` when a packet is resubmitted.
pub const STACK_BYTES: usize = 64 * 1024;
/// The maximum number of actions of a translation. As many output actions fit into the 64 kB of an Open
/// vSwitch message.
pub const ACTIONS: usize = 8 * 1024;
/// OpenFlow tables of a bridge; table 255 is reserved.
pub const TABLES: usize = 255;
/// OpenFlow flows in one table.
pub const FLOWS_PER_TABLE: usize = 1_000_000;
/// Entries of one worker's exact-match cache; a power of two.
pub const EXACT_CACHE_ENTRIES: usize = 8192;
/// The default limit of entries of a worker's unified cache (`other_config:unified-cache-entries`).
pub const UNIFIED_CACHE_ENTRIES: usize = 1 << 19;
/// The default limit of megaflows in the datapath (`other_config:flow-limit`).
pub const FLOW_LIMIT: usize = 200_000;
/// The default idle timeout of megaflows in milliseconds (`other_config:max-idle`).
pub const MAX_IDLE_MS: u64 = 10_000;
/// The default interval in milliseconds at which workers report the statistics of flows
/// (`other_config:max-revalidator`). The default of Open vSwitch is 500.
pub const MAX_REVALIDATOR_MS: u64 = 1000;
/// The default time after which an OpenFlow bundle without messages is discarded, in seconds (ovs:
/// `ofproto/connmgr.c`, `BUNDLE_IDLE_TIMEOUT_DEFAULT`).
pub const BUNDLE_IDLE_TIMEOUT_S: u32 = 10;
/// The default limit of tracked connections (`ct-set-maxconns`).
pub const CONNECTIONS: u32 = 3_000_000;
/// The maximum number of threads that track packets.
pub const TRACKING_THREADS: usize = 128;
/// The maximum number of queued upcalls of one port. Further ones are dropped and counted.
pub const UPCALLS_PER_PORT: usize = 256;
/// The maximum number of queued upcalls of all ports.
pub const UPCALLS: usize = 4096;
/// The default limit of learned MAC addresses of a bridge (`other_config:mac-table-size`).
pub const MAC_TABLE_SIZE: usize = 8192;
/// The default aging time of learned MAC addresses in seconds (`other_config:mac-aging-time`).
pub const MAC_AGING_S: u64 = 300;
/// The maximum length of an Ethernet frame in a packet buffer: a 64 KB GSO frame and its headers.
pub const FRAME_BYTES: usize = 65_536 + 64;
/// The maximum length of an OVSDB JSON-RPC message in bytes.
pub const OVSDB_MESSAGE_BYTES: usize = 256 << 20;
/// The number of messages queued for a controller from which on packet-ins are dropped.
pub const CONTROLLER_QUEUE: usize = 1024;

const _: () = assert!(EXACT_CACHE_ENTRIES.is_power_of_two());
const _: () = assert!(UPCALLS_PER_PORT < UPCALLS);
/// The number of VLAN tags in a flow key.
pub const VLAN_HEADERS: u8 = 2;
/// The default number of VLAN tags that are parsed (`other_config:vlan-limit`). Further ones are payload.
pub const VLAN_LIMIT: u32 = 1;
