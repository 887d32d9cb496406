"""Just enough OpenFlow 1.3 to be sent packets by a bridge, and to send them on.

Packets come as NXT_PACKET_IN2, which carries the connection tracking fields, and for
`controller(pause)` what the switch needs to go on where it stopped (NXT_RESUME).
"""

import socket
import struct

VERSION = 4
HELLO, ERROR, ECHO_REQUEST, ECHO_REPLY, VENDOR, SET_CONFIG = 0, 1, 2, 3, 4, 9
BARRIER_REQUEST, BARRIER_REPLY = 20, 21
NICIRA = 0x2320
SET_PACKET_IN_FORMAT, RESUME, PACKET_IN2 = 16, 28, 30
PROPERTY_PACKET, PROPERTY_METADATA = 0, 6
NXM_1 = 1
# Names of NXM class 1 fields by number.
FIELDS = {
    105: "state", 106: "zone", 107: "mark", 108: "label", 119: "proto", 120: "src", 121: "dst",
    122: "src6", 123: "dst6", 124: "tp_src", 125: "tp_dst",
}


class PacketIn:
    """A packet as the switch sent it: its bytes and the fields of `FIELDS` that are not 0."""

    def __init__(self, body):
        self.body = body
        self.packet = b""
        self.fields = {}
        for kind, value in properties(body):
            if kind == PROPERTY_PACKET:
                self.packet = value
            elif kind == PROPERTY_METADATA:
                self.fields = fields(value)

    def __getattr__(self, name):
        return self.fields.get(name, b"")

    def number(self, name):
        return int.from_bytes(self.fields.get(name, b""))


class Connection:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.buffer = b""
        self.waiting = []
        self.send(HELLO)
        self.send(SET_CONFIG, struct.pack("!HH", 0, 0xFFFF))
        self.vendor(SET_PACKET_IN_FORMAT, struct.pack("!I", 2))
        self.barrier()

    def close(self):
        self.socket.close()

    def send(self, kind, body=b"", xid=1):
        self.socket.sendall(struct.pack("!BBHI", VERSION, kind, 8 + len(body), xid) + body)

    def vendor(self, subtype, body):
        self.send(VENDOR, struct.pack("!II", NICIRA, subtype) + body)

    def barrier(self):
        """Returns when the switch has done all asked for. Packets that come are kept."""
        self.send(BARRIER_REQUEST)
        while (message := self._message(10))[0] != BARRIER_REPLY:
            self.waiting += filter(None, [self._packet(*message)])

    def packet(self, wait_s):
        """The next packet, or None where none comes."""
        while not self.waiting:
            try:
                message = self._message(wait_s)
            except TimeoutError:
                return None
            self.waiting += filter(None, [self._packet(*message)])
        return self.waiting.pop(0)

    def resume(self, packet):
        """Lets a paused packet go on."""
        self.vendor(RESUME, packet.body)

    def _packet(self, kind, xid, body):
        if kind == ECHO_REQUEST:
            self.send(ECHO_REPLY, body, xid)
        elif kind == ERROR:
            raise RuntimeError(f"OpenFlow error {body[:4].hex()} about {body[4:].hex()}")
        elif kind == VENDOR and struct.unpack("!II", body[:8]) == (NICIRA, PACKET_IN2):
            return PacketIn(body[8:])
        return None

    def _message(self, wait_s):
        self.socket.settimeout(wait_s)
        while True:
            if len(self.buffer) >= 8:
                _, kind, length, xid = struct.unpack("!BBHI", self.buffer[:8])
                if len(self.buffer) >= length:
                    body = self.buffer[8:length]
                    self.buffer = self.buffer[length:]
                    return kind, xid, body
            more = self.socket.recv(65536)
            if not more:
                raise RuntimeError("the switch closed the OpenFlow connection")
            self.buffer += more


def properties(body):
    """Type and value of each property; the next starts at a multiple of eight bytes."""
    at = 0
    while at + 4 <= len(body):
        kind, length = struct.unpack("!HH", body[at : at + 4])
        yield kind, body[at + 4 : at + length]
        at += (length + 7) // 8 * 8


def fields(body):
    found = {}
    at = 0
    while at + 4 <= len(body):
        kind, field, length = struct.unpack("!HBB", body[at : at + 4])
        has_mask = field & 1
        if kind == NXM_1 and field >> 1 in FIELDS:
            value = body[at + 4 : at + 4 + length]
            found[FIELDS[field >> 1]] = value[: len(value) // 2] if has_mask else value
        at += 4 + length
    return found
