"""One of the two switches: its bridges of dummy ports, what a step does to it, and what is seen of it afterwards."""

import re
import struct

import openflow
from daemon import Daemon, Refused

# Bridge, port, number and further settings. The bridges are connected by the patch ports t0 and t1.
PORTS = [("br0", f"p{n}", n, "") for n in (1, 2, 3, 4)] + [
    ("br0", "t0", 5, "peer=t1"), ("br1", "t1", 1, "peer=t0"), ("br1", "p6", 2, ""), ("br1", "p7", 3, "")]
BRIDGES = ["br0", "br1"]


class Crashed(Exception):
    """The daemon ended by itself."""


class Switch(Daemon):
    def __init__(self, program, name):
        super().__init__(0, program)
        self.name = name
        self.fresh = "revalidator/wait" if name == "ours" else "revalidator/purge"
        self.run_number = 0
        self.connections = []

    @property
    def is_alive(self):
        return self.children[-1].poll() is None

    def begin(self, pipeline):
        """Fresh bridges, without flows, connections and addresses."""
        self.end()
        self.run_number += 1
        self.vsctl("--if-exists", "del-br", "br0", "--", "--if-exists", "del-br", "br1")
        command = []
        for bridge in BRIDGES:
            command += ["--", "add-br", bridge, "--", "set", "Bridge", bridge, "datapath_type=dummy", "fail_mode=secure",
                        "protocols=[" + ",".join(f"OpenFlow{it}" for it in openflow.WIRE) + "]"]
        for bridge, port, number, peer in PORTS:
            kind = f"type=patch options:{peer}" if peer else f"type=dummy options:tx_pcap={self.capture(port)}"
            command += ["--", "add-port", bridge, port, *pipeline.vlans.get(port, []), "--", "set", "Interface", port,
                        *kind.split(), f"ofport_request={number}"]
        self.vsctl(*command[1:])
        self.call("dpctl/flush-conntrack")
        self.read = {port: 24 for _, port, _, peer in PORTS if not peer}
        connect = lambda bridge, *more: openflow.Connection(f"{self.directory}/{bridge}.mgmt", *more)
        self.orders = {bridge: connect(bridge, pipeline.version) for bridge in BRIDGES}
        self.controllers = {bridge: connect(bridge, *pipeline.controller) for bridge in BRIDGES}
        self.dumps = {f"{bridge} as 1.{version - 10}": connect(bridge, version) for bridge in BRIDGES for version in (13, 14)}
        self.connections = [*self.orders.values(), *self.controllers.values(), *self.dumps.values()]

    def end(self):
        for connection in self.connections:
            connection.close()
        self.connections = []
        for file in self.directory.glob("*.pcap"):
            file.unlink()

    def capture(self, port):
        return self.directory / f"{port}.{self.run_number}.pcap"

    def order(self, bridge, message):
        """What it answers to a modification."""
        return self.orders[bridge].answer(message)

    def settle(self):
        """Returns when packets that came before are on their way, and no installed flow is older than the tables.

        Open vSwitch's main thread executes packets between two commands. Its revalidators take half a second for a
        round, so that flows are purged instead: the reference translates each packet anew.
        """
        self.call("time/stop")
        self.call(self.fresh)
        self.call("time/stop")

    def packet(self, port, frame):
        """The frames that leave by each port, and the packet-ins, of a packet. Paused packets are resumed."""
        self.call("netdev-dummy/receive", port, frame.hex())
        return self.take()

    def sent_by_controller(self, bridge, message):
        answer = self.orders[bridge].answer(message)
        return ({"answer": answer} if answer else {}) | self.take()

    def take(self):
        seen = {}
        for _ in range(8):
            self.settle()
            paused = []
            for bridge, controller in self.controllers.items():
                controller.barrier()
                for message in controller.take_packets():
                    paused += [(controller, message)] if openflow.is_paused(message) else []
                    shown = openflow.without_continuation(message).hex()
                    seen[f"packet-in {bridge}"] = seen.get(f"packet-in {bridge}", []) + [shown]
            for controller, message in paused:
                controller.resume(message)
                controller.barrier()
            if not paused:
                break
        for port, at in self.read.items():
            frames, self.read[port] = records(self.capture(port).read_bytes(), at)
            if frames:
                seen[f"frames {port}"] = [it.hex() for it in frames]
        return seen

    def warp(self, milliseconds):
        self.call("time/warp", milliseconds, milliseconds)
        return self.take()

    def trace(self, bridge, what):
        """The last line of each pass: what the datapath would do. Controllers may get the packet, too."""
        said = self.call("ofproto/trace", bridge, *what)
        self.take()
        return [comparable(it) for it in re.findall(r"^Datapath actions: (.*)$", said, re.M)]

    def state(self):
        """Flows and their counters, connections and learned addresses."""
        self.settle()
        found = {}
        for name, connection in self.dumps.items():
            for key, (coding, counters) in connection.flows().items():
                found |= {f"flow {name}: {key}": coding, f"counters {name}: {key}": counters}
        lines = self.call("dpctl/dump-conntrack").splitlines()
        found["connections"] = sorted(re.sub(r",timeout=\d+|,id=\d+", "", it) for it in lines)
        for bridge in BRIDGES:
            rows = [it.split() for it in self.call("fdb/show", bridge).splitlines()[1:]]
            found[f"addresses {bridge}"] = sorted(" ".join(it[:3]) for it in rows)
        return found


def comparable(actions):
    """Numbers of recirculation and of packet-ins' states are each switch's own. So is the order in which a flood visits
    the ports, and with it when a tag is pushed and popped; the frames show the tags."""
    actions = re.sub(r"recirc\(0x[0-9a-f]+\)", "recirc(N)", re.sub(r"recirc_id=\d+", "recirc_id=N", actions))
    actions = re.sub(r"(?:push_vlan\([^)]*\)|pop_vlan),", "", actions)
    return re.sub(r"\b\d+(?:,\d+\b)+(?![:.=/])", lambda found: ",".join(sorted(found[0].split(","), key=int)), actions)


def records(data, at):
    """The frames of a capture from an offset on, and where the next will be."""
    frames = []
    while at + 16 <= len(data):
        order = "<" if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
        length = struct.unpack(order + "I", data[at + 8 : at + 12])[0]
        frames.append(data[at + 16 : at + 16 + length])
        at += 16 + length
    return frames, at
