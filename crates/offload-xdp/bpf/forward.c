// The program that forwards packets of offloaded connections between devices, in the kernel (XDP).
//
// A rule is found by the port that a packet came in on and its addresses, ports and protocol; of a packet in a
// VXLAN tunnel, by those of the inner packet, the VNI and the outer source. It says which other header bits the
// packet must have, what is rewritten, and where the packet goes. Whatever a rule does not cover is passed up to
// the switch unchanged: packets that may change their connection, that are not whole, or whose rule has ended.

#include "packet.h"

INLINE int pass(u32 reason)
{
    u32 key = reason;
    u64 *count = map_lookup(&passed, &key);
    if (count)
        ++*count;
    return XDP_PASS;
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
        if (!(rule->does & NAT_REWRITE))
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
    if (rule->does & NAT_REWRITE) {
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

// The rule of a packet. `remote` and `vni` say which tunnel it came through.
INLINE struct rule *find(const struct packet *packet, u32 port, u32 remote, u32 vni)
{
    u32 kind = packet->protocol | vni << 8;
    if (packet->is_v6) {
        struct key_v6 key = {.port = port, .ports = packet->ports, .kind = kind, .remote = remote};
        for (int i = 0; i < 4; i++) {
            key.src[i] = packet->src[i];
            key.dst[i] = packet->dst[i];
        }
        return map_lookup(&rules_v6, &key);
    }
    struct key_v4 key = {
        .port = port,
        .ports = packet->ports,
        .src = packet->src[3],
        .dst = packet->dst[3],
        .kind = kind,
        .remote = remote,
    };
    return map_lookup(&rules_v4, &key);
}

INLINE int is_other(const u64 *words, const u64 *match, const u64 *mask)
{
    for (int i = 0; i < 3; i++)
        if ((words[i] ^ match[i]) & mask[i])
            return 1;
    return 0;
}

// What follows the addresses: whether TCP or UDP lets the packet go on.
INLINE u32 transport(struct xdp_md *ctx, struct packet *packet, struct slot *slot, u64 generation)
{
    u8 *data = (u8 *)(u64)ctx->data, *end = (u8 *)(u64)ctx->data_end;
    if (packet->l4 > 128)
        return NOT_PLAIN;
    u8 *l4 = data + packet->l4;
    if (packet->protocol == 6) {
        if (l4 + 20 > end)
            return NOT_PLAIN;
        u32 header = (l4[12] >> 4) * 4;
        if (header < 20 || header > packet->l4_bytes)
            return NOT_PLAIN;
        // FIN and RST end the connection: all that follows them is the switch's.
        if (l4[13] & 5) {
            // The slot may have got another connection since the rule was compared with it.
            if (__sync_val_compare_and_swap(&slot->generation, generation, 0) == generation)
                slot->ended = generation;
            return CONTROL;
        }
        if ((l4[13] & 0x12) != 0x10)
            return CONTROL;
        packet->checksum = load16(l4 + 16);
    } else {
        if (l4 + 8 > end || be16(l4 + 4) != packet->l4_bytes)
            return NOT_PLAIN;
        packet->checksum = load16(l4 + 6);
    }
    return READ;
}

// The sum of the pseudo header that a packet leaves with.
INLINE u64 pseudo_behind(const struct rule *rule, const struct packet *packet)
{
    u64 pseudo = swap(packet->protocol) + swap(packet->l4_bytes);
    if (!(rule->does & NAT_REWRITE))
        return packet->pseudo;
    for (int i = 0; i < 4; i++)
        pseudo += (u64)rule->src[i] + rule->dst[i];
    return pseudo;
}

// Puts outer headers in front of a frame of so many bytes, whose transport header begins at `l4`.
INLINE int encapsulate(struct xdp_md *ctx, const struct rule *rule, const struct packet *packet, enum verdict kind, u32 l4, u32 frame)
{
    int is_v6 = rule->header_bytes == OUTER_V6_BYTES;
    u32 bytes = is_v6 ? OUTER_V6_BYTES : OUTER_V4_BYTES, udp_bytes = frame + 16;
    u64 sum = swap(17) + swap(udp_bytes);
    u8 tos = rule->does & SET_TOS ? (packet->tos & ~rule->tos_mask) | rule->tos : packet->tos;
    u8 ecn = tos & 3;
    if (adjust_head(ctx, is_v6 ? -OUTER_V6_BYTES : -OUTER_V4_BYTES) < 0)
        return -1;
    u8 *data = (u8 *)(u64)ctx->data, *end = (u8 *)(u64)ctx->data_end, *udp;
    if (is_v6) {
        if (data + OUTER_V6_BYTES > end)
            return -1;
        __builtin_memcpy(data, rule->header, OUTER_V6_BYTES);
        udp = data + OUTER_V6_BYTES - 16;
        store16(data + 18, swap(udp_bytes));
        if (rule->does & COPY_ECN)
            data[15] = (data[15] & 0xcf) | ecn << 4;
        for (int i = 22; i < 54; i += 4)
            sum += load32(data + i);
    } else {
        if (data + OUTER_V4_BYTES > end)
            return -1;
        __builtin_memcpy(data, rule->header, OUTER_V4_BYTES);
        udp = data + OUTER_V4_BYTES - 16;
        u16 total = swap(udp_bytes + 20);
        store16(data + 16, total);
        store16(data + 24, adjusted(load16(data + 24), 0, total));
        if (rule->does & COPY_ECN) {
            u16 before = load16(data + 14);
            data[15] = (data[15] & 0xfc) | ecn;
            store16(data + 24, adjusted(load16(data + 24), before, load16(data + 14)));
        }
        sum += (u64)load32(data + 26) + load32(data + 30);
    }
    store16(udp + 4, swap(udp_bytes));
    if (!(rule->does & CHECKSUM_OUT))
        return 0;
    sum += outer_sum(ctx, bytes - 16, l4 + bytes, packet->l4_bytes, pseudo_behind(rule, packet), kind);
    u16 checksum = ~fold(sum);
    store16(udp + 6, checksum ? checksum : 0xffff);
    return 0;
}

// Does to the packet what the rule says.
INLINE int change(struct xdp_md *ctx, const struct rule *rule, struct packet *packet, u32 outer_bytes, enum verdict kind, u32 frame)
{
    int moved = 0;
    if (rule->does & DECAPSULATE) {
        if (adjust_head(ctx, outer_bytes) < 0)
            return -1;
        packet->l3 -= outer_bytes;
        packet->l4 -= outer_bytes;
        frame -= outer_bytes;
    }
    if (rule->does & (POP_VLAN | PUSH_VLAN) && tag(ctx, rule, packet->has_tag, &moved) < 0)
        return -1;
    if (rule->does & (NAT_REWRITE | SET_TTL | SET_TOS) && rewrite(ctx, rule, packet, kind, moved) < 0)
        return -1;
    if (rule->does & (SET_ETH_DST | SET_ETH_SRC)) {
        u8 *data = (u8 *)(u64)ctx->data, *end = (u8 *)(u64)ctx->data_end;
        if (data + 14 > end)
            return -1;
        if (rule->does & SET_ETH_DST)
            __builtin_memcpy(data, rule->eth_dst, 6);
        if (rule->does & SET_ETH_SRC)
            __builtin_memcpy(data + 6, rule->eth_src, 6);
    }
    if (rule->does & ENCAPSULATE)
        return encapsulate(ctx, rule, packet, kind, packet->l4 + moved, frame + moved);
    return 0;
}

// Counts the first two tags of a frame, so that user space can tell whether a device's tags stand in its frames.
INLINE void count_tags(struct xdp_md *ctx)
{
    u8 *data = (u8 *)(u64)ctx->data, *end = (u8 *)(u64)ctx->data_end;
    if (data + 14 > end)
        return;
    u32 ethertype = be16(data + 12), device = ctx->ingress_ifindex;
    if (LIKELY(!is_tag(ethertype)))
        return;
    u32 tags = data + 18 <= end && is_tag(be16(data + 16)) ? 2 : 1;
    u64 *count = map_lookup(&tagged, &device);
    if (count)
        __sync_fetch_and_add(count, tags);
}

SECTION("xdp.frags") int forward(struct xdp_md *ctx)
{
    count_tags(ctx);
    u64 frame = frame_bytes(ctx);
    struct packet packet = {};
    struct outer outer = {};
    struct rule *rule = 0;
    int is_inner = 0;

    u32 reason = read(ctx, 0, frame, &packet);
    if (reason != READ)
        return pass(reason);
    if (is_vxlan(ctx, frame, &packet, &outer)) {
        u32 vni = __builtin_bswap64(outer.vxlan) >> 8 & 0xffffff;
        if (read(ctx, outer.bytes, frame, &packet) == READ)
            rule = find(&packet, ctx->ingress_ifindex, outer.src[0] ^ outer.src[1] ^ outer.src[2] ^ outer.src[3], vni);
        is_inner = rule != 0;
        if (!is_inner)
            read(ctx, 0, frame, &packet);
    }
    if (!rule)
        rule = find(&packet, ctx->ingress_ifindex, 0, 0);
    if (!rule)
        return pass(NO_RULE);
    // The key of a tunnel whose VNI is 0 and whose source's words cancel out is that of packets without a tunnel.
    if (is_inner != !!(rule->does & DECAPSULATE))
        return pass(OTHER_HEADERS);
    if (is_inner) {
        if (outer.vxlan != rule->vxlan)
            return pass(OTHER_HEADERS);
        for (int i = 0; i < 4; i++)
            if (outer.src[i] != rule->outer_src[i] || outer.dst[i] != rule->outer_dst[i])
                return pass(OTHER_HEADERS);
        if (is_other(outer.words, rule->outer_match, rule->outer_mask))
            return pass(OTHER_HEADERS);
        if (!outer.checksum != !(rule->does & CHECKSUM_IN))
            return pass(OTHER_HEADERS);
    }
    if (is_other(packet.words, rule->match, rule->mask))
        return pass(OTHER_HEADERS);

    struct slot *slot = map_lookup(&slots, &rule->slot);
    if (!slot || slot->generation != rule->generation)
        return pass(STALE);
    reason = transport(ctx, &packet, slot, rule->generation);
    if (reason != READ)
        return pass(reason);
    u32 direction = rule->direction & 1;
    u64 now = coarse_ns();
    if (slot->used_ns && now - slot->used_ns > rule->idle_ns)
        return pass(IDLE);
    if (frame > (u64)rule->frame_bytes_max + (packet.has_tag ? rule->tag_room : 0)) {
        slot->large_ns[direction] = now;
        return pass(LARGE);
    }
    if (now - slot->large_ns[direction] < LARGE_HOLD_NS)
        return pass(LARGE);
    enum verdict kind = checksum(ctx, &packet, rule->does & NAT_REWRITE);
    if (kind == BAD)
        return pass(CHECKSUM);
    // The outer checksum then needs the sum of all bytes.
    if (rule->does & (CHECKSUM_IN | CHECKSUM_OUT) && kind == NONE && packet.l4_bytes > PIECE * PIECES) {
        slot->large_ns[direction] = now;
        return pass(LARGE);
    }
    // What is behind the inner packet counts, too, and is left to the switch.
    if (rule->does & (CHECKSUM_IN | CHECKSUM_OUT) && packet.l4 + packet.l4_bytes != frame)
        return pass(NOT_PLAIN);
    if (rule->does & CHECKSUM_IN && !is_outer_right(ctx, &packet, &outer, kind))
        return pass(CHECKSUM);
    if (!(rule->does & DROP)) {
        // Only now the packet is changed; what has no way out is passed up before.
        if (redirect_map(&ports, rule->out, XDP_PASS) != XDP_REDIRECT)
            return pass(NO_PORT);
        if (change(ctx, rule, &packet, outer.bytes, kind, frame) < 0)
            return pass(NO_ROOM);
    }
    slot->used_ns = now;
    __sync_fetch_and_add(&slot->traffic[direction], frame << PACKETS_BITS | 1);
    return rule->does & DROP ? XDP_DROP : XDP_REDIRECT;
}

char _license[] SECTION("license") = "Apache-2.0";
