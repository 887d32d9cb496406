#!/usr/bin/python3
"""vhost_guest.py SOCKET [PAIRS [SIZE]]: an honest guest behind vhost-user, without QEMU and DPDK. It connects to the
switch's socket, or waits there for the switch if SOCKET begins with "listen:". It prints the time when its rings are
started, and obeys the lines of its input:

    send LENGTH...   sends broadcast frames of these lengths through its first pair
    got              prints how many frames it received
    mute             does not want notifications any more
    off PAIR / on PAIR
                     stops and starts the rings of a pair, as a driver does
"""
import os
import socket
import struct
import sys
import time

from vhost_liar import (ADDRESS, BASE, GET_FEATURES, PROTOCOL_FEATURES, SET_FEATURES, SET_MEM_TABLE, SET_OWNER,
                        SET_VRING_ADDR, SET_VRING_BASE, SET_VRING_CALL, SET_VRING_KICK, SET_VRING_NUM, WRITE, Guest)

GET_VRING_BASE, GET_PROTOCOL_FEATURES, SET_PROTOCOL_FEATURES, SET_VRING_ENABLE, NET_SET_MTU = 11, 15, 16, 18, 20
NET_MTU, VERSION_1, PROTOCOL_NET_MTU = 1 << 3, 1 << 32, 1 << 4
HEADER, BUFFER, MTU = 12, 2048, 1450
# Bytes of memory of each ring, and what is where.
RING = 0x100000
AVAILABLE, USED, BUFFERS = 0x4000, 0x8000, 0x10000


class HonestGuest(Guest):
    def __init__(self, path, pairs, size):
        self.pairs, self.size = pairs, size
        self.sent = 0
        if path.startswith("listen:"):
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(path.removeprefix("listen:"))
            listener.listen()
            self.socket = listener.accept()[0]
        else:
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.connect(path)
        self.socket.settimeout(10)
        self.file = os.memfd_create("guest")
        os.ftruncate(self.file, RING * 2 * pairs)

    def ask(self, request, payload=b""):
        self.say(request, payload)
        size = struct.unpack("<III", self.socket.recv(12))[2]
        return self.socket.recv(size)

    def come_up(self):
        self.ask(GET_FEATURES)
        self.say(SET_OWNER)
        self.say(SET_FEATURES, struct.pack("<Q", NET_MTU | VERSION_1 | PROTOCOL_FEATURES))
        self.ask(GET_PROTOCOL_FEATURES)
        self.say(SET_PROTOCOL_FEATURES, struct.pack("<Q", 1 | PROTOCOL_NET_MTU))
        self.say(NET_SET_MTU, struct.pack("<Q", MTU))
        table = struct.pack("<IIQQQQ", 1, 0, BASE, RING * 2 * self.pairs, ADDRESS, 0)
        self.say(SET_MEM_TABLE, table, [self.file])
        for ring in range(2 * self.pairs):
            self.start(ring, 0)

    def start(self, ring, base):
        at = ADDRESS + ring * RING
        self.say(SET_VRING_NUM, struct.pack("<II", ring, self.size))
        self.say(SET_VRING_BASE, struct.pack("<II", ring, base))
        self.say(SET_VRING_ADDR, struct.pack("<IIQQQQ", ring, 0, at, at + USED, at + AVAILABLE, 0))
        for request in (SET_VRING_CALL, SET_VRING_KICK):
            event = os.eventfd(0)
            self.say(request, struct.pack("<Q", ring), [event])
            os.close(event)
        for slot in range(self.size):
            buffer = BASE + ring * RING + BUFFERS + BUFFER * slot
            self.put(ring, 16 * slot, "<QIHH", buffer, BUFFER, 0 if ring % 2 else WRITE, 0)
            self.put(ring, AVAILABLE + 4 + 2 * slot, "<H", slot)
        if ring % 2 == 0:
            # All buffers are there to be filled, once.
            self.put(ring, AVAILABLE + 2, "<H", self.size)
        self.say(SET_VRING_ENABLE, struct.pack("<II", ring, 1))

    def put(self, ring, at, form, *values):
        os.pwrite(self.file, struct.pack(form, *values), ring * RING + at)

    def get(self, ring, at, form):
        return struct.unpack(form, os.pread(self.file, struct.calcsize(form), ring * RING + at))[0]

    def send(self, lengths):
        for length in lengths:
            slot = self.sent % self.size
            frame = bytes([255] * 6 + [2, 0, 0, 0, 0, 9, 0x88, 0xb5]).ljust(length, b"\0")
            os.pwrite(self.file, bytes(HEADER) + frame, RING + BUFFERS + BUFFER * slot)
            self.put(1, 16 * slot + 8, "<I", HEADER + length)
            self.sent += 1
            self.put(1, AVAILABLE + 2, "<H", self.sent % 65536)

    def off(self, pair):
        for ring in (2 * pair, 2 * pair + 1):
            self.ask(GET_VRING_BASE, struct.pack("<II", ring, 0))

    def on(self, pair):
        for ring in (2 * pair, 2 * pair + 1):
            self.start(ring, self.get(ring, USED + 2, "<H"))


def main():
    path, pairs, size = (sys.argv[1:] + ["1", "256"][len(sys.argv) - 2:])[:3]
    guest = HonestGuest(path, int(pairs), int(size))
    guest.come_up()
    print("up", time.time_ns(), flush=True)
    for line in sys.stdin:
        verb, *rest = line.split()
        numbers = [int(number) for number in rest]
        if verb == "send":
            guest.send(numbers)
        elif verb == "got":
            print("got", guest.get(0, USED + 2, "<H"), flush=True)
        elif verb == "mute":
            for ring in range(2 * guest.pairs):
                guest.put(ring, AVAILABLE, "<H", 1)
        elif verb == "off":
            guest.off(*numbers)
            print("off", time.time_ns(), flush=True)
        elif verb == "on":
            guest.on(*numbers)
            print("up", time.time_ns(), flush=True)


main()
