"""OpenFlow as far as two switches are compared by it: `encode` takes the messages that ovs-ofctl sends for lines of its
syntax, so that both switches get the same bytes, and `Connection` sends them and returns what the switch answers."""

import contextlib
import pathlib
import re
import socket
import struct
import subprocess
import tempfile
import threading

import packet_in

HELLO, ERROR, ECHO_REQUEST, ECHO_REPLY, VENDOR = 0, 1, 2, 3, 4
NICIRA = 0x2320
NXT_FLOW_MOD, NXT_RESUME, NXT_PACKET_IN, NXT_PACKET_IN2 = 13, 28, 17, 30
NXT_SET_PACKET_IN_FORMAT, NXT_SET_CONTROLLER_ID = 16, 20
FEATURES_REQUEST, SET_CONFIG = 5, 9
PROPERTY_CONTINUATION = 8
# Version in the header, and the types of requests there.
WIRE = {10: 1, 11: 2, 12: 3, 13: 4, 14: 5, 15: 6}
MULTIPART = 18
LIMIT_S = 10


def barrier_types(version):
    return (18, 19) if version == 10 else (20, 21)


def header(version, kind, body=b"", xid=1):
    return struct.pack("!BBHI", WIRE[version], kind, 8 + len(body), xid) + body


def is_flow_mod(message):
    kind = message[1]
    return kind == 14 or kind == VENDOR and message[8:16] == struct.pack("!II", NICIRA, NXT_FLOW_MOD)


def is_modification(message):
    """Of flows, groups or meters; the message of group-mods has this number from 1.1 on."""
    return is_flow_mod(message) or message[1] in (15, 29) and message[0] > 1


class Reader:
    """Messages out of a stream."""

    def __init__(self, stream):
        self.stream, self.buffer = stream, b""

    def message(self):
        while len(self.buffer) < 8 or len(self.buffer) < struct.unpack("!H", self.buffer[2:4])[0]:
            more = self.stream.recv(1 << 16)
            if not more:
                return None
            self.buffer += more
        length = max(8, struct.unpack("!H", self.buffer[2:4])[0])
        message, self.buffer = self.buffer[:length], self.buffer[length:]
        return message


def encode(version, command, lines):
    """The message of each line, or None where ovs-ofctl refuses the line itself."""
    messages, left = [None] * len(lines), list(range(len(lines)))
    while left:
        sent, refusal = _send(version, command, [lines[at] for at in left])
        if refusal is None:
            for at, message in zip(left, sent, strict=True):
                messages[at] = message
            return messages
        if not 0 < refusal <= len(left):
            raise RuntimeError(f"ovs-ofctl {command}: cannot tell the refused line of {lines}")
        del left[refusal - 1]
    return messages


def _send(version, command, lines):
    """The modifications that ovs-ofctl sends, and the number of the line that it refuses."""
    with tempfile.TemporaryDirectory(prefix="pipe-") as folder:
        path = pathlib.Path(folder) / "s"
        (pathlib.Path(folder) / "lines").write_text("\n".join(lines) + "\n")
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
            server.listen()
            server.settimeout(LIMIT_S)
            got = []
            thread = threading.Thread(target=_record, args=(server, version, got))
            thread.start()
            done = subprocess.run(
                ["ovs-ofctl", f"-OOpenFlow{version}", "--no-names", command, f"unix:{path}", f"{folder}/lines"],
                capture_output=True, text=True, timeout=LIMIT_S, check=False)
            if done.returncode:
                # Where it did not connect, the thread still waits.
                socket.socket(socket.AF_UNIX).connect(str(path))
            thread.join()
    if done.returncode == 0:
        return got, None
    found = re.search(r"lines:(\d+): ", done.stderr)
    if not found:
        if len(lines) == 1:
            return [], 1
        # Refused as a whole: some line cannot be said in this version.
        alone = (n for n, line in enumerate(lines, 1) if _send(version, command, [line])[1])
        return [], next(alone, 0)
    return [], int(found[1])


def _record(server, version, got):
    client, _ = server.accept()
    client.settimeout(LIMIT_S)
    # ovs-ofctl may end before it has read all.
    with client, contextlib.suppress(ConnectionError):
        reader = Reader(client)
        client.sendall(header(version, HELLO))
        while message := reader.message():
            request, reply = barrier_types(version)
            if message[1] == request:
                client.sendall(message[:1] + bytes([reply]) + message[2:])
            elif is_modification(message):
                got.append(message)


class Connection:
    """A controller. `packet_ins` is what came, with the body after the header."""

    def __init__(self, path, version, wants_packets=False, packet_in_format=0):
        self.version, self.packet_ins, self.others = version, [], []
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(LIMIT_S)
        self.socket.connect(path)
        self.reader = Reader(self.socket)
        self.socket.sendall(header(version, HELLO))
        # A controller of number 0 and a version before 1.3 makes the bridge send packets that no flow matches; Open
        # vSwitch asks for the version only at a request like this.
        self.vendor(NXT_SET_CONTROLLER_ID, struct.pack("!6xH", 0 if wants_packets else 99))
        if wants_packets:
            self.vendor(NXT_SET_PACKET_IN_FORMAT, struct.pack("!I", packet_in_format))
            self.socket.sendall(header(version, SET_CONFIG, struct.pack("!HH", 0, 0xFFFF)))
        self.request(header(version, FEATURES_REQUEST))

    def close(self):
        self.socket.close()

    def vendor(self, subtype, body):
        self.socket.sendall(header(self.version, VENDOR, struct.pack("!II", NICIRA, subtype) + body))

    def request(self, message):
        """The replies until that of a barrier: their types and bodies."""
        barrier, reply = barrier_types(self.version)
        self.socket.sendall(message + header(self.version, barrier, xid=2))
        replies = []
        while True:
            got = self.reader.message()
            if got is None:
                raise ConnectionError("the switch closed the OpenFlow connection")
            kind, body = got[1], got[8:]
            if kind == reply:
                return replies
            if kind == ECHO_REQUEST:
                self.socket.sendall(header(self.version, ECHO_REPLY, body))
            elif kind == 10 or kind == VENDOR and struct.unpack("!II", body[:8])[1] in (NXT_PACKET_IN, NXT_PACKET_IN2):
                self.packet_ins.append(got)
            else:
                replies.append((kind, body))

    def barrier(self):
        self.others += self.request(b"")

    def answer(self, message):
        """"" where the switch accepts a modification, else the type and code of its error."""
        errors = [body[:4] for kind, body in self.request(message) if kind == ERROR]
        return " ".join(error_text(it) for it in errors)

    def take_packets(self):
        taken, self.packet_ins = self.packet_ins, []
        return taken

    def resume(self, message):
        self.vendor(NXT_RESUME, message[16:])

    def flows(self):
        """The coding and the counters of each flow, by table, priority and match."""
        body = struct.pack("!HHIB3xIIIQQHHI", 1, 0, 0, 0xFF, 0xFFFFFFFF, 0xFFFFFFFF, 0, 0, 0, 1, 4, 0)
        found = {}
        for kind, reply in self.request(header(self.version, MULTIPART, body)):
            if kind == ERROR:
                return {"error": (error_text(reply[:4]), "")}
            at = 8
            while at + 56 <= len(reply):
                (length, table, _, _, priority, idle, hard, flags, importance, cookie, packets, size, _, match_length
                 ) = struct.unpack("!HBxIIHHHHHxxQQQHH", reply[at : at + 52])
                padded = (match_length + 7) // 8 * 8
                match, rest = reply[at + 48 : at + 48 + padded], reply[at + 48 + padded : at + length]
                found[f"table={table} priority={priority} match={match.hex()}"] = (
                    f"idle={idle} hard={hard} flags={flags} importance={importance} cookie={cookie:#x} instructions={rest.hex()}",
                    f"packets={packets} bytes={size}")
                at += length
        return found


def error_text(four):
    return "error {}/{}".format(*struct.unpack("!HH", four))


def without_continuation(message):
    """A packet-in without what only its switch understands."""
    if message[1] != VENDOR or struct.unpack("!I", message[12:16])[0] != NXT_PACKET_IN2:
        return message[:4] + message[8:]
    parts = [f"{kind}={value.hex()}" for kind, value in packet_in.properties(message[16:]) if kind != PROPERTY_CONTINUATION]
    return message[:2] + b" " + " ".join(parts).encode()


def is_paused(message):
    if message[1] != VENDOR or struct.unpack("!I", message[12:16])[0] != NXT_PACKET_IN2:
        return False
    return any(kind == PROPERTY_CONTINUATION for kind, _ in packet_in.properties(message[16:]))
