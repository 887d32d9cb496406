#!/usr/bin/python3
"""vhost_liar.py SOCKET [LIE]: speaks vhost-user to a switch's socket, as a guest that lies about its
memory and its rings, or says what is none of the protocol's; prints each lie when the switch has heard
it. With a LIE, only that one.

QEMU's docs/interop/vhost-user.rst has the messages."""
import array
import os
import random
import select
import socket
import struct
import sys
import time

GET_FEATURES, SET_FEATURES, SET_OWNER, SET_MEM_TABLE = 1, 2, 3, 5
SET_VRING_NUM, SET_VRING_ADDR, SET_VRING_BASE = 8, 9, 10
SET_VRING_KICK, SET_VRING_CALL, SET_VRING_ERR = 12, 13, 14
VERSION = 1
MEMORY, BASE, ADDRESS = 1 << 20, 0x100000, 0x7F0000000000
EVENT_IDX, PROTOCOL_FEATURES, PACKED = 1 << 29, 1 << 30, 1 << 34
# Places in the memory, and flags of descriptors.
AVAILABLE, USED, BUFFERS = 0x2000, 0x4000, 0x10000
NEXT, WRITE, INDIRECT = 1, 2, 4


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

    def begin(self, without=PROTOCOL_FEATURES | PACKED):
        self.say(GET_FEATURES)
        features = struct.unpack("<IIIQ", self.socket.recv(20))[3]
        self.say(SET_OWNER)
        self.say(SET_FEATURES, struct.pack("<Q", features & ~without))

    def memory(self, regions, files):
        table = struct.pack("<II", len(regions), 0)
        self.say(SET_MEM_TABLE, table + b"".join(struct.pack("<QQQQ", *each) for each in regions),
                 files)

    def rings(self, descriptors, size=256, apart=0, bell=None):
        """Starts both; `bell` is the eventfd for notifications, if it is not one of each."""
        for index in range(2):
            descriptors += apart * index
            self.say(SET_VRING_NUM, struct.pack("<II", index, size))
            self.say(SET_VRING_BASE, struct.pack("<II", index, 0))
            self.say(SET_VRING_ADDR, struct.pack("<IIQQQQ", index, 0, descriptors,
                                                 descriptors + 0x4000, descriptors + 0x2000, 0))
            for request in (SET_VRING_CALL, SET_VRING_KICK):
                event = os.dup(bell) if bell and request == SET_VRING_CALL else os.eventfd(0)
                self.say(request, struct.pack("<Q", index), [event])
                os.close(event)

    def start(self, file, apart=0x20000):
        """Both rings, in this memory."""
        self.memory([whole_region()], [file])
        self.rings(ADDRESS, apart=apart)

    def hangs_up(self, seconds):
        """Waits until the switch does, but not longer."""
        self.socket.settimeout(seconds)
        return self.socket.recv(64)


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


def small_buffers(file, length=13):
    """256 valid buffers to be received into."""
    for ring in range(256):
        os.pwrite(file, struct.pack("<QIHH", BASE + BUFFERS + 64 * ring, length, WRITE, 0), 16 * ring)
    os.pwrite(file, struct.pack("<HH256H", 0, 256, *range(256)), AVAILABLE)


def jump(guest, index):
    """The overflow of DPDK's vhost library: the index is far ahead of the buffers."""
    file = memfd()
    small_buffers(file)
    guest.start(file)
    time.sleep(0.2)
    os.pwrite(file, struct.pack("<H", index), AVAILABLE + 2)
    guest.hangs_up(1)


def chain(guest, *descriptors):
    """One chain in each ring that begins with the first descriptor."""
    file = memfd()
    for place, descriptor in enumerate(descriptors):
        os.pwrite(file, struct.pack("<QIHH", *descriptor), 16 * place)
    os.pwrite(file, struct.pack("<HHH", 0, 1, 0), AVAILABLE)
    guest.start(file, apart=0)
    guest.hangs_up(0.3)


def shrink(guest):
    file = memfd()
    small_buffers(file, 2000)
    guest.start(file)
    time.sleep(0.2)
    os.ftruncate(file, 0)
    guest.hangs_up(1)


def storm(guest, seed):
    """Rings in which everything changes all the time, now and then plausibly."""
    file, noise = memfd(), random.Random(seed)
    small_buffers(file)
    guest.start(file, apart=0x20000 * (seed % 2))
    end = time.monotonic() + 0.4
    while time.monotonic() < end:
        place = 16 * noise.randrange(256)
        flags = noise.choice([0, NEXT, WRITE, NEXT | WRITE, INDIRECT, 1 << 7, 1 << 15, 0xffff])
        address = BASE + noise.choice([0, BUFFERS, MEMORY - 8, noise.randrange(2 * MEMORY)])
        length = noise.choice([0, 1, 13, 1514, 65_550, 1 << 31])
        os.pwrite(file, struct.pack("<QIHH", address, length, flags, noise.randrange(300)), place)
        os.pwrite(file, struct.pack("<H", noise.randrange(300)), AVAILABLE + 4 + 2 * noise.randrange(256))
        if noise.random() < 0.9:
            used = struct.unpack("<H", os.pread(file, 2, USED + 2))[0]
            os.pwrite(file, struct.pack("<H", (used + noise.randrange(256)) % 65536), AVAILABLE + 2)
        else:
            os.pwrite(file, noise.randbytes(2), AVAILABLE + 2)


def watched_bell(guest):
    """A notification for which the kernel has much to do: sixty thousand watch it."""
    file, bell = memfd(), os.eventfd(0)
    small_buffers(file, 64)
    epolls = [select.epoll() for _ in range(80)]
    for epoll in epolls:
        copies = [os.dup(bell) for _ in range(750)]
        for copy in copies:
            epoll.register(copy, select.EPOLLIN)
        for copy in copies:
            os.close(copy)
    # Each frame is to be notified.
    guest.begin(PROTOCOL_FEATURES | PACKED | EVENT_IDX)
    guest.memory([whole_region()], [file])
    guest.rings(ADDRESS, apart=0x20000, bell=bell)
    guest.hangs_up(1)


def full_bell(guest):
    """A notification that waits for ever, if it is a write: the switch's flag is taken back, the counter full."""
    file, bell = memfd(), os.eventfd(0)
    small_buffers(file, 64)
    os.pwrite(file, struct.pack("<H", 0), AVAILABLE + 2)
    guest.memory([whole_region()], [file])
    guest.rings(ADDRESS, apart=0x20000, bell=bell)
    guest.say(GET_FEATURES)
    guest.socket.recv(20)
    os.set_blocking(bell, True)
    # A first notification may be there.
    os.write(bell, struct.pack("<Q", 1))
    os.read(bell, 8)
    os.write(bell, struct.pack("<Q", 2**64 - 2))
    os.pwrite(file, struct.pack("<H", 256), AVAILABLE + 2)
    time.sleep(0.5)
    if os.pread(file, 2, USED + 2) == bytes(2):
        print("it got no frame: ", end="")
    os.close(bell)


def odd_bell(guest, file):
    """A descriptor for notifications that is not an eventfd."""
    guest.memory([whole_region()], [memfd()])
    guest.say(SET_VRING_CALL, struct.pack("<Q", 0), [file])
    guest.hangs_up(0.3)


def slow_to_close(guest, request):
    """A descriptor that the switch closes last, for which the kernel waits for two seconds."""
    server = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(server.getsockname())
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 2))
    client.setblocking(False)
    try:
        while True:
            client.send(bytes(65536))
    except BlockingIOError:
        pass
    # The switch closes it when it has the whole message, and nothing else has it then.
    guest.say(request, files=[client.fileno()], size=8)
    client.close()
    guest.socket.sendall(bytes(8))
    guest.hangs_up(0.5)


def many_tables(guest):
    """Memory tables of which the last region cannot be mapped, again and again."""
    file = memfd()
    for _ in range(20):
        guest.memory([whole_region()], [file])
    guest.memory([whole_region(), (BASE + MEMORY, MEMORY, ADDRESS + MEMORY, 1 << 40)], [file, file])
    guest.hangs_up(0.3)


def ring_lies():
    """What only rings can say."""
    buffer = (BASE + BUFFERS, 100, 0, 0)
    for index in (257, 300, 60_000, 65_535):
        yield f"an index that jumps to {index}", lambda guest: jump(guest, index)
    for name, *descriptors in [
        ("a chain in a circle", (BASE + BUFFERS, 1, NEXT | WRITE, 0)),
        ("an empty chain in a circle", (BASE + BUFFERS, 0, NEXT, 0)),
        ("a next behind the table", (BASE + BUFFERS, 1, NEXT | WRITE, 256)),
        ("an indirect table in a circle", (BASE, 16, INDIRECT, 0)),
        ("an indirect table of 4 GiB", (BASE, 0xfffffff0, INDIRECT, 0)),
        ("an indirect table of half a descriptor", (BASE + BUFFERS, 8, INDIRECT, 0)),
        ("an indirect table with a next", (BASE + BUFFERS, 16, INDIRECT | NEXT, 1), buffer),
        ("a buffer of 4 GiB", (BASE + BUFFERS, 0xffffffff, WRITE, 0)),
        ("a buffer around the end of all addresses", (2**64 - 8, 16, WRITE, 0)),
        ("a buffer over the descriptors", (BASE, 4096, WRITE, 0)),
        ("a buffer over the used ring", (BASE + USED, 4096, WRITE, 0)),
        ("a frame from the used ring", (BASE + USED, 4096, 0, 0)),
        ("a frame of no bytes", (BASE + BUFFERS, 12, 0, 0)),
        ("a frame of a megabyte", (BASE, MEMORY, 0, 0)),
    ]:
        yield name, lambda guest: chain(guest, *descriptors)
    yield "memory that becomes shorter", shrink
    for seed in range(10):
        yield "a storm in the rings", lambda guest: storm(guest, seed)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    try:
        while True:
            os.write(writing, bytes(65536))
    except BlockingIOError:
        os.set_blocking(writing, True)
    yield "notifications that wait for ever", full_bell
    yield "notifications that thousands watch", watched_bell
    for name, bell in [("a full pipe", writing), ("memory", memfd()),
                       ("a socket", socket.socket(socket.AF_UNIX).detach()),
                       ("a terminal", os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY)),
                       ("a device", os.open("/dev/null", os.O_RDWR))]:
        yield f"{name} for notifications", lambda guest: odd_bell(guest, bell)
    for request in (SET_VRING_KICK, SET_VRING_CALL, SET_VRING_ERR):
        yield f"a descriptor with request {request} that is slow to close", (
            lambda guest: slow_to_close(guest, request))
    yield "a device that never ends as memory", lambda guest: (
        guest.memory([whole_region()], [os.open("/dev/zero", os.O_RDWR)]), guest.rings(ADDRESS))
    yield "tables that fail", many_tables


def lies(path):
    yield from ring_lies()
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
            guest.begin(os.environ.get("PACKED") and PROTOCOL_FEATURES or PROTOCOL_FEATURES | PACKED)
            lie(guest)
            # Until it is heard, or the switch hangs up.
            guest.say(GET_FEATURES)
            guest.socket.recv(64)
        except (OSError, struct.error):
            pass
        guest.socket.close()
        print(name, flush=True)


if __name__ == "__main__":
    main()
