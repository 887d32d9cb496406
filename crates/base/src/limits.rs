//! Every limit of the switch: a number in one place.
//!
//! The defaults are Open vSwitch's where it has the same limit (ovs: `lib/dpif-netdev.c`,
//! `lib/conntrack.c`, `ofproto/ofproto-dpif-xlate.c`, `vswitchd/vswitch.xml`).

/// Packets in one batch.
pub const BATCH_SIZE: usize = 32;
/// How often a packet may go round the datapath before it is dropped.
pub const RECIRC_DEPTH: usize = 8;
/// How deep `resubmit` may nest.
pub const RESUBMIT_DEPTH: usize = 64;
/// How many `resubmit`s one packet may take in all.
pub const RESUBMITS: usize = 4096;
/// How much may lie on the stack of `push` and `pop` where a packet is resubmitted.
pub const STACK_BYTES: usize = 64 * 1024;
/// Actions that one packet's translation may come to; there are as many where each sends to a port in 64 kB of
/// Open vSwitch's messages.
pub const ACTIONS: usize = 8 * 1024;
/// OpenFlow tables of a bridge; table 255 is reserved.
pub const TABLES: usize = 255;
/// OpenFlow flows in one table.
pub const FLOWS_PER_TABLE: usize = 1_000_000;
/// Entries of one worker's exact-match cache; a power of two.
pub const EXACT_CACHE_ENTRIES: usize = 8192;
/// Entries that a worker's unified flow cache may grow to, of 137 bytes each.
pub const UNIFIED_CACHE_ENTRIES: usize = 1 << 19;
/// Megaflows in the datapath unless `other_config:flow-limit` says otherwise.
pub const FLOW_LIMIT: usize = 200_000;
/// A megaflow without packets for this long goes (`other_config:max-idle`), in milliseconds.
pub const MAX_IDLE_MS: u64 = 10_000;
/// How often workers are asked what their flows have carried (`other_config:max-revalidator`), in
/// milliseconds. Open vSwitch's default is 500.
pub const MAX_REVALIDATOR_MS: u64 = 1000;
/// The default time after which an OpenFlow bundle without messages is discarded, in seconds (ovs:
/// `ofproto/connmgr.c`, `BUNDLE_IDLE_TIMEOUT_DEFAULT`).
pub const BUNDLE_IDLE_TIMEOUT_S: u32 = 10;
/// Connections that may be tracked unless `ct-set-maxconns` says otherwise.
pub const CONNECTIONS: u32 = 3_000_000;
/// Upcalls waiting for one port; more are dropped and counted.
pub const UPCALLS_PER_PORT: usize = 256;
/// Upcalls waiting in all.
pub const UPCALLS: usize = 4096;
/// Learned MAC addresses of a bridge (`other_config:mac-table-size`).
pub const MAC_TABLE_SIZE: usize = 8192;
/// A learned MAC address goes after this long (`other_config:mac-aging-time`), in seconds.
pub const MAC_AGING_S: u64 = 300;
/// The largest Ethernet frame that a packet buffer holds: a 64 KB GSO frame and its headers.
pub const FRAME_BYTES: usize = 65_536 + 64;
/// The longest OVSDB JSON-RPC message that is read.
pub const OVSDB_MESSAGE_BYTES: usize = 256 << 20;
/// Messages queued towards one OpenFlow controller before packet-ins are dropped.
pub const CONTROLLER_QUEUE: usize = 1024;

const _: () = assert!(EXACT_CACHE_ENTRIES.is_power_of_two());
const _: () = assert!(UPCALLS_PER_PORT < UPCALLS);
/// VLAN tags that a flow key has room for.
pub const VLAN_HEADERS: u8 = 2;
/// VLAN tags that are parsed by default; further ones are payload (`other_config:vlan-limit`).
pub const VLAN_LIMIT: u32 = 1;
