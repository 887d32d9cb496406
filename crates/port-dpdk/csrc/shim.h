/* What Rust asks of DPDK. Most of DPDK's fast path is inline functions, which only C can call, and
 * its structures differ between releases; so Rust sees the plain structures of this file and
 * nothing else. src/ffi.rs declares the same by hand; both sides assert the sizes. */
#ifndef TIDEGATE_DPDK_SHIM_H
#define TIDEGATE_DPDK_SHIM_H

#include <stddef.h>
#include <stdint.h>

/* Packets in one call; a batch of the datapath. */
#define TIDEGATE_BURST 32

/* What is known of a received packet's transport checksum. */
enum { TIDEGATE_CHECKSUM_UNKNOWN, TIDEGATE_CHECKSUM_GOOD, TIDEGATE_CHECKSUM_PARTIAL };

/* What a device is to do to a packet that is sent, as bits. */
enum { TIDEGATE_SEND_TCP = 1, TIDEGATE_SEND_UDP = 2, TIDEGATE_SEND_IPV6 = 4, TIDEGATE_SEND_CUT = 8 };

/* What stands in front of a packet's bytes, as far as C fills it in: packet's Head. It lies in the
 * private part of the mbuf, right behind it and right before the buffer. */
struct tidegate_head {
    uint32_t start;         /* where the frame begins, in bytes from the head */
    uint32_t len;
    uint32_t mark;          /* of a rule with the action MARK; 0 for none */
    uint32_t others[13];    /* Rust's own */
};
_Static_assert(sizeof(struct tidegate_head) == 64, "packet's head.rs says otherwise");

/* A received packet of which there is more to say than its head does. Its bytes stay where they
 * are until its mbuf is released. */
struct tidegate_received {
    const uint8_t *data;    /* the first `first` bytes of it */
    struct tidegate_head *head; /* not null: filled in; the packet may keep its buffer */
    void *mbuf;
    uint32_t first;
    uint32_t total;         /* more than `first` where it is a chain of buffers */
    uint16_t segment_bytes; /* not 0: a large frame, of segments this long */
    uint16_t vlan_tci;
    uint16_t place;         /* among those received */
    uint8_t checksum;
    uint8_t has_vlan;       /* the tag was taken out of the frame */
};
_Static_assert(sizeof(struct tidegate_received) == 40, "src/ffi.rs says otherwise");

/* A packet to be sent: bytes that are copied before the call returns, or the head of a buffer that
 * was received and kept, which the call takes back. */
struct tidegate_frame {
    const uint8_t *data;
    struct tidegate_head *head;
    uint32_t len;
    uint16_t l2_bytes;      /* these four only where `flags` is not 0 */
    uint16_t l3_bytes;
    uint16_t l4_bytes;
    uint16_t segment_bytes;
    uint32_t flags;
};
_Static_assert(sizeof(struct tidegate_frame) == 32, "src/ffi.rs says otherwise");

/* What a device is and can do. */
struct tidegate_facts {
    uint64_t rx_offloads;
    uint64_t tx_offloads;
    uint64_t rss_types;
    uint32_t min_rx_buffer;
    uint32_t max_rx_bytes;
    uint32_t max_mac_addresses;
    uint32_t link_mbps;
    int32_t numa;
    uint16_t max_rx_queues;
    uint16_t max_tx_queues;
    uint16_t min_mtu;
    uint16_t max_mtu;
    uint16_t mtu;
    uint8_t mac[6];
    uint8_t link_up;
    uint8_t full_duplex;
    char driver[46];
    char bus[64];
    char bus_info[64];
};
_Static_assert(sizeof(struct tidegate_facts) == 240, "src/ffi.rs says otherwise");

/* How a device is to be set up; what it could not is written back. */
struct tidegate_setup {
    uint64_t rx_offloads;
    uint64_t tx_offloads;
    uint64_t rss_types;
    void *pool;
    uint16_t rx_queues;
    uint16_t tx_queues;
    uint16_t rx_descriptors;
    uint16_t tx_descriptors;
    uint16_t mtu;           /* 0: as it is */
    uint8_t watches_link;
    uint8_t failed_step;    /* TIDEGATE_STEP_* where the result is an error */
    uint8_t spare[4];
};
_Static_assert(sizeof(struct tidegate_setup) == 48, "src/ffi.rs says otherwise");

enum {
    TIDEGATE_STEP_STOP,
    TIDEGATE_STEP_CONFIGURE,
    TIDEGATE_STEP_MTU,
    TIDEGATE_STEP_TX_QUEUE,
    TIDEGATE_STEP_RX_QUEUE,
    TIDEGATE_STEP_START,
};

/* A device's counters. */
struct tidegate_counters {
    uint64_t rx_packets, tx_packets, rx_bytes, tx_bytes;
    uint64_t rx_missed, rx_errors, tx_errors, rx_no_buffer;
};
_Static_assert(sizeof(struct tidegate_counters) == 64, "src/ffi.rs says otherwise");

/* One of a device's own counters. */
struct tidegate_named_counter {
    char name[64];
    uint64_t value;
};
_Static_assert(sizeof(struct tidegate_named_counter) == 72, "src/ffi.rs says otherwise");

/* Items of a rule of rte_flow. Values and masks are headers as packets have them; behind Ethernet's stands
 * whether a VLAN tag follows, behind IPv6's whether a fragment header does. */
enum {
    TIDEGATE_ITEM_REPRESENTED_PORT,
    TIDEGATE_ITEM_ETH,
    TIDEGATE_ITEM_VLAN,
    TIDEGATE_ITEM_IPV4,
    TIDEGATE_ITEM_IPV6,
    TIDEGATE_ITEM_TCP,
    TIDEGATE_ITEM_UDP,
    TIDEGATE_ITEM_VXLAN,
    TIDEGATE_ITEM_INTEGRITY,
    TIDEGATE_ITEM_CONNTRACK,    /* the flags are the number */
};

struct tidegate_item {
    uint32_t kind;
    uint32_t number;        /* DPDK's port, or the level of integrity */
    uint32_t mask_number;
    uint8_t value[44];
    uint8_t mask[44];
};
_Static_assert(sizeof(struct tidegate_item) == 100, "src/ffi.rs says otherwise");

/* Actions of a rule. */
enum {
    TIDEGATE_ACTION_COUNT,
    TIDEGATE_ACTION_AGE,
    TIDEGATE_ACTION_VXLAN_DECAP,
    TIDEGATE_ACTION_VXLAN_ENCAP,
    TIDEGATE_ACTION_POP_VLAN,
    TIDEGATE_ACTION_PUSH_VLAN,
    TIDEGATE_ACTION_SET_VLAN_VID,
    TIDEGATE_ACTION_SET_VLAN_PCP,
    TIDEGATE_ACTION_SET_MAC_SRC,
    TIDEGATE_ACTION_SET_MAC_DST,
    TIDEGATE_ACTION_SET_IPV4_SRC,
    TIDEGATE_ACTION_SET_IPV4_DST,
    TIDEGATE_ACTION_SET_IPV6_SRC,
    TIDEGATE_ACTION_SET_IPV6_DST,
    TIDEGATE_ACTION_SET_TP_SRC,
    TIDEGATE_ACTION_SET_TP_DST,
    TIDEGATE_ACTION_SET_TTL,
    TIDEGATE_ACTION_SET_IPV4_DSCP,
    TIDEGATE_ACTION_SET_IPV6_DSCP,
    TIDEGATE_ACTION_REPRESENTED_PORT,
    TIDEGATE_ACTION_DROP,
    TIDEGATE_ACTION_MARK,
    TIDEGATE_ACTION_RSS,    /* to the port's queues, by the hash that it is set up with */
    TIDEGATE_ACTION_INDIRECT,
    TIDEGATE_ACTION_JUMP,
    TIDEGATE_ACTION_PORT_REPRESENTOR,
};

struct tidegate_action {
    const struct tidegate_item *items;  /* the headers of VXLAN_ENCAP */
    uint32_t kind;
    uint32_t number;
    uint8_t bytes[16];      /* an address */
    uint32_t item_count;
    uint32_t spare;
    void *object;           /* the handle of INDIRECT */
};
_Static_assert(sizeof(struct tidegate_action) == 48, "src/ffi.rs says otherwise");

struct tidegate_rule {
    const struct tidegate_item *items;
    const struct tidegate_action *actions;
    uint32_t item_count;
    uint32_t action_count;
    uint32_t transfers;     /* it is the device's switch's, and not a port's */
    uint32_t group;
    uint32_t priority;
    uint32_t spare;
};
_Static_assert(sizeof(struct tidegate_rule) == 40, "src/ffi.rs says otherwise");

/* A rule that a device has. */
struct tidegate_made_rule {
    void *rule;
    uint16_t owner;         /* the port through which it was made */
    uint8_t spare[6];
};
_Static_assert(sizeof(struct tidegate_made_rule) == 16, "src/ffi.rs says otherwise");

struct tidegate_rule_state {
    uint64_t packets;
    uint64_t bytes;
    uint64_t is_aged;
};
_Static_assert(sizeof(struct tidegate_rule_state) == 24, "src/ffi.rs says otherwise");

/* A connection object that a device has. */
struct tidegate_made_object {
    void *handle;
    uint16_t owner;         /* the port through which it was made */
    uint16_t peer;          /* the port that replies come in on */
    uint8_t spare[4];
};
_Static_assert(sizeof(struct tidegate_made_object) == 16, "src/ffi.rs says otherwise");

/* The fields of rte_flow_tcp_dir_param and rte_flow_action_conntrack. */
struct tidegate_direction {
    uint32_t sent_end;
    uint32_t reply_end;
    uint32_t max_win;
    uint32_t max_ack;
    uint8_t scale;
    uint8_t close_initiated;
    uint8_t last_ack_seen;
    uint8_t data_unacked;
};
_Static_assert(sizeof(struct tidegate_direction) == 20, "src/ffi.rs says otherwise");

struct tidegate_object {
    struct tidegate_direction original;
    struct tidegate_direction reply;
    uint32_t last_seq;
    uint32_t last_ack;
    uint32_t last_end;
    uint16_t last_window;
    uint8_t last_index;
    uint8_t last_direction;
    uint8_t enable;
    uint8_t live_connection;
    uint8_t selective_ack;
    uint8_t challenge_ack_passed;
    uint8_t liberal_mode;
    uint8_t state;
    uint8_t max_ack_window;
    uint8_t retransmission_limit;
};
_Static_assert(sizeof(struct tidegate_object) == 64, "src/ffi.rs says otherwise");

/* Bytes of what a device says of an error, with the zero at the end. */
#define TIDEGATE_WORDS 128

/* A line of DPDK's log, with its level from 1 (emergency) to 8 (debug). */
typedef void tidegate_log(int level, const char *text, size_t bytes);

/* All that answer an int give 0, or one of the system's error numbers, negative. */
int tidegate_dpdk_start(int argc, char **argv, tidegate_log *log);
const char *tidegate_dpdk_version(void);

int tidegate_dpdk_find(const char *devargs, uint16_t *port, uint8_t *attached);
int tidegate_dpdk_facts(uint16_t port, struct tidegate_facts *facts);
int tidegate_dpdk_configure(uint16_t port, struct tidegate_setup *setup);
int tidegate_dpdk_set_up(uint16_t port, int up);
void tidegate_dpdk_close(uint16_t port, int attached);
int tidegate_dpdk_counters(uint16_t port, struct tidegate_counters *counters);
/* Gives how many there are; writes at most `room`. */
int tidegate_dpdk_named_counters(uint16_t port, struct tidegate_named_counter *out, uint32_t room);

int tidegate_rule_validate(uint16_t port, const struct tidegate_rule *rule, char *words);
int tidegate_rule_create(uint16_t port, const struct tidegate_rule *rule, char *words,
                         struct tidegate_made_rule *made);
int tidegate_rule_destroy(const struct tidegate_made_rule *made, char *words);
/* Removes all rules that were made through a port. */
int tidegate_rules_flush(uint16_t owner, char *words);
int tidegate_rule_query(const struct tidegate_made_rule *made, int ages,
                        struct tidegate_rule_state *state);

/* Makes an object, for rules of the original direction at first. `made->peer` is set before. */
int tidegate_object_create(uint16_t port, const struct tidegate_object *object, char *words,
                           struct tidegate_made_object *made);
/* Rules that refer to the object from now on are of the reply direction. */
int tidegate_object_turn(const struct tidegate_made_object *made, char *words);
int tidegate_object_update(const struct tidegate_made_object *made,
                           const struct tidegate_object *object, char *words);
int tidegate_object_query(const struct tidegate_made_object *made, struct tidegate_object *object);
int tidegate_object_destroy(const struct tidegate_made_object *made, char *words);

/* All of the pool's buffers begin with a copy of this head. */
void *tidegate_dpdk_pool(const char *name, uint32_t buffers, uint16_t data_bytes, int numa,
                         const struct tidegate_head *head);

/* Gives how many packets were received, or -1 where the device is gone. Their heads are filled in,
 * but for null in the places of the `other_count` ones that `others` tells of. */
int tidegate_dpdk_receive(uint16_t port, uint16_t queue, struct tidegate_head **heads,
                          struct tidegate_received *others, uint16_t room, uint16_t *other_count);
/* Copies all of a chain; gives the bytes copied, at most `room`. */
uint32_t tidegate_dpdk_copy(void *mbuf, uint8_t *to, uint32_t room);
/* Takes back a buffer that a packet kept. */
void tidegate_dpdk_take_back(struct tidegate_head *head);
void tidegate_dpdk_release(void **mbufs, uint16_t count);
/* Gives how many packets, the first ones, were sent; `refused` how many of the others the device
 * does not take. */
uint16_t tidegate_dpdk_send(uint16_t port, uint16_t queue, void *pool,
                            const struct tidegate_frame *frames, uint16_t count,
                            uint16_t *refused);
/* The same for packets in kept buffers of which the device need be told nothing; `unsent` is the
 * bytes of those that were not sent. */
uint16_t tidegate_dpdk_send_kept(uint16_t port, uint16_t queue, struct tidegate_head *const *heads,
                                 uint16_t count, uint64_t *unsent);

#endif
