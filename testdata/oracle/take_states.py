#!/usr/bin/env python3
"""Holds what the connection tracking cases expect against what Open vSwitch itself does.

Runs each case of testdata/conntrack/*.toml through a real ovs-vswitchd and says for each step
where states, packets and dumps differ. See README.md beside this file.
"""

import argparse
import signal
import sys

from case_file import CaseFile
from case_run import NotAskable, Run
from comparison import KEYS, Differences, Report, disagreements
from daemon import Daemon
from packets import ROOT, Packets

ORACLE = ROOT / "testdata" / "oracle"
CASES = ROOT / "testdata" / "conntrack"
PORTS = 24
WRITTEN = [key for key in KEYS if key not in ("count", "gone")]


def write(file, case, number, result, known, normal):
    """Gives a step's expectations the daemon's values, but for known differences."""
    if isinstance(result.get("ct"), NotAskable):
        return 0
    step, taken = case.steps[number], 0
    if "ct" in result and "ct" not in step:
        step = step | {"ct": ""}
    for key, _, found in disagreements(step, result, normal):
        if key in WRITTEN and found is not None and not known(key):
            file.set(case.lines[number], key, found)
            taken += 1
    return taken


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--check", action="store_true", help="compare; exit 1 on what is not known")
    what.add_argument("--write", action="store_true", help="take the expectations from the daemon")
    parser.add_argument("--case", help="only cases whose name has this in it")
    parser.add_argument("file", nargs="*", help="names in testdata/conntrack; all without")
    options = parser.parse_args()
    # Ends the daemon too, by way of `with`.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("interrupted"))
    names = options.file or sorted(path.name for path in CASES.glob("*.toml"))
    differences = Differences(ORACLE / "differences.toml")
    report, packets, taken = Report(), Packets(), 0
    with Daemon(PORTS) as daemon:
        print(daemon.call("version").strip())
        for name in names:
            file = CaseFile(CASES / name)
            for case in file.cases:
                if options.case and options.case not in case.name:
                    continue
                report.numbers["cases"] += 1
                results = Run(daemon, packets, case).run()
                for number, (step, result) in enumerate(zip(case.steps, results)):
                    def known(key):
                        return differences.reason(name, case.name, number + 1, key)
                    if options.write:
                        taken += write(file, case, number, result, known, packets.normal)
                        continue
                    report.step(f"{name}: {case.name}, step {number + 1}", step, result, known,
                                packets.normal)
            if options.write:
                file.save()
    packets.close()
    if options.write:
        print(f"{taken} values taken from the daemon")
        return 0
    return report.close([] if options.case else list(differences.stale(names)))


if __name__ == "__main__":
    sys.exit(main())
