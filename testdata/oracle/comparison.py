"""What a step expects beside what the daemon did, and the differences that are known."""

import collections
import tomllib

from case_run import NotAskable, sends

# What is compared. The other keys of a step say what to do.
KEYS = ["ct", "out", "is_mark", "is_label", "tuple", "dump", "dump_all", "stats", "limits",
        "count", "connections", "gone", "parts"]
PACKET_KEYS = ["ct", "out", "is_mark", "is_label", "tuple", "changed"]


def expectations(step):
    """What a step expects, by key."""
    expected = {key: step[key] for key in KEYS if key in step and key != "count"}
    if "flush" in step:
        expected["gone"] = step["flush"].get("gone")
    if "count" in step:
        expected["count"] = step["count"]
    if "in" in step and "out" not in step and "nat" not in step:
        expected["changed"] = False
    return expected


def compared(step, result):
    """Key, expected and found, of all that can be compared."""
    for key, expected in expectations(step).items():
        found = result.get(key)
        if isinstance(result.get("ct"), NotAskable) and key in PACKET_KEYS:
            continue
        if key in PACKET_KEYS[1:] and found is None:
            continue  # OpenFlow hides it, or nothing came out, which is said once, at `ct`.
        yield key, expected, found


def disagreements(step, result, normal):
    """Key, expected and found, where these differ. An expectation still to be taken does."""
    for key, expected, found in compared(step, result):
        if key == "count":
            expected = {name: count for name, count in expected.items() if name in found}
        if expected == "":
            same = False
        elif key == "is_label" and found is not None:
            same = masked(expected) == int(found, 16)
        elif key == "out" and found is not None:
            same = normal(expected) == found
        elif key in ("dump", "dump_all"):
            same = sorted(expected) == found
        elif key == "parts" and found is not None:
            # In which order they come to a controller depends on which flows are cached.
            same = sorted(expected) == sorted(found)
        else:
            same = expected == found
        if not same:
            yield key, expected, found


def masked(text):
    return int(text.split("/")[0], 0)


class Differences:
    """The differences that are known, and which of them were met."""

    def __init__(self, path):
        self.listed = tomllib.loads(path.read_text()).get("difference", []) if path.exists() else []
        self.met = set()

    def reason(self, file, case, step, key):
        for number, entry in enumerate(self.listed):
            if entry["file"] == file and entry["case"] == case and key in entry["keys"] \
                    and step in entry.get("steps", [step]):
                self.met.add(number)
                return entry["reason"]
        return None

    def stale(self, files):
        for number, entry in enumerate(self.listed):
            if number not in self.met and entry["file"] in files:
                yield f"{entry['file']}: {entry['case']}"


class Report:
    def __init__(self):
        self.numbers = collections.Counter()

    def step(self, place, step, result, known, normal):
        """Counts and prints one step; `known(key)` is the reason of a known difference."""
        if sends(step):
            self.numbers["packets"] += 1
        if isinstance(result.get("ct"), NotAskable):
            self.numbers["not askable"] += 1
            print(f"- {place}: not asked: {result['ct']}")
        found = list(disagreements(step, result, normal))
        self.numbers["values"] += sum(1 for _ in compared(step, result))
        for key, ours, theirs in found:
            if known(key):
                self.numbers["known"] += 1
            else:
                self.numbers["unknown"] += 1
                print(f"! {place}, {key}:\n    expected     {ours}\n    ovs-vswitchd {theirs}")
        self.numbers["steps"] += 1
        self.numbers["agreeing steps"] += not found

    def close(self, stale):
        it = self.numbers
        print(
            f"{it['cases']} cases, {it['steps']} steps ({it['packets']} packets), "
            f"{it['values']} values compared: {it['agreeing steps']} steps agree, "
            f"{it['known']} values differ as listed in differences.toml, "
            f"{it['unknown']} unexplained; {it['not askable']} steps could not be asked"
        )
        for entry in stale:
            print(f"! listed as a difference, and none: {entry}")
        return 1 if it["unknown"] or stale else 0
