"""Random flows, groups and meters in ovs-ofctl's syntax, and the change of one of them."""

TABLES = 6
PORTS = [1, 2, 3, 4, 5]
GROUPS = [1, 2, 3]
METERS = [1, 2]
REGISTERS = [f"reg{n}" for n in range(4)]
# What a flow of this kind may match of its packets; each has a value that the frames have, too.
KINDS = {
    "": [], "ip": ["nw_src", "nw_dst", "nw_ttl", "nw_tos", "ip_frag"], "tcp": ["nw_src", "nw_dst", "tp_src", "tp_dst", "tcp_flags"],
    "udp": ["nw_src", "nw_dst", "tp_src", "tp_dst"], "icmp": ["nw_src"], "arp": ["arp_op", "arp_spa", "arp_tpa"],
    "ipv6": ["ipv6_src", "ipv6_dst", "nw_ttl"], "tcp6": ["ipv6_src", "tp_dst"], "udp6": ["ipv6_dst", "tp_dst"],
    "mpls": ["mpls_label", "mpls_tc", "mpls_ttl"],
}
IP = ("ip", "tcp", "udp", "icmp")
IP6 = ("ipv6", "tcp6", "udp6")
WITH_PORTS = ("tcp", "udp", "tcp6", "udp6")


class Flows:
    def __init__(self, dice, version):
        self.dice, self.version = dice, version
        self.has_instructions = version >= 13

    def pick(self, *values):
        return self.dice.choice(values)

    def chance(self, probability):
        return self.dice.random() < probability

    # Matches

    def match(self, table):
        kind = self.dice.choices(list(KINDS), [8, 6, 5, 5, 1, 3, 2, 2, 2, 2])[0]
        parts = [kind] if kind else []
        if self.chance(0.4):
            parts.append(f"in_port={self.pick(1, 1, 2, 2, 3, 4)}")
        if self.chance(0.2):
            parts.append(self.pick("dl_vlan=10", "dl_vlan=20", "vlan_tci=0", "vlan_tci=0x1000/0x1000", "dl_vlan_pcp=5"))
        if self.chance(0.15):
            side = self.pick("dl_src", "dl_dst")
            parts.append(self.pick(f"{side}=02:00:00:00:00:0{self.dice.randint(1, 4)}",
                                   f"{side}=00:00:00:00:00:01/00:00:00:00:00:01"))
        if kind in IP and self.chance(0.35) or kind in IP6 and self.chance(0.2):
            parts.append(self.pick("ct_state=-trk", "ct_state=+trk+new", "ct_state=+trk+est", "ct_state=+trk-new",
                                   "ct_state=+trk+rpl", "ct_mark=5", "ct_zone=1", "ct_state=+trk+dnat"))
        if table and self.chance(0.3):
            parts.append(self.pick("reg0=1", "reg1=0x10/0xf0", "reg0=0", "metadata=5", "reg2=2"))
        if KINDS[kind] and self.chance(0.5):
            parts.append(self.field(self.pick(*KINDS[kind])))
        return ",".join(parts)

    def field(self, name):
        host = self.dice.randint(1, 4)
        return name + "=" + {
            "nw_src": self.pick(f"10.0.0.{host}", "10.0.0.0/30"), "nw_dst": self.pick(f"10.0.0.{host}", "10.0.0.0/30"),
            "arp_spa": f"10.0.0.{host}", "arp_tpa": f"10.0.0.{host}", "arp_op": self.pick("1", "2"),
            "nw_ttl": self.pick("1", "64"), "nw_tos": self.pick("0", "184"), "ip_frag": self.pick("no", "later", "not_later"),
            "tp_src": self.pick("1000", "1001", "0x3e8/0xfff8"), "tp_dst": self.pick("80", "53", "0x50/0xfff0"),
            "tcp_flags": self.pick("+syn-ack", "+ack", "+fin", "0x10/0x10"), "ipv6_src": self.pick(f"fd00::{host}", "fd00::/126"),
            "ipv6_dst": f"fd00::{host}", "mpls_label": self.pick("16", "17", "100"), "mpls_tc": self.pick("0", "3"),
            "mpls_ttl": self.pick("1", "64"),
        }[name]

    # Actions

    def actions(self, kind, table, depth=0):
        count = self.dice.choices([1, 2, 3, 4], [3, 4, 3, 1])[0]
        return ",".join(self.action(kind, table, depth) for _ in range(count))

    def action(self, kind, table, depth):
        makers = [(self.output, 14), (self.jump, 7), (self.rewrite, 7), (self.register, 4), (self.vlan, 3), (self.to_controller, 3),
                  (self.learn, 2), (self.choose, 2), (self.labels, 2), (self.shim, 1), (self.odd, 3), (self.group, 2)]
        if kind in IP + IP6:
            makers += [(self.ct, 7)]
        if depth < 2:
            makers += [(self.clone, 2)]
        maker = self.dice.choices([it for it, _ in makers], [it for _, it in makers])[0]
        return maker(kind, table, depth)

    def output(self, *_):
        return self.pick("output:1", "output:2", "output:3", "output:4", "output:5", "output:2", "output:3", "NORMAL",
                         "NORMAL", "in_port", "flood", "all", "output(port=2,max_len=64)", "output:reg3[0..15]")

    def jump(self, kind, table, _depth):
        if table >= TABLES - 1:
            return self.output()
        to = self.dice.randint(table + 1, TABLES - 1)
        return self.pick(f"resubmit(,{to})", f"resubmit(,{to})", f"resubmit({self.pick(1, 2, 3)},{to})",
                         f"resubmit(,{to},ct)" if kind in IP else f"resubmit(,{to})")

    def rewrite(self, kind, *_):
        host = self.dice.randint(1, 5)
        choices = [f"mod_dl_src:02:00:00:00:00:0{host}", f"mod_dl_dst:02:00:00:00:00:0{host}",
                   "move:NXM_OF_ETH_SRC[0..7]->NXM_OF_ETH_DST[8..15]", "set_field:02:00:00:00:00:07->eth_dst"]
        if kind in IP:
            choices += [f"mod_nw_src:10.0.0.{host}", f"mod_nw_dst:10.0.0.{host}", "mod_nw_tos:184", "dec_ttl", "dec_ttl",
                        "mod_nw_ttl:5", "mod_nw_ecn:1", "move:NXM_OF_IP_SRC[0..7]->NXM_OF_IP_DST[0..7]"]
        if kind in IP6:
            choices += [f"set_field:fd00::{host}->ipv6_dst", "dec_ttl", "mod_nw_ttl:5", "set_field:5->ipv6_label"]
        if kind in WITH_PORTS:
            choices += ["mod_tp_dst:81", "mod_tp_src:1002", "mod_tp_dst:53"]
        if kind == "arp":
            choices += ["load:2->NXM_OF_ARP_OP[]", f"load:0x{self.dice.randint(1, 5):x}->NXM_OF_ARP_OP[2..13]",
                        f"load:0x{self.pick(80, 255, 3):x}->NXM_OF_ARP_OP[2..13]", "set_field:10.0.0.9->arp_spa",
                        "move:NXM_NX_ARP_SHA[]->NXM_NX_ARP_THA[]"]
        if kind == "mpls":
            choices += ["set_field:17->mpls_label", "set_field:3->mpls_tc"]
        return self.pick(*choices)

    def register(self, kind, *_):
        to = self.pick(*REGISTERS)
        choices = [f"set_field:{self.pick(1, 2, 3, 16)}->{to}", f"load:{self.pick(1, 2)}->NXM_NX_{to.upper()}[0..15]",
                   f"move:NXM_OF_IN_PORT[]->NXM_NX_{to.upper()}[0..15]", f"move:NXM_OF_ETH_SRC[0..3]->NXM_NX_{to.upper()}[4..7]",
                   f"push:NXM_NX_{to.upper()}[],pop:NXM_NX_REG{self.pick(0, 1, 2)}[]", "set_field:5->metadata",
                   "set_field:7->pkt_mark", "check_pkt_larger(150)->NXM_NX_REG0[0]"]
        if kind in IP:
            choices.append(f"move:NXM_OF_IP_SRC[0..3]->NXM_NX_{to.upper()}[0..3]")
        if self.version >= 15:
            choices.append(f"set_field:0x10/0xf0->{to}")
        return self.pick(*choices)

    def vlan(self, *_):
        return self.pick("mod_vlan_vid:20", "mod_vlan_vid:10", "mod_vlan_pcp:3", "strip_vlan", "strip_vlan",
                         "push_vlan:0x8100,mod_vlan_vid:30", "push_vlan:0x88a8,mod_vlan_vid:40", "pop_vlan")

    def to_controller(self, *_):
        return self.pick("controller:65535", "controller:64", "controller:128", "controller(max_len=100,id=0,userdata=01.02.03)",
                         "controller(reason=no_match,max_len=40)", "controller(pause,userdata=05)", "controller(pause)")

    def learn(self, kind, table, _depth):
        to = self.dice.randint(table, TABLES - 1)
        specs = ["NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[]", "NXM_OF_VLAN_TCI[0..11]", "NXM_OF_ETH_SRC[]"]
        if kind in IP:
            specs += ["eth_type=0x800,NXM_OF_IP_DST[]=NXM_OF_IP_SRC[]", "eth_type=0x800,nw_proto=6"]
        ends = ["output:NXM_OF_IN_PORT[]", "load:NXM_OF_IN_PORT[]->NXM_NX_REG0[0..15]", "load:1->NXM_NX_REG0[]", "output:NXM_OF_IN_PORT[]"]
        options = self.pick("", "", ",idle_timeout=30", ",hard_timeout=20", ",limit=1", ",priority=100", ",cookie=7,delete_learned",
                            ",limit=2,result_dst=NXM_NX_REG1[0]")
        end, spec = self.pick(*ends), self.pick(*specs)
        after = self.pick("", "", f",resubmit(,{to})" if to > table else "")
        return f"learn(table={to}{options},{spec},{end}){after}"

    def choose(self, kind, *_):
        fields = self.pick("eth_src", "symmetric_l4", "symmetric_l3l4", "symmetric_l3l4+udp", "symmetric_l3", "nw_src", "nw_dst")
        algorithm = self.pick("modulo_n", "hash_threshold", "hrw", "iter_hash")
        links, basis = self.pick(2, 3, 5, 8, 70), self.pick(0, 7, 1024)
        members = "members" if self.version else "slaves"
        return self.pick(
            f"multipath({fields},{basis},{algorithm},{links},0,NXM_NX_REG3[0..15])",
            f"multipath({fields},{basis},{algorithm},{links},0,NXM_NX_REG3[0..15]),output:NXM_NX_REG3[0..15]",
            f"bundle({fields},{basis},hrw,ofport,{members}:2,3,4)", f"bundle({fields},{basis},active_backup,ofport,{members}:3,2)",
            f"bundle_load({fields},{basis},hrw,ofport,NXM_NX_REG3[0..15],{members}:2,3,4)")

    def labels(self, *_):
        return self.pick("push_mpls:0x8847,set_field:16->mpls_label", "push_mpls:0x8847", "pop_mpls:0x0800", "pop_mpls:0x8847",
                         "dec_mpls_ttl", "pop_mpls:0x86dd", "push_mpls:0x8848,push_mpls:0x8847")

    def shim(self, *_):
        return self.pick("encap(nsh(md_type=1)),set_field:0x1234->nsh_spi,encap(ethernet)", "decap()", "encap(ethernet)", "decap(),NORMAL",
                         "decap(),mod_vlan_pcp:0", "decap(),encap(ethernet)", "encap(nsh(md_type=2,tlv(0x1000,10,0x12345678))),encap(ethernet)")

    def odd(self, kind, *_):
        return self.pick("note:01.02", "exit", "ct_clear", "conjunction(1,1/2)", "fin_timeout(idle_timeout=5,hard_timeout=10)" if kind == "tcp"
                         else "ct_clear", "set_queue:1,output:2,pop_queue", "enqueue:3:1", "group:3", "NORMAL,mod_dl_src:02:00:00:00:00:09,NORMAL")

    def group(self, *_):
        return f"group:{self.pick(*GROUPS)}"

    def clone(self, kind, table, depth):
        return f"clone({self.actions(kind, table, depth + 1)})"

    def ct(self, kind, table, _depth):
        parts = []
        if self.chance(0.6):
            parts.append("commit")
            if self.chance(0.35):
                address = "fd00::9" if kind in IP6 else self.pick("10.0.0.9", "10.0.0.10-10.0.0.12")
                address = f"[{address}]" if ":" in address else address
                ports = self.pick("", "", ":2000-2005") if kind in WITH_PORTS else ""
                parts.append(self.pick(f"nat(src={address}{ports})", f"nat(dst={address}{ports})", "nat"))
            if self.chance(0.3):
                parts.append("exec(" + self.pick("set_field:5->ct_mark", "set_field:0x10/0xf0->ct_mark", "set_field:9->ct_label",
                                                 "move:NXM_NX_REG0[0..7]->NXM_NX_CT_MARK[8..15]") + ")")
        elif self.chance(0.4):
            parts.append("nat")
        if self.chance(0.3):
            parts.append(self.pick("zone=1", "zone=1", "zone=2", "zone=NXM_NX_REG0[0..15]"))
        if self.chance(0.75) and table < TABLES - 1:
            parts.append(f"table={self.dice.randint(table + 1, TABLES - 1)}")
        return f"ct({','.join(parts)})"

    # Whole entries

    def flow(self, table):
        match = self.match(table)
        kind = match.split(",")[0]
        kind = kind if kind in KINDS else ""
        head = f"table={table},priority={self.pick(1, 5, 10, 100)},cookie={self.pick('0', '0x7', '0x8')}"
        head += self.pick("", "", "", ",idle_timeout=60", ",send_flow_rem", ",hard_timeout=100") + (f",{match}" if match else "")
        actions = self.actions(kind, table) if not self.chance(0.03) else "drop"
        if self.has_instructions:
            if self.chance(0.1):
                actions = f"meter:{self.pick(*METERS)},{actions}"
            if self.chance(0.12):
                actions += f",write_actions({self.pick('output:2', 'output:3', 'group:1', 'push_vlan:0x8100,output:2', 'dec_ttl,output:3')})"
            if self.chance(0.1):
                actions += ",write_metadata:0x5"
            if self.chance(0.2) and table < TABLES - 1:
                actions += f",goto_table:{self.dice.randint(table + 1, TABLES - 1)}"
        return f"{head} actions={actions}"

    def change(self, flows):
        """A flow-mod of a kind that a file of `ovs-ofctl add-flows` may have."""
        flow = self.pick(*flows)
        head, actions = flow.removeprefix("add ").split(" actions=", 1)
        bare = ",".join(it for it in head.split(",") if not it.startswith(("priority", "cookie", "idle", "hard", "send_flow")))
        match self.pick("add", "add", "add", "delete", "delete_strict", "modify", "modify_strict"):
            case "add":
                return "add " + self.flow(self.pick(0, 0, 1, 2, 3))
            case "delete":
                return f"delete {bare}"
            case "delete_strict":
                strict = ",".join(it for it in head.split(",") if not it.startswith(("cookie", "idle", "hard", "send_flow")))
                return f"delete_strict {strict}"
            case "modify":
                return f"modify {bare} actions={self.pick('output:4', 'drop', actions)}"
            case _:
                return f"modify_strict {head} actions={self.pick('output:4', 'NORMAL', actions)}"

    def groups(self):
        bucket = lambda: f"bucket=actions={self.actions('', TABLES - 1, 2)}"
        kinds = [f"type=all,{bucket()},{bucket()}", f"type=indirect,{bucket()}", f"type=ff,bucket=watch_port:2,actions=output:2,{bucket()}".replace(",bucket=actions", ",bucket=watch_port:3,actions")]
        return [f"group_id={group},{self.pick(*kinds)}" for group in GROUPS]

    def meters(self):
        return [f"meter={meter},{self.pick('pktps', 'kbps')},burst,bands=type=drop,rate={self.pick(2, 1000)},burst_size={self.pick(2, 1000)}"
                for meter in METERS]
