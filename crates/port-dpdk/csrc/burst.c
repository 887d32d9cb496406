/* Packets in and out, a burst a call. Workers call these. */
#include "shim.h"

#include <string.h>

#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_memcpy.h>
#include <rte_prefetch.h>

#include "internal.h"

/* A buffer that a packet may keep lies right behind its mbuf, which is how that is found again. */
static struct rte_mbuf *mbuf_of(uint8_t *buffer) {
    return (struct rte_mbuf *)(void *)(buffer - sizeof(struct rte_mbuf));
}

static uint8_t *buffer_to_keep(struct rte_mbuf *mbuf) {
    int is_plain = mbuf->nb_segs == 1 && RTE_MBUF_DIRECT(mbuf) && rte_mbuf_refcnt_read(mbuf) == 1 &&
                   (uint8_t *)mbuf->buf_addr == (uint8_t *)mbuf + sizeof *mbuf;
    return is_plain ? mbuf->buf_addr : NULL;
}

static uint8_t checksum_of(uint64_t flags) {
    switch (flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) {
    case RTE_MBUF_F_RX_L4_CKSUM_GOOD:
        return TIDEGATE_CHECKSUM_GOOD;
    case RTE_MBUF_F_RX_L4_CKSUM_NONE:
        return TIDEGATE_CHECKSUM_PARTIAL;
    default:
        /* A wrong one is for whoever relies on it to find. */
        return TIDEGATE_CHECKSUM_UNKNOWN;
    }
}

int tidegate_dpdk_receive(uint16_t port, uint16_t queue, void **mbufs,
                          struct tidegate_received *out, uint16_t room) {
    know_thread();
    if (__atomic_load_n(&tidegate_removed[port], __ATOMIC_ACQUIRE))
        return -1;
    uint16_t count = rte_eth_rx_burst(port, queue, (struct rte_mbuf **)mbufs, room);
    for (uint16_t i = 0; i < count; i++)
        rte_prefetch0(rte_pktmbuf_mtod((struct rte_mbuf *)mbufs[i], void *));
    for (uint16_t i = 0; i < count; i++) {
        struct rte_mbuf *mbuf = mbufs[i];
        uint64_t flags = mbuf->ol_flags;
        out[i].buffer = buffer_to_keep(mbuf);
        out[i].room = mbuf->buf_len;
        out[i].start = mbuf->data_off;
        out[i].data = rte_pktmbuf_mtod(mbuf, const uint8_t *);
        out[i].first = mbuf->data_len;
        out[i].total = mbuf->pkt_len;
        out[i].segment_bytes = (flags & RTE_MBUF_F_RX_LRO) ? mbuf->tso_segsz : 0;
        out[i].vlan_tci = mbuf->vlan_tci;
        out[i].has_vlan = (flags & RTE_MBUF_F_RX_VLAN_STRIPPED) != 0;
        out[i].checksum = checksum_of(flags);
    }
    return count;
}

uint32_t tidegate_dpdk_copy(void *mbuf, uint8_t *to, uint32_t room) {
    uint32_t copied = 0;
    for (const struct rte_mbuf *part = mbuf; part != NULL; part = part->next) {
        uint32_t bytes = RTE_MIN((uint32_t)part->data_len, room - copied);
        memcpy(to + copied, rte_pktmbuf_mtod(part, const uint8_t *), bytes);
        copied += bytes;
    }
    return copied;
}

void tidegate_dpdk_take_back(uint8_t *buffer) { rte_pktmbuf_free(mbuf_of(buffer)); }

void tidegate_dpdk_release(void **mbufs, uint16_t count) {
    rte_pktmbuf_free_bulk((struct rte_mbuf **)mbufs, count);
}

/* Copies a frame into an mbuf, and as many behind it as it takes; gives 0 where there are not
 * enough. */
static int fill(struct rte_mbuf *mbuf, const struct tidegate_frame *frame, struct rte_mempool *pool) {
    uint32_t first = RTE_MIN(frame->len, (uint32_t)rte_pktmbuf_tailroom(mbuf)), done = first;
    rte_memcpy(rte_pktmbuf_mtod(mbuf, void *), frame->data, first);
    mbuf->data_len = (uint16_t)first;
    mbuf->pkt_len = frame->len;
    for (struct rte_mbuf *last = mbuf; done < frame->len; last = last->next) {
        struct rte_mbuf *more = rte_pktmbuf_alloc(pool);
        if (more == NULL)
            return 0;
        uint32_t bytes = RTE_MIN(frame->len - done, (uint32_t)rte_pktmbuf_tailroom(more));
        memcpy(rte_pktmbuf_mtod(more, void *), frame->data + done, bytes);
        more->data_len = (uint16_t)bytes;
        last->next = more;
        mbuf->nb_segs++;
        done += bytes;
    }
    return 1;
}

/* Says in an mbuf what the device is to do to it. */
static void describe(struct rte_mbuf *mbuf, const struct tidegate_frame *frame) {
    uint64_t flags = (frame->flags & TIDEGATE_SEND_IPV6)
                         ? RTE_MBUF_F_TX_IPV6
                         : RTE_MBUF_F_TX_IPV4;
    flags |= (frame->flags & TIDEGATE_SEND_UDP) ? RTE_MBUF_F_TX_UDP_CKSUM : RTE_MBUF_F_TX_TCP_CKSUM;
    if (frame->flags & TIDEGATE_SEND_CUT) {
        flags |= RTE_MBUF_F_TX_TCP_SEG;
        /* Each segment of IPv4 has a header checksum of its own. */
        if (!(frame->flags & TIDEGATE_SEND_IPV6))
            flags |= RTE_MBUF_F_TX_IP_CKSUM;
        mbuf->tso_segsz = frame->segment_bytes;
    }
    mbuf->ol_flags = flags;
    mbuf->l2_len = frame->l2_bytes;
    mbuf->l3_len = frame->l3_bytes;
    mbuf->l4_len = frame->l4_bytes;
}

/* The mbufs of a burst: those that were received and kept, new ones for the others. Gives 0 where
 * there are not enough, with none of them left to anybody. */
static int collect(struct rte_mbuf **mbufs, const struct tidegate_frame *frames, uint16_t count,
                   struct rte_mempool *pool) {
    struct rte_mbuf *fresh[TIDEGATE_BURST];
    uint16_t copies = 0, next = 0;
    for (uint16_t i = 0; i < count; i++)
        copies += frames[i].buffer == NULL;
    int is_short = copies > 0 && rte_pktmbuf_alloc_bulk(pool, fresh, copies) != 0;
    for (uint16_t i = 0; i < count; i++) {
        if (frames[i].buffer == NULL) {
            mbufs[i] = is_short ? NULL : fresh[next++];
            continue;
        }
        struct rte_mbuf *mbuf = mbuf_of(frames[i].buffer);
        mbuf->data_off = (uint16_t)frames[i].start;
        mbuf->data_len = (uint16_t)frames[i].len;
        mbuf->pkt_len = frames[i].len;
        mbuf->ol_flags = 0;
        mbufs[i] = mbuf;
    }
    if (is_short)
        /* Nulls are left out. */
        rte_pktmbuf_free_bulk(mbufs, count);
    return !is_short;
}

uint16_t tidegate_dpdk_send(uint16_t port, uint16_t queue, void *pool,
                            const struct tidegate_frame *frames, uint16_t count,
                            uint16_t retries, uint16_t *refused) {
    struct rte_mbuf *mbufs[TIDEGATE_BURST];
    know_thread();
    *refused = 0;
    if (count > TIDEGATE_BURST || !collect(mbufs, frames, count, pool))
        return 0;
    uint32_t flags = 0;
    uint16_t ready = 0, sent = 0;
    for (; ready < count; ready++) {
        const struct tidegate_frame *frame = &frames[ready];
        if (frame->buffer == NULL && !fill(mbufs[ready], frame, pool))
            break;
        if (frame->flags != 0)
            describe(mbufs[ready], frame);
        flags |= frame->flags;
    }
    uint16_t good = ready;
    if (flags != 0) {
        good = rte_eth_tx_prepare(port, queue, mbufs, ready);
        *refused = ready - good;
    }
    for (uint16_t attempt = 0; sent < good && attempt <= retries; attempt++) {
        uint16_t more = rte_eth_tx_burst(port, queue, mbufs + sent, good - sent);
        sent += more;
        if (more == 0)
            break;
    }
    if (sent < count)
        rte_pktmbuf_free_bulk(mbufs + sent, count - sent);
    return sent;
}
