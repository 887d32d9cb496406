/* Devices: found, set up, asked, closed. Only the control thread calls these. */
#include "shim.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_bus.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_ether.h>
#include <rte_mbuf.h>

#include "internal.h"

/* The offloads that src/setup.rs names by their bits. */
_Static_assert(RTE_ETH_RX_OFFLOAD_UDP_CKSUM == 1 << 2, "src/setup.rs says otherwise");
_Static_assert(RTE_ETH_RX_OFFLOAD_TCP_CKSUM == 1 << 3, "src/setup.rs says otherwise");
_Static_assert(RTE_ETH_RX_OFFLOAD_SCATTER == 1 << 13, "src/setup.rs says otherwise");
_Static_assert(RTE_ETH_TX_OFFLOAD_IPV4_CKSUM == 1 << 1, "src/setup.rs says otherwise");
_Static_assert(RTE_ETH_TX_OFFLOAD_UDP_CKSUM == 1 << 2, "src/setup.rs says otherwise");
_Static_assert(RTE_ETH_TX_OFFLOAD_TCP_CKSUM == 1 << 3, "src/setup.rs says otherwise");
_Static_assert(RTE_ETH_TX_OFFLOAD_TCP_TSO == 1 << 5, "src/setup.rs says otherwise");
_Static_assert(RTE_ETH_TX_OFFLOAD_MULTI_SEGS == 1 << 15, "src/setup.rs says otherwise");

static const char BY_MAC[] = "class=eth,mac=";

static int find_by_mac(const char *text, uint16_t *port) {
    struct rte_ether_addr wanted, has;
    uint16_t each;
    if (rte_ether_unformat_addr(text, &wanted) != 0)
        return -EINVAL;
    RTE_ETH_FOREACH_DEV(each) {
        if (rte_eth_macaddr_get(each, &has) == 0 && rte_is_same_ether_addr(&wanted, &has)) {
            *port = each;
            return 0;
        }
    }
    return -ENODEV;
}

static int find_matching(const char *devargs, uint16_t *port) {
    struct rte_dev_iterator iterator;
    uint16_t each;
    RTE_ETH_FOREACH_MATCHING_DEV(each, devargs, &iterator) {
        rte_eth_iterator_cleanup(&iterator);
        *port = each;
        return 0;
    }
    return -ENODEV;
}

int tidegate_dpdk_find(const char *devargs, uint16_t *port, uint8_t *attached) {
    *attached = 0;
    if (strncmp(devargs, BY_MAC, sizeof BY_MAC - 1) == 0)
        return find_by_mac(devargs + sizeof BY_MAC - 1, port);
    if (find_matching(devargs, port) == 0)
        return 0;
    int error = rte_dev_probe(devargs);
    if (error != 0)
        return error < 0 ? error : -error;
    *attached = 1;
    return find_matching(devargs, port);
}

static void copy_text(char *to, size_t room, const char *from) {
    snprintf(to, room, "%s", from != NULL ? from : "");
}

int tidegate_dpdk_facts(uint16_t port, struct tidegate_facts *facts) {
    struct rte_eth_dev_info info;
    struct rte_ether_addr mac;
    struct rte_eth_link link;
    memset(facts, 0, sizeof *facts);
    int error = rte_eth_dev_info_get(port, &info);
    if (error != 0)
        return error;
    facts->rx_offloads = info.rx_offload_capa;
    facts->tx_offloads = info.tx_offload_capa;
    facts->rss_types =
        info.flow_type_rss_offloads & (RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP);
    facts->min_rx_buffer = info.min_rx_bufsize;
    facts->max_rx_bytes = info.max_rx_pktlen;
    facts->max_mac_addresses = info.max_mac_addrs;
    facts->numa = rte_eth_dev_socket_id(port);
    facts->max_rx_queues = info.max_rx_queues;
    facts->max_tx_queues = info.max_tx_queues;
    facts->min_mtu = info.min_mtu;
    facts->max_mtu = info.max_mtu;
    rte_eth_dev_get_mtu(port, &facts->mtu);
    if (rte_eth_macaddr_get(port, &mac) == 0)
        memcpy(facts->mac, mac.addr_bytes, sizeof facts->mac);
    if (rte_eth_link_get_nowait(port, &link) == 0) {
        facts->link_up = link.link_status == RTE_ETH_LINK_UP;
        facts->full_duplex = link.link_duplex == RTE_ETH_LINK_FULL_DUPLEX;
        facts->link_mbps = link.link_speed == RTE_ETH_SPEED_NUM_UNKNOWN ? 0 : link.link_speed;
    }
    copy_text(facts->driver, sizeof facts->driver, info.driver_name);
    if (info.device != NULL) {
        copy_text(facts->bus, sizeof facts->bus, rte_bus_name(rte_dev_bus(info.device)));
        copy_text(facts->bus_info, sizeof facts->bus_info, rte_dev_bus_info(info.device));
    }
    return 0;
}

/* Sets up queues of one direction; where a device takes fewer than it said, as some do, the number
 * is written back and the caller begins again. */
static int set_up_queues(uint16_t port, struct tidegate_setup *setup, int *again) {
    int numa = rte_eth_dev_socket_id(port);
    unsigned int socket = numa < 0 ? 0 : (unsigned int)numa;
    for (uint16_t queue = 0; queue < setup->tx_queues; queue++) {
        int error = rte_eth_tx_queue_setup(port, queue, setup->tx_descriptors, socket, NULL);
        if (error != 0) {
            setup->failed_step = TIDEGATE_STEP_TX_QUEUE;
            *again = queue > 0;
            setup->tx_queues = queue;
            return error;
        }
    }
    for (uint16_t queue = 0; queue < setup->rx_queues; queue++) {
        int error =
            rte_eth_rx_queue_setup(port, queue, setup->rx_descriptors, socket, NULL, setup->pool);
        if (error != 0) {
            setup->failed_step = TIDEGATE_STEP_RX_QUEUE;
            *again = queue > 0;
            setup->rx_queues = queue;
            return error;
        }
    }
    return 0;
}

static int configure(uint16_t port, struct tidegate_setup *setup, int *again) {
    struct rte_eth_conf conf;
    memset(&conf, 0, sizeof conf);
    *again = 0;
    conf.rxmode.offloads = setup->rx_offloads;
    conf.txmode.offloads = setup->tx_offloads;
    conf.intr_conf.lsc = setup->watches_link;
    if (setup->rx_queues > 1 && setup->rss_types != 0) {
        conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
        conf.rx_adv_conf.rss_conf.rss_hf = setup->rss_types;
    }
    setup->failed_step = TIDEGATE_STEP_CONFIGURE;
    int error = rte_eth_dev_configure(port, setup->rx_queues, setup->tx_queues, &conf);
    if (error != 0)
        return error;
    setup->failed_step = TIDEGATE_STEP_MTU;
    if (setup->mtu != 0 && (error = rte_eth_dev_set_mtu(port, setup->mtu)) != 0)
        return error;
    error = rte_eth_dev_adjust_nb_rx_tx_desc(port, &setup->rx_descriptors, &setup->tx_descriptors);
    if (error != 0 && error != -ENOTSUP)
        return error;
    return set_up_queues(port, setup, again);
}

/* Some drivers deliver marks of rules only if asked for them before the port is set up for the first time. */
static void ask_for_marks(uint16_t port) {
    struct rte_eth_dev_info info;
    uint64_t metadata = RTE_ETH_RX_METADATA_USER_MARK;
    if (rte_eth_dev_info_get(port, &info) == 0 && info.nb_rx_queues == 0)
        rte_eth_rx_metadata_negotiate(port, &metadata);
}

int tidegate_dpdk_configure(uint16_t port, struct tidegate_setup *setup) {
    ask_for_marks(port);
    int again, error = rte_eth_dev_stop(port);
    setup->failed_step = TIDEGATE_STEP_STOP;
    if (error != 0 && error != -ENOTSUP)
        return error;
    do
        error = configure(port, setup, &again);
    while (error != 0 && again);
    if (error != 0)
        return error;
    setup->failed_step = TIDEGATE_STEP_START;
    error = rte_eth_dev_start(port);
    if (error != 0)
        return error;
    /* The switch forwards what is not addressed to it. A device that can't has no other mode. */
    rte_eth_promiscuous_enable(port);
    rte_eth_allmulticast_enable(port);
    __atomic_store_n(&tidegate_removed[port], 0, __ATOMIC_RELEASE);
    return 0;
}

int tidegate_dpdk_set_up(uint16_t port, int up) {
    return up ? rte_eth_dev_set_link_up(port) : rte_eth_dev_set_link_down(port);
}

void tidegate_dpdk_close(uint16_t port, int attached) {
    struct rte_eth_dev_info info;
    rte_eth_dev_stop(port);
    if (!attached)
        return;
    struct rte_device *device = rte_eth_dev_info_get(port, &info) == 0 ? info.device : NULL;
    rte_eth_dev_close(port);
    if (device != NULL)
        rte_dev_remove(device);
}

int tidegate_dpdk_counters(uint16_t port, struct tidegate_counters *counters) {
    struct rte_eth_stats stats;
    int error = rte_eth_stats_get(port, &stats);
    if (error != 0)
        return error;
    *counters = (struct tidegate_counters){
        .rx_packets = stats.ipackets,
        .tx_packets = stats.opackets,
        .rx_bytes = stats.ibytes,
        .tx_bytes = stats.obytes,
        .rx_missed = stats.imissed,
        .rx_errors = stats.ierrors,
        .tx_errors = stats.oerrors,
        .rx_no_buffer = stats.rx_nombuf,
    };
    return 0;
}

int tidegate_dpdk_named_counters(uint16_t port, struct tidegate_named_counter *out, uint32_t room) {
    int count = rte_eth_xstats_get_names(port, NULL, 0);
    if (count <= 0 || room == 0)
        return count;
    struct rte_eth_xstat_name *names = calloc((size_t)count, sizeof *names);
    struct rte_eth_xstat *values = calloc((size_t)count, sizeof *values);
    int read = -ENOMEM;
    if (names != NULL && values != NULL &&
        rte_eth_xstats_get_names(port, names, (unsigned int)count) == count)
        read = rte_eth_xstats_get(port, values, (unsigned int)count);
    uint32_t written = 0;
    for (int i = 0; i < read && i < count && written < room; i++) {
        if (values[i].id >= (uint64_t)count)
            continue;
        copy_text(out[written].name, sizeof out->name, names[values[i].id].name);
        out[written].value = values[i].value;
        written++;
    }
    free(names);
    free(values);
    return read < 0 ? read : (int)written;
}

static void make_head(struct rte_mempool *pool, void *head, void *mbuf, unsigned int index) {
    (void)pool, (void)index;
    memcpy((struct rte_mbuf *)mbuf + 1, head, sizeof(struct tidegate_head));
}

void *tidegate_dpdk_pool(const char *name, uint32_t buffers, uint16_t data_bytes, int numa,
                         const struct tidegate_head *head) {
    struct rte_mempool *pool = rte_pktmbuf_pool_create(name, buffers, RTE_MEMPOOL_CACHE_MAX_SIZE,
                                                       sizeof *head, data_bytes, numa);
    struct tidegate_head copy = *head;
    if (pool != NULL)
        rte_mempool_obj_iter(pool, make_head, &copy);
    return pool;
}
