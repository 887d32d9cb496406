"""A pipeline: all that a seed decides, as a list of steps that two switches go through."""

import dataclasses
import pathlib
import random
import tomllib

import frames
import openflow
from flows import Flows

CASES = pathlib.Path(__file__).with_name("cases.toml")
VERSIONS = [10, 13, 13, 14, 15, 15]
# How often a copy of a flow-mod with other bytes is sent besides.
MUTANTS = 0.15


@dataclasses.dataclass(frozen=True)
class Step:
    """`kind` is `order` (of a controller), `packet`, `trace` or `warp`; `text` is for readers."""

    kind: str
    place: str
    text: str
    value: object


@dataclasses.dataclass
class Pipeline:
    # A number, or the name of a case.
    seed: int | str
    version: int
    # Version, that packet-ins are wanted, and their format.
    controller: tuple
    vlans: dict
    steps: list

    def with_steps(self, steps):
        return dataclasses.replace(self, steps=steps)


def make(seed):
    dice = random.Random(seed)
    version = dice.choice(VERSIONS)
    source = Flows(dice, version)
    lines = {"br0": [source.flow(table) for table in range(6) for _ in range(dice.randint(1, 7))],
             "br1": ["table=0,priority=0 actions=NORMAL", source.flow(0)]}
    lines["br0"] += [f"table={table},priority=0 actions={dice.choice(['NORMAL', 'output:2', 'resubmit(,5)', 'drop'])}"
                     for table in range(5) if dice.random() < 0.6] + ["table=5,priority=0 actions=output:3"]
    steps = orders(version, "add-groups", "br0", source.groups()) if version > 10 else []
    steps += orders(version, "add-meters", "br0", source.meters()) if version > 12 else []
    added = {bridge: orders(version, "add-flows", bridge, [f"add {it}" for it in of]) for bridge, of in lines.items()}
    steps += added["br0"] + added["br1"]
    taken = [step.text for step in added["br0"]]
    changes = orders(version, "add-flows", "br0", [source.change(taken) for _ in range(dice.randint(0, 6))])
    steps += [mutant for step in added["br0"] if dice.random() < MUTANTS for mutant in [mutated(dice, step)]]
    traffic = packets(dice)
    for change in changes:
        traffic.insert(dice.randint(0, len(traffic)), change)
    if dice.random() < 0.3:
        traffic.insert(dice.randint(0, len(traffic)), Step("warp", "", "25 s", 25_000))
    return Pipeline(seed, version, (dice.choice([10, 13, 13, 13, 15]), True, dice.choice([0, 1, 2, 2])), vlans(dice), steps + traffic)


def named():
    """The pipelines of `cases.toml` by name."""
    return {it["name"]: it for it in tomllib.loads(CASES.read_text())["case"]}


def made_of(case):
    """The pipeline of a case: groups, meters and flows, then its packets and further flows in turn."""
    version = case.get("version", 13)
    steps = orders(version, "add-groups", "br0", case.get("groups", []))
    steps += orders(version, "add-meters", "br0", case.get("meters", []))
    for bridge, flows in (("br0", case["flows"]), ("br1", case.get("peer_flows", []))):
        added = orders(version, "add-flows", bridge, [f"add {it}" for it in flows])
        if len(added) < len(flows):
            raise ValueError(f"{case['name']}: ovs-ofctl refuses one of its flows")
        steps += added
    hosts = {"kind": "udp", "src": frames.mac(1), "dst": frames.mac(2), "ip_src": frames.ip4(1), "ip_dst": frames.ip4(2)}
    for step in case["packets"]:
        if "flow" in step:
            steps += orders(version, "add-flows", "br0", [step["flow"]])
            continue
        for packet in [step | {"sport": step.get("sport", 1000) + at} for at in range(step.get("times", 1))]:
            fields = hosts | {key: value for key, value in packet.items() if key not in ("port", "times")}
            frame = frames.build(fields)
            steps.append(Step("packet", step["port"], frames.text(fields), frame))
            if step.get("times", 1) == 1 and step["port"] in ("p1", "p2", "p3", "p4"):
                what = (f"in_port={step['port'][1:]}", frame.hex())
                steps.append(Step("trace", "br0", f"{what[0]} {frames.text(fields)}", what))
    return Pipeline(case["name"], version, (13, True, 2), case.get("vlans", {}), steps)


def orders(version, command, bridge, lines):
    if not lines:
        return []
    messages = openflow.encode(version, command, lines)
    return [Step("order", bridge, line, message) for line, message in zip(lines, messages) if message]


def mutated(dice, step):
    """The message with other bytes behind its match's begin, of which most are zero."""
    message = bytearray(step.value)
    for _ in range(dice.choice([1, 1, 2])):
        at = dice.randrange(8, len(message))
        zeros = [it for it in range(8, len(message)) if not message[it]]
        if zeros and dice.random() < 0.6:
            at = dice.choice(zeros)
        message[at] = dice.choice([1, 2, 4, 0x80, 0xFF, message[at] ^ 1, dice.randrange(256)])
    return Step("order", step.place, f"mutant of {step.text}: {bytes(message).hex()}", bytes(message))


def vlans(dice):
    choices = [[], [], [], ["tag=10"], ["tag=20"], ["trunks=10,20"], ["tag=10", "vlan_mode=native-untagged"],
               ["tag=10", "vlan_mode=native-tagged"]]
    return {port: dice.choice(choices) for port in ("p1", "p2", "p3", "p4", "p6") if dice.random() < 0.4}


def packets(dice):
    steps = []
    for _ in range(dice.randint(5, 10)):
        fields = frames.random_fields(dice)
        port = f"p{dice.choice([1, 1, 1, 2, 2, 3, 4, 6])}"
        variant = frames.vary(dice, fields)
        sequence = [fields, variant] if dice.random() < 0.7 else [fields, variant, fields]
        if dice.random() < 0.4 and "ip_src" in fields:
            sequence.append(answer(fields))
        for at, it in enumerate(sequence):
            back = at == 2 and it is not fields
            entry = f"p{dice.choice([2, 3])}" if back else port
            steps.append(Step("packet", entry, frames.text(it), frames.build(it)))
    for at in reversed(range(len(steps))):
        if dice.random() < 0.15:
            it = steps[at]
            bridge = "br1" if it.place == "p6" else "br0"
            number = 2 if it.place == "p6" else int(it.place[1:])
            steps.insert(at, Step("trace", bridge, f"in_port={number} {it.text}", (f"in_port={number}", it.value.hex())))
    return steps


def answer(fields):
    """The packet that comes back."""
    swapped = {"src": "dst", "dst": "src", "ip_src": "ip_dst", "ip_dst": "ip_src", "sport": "dport", "dport": "sport"}
    return {swapped.get(key, key): value for key, value in fields.items()} | (
        {"flags": 0x12} if fields["kind"] in ("tcp", "tcp6") else {"op": 2} if fields["kind"] == "arp" else {})
