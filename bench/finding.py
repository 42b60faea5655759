#!/usr/bin/env python3
"""Finding and counting: quipu's catalog, search and usage beside agentsview and ccusage.

    bench/finding.py [--megabytes 1000] [--rounds 5] [--without-agentsview] [--quipu FILE]

Makes a home of that size from ../shared/corpus (`make_corpus.py`), installs the peers from npm and PyPI, builds
the release binary, or takes FILE, then runs each program in turn over the same files with a warm cache. Everything it makes is
under target/bench. Prints wall time and peak memory, best of the rounds, and how the figures stand to their
goals. Exit 1 if a goal is missed.
"""
import argparse
import json
import os
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import sys

from reading import HOME, ROOT, WORK, best, build, peers, run

AGENTSVIEW = "0.46.1"
CATALOG = WORK / "catalog.sqlite"
QUIPU = str(ROOT / "target" / "release" / "quipu")
WORD = re.compile(rb"[a-z_]{4,16}")


def remove_catalog():
    for end in ("", "-wal", "-shm", ".lock"):
        pathlib.Path(str(CATALOG) + end).unlink(missing_ok=True)


def size_of(path):
    return sum(pathlib.Path(str(path) + end).stat().st_size for end in ("", "-wal")
               if pathlib.Path(str(path) + end).exists())


def agentsview_program():
    """The path of agentsview, installed if it is not there."""
    folder = WORK / "agentsview"
    if not (folder / "bin" / "agentsview").exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(folder / "bin" / "pip"), "install", "-q", f"agentsview=={AGENTSVIEW}"], check=True)
    return str(folder / "bin" / "agentsview")


def agentsview():
    """Seconds and MB of agentsview's first sync, and the size of what it keeps; its daemon is stopped."""
    program = agentsview_program()
    user = WORK / "agentsview-home"
    shutil.rmtree(user, ignore_errors=True)
    user.mkdir(parents=True)
    (user / ".claude").symlink_to(HOME)
    clean = {"PATH": os.environ["PATH"], "HOME": str(user)}
    peak = WORK / "peak.txt"
    try:
        done = subprocess.run(["/usr/bin/time", "-f", "%e %M", "-o", str(peak), program, "sync"], env=clean,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    finally:
        subprocess.run([program, "daemon", "stop"], env=clean, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, check=False)
    if done.returncode:
        sys.exit(f"agentsview sync ended with {done.returncode}: {done.stdout[-500:]}")
    seconds, memory = peak.read_text().split()[-2:]
    kept = sum(path.stat().st_size for path in user.rglob("*") if path.is_file() and not path.is_symlink()
               and ".claude" not in path.relative_to(user).parts[:1])
    return float(seconds), int(memory) / 1024, kept


def words(files, count):
    """Words that occur in the files, frequent and rare ones."""
    chooser, found = random.Random(7), set()
    while len(found) < count:
        data = chooser.choice(files).read_bytes()
        all_words = WORD.findall(data)
        if all_words:
            found.add(chooser.choice(all_words).decode())
    return sorted(found)


def main():
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    args.add_argument("--megabytes", type=int, default=1000)
    args.add_argument("--rounds", type=int, default=5)
    args.add_argument("--without-agentsview", action="store_true", help="its first sync takes minutes")
    args.add_argument("--quipu", metavar="FILE", help="a release binary, instead of building one")
    args = args.parse_args()
    corpus = ROOT.parent / "shared" / "corpus"
    if not corpus.is_dir():
        sys.exit("there is no ../shared/corpus: nothing to measure with")
    (WORK / "empty").mkdir(parents=True, exist_ok=True)
    make = [sys.executable, str(ROOT / "bench" / "make_corpus.py"), str(corpus), str(HOME)]
    subprocess.run([*make, "--megabytes", str(args.megabytes)], check=True)
    program = str(pathlib.Path(args.quipu).resolve()) if args.quipu else QUIPU
    ccusage = str(peers() if args.quipu else build())
    files = sorted(HOME.rglob("*.jsonl"))
    source = sum(path.stat().st_size for path in files)
    print(f"{len(files)} files, {source / 1e6:.0f} MB\n")

    def quipu(command, *more, codes=(0,)):
        return run([program, *command.split(), *more], codes=codes)

    with_catalog = ("--catalog", str(CATALOG))
    verdicts = (0, 10, 11, 12)
    quipu("inventory --all")  # warms the cache
    result = {}

    def first(threads):
        remove_catalog()
        return quipu(f"index --threads {threads}", *with_catalog)

    result["first index"] = best([first(2) for _ in range(2)])
    result["first index, one thread"] = best([first(1) for _ in range(2)])
    catalog = size_of(CATALOG)
    rounds = range(args.rounds)
    result["refresh, nothing new"] = best([quipu("index", *with_catalog) for _ in rounds])
    appended = []
    line = files[0].read_bytes().splitlines()[-1] + b"\n"
    before = files[0].read_bytes()
    for _ in rounds:
        with open(files[0], "ab") as file:
            file.write(line)
        appended.append(quipu("index", *with_catalog))
    files[0].write_bytes(before)
    quipu("index", *with_catalog)
    result["refresh, one line more"] = best(appended)
    searches = [quipu("search", word, *with_catalog) for word in words(files, 60)]
    walls = sorted(wall for _, wall, _ in searches)
    slow = walls[int(len(walls) * 0.95)]
    result["search, 95th percentile of 60"] = (0, slow, max(memory for _, _, memory in searches))
    result["search, median"] = (0, statistics.median(walls), 0)
    # What the client writes to its status line's command, for the largest session there is.
    largest = max(files, key=lambda path: path.stat().st_size)
    asked = WORK / "statusline.json"
    asked.write_text(json.dumps({"session_id": largest.stem, "transcript_path": str(largest)}))
    result["usage --statusline"] = best([run([program, "usage", "--statusline", *with_catalog], stdin=asked)
                                         for _ in rounds])
    programs = {
        "usage --by day, catalog": [program, "usage", "--by", "day", *with_catalog],
        "usage --by day, no catalog": [program, "usage", "--by", "day", "--no-catalog"],
        "inventory --all": [program, "inventory", "--all"],
        "ccusage claude daily": [ccusage, "claude", "daily", "--offline", "--json"],
        "check --all": [program, "check", "--all"],
        "check --all, one thread": [program, "check", "--all", "--threads", "1"],
    }
    rows = {name: [] for name in programs}
    for _ in rounds:
        for name, argv in programs.items():
            rows[name].append(run(argv, codes=verdicts))
    result.update({name: best(found) for name, found in rows.items()})
    peer = None
    if not args.without_agentsview:
        seconds, memory, kept = agentsview()
        result["agentsview sync"] = (0, seconds, memory)
        peer = seconds
        print(f"agentsview keeps {kept / 1e6:.0f} MB, quipu {catalog / 1e6:.0f} MB\n")
    print(f"{'':32} {'wall s':>8} {'MB':>6}")
    for name, (_, wall, memory) in result.items():
        print(f"{name:32} {wall:8.3f} {memory:6.0f}")

    wall = {name: found[1] for name, found in result.items()}
    query = slow - wall["refresh, nothing new"]
    goals = [
        ("catalog, share of the source", catalog / source * 100, 12, " %"),
        ("first index, peak memory", result["first index"][2], 200, " MB"),
        ("refresh with nothing new", wall["refresh, nothing new"] * 1e3, 60, " ms"),
        ("refresh after one line", wall["refresh, one line more"] * 1e3, 80, " ms"),
        ("search, 95th percentile, end to end", slow * 1e3, 100, " ms"),
        ("search, 95th percentile, without the refresh", query * 1e3, 40, " ms"),
        ("status line", wall["usage --statusline"] * 1e3, 15, " ms"),
        ("search, peak memory", result["search, 95th percentile of 60"][2], 40, " MB"),
        ("usage with a catalog, share of ccusage", wall["usage --by day, catalog"] / wall["ccusage claude daily"],
         1 / 20, ""),
        ("usage without a catalog, share of ccusage",
         wall["usage --by day, no catalog"] / wall["ccusage claude daily"], 1 / 3, ""),
        ("inventory, share of ccusage", wall["inventory --all"] / wall["ccusage claude daily"], 1 / 3, ""),
        ("check on two threads, share of one", wall["check --all"] / wall["check --all, one thread"], 1 / 1.7, ""),
        ("index on two threads, share of one", wall["first index"] / wall["first index, one thread"], 1 / 1.7, ""),
    ]
    if peer:
        goals.append(("first index, share of agentsview", wall["first index"] / peer, 1 / 8, ""))
    missed = 0
    print()
    for what, value, goal, unit in goals:
        missed += value > goal
        print(f"{'ok    ' if value <= goal else 'MISSED'} {what}: {value:.3f}{unit} (at most {goal:.3f}{unit})")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
