"""One case in a real daemon: what is asked of it, and what it answers.

The flows are such that each packet meets the `ct` actions of its steps and is then sent to us as
a controller, with its connection tracking fields and as NAT left it.
"""

import re
from ipaddress import IPv6Address

import packet_in
from daemon import Refused
from packets import fragment

STATES = ["new", "est", "rel", "rpl", "inv", "trk", "snat", "dnat"]
# The keys of a step that look at the tracker, and those that do something to it.
LOOKS = ["dump", "dump_all", "chosen", "stats", "limits", "connections"]
ORDERS = ["at_ms", "tick", "flush", "check_windows", "max", "limit", "clear_limit"]
NOTHING = "(nothing came out)"
NO_WAY = ()
SHOW = "controller(max_len=65535)"
PAUSE = "controller(pause)"


class NotAskable(Exception):
    """The daemon can't be put what a step asks; the text says why."""


class Run:
    """One case in a fresh bridge. `results` gets a table of what the daemon does, per step."""

    def __init__(self, daemon, packets, case):
        self.daemon, self.packets, self.case = daemon, packets, case
        self.results = []
        self.clock_ms = 0
        self.ways, self.ports, self.refusals, self.saved = {}, {}, {}, {}
        self.last = None

    def run(self):
        self._prepare()
        self.counts_before = {name: self._count(name) for name in self._counters()}
        self.openflow = packet_in.Connection(self.daemon.openflow_socket)
        try:
            for number, step in enumerate(self.case.steps):
                self.results.append(self._step(number, step))
        finally:
            self.openflow.close()
        return self.results

    def _prepare(self):
        case, data = self.case, self.case.data
        timeouts = dict(data.get("timeouts", {}))
        others = timeouts.pop("default", None)
        if others is not None:
            # Open vSwitch 3.1 has no default policy: each zone without gets one that says it.
            zones = {str(step.get("zone", data.get("zone", 0))) for step in case.steps}
            timeouts |= {zone: others for zone in zones if zone not in timeouts}
        self.daemon.fresh_bridge(timeouts)
        if "max" in data:
            self.daemon.call("dpctl/ct-set-maxconns", data["max"])
        if not data.get("check_windows", True):
            self.daemon.call("dpctl/ct-disable-tcp-seq-chk")
        self._set_limits(data.get("limits", {}))
        self._add_flows()

    def _add_flows(self):
        """For each way through tables that a packet of this case takes, a port of its own.

        So flows stay as they are while packets go, and no cached flow is ever out of date.
        """
        self._find_ways()
        table = 1
        for way in self.ways.values():
            if way in self.ports:
                continue
            port = self.ports[way] = len(self.ports) + 1
            if port > self.daemon.port_count:
                raise ValueError(f"{self.case.name}: more ways through ct than there are ports")
            if way == NO_WAY:
                continue
            match, *actions = way
            place = f"table=0,in_port={port}"
            before = ""
            for action in actions:
                if action == PAUSE:
                    before = f"{PAUSE},"
                    continue
                actions = f"{before}ct({action},table={table})"
                self._add_flow(way, f"{place},priority=9,{match},actions={actions}")
                place = f"table={table}"
                before = f"{SHOW},"
                table += 1
            self._add_flow(way, f"{place},priority=9,actions={SHOW}")

    def _find_ways(self):
        """What is done with the packet of each step: what it has to match, then action by action.

        A packet that `save` puts aside or that something is done before waits for us (`PAUSE`).
        """
        ways, saved, way = {}, {}, None
        for number, step in enumerate(self.case.steps):
            if "in" in step:
                way = ways[number] = [self._kind(step)]
            elif "recall" in step:
                way = saved[step["recall"]]
                way.append(PAUSE)
            elif step.get("again") and self._pauses_before(number):
                way.append(PAUSE)
            if sends(step):
                way.append(action_of(self.case, step))
            if "save" in step:
                saved[step["save"]] = way
        self.ways = {number: NO_WAY if way[0] is None else tuple(way) for number, way in ways.items()}

    def _pauses_before(self, number):
        """Whether a packet waits for the controller before the step that sends it on.

        It does where something else is done or looked at in between. Otherwise it goes straight
        on, as usual: a packet that waited has lost what the datapath remembers beside its fields.
        """
        passed = range(number - 1, -1, -1)
        start = next(it for it in passed if sends(self.case.steps[it]))
        between = [self.case.steps[it].keys() for it in range(start + 1, number)]
        looks = self.case.steps[start].keys() & set(LOOKS)
        step = self.case.steps[number]
        orders = {it for it in step.keys() & set(ORDERS) if it != "at_ms" or
                  step["at_ms"] != self.case.steps[start].get("at_ms")}
        return bool(any(between) or looks or orders)

    def _kind(self, step):
        try:
            return None if "offload" in step else kind_of(step)
        except NotAskable:
            return None

    def _add_flow(self, way, flow):
        try:
            self.daemon.add_flow(flow)
        except Refused as refusal:
            self.refusals[tuple(way)] = f"OpenFlow refuses the flow: {why(str(refusal))}"

    def _set_limits(self, limits):
        for zone, limit in limits.items():
            where = f"default={limit}" if zone == "default" else f"zone={zone},limit={limit}"
            self.daemon.call("dpctl/ct-set-limits", where)

    def _counters(self):
        return {name for step in self.case.steps for name in step.get("count", {})}

    def _count(self, name):
        try:
            return int(self.daemon.call("coverage/read-counter", name))
        except Refused:
            return None

    def _step(self, number, step):
        target = step.get("at_ms", self.clock_ms + 1)
        if target > self.clock_ms:
            self.daemon.call("time/warp", target - self.clock_ms)
            self.clock_ms = target
            # Time that passes makes the daemon ask whether we are still there.
            self.openflow.barrier()
        result = self._order(step)
        if "in" in step:
            result |= self._send(number, step)
        elif sends(step):
            result |= self._send_on(number, step)
        if "save" in step:
            self.saved[step["save"]] = self.last
        return result | self._look(step)

    def _order(self, step):
        call = self.daemon.call
        if "check_windows" in step:
            call(f"dpctl/ct-{'enable' if step['check_windows'] else 'disable'}-tcp-seq-chk")
        if "max" in step:
            call("dpctl/ct-set-maxconns", step["max"])
        self._set_limits(step.get("limit", {}))
        if "clear_limit" in step:
            call("dpctl/ct-del-limits", f"zone={step['clear_limit']}")
        if "flush" not in step:
            return {}
        flush, parameters, before = step["flush"], [], len(self._dump())
        if "zone" in flush:
            parameters.append(f"zone={flush['zone']}")
        parameters += [f"{name}={flush[name]}" for name in ("mark", "labels") if name in flush]
        if "original" in flush or "reply" in flush:
            parameters.append(flush.get("original", ""))
        if "reply" in flush:
            parameters.append(flush["reply"])
        try:
            call("dpctl/flush-conntrack", *parameters)
            return {"gone": before - len(self._dump())}
        except Refused:
            return {"gone": None}

    def _send(self, number, step):
        self.last = None
        if "offload" in step:
            return {"ct": NotAskable("a packet can't be given the word of a device")}
        way = self.ways[number]
        if way == NO_WAY:
            return {"ct": NotAskable("OpenFlow's ct action takes IP only")}
        if way in self.refusals:
            return {"ct": NotAskable(self.refusals[way])}
        sent = self.packets.bytes(step["in"])
        if "part" in step:
            sent = fragment(sent, *step["part"])
        self.daemon.call("netdev-dummy/receive", f"p{self.ports[way]}", sent.hex())
        if "parts" in step:
            return {"parts": list(self._parts())}
        return self._received(sent, way)

    def _send_on(self, number, step):
        before, self.last = self.saved.get(step.get("recall"), self.last), None
        if before is None:
            return {"ct": NotAskable("there is no packet to send on")}
        if "recall" in step or self._pauses_before(number):
            self.openflow.resume(before)
        return self._received(before.packet, before.way)

    def _received(self, sent, way):
        packet = self.openflow.packet(0.5)
        if packet is None:
            return {"ct": NOTHING}
        self.last = packet
        packet.way = way
        bits = packet.number("state")
        result = {
            "ct": state_text(bits),
            "is_mark": packet.number("mark"),
            "is_label": f"{packet.number('label'):#x}",
            "tuple": tuple_text(packet, bits),
            "out": self._text(packet.packet),
            "changed": packet.packet != sent,
        }
        return result

    def _parts(self):
        """The fragments that come out, each as its state and its text."""
        while packet := self.openflow.packet(0.2):
            yield f"{state_text(packet.number('state'))}: {self._text(packet.packet)}"

    def _text(self, packet):
        try:
            return self.packets.text(packet)
        except ValueError as error:
            return str(error)

    def _dump(self, *options):
        lines = self.daemon.call("dpctl/dump-conntrack", *options).splitlines()
        return sorted(line for line in lines if line)

    def _look(self, step):
        result = {}
        if "dump" in step:
            result["dump"] = self._dump()
        if "dump_all" in step:
            result["dump_all"] = self._dump("-m", "-s")
        if "stats" in step:
            result["stats"] = self.daemon.call("dpctl/ct-stats-show", "-m")
        if "limits" in step:
            result["limits"] = self.daemon.call("dpctl/ct-get-limits").rstrip("\n")
        if "connections" in step:
            # ct-get-nconns counts also those whose time is over, until a thread comes by.
            result["connections"] = len(self._dump())
        if "count" in step:
            result["count"] = {
                name: self._count(name) - self.counts_before[name]
                for name in step["count"] if self.counts_before[name] is not None
            }
        return result


def state_text(bits):
    return "|".join(name for bit, name in enumerate(STATES) if bits >> bit & 1)


def action_of(case, step):
    """The `ct` action that a step asks for, without its table."""
    parts = [f"zone={step.get('zone', case.data.get('zone', 0))}"]
    force = step.get("force", False)
    if step.get("commit", False) or force:
        parts.append("commit")
    if force:
        parts.append("force")
    if "nat" in step:
        parts.append("nat" if step["nat"] == "restore" else f"nat({step['nat']})")
    sets = [f"set_field:{step[name]}->ct_{name}" for name in ("mark", "label") if name in step]
    if sets:
        parts.append(f"exec({','.join(sets)})")
    if "helper" in step:
        parts.append(f"alg={step['helper']}")
    return ",".join(parts)


def kind_of(step):
    """What of packets a flow has to match for the switch to accept its action."""
    version6 = step["in"].startswith("[")
    if "arp-" in step["in"]:
        raise NotAskable("OpenFlow's ct action takes IP only")
    protocol = {"ftp": "tcp", "tftp": "udp"}.get(step.get("helper"), "ip")
    return {"ip": "ipv6"}.get(protocol, protocol + "6") if version6 else protocol


def sends(step):
    """Whether a step sends a packet, or sends one on."""
    return "in" in step or "recall" in step or step.get("again", False)


def tuple_text(packet, bits):
    protocol = packet.number("proto")
    if not bits & 0x0B:
        return None  # OpenFlow shows tuples of new, established and reply packets only.
    if not protocol:
        return "none"
    ports = packet.number("tp_src"), packet.number("tp_dst")
    if packet.src or packet.dst:
        a, b = (".".join(map(str, ip or bytes(4))) for ip in (packet.src, packet.dst))
    else:
        a, b = (f"[{IPv6Address(ip or bytes(16))}]" for ip in (packet.src6, packet.dst6))
    return f"proto={protocol},{a}:{ports[0]}>{b}:{ports[1]}"


def why(refusal):
    """The sentence in what ovs-ofctl says of a flow, without its hexadecimal dumps."""
    lines = [line for line in refusal.splitlines() if not re.match(r"[0-9a-f]{8} |OFPT", line)]
    said = lines[0] if lines else refusal
    return said.rsplit("WARN|", 1)[-1].removeprefix("ovs-ofctl: ")
