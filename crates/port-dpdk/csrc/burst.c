/* Packets in and out, one burst per call. Workers call these. */
#include "shim.h"

#include <stddef.h>
#include <string.h>

#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_memcpy.h>
#include <rte_prefetch.h>

#include "internal.h"

static struct rte_mbuf *mbuf_of(struct tidegate_head *head) {
    return (struct rte_mbuf *)(void *)head - 1;
}

_Static_assert(offsetof(struct rte_mbuf, nb_segs) == offsetof(struct rte_mbuf, refcnt) + 2,
               "head_of reads both at once");

/* Fills in the head of a packet that may keep its buffer: one that is in no chain, that no other owner
 * has, and that came from a pool with heads. */
static struct tidegate_head *head_of(struct rte_mbuf *mbuf) {
    static const uint16_t ONE_EACH[2] = {1, 1};
    struct tidegate_head *head = (void *)(mbuf + 1);
    int is_plain = memcmp(&mbuf->refcnt, ONE_EACH, sizeof ONE_EACH) == 0 &&
                   mbuf->buf_addr == (void *)(head + 1) && RTE_MBUF_DIRECT(mbuf);
    if (!is_plain)
        return NULL;
    uint32_t start = RTE_MIN(mbuf->data_off, mbuf->buf_len);
    head->start = (uint32_t)sizeof *head + start;
    head->len = RTE_MIN((uint32_t)mbuf->data_len, mbuf->buf_len - start);
    return head;
}

static uint8_t checksum_of(uint64_t flags) {
    switch (flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) {
    case RTE_MBUF_F_RX_L4_CKSUM_GOOD:
        return TIDEGATE_CHECKSUM_GOOD;
    case RTE_MBUF_F_RX_L4_CKSUM_NONE:
        return TIDEGATE_CHECKSUM_PARTIAL;
    default:
        /* A wrong one is for a reader that relies on it to find. */
        return TIDEGATE_CHECKSUM_UNKNOWN;
    }
}

/* Whether a device said anything of a packet. */
#define SAID                                                                                       \
    (RTE_MBUF_F_RX_LRO | RTE_MBUF_F_RX_VLAN_STRIPPED | RTE_MBUF_F_RX_L4_CKSUM_GOOD |               \
     RTE_MBUF_F_RX_L4_CKSUM_NONE)

int tidegate_dpdk_receive(uint16_t port, uint16_t queue, struct tidegate_head **heads,
                          struct tidegate_received *others, uint16_t room, uint16_t *other_count) {
    struct rte_mbuf **mbufs = (struct rte_mbuf **)heads;
    uint16_t other = 0;
    know_thread();
    if (__atomic_load_n(&tidegate_removed[port], __ATOMIC_ACQUIRE))
        return -1;
    uint16_t count = rte_eth_rx_burst(port, queue, mbufs, room);
    for (uint16_t i = 0; i < count; i++)
        rte_prefetch0(rte_pktmbuf_mtod(mbufs[i], void *));
    for (uint16_t i = 0; i < count; i++) {
        struct rte_mbuf *mbuf = mbufs[i];
        uint64_t flags = mbuf->ol_flags;
        struct tidegate_head *head = head_of(mbuf);
        heads[i] = head;
        if (likely(head != NULL))
            head->mark = (flags & RTE_MBUF_F_RX_FDIR_ID) ? mbuf->hash.fdir.hi : 0;
        if (likely(head != NULL && (flags & SAID) == 0))
            continue;
        heads[i] = NULL;
        others[other++] = (struct tidegate_received){
            .data = rte_pktmbuf_mtod(mbuf, const uint8_t *),
            .head = head,
            .mbuf = mbuf,
            .first = mbuf->data_len,
            .total = mbuf->pkt_len,
            .segment_bytes = (flags & RTE_MBUF_F_RX_LRO) ? mbuf->tso_segsz : 0,
            .vlan_tci = mbuf->vlan_tci,
            .place = i,
            .checksum = checksum_of(flags),
            .has_vlan = (flags & RTE_MBUF_F_RX_VLAN_STRIPPED) != 0,
        };
    }
    *other_count = other;
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

void tidegate_dpdk_take_back(struct tidegate_head *head) { rte_pktmbuf_free(mbuf_of(head)); }

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

/* The mbuf of a kept buffer, which says where the frame lies now. */
static struct rte_mbuf *ready_mbuf(struct tidegate_head *head) {
    struct rte_mbuf *mbuf = mbuf_of(head);
    mbuf->data_off = (uint16_t)(head->start - sizeof *head);
    mbuf->data_len = (uint16_t)head->len;
    mbuf->pkt_len = head->len;
    mbuf->ol_flags = 0;
    return mbuf;
}

/* Collects the mbufs of a burst: those that were received and kept, new ones for the others. If there are
 * not enough, frees all of them and returns 0. */
static int collect(struct rte_mbuf **mbufs, const struct tidegate_frame *frames, uint16_t count,
                   struct rte_mempool *pool) {
    struct rte_mbuf *fresh[TIDEGATE_BURST];
    uint16_t copies = 0, next = 0;
    for (uint16_t i = 0; i < count; i++)
        copies += frames[i].head == NULL;
    int is_short = copies > 0 && rte_pktmbuf_alloc_bulk(pool, fresh, copies) != 0;
    for (uint16_t i = 0; i < count; i++) {
        if (frames[i].head == NULL)
            mbufs[i] = is_short ? NULL : fresh[next++];
        else
            mbufs[i] = ready_mbuf(frames[i].head);
    }
    if (is_short)
        /* Nulls are left out. */
        rte_pktmbuf_free_bulk(mbufs, count);
    return !is_short;
}

/* Gives buffers back that were kept and that have no other owner. They are as their pool wants them, since
 * only such are kept (head_of). */
static void give_back_kept(struct rte_mbuf **mbufs, uint16_t count) {
    for (uint16_t first = 0, end = 0; first < count; first = end) {
        struct rte_mempool *pool = mbufs[first]->pool;
        while (end < count && mbufs[end]->pool == pool)
            end++;
        rte_mempool_put_bulk(pool, (void **)mbufs + first, end - first);
    }
}

uint16_t tidegate_dpdk_send_kept(uint16_t port, uint16_t queue, struct tidegate_head *const *heads,
                                 uint16_t count, uint64_t *unsent) {
    struct rte_mbuf *mbufs[TIDEGATE_BURST];
    know_thread();
    count = RTE_MIN(count, TIDEGATE_BURST);
    for (uint16_t i = 0; i < count; i++)
        mbufs[i] = ready_mbuf(heads[i]);
    uint16_t sent = rte_eth_tx_burst(port, queue, mbufs, count);
    *unsent = 0;
    for (uint16_t i = sent; i < count; i++)
        *unsent += mbufs[i]->pkt_len;
    give_back_kept(mbufs + sent, count - sent);
    return sent;
}

uint16_t tidegate_dpdk_send(uint16_t port, uint16_t queue, void *pool,
                            const struct tidegate_frame *frames, uint16_t count,
                            uint16_t *refused) {
    struct rte_mbuf *mbufs[TIDEGATE_BURST];
    know_thread();
    *refused = 0;
    if (count > TIDEGATE_BURST || !collect(mbufs, frames, count, pool))
        return 0;
    uint32_t flags = 0;
    uint16_t ready = 0;
    for (; ready < count; ready++) {
        const struct tidegate_frame *frame = &frames[ready];
        if (frame->head == NULL && !fill(mbufs[ready], frame, pool))
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
    uint16_t sent = rte_eth_tx_burst(port, queue, mbufs, good);
    if (sent < count)
        rte_pktmbuf_free_bulk(mbufs + sent, count - sent);
    return sent;
}
