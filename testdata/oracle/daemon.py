"""A real ovs-vswitchd for itself alone: its own database, network namespace and clock.

`--enable-dummy` gives ports that are fed with packets over the control socket, and a clock that
stands until it is told to go on. The datapath behind them is the userspace one, connection
tracker and all.
"""

import json
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time

SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
BRIDGE = "br0"


class Refused(Exception):
    """The daemon answered with an error, which is the text."""


class Daemon:
    """`program` is Open vSwitch's daemon, or another that is that daemon where it is called `ovs-vswitchd`."""

    def __init__(self, port_count, program="ovs-vswitchd"):
        self.port_count = port_count
        self.program = program
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="tora-"))
        self.environment = os.environ | {
            f"OVS_{name}DIR": str(self.directory) for name in ("RUN", "DB", "LOG", "SYSCONF")
        }
        self.children = []
        self.control = None
        self.buffer = b""

    def __enter__(self):
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.control:
            self.control.close()
        for child in reversed(self.children):
            child.terminate()
            try:
                child.wait(5)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _start(self):
        directory = self.directory
        self.run("ovsdb-tool", "create", f"{directory}/conf.db", SCHEMA)
        self._spawn("ovsdb-server", f"{directory}/conf.db", f"--remote=punix:{directory}/db.sock")
        self._wait_for("db.sock")
        self.vsctl("--no-wait", "init")
        # Without a network namespace of its own the daemon would take away the kernel's datapaths.
        alone = ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-rn"]
        called = directory / "ovs-vswitchd"
        called.symlink_to(os.path.abspath(shutil.which(self.program)))
        self._spawn(
            *alone, called, f"unix:{directory}/db.sock", "--enable-dummy",
            f"--unixctl={directory}/control",
        )
        self._wait_for("control")
        self._connect(f"{directory}/control")
        self.vsctl("--", "--id=@it", "create", "Datapath", "datapath_version=0", "--",
                   "set", "Open_vSwitch", ".", "datapaths:dummy=@it")
        self.call("time/stop")

    def _spawn(self, *command):
        log = open(self.directory / "log", "ab")
        quiet = ["-vconsole:warn", "-vsyslog:off", "-vfile:off"]
        self.children.append(
            subprocess.Popen([*command, *quiet], env=self.environment, stdout=log, stderr=log)
        )

    def _wait_for(self, name):
        for _ in range(200):
            if (self.directory / name).exists():
                return
            time.sleep(0.05)
        raise RuntimeError(f"{name} did not appear:\n" + (self.directory / "log").read_text())

    def _connect(self, path):
        """The daemon makes the socket before it listens."""
        self.control = socket.socket(socket.AF_UNIX)
        for left in reversed(range(100)):
            try:
                return self.control.connect(path)
            except ConnectionRefusedError:
                if not left:
                    raise
                time.sleep(0.02)

    def run(self, *command):
        """What a program prints, or `Refused` with what it says is wrong."""
        done = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=20, check=False
        )
        if done.returncode:
            raise Refused(done.stderr.strip() or done.stdout.strip())
        return done.stdout

    def vsctl(self, *arguments):
        return self.run("ovs-vsctl", "--timeout=15", f"--db=unix:{self.directory}/db.sock",
                        *arguments)

    def call(self, method, *parameters):
        """Asks over the control socket as ovs-appctl does."""
        request = {"id": 0, "method": method, "params": [str(it) for it in parameters]}
        self.control.sendall(json.dumps(request).encode())
        self.control.settimeout(20)
        decoder = json.JSONDecoder()
        while True:
            self.buffer += self.control.recv(65536)
            try:
                answer, end = decoder.raw_decode(self.buffer.decode())
            except ValueError:
                continue
            self.buffer = self.buffer.decode()[end:].encode()
            if answer["error"] is not None:
                raise Refused(answer["error"].strip())
            return answer["result"]

    def fresh_bridge(self, zone_timeouts):
        """A new bridge is a new datapath, and that a new, empty connection tracker.

        `zone_timeouts` has a table of seconds by name for each zone.
        """
        self.vsctl("--if-exists", "del-br", BRIDGE)
        command = ["set", "Datapath", ".", "ct_zones={}"]
        datapath = self.vsctl("get", "Open_vSwitch", ".", "datapaths:dummy").strip()
        command[2] = datapath
        for zone, values in zone_timeouts.items():
            settings = [f"{name}={seconds}" for name, seconds in values.items()]
            command += ["--", "add-zone-tp", "dummy", f"zone={zone}", *settings]
        command += ["--", "add-br", BRIDGE, "--", "set", "Bridge", BRIDGE,
                    "datapath_type=dummy", "fail_mode=secure"]
        for number in range(1, self.port_count + 1):
            command += ["--", "add-port", BRIDGE, f"p{number}", "--", "set", "Interface",
                        f"p{number}", "type=dummy", f"ofport_request={number}"]
        self.vsctl(*command)

    def add_flow(self, flow):
        self.run("ovs-ofctl", "-OOpenFlow13", "add-flow", f"unix:{self.directory}/{BRIDGE}.mgmt",
                 flow)

    @property
    def openflow_socket(self):
        return f"{self.directory}/{BRIDGE}.mgmt"
