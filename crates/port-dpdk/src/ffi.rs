//! Declarations of the C shim, written by hand; `csrc/shim.h` documents them.

use packet::Head;
use std::ffi::{CStr, c_char, c_int, c_void};

/// Packets in one call.
pub const BURST: usize = base::limits::BATCH_SIZE;

pub const CHECKSUM_GOOD: u8 = 1;
pub const CHECKSUM_PARTIAL: u8 = 2;

pub const SEND_TCP: u32 = 1;
pub const SEND_UDP: u32 = 2;
pub const SEND_IPV6: u32 = 4;
pub const SEND_CUT: u32 = 8;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Received {
    pub data: *const u8,
    pub head: *mut c_void,
    pub mbuf: *mut c_void,
    pub first: u32,
    pub total: u32,
    pub segment_bytes: u16,
    pub vlan_tci: u16,
    pub place: u16,
    pub checksum: u8,
    pub has_vlan: u8,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    pub data: *const u8,
    pub head: *mut c_void,
    pub len: u32,
    pub l2_bytes: u16,
    pub l3_bytes: u16,
    pub l4_bytes: u16,
    pub segment_bytes: u16,
    pub flags: u32,
}

#[repr(C)]
pub struct Facts {
    pub rx_offloads: u64,
    pub tx_offloads: u64,
    pub rss_types: u64,
    pub min_rx_buffer: u32,
    pub max_rx_bytes: u32,
    pub max_mac_addresses: u32,
    pub link_mbps: u32,
    pub numa: i32,
    pub max_rx_queues: u16,
    pub max_tx_queues: u16,
    pub min_mtu: u16,
    pub max_mtu: u16,
    pub mtu: u16,
    pub mac: [u8; 6],
    pub link_up: u8,
    pub full_duplex: u8,
    pub driver: [c_char; 46],
    pub bus: [c_char; 64],
    pub bus_info: [c_char; 64],
}

#[repr(C)]
pub struct Setup {
    pub rx_offloads: u64,
    pub tx_offloads: u64,
    pub rss_types: u64,
    pub pool: *mut c_void,
    pub rx_queues: u16,
    pub tx_queues: u16,
    pub rx_descriptors: u16,
    pub tx_descriptors: u16,
    pub mtu: u16,
    pub watches_link: u8,
    pub failed_step: u8,
    pub spare: [u8; 4],
}

/// The steps of configuration, indexed by `failed_step`.
pub const STEPS: [&str; 6] = [
    "stop it",
    "configure it",
    "set its MTU",
    "set up a transmit queue",
    "set up a receive queue",
    "start it",
];
/// The index of the MTU in [`STEPS`].
pub const STEP_MTU: u8 = 2;

#[repr(C)]
#[derive(Default)]
pub struct Counters {
    pub rx_packets: u64,
    pub tx_packets: u64,
    pub rx_bytes: u64,
    pub tx_bytes: u64,
    pub rx_missed: u64,
    pub rx_errors: u64,
    pub tx_errors: u64,
    pub rx_no_buffer: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct NamedCounter {
    pub name: [c_char; 64],
    pub value: u64,
}

/// Size of a device's error message, in bytes.
pub const WORDS: usize = 128;

#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Item {
    pub kind: u32,
    pub number: u32,
    pub mask_number: u32,
    pub value: [u8; 44],
    pub mask: [u8; 44],
}

#[repr(C)]
pub struct Action {
    pub items: *const Item,
    pub kind: u32,
    pub number: u32,
    pub bytes: [u8; 16],
    pub item_count: u32,
    pub spare: u32,
    /// The handle of a connection object.
    pub object: *mut c_void,
}

#[repr(C)]
pub struct Rule {
    pub items: *const Item,
    pub actions: *const Action,
    pub item_count: u32,
    pub action_count: u32,
    pub transfers: u32,
    pub group: u32,
    pub priority: u32,
    pub spare: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MadeRule {
    pub rule: *mut c_void,
    pub owner: u16,
    pub spare: [u8; 6],
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MadeObject {
    pub handle: *mut c_void,
    pub owner: u16,
    pub peer: u16,
    pub spare: [u8; 4],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Direction {
    pub sent_end: u32,
    pub reply_end: u32,
    pub max_win: u32,
    pub max_ack: u32,
    pub scale: u8,
    pub close_initiated: u8,
    pub last_ack_seen: u8,
    pub data_unacked: u8,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Object {
    pub original: Direction,
    pub reply: Direction,
    pub last_seq: u32,
    pub last_ack: u32,
    pub last_end: u32,
    pub last_window: u16,
    pub last_index: u8,
    pub last_direction: u8,
    pub enable: u8,
    pub live_connection: u8,
    pub selective_ack: u8,
    pub challenge_ack_passed: u8,
    pub liberal_mode: u8,
    pub state: u8,
    pub max_ack_window: u8,
    pub retransmission_limit: u8,
}

#[repr(C)]
#[derive(Default)]
pub struct RuleState {
    pub packets: u64,
    pub bytes: u64,
    pub is_aged: u64,
}

// The C side asserts the same offsets, so a field moved on one side alone does not compile, unless it hides
// in padding, of which there is none.
const _: () = assert!(size_of::<Head>() == 64);
const _: () = assert!(size_of::<Received>() == 40);
const _: () = assert!(size_of::<Frame>() == 32);
const _: () = assert!(size_of::<Facts>() == 240);
const _: () = assert!(size_of::<Setup>() == 48);
const _: () = assert!(size_of::<Counters>() == 64);
const _: () = assert!(size_of::<NamedCounter>() == 72);
const _: () = assert!(size_of::<Item>() == 100);
const _: () = assert!(size_of::<Action>() == 48);
const _: () = assert!(size_of::<Rule>() == 40);
const _: () = assert!(size_of::<MadeRule>() == 16);
const _: () = assert!(size_of::<RuleState>() == 24);
const _: () = assert!(size_of::<MadeObject>() == 16);
const _: () = assert!(size_of::<Direction>() == 20);
const _: () = assert!(size_of::<Object>() == 64);
const _: () = assert!(BURST == 32);

pub type Log = extern "C" fn(level: c_int, text: *const c_char, bytes: usize);

// SAFETY: the declarations repeat csrc/shim.h, which build.rs compiles into this crate.
unsafe extern "C" {
    pub fn tidegate_dpdk_start(argc: c_int, argv: *mut *mut c_char, log: Log) -> c_int;
    pub fn tidegate_dpdk_version() -> *const c_char;
    pub fn tidegate_dpdk_find(devargs: *const c_char, port: *mut u16, attached: *mut u8) -> c_int;
    pub fn tidegate_dpdk_facts(port: u16, facts: *mut Facts) -> c_int;
    pub fn tidegate_dpdk_configure(port: u16, setup: *mut Setup) -> c_int;
    pub fn tidegate_dpdk_set_up(port: u16, up: c_int) -> c_int;
    pub fn tidegate_dpdk_close(port: u16, attached: c_int);
    pub fn tidegate_dpdk_counters(port: u16, counters: *mut Counters) -> c_int;
    pub fn tidegate_dpdk_named_counters(port: u16, out: *mut NamedCounter, room: u32) -> c_int;
    #[cfg(test)]
    pub fn tidegate_rule_validate(port: u16, rule: *const Rule, words: *mut c_char) -> c_int;
    pub fn tidegate_rule_create(
        port: u16,
        rule: *const Rule,
        words: *mut c_char,
        made: *mut MadeRule,
    ) -> c_int;
    pub fn tidegate_rule_destroy(made: *const MadeRule, words: *mut c_char) -> c_int;
    pub fn tidegate_rules_flush(owner: u16, words: *mut c_char) -> c_int;
    pub fn tidegate_rule_query(made: *const MadeRule, ages: c_int, state: *mut RuleState) -> c_int;
    pub fn tidegate_object_create(
        port: u16,
        object: *const Object,
        words: *mut c_char,
        made: *mut MadeObject,
    ) -> c_int;
    pub fn tidegate_object_turn(made: *const MadeObject, words: *mut c_char) -> c_int;
    pub fn tidegate_object_update(
        made: *const MadeObject,
        object: *const Object,
        words: *mut c_char,
    ) -> c_int;
    pub fn tidegate_object_query(made: *const MadeObject, object: *mut Object) -> c_int;
    pub fn tidegate_object_destroy(made: *const MadeObject, words: *mut c_char) -> c_int;
    pub fn tidegate_dpdk_pool(
        name: *const c_char,
        buffers: u32,
        data_bytes: u16,
        numa: c_int,
        head: *const c_void,
    ) -> *mut c_void;
    pub fn tidegate_dpdk_receive(
        port: u16,
        queue: u16,
        heads: *mut *mut c_void,
        others: *mut Received,
        room: u16,
        other_count: *mut u16,
    ) -> c_int;
    pub fn tidegate_dpdk_copy(mbuf: *mut c_void, to: *mut u8, room: u32) -> u32;
    pub fn tidegate_dpdk_take_back(head: *mut c_void);
    pub fn tidegate_dpdk_release(mbufs: *mut *mut c_void, count: u16);
    pub fn tidegate_dpdk_send(
        port: u16,
        queue: u16,
        pool: *mut c_void,
        frames: *const Frame,
        count: u16,
        refused: *mut u16,
    ) -> u16;
    pub fn tidegate_dpdk_send_kept(
        port: u16,
        queue: u16,
        heads: *const *mut c_void,
        count: u16,
        unsent: *mut u64,
    ) -> u16;
}

/// The text up to its terminating zero.
pub(crate) fn text_of(text: &[c_char]) -> String {
    let bytes: Vec<u8> = text.iter().map(|c| *c as u8).collect();
    let text = CStr::from_bytes_until_nul(&bytes).unwrap_or_default();
    text.to_string_lossy().into_owned()
}
