#!/usr/bin/python3
"""many_udp.py DEVICE FROM_MAC TO_MAC FROM TO COUNT [FIRST]: sends COUNT datagrams, each of another
connection: source ports from 1024 on, and destination ports from 1000 + FIRST on as those run out."""
import socket
import struct
import sys

SOURCES = 20000

device, source_mac, to_mac, source, to = sys.argv[1:6]
count, first = int(sys.argv[6]), int(sys.argv[7]) if len(sys.argv) > 7 else 0


def mac(text):
    return bytes(int(part, 16) for part in text.split(":"))


header = struct.pack("!BBHHHBBH", 0x45, 0, 28, 0, 0, 64, 17, 0)
header += socket.inet_aton(source) + socket.inet_aton(to)
total = sum(struct.unpack("!10H", header))
while total >> 16:
    total = (total & 0xFFFF) + (total >> 16)
header = header[:10] + struct.pack("!H", ~total & 0xFFFF) + header[12:]
start = mac(to_mac) + mac(source_mac) + b"\x08\x00" + header
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
    sender.bind((device, 0))
    for number in range(count):
        sport, dport = 1024 + number % SOURCES, 1000 + first + number // SOURCES
        # A datagram may go without a checksum.
        sender.send(start + struct.pack("!HHHH", sport, dport, 8, 0))
