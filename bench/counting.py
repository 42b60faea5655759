#!/usr/bin/env python3
"""Counting right: what quipu, ccusage and agentsview make of transcripts with one trap each.

    bench/counting.py

Makes a home for each trap, with genuine forms of records and figures that are known because they are planted
here, and asks each program for its total of output and input tokens. Everything it makes is under target/bench.
Prints a table in Markdown; `=` is the truth. Exit 1 if quipu is wrong.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys

from finding import WORK, agentsview_program
from reading import ROOT, build

HOME = WORK / "traps"
QUIPU = str(ROOT / "target" / "release" / "quipu")
ONE, TWO = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"


class Session:
    """Records of a session; `parent` links them as the client does."""

    def __init__(self, session=ONE):
        self.session, self.lines, self.parent, self.count = session, [], None, 0

    def record(self, kind, message, minute, **more):
        self.count += 1
        uuid = f"{self.count:08x}-0000-4000-8000-{self.session[:12].replace('-', '0')}"
        record = {"parentUuid": self.parent, "isSidechain": False, "userType": "external", "cwd": "/w/app",
                  "sessionId": self.session, "version": "2.1.45", "gitBranch": "main", "type": kind,
                  "message": message, "uuid": uuid, "timestamp": f"2026-11-02T10:{minute:02}:00.000Z", **more}
        self.parent = uuid
        self.lines.append(written(record))
        return self

    def ask(self, minute=0):
        return self.record("user", {"role": "user", "content": "go on"}, minute)

    def answer(self, name, output, minute=1, text="done", stop="end_turn", request=True, **more):
        message = {"id": f"msg_{name}", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5-20250929",
                   "content": [{"type": "text", "text": text}], "stop_reason": stop, "stop_sequence": None,
                   "usage": {"input_tokens": 100, "output_tokens": output, "cache_creation_input_tokens": 0,
                             "cache_read_input_tokens": 0}}
        message.update(more)
        ids = {"requestId": f"req_{name}"} if request else {}
        return self.record("assistant", message, minute, **ids)

    def text(self):
        return "\n".join(self.lines) + "\n"


def written(record):
    """A record as the client writes it: without spaces."""
    return json.dumps(record, separators=(",", ":"))


def traps():
    """Name, files and the truth (messages, output)."""
    plain = Session().ask().answer("a", 50).ask(2).answer("b", 70, 3)
    yield "an ordinary session", {f"{ONE}.jsonl": plain.text()}, (2, 120)

    blocks = Session().ask().answer("a", 1, stop=None).answer("a", 1, stop=None, text="more").answer("a", 50)
    yield "an answer in three lines, with growing figures", {f"{ONE}.jsonl": blocks.text()}, (1, 50)

    same = Session().ask().answer("a", 50).answer("a", 50, text="more")
    yield "an answer in two lines, with the same figures", {f"{ONE}.jsonl": same.text()}, (1, 50)

    nameless = Session().ask().answer("a", 50, request=False).answer("a", 50, text="more", request=False)
    yield "the same without request ids", {f"{ONE}.jsonl": nameless.text()}, (1, 50)

    fork = Session(TWO)
    fork.lines = [line.replace(ONE, TWO) for line in plain.lines]
    fork.parent = plain.parent
    fork.ask(5).answer("c", 30, 6)
    yield "a fork that copies its origin", {f"{ONE}.jsonl": plain.text(), f"{TWO}.jsonl": fork.text()}, (3, 150)

    bare = Session().ask().answer("a", 50, request=False)
    copy = Session(TWO)
    copy.lines = [line.replace(ONE, TWO) for line in bare.lines]
    copy.parent = bare.parent
    copy.ask(5).answer("c", 30, 6, request=False)
    yield "a resumed copy without request ids", {f"{ONE}.jsonl": bare.text(), f"{TWO}.jsonl": copy.text()}, (2, 80)

    main = Session().ask().answer("a", 50)
    agent = Session().ask().answer("x", 20)
    agent.lines = [line.replace('"isSidechain":false', '"isSidechain":true,"agentId":"x"') for line in agent.lines]
    inside = {f"{ONE}.jsonl": main.text(), f"{ONE}/subagents/agent-x.jsonl": agent.text()}
    yield "a sub-agent in the session's folder", inside, (2, 70)
    yield "a sub-agent beside the session", {f"{ONE}.jsonl": main.text(), "agent-x.jsonl": agent.text()}, (2, 70)

    side = Session().ask().answer("a", 50)
    side.lines += [line.replace('"isSidechain":false', '"isSidechain":true') for line in
                   Session().ask(4).answer("x", 20, 5).lines]
    yield "a sub-agent in the session's file", {f"{ONE}.jsonl": side.text()}, (2, 70)

    made_up = Session().ask().answer("a", 50).ask(2).answer("s", 9, 3, model="<synthetic>")
    yield "a message that the client made up", {f"{ONE}.jsonl": made_up.text()}, (1, 50)

    glued = plain.lines[:1] + [plain.lines[1] + plain.lines[2]] + plain.lines[3:]
    yield "two records on one line", {f"{ONE}.jsonl": "\n".join(glued) + "\n"}, (2, 120)

    torn = plain.lines[:2] + [plain.lines[2][:40] + plain.lines[3]]
    yield "a record behind a torn one", {f"{ONE}.jsonl": "\n".join(torn) + "\n"}, (2, 120)

    timeless = Session().ask().answer("a", 50)
    timeless.lines[1] = written({k: v for k, v in json.loads(timeless.lines[1]).items() if k != "timestamp"})
    yield "an answer without a time", {f"{ONE}.jsonl": timeless.text()}, (1, 50)

    dead = Session().ask().answer("a", 50)
    first = json.loads(dead.lines[0])["uuid"]
    dead.parent = first
    dead.answer("b", 70, 3)
    yield "an abandoned branch", {f"{ONE}.jsonl": dead.text()}, (2, 120)


def totals(value):
    """Output and input of ccusage's or agentsview's JSON."""
    found = value.get("totals") or value.get("total") or {}
    output = found.get("outputTokens", found.get("output_tokens"))
    read = found.get("inputTokens", found.get("input_tokens"))
    return output, read


def ask(argv, env):
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError:
        return {"error": (done.stderr or done.stdout).strip()[-200:]}


def main():
    ccusage, viewer = str(build()), agentsview_program()
    rows, wrong = [], 0
    for number, (name, files, (messages, output)) in enumerate(traps()):
        user = HOME / str(number)
        shutil.rmtree(user, ignore_errors=True)
        for path, text in files.items():
            file = user / ".claude" / "projects" / "-w-app" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        env = {"PATH": os.environ["PATH"], "HOME": str(user), "TZ": "UTC"}
        truth = (output, messages * 100)
        total = ask([QUIPU, "usage", "--json", "--no-catalog"], env)["total"]
        found = {"quipu": (total["output"], total["input"])}
        found["ccusage"] = totals(ask([ccusage, "claude", "daily", "--offline", "--json"], env))
        try:
            subprocess.run([viewer, "sync"], env=env, capture_output=True, check=True)
            found["agentsview"] = totals(ask([viewer, "usage", "daily", "--all", "--json", "--offline"], env))
        finally:
            subprocess.run([viewer, "daemon", "stop"], env=env, capture_output=True, check=False)
        wrong += found["quipu"] != truth
        cell = lambda pair: "=" if pair == truth else f"{pair[0]}, {pair[1]}"
        rows.append(f"| {name} | {truth[0]}, {truth[1]} | " + " | ".join(cell(found[one]) for one in found) + " |")
    print("| output, input tokens of | truth | quipu | ccusage 20.0.24 | agentsview 0.46.1 |\n|---|---|---|---|---|")
    print("\n".join(rows))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
