#!/usr/bin/env python3
"""Secrets: quipu beside agentsview and detect-secrets, and how long redacting a long session takes.

    bench/redact.py [--megabytes 100] [--rounds 5] [--without-agentsview]

Three secrets of every kind that the tests plant (crates/cli/tests/all/redact/kinds.rs), and look-alikes, each in a session of its own: a prompt and a tool
result with it. A program has found a secret if it reports its session, and is wrong if it reports the session of a look-alike. Then one session of many
megabytes, made of genuine ones, with secrets in it: `quipu redact` with its second search, best of the rounds. Everything it makes is under target/bench.
"""
import argparse
import base64
import json
import os
import pathlib
import random
import re
import shutil
import string
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import checking  # noqa: E402
from finding import agentsview_program  # noqa: E402
from reading import ROOT, WORK, best  # noqa: E402

PLACE = WORK / "redact"
QUIPU = pathlib.Path(os.environ.get("QUIPU", ROOT / "target" / "release" / "quipu"))
DETECT = "detect-secrets==1.5.0"
LETTERS = {
    "a": string.ascii_letters + string.digits, "l": string.ascii_letters, "d": "123456789", "h": "0123456789abcdef",
    "u": string.ascii_uppercase + "234567", "o": string.ascii_lowercase + string.digits,
    "w": string.ascii_letters + string.digits + "_-", "b": string.ascii_letters + string.digits + "+/",
}


def chance(kind, count, rng):
    if kind == "p":
        return base64.b64encode(b"bob:" + chance("a", count, rng).encode()).decode()
    return "".join(rng.choice(LETTERS[kind]) for _ in range(count))


def kinds():
    """The kinds that the tests plant."""
    text = (ROOT / "crates" / "cli" / "tests" / "all" / "redact" / "kinds.rs").read_text()
    text = text[text.index("KINDS: &[&str] = &["):text.index("];")]
    return [json.loads(found) for found in re.findall(r'^    ("(?:[^"\\]|\\.)*"),$', text, re.M)]


def made(kind, rng):
    return re.sub(r"\{([a-z])(\d+)\}", lambda found: chance(found[1], int(found[2]), rng), kind)


def look_alikes(rng):
    hexes = [8, 4, 4, 4, 12]
    forms = [
        lambda: f"commit {chance('h', 40, rng)}", lambda: f"{chance('h', 40, rng)} refs/heads/main",
        lambda: "session " + "-".join(chance("h", count, rng) for count in hexes), lambda: f"toolu_01{chance('a', 22, rng)}",
        lambda: f"msg_01{chance('a', 22, rng)} req_011{chance('a', 21, rng)}", lambda: f'"signature": "E{chance("b", 500, rng)}=="',
        lambda: f'"integrity": "sha512-{chance("b", 86, rng)}=="', lambda: f'checksum = "{chance("h", 64, rng)}"',
        lambda: f"github.com/a/b v1.2.3 h1:{chance('b', 43, rng)}=", lambda: f"data:image/png;base64,iVBORw0KGgo{chance('b', 300, rng)}=",
        lambda: f"image@sha256:{chance('h', 64, rng)}",
        lambda: f'resolved "https://registry.yarnpkg.com/js-tokens/-/js-tokens-4.0.0.tgz#{chance("h", 40, rng)}"',
    ]
    return [form() for form in forms for _ in range(25)]


def session(number, text):
    """A session's id, and its lines."""
    name = f"{number:08x}-0000-4000-8000-000000000000"
    record = lambda at: {"uuid": f"{number:08x}-0000-4000-8000-{at:012}", "sessionId": name, "cwd": "/work", "version": "2.1.325", "isSidechain": False,
                         "parentUuid": f"{number:08x}-0000-4000-8000-{at - 1:012}" if at > 1 else None,
                         "timestamp": f"2026-11-01T00:00:{at:02}.000Z", "userType": "external"}
    call = {"type": "tool_use", "id": f"toolu_{number}", "name": "Bash", "input": {"command": "true"}}
    result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": f"it prints\n{text}\nand ends"}
    answer = lambda content: {"role": "assistant", "id": f"msg_{number}", "type": "message", "model": "claude-opus-4-5", "content": content,
                              "usage": {"input_tokens": 1, "output_tokens": 1}}
    return name, [
        record(1) | {"type": "user", "message": {"role": "user", "content": f"look at this:\n{text}\n"}},
        record(2) | {"type": "assistant", "message": answer([call])},
        record(3) | {"type": "user", "message": {"role": "user", "content": [result]}},
        record(4) | {"type": "assistant", "message": answer([{"type": "text", "text": "done"}])},
    ]


def plant():
    rng = random.Random(20)
    shutil.rmtree(PLACE / "user", ignore_errors=True)
    folder = PLACE / "user" / ".claude" / "projects" / "-work"
    folder.mkdir(parents=True)
    planted, innocent = {}, set()
    texts = [(kind, made(kind, rng)) for kind in kinds() for _ in range(3)] + [(None, text) for text in look_alikes(rng)]
    for number, (kind, text) in enumerate(texts, 1):
        name, lines = session(number, text)
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        if kind is None:
            innocent.add(name)
        else:
            planted[name] = kind
    return folder, planted, innocent


def environment():
    user = PLACE / "user"
    return {"PATH": os.environ["PATH"], "HOME": str(user), "CLAUDE_CONFIG_DIR": str(user / ".claude"), "LANG": "C.UTF-8"}


def by_quipu(_):
    done = subprocess.run([str(QUIPU), "secrets", "--all", "--json"], env=environment(), capture_output=True, check=False)
    return {json.loads(line)["session"] for line in done.stdout.splitlines()}


def by_detect_secrets(folder):
    venv = PLACE / "detect-secrets"
    if not (venv / "bin" / "detect-secrets").exists():
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        subprocess.run([str(venv / "bin" / "pip"), "install", "-q", DETECT], check=True)
    done = subprocess.run([str(venv / "bin" / "detect-secrets"), "scan", "--all-files", "--no-verify", str(folder)], capture_output=True, check=True,
                          cwd=folder)
    return {pathlib.Path(name).stem for name in json.loads(done.stdout)["results"]}


def by_agentsview(_):
    program, env = agentsview_program(), environment() | {"AGENTSVIEW_NO_UPDATE_CHECK": "1"}
    try:
        subprocess.run([program, "sync"], env=env, check=True, capture_output=True, timeout=900)
        subprocess.run([program, "secrets", "scan"], env=env, check=True, capture_output=True, timeout=900)
        found, cursor = set(), 0
        while cursor is not None:
            argv = [program, "secrets", "list", "--confidence", "all", "--limit", "500", "--cursor", str(cursor), "--json"]
            page = json.loads(subprocess.run(argv, env=env, check=True, capture_output=True).stdout)
            found.update(one["session_id"] for one in page["findings"] or [])
            cursor = page.get("next_cursor") or None
        return found
    finally:
        subprocess.run([program, "daemon", "stop"], env=env, capture_output=True, check=False)


def speed(megabytes, rounds):
    source = checking.HOME / "projects" / "-work" / f"{checking.SESSION}.jsonl"
    if not source.exists() or abs(source.stat().st_size - megabytes * 1_000_000) > 1_000_000:
        checking.make(ROOT.parent / "shared" / "corpus", megabytes * 1_000_000)
    rng, rows = random.Random(7), []
    secrets = [made(kind, rng) for kind in kinds()]
    home = PLACE / "speed"
    for turn in range(rounds + 1):
        shutil.rmtree(home, ignore_errors=True)
        path = home / "projects" / "-work" / f"{checking.SESSION}.jsonl"
        path.parent.mkdir(parents=True)
        shutil.copyfile(source, path)
        with open(path, "a") as file:
            for number, secret in enumerate(secrets):
                record = {"type": "queue-operation", "operation": "enqueue", "content": f"try {secret}", "sessionId": checking.SESSION,
                          "timestamp": "2026-11-01T00:00:00.000Z"}
                file.write(json.dumps(record) + "\n")
        os.sync()
        peak = PLACE / "peak.txt"
        env = {"PATH": os.environ["PATH"], "HOME": str(home), "CLAUDE_CONFIG_DIR": str(home), "XDG_STATE_HOME": str(home / "state")}
        argv = ["/usr/bin/time", "-f", "%e %U %S %M", "-o", str(peak), str(QUIPU), "redact", checking.SESSION, "--json"]
        done = subprocess.run(argv, env=env, capture_output=True, check=False)
        wall, user, system, memory = map(float, peak.read_text().split()[-4:])
        if done.returncode != 0:
            sys.exit(f"quipu redact ended with {done.returncode}: {done.stderr.decode()[-500:]}")
        if turn > 0:
            rows.append((user + system, wall, memory / 1024))
    shutil.rmtree(home, ignore_errors=True)
    return best(rows)


def main():
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    args.add_argument("--megabytes", type=int, default=100)
    args.add_argument("--rounds", type=int, default=5)
    args.add_argument("--without-agentsview", action="store_true")
    args = args.parse_args()
    if not QUIPU.exists():
        sys.exit("build it first: cargo build --release")
    PLACE.mkdir(parents=True, exist_ok=True)
    folder, planted, innocent = plant()
    programs = {"quipu secrets": by_quipu, DETECT.replace("==", " "): by_detect_secrets}
    if not args.without_agentsview:
        programs["agentsview 0.46.1 secrets scan"] = by_agentsview
    print(f"{len(planted)} secrets of {len(set(planted.values()))} kinds, {len(innocent)} look-alikes\n")
    print("| program | found | missed | false | seconds |\n|---|---|---|---|---|")
    for name, ask in programs.items():
        start = time.monotonic()
        found = ask(folder)
        seconds = time.monotonic() - start
        hits = len(found & planted.keys())
        print(f"| {name} | {hits} | {len(planted) - hits} | {len(found & innocent)} | {seconds:.1f} |", flush=True)
        (PLACE / f"{name.split()[0]}-missed.txt").write_text("\n".join(sorted({planted[one] for one in planted.keys() - found})))
    cpu, wall, memory = speed(args.megabytes, args.rounds)
    print(f"\n`quipu redact` of {args.megabytes} MB: {wall:.2f} s (CPU {cpu:.2f} s), {memory:.0f} MB")


if __name__ == "__main__":
    main()
