"""Measures how long others wait while a command runs.

    echo_delays.py MANAGEMENT CONTROL NAME COMMAND...

On the OpenFlow socket MANAGEMENT it sends an echo request every 2 ms, and on the control socket CONTROL the command
`version`, each as soon as the last one was answered. It prints one line when COMMAND has ended and 0.3 s passed:

    NAME worked=LONGEST_MS echo=LONGEST_MS control=LONGEST_MS took=COMMAND_MS status=N

`worked` is how long the switch's main thread ran meanwhile at most, which does not depend on the machine's other work.
"""
import json
import os
import re
import socket
import struct
import subprocess
import sys
import threading
import time

PAUSE_S = 0.002


def connect(path):
    peer = socket.socket(socket.AF_UNIX)
    peer.settimeout(60)
    peer.connect(path)
    return peer


def receive(peer, length):
    parts = b""
    while len(parts) < length:
        part = peer.recv(length - len(parts))
        if not part:
            raise OSError("closed")
        parts += part
    return parts


def message(peer):
    version, kind, length, xid = struct.unpack("!BBHI", receive(peer, 8))
    receive(peer, length - 8)
    return kind, xid


def echo(peer, number):
    peer.sendall(struct.pack("!BBHI", 4, 2, 8, number))
    while message(peer) != (3, number):
        pass


def version(peer, number):
    peer.sendall(json.dumps({"id": number, "method": "version", "params": []}).encode())
    text = b""
    while True:
        text += peer.recv(65536)
        try:
            json.loads(text)
            return
        except ValueError:
            pass


class Prober(threading.Thread):
    """Asks again and again, and keeps the longest wait."""

    def __init__(self, peer, ask, statistics):
        super().__init__(daemon=True)
        self.peer, self.ask, self.statistics = peer, ask, statistics
        self.longest_s, self.worked_s, self.ends = 0.0, 0.0, False

    def ran_s(self):
        with open(self.statistics) as file:
            return int(file.read().split()[0]) / 1e9

    def run(self):
        number = 0
        while not self.ends:
            number += 1
            ran_s, began = self.ran_s(), time.monotonic()
            self.ask(self.peer, number)
            self.longest_s = max(self.longest_s, time.monotonic() - began)
            self.worked_s = max(self.worked_s, self.ran_s() - ran_s)
            time.sleep(PAUSE_S)


def main():
    management, control, name, *command = sys.argv[1:]
    try:
        os.nice(-15)
    except OSError:
        pass
    openflow = connect(management)
    openflow.sendall(struct.pack("!BBHI", 4, 0, 8, 0))
    message(openflow)
    process = re.search(r"\.(\d+)\.ctl$", control).group(1)
    statistics = f"/proc/{process}/task/{process}/schedstat"
    probers = [Prober(openflow, echo, statistics), Prober(connect(control), version, statistics)]
    for prober in probers:
        prober.start()
    time.sleep(0.1)
    for prober in probers:
        prober.longest_s = prober.worked_s = 0.0
    began = time.monotonic()
    reduced = lambda: os.setpriority(os.PRIO_PROCESS, 0, 0)
    status = subprocess.run(command, stdout=subprocess.DEVNULL, preexec_fn=reduced).returncode
    took_s = time.monotonic() - began
    time.sleep(0.3)
    for prober in probers:
        prober.ends = True
        prober.join()
    ms = [round(1000 * it.longest_s, 1) for it in probers]
    worked_ms = round(1000 * max(it.worked_s for it in probers), 1)
    print(f"{name} worked={worked_ms} echo={ms[0]} control={ms[1]} took={1000 * took_s:.0f} status={status}", flush=True)


main()
