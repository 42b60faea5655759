#!/usr/bin/env python3
"""Reading at scale: quipu beside ccusage, and beside the limit.

    bench/reading.py [--megabytes 1200] [--rounds 5] [--fresh-build]

Makes a home of that size from ../shared/corpus (`make_corpus.py`), installs ccusage from npm, builds the
release binary, then runs each program in turn, round after round, over the same files with a warm cache.
Everything it makes is under target/bench. Prints CPU time (user + system), wall time and peak memory, best of
the rounds, and how the figures stand to their goals. Exit 1 if a goal is missed.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORK = ROOT / "target" / "bench"
HOME = WORK / "home"
PEERS = WORK / "peers"
CCUSAGE = "20.0.24"


def run(argv, stdin=None, codes=(0,)):
    """One run: CPU seconds, wall seconds, peak memory in MB."""
    clean = {"PATH": os.environ["PATH"], "HOME": str(WORK / "empty"), "CLAUDE_CONFIG_DIR": str(HOME)}
    # Memory is GNU time's word: a child of this script would be charged with the script's own.
    peak = WORK / "peak.txt"
    argv = ["/usr/bin/time", "-f", "%M", "-o", str(peak), *argv]
    with open(os.devnull, "wb") as null, open(stdin or os.devnull, "rb") as source:
        start = time.monotonic()
        child = subprocess.Popen(argv, stdin=source, stdout=null, stderr=null, env=clean)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        wall = time.monotonic() - start
    if child.returncode not in codes:
        sys.exit(f"{argv} ended with {child.returncode}")
    return usage.ru_utime + usage.ru_stime, wall, int(peak.read_text().split()[-1]) / 1024


def best(rows):
    """The best CPU and wall time of the rounds, and the worst memory."""
    return min(r[0] for r in rows), min(r[1] for r in rows), max(r[2] for r in rows)


def build():
    subprocess.run(["cargo", "build", "--release", "-q"], cwd=ROOT, check=True)
    subprocess.run(["cargo", "build", "--release", "-q"], cwd=ROOT / "bench" / "engine", check=True)
    return peers()


def peers():
    """The path of ccusage, installed if it is not there."""
    quiet = {"stdout": subprocess.DEVNULL}
    if not (PEERS / "node_modules" / "ccusage").exists():
        PEERS.mkdir(parents=True, exist_ok=True)
        packages = [f"ccusage@{CCUSAGE}", f"@ccusage/ccusage-linux-x64@{CCUSAGE}"]
        subprocess.run(["npm", "install", "--prefix", str(PEERS), *packages], check=True, **quiet)
    native = PEERS / "node_modules" / "@ccusage" / "ccusage-linux-x64" / "bin" / "ccusage"
    native.chmod(0o755)
    return native


def fresh_build():
    """Seconds that a release build takes from nothing but downloaded sources."""
    folder = WORK / "fresh-target"
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run(["cargo", "fetch", "-q"], cwd=ROOT, check=True)
    start = time.monotonic()
    subprocess.run(["cargo", "build", "--release", "-q", "--target-dir", str(folder)], cwd=ROOT, check=True)
    seconds = time.monotonic() - start
    shutil.rmtree(folder)
    return seconds


def main():
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    args.add_argument("--megabytes", type=int, default=1200)
    args.add_argument("--rounds", type=int, default=5)
    args.add_argument("--fresh-build", action="store_true", help="also time a release build from nothing")
    args = args.parse_args()

    corpus = ROOT.parent / "shared" / "corpus"
    if not corpus.is_dir():
        sys.exit("there is no ../shared/corpus: nothing to measure with")
    if not os.path.exists("/usr/bin/time"):
        sys.exit("needs GNU time (Debian: apt-get install time)")
    (WORK / "empty").mkdir(parents=True, exist_ok=True)
    make = [sys.executable, str(ROOT / "bench" / "make_corpus.py"), str(corpus), str(HOME)]
    subprocess.run([*make, "--megabytes", str(args.megabytes)], check=True)
    ccusage = build()
    quipu = ROOT / "target" / "release" / "quipu"
    floor = ROOT / "bench" / "engine" / "target" / "release" / "floor"

    files = sorted(HOME.rglob("*.jsonl"))
    names = WORK / "files.txt"
    names.write_text("".join(f"{path}\n" for path in files))
    size = sum(path.stat().st_size for path in files)
    sessions = sum(not path.name.startswith("agent-") for path in files)
    print(f"{len(files)} files, {size / 1e6:.0f} MB, {sessions} sessions\n")

    programs = {
        "memchr line count": ([str(floor)], names),
        "quipu inventory --all": ([str(quipu), "inventory", "--all"], None),
        "ccusage claude daily": ([str(ccusage), "claude", "daily", "--offline", "--json"], None),
        "quipu ls --all": ([str(quipu), "ls", "--all"], None),
        "quipu --version": ([str(quipu), "--version"], None),
    }
    for argv, stdin in programs.values():
        run(argv, stdin)  # warms the cache
    rows = {name: [] for name in programs}
    for _ in range(args.rounds):
        for name, (argv, stdin) in programs.items():
            rows[name].append(run(argv, stdin))
    result = {name: best(found) for name, found in rows.items()}
    print(f"{'':24} {'CPU s':>8} {'wall s':>8} {'MB':>6}")
    for name, (cpu, wall, memory) in result.items():
        print(f"{name:24} {cpu:8.3f} {wall:8.3f} {memory:6.0f}")

    inventory, peer = result["quipu inventory --all"], result["ccusage claude daily"]
    goals = [
        ("inventory, CPU time against ccusage", inventory[0] / peer[0], 1 / 3, ""),
        ("inventory, peak memory", inventory[2], 64, " MB"),
        ("ls --all, wall time", result["quipu ls --all"][1] * 1e3, 400, " ms"),
        ("--version, wall time", result["quipu --version"][1] * 1e3, 10, " ms"),
        ("--version, peak memory", result["quipu --version"][2], 10, " MB"),
    ]
    if args.fresh_build:
        goals.append(("fresh release build", fresh_build(), 240, " s"))
    print(f"\ninventory takes {inventory[0] / result['memchr line count'][0]:.1f} times the limit's CPU time")
    missed = 0
    for what, value, goal, unit in goals:
        missed += value > goal
        print(f"{'ok    ' if value <= goal else 'MISSED'} {what}: {value:.2f}{unit} (at most {goal:.2f}{unit})")
    (WORK / "reading.json").write_text(json.dumps(result, indent=1) + "\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
