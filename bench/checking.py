#!/usr/bin/env python3
"""Judging at scale: quipu beside the Agent SDK and cozempic.

    bench/checking.py [--megabytes 100] [--rounds 5]

Makes one session of that size from the sessions in ../shared/corpus, hung together with new ids, and one whose last compaction
lies in its final 5 MB; installs claude-agent-sdk and cozempic from PyPI; builds the release binary; then runs each program in
turn, round after round, with a warm cache. Everything it makes is under target/bench. Prints wall time, CPU time and peak memory,
best of the rounds, and how the figures stand to their goals. Exit 1 if a goal is missed.
"""
import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import reading  # noqa: E402
from reading import ROOT, WORK, best  # noqa: E402

SDK, COZEMPIC = "0.2.182", "1.8.39"
VENV = WORK / "python"
HOME = WORK / "checking"
SESSION = "11111111-1111-4111-8111-111111111111"
TAIL = "22222222-2222-4222-8222-222222222222"
LIST = "from claude_agent_sdk import get_session_messages as get; print(len(get('%s')))" % SESSION


def records(corpus, size):
    """Records of genuine sessions one after the other, as one conversation: what a very long session holds."""
    rng = random.Random(7)
    files = [path for path in sorted(corpus.rglob("*.jsonl"))
             if not path.name.startswith("agent-") and "subagents" not in path.parts and path.stat().st_size > 50_000]
    written, last, turn = 0, None, 0
    while True:
        turn += 1
        for path in files:
            ids = {}
            for line in path.open("rb"):
                try:
                    entry = json.loads(line)
                except ValueError:
                    continue
                if not isinstance(entry, dict) or entry.get("isSidechain") or entry.get("subtype") == "compact_boundary":
                    continue
                if entry.get("type") in ("last-prompt", "summary"):
                    continue
                if "uuid" in entry:
                    parent = ids.get(entry.get("parentUuid"), last)
                    ids[entry["uuid"]] = last = str(uuid.UUID(int=rng.getrandbits(128)))
                    entry.update(uuid=last, parentUuid=parent, sessionId=SESSION)
                message = entry.get("message")
                if isinstance(message, dict):
                    if "id" in message:
                        message["id"] = f"{message['id']}_{turn}"
                    for block in message["content"] if isinstance(message.get("content"), list) else []:
                        for name in ("id", "tool_use_id"):
                            if isinstance(block, dict) and name in block:
                                block[name] = f"{block[name]}_{turn}"
                line = json.dumps(entry, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"
                yield entry, line
                written += len(line)
                if written >= size:
                    return


def make(corpus, size):
    folder = HOME / "projects" / "-work"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / f"{SESSION}.jsonl", "wb") as whole, open(folder / f"{TAIL}.jsonl", "wb") as tail:
        written, behind = 0, None
        for entry, line in records(corpus, size):
            whole.write(line)
            if behind is None and written > size - 5_000_000 and "uuid" in entry:
                cut = {"parentUuid": None, "logicalParentUuid": entry["parentUuid"], "isSidechain": False, "type": "system",
                       "subtype": "compact_boundary", "content": "Conversation compacted", "uuid": str(uuid.UUID(int=1)),
                       "timestamp": entry["timestamp"], "sessionId": TAIL, "compactMetadata": {"trigger": "auto", "preTokens": 1}}
                summary = {"parentUuid": cut["uuid"], "isSidechain": False, "type": "user", "isCompactSummary": True,
                           "uuid": str(uuid.UUID(int=2)), "timestamp": entry["timestamp"], "sessionId": TAIL,
                           "message": {"role": "user", "content": "What was said before."}}
                for made in (cut, summary):
                    tail.write(json.dumps(made).encode() + b"\n")
                behind, last = set(), summary["uuid"]
            if behind is not None and "uuid" in entry:
                # Nothing behind a compaction hangs on what stands before it.
                if entry["parentUuid"] not in behind:
                    entry["parentUuid"] = last
                last = entry["uuid"]
                behind.add(last)
                line = json.dumps(entry, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"
            tail.write(line)
            written += len(line)


def install():
    if not (VENV / "bin" / "cozempic").exists():
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
        packages = [f"claude-agent-sdk=={SDK}", f"cozempic=={COZEMPIC}"]
        subprocess.run([str(VENV / "bin" / "pip"), "install", "-q", *packages], check=True)


def main():
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    args.add_argument("--megabytes", type=int, default=100)
    args.add_argument("--rounds", type=int, default=5)
    args = args.parse_args()
    corpus = ROOT.parent / "shared" / "corpus"
    if not corpus.is_dir():
        sys.exit("there is no ../shared/corpus: nothing to measure with")
    (WORK / "empty").mkdir(parents=True, exist_ok=True)
    make(corpus, args.megabytes * 1_000_000)
    install()
    subprocess.run(["cargo", "build", "--release", "-q"], cwd=ROOT, check=True)
    reading.HOME = HOME
    os.environ["PATH"] = f"{VENV / 'bin'}:{os.environ['PATH']}"
    quipu, folder = ROOT / "target" / "release" / "quipu", HOME / "projects" / "-work"
    programs = {
        "quipu check": [str(quipu), "check", str(folder / f"{SESSION}.jsonl")],
        "claude-agent-sdk": [str(VENV / "bin" / "python"), "-c", LIST],
        "cozempic diagnose": ["env", "COZEMPIC_NO_GLOBAL_INIT=1", str(VENV / "bin" / "cozempic"), "diagnose",
                              str(folder / f"{SESSION}.jsonl")],
        "quipu history": [str(quipu), "history", str(folder / f"{TAIL}.jsonl"), "--json"],
    }
    rows = {name: [] for name in programs}
    for turn in range(args.rounds + 1):
        for name, argv in programs.items():
            # A verdict is no failure.
            measured = reading.run(argv, codes=(0, 10, 11))
            if turn > 0:  # the first round warms the cache
                rows[name].append(measured)
    figures = {name: best(found) for name, found in rows.items()}
    print(f"one session of {args.megabytes} MB, best of {args.rounds}\n\n{'':20}{'wall s':>8}{'CPU s':>8}{'MB':>8}")
    for name, (cpu, wall, memory) in figures.items():
        print(f"{name:20}{wall:8.3f}{cpu:8.3f}{memory:8.0f}")
    ratio = figures["claude-agent-sdk"][1] / figures["quipu check"][1]
    other = figures["cozempic diagnose"][1] / figures["quipu check"][1]
    goals = [
        (f"check is {ratio:.1f} times faster than the SDK lists messages", ratio >= 15, "at least 15"),
        (f"check takes {figures['quipu check'][2]:.0f} MB", figures["quipu check"][2] < 100, "less than 100"),
        (f"history takes {figures['quipu history'][1] * 1000:.0f} ms", figures["quipu history"][1] <= 0.080, "at most 80"),
    ]
    print(f"\ncheck is {other:.1f} times faster than cozempic diagnoses")
    for text, met, goal in goals:
        print(f"{text} (goal: {goal}){'' if met else '  MISSED'}")
    sys.exit(0 if all(met for _, met, _ in goals) else 1)


if __name__ == "__main__":
    main()
