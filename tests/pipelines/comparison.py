"""Runs a pipeline on both switches, compares what is seen of them, and shrinks a difference to its cause."""

import dataclasses
import pathlib
import re
import time
import tomllib

from switch import Crashed, Refused

KNOWN = pathlib.Path(__file__).with_name("differences.toml")
# Runs of both switches that shrinking one difference may take.
SHRINK_RUNS = 120


@dataclasses.dataclass
class Difference:
    """What differs at one step; `at` is -1 at the end. `ours` and `theirs` are None where one side has nothing."""

    at: int
    what: str
    ours: object
    theirs: object


def run_on(switch, pipeline, expected=None, patience_s=0):
    """What is seen after each step, and at the end. What is not `expected` is waited for."""
    try:
        switch.begin(pipeline)
        seen = []
        for at, step in enumerate(pipeline.steps):
            now = _take(switch, step)
            if expected is not None and step.kind in ("packet", "warp"):
                now = _wait(switch, now, expected[at], patience_s)
            seen.append(now)
        return [*seen, switch.state()]
    except (ConnectionError, TimeoutError, OSError, Refused) as error:
        if switch.is_alive:
            raise
        raise Crashed(f"{switch.name} ended: {error}") from error


def _take(switch, step):
    match step.kind:
        case "order":
            return {"answer": switch.order(step.place, step.value)}
        case "packet":
            return switch.packet(step.place, step.value)
        case "trace":
            return {"trace": switch.trace(step.place, step.value)}
        case _:
            return switch.warp(step.value)


def _wait(switch, seen, expected, patience_s):
    """Threads of the switch may still be at work where it has answered."""
    end = time.monotonic() + patience_s
    while seen != expected and time.monotonic() < end:
        time.sleep(0.005)
        for key, more in switch.take().items():
            seen[key] = seen.get(key, []) + more
    return seen


def differences(ours, theirs):
    """Every difference of two lists of what was seen."""
    found = []
    for at, (here, there) in enumerate(zip(ours, theirs, strict=True)):
        at = -1 if at + 1 == len(ours) else at
        for key in here | there:
            mine, other = here.get(key), there.get(key)
            if mine != other:
                is_order = key.startswith("frames") and sorted(mine or ()) == sorted(other or ())
                found.append(Difference(at, f"order of {key}" if is_order else key, mine, other))
    return found


def compare(pair, pipeline, patience_s=0.1):
    ours, theirs = pair
    expected = run_on(theirs, pipeline)
    return differences(run_on(ours, pipeline, expected, patience_s), expected)


class Shrinking:
    """Looks for the fewest steps after which something of the same kind still differs."""

    def __init__(self, pair, difference):
        self.pair, self.at, self.left = pair, difference.at, SHRINK_RUNS
        self.kind = kind_of(difference.what)

    def differs(self, pipeline):
        self.left -= 1
        return any(kind_of(it.what) == self.kind for it in compare(self.pair, pipeline))

    def begin(self, pipeline):
        """What often suffices: the one step, or flows alone; nothing after the step matters."""
        steps = pipeline.steps
        guesses = [steps[self.at : self.at + 1]] if self.at >= 0 else []
        guesses += [[it for it in steps if it.kind == "order"], steps[: self.at + 1] if self.at >= 0 else steps]
        return next((it for it in guesses if self.differs(pipeline.with_steps(it))), steps)

    def shrink(self, pipeline):
        """Delta debugging: drops parts, first large ones, as long as the difference stays."""
        steps = self.begin(pipeline)
        size = max(1, len(steps) // 2)
        while size and self.left > 0:
            at, dropped = 0, False
            while at < len(steps) and self.left > 0:
                fewer = steps[:at] + steps[at + size :]
                if self.differs(pipeline.with_steps(fewer)):
                    steps, dropped = fewer, True
                else:
                    at += size
            size = size if dropped and size == 1 else size // 2
        without = dataclasses.replace(pipeline, steps=steps, vlans={})
        return without if pipeline.vlans and self.differs(without) else pipeline.with_steps(steps)


def kind_of(what):
    """A difference's kind: that of a port is as that of another, and so are flows."""
    return re.sub(r"^(order|frames|packet-in|addresses|flow|counters) .*", r"\1", what)


class Known:
    """The list of what differs on purpose or by version. An entry explains a shrunk difference whose kind is `what`
    and whose steps' texts contain every one of `steps`, which are regular expressions."""

    def __init__(self):
        self.entries = tomllib.loads(KNOWN.read_text()).get("difference", [])
        self.seen = set()

    def explains(self, pipeline, difference):
        text = "\n".join(step.text for step in pipeline.steps)
        for at, entry in enumerate(self.entries):
            is_kind = kind_of(difference.what) in entry["what"]
            values = f"{difference.ours}\n{difference.theirs}"
            if (is_kind and all(re.search(it, text) for it in entry.get("steps", []))
                    and all(re.search(it, values) for it in entry.get("values", []))):
                self.seen.add(at)
                return entry["reason"]
        return None
