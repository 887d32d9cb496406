#!/usr/bin/env python3
"""Records what Open vSwitch's daemon answers to flow-mods, for the test that compares this switch with it.

record.py OVS_TREE FILE...: runs the programs of a built Open vSwitch tree (ovsdb-server, ovs-vswitchd with dummy ports,
ovs-ofctl) in a temporary folder, and writes FILE.answers for each FILE of flows.

A line of a file of flows is a flow in the syntax of ovs-ofctl; `#` begins a comment. Behind `masked` the headers of
some fields get the bit for a mask. ovs-ofctl encodes each flow in every
version of OpenFlow. `s` are messages that set up the bridge. For each flow the answers have the flow-mod (`>`) and the daemon's answer: the beginning of its error
(`e`), or the actions or instructions of its dump of the flow (`<`), which are left out if they are those of the flow-mod.
`d` has
dumps in other versions. `!` is a version for which ovs-ofctl refuses the flow. `=` is the flow as the daemon's
bridge/dump-flows prints it. `~` has the answers to faulty copies of the flow-mod: for each byte behind the match and each
of two changes (the lowest bit, all bits), the number of an error, from 1 in the order of the list at the end of the
file, or 0 for none.
"""

import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading

VERSIONS = [1, 2, 3, 4, 5, 6]
FAULTY = [1, 4, 6]
CHANGES = [0x01, 0xFF]
# Versions of further dumps.
OTHERS = {1: [4], 4: [6], 6: [1, 4]}
HELLO, ERROR, FLOW_MOD, NICIRA = 0, 1, 14, 0x2320
SETUP = [
    ("add-meter", "meter=1 pktps band=type=drop rate=1"),
    ("add-group", "group_id=1,type=all,bucket=actions=1"),
    ("add-tlv-map", "{class=0x102,type=0x80,len=4}->tun_metadata0,{class=0x102,type=0x81,len=124}->tun_metadata1"),
]


def header(version, kind, xid, body=b""):
    return struct.pack("!BBHI", version, kind, 8 + len(body), xid) + body


# Headers of fields (reg0, ct_mark, nsh_c1, tun_metadata0), and the same with a mask.
MASKED = [
    ("00010004", "00010108"),
    ("0001d604", "0001d708"),
    ("ffff0c08", "ffff0d0c"),
    ("0001507c", "000151f8"),
]


def masked(flow_mod):
    """The flow-mod with the bit for masks in the headers of fields in its actions."""
    at = behind_match(flow_mod)
    actions = flow_mod[at:].hex()
    for plain, header in MASKED:
        actions = actions.replace(plain, header)
    return flow_mod[:at] + bytes.fromhex(actions)


def barrier(version, xid):
    return header(version, 18 if version == 1 else 20, xid)


class Stream:
    """Messages of one connection."""

    def __init__(self, sock):
        self.sock, self.data = sock, b""
        sock.settimeout(10)

    def message(self):
        while len(self.data) < 8 or len(self.data) < self.length():
            piece = self.sock.recv(65536)
            if not piece:
                return None
            self.data += piece
        taken, self.data = self.data[: self.length()], self.data[self.length() :]
        return taken

    def length(self):
        return struct.unpack_from("!H", self.data, 2)[0]


class Encoder:
    """A switch that only records what ovs-ofctl sends."""

    def __init__(self, tree, folder):
        self.ofctl = f"{tree}/utilities/ovs-ofctl"
        self.path = f"{folder}/encoder"
        self.server = socket.socket(socket.AF_UNIX)
        self.server.bind(self.path)
        self.server.listen(8)

    def encode(self, version, command, argument):
        """The message of a command that changes something, or None and why ovs-ofctl refuses the argument."""
        name = f"OpenFlow1{version - 1}"
        arguments = [self.ofctl, "-O", name, "--no-names", command, f"unix:{self.path}", argument]
        client = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        out = []
        self.server.settimeout(0.01)
        while client.poll() is None:
            try:
                peer, _ = self.server.accept()
            except TimeoutError:
                continue
            self.serve(Stream(peer), version, out)
            break
        said = client.communicate()[0]
        self.server.settimeout(0)
        try:
            self.server.accept()[0].close()
        except BlockingIOError:
            pass
        # A client of OpenFlow 1.0 may ask for a format first.
        return (out[-1], "") if out else (None, said.strip())

    def serve(self, stream, version, out):
        stream.sock.sendall(header(version, HELLO, 1))
        while message := stream.message():
            xid = struct.unpack_from("!I", message, 4)[0]
            asked = barrier(version, xid)
            if message[1] == asked[1]:
                stream.sock.sendall(asked[:1] + bytes([asked[1] + 1]) + asked[2:])
            elif message[1] != HELLO:
                out.append(message[:4] + b"\0\0\0\x07" + message[8:])


class Switch:
    """The daemon, and a connection to its bridge for each version."""

    def __init__(self, bridge, control):
        self.control = control
        self.streams = {}
        for version in VERSIONS:
            sock = socket.socket(socket.AF_UNIX)
            sock.connect(bridge)
            sock.sendall(header(version, HELLO, 1))
            self.streams[version] = Stream(sock)

    def ask(self, version, *messages):
        """The answers to the messages, up to that of a barrier behind them."""
        stream = self.streams[version]
        stream.sock.sendall(b"".join(messages) + barrier(version, 0x99))
        out = []
        while True:
            message = stream.message()
            if message is None:
                sys.exit("the daemon closed a connection")
            if message[4:8] == b"\0\0\0\x99":
                return out
            if message[1] not in (HELLO, 2):
                out.append(message)

    def answer(self, version, flow_mod):
        errors = [error_of(it) for it in self.ask(version, flow_mod) if it[1] == ERROR]
        return errors[0] if errors else None

    def dump(self, version):
        """The actions or instructions of the bridge's only flow."""
        (reply,) = self.ask(version, all_flows(version))
        return reply[behind_stats(reply) :]

    def clear(self):
        self.ask(4, delete_all())

    def text(self):
        """The bridge's only flow as bridge/dump-flows prints it."""
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(self.control)
        sock.sendall(json.dumps({"id": 0, "method": "bridge/dump-flows", "params": ["br0"]}).encode())
        data = b""
        while True:
            data += sock.recv(65536)
            try:
                lines = json.loads(data)["result"].splitlines()
                break
            except ValueError:
                continue
        (line,) = [line for line in lines if "table_id=254" not in line]
        return line.split("n_bytes=0, ", 1)[1]


def error_of(message):
    body = message[8:]
    kind = struct.unpack_from("!H", body)[0]
    if kind == 0xFFFF:
        return body[:8].hex()
    return body[:12].hex() if kind == 0xB0C2 else body[:4].hex()


def all_flows(version):
    if version == 1:
        # NXST_FLOW
        body = struct.pack("!HHIIIHHB3x", 0xFFFF, 0, NICIRA, 0, 0, 0xFFFF, 0, 0xFF)
        return header(1, 16, 0x98, body)
    match = match11() if version == 2 else struct.pack("!HH4x", 1, 4)
    body = struct.pack("!HH4xB3xII4xQQ", 1, 0, 0xFF, 0xFFFFFFFF, 0xFFFFFFFF, 0, 0) + match
    return header(version, 18, 0x98, body)


def match11():
    """OpenFlow 1.1's match of all packets."""
    wide = struct.pack("!HHII", 0, 88, 0, 0x3FF)
    macs = bytes(6) + b"\xff" * 6 + bytes(6) + b"\xff" * 6
    rest = struct.pack("!HBxHBB", 0, 0, 0, 0, 0)
    ips = bytes(4) + b"\xff" * 4 + bytes(4) + b"\xff" * 4
    end = struct.pack("!HHIB3x", 0, 0, 0, 0) + bytes(8) + b"\xff" * 8
    match = wide + macs + rest + ips + end
    assert len(match) == 88, len(match)
    return match


def delete_all():
    body = struct.pack("!QQBBHHHIIIH2x", 0, 0, 0xFF, 3, 0, 0, 0, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    return header(4, FLOW_MOD, 0x97, body + struct.pack("!HH4x", 1, 4))


def padded(length):
    return (length + 7) // 8 * 8


def behind_stats(reply):
    """The offset of the actions or instructions in a reply with one flow."""
    version = reply[0]
    if version == 1:
        return 24 + 48 + padded(struct.unpack_from("!H", reply, 24 + 18)[0])
    if version < 6:
        return 16 + 48 + padded(struct.unpack_from("!H", reply, 16 + 48 + 2)[0])
    stats = 16 + 24 + padded(struct.unpack_from("!H", reply, 16 + 24 + 2)[0])
    return stats + padded(struct.unpack_from("!H", reply, stats + 2)[0])


def behind_match(flow_mod):
    """The offset of a flow-mod's actions or instructions."""
    version = flow_mod[0]
    if version == 1:
        if flow_mod[1] == FLOW_MOD:
            return 72
        match_len = struct.unpack_from("!H", flow_mod, 42)[0]
        return 48 + padded(match_len)
    if version == 2:
        return 48 + 88
    match_len = struct.unpack_from("!H", flow_mod, 50)[0]
    return 48 + padded(match_len)


def faulty(flow_mod):
    """Copies of a flow-mod with one byte changed."""
    for at in range(behind_match(flow_mod), len(flow_mod)):
        for change in CHANGES:
            copy = bytearray(flow_mod)
            copy[at] ^= change
            yield bytes(copy)


def short(answers):
    """Numbers of answers, each with its count if it is repeated."""
    out, at = [], 0
    while at < len(answers):
        end = at
        while end < len(answers) and answers[end] == answers[at]:
            end += 1
        out.append(str(answers[at]) if end == at + 1 else f"{answers[at]}*{end - at}")
        at = end
    return " ".join(out)


def record(encoder, switch, setup, source):
    with open(source, encoding="utf-8") as file:
        lines = [line.strip() for line in file]
    flows = [line for line in lines if line and not line.startswith("#")]
    errors = []

    def number(answer):
        if answer is not None and answer not in errors:
            errors.append(answer)
        return 0 if answer is None else 1 + errors.index(answer)

    with open(f"{source}.answers", "w", encoding="utf-8") as out:
        for message in setup:
            print(f"s {message.hex()}", file=out)
        for flow in flows:
            print(f"\n# {flow}", file=out)
            text = None
            for version in VERSIONS:
                flow_mod, _ = encoder.encode(version, "add-flow", flow.removeprefix("masked "))
                if flow_mod is None:
                    print(f"! {version}", file=out)
                    continue
                if flow.startswith("masked "):
                    flow_mod = masked(flow_mod)
                print(f"> {flow_mod.hex()}", file=out)
                switch.clear()
                answer = switch.answer(version, flow_mod)
                if answer is not None:
                    print(f"e {answer}", file=out)
                else:
                    text = text or switch.text()
                    dump = switch.dump(version)
                    if dump != flow_mod[behind_match(flow_mod) :]:
                        print(f"< {dump.hex()}", file=out)
                    for other in OTHERS.get(version, []):
                        print(f"d{other} {switch.dump(other).hex()}", file=out)
                if version in FAULTY:
                    answers = []
                    for copy in faulty(flow_mod):
                        answers.append(number(switch.answer(version, copy)))
                        if answers[-1] == 0:
                            switch.clear()
                    print(f"~ {short(answers)}", file=out)
            if text is not None:
                print(f"= {text}", file=out)
        print("\n# errors", file=out)
        for error in errors:
            print(f"e {error}", file=out)


def start(tree, folder):
    env = dict(os.environ, OVS_RUNDIR=folder, OVS_LOGDIR=folder, OVS_DBDIR=folder, OVS_SYSCONFDIR=folder)

    def run(*command):
        subprocess.run(command, env=env, check=True)

    database, socket_path = f"{folder}/conf.db", f"{folder}/db.sock"
    run(f"{tree}/ovsdb/ovsdb-tool", "create", database, f"{tree}/vswitchd/vswitch.ovsschema")
    quiet = ["-vconsole:off", "--log-file"]
    processes = [subprocess.Popen([f"{tree}/ovsdb/ovsdb-server", f"--remote=punix:{socket_path}", *quiet, database], env=env)]
    vsctl = [f"{tree}/utilities/ovs-vsctl", f"--db=unix:{socket_path}", "--timeout=10", "--retry"]
    run(*vsctl, "--no-wait", "init")
    control = f"{folder}/control"
    daemon = [f"{tree}/vswitchd/ovs-vswitchd", "--enable-dummy=override", "--disable-system", "--disable-system-route"]
    processes.append(subprocess.Popen([*daemon, f"--unixctl={control}", *quiet, f"unix:{socket_path}"], env=env))
    versions = ",".join(f"OpenFlow1{version - 1}" for version in VERSIONS)
    run(*vsctl, "add-br", "br0", "--", "set", "bridge", "br0", "datapath_type=dummy", "fail-mode=secure", f"protocols={versions}")
    for port in (1, 2):
        run(*vsctl, "add-port", "br0", f"p{port}", "--", "set", "int", f"p{port}", "type=dummy", f"ofport_request={port}")
    bridge = f"{folder}/br0.mgmt"
    return processes, Switch(bridge, control)


def main():
    tree, sources = sys.argv[1], sys.argv[2:]
    with tempfile.TemporaryDirectory() as folder:
        processes, switch = start(tree, folder)
        try:
            encoder = Encoder(tree, folder)
            setup = [encoder.encode(4, *it)[0] for it in SETUP]
            errors = [it for it in switch.ask(4, *setup) if it[1] == ERROR]
            assert not errors, errors
            for source in sources:
                record(encoder, switch, setup, source)
        finally:
            for process in processes:
                process.terminate()
                process.wait()


main()
