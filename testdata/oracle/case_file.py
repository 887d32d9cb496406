"""The files of cases: reading them, and changing single values in them.

A file is read with tomllib for what it says, and as lines for where it says it: rewriting keeps
comments, order and spacing, and touches nothing but the values asked for. For that, each step of a
case stands on a line of its own, `  { key = value, ... },`.
"""

import json
import tomllib


class Case:
    """One `[[case]]`: `data` is what it says, `lines` the line numbers (from 0) of its steps."""

    def __init__(self, data, lines):
        self.data = data
        self.name = data["name"]
        self.steps = data["steps"]
        self.lines = lines


class CaseFile:
    def __init__(self, path):
        self.path = path
        self.text = path.read_text().split("\n")
        parsed = tomllib.loads("\n".join(self.text))
        places = []
        for number, line in enumerate(self.text):
            if line.strip() == "[[case]]":
                places.append([])
            elif line.startswith("  {") and places:
                places[-1].append(number)
        self.cases = [Case(data, lines) for data, lines in zip(parsed["case"], places)]
        for case in self.cases:
            if len(case.steps) != len(case.lines):
                raise ValueError(f"{path}: case {case.name!r} has a step that is not one line")

    def set(self, line, key, value):
        """Gives `key` of the step at `line` this value, in its place or at the end."""
        text = self.text[line]
        at = find_value(text, key)
        if at is None:
            end = text.rindex("}")
            self.text[line] = f"{text[:end].rstrip()}, {key} = {written(value)} {text[end:]}"
        else:
            start, end = at
            self.text[line] = text[:start] + written(value) + text[end:]

    def save(self):
        self.path.write_text("\n".join(self.text))


def written(value):
    """`value` as TOML. JSON's strings, numbers and arrays of these are TOML's too."""
    if isinstance(value, dict):
        inside = ", ".join(f"{key} = {written(it)}" for key, it in value.items())
        return "{ " + inside + " }"
    return json.dumps(value, ensure_ascii=False)


def find_value(line, key):
    """Where the value of `key` starts and ends in the inline table of `line`, or None."""
    at = line.index("{") + 1
    end = line.rindex("}")
    while at < end:
        equals = line.index("=", at)
        start = equals + 1
        while line[start] == " ":
            start += 1
        stop = skip_value(line, start)
        if line[at:equals].strip(" ,") == key:
            return start, stop
        at = stop
        while at < end and line[at] in " ,":
            at += 1
    return None


def skip_value(line, at):
    """The end of the value that starts at `at`: a string, a bracketed value or a bare word."""
    depth = 0
    while True:
        letter = line[at]
        if letter in "\"'":
            at += 1
            while line[at] != letter:
                at += 2 if line[at] == "\\" and letter == '"' else 1
            if depth == 0:
                return at + 1
        elif letter in "[{":
            depth += 1
        elif depth == 0 and letter in ",} ":
            return at
        elif letter in "]}":
            depth -= 1
            if depth == 0:
                return at + 1
        at += 1
