#!/usr/bin/python3
"""pcap_file.py read FILE: prints the frames of a capture, one a line, in hexadecimal.
pcap_file.py write FILE GAP_MS: makes a capture of such lines from standard input, so many milliseconds
apart.

The file's form is that of draft-ietf-opsawg-pcap; only what this system writes is read."""
import struct
import sys

HEADER, RECORD, ETHERNET = "<IHHIIII", "<IIII", 1


def read(path):
    data = open(path, "rb").read()
    at = struct.calcsize(HEADER)
    while at + 16 <= len(data):
        length = struct.unpack_from(RECORD, data, at)[2]
        print(data[at + 16:at + 16 + length].hex())
        at += 16 + length


def write(path, gap_ms):
    with open(path, "wb") as file:
        file.write(struct.pack(HEADER, 0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, ETHERNET))
        for n, line in enumerate(sys.stdin):
            frame = bytes.fromhex(line)
            seconds, ms = divmod(1_000_000 + n * gap_ms, 1000)
            file.write(struct.pack(RECORD, seconds, ms * 1000, len(frame), len(frame)) + frame)


if sys.argv[1] == "read":
    read(sys.argv[2])
else:
    write(sys.argv[2], int(sys.argv[3]))
