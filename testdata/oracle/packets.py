"""Packets between their text form and bytes, with the project's own reader of that form."""

import pathlib
import re
import struct
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def fragment(frame, start, end, identifier=7):
    """Bytes `start` to `end` of what is behind the IP header of a frame without tags, alone."""
    header, data = (frame[:34], frame[34:]) if frame[14] >> 4 == 4 else (frame[:54], frame[54:])
    more, data = end < len(data), data[start:end]
    if len(header) == 54:
        length = struct.pack("!H", 8 + len(data))
        place = struct.pack("!BBHI", header[20], 0, start | more, identifier)
        return header[:18] + length + b"\x2c" + header[21:] + place + data
    ip = bytearray(header[14:])
    struct.pack_into("!H", ip, 2, 20 + len(data))
    struct.pack_into("!H", ip, 6, more << 13 | start // 8)
    struct.pack_into("!H", ip, 10, 0)
    total = sum(struct.unpack("!10H", ip))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    struct.pack_into("!H", ip, 10, ~total & 0xffff)
    return header[:14] + bytes(ip) + data


class Packets:
    """Packets between text and bytes, by `cargo run -p wire --example packet_hex`."""

    def __init__(self):
        build = ["cargo", "build", "--quiet", "--package", "wire", "--example", "packet_hex"]
        subprocess.run(build, cwd=ROOT, check=True)
        self.child = subprocess.Popen(
            [ROOT / "target" / "debug" / "examples" / "packet_hex"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
        )

    def close(self):
        self.child.stdin.close()
        self.child.wait()

    def _ask(self, line):
        self.child.stdin.write(line + "\n")
        answer = self.child.stdout.readline().strip()
        if answer.startswith("error: "):
            raise ValueError(f"{line}: {answer}")
        return answer

    def bytes(self, text):
        return bytes.fromhex(self._ask(text))

    def normal(self, text):
        """The form that `text` gives to the same packet."""
        return self.text(self.bytes(text))

    def text(self, packet):
        """Without the Ethernet addresses, which NAT leaves as they were."""
        return re.sub(r" eth=[^ ]+", "", self._ask(packet.hex()))
