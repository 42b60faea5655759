#!/usr/bin/env python3
"""What images cost, beside `git stash create` on the same tree; and a turn with a command, beside the real client.

A repository of 20,000 files and 200 MB with an ignored folder of 50,000 more. The first image, and the one before and the one after a command when nothing has changed: measured by the example `cost` of the crate (`cargo build --release -p snapshot --example cost`), in one process as an agent does it. Peak memory, and the size of the store beside the tree under zstd. With `--turns N`: one prompt, one Bash call, one answer, from the start of the program to its end, with sandbox and images on, beside the clients that `./test real` has installed, against the same scripted API.

    bench/snapshot.py [--files N] [--megabytes N] [--rounds N] [--turns N] [--quipu PATH]
"""
import argparse
import json
import os
import pathlib
import random
import resource
import shutil
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

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


def walk(folder, ignored):
    """A bare walk: names and metadata."""
    count = 0
    for entry in os.scandir(folder):
        count += 1
        entry.stat(follow_symlinks=False)
        if entry.is_dir(follow_symlinks=False) and entry.name not in ignored:
            count += walk(entry.path, ignored)
    return count


def best(times):
    times = sorted(times)
    return f"best {times[0] * 1000:.0f} ms, median {times[len(times) // 2] * 1000:.0f} ms"


def timed(rounds, act):
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        act()
        times.append(time.perf_counter() - begin)
    return times


def cpu(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


class Api(BaseHTTPRequestHandler):
    """Wants one command, and then answers."""
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
        usage = {"input_tokens": 9, "output_tokens": 3, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
        message = {"id": "msg_bench", "type": "message", "role": "assistant", "model": "claude-sonnet-4-6", "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
        is_done = "tool_result" in json.dumps(body.get("messages", [])[-1:]) or not body.get("tools")
        if is_done:
            start, delta, stop = {"type": "text", "text": ""}, {"type": "text_delta", "text": "Done."}, "end_turn"
        else:
            start = {"type": "tool_use", "id": f"toolu_{time.time_ns()}", "name": "Bash", "input": {}}
            delta, stop = {"type": "input_json_delta", "partial_json": json.dumps({"command": "wc -l pkg0/mod0/file0.txt", "description": "Count lines"})}, "tool_use"
        events = [{"type": "message_start", "message": message},
                  {"type": "content_block_start", "index": 0, "content_block": start},
                  {"type": "content_block_delta", "index": 0, "delta": delta},
                  {"type": "content_block_stop", "index": 0},
                  {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage},
                  {"type": "message_stop"}]
        if body.get("stream"):
            kind, data = "text/event-stream", "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()
        else:
            kind, data = "application/json", json.dumps(message | {"content": [{"type": "text", "text": "Done."}], "stop_reason": "end_turn"}).encode()
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def turns(tree, rounds, quipu):
    programs = {"quipu chat": [quipu, "chat"], "quipu chat --no-snapshots": [quipu, "chat", "--no-snapshots"]}
    clients = ROOT / "target" / "real" / "clients"
    for folder in sorted(clients.iterdir()) if clients.exists() else []:
        modules = folder / "node_modules" / "@anthropic-ai"
        binary = modules / "claude-code-linux-x64" / "claude"
        programs[f"Claude Code {folder.name}"] = [str(binary)] if binary.is_file() else ["node", str(modules / "claude-code" / "cli.js")]
    server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    times = {name: [] for name in programs}
    for number in range(rounds + 1):
        # One after the other, so that a slow minute is everybody's.
        for name, start in programs.items():
            home = PLACE / "homes" / name.replace(" ", "-")
            if number == 0:
                shutil.rmtree(home, ignore_errors=True)
                (home / ".claude").mkdir(parents=True)
                state = {"hasCompletedOnboarding": True, "projects": {str(tree): {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}}}
                for path in [home / ".claude.json", home / ".claude" / ".claude.json"]:
                    path.write_text(json.dumps(state))
            env = {"HOME": str(home), "PATH": "/usr/local/bin:/usr/bin:/bin", "CLAUDE_CONFIG_DIR": str(home / ".claude"), "ANTHROPIC_API_KEY": "sk-ant-test-not-a-key",
                   "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{server.server_address[1]}", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "DISABLE_TELEMETRY": "1", "IS_SANDBOX": "1", "LANG": "C.UTF-8"}
            begin = time.perf_counter()
            done = subprocess.run([*start, "-p", "Count the lines.", "--dangerously-skip-permissions"], cwd=tree, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL)
            taken = time.perf_counter() - begin
            assert done.returncode == 0 and "Done." in done.stdout, (name, done)
            # The first run of each makes what later ones find.
            if number:
                times[name].append(taken)
            else:
                print(f"{name}: first turn {taken * 1000:.0f} ms")
    for name, taken in times.items():
        print(f"{name}: a turn with a command, {best(taken)}")


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--files", type=int, default=20_000)
    args.add_argument("--megabytes", type=int, default=200)
    args.add_argument("--rounds", type=int, default=10)
    args.add_argument("--turns", type=int, default=0)
    args.add_argument("--quipu", default=str(ROOT / "target" / "release" / "quipu"))
    args = args.parse_args()
    random.seed(1)
    tree, store = PLACE / "tree", PLACE / "state" / "snapshots"
    if not tree.exists():
        tree.mkdir(parents=True)
        make(tree, args.files, args.megabytes, 50_000)
        time.sleep(1)
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    walk(tree, ["node_modules"])
    print("bare walk (Python): " + best(timed(args.rounds, lambda: walk(tree, ["node_modules"]))))
    if COST.exists():
        shutil.rmtree(PLACE / "state", ignore_errors=True)
        done = subprocess.run([str(COST), str(store), str(tree), str(args.rounds)], capture_output=True, text=True, check=True)
        print(done.stdout.strip())
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(f"peak memory {used.ru_maxrss / 1024:.0f} MB")
        # What another program does at the same time counts in wall time, and not here.
        few, many = (cpu([str(COST), str(store), str(tree), str(rounds)]) for rounds in (5, 55))
        print(f"CPU time of one image without changes, on all cores together: {(many - few) * 1000 / 50:.0f} ms")
        sizes = [path.stat().st_size for name in ["packs", "marks", "sessions"] for path in (store / name).rglob("*") if path.is_file()]
        tar = subprocess.run("tar c --exclude=.git --exclude=node_modules . | zstd -3 -c | wc -c", shell=True, cwd=tree, capture_output=True, text=True)
        whole = int(tar.stdout or 0)
        print(f"store {sum(sizes) / 1e6:.1f} MB; tar | zstd -3: {whole / 1e6:.1f} MB; {100 * sum(sizes) / max(whole, 1) - 100:+.1f} %")
    print("git stash create: " + best(timed(args.rounds, lambda: subprocess.run(["git", "stash", "create"], cwd=tree, check=True))))
    if args.turns:
        turns(tree, args.turns, args.quipu)


if __name__ == "__main__":
    main()
