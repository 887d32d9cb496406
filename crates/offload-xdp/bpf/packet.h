// Reads packets, and verifies their checksums.

#pragma once

#include "layout.h"

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

// The packet, or the one within a tunnel, as far as it was read.
struct packet {
    // Words 1 to 3 of the switch's `Headers`.
    u64 words[3];
    // Of addresses, length and protocol.
    u64 pseudo;
    u32 src[4], dst[4];
    // Where headers begin, from the start of the frame.
    u32 l3, l4, l4_bytes;
    u32 protocol, ports;
    u16 checksum;
    u8 is_v6, has_tag, tos, spare;
};

INLINE int is_tag(u32 ethertype) { return ethertype == 0x8100 || ethertype == 0x88a8; }

INLINE u64 word_of(u32 protocol, u32 tos, u32 ttl, u32 tag_type)
{
    return (u64)protocol << 56 | (u64)tos << 48 | (u64)ttl << 40 | (u64)tag_type << 32;
}

// Reads a packet whose Ethernet header begins at `start` of the frame, or says why it is not plain. A function
// that the verifier looks at once, whatever the packet.
__attribute__((noinline)) u32 read(struct xdp_md *ctx, u32 start, u64 frame, struct packet *packet)
{
    u8 *data = (u8 *)(u64)ctx->data, *end = (u8 *)(u64)ctx->data_end;
    u32 tci = 0, tag_type = 0, ttl;

    if (!packet || start > OUTER_V6_BYTES || data + start + 14 + 20 + 8 > end)
        return NOT_PLAIN;
    data += start;
    u8 *ip = data + 14;
    u32 ethertype = be16(data + 12);
    packet->l3 = start + 14;
    packet->has_tag = is_tag(ethertype);
    if (packet->has_tag) {
        tag_type = ethertype == 0x88a8 ? 0x80 : 0;
        tci = be16(data + 14) | 0x1000;
        ethertype = be16(data + 16);
        ip = data + 18;
        packet->l3 = start + 18;
    }
    if (ethertype == 0x0800) {
        u64 sum = 0;
        if (ip + 28 > end)
            return NOT_PLAIN;
        if (ip[0] != 0x45)
            return OPTIONS;
        if (be16(ip + 6) & 0x3fff)
            return FRAGMENT;
        packet->is_v6 = 0;
        packet->protocol = ip[9];
        packet->tos = ip[1];
        ttl = ip[8];
        if (be16(ip + 2) > frame - packet->l3 || be16(ip + 2) < 28)
            return NOT_PLAIN;
        packet->l4_bytes = be16(ip + 2) - 20;
        packet->l4 = packet->l3 + 20;
        for (int i = 0; i < 20; i += 2)
            sum += load16(ip + i);
        if (fold(sum) != 0xffff)
            return CHECKSUM;
        packet->src[3] = load32(ip + 12);
        packet->dst[3] = load32(ip + 16);
        packet->ports = load32(ip + 20);
        packet->pseudo = (u64)packet->src[3] + packet->dst[3];
    } else if (ethertype == 0x86dd) {
        if (ip + 48 > end || ip[0] >> 4 != 6)
            return NOT_PLAIN;
        packet->is_v6 = 1;
        packet->protocol = ip[6];
        packet->tos = ip[0] << 4 | ip[1] >> 4;
        ttl = ip[7];
        packet->l4_bytes = be16(ip + 4);
        packet->l4 = packet->l3 + 40;
        if (packet->l4_bytes + packet->l4 > frame || packet->l4_bytes < 8)
            return NOT_PLAIN;
        packet->pseudo = 0;
        for (int i = 0; i < 4; i++) {
            packet->src[i] = load32(ip + 8 + 4 * i);
            packet->dst[i] = load32(ip + 24 + 4 * i);
            packet->pseudo += (u64)packet->src[i] + packet->dst[i];
        }
        packet->ports = load32(ip + 40);
    } else {
        return NOT_PLAIN;
    }
    packet->pseudo += swap(packet->protocol) + swap(packet->l4_bytes);
    packet->words[0] = be48(data) << 16 | ethertype;
    packet->words[1] = be48(data + 6) << 16 | tci;
    packet->words[2] = word_of(packet->protocol, packet->tos, ttl, tag_type);
    return READ;
}

// What of an outer packet rules look at.
struct outer {
    u64 words[3];
    u64 vxlan;
    // Of addresses, length and protocol.
    u64 pseudo;
    u32 src[4], dst[4];
    // Bytes before the inner frame; 0 if there is none.
    u32 bytes, checksum;
};

// Whether a packet that was read has the form of a VXLAN packet whose inner frame is Ethernet (RFC 7348
// section 5), with nothing behind it.
INLINE int is_vxlan(struct xdp_md *ctx, u64 frame, const struct packet *packet, struct outer *outer)
{
    u8 *data = (u8 *)(u64)ctx->data, *end = (u8 *)(u64)ctx->data_end;
    u8 *udp = data + (packet->is_v6 ? OUTER_V6_BYTES : OUTER_V4_BYTES) - 16;
    outer->bytes = 0;
    if (packet->protocol != 17 || packet->has_tag)
        return 0;
    if (packet->l4_bytes + packet->l4 != frame || udp + 16 > end)
        return 0;
    if (load32(udp + 8) != 8 || udp[15] || be16(udp + 4) != packet->l4_bytes)
        return 0;
    outer->words[0] = packet->words[0];
    outer->words[1] = packet->words[1];
    outer->words[2] = packet->words[2] | (u64)be16(udp) << 16 | be16(udp + 2);
    outer->vxlan = load32(udp + 8) | (u64)load32(udp + 12) << 32;
    for (int i = 0; i < 4; i++) {
        outer->src[i] = packet->src[i];
        outer->dst[i] = packet->dst[i];
    }
    outer->pseudo = packet->pseudo;
    outer->checksum = load16(udp + 6);
    outer->bytes = packet->is_v6 ? OUTER_V6_BYTES : OUTER_V4_BYTES;
    return 1;
}

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

// The sum over a packet from its UDP header on to the end of the inner packet, from what is between and the inner
// checksum. Where that one is right, or will be when a device has completed it, what it covers adds the
// complement of what its pseudo header does (Linux: Documentation/networking/checksum-offloads.rst, "LCO").
INLINE u64 outer_sum(struct xdp_md *ctx, u32 udp, u32 l4, u32 l4_bytes, u64 pseudo, enum verdict kind)
{
    u32 payload = kind == NONE ? sum_bytes(ctx, l4, l4_bytes) : (u16)~fold(pseudo);
    return (u64)sum_bytes(ctx, udp, l4 - udp) + payload;
}

// Whether the outer UDP checksum of a packet is right whose inner one is. One that the kernel left to a device
// is not: decapsulated, the packet would tell the device to complete it elsewhere.
INLINE int is_outer_right(struct xdp_md *ctx, const struct packet *packet, const struct outer *outer, enum verdict kind)
{
    u64 pseudo = outer->pseudo;
    if (outer->checksum == fold(pseudo))
        return 0;
    return fold(pseudo + outer_sum(ctx, outer->bytes - 16, packet->l4, packet->l4_bytes, packet->pseudo, kind)) == 0xffff;
}
