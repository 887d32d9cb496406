#!/usr/bin/python3
"""vhost_liar.py SOCKET [LIE]: speaks vhost-user to a switch's socket, as a guest that lies about its
memory and its rings, or says what is none of the protocol's; prints each lie when the switch has heard
it. With a LIE, only that one.

QEMU's docs/interop/vhost-user.rst has the messages."""
import array
import os
import random
import socket
import struct
import sys
import time

GET_FEATURES, SET_FEATURES, SET_OWNER, SET_MEM_TABLE = 1, 2, 3, 5
SET_VRING_NUM, SET_VRING_ADDR, SET_VRING_BASE, SET_VRING_KICK, SET_VRING_CALL = 8, 9, 10, 12, 13
VERSION = 1
MEMORY, BASE, ADDRESS = 1 << 20, 0x100000, 0x7F0000000000


class Guest:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(2)
        self.socket.connect(path)

    def say(self, request, payload=b"", files=(), size=None):
        size = len(payload) if size is None else size
        message = struct.pack("<III", request, VERSION, size) + payload
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))] if files else []
        self.socket.sendmsg([message], rights)

    def begin(self):
        self.say(GET_FEATURES)
        features = struct.unpack("<IIIQ", self.socket.recv(20))[3]
        self.say(SET_OWNER)
        self.say(SET_FEATURES, struct.pack("<Q", features & ~(1 << 30)))

    def memory(self, regions, files):
        table = struct.pack("<II", len(regions), 0)
        self.say(SET_MEM_TABLE, table + b"".join(struct.pack("<QQQQ", *each) for each in regions),
                 files)

    def rings(self, descriptors, size=256):
        for index in range(2):
            self.say(SET_VRING_NUM, struct.pack("<II", index, size))
            self.say(SET_VRING_BASE, struct.pack("<II", index, 0))
            self.say(SET_VRING_ADDR, struct.pack("<IIQQQQ", index, 0, descriptors,
                                                 descriptors + 0x4000, descriptors + 0x2000, 0))
            for request in (SET_VRING_CALL, SET_VRING_KICK):
                self.say(request, struct.pack("<Q", index), [os.eventfd(0)])


def memfd(size=MEMORY):
    file = os.memfd_create("guest")
    os.ftruncate(file, size)
    return file


def whole_region(address=ADDRESS):
    return (BASE, MEMORY, address, 0)


def wild_descriptors(file):
    """Rings whose descriptors lead out of the memory, round in circles, and on for ever."""
    for ring in range(0, 0x1000, 16):
        os.pwrite(file, struct.pack("<QIHH", BASE + MEMORY - 8, 1 << 31, 3, ring // 16), ring)
    os.pwrite(file, struct.pack("<HH", 0, 200) + struct.pack("<200H", *range(65535, 65335, -1)), 0x2000)


def lies(path):
    file = memfd()
    yield "rings outside of the memory", lambda guest: (
        guest.memory([whole_region()], [file]), guest.rings(ADDRESS + 2 * MEMORY))
    yield "rings at the memory's end", lambda guest: (
        guest.memory([whole_region()], [file]), guest.rings(ADDRESS + MEMORY - 64))
    yield "rings of 65,535 and of none", lambda guest: (
        guest.memory([whole_region()], [file]), guest.rings(ADDRESS, 65535), guest.rings(ADDRESS, 0))
    yield "an offset that wraps", lambda guest: (
        guest.memory([(BASE, MEMORY, ADDRESS, 2**64 - 4096)], [file]), guest.rings(ADDRESS))
    yield "a size that wraps", lambda guest: (
        guest.memory([(BASE, 2**64 - 1, ADDRESS, 0)], [file]), guest.rings(ADDRESS))
    yield "more regions than there are files", lambda guest: (
        guest.memory([whole_region(), whole_region(ADDRESS + MEMORY)], [file]),
        guest.rings(ADDRESS))
    yield "a thousand regions", lambda guest: guest.say(
        SET_MEM_TABLE, struct.pack("<II", 1000, 0) + bytes(32 * 8), [file])
    yield "a file that cannot be mapped", lambda guest: (
        guest.memory([whole_region()], [os.open("/", os.O_RDONLY)]), guest.rings(ADDRESS))
    wild = memfd()
    wild_descriptors(wild)
    yield "descriptors that lead anywhere", lambda guest: (
        guest.memory([whole_region()], [wild]), guest.rings(ADDRESS), time.sleep(0.5))
    short = memfd(4096)
    yield "memory that is longer than its file", lambda guest: (
        guest.memory([whole_region()], [short]), guest.rings(ADDRESS + 0x8000), time.sleep(0.5))
    yield "rings without memory", lambda guest: guest.rings(ADDRESS)
    yield "a message longer than any", lambda guest: guest.say(
        SET_FEATURES, bytes(64), size=2**32 - 1)
    yield "half a message", lambda guest: guest.say(SET_MEM_TABLE, bytes(4), size=200)
    noise = random.Random(1)
    for _ in range(40):
        request, length = noise.randrange(45), noise.randrange(64)
        yield "noise", lambda guest: guest.say(request, noise.randbytes(length))


def main():
    path, wanted = sys.argv[1], sys.argv[2:]
    for name, lie in lies(path):
        if wanted and name not in wanted:
            continue
        guest = Guest(path)
        try:
            guest.begin()
            lie(guest)
            # Until it is heard, or the switch hangs up.
            guest.say(GET_FEATURES)
            guest.socket.recv(64)
        except (OSError, struct.error):
            pass
        guest.socket.close()
        print(name, flush=True)


main()
