"""Brings requests into the form in which they are compared.

The rules are those of the tests: `crates/testkit/src/comparable.rs`, which is built and run here.
What must stay true: nothing is left out of a comparison except by those rules.
"""
import json
import os
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path

from .cases import ROOT


class Applied(Counter):
    """How often each pattern left something out."""

    def table(self):
        run = subprocess.run([program()], input="", capture_output=True, text=True, check=True)
        reasons = json.loads(run.stdout)["patterns"]
        return [(name, count, reasons[name]) for name, count in self.most_common()]


@cache
def program():
    subprocess.run(["cargo", "build", "--quiet", "--workspace", "--bin", "comparable"],
                   cwd=ROOT, check=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return str(target / "debug/comparable")


@cache
def process():
    return subprocess.Popen([program()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def comparable(case, messages, applied=None):
    """The messages of a request about a case, in the form in which they are compared."""
    job = {"file": str(case.file.resolve()), "cut": case.cut, "messages": messages}
    worker = process()
    worker.stdin.write(json.dumps(job) + "\n")
    worker.stdin.flush()
    answer = json.loads(worker.stdout.readline())
    if applied is not None:
        applied.update(answer["applied"])
    return answer["messages"]


def first_difference(sent, ours):
    """Where two lists of messages differ first: the place, and both messages."""
    for at in range(max(len(sent), len(ours))):
        one = sent[at] if at < len(sent) else None
        other = ours[at] if at < len(ours) else None
        if one != other:
            return at, one, other
    return None
