"""Packets between their text form and bytes, with the project's own reader of that form."""

import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


class Packets:
    """Packets between text and bytes, by `cargo run -p wire --example packet_hex`."""

    def __init__(self):
        build = ["cargo", "build", "--quiet", "--package", "wire", "--example", "packet_hex"]
        subprocess.run(build, cwd=ROOT, check=True)
        self.child = subprocess.Popen(
            [ROOT / "target" / "debug" / "examples" / "packet_hex"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
        )

    def close(self):
        self.child.stdin.close()
        self.child.wait()

    def _ask(self, line):
        self.child.stdin.write(line + "\n")
        answer = self.child.stdout.readline().strip()
        if answer.startswith("error: "):
            raise ValueError(f"{line}: {answer}")
        return answer

    def bytes(self, text):
        return bytes.fromhex(self._ask(text))

    def normal(self, text):
        """The form that `text` gives to the same packet."""
        return self.text(self.bytes(text))

    def text(self, packet):
        """Without the Ethernet addresses, which translation leaves as they were."""
        return re.sub(r" eth=[^ ]+", "", self._ask(packet.hex()))
