#!/usr/bin/env python3
"""Our agent beside the real client, against the same scripted API, in the same run.

From the start of the program to its first request; a whole run of one prompt and one answer; going on with a session of 70 MB: in 100,000 lines, prompts and answers, as ../shared/docs/format-facts.md measured the real
client, and made of genuine records, which are longer and mostly results of tools. Each program has a home of its own. Wall time, CPU time and peak memory, best of the rounds. Needs `./test real` to have installed the clients (target/real/clients) and ../shared.

    bench/chat.py [--rounds N] [--megabytes N]
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"
PLACE = ROOT / "target" / "bench" / "chat"
QUIPU = ROOT / "target" / "release" / "quipu"
SESSION = "11111111-1111-4111-8111-111111111111"

sys.path.insert(0, str(ROOT / "bench"))
import checking  # noqa: E402  (makes the long session)


def programs():
    found = {"quipu chat": [str(QUIPU), "chat"]}
    for folder in sorted((ROOT / "target" / "real" / "clients").iterdir()):
        modules = folder / "node_modules" / "@anthropic-ai"
        binary = modules / "claude-code-linux-x64" / "claude"
        found[f"Claude Code {folder.name}"] = [str(binary)] if binary.is_file() else ["node", str(modules / "claude-code" / "cli.js")]
    return found


class Api(ThreadingHTTPServer):
    """Says hello to everything, at once, and notes when each request with tools came: what it costs to look at a request is nobody's time."""
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.came = []
        self.parts = 0
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Otherwise the body of an answer waits 40 ms until its head has been acknowledged.
    disable_nagle_algorithm = True

    def log_message(self, *args):
        pass

    def do_POST(self):
        came = time.time()
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        if b'"tools":[{' in body:
            self.server.came.append(came)
            if len(body) < 1_000_000:
                asked = json.loads(body)
                self.server.parts = sum(len(json.dumps(asked.get(part) or [], ensure_ascii=False)) for part in ("system", "tools"))
        usage = {"input_tokens": 9, "output_tokens": 3, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
        message = {"id": "msg_bench", "type": "message", "role": "assistant", "model": "claude-sonnet-4-6", "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
        block = {"type": "text", "text": "Hello."}
        if b'"stream":true' in body:
            events = [{"type": "message_start", "message": message},
                      {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
                      {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello."}},
                      {"type": "content_block_stop", "index": 0},
                      {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": usage},
                      {"type": "message_stop"}]
            kind, data = "text/event-stream", "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()
        else:
            kind, data = "application/json", json.dumps(message | {"content": [block], "stop_reason": "end_turn"}).encode()
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.send_header("request-id", "req_bench")
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    do_HEAD = do_GET


def talk(path, lines, size):
    """A long talk: prompts and answers, each on a line."""
    stem = {"isSidechain": False, "userType": "external", "cwd": "/work", "sessionId": SESSION, "version": "2.1.45", "gitBranch": ""}
    parent, words = None, "the quick brown fox jumps over the lazy dog and "
    with open(path, "w") as file:
        for number in range(lines):
            own = str(uuid.UUID(int=number + 1, version=4))
            when = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(1_790_000_000 + number))
            message = {"role": "user", "content": ""}
            if number % 2:
                message = {"id": f"msg_{number:08}", "type": "message", "role": "assistant", "model": "claude-sonnet-4-6", "content": [{"type": "text", "text": ""}],
                           "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 9, "output_tokens": 3}}
            record = {"parentUuid": parent, **stem, "type": message["role"], "message": message, "uuid": own, "timestamp": when}
            room = size // lines - len(json.dumps(record, separators=(",", ":"))) - 1
            text = f"{number}: {words * 20}"[:room]
            message["content"] = [{"type": "text", "text": text}] if number % 2 else text
            file.write(json.dumps(record, separators=(",", ":")) + "\n")
            parent = own


def lab(name):
    home = PLACE / "homes" / name.replace(" ", "-")
    shutil.rmtree(home, ignore_errors=True)
    cwd = home / "work"
    cwd.mkdir(parents=True)
    (cwd / "README.md").write_text("# Demo\n")
    trusted = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
    state = {"hasCompletedOnboarding": True, "projects": {str(cwd): trusted}}
    (home / ".claude").mkdir()
    for path in (home / ".claude.json", home / ".claude" / ".claude.json"):
        path.write_text(json.dumps(state))
    return home, cwd


def run(name, start, api, args, session=None):
    home, cwd = lab(name)
    if session:
        slug = "".join(c if c.isascii() and c.isalnum() else "-" for c in str(cwd))
        project = home / ".claude" / "projects" / slug
        project.mkdir(parents=True)
        shutil.copy(session, project / f"{SESSION}.jsonl")
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "CLAUDE_CONFIG_DIR": str(home / ".claude"), "LANG": "C.UTF-8", "ANTHROPIC_API_KEY": "sk-ant-test-not-a-key",
           "ANTHROPIC_BASE_URL": api.url(), "IS_SANDBOX": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "DISABLE_TELEMETRY": "1"}
    before, peak = len(api.came), PLACE / "peak.txt"
    began = time.time()
    argv = ["/usr/bin/time", "-f", "%e %U %S %M", "-o", str(peak), *start, "-p", "--dangerously-skip-permissions", *args, "Say hello."]
    done = subprocess.run(argv, env=env, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, timeout=300)
    wall = time.time() - began
    if done.returncode != 0 or b"Hello." not in done.stdout:
        sys.exit(f"{name}: {done.returncode}\n{done.stdout.decode()}{done.stderr.decode()}")
    _, user, system, memory = map(float, peak.read_text().split()[-4:])
    first = api.came[before] - began
    return {"parts": api.parts, "first": first, "wall": wall, "cpu": user + system, "mb": memory / 1024}


def main():
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    args.add_argument("--rounds", type=int, default=5)
    args.add_argument("--megabytes", type=int, default=70)
    args = args.parse_args()
    if not SHARED.is_dir():
        sys.exit("there is no ../shared: nothing to measure with")
    PLACE.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cargo", "build", "--release", "-q"], cwd=ROOT, check=True)
    long = PLACE / "long.jsonl"
    if not long.exists() or abs(long.stat().st_size - args.megabytes * 1_000_000) > 1_000_000:
        checking.make(SHARED / "corpus", args.megabytes * 1_000_000)
        shutil.copy(checking.HOME / "projects" / "-work" / f"{SESSION}.jsonl", long)
    lines = PLACE / "lines.jsonl"
    if not lines.exists() or abs(lines.stat().st_size - args.megabytes * 1_000_000) > 1_000_000:
        talk(lines, 100_000, args.megabytes * 1_000_000)
    api, rows = Api(), {}
    for turn in range(args.rounds + 1):
        for name, start in programs().items():
            plain = run(name, start, api, [])
            rows.setdefault(name, {"turn": [], "lines": [], "genuine": []})["turn"].append(plain)
            if turn < 3 or name.startswith("quipu"):
                for kind, session in (("lines", lines), ("genuine", long)):
                    rows[name][kind].append(run(name, start, api, ["--resume", SESSION], session))
    best = lambda name, kind, what: min(row[what] for row in rows[name][kind][1:])
    print("| | start → first request | one turn | memory | resume of 100,000 lines | memory | of genuine records | memory | system prompt and tools |\n|---|---|---|---|---|---|---|---|---|")
    for name in rows:
        cells = [f"{1000 * best(name, 'turn', 'first'):.0f} ms", f"{1000 * best(name, 'turn', 'wall'):.0f} ms", f"{best(name, 'turn', 'mb'):.0f} MB"]
        cells += [cell for kind in ("lines", "genuine") for cell in (f"{best(name, kind, 'wall'):.2f} s", f"{best(name, kind, 'mb'):.0f} MB")]
        cells.append(f"{best(name, 'turn', 'parts'):,} characters")
        print(f"| {name} | {' | '.join(cells)} |")
    ours, newest = "quipu chat", max((name for name in rows if not name.startswith("quipu")), key=lambda name: [int(part) for part in name.split()[-1].split(".")])
    ratio = lambda kind, what: best(newest, kind, what) / best(ours, kind, what)
    goals = [
        (f"the first request leaves after {1000 * best(ours, 'turn', 'first'):.0f} ms", best(ours, "turn", "first") <= 0.06, "at most 60 ms"),
        (f"that is {ratio('turn', 'first'):.1f} times faster than {newest}", ratio("turn", "first") >= 8, "at least 8"),
        (f"one turn takes {ratio('turn', 'wall'):.1f} times less wall time", ratio("turn", "wall") >= 8, "at least 8"),
        (f"and {ratio('turn', 'mb'):.1f} times less memory", ratio("turn", "mb") >= 8, "at least 8"),
        (f"a resume of 100,000 lines is {ratio('lines', 'wall'):.1f} times faster", ratio("lines", "wall") >= 20, "at least 20"),
        (f"one of genuine records {ratio('genuine', 'wall'):.1f} times", ratio("genuine", "wall") >= 20, "at least 20"),
        (f"with {max(best(ours, kind, 'mb') for kind in ('lines', 'genuine')):.0f} MB at most", max(best(ours, kind, "mb") for kind in ("lines", "genuine")) < 150, "less than 150 MB"),
    ]
    print()
    for text, met, goal in goals:
        print(f"{text} (goal: {goal}){'' if met else ': MISSED'}")
    sys.exit(0 if all(met for _, met, _ in goals) else 1)


if __name__ == "__main__":
    main()
