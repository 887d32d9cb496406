#!/usr/bin/python3
"""tunnel_tenants.py PROTOCOL MAC ROUNDS VNI...: the far end of a tunnel with several networks, on eth0.

The protocol is vxlan or geneve. In each round, sends two datagrams of every pair of networks, one after the
other, all with the same inner addresses and ports, and with the VNI as payload. Prints for each VNI how many
answers came and what they said, such as `101: 30 101`.
"""
import collections
import itertools
import socket
import struct
import sys
import time

NEAR, FAR = "172.31.1.1", "172.31.1.2"
# UDP port and first word of the header.
PROTOCOLS = {"vxlan": (4789, 0x08000000), "geneve": (6081, 0x6558)}
INNER = ("02:00:00:00:00:01", "02:00:00:00:00:02", "10.0.0.1", "10.0.0.2")


def checksum(header):
    total = sum(struct.unpack("!10H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def udp(to_mac, from_mac, to_ip, from_ip, ports, payload):
    """A frame with a datagram, without UDP checksum."""
    header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 28 + len(payload), 0, 0, 64, 17, 0,
                         socket.inet_aton(from_ip), socket.inet_aton(to_ip))
    header = header[:10] + struct.pack("!H", checksum(header)) + header[12:]
    macs = bytes.fromhex((to_mac + from_mac).replace(":", ""))
    return macs + b"\x08\x00" + header + struct.pack("!HHHH", *ports, 8 + len(payload), 0) + payload


def of_network(protocol, near_mac, vni):
    port, first = PROTOCOLS[protocol]
    inner = udp(*INNER, (5, 6), b"%d" % vni)
    header = struct.pack("!II", first, vni << 8)
    return udp(near_mac, "02:00:00:00:00:fe", NEAR, FAR, (40000, port), header + inner)


def answers(device, protocol, seconds):
    """VNI and payload of each datagram that comes out of the tunnel's near end."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        device.settimeout(left)
        try:
            frame = device.recv(65535)
        except TimeoutError:
            return
        if frame[12:14] == b"\x08\x00" and frame[26:30] == socket.inet_aton(NEAR) and frame[23] == 17:
            if struct.unpack("!HxxxxI", frame[36:46]) != PROTOCOLS[protocol]:
                continue
            inner = frame[50:]
            if inner[23:24] == b"\x11" and inner[34:38] == struct.pack("!HH", 6, 5):
                yield struct.unpack("!I", frame[46:50])[0] >> 8, inner[42:].decode()


def main():
    protocol, near_mac, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
    networks = list(map(int, sys.argv[4:]))
    device = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003))
    device.bind(("eth0", 0))
    came = collections.defaultdict(list)
    for _ in range(rounds):
        for pair in itertools.product(networks, networks):
            for vni in pair:
                device.send(of_network(protocol, near_mac, vni))
        for vni, payload in answers(device, protocol, 0.03):
            came[vni].append(payload)
    for vni, payload in answers(device, protocol, 0.3):
        came[vni].append(payload)
    for vni in sorted(came):
        print(f"{vni}: {len(came[vni])} {' '.join(sorted(set(came[vni])))}")


main()
