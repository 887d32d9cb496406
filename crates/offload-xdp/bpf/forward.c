// The program that forwards packets of offloaded connections between devices, in the kernel (XDP).
//
// A rule is found by the port that a packet came in on and its addresses, ports and protocol. It says
// which other header bits the packet must have, what is rewritten, and where the packet goes. Whatever
// a rule does not cover is passed up to the switch unchanged, which is always right: packets that may
// change their connection, that are not whole, or whose rule has ended.
//
// Self-contained, so that building it takes clang and no headers.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;

#define SECTION(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define TYPE(name, value) int(*name)[value]
#define LIKELY(it) __builtin_expect(!!(it), 1)

// Linux: include/uapi/linux/bpf.h.
struct xdp_md {
    u32 data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex;
};
enum { XDP_PASS = 2, XDP_REDIRECT = 4 };
enum {
    BPF_MAP_TYPE_HASH = 1,
    BPF_MAP_TYPE_ARRAY = 2,
    BPF_MAP_TYPE_PERCPU_ARRAY = 6,
    BPF_MAP_TYPE_DEVMAP_HASH = 25,
};
enum { BPF_F_NO_PREALLOC = 1 << 0, BPF_F_MMAPABLE = 1 << 10 };

static void *(*map_lookup)(void *map, const void *key) = (void *)1;
static s64 (*csum_diff)(const void *from, u32 from_bytes, const void *to, u32 to_bytes, u32 seed) = (void *)28;
static long (*adjust_head)(struct xdp_md *ctx, int delta) = (void *)44;
static long (*redirect_map)(void *map, u64 key, u64 otherwise) = (void *)51;
static u64 (*coarse_ns)(void) = (void *)160;
static u64 (*frame_bytes)(struct xdp_md *ctx) = (void *)188;
static long (*load_bytes)(struct xdp_md *ctx, u32 offset, void *to, u32 bytes) = (void *)189;

// What user space shares; `src/layout.rs` has the same.

struct key_v4 {
    u32 port, ports, src, dst, protocol;
};
struct key_v6 {
    u32 port, ports, src[4], dst[4], protocol;
};
// What a rule does to its packets.
enum {
    TRANSLATE = 1 << 0,
    SET_TTL = 1 << 1,
    SET_TOS = 1 << 2,
    SET_ETH_DST = 1 << 3,
    SET_ETH_SRC = 1 << 4,
    POP_VLAN = 1 << 5,
    PUSH_VLAN = 1 << 6,
};
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
    u8 ttl, tos, tos_mask, spare;
    u32 src[4], dst[4];
    u32 ports, spare2;
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
enum reason { NO_RULE, NOT_PLAIN, FRAGMENT, OPTIONS, CONTROL, OTHER_HEADERS, STALE, IDLE, LARGE, CHECKSUM, NO_PORT, NO_ROOM, REASONS };

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
struct {
    TYPE(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    TYPE(max_entries, REASONS);
    u32 *key;
    u64 *value;
} passed SECTION(".maps");

INLINE int pass(enum reason reason)
{
    u32 key = reason;
    u64 *count = map_lookup(&passed, &key);
    if (count)
        ++*count;
    return XDP_PASS;
}

INLINE u16 be16(const u8 *at) { return at[0] << 8 | at[1]; }
INLINE u64 be48(const u8 *at)
{
    return (u64)be16(at) << 32 | (u64)be16(at + 2) << 16 | be16(at + 4);
}
INLINE u16 swap(u16 value) { return __builtin_bswap16(value); }
INLINE u32 load32(const u8 *at)
{
    return at[0] | (u32)at[1] << 8 | (u32)at[2] << 16 | (u32)at[3] << 24;
}
INLINE u16 load16(const u8 *at) { return at[0] | at[1] << 8; }
INLINE void store16(u8 *at, u16 value)
{
    at[0] = value;
    at[1] = value >> 8;
}
INLINE void store32(u8 *at, u32 value)
{
    store16(at, value);
    store16(at + 2, value >> 16);
}

// One's complement sums of 16-bit words (RFC 1071), in the byte order of the packet.
INLINE u16 fold(u64 sum)
{
    sum = (sum & 0xffffffff) + (sum >> 32);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return (sum & 0xffff) + (sum >> 16);
}
// A checksum field after what it covers changed (RFC 1624, equation 3).
INLINE u16 adjusted(u16 field, u64 from, u64 to)
{
    return ~fold((u16)~field + (u64)(u16)~fold(from) + to);
}

// The packet, as far as it was read.
struct packet {
    u32 l3, l4, l4_bytes;
    u32 protocol, ports;
    u8 is_v6, tos, ttl, tcp_flags;
    u16 checksum;
    // Of addresses, length and protocol.
    u64 pseudo;
};

enum { PIECE = 128, PIECES = 72 };

// The sum of so many bytes, or SUM_FAILED. A function that the verifier looks at once, whatever the packet.
enum { SUM_FAILED = 1 << 16 };
__attribute__((noinline)) u32 sum_bytes(struct xdp_md *ctx, u32 offset, u32 left)
{
    u32 piece[PIECE / 4], sum = 0;
    for (int i = 0; i < PIECES && left; i++) {
        u32 bytes = left < PIECE ? left : PIECE;
        __builtin_memset(piece, 0, sizeof piece);
        if (load_bytes(ctx, offset, piece, bytes) < 0)
            return SUM_FAILED;
        sum = fold(sum + (u64)(u32)csum_diff(0, 0, piece, PIECE, 0));
        offset += bytes;
        left -= bytes;
    }
    return left ? SUM_FAILED : sum;
}

enum verdict { BAD, COMPLETE, PARTIAL, NONE };

// Whether the checksum is right, or begun as the kernel leaves it to a device: the field has the sum of
// addresses, length and protocol. A complete one may look so, which makes a difference only where it is
// to be changed.
INLINE enum verdict checksum(struct xdp_md *ctx, const struct packet *packet, int exactly)
{
    u16 begun = fold(packet->pseudo);
    if (!packet->checksum && packet->protocol == 17)
        return packet->is_v6 ? BAD : NONE;
    int may_be_begun = packet->checksum == begun;
    if (may_be_begun && !exactly)
        return PARTIAL;
    u32 sum = sum_bytes(ctx, packet->l4, packet->l4_bytes);
    if (sum == SUM_FAILED)
        return BAD;
    if (fold(packet->pseudo + sum) == 0xffff)
        return COMPLETE;
    return may_be_begun ? PARTIAL : BAD;
}

// Gives the packet the rule's addresses, ports, TTL and TOS.
INLINE int rewrite(struct xdp_md *ctx, const struct rule *rule, const struct packet *packet, enum verdict kind, int moved)
{
    u8 *data = (u8 *)(u64)ctx->data, *end = (u8 *)(u64)ctx->data_end;
    u32 l3 = packet->l3 + moved;
    if (l3 > 64)
        return -1;
    u8 *ip = data + l3;
    if (packet->is_v6) {
        if (ip + 40 + 20 > end && (packet->protocol == 6 || ip + 40 + 8 > end))
            return -1;
        if (rule->does & SET_TTL)
            ip[7] = rule->ttl;
        if (rule->does & SET_TOS) {
            u8 tos = (packet->tos & ~rule->tos_mask) | rule->tos;
            ip[0] = (ip[0] & 0xf0) | tos >> 4;
            ip[1] = (ip[1] & 0x0f) | tos << 4;
        }
        if (!(rule->does & TRANSLATE))
            return 0;
        u8 *l4 = ip + 40, *field = packet->protocol == 6 ? l4 + 16 : l4 + 6;
        u64 from = 0, to = 0;
        if (field + 2 > end)
            return -1;
        for (int i = 0; i < 4; i++) {
            from += (u64)load32(ip + 8 + 4 * i) + load32(ip + 24 + 4 * i);
            to += (u64)rule->src[i] + rule->dst[i];
            store32(ip + 8 + 4 * i, rule->src[i]);
            store32(ip + 24 + 4 * i, rule->dst[i]);
        }
        if (kind == COMPLETE) {
            u16 sum = adjusted(load16(field), from + packet->ports, to + rule->ports);
            store16(field, sum ? sum : packet->protocol == 17 ? 0xffff : 0);
        } else {
            store16(field, ~adjusted(~load16(field), from, to));
        }
        store32(l4, rule->ports);
        return 0;
    }
    if (ip + 20 + 20 > end && (packet->protocol == 6 || ip + 20 + 8 > end))
        return -1;
    u64 from = load16(ip) + (u64)load16(ip + 8);
    if (rule->does & SET_TTL)
        ip[8] = rule->ttl;
    if (rule->does & SET_TOS)
        ip[1] = (packet->tos & ~rule->tos_mask) | rule->tos;
    u64 to = load16(ip) + (u64)load16(ip + 8);
    if (rule->does & TRANSLATE) {
        u8 *l4 = ip + 20, *field = packet->protocol == 6 ? l4 + 16 : l4 + 6;
        u64 before = (u64)load32(ip + 12) + load32(ip + 16);
        u64 after = (u64)rule->src[3] + rule->dst[3];
        if (field + 2 > end)
            return -1;
        from += before;
        to += after;
        store32(ip + 12, rule->src[3]);
        store32(ip + 16, rule->dst[3]);
        if (kind == COMPLETE) {
            u16 sum = adjusted(load16(field), before + packet->ports, after + rule->ports);
            store16(field, sum ? sum : packet->protocol == 17 ? 0xffff : 0);
        } else if (kind == PARTIAL) {
            store16(field, ~adjusted(~load16(field), before, after));
        }
        store32(l4, rule->ports);
    }
    store16(ip + 10, adjusted(load16(ip + 10), from, to));
    return 0;
}

// Takes the tag away, or puts one in, or changes it; says by how many bytes the network header moved.
INLINE int tag(struct xdp_md *ctx, const struct rule *rule, int has_tag, int *moved)
{
    int pops = has_tag && rule->does & POP_VLAN, pushes = rule->does & PUSH_VLAN;
    u8 *data = (u8 *)(u64)ctx->data, *end = (u8 *)(u64)ctx->data_end;
    u8 addresses[12];
    *moved = 0;
    if (!pops && !pushes)
        return 0;
    if (data + 18 > end)
        return -1;
    if (pops && pushes) {
        store16(data + 12, rule->tpid);
        store16(data + 14, rule->tci);
        return 0;
    }
    __builtin_memcpy(addresses, data, 12);
    *moved = pushes ? 4 : -4;
    if (adjust_head(ctx, -*moved) < 0)
        return -1;
    data = (u8 *)(u64)ctx->data;
    end = (u8 *)(u64)ctx->data_end;
    if (data + 18 > end)
        return -1;
    __builtin_memcpy(data, addresses, 12);
    if (pushes) {
        store16(data + 12, rule->tpid);
        store16(data + 14, rule->tci);
    }
    return 0;
}

SECTION("xdp.frags") int forward(struct xdp_md *ctx)
{
    u8 *data = (u8 *)(u64)ctx->data, *end = (u8 *)(u64)ctx->data_end;
    u64 bytes = frame_bytes(ctx);
    struct packet packet = {};
    struct rule *rule;
    u16 tci = 0, ethertype;
    u8 tag_type = 0;
    u8 *ip, *l4;

    if (data + 14 + 20 + 8 > end)
        return pass(NOT_PLAIN);
    ethertype = be16(data + 12);
    ip = data + 14;
    packet.l3 = 14;
    if (ethertype == 0x8100 || ethertype == 0x88a8) {
        tag_type = ethertype == 0x88a8 ? 0x80 : 0;
        tci = be16(data + 14) | 0x1000;
        ethertype = be16(data + 16);
        ip = data + 18;
        packet.l3 = 18;
    }
    if (ethertype == 0x0800) {
        struct key_v4 key = {.port = ctx->ingress_ifindex};
        u64 sum = 0;
        if (ip + 28 > end)
            return pass(NOT_PLAIN);
        if (ip[0] != 0x45)
            return pass(OPTIONS);
        if (be16(ip + 6) & 0x3fff)
            return pass(FRAGMENT);
        packet.protocol = ip[9];
        packet.tos = ip[1];
        packet.ttl = ip[8];
        if (be16(ip + 2) > bytes - packet.l3 || be16(ip + 2) < 28)
            return pass(NOT_PLAIN);
        packet.l4_bytes = be16(ip + 2) - 20;
        packet.l4 = packet.l3 + 20;
        l4 = ip + 20;
        for (int i = 0; i < 20; i += 2)
            sum += load16(ip + i);
        if (fold(sum) != 0xffff)
            return pass(CHECKSUM);
        key.src = load32(ip + 12);
        key.dst = load32(ip + 16);
        key.protocol = packet.protocol;
        key.ports = packet.ports = load32(l4);
        packet.pseudo = (u64)key.src + key.dst;
        rule = map_lookup(&rules_v4, &key);
    } else if (ethertype == 0x86dd) {
        struct key_v6 key = {.port = ctx->ingress_ifindex};
        if (ip + 48 > end || ip[0] >> 4 != 6)
            return pass(NOT_PLAIN);
        packet.is_v6 = 1;
        packet.protocol = ip[6];
        packet.tos = ip[0] << 4 | ip[1] >> 4;
        packet.ttl = ip[7];
        packet.l4_bytes = be16(ip + 4);
        packet.l4 = packet.l3 + 40;
        if (packet.l4_bytes + packet.l4 > bytes || packet.l4_bytes < 8)
            return pass(NOT_PLAIN);
        l4 = ip + 40;
        for (int i = 0; i < 4; i++) {
            key.src[i] = load32(ip + 8 + 4 * i);
            key.dst[i] = load32(ip + 24 + 4 * i);
            packet.pseudo += (u64)key.src[i] + key.dst[i];
        }
        key.protocol = packet.protocol;
        key.ports = packet.ports = load32(l4);
        rule = map_lookup(&rules_v6, &key);
    } else {
        return pass(NOT_PLAIN);
    }
    if (!rule)
        return pass(NO_RULE);
    packet.pseudo += swap(packet.protocol) + swap(packet.l4_bytes);

    u64 words[3] = {
        be48(data) << 16 | ethertype,
        be48(data + 6) << 16 | tci,
        (u64)packet.protocol << 56 | (u64)packet.tos << 48 | (u64)packet.ttl << 40 | (u64)tag_type << 32,
    };
    for (int i = 0; i < 3; i++)
        if ((words[i] ^ rule->match[i]) & rule->mask[i])
            return pass(OTHER_HEADERS);

    struct slot *slot = map_lookup(&slots, &rule->slot);
    if (!slot || slot->generation != rule->generation)
        return pass(STALE);
    u32 direction = rule->direction & 1;
    if (packet.protocol == 6) {
        if (l4 + 20 > end)
            return pass(NOT_PLAIN);
        u32 header = (l4[12] >> 4) * 4;
        if (header < 20 || header > packet.l4_bytes)
            return pass(NOT_PLAIN);
        // FIN and RST end the connection: all that follows them is the switch's.
        if (l4[13] & 5) {
            slot->ended = slot->generation;
            slot->generation = 0;
            return pass(CONTROL);
        }
        if ((l4[13] & 0x12) != 0x10)
            return pass(CONTROL);
        packet.checksum = load16(l4 + 16);
    } else {
        if (be16(l4 + 4) != packet.l4_bytes)
            return pass(NOT_PLAIN);
        packet.checksum = load16(l4 + 6);
    }
    u64 now = coarse_ns();
    if (slot->used_ns && now - slot->used_ns > rule->idle_ns)
        return pass(IDLE);
    if (bytes > rule->frame_bytes_max) {
        slot->large_ns[direction] = now;
        return pass(LARGE);
    }
    if (now - slot->large_ns[direction] < LARGE_HOLD_NS)
        return pass(LARGE);
    enum verdict kind = checksum(ctx, &packet, rule->does & TRANSLATE);
    if (kind == BAD)
        return pass(CHECKSUM);
    // Only now the packet is changed; what has no way out is passed up before.
    if (redirect_map(&ports, rule->out, XDP_PASS) != XDP_REDIRECT)
        return pass(NO_PORT);
    int moved = 0;
    if (rule->does & (POP_VLAN | PUSH_VLAN) && tag(ctx, rule, tci, &moved) < 0)
        return pass(NO_ROOM);
    if (rule->does & (TRANSLATE | SET_TTL | SET_TOS) && rewrite(ctx, rule, &packet, kind, moved) < 0)
        return pass(NO_ROOM);
    if (rule->does & (SET_ETH_DST | SET_ETH_SRC)) {
        data = (u8 *)(u64)ctx->data;
        end = (u8 *)(u64)ctx->data_end;
        if (data + 14 > end)
            return pass(NO_ROOM);
        if (rule->does & SET_ETH_DST)
            __builtin_memcpy(data, rule->eth_dst, 6);
        if (rule->does & SET_ETH_SRC)
            __builtin_memcpy(data + 6, rule->eth_src, 6);
    }
    slot->used_ns = now;
    __sync_fetch_and_add(&slot->traffic[direction], bytes << PACKETS_BITS | 1);
    return XDP_REDIRECT;
}

char _license[] SECTION("license") = "Apache-2.0";
