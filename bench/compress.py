#!/usr/bin/env python3
"""Compressing at scale: one session of many megabytes, and back again.

    bench/compress.py [--rounds 5] [--megabytes 100]

Compresses the session that bench/checking.py makes from the corpus, to 40k and to 400k tokens, each run with a new copy of it, and uncompresses the
result in place; time and memory, best of the rounds, with a warm cache. Checks that the file is then what it was, byte for byte. Everything it makes is under
target/bench. Exit 1 if a goal is missed.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import checking  # noqa: E402
from reading import ROOT, WORK, best  # noqa: E402

QUIPU = ROOT / "target" / "release" / "quipu"
PLACE = WORK / "compress"
# Seconds and megabytes.
WALL, MEMORY = 0.5, 100


def measured(argv):
    """Wall and CPU seconds, and megabytes."""
    peak = PLACE / "peak.txt"
    surroundings = {"PATH": os.environ["PATH"], "HOME": str(PLACE), "XDG_STATE_HOME": str(PLACE / "state")}
    subprocess.run(["/usr/bin/time", "-f", "%e %U %S %M", "-o", str(peak), *map(str, argv)], env=surroundings, check=True, stdout=subprocess.DEVNULL)
    wall, user, system, memory = map(float, peak.read_text().split()[-4:])
    return user + system, wall, memory / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=100)
    args = parser.parse_args()
    subprocess.run(["cargo", "build", "--release", "-q"], cwd=ROOT, check=True)
    corpus = ROOT.parent / "shared" / "corpus"
    if not corpus.is_dir():
        sys.exit("there is no ../shared/corpus: nothing to measure with")
    checking.make(corpus, args.megabytes * 1_000_000)
    data = (checking.HOME / "projects" / "-work" / f"{checking.SESSION}.jsonl").read_bytes()
    rows = {}
    for _ in range(args.rounds):
        for name, flags in {"compress --to 40k": ["--to", "40k"], "compress --to 400k --keep-calls": ["--to", "400k", "--keep-calls"]}.items():
            shutil.rmtree(PLACE, ignore_errors=True)
            PLACE.mkdir(parents=True)
            path = PLACE / f"{checking.SESSION}.jsonl"
            path.write_bytes(data)
            os.utime(path, (0, 0))
            os.sync()
            rows.setdefault(name, []).append(measured([QUIPU, "compress", path, "--in-place", "--json", *flags]))
            os.utime(path, (0, 0))
            os.sync()
            rows.setdefault("uncompress", []).append(measured([QUIPU, "uncompress", path, "--in-place", "--json"]))
            if path.read_bytes() != data:
                sys.exit("uncompress does not restore the file")
    missed = False
    for name, found in rows.items():
        cpu, wall, memory = best(found)
        missed |= wall > WALL or memory > MEMORY
        print(f"{name:34} {wall:.2f} s wall, {cpu:.2f} s CPU, {memory:.0f} MB")
    print(f"goals: {WALL} s, {MEMORY} MB: {'missed' if missed else 'met'}")
    shutil.rmtree(PLACE, ignore_errors=True)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
