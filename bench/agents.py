#!/usr/bin/env python3
"""Sub-agents, long sessions and summaries, beside the real client, against the same scripted API, in the same run.

Eight sub-agents in parallel with ten calls each, beside one alone, the API taking 300 ms for each answer: wall time and peak memory. A thousand turns in one session: peak memory. The summary of a session of 200,000 tokens: the time from `/compact` to its result, without the time that the API took. Each program has a home of its own. Needs `./test real` to have installed the clients (target/real/clients).

    bench/agents.py [--turns N] [--only PROGRAM]
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
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ROOT = pathlib.Path(__file__).resolve().parent.parent
PLACE = ROOT / "target" / "bench" / "agents"
SESSION = "11111111-1111-4111-8111-111111111111"
DELAY = 0.3
CALLS = 10
# Texts of this size each, so that a session has 200,000 tokens at four bytes for one.
TURNS, SIZE = 100, 8_000
STREAM = ["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]

sys.path.insert(0, str(ROOT / "bench"))
from chat import programs  # noqa: E402


class Api(ThreadingHTTPServer):
    """Answers by what is asked; `busy` has when each request came and was answered."""
    daemon_threads = True

    def __init__(self, agents=0, delay=0.0):
        super().__init__(("127.0.0.1", 0), Handler)
        self.agents, self.delay, self.busy, self.number = agents, delay, [], 0
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    def blocks(self, body):
        self.number += 1
        said = lambda words: [{"type": "text", "text": words}]
        call = lambda name, given: {"type": "tool_use", "id": f"toolu_{self.number:08}_{len(json.dumps(given))}", "name": name, "input": given}
        messages = json.dumps(body["messages"])
        last = json.dumps(body["messages"][-3:])
        tools = [tool["name"] for tool in body.get("tools", [])]
        if "about to be replaced by a summary" in last or "detailed summary" in last:
            return said("<summary>So far, so good.</summary>")
        if "LAB-HELPER" in messages and "LAB-START" not in messages:
            done = messages.count('"tool_result"')
            return [call("Bash", {"command": f"echo {done}", "description": "Say it"})] if done < CALLS else said("Done.")
        if "LAB-START" in messages and '"tool_result"' not in messages:
            name = "Task" if "Task" in tools else "Agent"
            wanted = [{"description": f"Helper {n}", "prompt": f"LAB-HELPER {n}", "subagent_type": "general-purpose", "run_in_background": False} for n in range(self.agents)]
            return [dict(call(name, given), id=f"toolu_helper{n}") for n, given in enumerate(wanted)]
        return said("x" * SIZE if "LAB-LONG" in last else "Fine.")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *args):
        pass

    def do_POST(self):
        came = time.time()
        body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)))
        if "count_tokens" in self.path:
            return self.send(b'{"input_tokens":100}', "application/json")
        blocks = self.server.blocks(body) if body.get("tools") else [{"type": "text", "text": "Hello."}]
        time.sleep(self.server.delay)
        usage = {"input_tokens": 9, "output_tokens": 3, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
        stop = "tool_use" if any(block["type"] == "tool_use" for block in blocks) else "end_turn"
        message = {"id": f"msg_{self.server.number:08}_{id(self) % 100_000}", "type": "message", "role": "assistant", "model": body["model"], "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
        if body.get("stream"):
            events = [{"type": "message_start", "message": message}]
            for at, block in enumerate(blocks):
                if block["type"] == "text":
                    start, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": block["text"]}
                else:
                    start, delta = dict(block, input={}), {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
                events += [{"type": "content_block_start", "index": at, "content_block": start}, {"type": "content_block_delta", "index": at, "delta": delta}, {"type": "content_block_stop", "index": at}]
            events += [{"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage}, {"type": "message_stop"}]
            self.send("".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode(), "text/event-stream")
        else:
            self.send(json.dumps(dict(message, content=blocks, stop_reason=stop)).encode(), "application/json")
        self.server.busy.append((came, time.time()))

    def send(self, data, kind):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def lab(name):
    home = PLACE / "".join(c if c.isalnum() else "-" for c in name)
    shutil.rmtree(home, ignore_errors=True)
    cwd = home / "work"
    cwd.mkdir(parents=True)
    (home / ".claude").mkdir()
    projects = {str(cwd): {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}}
    for place in [home / ".claude.json", home / ".claude" / ".claude.json"]:
        place.write_text(json.dumps({"hasCompletedOnboarding": True, "projects": projects}))
    return home, cwd


def start(program, api, home, cwd, args, **more):
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(home), "CLAUDE_CONFIG_DIR": str(home / ".claude"), "ANTHROPIC_API_KEY": "sk-ant-test-not-a-key", "ANTHROPIC_BASE_URL": api.url(), "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "IS_SANDBOX": "1", "LANG": "C.UTF-8"}
    return subprocess.Popen([*program, "-p", "--dangerously-skip-permissions", *args], cwd=cwd, env=env, stderr=subprocess.DEVNULL, **more)


def ended(process):
    """Waits. The peak memory of the program, or of the largest that it started, in MB."""
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, f"it ended with {status}"
    return usage.ru_maxrss / 1024


def helpers(name, program, agents):
    home, cwd = lab(f"{name} {agents}")
    api = Api(agents, DELAY)
    began = time.time()
    memory = ended(start(program, api, home, cwd, ["LAB-START"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL))
    taken = time.time() - began
    assert api.number == 2 + agents * (CALLS + 1), f"{api.number} requests"
    return taken, memory


class Talk:
    def __init__(self, program, api, home, cwd, *args):
        self.process = start(program, api, home, cwd, [*STREAM, "--session-id", SESSION, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def say(self, words):
        line = {"type": "user", "message": {"role": "user", "content": words}, "parent_tool_use_id": None, "session_id": ""}
        self.process.stdin.write(json.dumps(line) + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            event = json.loads(line)
            if event["type"] == "result":
                return event
        raise RuntimeError("it ended")

    def end(self):
        self.process.stdin.close()
        threading.Thread(target=self.process.stdout.read, daemon=True).start()
        return ended(self.process)


def thousand(name, program, turns):
    talk = Talk(program, Api(), *lab(f"{name} turns"))
    for number in range(turns):
        talk.say(f"Prompt {number}, with a few words.")
    return talk.end()


def summary(name, program):
    api = Api()
    talk = Talk(program, api, *lab(f"{name} summary"))
    for _ in range(TURNS):
        talk.say("LAB-LONG please.")
    api.busy.clear()
    began = time.time()
    result = talk.say("/compact")
    taken = time.time() - began
    talk.end()
    assert not result["is_error"], result
    return taken - sum(last - first for first, last in api.busy)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=1_000)
    parser.add_argument("--only")
    args = parser.parse_args()
    for name, program in programs().items():
        if args.only and args.only not in name:
            continue
        one, _ = helpers(name, program, 1)
        eight, memory = helpers(name, program, 8)
        print(f"{name}: one sub-agent {one:.2f} s, eight {eight:.2f} s ({eight / one:.2f} times), {memory:.0f} MB", flush=True)
        print(f"{name}: {args.turns} turns, {thousand(name, program, args.turns):.0f} MB", flush=True)
        print(f"{name}: a summary of 200,000 tokens, own share {summary(name, program) * 1000:.0f} ms", flush=True)


if __name__ == "__main__":
    main()
