// The maps, which user space fills and reads.

#pragma once

#include "kernel.h"

// What user space shares; `src/layout.rs` has the same.

// What tells packets of rules apart. Of packets out of a tunnel these are the inner headers. `kind` has the
// protocol in its low byte and the VNI above. `remote` is the outer source; of an IPv6 address it is the XOR of its
// four words.
struct key_v4 {
    u32 port, ports, src, dst, kind, remote;
};
struct key_v6 {
    u32 port, ports, src[4], dst[4], kind, remote;
};
// What a rule does to its packets.
enum {
    NAT_REWRITE = 1 << 0,
    SET_TTL = 1 << 1,
    SET_TOS = 1 << 2,
    SET_ETH_DST = 1 << 3,
    SET_ETH_SRC = 1 << 4,
    POP_VLAN = 1 << 5,
    PUSH_VLAN = 1 << 6,
    DECAPSULATE = 1 << 7,
    ENCAPSULATE = 1 << 8,
    // The outer packets that come in have UDP checksums; those that leave get them.
    CHECKSUM_IN = 1 << 9,
    CHECKSUM_OUT = 1 << 10,
    // In place of all that changes packets and sends them.
    DROP = 1 << 11,
    // The outer headers get the ECN bits of the packet (RFC 6040).
    COPY_ECN = 1 << 12,
};
// Ethernet, UDP, VXLAN and IPv4 without options or IPv6 without extension headers.
enum { OUTER_V4_BYTES = 50, OUTER_V6_BYTES = 70 };
struct rule {
    // Of words 1 to 3 of the switch's `Headers`: Ethernet, VLAN, TOS, TTL.
    u64 match[3], mask[3];
    u64 generation;
    u64 idle_ns;
    u32 slot, direction;
    u32 out, frame_bytes_max;
    u32 does;
    // In network byte order, as are addresses and ports.
    u16 tpid, tci;
    u8 eth_dst[6], eth_src[6];
    // `tag_room`: bytes by which frames with a VLAN tag may be longer than `frame_bytes_max`.
    u8 ttl, tos, tos_mask, tag_room;
    u32 src[4], dst[4];
    u32 ports;
    // Bytes of `header`, which is put in front. Lengths are zero, and an IPv4 checksum is of the header as it stands.
    u32 header_bytes;
    u8 header[OUTER_V6_BYTES], spare2[2];
    // Of the outer packets that come in: addresses, words 1 to 3 of their `Headers`, the VXLAN header.
    u32 outer_src[4], outer_dst[4];
    u64 outer_match[3], outer_mask[3];
    u64 vxlan;
};
// A connection. Rules of both directions hold while its generation is theirs.
struct slot {
    u64 generation;
    // 0 before the first packet.
    u64 used_ns;
    // Packets in the low 24 bits, bytes above, of each direction.
    u64 traffic[2];
    // When a frame came that is too large for the way out.
    u64 large_ns[2];
    // It ended: the generation that it had.
    u64 ended;
    u64 spare;
};
// Why packets were passed up; `src/layout.rs` names them.
enum reason { NO_RULE, NOT_PLAIN, FRAGMENT, OPTIONS, CONTROL, OTHER_HEADERS, STALE, IDLE, LARGE, CHECKSUM, NO_PORT, NO_ROOM, REASONS, READ };

enum { PACKETS_BITS = 24 };
// How long frames of a direction go by the switch after one that was too large, so that they stay in order.
#define LARGE_HOLD_NS 100000000ull

struct {
    TYPE(type, BPF_MAP_TYPE_HASH);
    TYPE(map_flags, BPF_F_NO_PREALLOC);
    TYPE(max_entries, 131072);
    struct key_v4 *key;
    struct rule *value;
} rules_v4 SECTION(".maps");
struct {
    TYPE(type, BPF_MAP_TYPE_HASH);
    TYPE(map_flags, BPF_F_NO_PREALLOC);
    TYPE(max_entries, 131072);
    struct key_v6 *key;
    struct rule *value;
} rules_v6 SECTION(".maps");
struct {
    TYPE(type, BPF_MAP_TYPE_ARRAY);
    TYPE(map_flags, BPF_F_MMAPABLE);
    TYPE(max_entries, 65536);
    u32 *key;
    struct slot *value;
} slots SECTION(".maps");
struct {
    TYPE(type, BPF_MAP_TYPE_DEVMAP_HASH);
    TYPE(max_entries, 1024);
    TYPE(key_size, 4);
    TYPE(value_size, 8);
} ports SECTION(".maps");
// How many VLAN tags were in frames from a device, at most two in each.
struct {
    TYPE(type, BPF_MAP_TYPE_HASH);
    TYPE(max_entries, 1024);
    u32 *key;
    u64 *value;
} tagged SECTION(".maps");
struct {
    TYPE(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    TYPE(max_entries, REASONS);
    u32 *key;
    u64 *value;
} passed SECTION(".maps");
