/* DPDK's start, its log, and the threads that use it. */
#define _GNU_SOURCE
#include "shim.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_log.h>
#include <rte_version.h>

#include "internal.h"

static tidegate_log *log_line;

/* Whether a port's device was pulled out. Written by DPDK's interrupt thread. */
uint8_t tidegate_removed[RTE_MAX_ETHPORTS];

static ssize_t write_log(void *cookie, const char *text, size_t bytes) {
    (void)cookie;
    log_line(rte_log_cur_msg_loglevel(), text, bytes);
    return (ssize_t)bytes;
}

static int device_removed(uint16_t port, enum rte_eth_event_type event, void *cookie, void *result) {
    (void)event, (void)cookie, (void)result;
    __atomic_store_n(&tidegate_removed[port], 1, __ATOMIC_RELEASE);
    return 0;
}

int tidegate_dpdk_start(int argc, char **argv, tidegate_log *log) {
    log_line = log;
    FILE *stream = fopencookie(NULL, "w", (cookie_io_functions_t){.write = write_log});
    if (stream != NULL) {
        setlinebuf(stream);
        rte_openlog_stream(stream);
    }
    /* The call ties its thread to one processor. That thread is the switch's own. */
    cpu_set_t cpus;
    int known = pthread_getaffinity_np(pthread_self(), sizeof cpus, &cpus);
    rte_errno = 0;
    int started = rte_eal_init(argc, argv);
    int error = rte_errno;
    if (known == 0)
        pthread_setaffinity_np(pthread_self(), sizeof cpus, &cpus);
    if (started < 0)
        return error > 0 ? -error : -EINVAL;
    /* Threads that are not DPDK's own get numbers only while no other process may join. */
    if (!rte_mp_disable())
        return -EBUSY;
    rte_eth_dev_callback_register(RTE_ETH_ALL, RTE_ETH_EVENT_INTR_RMV, device_removed, NULL);
    return 0;
}

const char *tidegate_dpdk_version(void) { return rte_version(); }

__thread int tidegate_thread_is_known;
static pthread_key_t thread_end;
static pthread_once_t thread_end_once = PTHREAD_ONCE_INIT;

static void forget_thread(void *known) {
    (void)known;
    rte_thread_unregister();
}

static void make_thread_end(void) { pthread_key_create(&thread_end, forget_thread); }

void tidegate_know_thread(void) {
    tidegate_thread_is_known = 1;
    /* Without a number a thread works too, but takes every buffer from the shared part of its
     * pool. There are numbers for 128 threads. */
    if (rte_lcore_id() != LCORE_ID_ANY || rte_thread_register() != 0)
        return;
    pthread_once(&thread_end_once, make_thread_end);
    pthread_setspecific(thread_end, &tidegate_thread_is_known);
}
