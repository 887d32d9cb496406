/* What the files of the shim share. */
#ifndef TIDEGATE_DPDK_INTERNAL_H
#define TIDEGATE_DPDK_INTERNAL_H

#include <stdint.h>

extern uint8_t tidegate_removed[];
extern __thread int tidegate_thread_is_known;

void tidegate_know_thread(void);

/* Gives the calling thread a number with DPDK, so that it has buffer caches of its own. */
static inline void know_thread(void) {
    if (__builtin_expect(!tidegate_thread_is_known, 0))
        tidegate_know_thread();
}

#endif
