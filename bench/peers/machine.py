"""Huge pages borrowed from the system, and given back by whatever end; namespaces; processors."""
import os
import shutil
import signal
import subprocess
import sys
import time

PAGES = "/proc/sys/vm/nr_hugepages"
# A process that is tied to its parent does not outlive it, not even `kill -9`.
TIED = ["setpriv", "--pdeathsig", "KILL"]


def fail(why):
    sys.exit(f"bench/peers: {why}")


def pages():
    with open(PAGES) as file:
        return int(file.read())


def set_pages(count):
    with open(PAGES, "w") as file:
        file.write(f"{count}\n")


class Loan:
    """Huge pages and a folder, which a process of its own gives back when this one is gone."""

    def __init__(self, count, folder):
        before = pages()
        self._wait, self._held = os.pipe()
        self._keeper = os.fork()
        if self._keeper == 0:
            self._keep(count, folder)
        os.close(self._wait)
        try:
            set_pages(before + count)
        except OSError as error:
            fail(f"cannot reserve huge pages: {error}")
        if pages() < before + count:
            fail(f"the system has {pages() - before} huge pages to give, not {count}; "
                 "choose fewer with --pages")

    def _keep(self, count, folder):
        """Waits until no process holds the pipe any more: this process's parent ended, somehow."""
        os.setsid()
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(each, signal.SIG_IGN)
        os.close(self._held)
        os.read(self._wait, 1)
        # What still has pages is being killed just now.
        time.sleep(0.3)
        set_pages(max(0, pages() - count))
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)

    def give_back(self):
        os.close(self._held)
        os.waitpid(self._keeper, 0)


def in_namespaces(arguments):
    """Runs this program again where its devices and processes are its own; gives its status."""
    apart = ["unshare", "--net", "--pid", "--fork", "--kill-child=KILL", "--mount-proc"]
    return subprocess.call(TIED + apart + [sys.executable] + arguments)


def describe():
    """What the figures were measured on."""
    with open("/proc/cpuinfo") as file:
        models = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return {
        "processor": models[0] if models else "unknown",
        "processors": os.cpu_count(),
        "kernel": os.uname().release,
        "load_average": [round(load, 2) for load in os.getloadavg()],
    }
