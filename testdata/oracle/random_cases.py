#!/usr/bin/env python3
"""Prints random cases, for `take_states.py --write` to fill in: random_cases.py SEED COUNT.

Most are TCP connections that go astray: two ends with sequence numbers of their own, from which a
packet now and then departs by amounts around the limits of the window checks. The others mix
datagrams, echoes, errors and protocols without ports between three hosts. Time passes in jumps
around the timeouts.
"""

import json
import random
import sys

FLAGS = {"S": 6, "SA": 5, "A": 14, "PA": 12, "FA": 6, "F": 1, "R": 3, "RA": 3, "SR": 1, "FPA": 2,
         "U": 1, "-": 1, "SF": 1, "PAU": 1, "SAE": 1}
AROUND = [1, -1, 2, -2, 1000, -1000, 66000, -66000, 70000]
AROUND_ACK = [1, -1, 1000, -1000, 66035, 66036, 66037, -66035, -66036, -66037, 70000]
HOSTS = ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
HEADER = """\
# Random cases (testdata/oracle/random_cases.py {} {}), expectations taken from Open vSwitch's
# own daemon.
"""


class Tcp:
    """Two ends of a TCP connection, with NAT or without."""

    def __init__(self, dice):
        self.dice = dice
        version6 = dice.random() < 0.15
        client, server = ("[fd00::1]:1000", "[fd00::2]:80") if version6 else (
            "10.0.0.1:1000", "10.0.0.2:80")
        ways = [(None, server, client)] * 3
        if not version6:
            ways += [("src=30.0.0.1:7000", server, "30.0.0.1:7000"),
                     ("dst=30.0.0.2:8080", "30.0.0.2:8080", client)]
        self.nat, back_from, back_to = dice.choice(ways)
        self.ends = [f"{client}>{server}", f"{back_from}>{back_to}"]
        self.next = [dice.choice([100, 4294967200, dice.randrange(2**32)]) for _ in range(2)]

    def step(self, number):
        dice = self.dice
        side = dice.randint(0, 1) if number else 0
        flags = dice.choices(list(FLAGS), FLAGS.values())[0]
        if number < 3 and dice.random() < 0.7:
            side, flags = [(0, "S"), (1, "SA"), (0, "A")][number]
        step = {"in": self.packet(side, flags)}
        if (number == 0 and dice.random() < 0.9) or dice.random() < 0.15:
            step |= commit(dice)
            if self.nat:
                step["nat"] = self.nat
        elif self.nat and dice.random() < 0.9:
            step["nat"] = "restore"
        return step

    def packet(self, side, flags):
        dice = self.dice
        off = dice.choice(AROUND + [dice.randrange(2**32)]) if dice.random() < 0.3 else 0
        off_ack = dice.choice(AROUND_ACK + [dice.randrange(2**32)]) if dice.random() < 0.3 else 0
        sequence = (self.next[side] + off) % 2**32
        text = f"{self.ends[side]} {flags} seq={sequence}"
        if "A" in flags:
            text += f" ack={(self.next[1 - side] + off_ack) % 2**32}"
        text += f" win={dice.choice([0, 1, 500, 1000, 1000, 2000, 65535])}"
        if "S" in flags and dice.random() < 0.4:
            text += f" wscale={dice.choice([0, 1, 7, 14, 15])}"
        length = dice.choice([0, 0, 0, 1, 10, 1000, 1400, 60000])
        if not set(flags) <= set("PAU") and dice.random() < 0.85:
            length = 0
        if length:
            text += f" len={length}"
        if not off:
            self.next[side] = (sequence + length + ("S" in flags) + ("F" in flags)) % 2**32
        return text + (" csum=bad" if dice.random() < 0.02 else "")


class Mixed:
    """Packets of other protocols between three hosts."""

    def __init__(self, dice):
        self.dice = dice

    def step(self, _number):
        dice = self.dice
        a, b = dice.sample(HOSTS, 2)
        kind = dice.random()
        if kind < 0.5:
            text = f"{self.datagram(a, b)}{dice.choice(['', '', ' csum=zero'])}"
        elif kind < 0.7:
            text = f"{a}>{b} {dice.choice(['icmp-echo', 'icmp-reply'])} id={dice.choice([7, 8])}"
            text += " seq=1 len=8"
        elif kind < 0.9:
            quoted = dice.choice([self.datagram(b, dice.choice(HOSTS)),
                                  f"{b}>{a} icmp-echo id=7 seq=1 len=8", f"{b}>{a} ip proto=47 len=20"])
            code = dice.choice([0, 1, 3])
            text = f"{a}>{b} icmp-error({dice.choice([3, 4, 5, 11, 12])},{code}) ({quoted})"
        else:
            text = f"{a}>{b} ip proto={dice.choice([47, 33])} len=20"
        return {"in": text} | (commit(dice) if dice.random() < 0.5 else {})

    def datagram(self, a, b):
        ports = [self.dice.choice([53, 1000]) for _ in range(2)]
        return f"{a}:{ports[0]}>{b}:{ports[1]} udp len=20"


def commit(dice):
    step = {"commit": True}
    if dice.random() < 0.3:
        step["mark"] = dice.choice(["5", "0x30/0xf0"])
    if dice.random() < 0.2:
        step["label"] = dice.choice(["9", "0xab00/0xff00"])
    if dice.random() < 0.15:
        step["force"] = True
    return step


def case(dice):
    source = Tcp(dice) if dice.random() < 0.7 else Mixed(dice)
    jumps = [1000, 29999, 30000, 59999, 60000, 899999, 900000]
    steps, time = [], 0
    for number in range(dice.randint(4, 14)):
        time += dice.choice(jumps) if dice.random() < 0.15 else 1
        step = {"at_ms": time} | source.step(number)
        if dice.random() < 0.06:
            step["zone"] = 1
        steps.append(step | {"is_mark": 0, "is_label": "", "out": "", "ct": ""})
        if dice.random() < 0.1 and "commit" not in step and "nat" not in step:
            then = commit(dice) if dice.random() < 0.5 else {}
            steps.append({"at_ms": time, "again": True} | then | {"is_mark": 0, "out": "", "ct": ""})
        elif dice.random() < 0.2:
            steps[-1]["dump_all"] = []
    steps[-1]["dump_all"] = []
    return steps


def main():
    seed, count = int(sys.argv[1]), int(sys.argv[2])
    dice = random.Random(seed)
    print(HEADER.format(seed, count))
    for number in range(count):
        print(f'[[case]]\nname = "random {seed}.{number}"\nsteps = [')
        for step in case(dice):
            inside = ", ".join(f"{key} = {json.dumps(value)}" for key, value in step.items())
            print("  { " + inside + " },")
        print("]\n")


if __name__ == "__main__":
    main()
