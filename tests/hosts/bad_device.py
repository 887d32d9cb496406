#!/usr/bin/python3
"""bad_device.py CLIENT SERVER MODE [SECONDS]: a device between two network devices that forwards as it should
for so many seconds and then no more: `nothing`; `twice`; `back`, to the side that it came from;
`garbage`, bytes that cannot be read; `mute`, nothing from the server's side."""
import os
import select
import socket
import sys
import time

PACKET_OUTGOING, ETH_P_ALL = 4, 3


def joined(name):
    device = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    device.bind((name, 0))
    return device


client, server, mode = joined(sys.argv[1]), joined(sys.argv[2]), sys.argv[3]
bad_from = time.monotonic() + float(sys.argv[4] if len(sys.argv) > 4 else 0)
others = {client: server, server: client}
print("ready", flush=True)
while True:
    for device in select.select(list(others), [], [])[0]:
        frame, sender = device.recvfrom(65535)
        if sender[2] == PACKET_OUTGOING:
            continue
        to, is_bad = others[device], time.monotonic() >= bad_from
        if not is_bad or mode == "twice":
            to.send(frame)
        if not is_bad:
            continue
        if mode == "twice":
            to.send(frame)
        elif mode == "back":
            device.send(frame)
        elif mode == "garbage":
            to.send(frame[:14] + os.urandom(len(frame) - 14))
        elif mode == "mute" and device is client:
            to.send(frame)
