//! The structures shared with the program, equal to those in `bpf/layout.h`.

use aya::Pod;

/// The key of a connection over IPv4. Addresses and ports are in the byte order in which the program reads
/// them, the first byte lowest. For packets out of a tunnel they are those of the inner headers. `kind`
/// contains the protocol in its low byte and the VNI above it. `remote` is the outer source address; for
/// IPv6, the XOR of its four words.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct KeyV4 {
    pub port: u32,
    pub ports: u32,
    pub src: u32,
    pub dst: u32,
    pub kind: u32,
    pub remote: u32,
}

/// The key of a connection over IPv6.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct KeyV6 {
    pub port: u32,
    pub ports: u32,
    pub src: [u32; 4],
    pub dst: [u32; 4],
    pub kind: u32,
    pub remote: u32,
}

/// A rule. The flags in `does` tell which of the other fields apply.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rule {
    pub matching: [u64; 3],
    pub mask: [u64; 3],
    pub generation: u64,
    pub idle_ns: u64,
    pub slot: u32,
    pub direction: u32,
    pub out: u32,
    pub frame_bytes_max: u32,
    pub does: u32,
    pub tpid: u16,
    pub tci: u16,
    pub eth_dst: [u8; 6],
    pub eth_src: [u8; 6],
    pub ttl: u8,
    pub tos: u8,
    pub tos_mask: u8,
    pub tag_room: u8,
    pub src: [u32; 4],
    pub dst: [u32; 4],
    pub ports: u32,
    pub header_bytes: u32,
    pub header: [u8; OUTER_V6_BYTES],
    pub spare2: [u8; 2],
    pub outer_src: [u32; 4],
    pub outer_dst: [u32; 4],
    pub outer_match: [u64; 3],
    pub outer_mask: [u64; 3],
    pub vxlan: u64,
}

const _: () = assert!(size_of::<Rule>() == 304 && align_of::<Rule>() == 8);

impl Rule {
    /// All fields zero: matches no connection and has no actions.
    pub const NONE: Rule = Rule {
        matching: [0; 3],
        mask: [0; 3],
        generation: 0,
        idle_ns: 0,
        slot: 0,
        direction: 0,
        out: 0,
        frame_bytes_max: 0,
        does: 0,
        tpid: 0,
        tci: 0,
        eth_dst: [0; 6],
        eth_src: [0; 6],
        ttl: 0,
        tos: 0,
        tos_mask: 0,
        tag_room: 0,
        src: [0; 4],
        dst: [0; 4],
        ports: 0,
        header_bytes: 0,
        header: [0; OUTER_V6_BYTES],
        spare2: [0; 2],
        outer_src: [0; 4],
        outer_dst: [0; 4],
        outer_match: [0; 3],
        outer_mask: [0; 3],
        vxlan: 0,
    };
}

pub(crate) const NAT_REWRITE: u32 = 1;
pub(crate) const SET_TTL: u32 = 1 << 1;
pub(crate) const SET_TOS: u32 = 1 << 2;
pub(crate) const SET_ETH_DST: u32 = 1 << 3;
pub(crate) const SET_ETH_SRC: u32 = 1 << 4;
pub(crate) const POP_VLAN: u32 = 1 << 5;
pub(crate) const PUSH_VLAN: u32 = 1 << 6;
pub(crate) const DECAPSULATE: u32 = 1 << 7;
pub(crate) const ENCAPSULATE: u32 = 1 << 8;
pub(crate) const CHECKSUM_IN: u32 = 1 << 9;
pub(crate) const CHECKSUM_OUT: u32 = 1 << 10;
pub(crate) const DROP: u32 = 1 << 11;
pub(crate) const COPY_ECN: u32 = 1 << 12;
/// The lengths of Ethernet, UDP and VXLAN headers with IPv4 without options, or IPv6 without extension
/// headers.
pub(crate) const OUTER_V4_BYTES: usize = 50;
pub(crate) const OUTER_V6_BYTES: usize = 70;

/// The words of a connection's slot, and their positions.
pub(crate) const SLOT_WORDS: usize = 8;
pub(crate) const GENERATION: usize = 0;
pub(crate) const USED_NS: usize = 1;
pub(crate) const TRAFFIC: usize = 2;
pub(crate) const LARGE_NS: usize = 4;
pub(crate) const ENDED: usize = 6;
/// The low bits of a word of traffic count packets, the other bits bytes.
pub(crate) const PACKETS_BITS: u32 = 24;

/// The reasons why packets are passed up, in the order of the program's counters.
pub(crate) const REASONS: [&str; 12] = [
    "no-rule",
    "not-plain",
    "fragment",
    "ip-options",
    "tcp-control",
    "other-headers",
    "stale",
    "idle",
    "large",
    "checksum",
    "no-port",
    "no-room",
];

// SAFETY: they consist of integers and arrays of integers in C layout, without padding (each size is the sum
// of those of the fields), so all bytes are initialized and every bit pattern is valid.
unsafe impl Pod for KeyV4 {}
// SAFETY: as above.
unsafe impl Pod for KeyV6 {}
// SAFETY: as above.
unsafe impl Pod for Rule {}
