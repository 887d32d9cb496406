#!/usr/bin/python3
"""tftp_server.py ADDRESS: answers any read request with a short file, from a port of its own."""
import socket
import struct
import sys

content = b"hello by TFTP\n" * 100
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as service:
    service.bind((sys.argv[1], 69))
    while True:
        _, client = service.recvfrom(2048)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as transfer:
            transfer.bind((sys.argv[1], 0))
            transfer.settimeout(1)
            for block in range(1, len(content) // 512 + 2):
                piece = content[512 * (block - 1):512 * block]
                transfer.sendto(struct.pack("!HH", 3, block) + piece, client)
                try:
                    transfer.recvfrom(2048)
                except OSError:
                    break
