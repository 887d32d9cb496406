/* Connection objects of rte_flow. The caller holds the list's lock (src/rte_flow.rs); any thread may call these. The
 * API's functions for them are experimental in DPDK 22.11, so that another version may change them. */
#define ALLOW_EXPERIMENTAL_API
#include "internal.h"
#include "shim.h"

#include <errno.h>

#include <rte_errno.h>
#include <rte_flow.h>

static struct rte_flow_tcp_dir_param direction_of(const struct tidegate_direction *from) {
    return (struct rte_flow_tcp_dir_param){
        .scale = from->scale,
        .close_initiated = from->close_initiated,
        .last_ack_seen = from->last_ack_seen,
        .data_unacked = from->data_unacked,
        .sent_end = from->sent_end,
        .reply_end = from->reply_end,
        .max_win = from->max_win,
        .max_ack = from->max_ack,
    };
}

static struct tidegate_direction plain_direction(const struct rte_flow_tcp_dir_param *from) {
    return (struct tidegate_direction){
        .scale = from->scale,
        .close_initiated = from->close_initiated,
        .last_ack_seen = from->last_ack_seen,
        .data_unacked = from->data_unacked,
        .sent_end = from->sent_end,
        .reply_end = from->reply_end,
        .max_win = from->max_win,
        .max_ack = from->max_ack,
    };
}

static struct rte_flow_action_conntrack context_of(const struct tidegate_object *from, uint16_t peer) {
    return (struct rte_flow_action_conntrack){
        .peer_port = peer,
        .is_original_dir = 1,
        .enable = from->enable,
        .live_connection = from->live_connection,
        .selective_ack = from->selective_ack,
        .challenge_ack_passed = from->challenge_ack_passed,
        .last_direction = from->last_direction,
        .liberal_mode = from->liberal_mode,
        .state = (enum rte_flow_conntrack_state)from->state,
        .max_ack_window = from->max_ack_window,
        .retransmission_limit = from->retransmission_limit,
        .original_dir = direction_of(&from->original),
        .reply_dir = direction_of(&from->reply),
        .last_window = from->last_window,
        .last_index = (enum rte_flow_conntrack_tcp_last_index)from->last_index,
        .last_seq = from->last_seq,
        .last_ack = from->last_ack,
        .last_end = from->last_end,
    };
}

int tidegate_object_create(uint16_t port, const struct tidegate_object *object, char *words,
                           struct tidegate_made_object *made) {
    struct rte_flow_error why = {0};
    struct rte_flow_indir_action_conf conf = {.transfer = 1};
    struct rte_flow_action_conntrack context = context_of(object, made->peer);
    struct rte_flow_action action = {.type = RTE_FLOW_ACTION_TYPE_CONNTRACK, .conf = &context};
    words[0] = 0;
    made->owner = tidegate_proxy_of(port);
    made->handle = rte_flow_action_handle_create(made->owner, &conf, &action, &why);
    return made->handle != NULL ? 0 : tidegate_told(-rte_errno, &why, words);
}

static int modify(const struct tidegate_made_object *made, const struct rte_flow_modify_conntrack *change,
                  char *words) {
    struct rte_flow_error why = {0};
    words[0] = 0;
    int error = rte_flow_action_handle_update(made->owner, made->handle, change, &why);
    return error == 0 ? 0 : tidegate_told(error, &why, words);
}

int tidegate_object_turn(const struct tidegate_made_object *made, char *words) {
    struct rte_flow_modify_conntrack change = {
        .new_ct = {.peer_port = made->peer, .is_original_dir = 0},
        .direction = 1,
    };
    return modify(made, &change, words);
}

int tidegate_object_update(const struct tidegate_made_object *made,
                           const struct tidegate_object *object, char *words) {
    struct rte_flow_modify_conntrack change = {
        .new_ct = context_of(object, made->peer),
        .state = 1,
    };
    return modify(made, &change, words);
}

int tidegate_object_query(const struct tidegate_made_object *made, struct tidegate_object *object) {
    struct rte_flow_error why = {0};
    struct rte_flow_action_conntrack context = {0};
    int error = rte_flow_action_handle_query(made->owner, made->handle, &context, &why);
    if (error != 0)
        return error < 0 ? error : -EIO;
    *object = (struct tidegate_object){
        .original = plain_direction(&context.original_dir),
        .reply = plain_direction(&context.reply_dir),
        .last_seq = context.last_seq,
        .last_ack = context.last_ack,
        .last_end = context.last_end,
        .last_window = context.last_window,
        .last_index = (uint8_t)context.last_index,
        .last_direction = context.last_direction,
        .enable = context.enable,
        .live_connection = context.live_connection,
        .selective_ack = context.selective_ack,
        .challenge_ack_passed = context.challenge_ack_passed,
        .liberal_mode = context.liberal_mode,
        .state = (uint8_t)context.state,
        .max_ack_window = context.max_ack_window,
        .retransmission_limit = context.retransmission_limit,
    };
    return 0;
}

int tidegate_object_destroy(const struct tidegate_made_object *made, char *words) {
    struct rte_flow_error why = {0};
    words[0] = 0;
    int error = rte_flow_action_handle_destroy(made->owner, made->handle, &why);
    return error == 0 ? 0 : tidegate_told(error, &why, words);
}
