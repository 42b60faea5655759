#!/usr/bin/env python3
"""What images cost, beside `git stash create` on the same tree.

A repository of 20,000 files and 200 MB with an ignored folder of 50,000 more. The first image, and the one before and the one after a command when nothing has changed: measured by the example `cost` of the crate, in one process as an agent does it. Peak memory, and the size of the store beside the tree under zstd.

    bench/snapshot.py [--files N] [--megabytes N] [--rounds N]
"""
import argparse
import os
import pathlib
import random
import shutil
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PLACE = ROOT / "target" / "bench" / "snapshot"
COST = ROOT / "target" / "release" / "examples" / "cost"


def make(tree, files, megabytes, ignored):
    words = [f"{random.getrandbits(40):x}" for _ in range(4000)] + "the of and to in is that for it as".split() * 200
    each = megabytes * 1_000_000 // files
    for number in range(files):
        folder = tree / f"pkg{number % 50}" / f"mod{number % 1000}"
        folder.mkdir(parents=True, exist_ok=True)
        text = []
        size = 0
        goal = random.randint(each // 4, each * 7 // 4)
        while size < goal:
            line = "    " * random.randint(0, 4) + " ".join(random.choices(words, k=8)) + "\n"
            text.append(line)
            size += len(line)
        (folder / f"file{number}.txt").write_text("".join(text))
    for number in range(ignored):
        folder = tree / "node_modules" / f"m{number % 500}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.js").write_text("x")
    (tree / ".gitignore").write_text("node_modules/\n")
    for command in ["git init -q", "git add -A", "git -c user.name=a -c user.email=a@b commit -qm all"]:
        subprocess.run(command.split(), cwd=tree, check=True)


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--files", type=int, default=20_000)
    args.add_argument("--megabytes", type=int, default=200)
    args.add_argument("--rounds", type=int, default=10)
    args = args.parse_args()
    random.seed(1)
    tree, store = PLACE / "tree", PLACE / "state" / "snapshots"
    if not tree.exists():
        tree.mkdir(parents=True)
        make(tree, args.files, args.megabytes, 50_000)
        time.sleep(1)
    shutil.rmtree(PLACE / "state", ignore_errors=True)
    run = ["/usr/bin/time", "-f", "peak memory %M kB", str(COST), str(store), str(tree), str(args.rounds)]
    run = run if os.path.exists(run[0]) else run[3:]
    print(subprocess.run(run, capture_output=True, text=True, check=True))
    times = []
    for _ in range(args.rounds):
        begin = time.perf_counter()
        subprocess.run(["git", "stash", "create"], cwd=tree, check=True)
        times.append(time.perf_counter() - begin)
    print(f"git stash create: best {min(times) * 1000:.0f} ms")
    size = sum(path.stat().st_size for name in ["packs", "marks", "sessions"] for path in (store / name).rglob("*") if path.is_file())
    tar = subprocess.run("tar c --exclude=.git --exclude=node_modules . | zstd -3 -c | wc -c", shell=True, cwd=tree, capture_output=True, text=True)
    print(f"store {size / 1e6:.1f} MB; tar | zstd -3: {int(tar.stdout or 0) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
