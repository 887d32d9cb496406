#!/usr/bin/python3
"""udp_echo.py ADDRESS PORT: sends every datagram back, as a name server answers its clients."""
import socket
import sys

address, port = sys.argv[1], int(sys.argv[2])
family = socket.AF_INET6 if ":" in address else socket.AF_INET
with socket.socket(family, socket.SOCK_DGRAM) as service:
    service.bind((address, port))
    while True:
        datagram, sender = service.recvfrom(65535)
        service.sendto(datagram, sender)
