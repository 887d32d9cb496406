"""Frames from fields: `build` makes the bytes of a table of fields, `vary` changes one field of it.

A field that a table lacks has a default. Keys: src dst (Ethernet), tags ((tpid, vid, pcp) each), labels ((label, tc,
ttl) each), kind (tcp udp icmp sctp arp tcp6 udp6 icmp6 nd other), ip_src ip_dst, tos, ttl, part (of a fragmented packet:
"first" "later"), sport dport, flags, op, size (of the payload).
"""

import ipaddress
import struct

IPV4 = ("tcp", "udp", "icmp", "sctp")
IPV6 = ("tcp6", "udp6", "icmp6", "nd")
PROTOCOLS = {"tcp": 6, "udp": 17, "icmp": 1, "sctp": 132, "tcp6": 6, "udp6": 17, "icmp6": 58, "nd": 58}
HOSTS = 4
BROADCAST = "ff:ff:ff:ff:ff:ff"
RESERVED = "01:80:c2:00:00:0e"


def mac(number):
    return f"02:00:00:00:00:{number:02x}"


def ip4(number):
    return f"10.0.0.{number}"


def ip6(number):
    return f"fd00::{number}"


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def transport(fields, pseudo):
    kind, size = fields["kind"], fields.get("size", 20)
    ports = struct.pack("!HH", fields.get("sport", 1000), fields.get("dport", 80))
    data = bytes(range(256))[:size].ljust(size, b".")
    if kind in ("tcp", "tcp6"):
        flags = fields.get("flags", 2)
        header, at = ports + struct.pack("!IIBBHHH", 100, 0 if flags == 2 else 200, 0x50, flags, 1000, 0, 0), 16
    elif kind in ("udp", "udp6"):
        header, at = ports + struct.pack("!HH", 8 + size, 0), 6
    elif kind == "sctp":
        return ports + bytes(8) + data
    elif kind == "nd":
        target = ipaddress.ip_address(fields["ip_dst"]).packed
        header, at, data = struct.pack("!BBHI", 135, 0, 0, 0) + target + b"\1\1" + mac_bytes(fields["src"]), 2, b""
    else:
        echo = 8 if kind == "icmp" else 128
        header, at = struct.pack("!BBHHH", fields.get("op", echo), 0, 0, 7, 1), 2
    covered = header + data
    total = checksum((pseudo if kind != "icmp" else b"") + covered)
    total = total or 0xFFFF if kind in ("udp", "udp6") else total
    return covered[:at] + struct.pack("!H", total) + covered[at + 2 :]


def mac_bytes(text):
    return bytes.fromhex(text.replace(":", ""))


def network(fields):
    """The Ethernet type, and what is behind the Ethernet header, tags and labels."""
    kind = fields["kind"]
    if kind == "other":
        return 0x88B5, bytes(46)
    source, destination = (ipaddress.ip_address(fields[it]).packed for it in ("ip_src", "ip_dst"))
    if kind == "arp":
        hardware = mac_bytes(fields["src"]), bytes(6)
        head = struct.pack("!HHBBH", 1, 0x0800, 6, 4, fields.get("op", 1))
        return 0x0806, head + hardware[0] + source + hardware[1] + destination
    protocol, tos, ttl = PROTOCOLS[kind], fields.get("tos", 0), fields.get("ttl", 64)
    if kind in IPV6:
        data = transport(fields, b"")
        data = transport(fields, source + destination + struct.pack("!II", len(data), protocol))
        return 0x86DD, struct.pack("!IHBB", 6 << 28 | tos << 20, len(data), protocol, ttl) + source + destination + data
    data = transport(fields, b"")
    data = transport(fields, source + destination + struct.pack("!HH", protocol, len(data)))
    place = {"first": 0x2000, "later": 2}.get(fields.get("part"), 0)
    if place == 2:
        data = data[16:]
    head = struct.pack("!BBHHHBBH", 0x45, tos, 20 + len(data), 7, place, ttl, protocol, 0) + source + destination
    return 0x0800, head[:10] + struct.pack("!H", checksum(head)) + head[12:] + data


def build(fields):
    kind, inside = network(fields)
    if fields.get("labels"):
        entries = fields["labels"]
        words = [label << 12 | tc << 9 | (at + 1 == len(entries)) << 8 | ttl
                 for at, (label, tc, ttl) in enumerate(entries)]
        kind, inside = 0x8847, b"".join(struct.pack("!I", word) for word in words) + inside
    head = mac_bytes(fields["dst"]) + mac_bytes(fields["src"])
    for tpid, vid, pcp in fields.get("tags", ()):
        head += struct.pack("!HH", tpid, pcp << 13 | vid)
    return (head + struct.pack("!H", kind) + inside).ljust(60, b"\0")


def random_fields(dice):
    kind = dice.choices(["tcp", "udp", "icmp", "sctp", "arp", "tcp6", "udp6", "icmp6", "nd", "other"],
                        [8, 8, 3, 1, 3, 3, 3, 1, 1, 1])[0]
    a, b = dice.sample(range(1, HOSTS + 1), 2)
    fields = {"kind": kind, "src": mac(a), "dst": mac(b)}
    if kind != "other":
        address = ip6 if kind in IPV6 else ip4
        fields |= {"ip_src": address(a), "ip_dst": address(b)}
    if dice.random() < 0.1 or kind == "arp" and dice.random() < 0.5:
        fields["dst"] = BROADCAST
    if dice.random() < 0.02:
        fields["dst"] = RESERVED
    if dice.random() < 0.25:
        fields["tags"] = [tag(dice)]
        if dice.random() < 0.3:
            fields["tags"] = [(0x88A8, *tag(dice)[1:]), *fields["tags"]]
    if dice.random() < 0.12:
        fields["labels"] = [(dice.choice([16, 17, 100]), dice.choice([0, 3]), dice.choice([1, 2, 64]))
                            for _ in range(dice.randint(1, 3))]
    if kind in IPV4 and dice.random() < 0.06:
        fields["part"] = dice.choice(["first", "later"])
    ports(dice, fields)
    fields["ttl"] = dice.choice([64, 64, 64, 1, 2])
    fields["size"] = dice.choice([20, 20, 200, 1000])
    return fields


def ports(dice, fields):
    fields["sport"], fields["dport"] = dice.choice([1000, 1001]), dice.choice([80, 53])
    if fields["kind"] in ("tcp", "tcp6"):
        fields["flags"] = dice.choice([2, 2, 0x12, 0x10, 0x11, 0x04])


def tag(dice):
    return 0x8100, dice.choice([0, 10, 10, 20, 30]), dice.choice([0, 0, 5])


def vary(dice, fields):
    """The same packet with one other field."""
    other = dict(fields)
    choices = ["src", "dst", "size"]
    if fields["kind"] != "other":
        choices += ["ip_src", "ip_dst"]
    if fields["kind"] in IPV4 + IPV6:
        choices += ["tos", "ttl", "sport", "dport"]
    if fields["kind"] in ("tcp", "tcp6"):
        choices += ["flags"]
    if fields.get("tags"):
        choices += ["tags", "tags"]
    if fields.get("labels"):
        choices += ["labels", "labels"]
    match dice.choice(choices):
        case "src" | "dst" as which:
            other[which] = mac(dice.randint(1, HOSTS + 1))
        case "ip_src" | "ip_dst" as which:
            other[which] = (ip6 if ":" in fields["ip_src"] else ip4)(dice.randint(1, HOSTS + 1))
        case "tos":
            other["tos"] = dice.choice([0, 1, 4, 0xB8])
        case "ttl":
            other["ttl"] = dice.choice([1, 2, 63, 255])
        case "sport" | "dport" as which:
            other[which] = fields[which] ^ (1 << dice.randint(0, 9))
        case "flags":
            other["flags"] = dice.choice([0x10, 0x11, 0x12, 0x04])
        case "tags":
            other["tags"] = [tag(dice), *fields["tags"][1:]]
        case "labels":
            label, tc, ttl = fields["labels"][0]
            other["labels"] = [(label ^ 1, tc, ttl), *fields["labels"][1:]]
        case "size":
            other["size"] = fields["size"] ^ 64
    return other


def text(fields):
    return " ".join(f"{key}={value}" for key, value in fields.items())
