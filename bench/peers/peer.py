"""Debian's Open vSwitch with DPDK: started in a folder of its own, configured, measured."""
import ipaddress
import os
import re
import subprocess
import time

import machine
import traffic

DAEMON = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk"
SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
# Each worker's ports are on a bridge of their own.
BRIDGES = "br{}"
# The bridge of a tunnel's outer packets.
UNDERLAY = "br-phy"
UNDERLAY_FLOWS = ["in_port={port} actions=LOCAL", "in_port=LOCAL actions=output:{port}"]
# The kinds of cases with a tunnel, which takes the place of p1 (of a guest: p0), and the type of its port.
TUNNELS = {"tunnel": "vxlan", "tunnel-plain": "vxlan", "geneve": "geneve", "geneve-plain": "geneve",
           "guest": "vxlan"}
# How long all connections may take to be established.
SETTLE_S = 60


class Peer:
    """The running daemon. A worker on each of `cpus` has two ports: p0 and p1, p2 and p3, ..."""

    def __init__(self, folder, cpus, memory_mb, program=DAEMON):
        self.folder = folder
        self.processes = []
        self.environment = dict(os.environ, OVS_RUNDIR=folder, OVS_DBDIR=folder, OVS_LOGDIR=folder)
        database = f"{folder}/conf.db"
        self._run("ovsdb-tool", "create", database, SCHEMA)
        self._start("ovsdb-server", f"--remote=punix:{folder}/db.sock", database)
        self._wait_for(f"{folder}/db.sock")
        self._vsctl("--no-wait", "init")
        self.cpus = cpus
        others = [each for each in range(os.cpu_count()) if each not in cpus] or cpus[-1:]
        self._vsctl("--no-wait", "set", "Open_vSwitch", ".",
                    "other_config:dpdk-init=true", f"other_config:dpdk-socket-mem={memory_mb}",
                    f"other_config:pmd-cpu-mask={sum(1 << cpu for cpu in cpus):#x}",
                    f"other_config:dpdk-lcore-mask={1 << others[0]:#x}",
                    'other_config:dpdk-extra="--no-pci"')
        # By that name every switch takes the daemon's options.
        named = f"{folder}/ovs-vswitchd"
        os.symlink(os.path.abspath(program), named)
        self._start(named, f"unix:{folder}/db.sock", f"--unixctl={folder}/vswitchd.ctl")
        self._wait_for(f"{folder}/vswitchd.ctl")
        for bridge in map(BRIDGES.format, range(len(cpus))):
            self._vsctl("add-br", bridge, "--", "set", "bridge", bridge, "datapath_type=netdev",
                        "fail-mode=secure")
        self._appctl("dpctl/ct-set-maxconns", "5000000")

    def add_tunnel(self, kind):
        """A tunnel t0 of this type on the only worker's bridge, and a bridge for its outer packets."""
        (mac, ip), (far_mac, far_ip) = traffic.NEAR, traffic.FAR
        self._vsctl("add-br", UNDERLAY, "--", "set", "bridge", UNDERLAY, "datapath_type=netdev",
                    "fail-mode=secure", f'other-config:hwaddr="{mac}"')
        self._vsctl("add-port", BRIDGES.format(0), "t0", "--", "set", "interface", "t0",
                    f"type={kind}", f"options:remote_ip={far_ip}", f"options:key={traffic.VNI}")
        self._run("ip", "addr", "replace", f"{ip}/24", "dev", UNDERLAY)
        self._run("ip", "link", "set", UNDERLAY, "up")
        self._appctl("tnl/neigh/set", UNDERLAY, far_ip, far_mac)

    def set_tunnel_flows(self, path, port="p1"):
        """Flows of which the tunnel takes the place of a port, which is the underlay's."""
        with open(path) as file:
            flows = re.sub(rf"\b{port}\b", "t0", file.read())
        own = f"{self.folder}/tunnel.flows"
        underlay = "\n".join(UNDERLAY_FLOWS).format(port=port)
        for bridge, text in ((UNDERLAY, underlay), (BRIDGES.format(0), flows)):
            with open(own, "w") as file:
                file.write(text + "\n")
            self._run("ovs-ofctl", "add-flows", f"{self.folder}/{bridge}.mgmt", own)

    def add_port(self, number, devargs, bridge=None):
        name = f"p{number}"
        worker = number // 2
        self._vsctl("add-port", bridge or BRIDGES.format(worker), name, "--", "set", "interface", name,
                    "type=dpdk", f"ofport_request={number + 1}",
                    f"other_config:pmd-rxq-affinity=0:{self.cpus[worker]}",
                    f'options:dpdk-devargs="{devargs}"')
        error = self._vsctl("get", "interface", name, "error").strip()
        if error != "[]":
            raise RuntimeError(f"Open vSwitch did not open {devargs}: {error}")

    def add_vhost_port(self, number, path):
        name = f"p{number}"
        self._vsctl("add-port", BRIDGES.format(0), name, "--", "set", "interface", name,
                    "type=dpdkvhostuserclient", f"ofport_request={number + 1}",
                    f"options:vhost-server-path={path}")

    def link_is_up(self, number):
        return self._vsctl("get", "interface", f"p{number}", "link_state").strip() == "up"

    def remove_port(self, number):
        self._vsctl("del-port", f"p{number}")

    def set_flows(self, path):
        with open(path) as file:
            flows = file.read()
        for worker in range(len(self.cpus)):
            socket = f"{self.folder}/{BRIDGES.format(worker)}.mgmt"
            own = f"{self.folder}/{worker}.flows"
            with open(own, "w") as file:
                name = lambda port: f"p{int(port[1]) + 2 * worker}"
                file.write(re.sub(r"\bp([01])\b", name, flows))
            self._run("ovs-ofctl", "del-flows", socket)
            self._run("ovs-ofctl", "add-flows", socket, own)

    def connections(self):
        found = re.search(r"Total: (\d+)", self._appctl("dpctl/ct-stats-show"))
        return int(found.group(1)) if found else 0

    def wait_for_connections(self, count):
        end = time.monotonic() + SETTLE_S
        while self.connections() < count:
            if time.monotonic() > end:
                raise RuntimeError(f"Open vSwitch has {self.connections()} of {count} connections")
            time.sleep(0.2)

    def sources_after_nat(self):
        """The (address, port) pairs that answers go to."""
        table = self._appctl("dpctl/dump-conntrack")
        reply = r"reply=\(src=[^,]*,dst=([^,]*),sport=\d+,dport=(\d+)\)"
        return [(int(ipaddress.ip_address(address)), int(port))
                for address, port in re.findall(reply, table)]

    def measure(self, seconds):
        """What the workers counted in so many seconds."""
        self._appctl("dpif-netdev/pmd-stats-clear")
        before, busy, started = self._ports(), self._worker_times(), time.monotonic()
        time.sleep(seconds)
        text = self._appctl("dpif-netdev/pmd-stats-show")
        elapsed, after = time.monotonic() - started, self._worker_times()
        section = re.compile(r"^pmd thread [^\n]*core_id (\d+):$(.*?)(?=^\S|\Z)", re.M | re.S)
        cores = dict(section.findall(text))
        number = lambda core, name: float(re.search(rf"{name}: ([\d.]+)", cores[str(core)])[1])
        received = {core: number(core, "packets received") for core in self.cpus}
        rates = [received[core] / (after[core] - busy[core]) for core in self.cpus]
        # Both counted at once, so that they can be compared.
        came, went = (after - then for after, then in zip(self._ports(), before))
        return {
            "packets_per_second": sum(received.values()) / elapsed,
            "packets_per_processor_second": sum(rates),
            "packets_per_busy_second": sum(rates) / (busy_share(text) or 1.0),
            "busy_share": busy_share(text),
            "cycles_per_packet": number(self.cpus[0], "avg processing cycles per packet"),
            "packets_per_batch": number(self.cpus[0], "avg. packets per output batch"),
            "passes_per_packet": number(self.cpus[0], "avg. datapath passes per packet"),
            "forwarded": went / max(1, came),
            "connections": self.connections(),
        }

    def stop(self):
        for process in reversed(self.processes):
            process.kill()
            process.wait()

    def _worker_times(self):
        """How long each worker's thread has had its processor, in seconds."""
        times = {}
        tasks = f"/proc/{self.processes[-1].pid}/task"
        for task in os.listdir(tasks):
            with open(f"{tasks}/{task}/comm") as file:
                worker = re.match(r"pmd-c(\d+)/", file.read())
            if worker:
                with open(f"{tasks}/{task}/schedstat") as file:
                    times[int(worker[1])] = int(file.read().split()[0]) / 1e9
        if set(times) != set(self.cpus):
            raise RuntimeError(f"Open vSwitch has workers on {sorted(times)}, not on {self.cpus}")
        return times

    def _ports(self):
        """What all ports have received, and what they have sent."""
        text = self._appctl("dpctl/show", "-s")
        return [sum(int(count) for count in re.findall(rf"{way} packets:(\d+)", text))
                for way in ("RX", "TX")]

    def _start(self, *words):
        log = open(f"{self.folder}/{os.path.basename(words[0])}.log", "w")
        process = subprocess.Popen(machine.TIED + list(words), stdout=log, stderr=log,
                                   env=self.environment)
        self.processes.append(process)

    def _wait_for(self, path):
        end = time.monotonic() + 30
        while not os.path.exists(path):
            if time.monotonic() > end or any(p.poll() is not None for p in self.processes):
                raise RuntimeError(f"no {path}; the last lines of the daemon's log: {self._log()}")
            time.sleep(0.1)

    def _log(self):
        try:
            with open(f"{self.folder}/ovs-vswitchd.log") as file:
                return " | ".join(file.read().splitlines()[-5:])
        except OSError:
            return "none"

    def _vsctl(self, *words):
        return self._run("ovs-vsctl", f"--db=unix:{self.folder}/db.sock", "--timeout=60", *words)

    def _appctl(self, *words):
        return self._run("ovs-appctl", "-T", "60", "-t", f"{self.folder}/vswitchd.ctl", *words)

    def _run(self, *words):
        done = subprocess.run(words, env=self.environment, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"`{' '.join(words)}` failed: {done.stderr.strip()} {self._log()}")
        return done.stdout


def busy_share(text):
    """What part of the worker's time went into packets, in `pmd-stats-show`."""
    found = re.search(r"processing cycles: *\d+ \(([\d.]+)%\)", text)
    return float(found.group(1)) / 100 if found else 1.0


def measure(case, files, settings):
    """One figure of one case; of several workers also how they stand to one of them."""
    figure = measure_workers(case, files, settings, case.workers)
    if case.workers > 1:
        one = measure_workers(case, files, settings, 1)
        rate = "packets_per_processor_second"
        figure["scaling"] = figure[rate] / one[rate]
    return figure


def measure_workers(case, files, settings, workers):
    """The daemon is started and stopped for each figure."""
    folder = f"{settings.folder}/peer"
    os.makedirs(folder, exist_ok=True)
    for left in os.listdir(folder):
        os.remove(f"{folder}/{left}")
    # As much as it can have without asking the system for more pages later.
    peer = None
    try:
        peer = Peer(folder, settings.cpus[:workers], settings.pages)
        if case.has_nat:
            forward = f"net_pcap0,rx_pcap={files[0]['forward']},infinite_rx=1"
            return _measure_nat(peer, case, forward, settings)
        if case.kind in TUNNELS:
            peer.add_tunnel(TUNNELS[case.kind])
        for worker in range(workers):
            for side, name in enumerate(("forward", "reverse")):
                number = 2 * worker + side
                devargs = f"net_pcap{number},rx_pcap={files[worker][name]},infinite_rx=1"
                on_underlay = case.kind in TUNNELS and name == "reverse"
                peer.add_port(number, devargs, UNDERLAY if on_underlay else None)
        if case.kind not in TUNNELS:
            peer.set_flows(case.flows)
        else:
            peer.set_tunnel_flows(case.flows)
        if case.is_tracked:
            # A few of those that end and begin all the time are in between.
            count = case.connections * workers
            peer.wait_for_connections(count * 9 // 10 if case.kind.startswith("short") else count)
        time.sleep(settings.warm_s)
        return peer.measure(settings.seconds)
    finally:
        if peer is not None:
            peer.stop()


def _measure_nat(peer, case, forward, settings):
    """The server answers to the addresses that the switch has chosen, which are known only then."""
    peer.add_port(0, forward)
    peer.add_port(1, "net_null1,no-rx=1")
    peer.set_flows(case.flows)
    peer.wait_for_connections(case.connections)
    reverse = f"{settings.folder}/after_nat.pcap"
    traffic.write(reverse, traffic.answers(peer.sources_after_nat()))
    peer.remove_port(1)
    peer.add_port(1, f"net_pcap1,rx_pcap={reverse},infinite_rx=1")
    time.sleep(settings.warm_s)
    return peer.measure(settings.seconds)
