#!/usr/bin/python3
"""udp_send.py ADDRESS PORT COUNT RATE: sends so many datagrams at a steady rate, whatever comes back."""
import socket
import sys
import time

address, port, count, rate = sys.argv[1], *map(int, sys.argv[2:5])
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
    begin = time.monotonic()
    for number in range(count):
        time.sleep(max(0, begin + number / rate - time.monotonic()))
        sender.sendto(b"datagram %d" % number, (address, port))
