"""A switch with a guest on another processor, DPDK's own testpmd with virtio devices. Of packets that go
round between the two, both ports are vhost-user, and the guest sends what comes in at one port out at the
other. Of packets from a tunnel's far end, the guest answers each one."""
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
    """The running guest with a virtio device for each of these ports. As `5tswap` it sends packets back with
    Ethernet addresses, IP addresses and ports swapped."""

    def __init__(self, folder, cpu, numbers=(0, 1), mode="io"):
        self.sockets = {number: f"{folder}/p{number}.sock" for number in numbers}
        words = machine.TIED + [GUEST, "--lcores", f"0@{cpu},1@{cpu}", "--in-memory", "--no-pci",
                                "--single-file-segments", "--no-telemetry",
                                "--socket-mem", str(MEMORY_MB)]
        for number, path in self.sockets.items():
            words += ["--vdev", f"net_virtio_user{number},path={path},server=1,queue_size=1024"]
        words += ["--", f"--forward-mode={mode}", "--interactive", "--total-num-mbufs=16384",
                  "--no-mlockall"]
        self.log = open(f"{folder}/guest.log", "w")
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=self.log,
                                        stderr=self.log, text=True)

    def start(self, how=""):
        """Begins to forward, once all links are up; how says whether it sends the first packets."""
        self.process.stdin.write(f"start {how}\n")
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
    """One figure of packets that go round."""
    def work(switch, start_guest):
        guest = start_guest((0, 1), "io")
        switch.set_flows(settings.plain_flows)
        wait_for_links(switch, guest)
        guest.start(f"tx_first {BURSTS}")
        return guest
    return run(program, settings, work)


def measure_tunnel(program, case, files, settings):
    """One figure of packets of a tunnel that the guest answers: from the tunnel to the guest and back, both
    tracked. The far end is a pcap file."""
    def work(switch, start_guest):
        switch.add_tunnel(peer.TUNNELS[case.kind])
        switch.add_port(0, f"net_pcap0,rx_pcap={files[0]['forward']},infinite_rx=1", peer.UNDERLAY)
        guest = start_guest((1,), "5tswap")
        wait_for_links(switch, guest)
        guest.start()
        switch.set_tunnel_flows(case.flows, "p0")
        switch.wait_for_connections(case.connections)
        return guest
    return run(program, settings, work)


def run(program, settings, work):
    """The daemon and the guest are started and stopped for each figure."""
    folder = f"{settings.folder}/peer"
    os.makedirs(folder, exist_ok=True)
    for left in os.listdir(folder):
        os.remove(f"{folder}/{left}")
    others = [each for each in sorted(os.sched_getaffinity(0)) if each != settings.cpu]
    if not others:
        raise RuntimeError("vhost wants a processor for the switch and one for the guest")
    switch, guests = None, []

    def start_guest(numbers, mode):
        guests.append(Guest(folder, others[-1], numbers, mode))
        for number, path in guests[0].sockets.items():
            switch.add_vhost_port(number, path)
        return guests[0]

    try:
        switch = peer.Peer(folder, [settings.cpu], settings.pages, program)
        guest = work(switch, start_guest)
        time.sleep(settings.warm_s)
        guest.must_run()
        return switch.measure(settings.seconds)
    finally:
        for each in guests + [switch]:
            if each is not None:
                each.stop()


def wait_for_links(switch, guest):
    end = time.monotonic() + PATIENCE_S
    while not all(switch.link_is_up(number) for number in guest.sockets):
        guest.must_run()
        if time.monotonic() > end:
            raise RuntimeError(f"the links to {GUEST} do not come up")
        time.sleep(0.1)
    # Queues that are new go to the worker a moment later.
    time.sleep(1)

