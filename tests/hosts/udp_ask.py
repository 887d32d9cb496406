#!/usr/bin/python3
"""udp_ask.py ADDRESS PORT COUNT SOURCE_PORT [BYTES]: sends datagrams one by one, prints how many
of them came back as they were."""
import socket
import sys

address, port, count, source = sys.argv[1], *map(int, sys.argv[2:5])
size = int(sys.argv[5]) if len(sys.argv) > 5 else 0
family = socket.AF_INET6 if ":" in address else socket.AF_INET
came_back = 0
with socket.socket(family, socket.SOCK_DGRAM) as asker:
    asker.bind(("", source))
    asker.settimeout(0.4)
    for number in range(count):
        question = (b"question %d " % number).ljust(size, b"?")
        asker.sendto(question, (address, port))
        try:
            came_back += asker.recv(65535) == question
        except OSError:
            pass
print(came_back)
