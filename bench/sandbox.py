#!/usr/bin/env python3
"""What the sandbox costs: our agent with and without it, and beside the real client, against the same scripted API.

From the start of the program to its first request, a turn without a command, a turn with one (`true`), each with the sandbox on and off, in turn and in the same run; the newest real client for the turn without a command. Best and median of the rounds. The goals: at most 30 ms to the first request, a command costs at most 10 ms more in the sandbox, a turn is at least 20 times faster than the client's.

    bench/sandbox.py [--rounds N] [--program PATH]
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import chat  # noqa: E402  (the API, the laboratory and the clients)


class Handler(chat.Handler):
    """Has a command run first, if the prompt asks for it."""

    def do_POST(self):
        came = time.time()
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        if b'"tools":[{' in body:
            self.server.came.append(came)
        usage = {"input_tokens": 9, "output_tokens": 3, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
        message = {"id": "msg_bench", "type": "message", "role": "assistant", "model": "claude-sonnet-4-6", "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
        block, delta, stop = {"type": "text", "text": ""}, {"type": "text_delta", "text": "Hello."}, "end_turn"
        if b"Run it." in body and b"tool_result" not in body:
            block, stop = {"type": "tool_use", "id": f"toolu_{time.time_ns()}", "name": "Bash", "input": {}}, "tool_use"
            delta = {"type": "input_json_delta", "partial_json": json.dumps({"command": "true"})}
        events = [{"type": "message_start", "message": message}, {"type": "content_block_start", "index": 0, "content_block": block}, {"type": "content_block_delta", "index": 0, "delta": delta},
                  {"type": "content_block_stop", "index": 0}, {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage}, {"type": "message_stop"}]
        data = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def run(name, start, api, prompt):
    home, cwd = chat.lab(name)
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "CLAUDE_CONFIG_DIR": str(home / ".claude"), "LANG": "C.UTF-8", "ANTHROPIC_API_KEY": "sk-ant-test-not-a-key",
           "ANTHROPIC_BASE_URL": api.url(), "IS_SANDBOX": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "DISABLE_TELEMETRY": "1"}
    before, began = len(api.came), time.time()
    done = subprocess.run([*start, "-p", "--dangerously-skip-permissions", prompt], env=env, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, timeout=300)
    wall = time.time() - began
    if done.returncode != 0 or b"Hello." not in done.stdout:
        sys.exit(f"{name}: {done.returncode}\n{done.stdout.decode()}{done.stderr.decode()}")
    return {"first": 1000 * (api.came[before] - began), "wall": 1000 * wall}


def main():
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    args.add_argument("--rounds", type=int, default=20)
    args.add_argument("--program", default=str(chat.QUIPU))
    args = args.parse_args()
    chat.PLACE.mkdir(parents=True, exist_ok=True)
    api = chat.Api()
    api.RequestHandlerClass = Handler
    ours = [args.program, "chat"]
    rows = {}
    clients = [(name, start) for name, start in chat.programs().items() if not name.startswith("quipu")]
    newest = max(clients, key=lambda one: [int(part) for part in one[0].split()[-1].split(".")], default=None)
    for turn in range(args.rounds + 1):
        for sandbox in ("off", "on"):
            for what, prompt in (("turn", "Say hello."), ("command", "Run it.")):
                rows.setdefault((what, sandbox), []).append(run("quipu", [*ours, "--sandbox", sandbox], api, prompt))
        if newest and turn < 5:
            rows.setdefault(("turn", newest[0]), []).append(run(newest[0], newest[1], api, "Say hello."))
    best = lambda key, what: min(row[what] for row in rows[key][1:])
    middle = lambda key, what: sorted(row[what] for row in rows[key][1:])[len(rows[key][1:]) // 2]
    print("| | start → first request | median | whole run | median |\n|---|---|---|---|---|")
    for key in rows:
        print(f"| {key[0]}, {key[1]} | {best(key, 'first'):.1f} ms | {middle(key, 'first'):.1f} ms | {best(key, 'wall'):.1f} ms | {middle(key, 'wall'):.1f} ms |")
    first = best(("turn", "on"), "first")
    more = best(("command", "on"), "wall") - best(("command", "off"), "wall")
    goals = [(f"the first request leaves after {first:.1f} ms with the sandbox on", first <= 30, "at most 30 ms"),
             (f"a turn with a command costs {more:.1f} ms more with the sandbox on", more <= 10, "at most 10 ms")]
    if newest:
        ratio = best(("turn", newest[0]), "wall") / best(("turn", "on"), "wall")
        goals.append((f"a turn is {ratio:.1f} times faster than that of {newest[0]}", ratio >= 20, "at least 20"))
    print()
    for text, met, goal in goals:
        print(f"{text} (goal: {goal}){'' if met else ': MISSED'}")
    sys.exit(0 if all(met for _, met, _ in goals) else 1)


if __name__ == "__main__":
    main()
