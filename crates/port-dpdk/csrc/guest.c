/* Guests behind vhost-user. DPDK's driver net_vhost makes their devices, listens to them and answers
 * questions; packets go past it, between a worker and the vhost library, as Open vSwitch's do
 * (lib/netdev-dpdk.c). The driver would look at each packet twice more, and give back buffers that
 * were sent one by one. What a device has to do to packets before they are sent, it does still. */
#include "guest.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_eth_vhost.h>
#include <rte_pause.h>
#include <rte_vhost.h>

/* The rings of a queue, by their numbers modulo 2 (VIRTIO 1.1 section 5.1.2). */
enum { GUEST_RECEIVES, GUEST_SENDS };

/* The fewest that a guest is asked for: as many as DPDK takes at once from a packed ring. */
#define LEAST 4

/* A ring, and who is at it. One thread at a time sends, and one receives; different ones write to no
 * line in common, nor to a pair of lines that a processor fetches together. */
struct guest_ring {
    int vid;     /* the library's number of the guest, or -1 */
    int is_busy; /* a thread may be at it */
    uint16_t likely_count; /* how many packets the next look will likely find */
    uint16_t stand_in;     /* the queue that the guest receives from in place of this one */
    uint64_t packets, bytes;
} __rte_aligned(2 * RTE_CACHE_LINE_SIZE);

struct guest {
    struct rte_mempool *pool;
    uint16_t count;
    uint16_t send_queues;
    struct guest_ring rings[];
};

struct guest *tidegate_guests[RTE_MAX_ETHPORTS];

/* Which queues the guest of a port receives from: the driver tells of changes alone, and a guest stays
 * when its port is set up anew. */
static uint8_t receives_from[RTE_MAX_ETHPORTS][RTE_MAX_QUEUES_PER_PORT];

/* Held by the thread that sets a port up or tells its rings of a guest. */
static pthread_mutex_t guests_lock = PTHREAD_MUTEX_INITIALIZER;

static void hear_of_queues(uint16_t port) {
    struct rte_eth_vhost_queue_event event;
    while (rte_eth_vhost_get_queue_event(port, &event) == 0)
        if (!event.rx)
            receives_from[port][event.queue_id] = event.enable;
}

/* A guest may receive from fewer queues than there are, and from which it says when it runs: what
 * would go to the rest goes to these in turn. */
static void choose_stand_ins(uint16_t port, struct guest *guest) {
    uint16_t open[RTE_MAX_QUEUES_PER_PORT], open_count = 0;
    for (uint16_t queue = 0; queue < guest->send_queues; queue++)
        if (receives_from[port][queue])
            open[open_count++] = queue;
    for (uint16_t queue = 0; queue < guest->send_queues; queue++) {
        int is_closed = open_count > 0 && !receives_from[port][queue];
        uint16_t stand_in = is_closed ? open[queue % open_count] : queue;
        uint16_t *place = &guest->rings[2 * queue + GUEST_RECEIVES].stand_in;
        __atomic_store_n(place, stand_in, __ATOMIC_RELAXED);
    }
}

/* Tells the rings of a port which guest is there. When this returns, no thread is at the rings of another,
 * so that the library may forget it. Called with the lock held. */
static void tell_rings(uint16_t port, int may_have_guest) {
    struct guest *guest = tidegate_guests[port];
    if (guest == NULL)
        return;
    int vid = may_have_guest ? rte_eth_vhost_get_vid_from_port_id(port) : -1;
    /* The library logs an error for each look at a ring that the guest has not. */
    uint16_t has = vid < 0 ? 0 : rte_vhost_get_vring_num(vid);
    for (uint16_t i = 0; i < guest->count; i++) {
        struct guest_ring *ring = &guest->rings[i];
        int now = i < has ? vid : -1;
        int before = __atomic_exchange_n(&ring->vid, now, __ATOMIC_SEQ_CST);
        /* For a ring that no guest had, no thread is waited for: who is at it is at the new guest's, and may
         * wait for a lock that the library holds while it calls the driver. */
        int must_leave = before >= 0 && before != now;
        while (must_leave && __atomic_load_n(&ring->is_busy, __ATOMIC_SEQ_CST))
            rte_pause();
    }
    choose_stand_ins(port, guest);
}

/* The driver calls this on the library's thread: when a guest has come, before it is forgotten, and
 * when it turned a ring on or off, of which there may be more than before. */
static int guest_changed(uint16_t port, enum rte_eth_event_type event, void *cookie, void *result) {
    (void)cookie, (void)result;
    pthread_mutex_lock(&guests_lock);
    hear_of_queues(port);
    /* Queues are told of before their guest is there, and all are forgotten with it. */
    if (event == RTE_ETH_EVENT_INTR_LSC && rte_eth_vhost_get_vid_from_port_id(port) < 0)
        memset(receives_from[port], 0, sizeof receives_from[port]);
    tell_rings(port, 1);
    pthread_mutex_unlock(&guests_lock);
    return 0;
}

int tidegate_watch_guests(void) {
    int error = rte_eth_dev_callback_register(RTE_ETH_ALL, RTE_ETH_EVENT_INTR_LSC, guest_changed,
                                              NULL);
    if (error != 0)
        return error;
    return rte_eth_dev_callback_register(RTE_ETH_ALL, RTE_ETH_EVENT_QUEUE_STATE, guest_changed,
                                         NULL);
}

int tidegate_expect_guest(uint16_t port, uint16_t rx_queues, uint16_t tx_queues,
                          struct rte_mempool *pool) {
    uint16_t count = 2 * RTE_MAX(rx_queues, tx_queues);
    struct guest *guest = NULL;
    size_t bytes = sizeof *guest + count * sizeof guest->rings[0];
    if (posix_memalign((void **)&guest, _Alignof(struct guest), bytes) != 0)
        return -ENOMEM;
    memset(guest, 0, bytes);
    guest->pool = pool;
    guest->count = count;
    guest->send_queues = tx_queues;
    for (uint16_t i = 0; i < count; i++) {
        guest->rings[i].vid = -1;
        guest->rings[i].likely_count = TIDEGATE_BURST;
    }
    pthread_mutex_lock(&guests_lock);
    tidegate_guests[port] = guest;
    hear_of_queues(port);
    /* It may have come while the device was started. */
    tell_rings(port, 1);
    pthread_mutex_unlock(&guests_lock);
    return 0;
}

void tidegate_forget_guest(uint16_t port) {
    pthread_mutex_lock(&guests_lock);
    tell_rings(port, 0);
    free(tidegate_guests[port]);
    tidegate_guests[port] = NULL;
    pthread_mutex_unlock(&guests_lock);
}

static uint64_t read_counter(const uint64_t *counter) {
    return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

void tidegate_count_guest(uint16_t port, struct tidegate_counters *counters) {
    const struct guest *guest = tidegate_guests[port];
    for (uint16_t i = 0; guest != NULL && i < guest->count; i++) {
        const struct guest_ring *ring = &guest->rings[i];
        int is_rx = i % 2 == GUEST_SENDS;
        *(is_rx ? &counters->rx_packets : &counters->tx_packets) += read_counter(&ring->packets);
        *(is_rx ? &counters->rx_bytes : &counters->tx_bytes) += read_counter(&ring->bytes);
    }
}

uint64_t tidegate_guest_counter(uint16_t port, const char *name) {
    const struct guest *guest = tidegate_guests[port];
    unsigned int queue;
    char direction, what[16];
    if (guest == NULL || sscanf(name, "%cx_q%u_%15s", &direction, &queue, what) != 3 ||
        queue >= guest->count / 2u)
        return 0;
    const struct guest_ring *ring =
        &guest->rings[2 * queue + (direction == 'r' ? GUEST_SENDS : GUEST_RECEIVES)];
    if (strcmp(what, "packets") == 0)
        return read_counter(&ring->packets);
    return strcmp(what, "bytes") == 0 ? read_counter(&ring->bytes) : 0;
}

/* Goes to a ring; gives its guest's number, or -1 where none is there. Either this thread sees that
 * the guest has gone, or the thread that tells so sees that it is here. */
static int enter(struct guest_ring *ring) {
    if (__atomic_load_n(&ring->vid, __ATOMIC_RELAXED) < 0)
        return -1;
    __atomic_store_n(&ring->is_busy, 1, __ATOMIC_SEQ_CST);
    int vid = __atomic_load_n(&ring->vid, __ATOMIC_SEQ_CST);
    if (unlikely(vid < 0))
        __atomic_store_n(&ring->is_busy, 0, __ATOMIC_RELEASE);
    return vid;
}

/* Goes away again, and counts what was done; only this thread writes there. */
static void leave(struct guest_ring *ring, struct rte_mbuf **mbufs, uint16_t count) {
    __atomic_store_n(&ring->is_busy, 0, __ATOMIC_RELEASE);
    if (count == 0)
        return;
    uint64_t bytes = ring->bytes;
    for (uint16_t i = 0; i < count; i++)
        bytes += mbufs[i]->pkt_len;
    __atomic_store_n(&ring->bytes, bytes, __ATOMIC_RELAXED);
    __atomic_store_n(&ring->packets, ring->packets + count, __ATOMIC_RELAXED);
}

/* A burst is asked for in steps that begin a little above what came the last times. Of a packed ring,
 * DPDK's vhost library takes a buffer for each packet that it is asked for before it looks whether
 * there is one, and gives back those that it did not need: where few come at a time, a look for a
 * whole burst costs more than the packets that it finds. */
uint16_t tidegate_receive_from_guest(struct guest *guest, uint16_t queue, struct rte_mbuf **mbufs,
                                     uint16_t room) {
    uint16_t number = 2 * queue + GUEST_SENDS, count = 0, got;
    struct guest_ring *ring = &guest->rings[number];
    uint16_t asked = RTE_MIN(ring->likely_count, room);
    int vid = enter(ring);
    if (vid < 0)
        return 0;
    for (;;) {
        got = rte_vhost_dequeue_burst(vid, number, guest->pool, mbufs + count, asked);
        count += got;
        if (got < asked || count == room)
            break;
        /* There may be more: as many again, so that few steps lead to a whole burst. */
        asked = RTE_MIN(count, room - count);
    }
    leave(ring, mbufs, count);
    uint16_t next = RTE_ALIGN_CEIL(count + 1, LEAST);
    ring->likely_count = RTE_MIN(RTE_MAX(next, ring->likely_count / 2), TIDEGATE_BURST);
    return count;
}

uint16_t tidegate_dpdk_send_queue(uint16_t port, uint16_t queue) {
    const struct guest *guest = tidegate_guests[port];
    if (guest == NULL)
        return queue;
    return __atomic_load_n(&guest->rings[2 * queue + GUEST_RECEIVES].stand_in, __ATOMIC_RELAXED);
}

uint16_t tidegate_send_to_guest(struct guest *guest, uint16_t queue, struct rte_mbuf **mbufs,
                                uint16_t count, uint16_t retries) {
    uint16_t number = 2 * queue + GUEST_RECEIVES, sent = 0;
    struct guest_ring *ring = &guest->rings[number];
    int vid = enter(ring);
    if (vid < 0)
        return 0;
    for (uint16_t attempt = 0; sent < count && attempt <= retries; attempt++) {
        uint16_t more = rte_vhost_enqueue_burst(vid, number, mbufs + sent, count - sent);
        sent += more;
        if (more == 0)
            break;
    }
    leave(ring, mbufs, sent);
    return sent;
}
