#!/usr/bin/env python3
"""The console on a bare pty: start, echo under load, wake-ups, memory.

    bench/console.py --program 'target/release/quipu chat' [--turns 1000] [--idle 60]

Runs the program against a scripted Messages API on loopback, in a home and a folder of their own.
Prints one line for each number: start to the ready prompt (median of ten), from a key's byte written
to its echo read (95th percentile of 500 keys, while 200 tokens a second arrive and while a command
writes 10 MB), wake-ups while nothing happens, memory after that many turns. `--ready` is the text
that says that the prompt is ready; `--client` prepares a home for Claude Code.
"""
import argparse, fcntl, http.server, json, os, pty, select, shlex, shutil, signal, struct
import tempfile, termios, threading, time

TOKENS = 200
KEY = "sk-ant-bench-not-a-key-0123456789"


def event(kind, value):
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **value})}\n\n".encode()


class Api(http.server.BaseHTTPRequestHandler):
    """Answers by the last prompt: `load` streams, `shell` calls a tool, everything else says OK."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    do_GET = do_HEAD

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])) or b"{}")
        if "count_tokens" in self.path:
            return self.plain({"input_tokens": 10})
        last = json.dumps(body.get("messages", [{}])[-1])
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        usage = {"input_tokens": 10, "output_tokens": 1}
        message = {"id": "msg_1", "type": "message", "role": "assistant", "content": [],
                   "model": body.get("model"), "stop_reason": None, "usage": usage}
        try:
            self.wfile.write(event("message_start", {"message": message}))
            stop = "end_turn"
            if body.get("tools") and "@load" in last:
                self.text(word for word in self.paced())
            elif body.get("tools") and "@shell" in last and "tool_result" not in last:
                stop = "tool_use"
                command = "for i in $(seq 1 200); do head -c 37500 /dev/urandom | base64; sleep 0.05; done"
                block = {"type": "tool_use", "id": f"toolu_{time.time_ns()}", "name": "Bash", "input": {}}
                self.block(block, [{"type": "input_json_delta", "partial_json": json.dumps(
                    {"command": command, "description": "writes"})}])
            else:
                self.text(["OK."])
            self.wfile.write(event("message_delta", {"delta": {"stop_reason": stop},
                                                     "usage": {"output_tokens": 5}}))
            self.wfile.write(event("message_stop", {}))
        except OSError:
            pass
        self.close_connection = True

    def paced(self):
        start = time.time()
        for n in range(TOKENS * 20):
            wait = start + n / TOKENS - time.time()
            if wait > 0:
                time.sleep(wait)
            yield "\n\n" if n % 60 == 59 else f"token{n} "

    def text(self, words):
        self.wfile.write(event("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}))
        for word in words:
            self.wfile.write(event("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": word}}))
            self.wfile.flush()
        self.wfile.write(event("content_block_stop", {"index": 0}))

    def block(self, block, deltas):
        self.wfile.write(event("content_block_start", {"index": 0, "content_block": block}))
        for delta in deltas:
            self.wfile.write(event("content_block_delta", {"index": 0, "delta": delta}))
        self.wfile.write(event("content_block_stop", {"index": 0}))

    def plain(self, value):
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class Console:
    def __init__(self, args, port):
        self.folder = tempfile.mkdtemp(prefix="console-bench-")
        home = os.path.join(self.folder, "home")
        os.makedirs(os.path.join(home, "demo"), exist_ok=True)
        if args.client:
            # The questions that the client asks at its first start are answered.
            demo = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
            state = {"hasCompletedOnboarding": True, "theme": "dark", "numStartups": 5,
                     "lastOnboardingVersion": "99.0.0", "bypassPermissionsModeAccepted": True,
                     "customApiKeyResponses": {"approved": [KEY[-20:]], "rejected": []},
                     "projects": {os.path.join(home, "demo"): demo}}
            os.makedirs(os.path.join(home, ".claude"), exist_ok=True)
            for name in (".claude.json", ".claude/.claude.json"):
                with open(os.path.join(home, name), "w") as file:
                    json.dump(state, file)
        words = shlex.split(args.program)
        program = os.path.abspath(words[0]) if os.path.exists(words[0]) else words[0]
        env = {"HOME": home, "PATH": os.environ["PATH"], "TERM": "xterm-256color", "LANG": "C.UTF-8",
               "ANTHROPIC_API_KEY": KEY, "IS_SANDBOX": "1",
               "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}", "DISABLE_AUTOUPDATER": "1",
               "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
        self.begun = time.perf_counter()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
            os.chdir(os.path.join(home, "demo"))
            os.execvpe(program, [program, *words[1:]], env)
        self.seen = b""

    def read(self, until, patience):
        """Reads until a text comes. Returns whether it did."""
        end = time.perf_counter() + patience
        fresh = b""
        while time.perf_counter() < end:
            ready, _, _ = select.select([self.fd], [], [], max(0, end - time.perf_counter()))
            if not ready:
                break
            try:
                data = os.read(self.fd, 1 << 16)
            except OSError:
                return False
            fresh = (fresh + data)[-200_000:]
            if until is not None and until in fresh:
                return True
        return until is None

    def send(self, text):
        os.write(self.fd, text.encode())

    def pids(self):
        """The process and those that it has started for itself."""
        return [self.pid]

    def switches(self):
        total = 0
        for pid in self.pids():
            for task in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{task}/status") as file:
                    total += sum(int(line.split()[1]) for line in file if line.startswith("voluntary_ctxt"))
        return total

    def memory(self):
        with open(f"/proc/{self.pid}/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) / 1024

    def end(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)
        shutil.rmtree(self.folder, ignore_errors=True)


def echoes(console, count, first):
    times, missed = [], 0
    for n in range(count):
        letter = chr(0x4e00 + first + n)
        begun = time.perf_counter()
        console.send(letter)
        if console.read(letter.encode(), 5):
            times.append((time.perf_counter() - begun) * 1000)
        else:
            missed += 1
        if n % 20 == 19:
            console.send("\x15")
        console.read(None, 0.02)
    return times, missed


def at(times, part):
    times = sorted(times)
    return times[min(len(times) - 1, int(len(times) * part))] if times else float("nan")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--ready", default="❯")
    parser.add_argument("--client", action="store_true")
    parser.add_argument("--turns", type=int, default=1000)
    parser.add_argument("--idle", type=int, default=60)
    args = parser.parse_args()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Api)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    port = server.server_address[1]
    ready = args.ready.encode()

    starts = []
    for _ in range(10):
        console = Console(args, port)
        if console.read(ready, 20):
            starts.append((time.perf_counter() - console.begun) * 1000)
        console.end()
    print(f"start to prompt: median {at(starts, .5):.1f} ms, slowest {max(starts, default=0):.1f} ms", flush=True)

    console = Console(args, port)
    console.read(ready, 20)
    console.read(None, 1)
    before = console.switches()
    console.read(None, args.idle)
    print(f"idle {args.idle} s: {console.switches() - before} wake-ups, {console.memory():.1f} MB", flush=True)
    console.send("@load\r")
    console.read(b"token5", 10)
    stream, missed = echoes(console, 250, 0)
    print(f"echo at {TOKENS} tokens/s: median {at(stream, .5):.1f} ms, p95 {at(stream, .95):.1f} ms, "
          f"most {at(stream, 1):.1f} ms, {missed} missed", flush=True)
    console.end()

    console = Console(args, port)
    console.read(ready, 20)
    console.read(None, 0.5)
    console.send("@shell\r")
    console.read(None, 1.5)
    shell, missed = echoes(console, 250, 250)
    print(f"echo at 10 MB of output: median {at(shell, .5):.1f} ms, p95 {at(shell, .95):.1f} ms, "
          f"most {at(shell, 1):.1f} ms, {missed} missed", flush=True)
    both = stream + shell
    print(f"echo, both: p95 {at(both, .95):.1f} ms of {len(both)} keys", flush=True)
    console.end()

    console = Console(args, port)
    console.read(ready, 20)
    console.read(None, 0.5)
    done = 0
    for n in range(args.turns):
        console.send(f"turn {n}\r")
        if not console.read(b"OK.", 10):
            break
        console.read(None, 0.03)
        done += 1
    print(f"memory after {done} turns: {console.memory():.1f} MB", flush=True)
    console.end()


if __name__ == "__main__":
    main()
