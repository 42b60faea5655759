#!/usr/bin/env python3
"""Shipping: what the hook costs the client, beside a bare start of Node and Python, and a backfill of everything.

    bench/ship.py [--rounds 10] [--megabytes 100] [--size 1000] [--peers] [--bin DIR]

The hook: one session of 100 MB made of genuine records, shipped before. Each round a turn is appended and `quipu hook stop` is run as the client runs it: wall time until it returns and the memory
of what returned, then how long until the turn is at the receiver. The backfill: `quipu ship --all` over a tenth of `--size` and over all of it, in MB of transcripts; the longest session is the same
in both, so memory must be too. All is sent to testkit's receiver on loopback, which shares the machine and only counts. `--peers` adds claude-code-langfuse-hook from PyPI (cc-langfuse, the tool of
seed 002, is in no registry). `--bin` names a folder with `quipu` and `examples/receiver`; without it they are built. Everything it makes is under target/bench, peers under target/real/peers.
Every program has a home of its own and nothing else of the environment. Exit 1 if a goal is missed.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import checking  # noqa: E402
from make_corpus import renumber  # noqa: E402
from reading import ROOT, WORK  # noqa: E402

CORPUS = ROOT.parent / "shared" / "corpus"
PLACE = WORK / "ship"
VENV = ROOT / "target" / "real" / "peers" / "langfuse-hook"
PEER = "claude-code-langfuse-hook==0.1.2"
SESSION = checking.SESSION
# MB of the longest sessions of a backfill, and how often it is run.
LONG, BACKFILLS = 30, 2
# A turn, two answers and a call.
SPANS = 4


class Receiver:
    """Testkit's: says its address first, and what came at its end."""

    def __init__(self, program):
        self.child = subprocess.Popen([str(program), "--count"], env={}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url = self.child.stdout.readline().strip()

    def end(self):
        told, _ = self.child.communicate()
        return json.loads(told)


def surroundings(home, claude):
    return {"PATH": os.environ["PATH"], "HOME": str(home), "CLAUDE_CONFIG_DIR": str(claude), "LANG": "C.UTF-8"}


def run(argv, env, stdin=os.devnull):
    """One run: wall seconds, CPU seconds, peak memory in MB, what it said."""
    # Memory is GNU time's word: a child of this script would be charged with the script's own.
    peak = PLACE / "peak.txt"
    peak.unlink(missing_ok=True)  # a file that is emptied is flushed, which takes longer than the hook
    argv = ["/usr/bin/time", "-f", "%U %S %M", "-o", str(peak), *argv]
    with open(stdin, "rb") as source, open(PLACE / "out.txt", "wb") as out, open(PLACE / "err.txt", "wb") as err:
        start = time.perf_counter()
        code = subprocess.Popen(argv, env=env, stdin=source, stdout=out, stderr=err).wait()
        wall = time.perf_counter() - start
    said, noted = (PLACE / "out.txt").read_text(), (PLACE / "err.txt").read_text()
    if code != 0:
        sys.exit(f"{argv} ended with {code}\n{said}{noted}")
    if noted:
        print(f"{pathlib.Path(argv[5]).name}: {noted.strip()}", file=sys.stderr)
    user, system, memory = map(float, peak.read_text().split()[-3:])
    return wall, user + system, memory / 1024, said


def turn(number, parent):
    """A turn as the client writes it, up to the moment when it runs the hook."""
    stem = {"isSidechain": False, "userType": "external", "cwd": "/work", "sessionId": SESSION, "version": "2.1.45", "gitBranch": "main"}
    usage = {"input_tokens": 9, "cache_creation_input_tokens": 200, "cache_read_input_tokens": 40_000, "output_tokens": 50}
    call = f"toolu_bench{number:08}"
    answer = lambda part, block, stop: {"id": f"msg_bench{number:08}{part}", "type": "message", "role": "assistant", "model": "claude-sonnet-4-6", "content": [block],
                                        "stop_reason": stop, "stop_sequence": None, "usage": usage}
    messages = [
        {"role": "user", "content": f"And the file number {number}?"},
        answer("a", {"type": "tool_use", "id": call, "name": "Read", "input": {"file_path": f"/home/dev/demo/{number}.txt"}}, "tool_use"),
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call, "content": f"     1\t{'knot ' * 200}"}]},
        answer("b", {"type": "text", "text": "It has two hundred knots in one line."}, "end_turn"),
    ]
    now, lines = time.time() - len(messages), []
    for place, message in enumerate(messages):
        own = str(uuid.uuid4())
        when = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(now + place))
        lines.append({"parentUuid": parent, **stem, "type": message["role"], "message": message, "uuid": own, "timestamp": when})
        parent = own
    return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines), parent


def last_of(transcript):
    """The record that the next one hangs on."""
    with open(transcript, "rb") as file:
        file.seek(-min(transcript.stat().st_size, 1_000_000), os.SEEK_END)
        lines = file.read().splitlines()[1:]
    return next(entry["uuid"] for entry in map(json.loads, reversed(lines)) if "uuid" in entry)


def age(paths):
    """Nobody writes to them any more: their last turns are finished."""
    then = time.time() - 86_400
    for path in paths:
        os.utime(path, (then, then))


def long_session(megabytes):
    made = PLACE / f"long-{megabytes}.jsonl"
    if not made.exists():
        with open(made.with_suffix(".part"), "wb") as file:
            file.writelines(line for _, line in checking.records(CORPUS, megabytes * 1_000_000))
        made.with_suffix(".part").rename(made)
    return made


def peer():
    """Another hook, installed."""
    program = VENV / "bin" / "claude-langfuse"
    if not program.exists():
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
        subprocess.run([str(VENV / "bin" / "pip"), "install", "-q", "--disable-pip-version-check", PEER], check=True)
    return program


def hook(quipu, receiver_program, megabytes, rounds, with_peers):
    home = PLACE / "hook"
    shutil.rmtree(home, ignore_errors=True)
    transcript = home / ".claude" / "projects" / "-work" / f"{SESSION}.jsonl"
    transcript.parent.mkdir(parents=True)
    shutil.copy(long_session(megabytes), transcript)
    parent = last_of(transcript)
    age([transcript])
    told = home / "told.json"
    told.write_text(json.dumps({"session_id": SESSION, "transcript_path": str(transcript), "hook_event_name": "Stop", "cwd": str(home), "stop_hook_active": False}))
    env = surroundings(home, home / ".claude")
    receiver = Receiver(receiver_program)
    first = run([str(quipu), "ship", str(transcript), "--to", receiver.url, "--json"], env)
    sent = json.loads(first[3])["spans"]
    memory = home / ".local" / "state" / "quipu" / "ship"
    [state] = memory.glob(f"*/sessions/{SESSION}.json")
    log, done = memory / "log", lambda: len(json.loads(state.read_text())["value"]["done"])
    programs = {"quipu hook stop": ([str(quipu), "hook", "stop", "--strict", "--to", receiver.url], env, told),
                "node -e 0": (["node", "-e", "0"], env, os.devnull),
                "python3 -c 0": ([os.path.realpath(sys.executable), "-c", "0"], env, os.devnull),
                "true (measuring itself)": (["true"], env, os.devnull)}
    theirs = None
    if with_peers:
        other, theirs = PLACE / "peer", Receiver(receiver_program)
        shutil.rmtree(other, ignore_errors=True)
        other.mkdir()
        keys = {"CC_TRACE_TO_LANGFUSE": "true", "CC_PROJECT_NAME": "bench", "CC_LANGFUSE_BASE_URL": theirs.url.removesuffix("/v1/traces"),
                "CC_LANGFUSE_PUBLIC_KEY": "pk-lf-not-a-key", "CC_LANGFUSE_SECRET_KEY": "sk-lf-not-a-key"}
        programs[PEER] = ([str(peer()), "hook"], surroundings(other, other / ".claude") | keys, told)
        run(*programs[PEER])  # what was there before
    rows, arrived, wrong = {name: [] for name in programs}, [], []
    for number in range(rounds + 1):
        text, parent = turn(number, parent)
        with open(transcript, "a") as file:
            file.write(text)
        before, seen = done(), log.stat().st_size if log.exists() else 0
        for name, (argv, around, stdin) in programs.items():
            start = time.perf_counter()
            measured = run(argv, around, stdin)
            if number > 0:  # the first round warms the cache
                rows[name].append(measured)
            if not name.startswith("quipu"):
                continue
            while not log.exists() or log.stat().st_size == seen:
                if time.perf_counter() - start > 60:
                    sys.exit("the turn does not arrive")
                time.sleep(0.002)
            arrived.append(time.perf_counter() - start)
            line = log.read_text()[seen:].strip()
            if done() != before + 1 or not line.endswith(f"sent {SPANS} spans"):
                wrong.append(f"round {number}: {done() - before} units more; {line}")
    count = receiver.end()
    expected = sent + SPANS * (rounds + 1)
    if not count["spans"] == count["distinct"] == expected:
        wrong.append(f"the receiver has {count['spans']} spans, {count['distinct']} distinct, and should have {expected}")
    if theirs:
        print(f"{PEER}: its receiver has {theirs.end()['distinct']} spans, ours {count['distinct']}")
    return first, rows, arrived, wrong, count


def home_of(megabytes):
    """Copies of genuine sessions, a few kB to a few MB, and long ones made of their records."""
    home = PLACE / f"home-{megabytes}"
    long = max(1, megabytes * 4 // 10 // LONG)
    subprocess.run([sys.executable, str(ROOT / "bench" / "make_corpus.py"), str(CORPUS), str(home), "--megabytes", str(max(1, megabytes - long * LONG))], check=True)
    folder = home / "projects" / "-bench-long"
    if not folder.exists():
        part = home / "part"
        part.mkdir(exist_ok=True)
        data = long_session(LONG).read_bytes()
        for copy in range(1, long + 1):
            (part / f"{renumber(SESSION.encode(), copy).decode()}.jsonl").write_bytes(renumber(data, copy))
        part.rename(folder)
    files = sorted(home.rglob("*.jsonl"))
    age(files)
    return home, len(files), sum(path.stat().st_size for path in files)


def backfill(quipu, receiver_program, megabytes):
    claude, files, size = home_of(megabytes)
    rows, wrong = [], []
    for _ in range(BACKFILLS):
        home = PLACE / "backfill"
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir()
        env, receiver = surroundings(home, claude), Receiver(receiver_program)
        argv = [str(quipu), "ship", "--all", "--to", receiver.url, "--json"]
        row, again = run(argv, env), run(argv, env)
        told, later, count = json.loads(row[3]), json.loads(again[3]), receiver.end()
        if not count["spans"] == count["distinct"] == told["spans"] or later["spans"]:
            wrong.append(f"{megabytes} MB: sent {told['spans']} spans and {later['spans']} more; the receiver has {count['spans']}, {count['distinct']} distinct")
        wrong += [f"{megabytes} MB: {told[what]} {what}" for what in ("unfinished", "spooled", "refused", "unreadable") if told[what]]
        rows.append((row, again))
    best = lambda which: min(pair[which][0] for pair in rows)
    return {"files": files, "size": size, "wall": best(0), "cpu": min(row[1] for row, _ in rows), "mb": max(row[2] for row, _ in rows), "again": best(1),
            "again_mb": max(again[2] for _, again in rows), "speed": size / 1e6 / best(0), "told": told, "count": count, "wrong": wrong}


def main():
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    args.add_argument("--rounds", type=int, default=10)
    args.add_argument("--megabytes", type=int, default=100, help="the session of the hook")
    args.add_argument("--size", type=int, default=1000, help="MB of the backfill")
    args.add_argument("--peers", action="store_true", help="also another hook, from PyPI")
    args.add_argument("--bin", type=pathlib.Path, help="a folder with what was built before")
    args = args.parse_args()
    if not CORPUS.is_dir():
        sys.exit("there is no ../shared/corpus: nothing to measure with")
    if not os.path.exists("/usr/bin/time"):
        sys.exit("needs GNU time (Debian: apt-get install time)")
    PLACE.mkdir(parents=True, exist_ok=True)
    if not args.bin:
        subprocess.run(["cargo", "build", "--release", "-q"], cwd=ROOT, check=True)
        subprocess.run(["cargo", "build", "--release", "-q", "-p", "testkit", "--example", "receiver"], cwd=ROOT, check=True)
    folder = (args.bin or ROOT / "target" / "release").resolve()
    programs = folder / "quipu", folder / "examples" / "receiver"

    first, rows, arrived, wrong, count = hook(*programs, args.megabytes, args.rounds, args.peers)
    best = lambda name: 1000 * min(row[0] for row in rows[name])
    median = lambda name: 1000 * statistics.median(row[0] for row in rows[name])
    memory = lambda name: max(row[2] for row in rows[name])
    print(f"one turn more in a session of {args.megabytes} MB, {args.rounds} rounds\n\n| | best | median | peak memory |\n|---|---|---|---|")
    for name in rows:
        print(f"| {name} | {best(name):.1f} ms | {median(name):.1f} ms | {memory(name):.0f} MB |")
    print(f"\nthe turn is at the receiver after {min(arrived):.2f} s, median {statistics.median(arrived):.2f} s, at most {max(arrived):.2f} s")
    print(f"the whole session was shipped before in {first[0]:.2f} s with {first[2]:.0f} MB; {count['spans']} spans in all, {count['distinct']} distinct\n", flush=True)

    small, large = (backfill(*programs, size) for size in (args.size // 10, args.size))
    print("| quipu ship --all | files | wall | CPU | transcript | peak memory | sent | once more |\n|---|---|---|---|---|---|---|---|")
    for row in (small, large):
        told = row["told"]
        print(f"| {row['size'] / 1e6:.0f} MB | {row['files']} | {row['wall']:.2f} s | {row['cpu']:.2f} s | {row['speed']:.0f} MB/s | {row['mb']:.0f} MB | {told['spans']} spans of {told['turns']} turns "
              f"and {told['runs']} runs, {row['count']['wire'] / 1e6:.0f} MB packed | {1000 * row['again']:.0f} ms, {row['again_mb']:.0f} MB |")
    wrong += small["wrong"] + large["wrong"]
    ours, node = "quipu hook stop", "node -e 0"
    more = large["size"] / small["size"]
    ratios = [f"{best(name) / best(ours):.1f} times faster than {name}" for name in rows if name != ours and not name.startswith("true")]
    print(f"\nthe hook is {', '.join(ratios)}, with {memory(node) / memory(ours):.1f} times less memory than Node; {more:.1f} times the sessions take {large['mb'] / small['mb']:.2f} times the memory\n")
    goals = [
        (f"the hook returns after {best(ours):.1f} ms", best(ours) <= 15, "at most 15 ms"),
        (f"with {memory(ours):.0f} MB", memory(ours) <= 20, "at most 20 MB"),
        (f"that is {best(node) / best(ours):.1f} times faster than a bare start of Node", best(ours) < best(node), "faster"),
        (f"a backfill does {large['speed']:.0f} MB/s", large["speed"] >= 50, "at least 50 MB/s"),
        (f"its memory grows {large['mb'] / small['mb']:.2f} times when there is {more:.1f} times as much", large["mb"] <= 1.25 * small["mb"], "at most 1.25 times"),
        (f"{len(wrong)} counts are wrong", not wrong, "none"),
    ]
    for text in wrong:
        print(text)
    for text, met, goal in goals:
        print(f"{text} (goal: {goal}){'' if met else ': MISSED'}")
    sys.exit(0 if all(met for _, met, _ in goals) else 1)


if __name__ == "__main__":
    main()
