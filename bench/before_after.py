#!/usr/bin/env python3
"""Two builds of quipu beside each other: did a change make anything slower?

    bench/before_after.py --before PROGRAM --after PROGRAM --receiver PROGRAM [--rounds 5] [--megabytes 300]

Runs both programs in turn, round after round, over the same files with a warm cache: from the start of
`chat` to its first request, `hook stop` until it returns, `strip`, `check`, `inventory`, `ls`, `turns`,
`tree`, `show`, `history`, and `ship` without and with redaction. What takes milliseconds is run twenty times a round, and the middle one counts; what
takes tens of them seven times, in turn with the other, and the quickest counts. The order of the two
changes with every round. `--receiver` is testkit's (`cargo build --release -p testkit
--example receiver`). Everything it makes is under target/bench. Prints the middle of the rounds and the
ratio, of the wall clock and of the processor time that the program took; exit 1 if one is over its limit:
1.05, of `ship` with redaction 1.25. The wall clock decides, except on a virtual machine that was kept
waiting for its processors (`steal`, printed) for over a tenth of the time: then it measures the neighbours,
and processor time decides.
"""
import argparse
import json
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import chat  # noqa: E402
import checking  # noqa: E402
import ship  # noqa: E402
from reading import ROOT, WORK  # noqa: E402

PLACE = WORK / "before-after"
CORPUS = ROOT.parent / "shared" / "corpus"
MANY = 20
SEVERAL = 7


def surroundings(home):
    return {"PATH": os.environ["PATH"], "HOME": str(home), "CLAUDE_CONFIG_DIR": str(home / ".claude"), "LANG": "C.UTF-8"}


def timed(argv, env, codes=(0,), stdin=None, cwd=None):
    """Seconds of one run: by the clock, and on a processor."""
    with open(stdin or os.devnull, "rb") as source:
        start, used = time.perf_counter(), processor()
        done = subprocess.run(argv, env=env, stdin=source, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=cwd)
        took = (time.perf_counter() - start, processor() - used)
    if done.returncode not in codes:
        sys.exit(f"{argv} ended with {done.returncode}\n{done.stderr.decode()}")
    return took


def processor():
    """Processor seconds of the programs that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def stolen():
    """What all processors did so far, and how much of it was waiting for the machine below."""
    times = [int(number) for number in open("/proc/stat").readline().split()[1:]]
    return sum(times), times[7]


def middle(rows):
    return tuple(statistics.median(column) for column in zip(*rows))


def quickest(rows):
    return tuple(min(column) for column in zip(*rows))


def first_request(program, api):
    """From the start of the program until its request is there, the middle of many."""
    home, cwd = chat.lab("before-after")
    env = surroundings(home) | {"ANTHROPIC_API_KEY": "sk-ant-test-not-a-key", "ANTHROPIC_BASE_URL": api.url(), "IS_SANDBOX": "1"}
    rows = []
    for _ in range(MANY):
        before, began = len(api.came), time.time()
        _, used = timed([program, "chat", "-p", "Say hello."], env, cwd=cwd)
        rows.append((api.came[before] - began, used))
    return middle(rows)


def hook(program, receiver, transcript, home):
    """`hook stop` until it returns, the middle of many. What it leaves to its worker is not waited for in that time."""
    job = home / "job.json"
    job.write_text(json.dumps({"session_id": checking.SESSION, "transcript_path": str(transcript), "hook_event_name": "Stop", "cwd": str(home)}))
    env, rows = surroundings(home), []
    shutil.rmtree(home / ".local", ignore_errors=True)
    timed([program, "ship", str(transcript), "--to", receiver.url], env)
    for _ in range(MANY):
        rows.append(timed([program, "hook", "stop", "--strict", "--to", receiver.url], env, stdin=job))
        quiet(home)
    return middle(rows)


def quiet(home):
    """Until the worker is done: no job is left."""
    jobs = home / ".local" / "state" / "quipu" / "ship"
    for _ in range(1000):
        if not any(path for path in jobs.rglob("jobs/**/*.json")):
            return
        time.sleep(0.01)
    sys.exit("a hook's worker does not end")


def backfill(program, receiver, home, flags):
    shutil.rmtree(PLACE / "state", ignore_errors=True)
    env = surroundings(PLACE / "nobody") | {"CLAUDE_CONFIG_DIR": str(home), "XDG_STATE_HOME": str(PLACE / "state")}
    return timed([program, "ship", "--all", "--to", receiver.url, *flags], env)


def main():
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("--before", "--after", "--receiver"):
        args.add_argument(name, type=lambda text: str(pathlib.Path(text).resolve()), required=True)
    args.add_argument("--rounds", type=int, default=5)
    args.add_argument("--megabytes", type=int, default=300, help="of a home; a session has a third of it")
    args = args.parse_args()
    if not CORPUS.is_dir():
        sys.exit("there is no ../shared/corpus: nothing to measure with")
    chat.PLACE, ship.PLACE = PLACE / "chat", PLACE / "ship"
    for folder in (chat.PLACE, ship.PLACE, PLACE / "nobody", PLACE / "hook"):
        folder.mkdir(parents=True, exist_ok=True)
    checking.HOME = PLACE / "checking"
    session = checking.HOME / "projects" / "-work" / f"{checking.SESSION}.jsonl"
    if not session.exists():
        checking.make(CORPUS, args.megabytes * 1_000_000 // 3)
    home, _, _ = ship.home_of(args.megabytes)
    hooked = PLACE / "hook" / ".claude" / "projects" / "-work" / session.name
    hooked.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(session, hooked)
    ship.age([hooked])
    api, receiver = chat.Api(), ship.Receiver(args.receiver)
    env = surroundings(PLACE / "nobody")
    work = {
        "start → first request": (lambda program: first_request(program, api), 1.05, 1),
        "hook stop": (lambda program: hook(program, receiver, hooked, PLACE / "hook"), 1.05, 1),
        "strip": (lambda program: timed([program, "strip", str(session), "--preset", "extreme", "-o", str(PLACE / "out.jsonl"), "--force"], env), 1.05, SEVERAL),
        "check": (lambda program: timed([program, "check", str(session)], env, codes=(0, 10, 11)), 1.05, SEVERAL),
        "inventory": (lambda program: timed([program, "--home", str(home), "inventory", "--all"], env), 1.05, SEVERAL),
        "ls": (lambda program: timed([program, "--home", str(home), "ls", "--all"], env), 1.05, SEVERAL),
        "turns": (lambda program: timed([program, "turns", str(session)], env), 1.05, SEVERAL),
        "tree": (lambda program: timed([program, "tree", str(session)], env), 1.05, SEVERAL),
        "show": (lambda program: timed([program, "show", str(session)], env), 1.05, SEVERAL),
        "history": (lambda program: timed([program, "history", str(session), "--json"], env), 1.05, SEVERAL),
        "ship": (lambda program: backfill(program, receiver, home, []), 1.05, 1),
        "ship --redact": (lambda program: backfill(program, receiver, home, ["--redact"]), 1.25, 1),
    }
    rows = {name: ([], []) for name in work}
    at_first = stolen()
    for turn in range(args.rounds + 1):
        for name, (measure, _, times) in work.items():
            took = ([], [])
            for again in range(times):
                for which in (0, 1) if (turn + again) % 2 else (1, 0):
                    took[which].append(measure((args.before, args.after)[which]))
            if turn > 0:  # the first round warms the cache
                for which in (0, 1):
                    rows[name][which].append(quickest(took[which]))
    receiver.end()
    (all_time, waited), (all_before, waited_before) = stolen(), at_first
    steal = (waited - waited_before) / (all_time - all_before)
    decides, missed = (1 if steal > 0.1 else 0), False
    print(f"{args.rounds} rounds, {args.megabytes} MB, steal {steal:.0%}: {('the wall clock', 'processor time')[decides]} decides. Milliseconds, the middle of each.\n")
    print("| | wall before | after | ratio | processor before | after | ratio | limit |\n|---|---|---|---|---|---|---|---|")
    for name, (before, after) in rows.items():
        limit = work[name][1]
        pairs = list(zip(middle(before), middle(after)))
        ratios = [new / old for old, new in pairs]
        missed |= ratios[decides] > limit
        cells = [f"{1000 * old:.1f} | {1000 * new:.1f} | {ratio:.3f}" for (old, new), ratio in zip(pairs, ratios)]
        print(f"| {name} | {' | '.join(cells)} | {limit}{' MISSED' if ratios[decides] > limit else ''} |")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
