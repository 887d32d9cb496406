#!/usr/bin/python3
"""deaf_peer.py (listen|connect) PORT VERSION: OpenFlow peers that shake hands, send requests with long answers, and
never read again. One that listens prints a line for each connection; one that connects opens three."""
import socket
import struct
import sys
import time

how, port, version = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
HELLO, ECHO_REQUEST = 0, 2


def message(kind, body=b""):
    return struct.pack("!BBHI", version, kind, 8 + len(body), 1) + body


def be_deaf(peer):
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    peer.sendall(message(HELLO))
    peer.recv(8)
    # More echoes than all buffers on the way hold.
    peer.settimeout(1)
    try:
        for _ in range(300):
            peer.sendall(message(ECHO_REQUEST, bytes(60000)))
    except OSError:
        pass


peers = []
if how == "listen":
    service = socket.create_server(("127.0.0.1", port))
    print("ready", flush=True)
    while True:
        peers.append(service.accept()[0])
        print("connection", len(peers), flush=True)
        be_deaf(peers[-1])
for number in range(3):
    peers.append(socket.create_connection(("127.0.0.1", port)))
    be_deaf(peers[-1])
    print("deaf", number + 1, flush=True)
time.sleep(600)
