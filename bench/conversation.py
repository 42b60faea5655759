#!/usr/bin/env python3
"""Linking at scale: does the time grow with the entries, and with nothing else?

    bench/conversation.py [--rounds 3] [--bytes]

Makes sessions of 10,000, 100,000 and 1,000,000 entries in several shapes (an ordinary conversation with parallel calls, hooks,
rewinds and compactions; one parent of everything; one long chain; loops; nothing but roots; one id for all calls; nothing but sidechains; nothing but compactions), and runs
`quipu turns`, which reads, links, pairs and groups all of it, `quipu tree`, and on some shapes all commands. Prints CPU time and peak
memory an entry, and how much more an entry costs in the largest file than in the smallest. With --bytes, also the same number of
entries with a hundred times the text. Everything is under target/bench. Exit 1 if a goal is missed.
"""
import argparse
import json
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from reading import ROOT, WORK, best, run  # noqa: E402
import subprocess  # noqa: E402

SIZES = [10_000, 100_000, 1_000_000]
# An entry in a large file may cost so much more than in a small one: caches get too small, nothing else may.
WORST = 3.0
MEMORY = 700  # bytes an entry


def uuid(number):
    return f"{number:08x}-0000-4000-8000-000000000000"


def line(kind, number, parent, message=None, **more):
    entry = {"parentUuid": uuid(parent) if parent is not None else None, "isSidechain": False, "type": kind,
             "uuid": uuid(number), "timestamp": "2026-01-01T00:00:00.000Z", "sessionId": "s"}
    if message is not None:
        entry["message"] = message
    entry.update(more)
    return json.dumps(entry, separators=(",", ":")) + "\n"


def prompt(number, parent, text="go on"):
    return line("user", number, parent, {"role": "user", "content": text})


def conversation(count, text="x" * 80):
    """What a client writes: turns with parallel calls, their results as siblings, hooks beside them."""
    rng = random.Random(7)
    number, last, places = 0, None, []
    while number < count:
        if last is None or rng.random() < 0.2:
            if places and rng.random() < 0.02:
                last = rng.choice(places)
            yield prompt(number, last)
            last = number
            places.append(number)
            number += 1
        elif rng.random() < 0.002:
            yield line("system", number, None, subtype="compact_boundary", logicalParentUuid=uuid(last),
                       compactMetadata={"trigger": "auto", "preTokens": 1})
            last = number
            number += 1
        else:
            calls, message = rng.randint(1, 3), f"msg_{number}"
            first = number
            for at in range(calls):
                usage = {"input_tokens": 1, "output_tokens": 2}
                block = {"type": "tool_use", "id": f"toolu_{first}_{at}", "name": "Read", "input": {"file_path": text}}
                yield line("assistant", number, last, {"id": message, "role": "assistant", "model": "m", "content": [block],
                                                       "stop_reason": "tool_use", "usage": usage})
                last = number
                number += 1
            for at in range(calls):
                block = {"type": "tool_result", "tool_use_id": f"toolu_{first}_{at}", "content": text}
                yield line("user", number, first + at, {"role": "user", "content": [block]})
                last = number
                number += 1


def star(count):
    yield prompt(0, None)
    yield from (prompt(number, 0) for number in range(1, count))


def chain(count):
    yield prompt(0, None)
    yield from (prompt(number, number - 1) for number in range(1, count))


def loops(count):
    yield from (prompt(number, (number + 1) % count) for number in range(count))


def roots(count):
    yield from (prompt(number, None) for number in range(count))


def one_id(count):
    for number in range(count):
        if number % 2 == 0:
            block = {"type": "tool_use", "id": "toolu_same", "name": "Read", "input": {}}
            yield line("assistant", number, number - 1 if number else None,
                       {"id": f"m{number}", "role": "assistant", "content": [block]})
        else:
            yield line("user", number, number - 1,
                       {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_same", "content": ""}]})


def sidechains(count):
    """Calls, each with a sub-agent in the same file."""
    number = 0
    last = None
    while number < count:
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": "Task", "input": {"prompt": f"do {number}"}}
        yield line("assistant", number, last, {"id": f"m{number}", "role": "assistant", "content": [block]})
        yield line("user", number + 1, None, {"role": "user", "content": f"do {number}"}, isSidechain=True)
        result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": ""}
        yield line("user", number + 2, number, {"role": "user", "content": [result]}, toolUseResult={"agentId": f"a{number}"})
        last = number + 2
        number += 3


def compactions(count):
    """Boundaries that keep a tail."""
    number, last = 0, None
    while number < count:
        yield prompt(number, last)
        yield prompt(number + 1, number)
        kept = {"headUuid": uuid(number), "tailUuid": uuid(number + 1), "anchorUuid": uuid(number + 2)}
        yield line("system", number + 2, None, subtype="compact_boundary", logicalParentUuid=uuid(number + 1),
                   compactMetadata={"trigger": "auto", "preTokens": 1, "preservedSegment": kept})
        last = number + 2
        number += 3


def long_texts(count):
    return conversation(count, "x" * 8_000)


def made(shape, count):
    path = WORK / "linking" / f"{shape.__name__}-{count}.jsonl"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        with open(part, "w") as out:
            out.writelines(shape(count))
        part.rename(path)
    return path


def alone(path):
    """A folder of its own for each: `tree` looks at the files beside."""
    folder = path.parent / path.stem
    folder.mkdir(exist_ok=True)
    target = folder / path.name
    if not target.exists():
        target.hardlink_to(path)
    return target


def measure(quipu, command, path, rounds):
    return best([run([str(quipu), *command, str(path)]) for _ in range(rounds)])


def main():
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    args.add_argument("--rounds", type=int, default=3)
    args.add_argument("--bytes", action="store_true", help="also 100,000 entries with long texts (1.6 GB)")
    args = args.parse_args()
    subprocess.run(["cargo", "build", "--release", "-q"], cwd=ROOT, check=True)
    quipu = ROOT / "target" / "release" / "quipu"
    missed = []
    print(f"{'shape':<14}{'command':<14}{'entries':>10}{'CPU s':>9}{'us/entry':>10}{'MB':>8}{'B/entry':>9}")
    empty = measure(quipu, ["turns"], alone(made(chain, 1)), args.rounds)[2]
    everything = (["turns"], ["tree"], ["tree", "--json"], ["show"], ["turns", "--json"])
    drawn = (["turns"], ["tree"])
    for shape in (conversation, star, chain, loops, roots, one_id, sidechains, compactions):
        for command in everything if shape in (conversation, sidechains) else drawn:
            cost = []
            for count in SIZES:
                cpu, _, peak = measure(quipu, command, alone(made(shape, count)), args.rounds)
                each, memory = cpu / count * 1e6, (peak - empty) * 1048576 / count
                cost.append((each, memory))
                print(f"{shape.__name__:<14}{' '.join(command):<14}{count:>10}{cpu:>9.2f}{each:>10.2f}{peak:>8.0f}{memory:>9.0f}")
            # The smallest file is mostly the start of the program: the middle one is the measure.
            ratio = cost[-1][0] / min(cost[0][0], cost[1][0])
            print(f"{'':<28}an entry in the largest costs {ratio:.2f} times the cheapest (goal: at most {WORST})")
            if ratio > WORST:
                missed.append(f"{shape.__name__} {' '.join(command)}: {ratio:.2f}")
            if shape is conversation and cost[-1][1] > MEMORY:
                missed.append(f"{shape.__name__} {' '.join(command)}: {cost[-1][1]:.0f} bytes an entry")
    if args.bytes:
        short = measure(quipu, ["turns"], alone(made(conversation, 100_000)), args.rounds)[2]
        long = measure(quipu, ["turns"], alone(made(long_texts, 100_000)), args.rounds)[2]
        print(f"100,000 entries with 80 and with 8,000 characters a text: {short:.0f} MB and {long:.0f} MB")
        if long > 1.2 * short + 2:
            missed.append(f"memory grows with the texts: {short:.0f} to {long:.0f} MB")
    for goal in missed:
        print("missed:", goal)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
