#!/usr/bin/python3
"""guest_console.py SOCKET [COMMAND]...: runs commands in a guest whose serial console is at this socket, and prints
what each printed. The exit status is that of the first command that fails, or 1 if the guest does not answer."""
import re
import socket
import sys
import time

PATIENCE_S = 60


class Console:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(path)
        self.socket.settimeout(0.2)
        self.heard = b""

    def until(self, pattern):
        end = time.monotonic() + PATIENCE_S
        while not (found := re.search(pattern, self.heard)):
            if time.monotonic() > end:
                sys.exit(f"the guest does not say {pattern!r}: {self.heard[-2000:]!r}")
            try:
                self.heard += self.socket.recv(65536)
            except TimeoutError:
                # A guest that has just started may have missed it.
                if pattern == b"AWAKE":
                    self.socket.sendall(b"echo AWA''KE\n")
        before, self.heard = self.heard[:found.start()], self.heard[found.end():]
        return before, found

    def run(self, number, command):
        # The console repeats the command, but not the marks: they are in two pieces.
        self.socket.sendall(f"echo BE''GIN{number}; {command}; echo E''ND{number}=$?\n".encode())
        self.until(b"BEGIN%d\r?\n" % number)
        printed, found = self.until(rb"END%d=(\d+)\r?\n" % number)
        sys.stdout.write(printed.decode(errors="replace").replace("\r", ""))
        return int(found[1])


def main():
    console = Console(sys.argv[1])
    console.until(b"AWAKE")
    for number, command in enumerate(sys.argv[2:]):
        if status := console.run(number, command):
            sys.exit(status)


main()
