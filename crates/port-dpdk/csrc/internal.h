/* What the files of the shim share. */
#ifndef TIDEGATE_DPDK_INTERNAL_H
#define TIDEGATE_DPDK_INTERNAL_H

#include <stdint.h>

extern uint8_t tidegate_removed[];
extern __thread int tidegate_thread_is_known;

struct rte_flow_error;

void tidegate_know_thread(void);

/* Copies what a device says of an error, and gives the error. */
int tidegate_told(int error, const struct rte_flow_error *why, char *words);
/* The port through which rules of a device's switch are made (rte_flow_pick_transfer_proxy). */
uint16_t tidegate_proxy_of(uint16_t port);

/* Gives the calling thread a number with DPDK, so that it has buffer caches of its own. */
static inline void know_thread(void) {
    if (__builtin_expect(!tidegate_thread_is_known, 0))
        tidegate_know_thread();
}

#endif
