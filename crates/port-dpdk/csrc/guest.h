/* Guests behind vhost-user, as far as packets are concerned. */
#ifndef TIDEGATE_DPDK_GUEST_H
#define TIDEGATE_DPDK_GUEST_H

#include "shim.h"

#include <rte_ethdev.h>
#include <rte_mbuf.h>

struct guest;

/* The guests of ports; null for ports that are none of vhost-user. Written while no thread sends to a
 * port or receives from it. */
extern struct guest *tidegate_guests[RTE_MAX_ETHPORTS];

/* From now on queues are told of guests, as DPDK gives 0 or an error. */
int tidegate_watch_guests(void);
/* A port that was set up takes guests now, with so many queues at most in each direction. */
int tidegate_expect_guest(uint16_t port, uint16_t rx_queues, uint16_t tx_queues,
                          struct rte_mempool *pool);
/* A port takes none any more; no thread is at its queues. */
void tidegate_forget_guest(uint16_t port);

/* Adds what was counted here to what the driver counted. */
void tidegate_count_guest(uint16_t port, struct tidegate_counters *counters);
/* What is to be added to one of the driver's counters, by its name. */
uint64_t tidegate_guest_counter(uint16_t port, const char *name);

/* As rte_eth_rx_burst. */
uint16_t tidegate_receive_from_guest(struct guest *guest, uint16_t queue, struct rte_mbuf **mbufs,
                                     uint16_t room);
/* Gives how many of the first ones the guest took, which is offered what is left `retries` times. All
 * of them stay the caller's. */
uint16_t tidegate_send_to_guest(struct guest *guest, uint16_t queue, struct rte_mbuf **mbufs,
                                uint16_t count, uint16_t retries);

#endif
