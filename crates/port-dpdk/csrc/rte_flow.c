/* Rules of rte_flow: the shim's plain structures become those of the API. The caller holds the list's lock
 * (src/rte_flow.rs), except for validation; any thread may call these. */
#include "internal.h"
#include "shim.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <rte_byteorder.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_flow.h>

/* Items and actions of one rule, with the ends of the lists. */
#define ITEMS_MAX 20
#define ACTIONS_MAX 28

/* What an item is compared with, or one of its masks. */
union spec {
    struct rte_flow_item_ethdev port;
    struct rte_flow_item_eth eth;
    struct rte_flow_item_vlan vlan;
    struct rte_flow_item_ipv4 ipv4;
    struct rte_flow_item_ipv6 ipv6;
    struct rte_flow_item_tcp tcp;
    struct rte_flow_item_udp udp;
    struct rte_flow_item_vxlan vxlan;
    struct rte_flow_item_integrity integrity;
    struct rte_flow_item_conntrack conntrack;
};

struct pattern {
    struct rte_flow_item items[ITEMS_MAX];
    union spec values[ITEMS_MAX], masks[ITEMS_MAX];
};

union conf {
    struct rte_flow_action_count count;
    struct rte_flow_action_age age;
    struct rte_flow_action_vxlan_encap encap;
    struct rte_flow_action_of_push_vlan push_vlan;
    struct rte_flow_action_of_set_vlan_vid vid;
    struct rte_flow_action_of_set_vlan_pcp pcp;
    struct rte_flow_action_set_mac mac;
    struct rte_flow_action_set_ipv4 ipv4;
    struct rte_flow_action_set_ipv6 ipv6;
    struct rte_flow_action_set_tp transport;
    struct rte_flow_action_set_ttl ttl;
    struct rte_flow_action_set_dscp dscp;
    struct rte_flow_action_ethdev port;
    struct rte_flow_action_mark mark;
    struct rte_flow_action_rss rss;
    struct rte_flow_action_jump jump;
};

struct orders {
    struct rte_flow_action actions[ACTIONS_MAX];
    union conf confs[ACTIONS_MAX];
    struct pattern encap;
    uint16_t queues[RTE_MAX_QUEUES_PER_PORT];
};

/* One rule in the API's structures. */
struct whole_rule {
    struct rte_flow_attr attr;
    struct pattern pattern;
    struct orders orders;
};

/* Writes an item's value or mask; gives its type, or -1. */
static int write_spec(union spec *spec, uint32_t kind, const uint8_t *bytes, uint32_t number) {
    switch (kind) {
    case TIDEGATE_ITEM_REPRESENTED_PORT:
        spec->port.port_id = (uint16_t)number;
        return RTE_FLOW_ITEM_TYPE_REPRESENTED_PORT;
    case TIDEGATE_ITEM_ETH:
        memcpy(&spec->eth.hdr, bytes, sizeof spec->eth.hdr);
        spec->eth.has_vlan = bytes[sizeof spec->eth.hdr];
        return RTE_FLOW_ITEM_TYPE_ETH;
    case TIDEGATE_ITEM_VLAN:
        memcpy(&spec->vlan.hdr, bytes, sizeof spec->vlan.hdr);
        return RTE_FLOW_ITEM_TYPE_VLAN;
    case TIDEGATE_ITEM_IPV4:
        memcpy(&spec->ipv4.hdr, bytes, sizeof spec->ipv4.hdr);
        return RTE_FLOW_ITEM_TYPE_IPV4;
    case TIDEGATE_ITEM_IPV6:
        memcpy(&spec->ipv6.hdr, bytes, sizeof spec->ipv6.hdr);
        spec->ipv6.has_frag_ext = bytes[sizeof spec->ipv6.hdr];
        return RTE_FLOW_ITEM_TYPE_IPV6;
    case TIDEGATE_ITEM_TCP:
        memcpy(&spec->tcp.hdr, bytes, sizeof spec->tcp.hdr);
        return RTE_FLOW_ITEM_TYPE_TCP;
    case TIDEGATE_ITEM_UDP:
        memcpy(&spec->udp.hdr, bytes, sizeof spec->udp.hdr);
        return RTE_FLOW_ITEM_TYPE_UDP;
    case TIDEGATE_ITEM_VXLAN:
        memcpy(&spec->vxlan.hdr, bytes, sizeof spec->vxlan.hdr);
        return RTE_FLOW_ITEM_TYPE_VXLAN;
    case TIDEGATE_ITEM_INTEGRITY:
        spec->integrity.level = number;
        memcpy(&spec->integrity.value, bytes, sizeof spec->integrity.value);
        return RTE_FLOW_ITEM_TYPE_INTEGRITY;
    case TIDEGATE_ITEM_CONNTRACK:
        spec->conntrack.flags = number;
        return RTE_FLOW_ITEM_TYPE_CONNTRACK;
    default:
        return -1;
    }
}

_Static_assert(sizeof(struct rte_ether_hdr) == 14, "src/rte_flow/encode.rs says otherwise");
_Static_assert(sizeof(struct rte_vlan_hdr) == 4, "src/rte_flow/encode.rs says otherwise");
_Static_assert(sizeof(struct rte_ipv4_hdr) == 20, "src/rte_flow/encode.rs says otherwise");
_Static_assert(sizeof(struct rte_ipv6_hdr) == 40, "src/rte_flow/encode.rs says otherwise");
_Static_assert(sizeof(struct rte_tcp_hdr) == 20, "src/rte_flow/encode.rs says otherwise");
_Static_assert(sizeof(struct rte_udp_hdr) == 8, "src/rte_flow/encode.rs says otherwise");
_Static_assert(sizeof(struct rte_vxlan_hdr) == 8, "src/rte_flow/encode.rs says otherwise");

/* An item that compares nothing has neither value nor mask, as some drivers want it. */
static int compares(const struct tidegate_item *item) {
    static const uint8_t NOTHING[sizeof item->mask];
    return item->mask_number != 0 || memcmp(item->mask, NOTHING, sizeof NOTHING) != 0;
}

static int write_pattern(struct pattern *to, const struct tidegate_item *items, uint32_t count) {
    if (count >= ITEMS_MAX)
        return -E2BIG;
    for (uint32_t i = 0; i < count; i++) {
        const struct tidegate_item *item = &items[i];
        int type = write_spec(&to->values[i], item->kind, item->value, item->number);
        if (type < 0)
            return -EINVAL;
        write_spec(&to->masks[i], item->kind, item->mask, item->mask_number);
        to->items[i].type = (enum rte_flow_item_type)type;
        if (compares(item)) {
            to->items[i].spec = &to->values[i];
            to->items[i].mask = &to->masks[i];
        }
    }
    to->items[count].type = RTE_FLOW_ITEM_TYPE_END;
    return 0;
}

/* The type of an action whose configuration is written; -1 where there is none of this kind. */
static int write_conf(union conf *conf, const struct tidegate_action *action) {
    uint32_t number = action->number;
    switch (action->kind) {
    case TIDEGATE_ACTION_COUNT:
        return RTE_FLOW_ACTION_TYPE_COUNT;
    case TIDEGATE_ACTION_AGE:
        conf->age.timeout = number & 0xffffff;
        return RTE_FLOW_ACTION_TYPE_AGE;
    case TIDEGATE_ACTION_VXLAN_DECAP:
        return RTE_FLOW_ACTION_TYPE_VXLAN_DECAP;
    case TIDEGATE_ACTION_VXLAN_ENCAP:
        return RTE_FLOW_ACTION_TYPE_VXLAN_ENCAP;
    case TIDEGATE_ACTION_POP_VLAN:
        return RTE_FLOW_ACTION_TYPE_OF_POP_VLAN;
    case TIDEGATE_ACTION_PUSH_VLAN:
        conf->push_vlan.ethertype = rte_cpu_to_be_16((uint16_t)number);
        return RTE_FLOW_ACTION_TYPE_OF_PUSH_VLAN;
    case TIDEGATE_ACTION_SET_VLAN_VID:
        conf->vid.vlan_vid = rte_cpu_to_be_16((uint16_t)number);
        return RTE_FLOW_ACTION_TYPE_OF_SET_VLAN_VID;
    case TIDEGATE_ACTION_SET_VLAN_PCP:
        conf->pcp.vlan_pcp = (uint8_t)number;
        return RTE_FLOW_ACTION_TYPE_OF_SET_VLAN_PCP;
    case TIDEGATE_ACTION_SET_MAC_SRC:
    case TIDEGATE_ACTION_SET_MAC_DST:
        memcpy(conf->mac.mac_addr, action->bytes, sizeof conf->mac.mac_addr);
        return action->kind == TIDEGATE_ACTION_SET_MAC_SRC ? RTE_FLOW_ACTION_TYPE_SET_MAC_SRC
                                                           : RTE_FLOW_ACTION_TYPE_SET_MAC_DST;
    case TIDEGATE_ACTION_SET_IPV4_SRC:
    case TIDEGATE_ACTION_SET_IPV4_DST:
        memcpy(&conf->ipv4.ipv4_addr, action->bytes, sizeof conf->ipv4.ipv4_addr);
        return action->kind == TIDEGATE_ACTION_SET_IPV4_SRC ? RTE_FLOW_ACTION_TYPE_SET_IPV4_SRC
                                                            : RTE_FLOW_ACTION_TYPE_SET_IPV4_DST;
    case TIDEGATE_ACTION_SET_IPV6_SRC:
    case TIDEGATE_ACTION_SET_IPV6_DST:
        memcpy(conf->ipv6.ipv6_addr, action->bytes, sizeof conf->ipv6.ipv6_addr);
        return action->kind == TIDEGATE_ACTION_SET_IPV6_SRC ? RTE_FLOW_ACTION_TYPE_SET_IPV6_SRC
                                                            : RTE_FLOW_ACTION_TYPE_SET_IPV6_DST;
    case TIDEGATE_ACTION_SET_TP_SRC:
    case TIDEGATE_ACTION_SET_TP_DST:
        conf->transport.port = rte_cpu_to_be_16((uint16_t)number);
        return action->kind == TIDEGATE_ACTION_SET_TP_SRC ? RTE_FLOW_ACTION_TYPE_SET_TP_SRC
                                                          : RTE_FLOW_ACTION_TYPE_SET_TP_DST;
    case TIDEGATE_ACTION_SET_TTL:
        conf->ttl.ttl_value = (uint8_t)number;
        return RTE_FLOW_ACTION_TYPE_SET_TTL;
    case TIDEGATE_ACTION_SET_IPV4_DSCP:
    case TIDEGATE_ACTION_SET_IPV6_DSCP:
        conf->dscp.dscp = (uint8_t)number;
        return action->kind == TIDEGATE_ACTION_SET_IPV4_DSCP ? RTE_FLOW_ACTION_TYPE_SET_IPV4_DSCP
                                                             : RTE_FLOW_ACTION_TYPE_SET_IPV6_DSCP;
    case TIDEGATE_ACTION_REPRESENTED_PORT:
        conf->port.port_id = (uint16_t)number;
        return RTE_FLOW_ACTION_TYPE_REPRESENTED_PORT;
    case TIDEGATE_ACTION_MARK:
        conf->mark.id = number;
        return RTE_FLOW_ACTION_TYPE_MARK;
    case TIDEGATE_ACTION_RSS:
        return RTE_FLOW_ACTION_TYPE_RSS;
    case TIDEGATE_ACTION_INDIRECT:
        return RTE_FLOW_ACTION_TYPE_INDIRECT;
    case TIDEGATE_ACTION_JUMP:
        conf->jump.group = number;
        return RTE_FLOW_ACTION_TYPE_JUMP;
    case TIDEGATE_ACTION_PORT_REPRESENTOR:
        conf->port.port_id = (uint16_t)number;
        return RTE_FLOW_ACTION_TYPE_PORT_REPRESENTOR;
    case TIDEGATE_ACTION_DROP:
        return RTE_FLOW_ACTION_TYPE_DROP;
    default:
        return -1;
    }
}

static int has_conf(uint32_t kind) {
    return kind != TIDEGATE_ACTION_DROP && kind != TIDEGATE_ACTION_POP_VLAN &&
           kind != TIDEGATE_ACTION_VXLAN_DECAP;
}

/* Spreads packets over a port's queues as it does without a rule, so that they reach the same worker. */
static int write_rss(struct rte_flow_action_rss *rss, uint16_t *queues, uint16_t port) {
    struct rte_eth_rss_conf hash = {0};
    struct rte_eth_dev_info info;
    int error = rte_eth_dev_info_get(port, &info);
    if (error != 0)
        return error;
    rss->func = RTE_ETH_HASH_FUNCTION_DEFAULT;
    rss->types = rte_eth_dev_rss_hash_conf_get(port, &hash) == 0 ? hash.rss_hf : 0;
    rss->queue_num = RTE_MIN(info.nb_rx_queues, (uint16_t)RTE_MAX_QUEUES_PER_PORT);
    rss->queue = queues;
    for (uint16_t queue = 0; queue < rss->queue_num; queue++)
        queues[queue] = queue;
    return 0;
}

static int write_actions(struct orders *to, uint16_t port, const struct tidegate_action *actions, uint32_t count) {
    if (count >= ACTIONS_MAX)
        return -E2BIG;
    for (uint32_t i = 0; i < count; i++) {
        int type = write_conf(&to->confs[i], &actions[i]);
        if (type < 0)
            return -EINVAL;
        if (type == RTE_FLOW_ACTION_TYPE_VXLAN_ENCAP) {
            int error = write_pattern(&to->encap, actions[i].items, actions[i].item_count);
            if (error != 0)
                return error;
            to->confs[i].encap.definition = to->encap.items;
        }
        if (type == RTE_FLOW_ACTION_TYPE_RSS) {
            int error = write_rss(&to->confs[i].rss, to->queues, port);
            if (error != 0)
                return error;
        }
        to->actions[i].type = (enum rte_flow_action_type)type;
        to->actions[i].conf = has_conf(actions[i].kind) ? &to->confs[i] : NULL;
        if (type == RTE_FLOW_ACTION_TYPE_INDIRECT)
            to->actions[i].conf = actions[i].object;
    }
    to->actions[count].type = RTE_FLOW_ACTION_TYPE_END;
    return 0;
}

static int write_rule(struct whole_rule *to, uint16_t port, const struct tidegate_rule *rule) {
    memset(to, 0, sizeof *to);
    to->attr.transfer = rule->transfers;
    to->attr.ingress = !rule->transfers;
    to->attr.group = rule->group;
    to->attr.priority = rule->priority;
    int error = write_pattern(&to->pattern, rule->items, rule->item_count);
    return error != 0 ? error : write_actions(&to->orders, port, rule->actions, rule->action_count);
}

int tidegate_told(int error, const struct rte_flow_error *why, char *words) {
    snprintf(words, TIDEGATE_WORDS, "%s", why->message != NULL ? why->message : "");
    return error < 0 ? error : -EIO;
}

uint16_t tidegate_proxy_of(uint16_t port) {
    uint16_t proxy = port;
    return rte_flow_pick_transfer_proxy(port, &proxy, NULL) == 0 ? proxy : port;
}

int tidegate_rule_validate(uint16_t port, const struct tidegate_rule *rule, char *words) {
    struct whole_rule whole;
    struct rte_flow_error why = {0};
    words[0] = 0;
    int error = write_rule(&whole, port, rule);
    if (error != 0)
        return error;
    uint16_t owner = rule->transfers ? tidegate_proxy_of(port) : port;
    error = rte_flow_validate(owner, &whole.attr, whole.pattern.items, whole.orders.actions, &why);
    return error == 0 ? 0 : tidegate_told(error, &why, words);
}

int tidegate_rule_create(uint16_t port, const struct tidegate_rule *rule, char *words,
                         struct tidegate_made_rule *made) {
    struct whole_rule whole;
    struct rte_flow_error why = {0};
    words[0] = 0;
    int error = write_rule(&whole, port, rule);
    if (error != 0)
        return error;
    made->owner = rule->transfers ? tidegate_proxy_of(port) : port;
    made->rule =
        rte_flow_create(made->owner, &whole.attr, whole.pattern.items, whole.orders.actions, &why);
    return made->rule != NULL ? 0 : tidegate_told(-rte_errno, &why, words);
}

int tidegate_rule_destroy(const struct tidegate_made_rule *made, char *words) {
    struct rte_flow_error why = {0};
    words[0] = 0;
    int error = rte_flow_destroy(made->owner, made->rule, &why);
    return error == 0 ? 0 : tidegate_told(error, &why, words);
}

int tidegate_rules_flush(uint16_t owner, char *words) {
    struct rte_flow_error why = {0};
    words[0] = 0;
    int error = rte_flow_flush(owner, &why);
    return error == 0 ? 0 : tidegate_told(error, &why, words);
}

int tidegate_rule_query(const struct tidegate_made_rule *made, int ages,
                        struct tidegate_rule_state *state) {
    struct rte_flow_query_count counted = {0};
    struct rte_flow_query_age age = {0};
    struct rte_flow_error why = {0};
    struct rte_flow_action action = {.type = RTE_FLOW_ACTION_TYPE_COUNT};
    int error = rte_flow_query(made->owner, made->rule, &action, &counted, &why);
    if (error != 0)
        return error < 0 ? error : -EIO;
    action.type = RTE_FLOW_ACTION_TYPE_AGE;
    if (ages && rte_flow_query(made->owner, made->rule, &action, &age, &why) != 0)
        age.aged = 0;
    *state = (struct tidegate_rule_state){
        .packets = counted.hits_set ? counted.hits : 0,
        .bytes = counted.bytes_set ? counted.bytes : 0,
        .is_aged = age.aged,
    };
    return 0;
}
