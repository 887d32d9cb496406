"""Packets that go round between a switch and a guest: both ports are vhost-user, and the guest,
DPDK's own testpmd on another processor, sends what comes in at one port out at the other."""
import os
import subprocess
import time

import machine
import peer

GUEST = "dpdk-testpmd"
# Packets that go round: as many as two rings of the guest hold without loss.
BURSTS = 16
MEMORY_MB = 256
PATIENCE_S = 30


class Guest:
    """The running guest with a virtio device for each port."""

    def __init__(self, folder, cpu):
        self.sockets = [f"{folder}/p{number}.sock" for number in range(2)]
        words = machine.TIED + [GUEST, "--lcores", f"0@{cpu},1@{cpu}", "--in-memory", "--no-pci",
                                "--single-file-segments", "--no-telemetry",
                                "--socket-mem", str(MEMORY_MB)]
        for number, path in enumerate(self.sockets):
            words += ["--vdev", f"net_virtio_user{number},path={path},server=1,queue_size=1024"]
        words += ["--", "--forward-mode=io", "--interactive", "--total-num-mbufs=16384",
                  "--no-mlockall"]
        self.log = open(f"{folder}/guest.log", "w")
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=self.log,
                                        stderr=self.log, text=True)

    def start(self):
        """Sends the first packets, once both links are up."""
        self.process.stdin.write(f"start tx_first {BURSTS}\n")
        self.process.stdin.flush()

    def must_run(self):
        if self.process.poll() is not None:
            with open(self.log.name) as file:
                raise RuntimeError(f"{GUEST} has ended: {' | '.join(file.read().splitlines()[-5:])}")

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.log.close()


def measure(program, settings):
    """One figure: the daemon and the guest are started and stopped for it."""
    folder = f"{settings.folder}/peer"
    os.makedirs(folder, exist_ok=True)
    for left in os.listdir(folder):
        os.remove(f"{folder}/{left}")
    others = [each for each in sorted(os.sched_getaffinity(0)) if each != settings.cpu]
    if not others:
        raise RuntimeError("vhost wants a processor for the switch and one for the guest")
    switch = guest = None
    try:
        switch = peer.Peer(folder, [settings.cpu], settings.pages, program)
        guest = Guest(folder, others[-1])
        for number, path in enumerate(guest.sockets):
            switch.add_vhost_port(number, path)
        switch.set_flows(settings.plain_flows)
        wait_for_links(switch, guest)
        guest.start()
        time.sleep(settings.warm_s)
        guest.must_run()
        return switch.measure(settings.seconds)
    finally:
        for each in (guest, switch):
            if each is not None:
                each.stop()


def wait_for_links(switch, guest):
    end = time.monotonic() + PATIENCE_S
    while not all(switch.link_is_up(number) for number in range(2)):
        guest.must_run()
        if time.monotonic() > end:
            raise RuntimeError(f"the links to {GUEST} do not come up")
        time.sleep(0.1)
    # Queues that are new go to the worker a moment later.
    time.sleep(1)

