#!/usr/bin/env python3
"""Packing and unpacking: time and memory on one long session.

    bench/pack.py [--rounds 3] [--megabytes 100]

The session is made of genuine turns of the corpus. Each round packs it, with and without redaction, and unpacks the pack in an empty home. Best of the
rounds, with a warm cache; beside them `zip` and `unzip` on the same file, if they are installed. Everything it makes is under target/bench. Exit 1 if a goal
is missed.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import checking  # noqa: E402
from reading import ROOT, WORK, best  # noqa: E402

SHARED = ROOT.parent / "shared"
PLACE = WORK / "pack"
QUIPU = ROOT / "target" / "release" / "quipu"


def measured(argv, home):
    peak = PLACE / "peak.txt"
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "CLAUDE_CONFIG_DIR": str(home / ".claude"), "LANG": "C.UTF-8"}
    os.sync()
    done = subprocess.run(["/usr/bin/time", "-f", "%e %U %S %M", "-o", str(peak), *map(str, argv)], env=environment, cwd=PLACE,
                          stdin=subprocess.DEVNULL, capture_output=True)
    if done.returncode:
        sys.exit(f"{argv}: {done.stderr.decode()}")
    wall, user, system, memory = map(float, peak.read_text().split()[-4:])
    return user + system, wall, memory / 1024


def main():
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    args.add_argument("--rounds", type=int, default=3)
    args.add_argument("--megabytes", type=int, default=100)
    args = args.parse_args()
    if not SHARED.is_dir():
        sys.exit("there is no ../shared: nothing to measure with")
    shutil.rmtree(PLACE, ignore_errors=True)
    home = PLACE / "home"
    project = home / ".claude" / "projects" / "-work"
    project.mkdir(parents=True)
    subprocess.run(["cargo", "build", "--release", "-q"], cwd=ROOT, check=True)
    source = checking.HOME / "projects" / "-work" / f"{checking.SESSION}.jsonl"
    if not source.exists() or abs(source.stat().st_size - args.megabytes * 1_000_000) > 1_000_000:
        checking.make(SHARED / "corpus", args.megabytes * 1_000_000)
    session = project / source.name
    shutil.copy(source, session)
    other = PLACE / "other"
    plain, redacted = PLACE / "plain.html", PLACE / "redacted.html"
    rows = {}
    for _ in range(args.rounds + 1):
        runs = {
            "quipu pack": [QUIPU, "pack", session, "-o", redacted, "--force"],
            "quipu pack --no-redact": [QUIPU, "pack", session, "-o", plain, "--no-redact", "--force"],
            "quipu unpack": [QUIPU, "unpack", plain, "--yes"],
            "quipu unpack --map": [QUIPU, "unpack", plain, "--yes", "--map", "/home=/srv/elsewhere"],
        }
        if shutil.which("zip"):
            (PLACE / "plain.zip").unlink(missing_ok=True)
            runs["zip -3"] = ["zip", "-q", "-3", "plain.zip", session]
            runs["unzip"] = ["unzip", "-q", "-o", "plain.zip", "-d", "unzipped"]
        for name, argv in runs.items():
            shutil.rmtree(other, ignore_errors=True)
            (other / ".claude").mkdir(parents=True)
            rows.setdefault(name, []).append(measured(argv, other if "unpack" in name else home))
            if name == "quipu unpack":
                (made,) = (other / ".claude" / "projects").rglob("*.jsonl")
                if made.read_bytes() != session.read_bytes():
                    sys.exit("what was unpacked is not what was packed")
    with zipfile.ZipFile(plain) as archive:
        if archive.testzip():
            sys.exit("Python's zipfile finds the pack damaged")
        with archive.open(f"sessions/{session.stem}/transcript.jsonl") as member:
            if member.read() != session.read_bytes():
                sys.exit("Python's zipfile reads something else")
    print(f"a session of {session.stat().st_size / 1e6:.0f} MB; the pack has {plain.stat().st_size / 1e6:.1f} MB\n")
    print("| | CPU | wall | peak memory |\n|---|---|---|---|")
    for name, runs in rows.items():
        cpu, wall, memory = best(runs[1:])
        print(f"| `{name}` | {cpu:.2f} s | {wall:.2f} s | {memory:.0f} MB |")
    goals = [("quipu pack", 3.0), ("quipu unpack", 1.5)]
    missed = 0
    for name, goal in goals:
        _, wall, memory = best(rows[name][1:])
        met = wall <= goal and memory < 100
        missed += not met
        print(f"\n`{name}`: {wall:.2f} s, {memory:.0f} MB (goal: {goal} s, less than 100 MB){'' if met else ': MISSED'}")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
