"""A scripted stand-in for the Messages API, on loopback.

It answers the requests of a client with the replies of one story, in order. What must stay true:

- Replies of the conversation come from the queue that `expect` filled. Sub-agents have queues of
  their own, found by a phrase of their prompt. Everything else (titles, warm-ups) gets an answer
  that takes nothing from a queue, so such requests cannot shift the story.
- Ids depend only on the story's name and the place of the reply in its queue.
- Usage is computed from the real size of the request: what was sent before is read from the cache,
  what is new is written to it.

A reply is a list of blocks, or {"blocks": [...], "delay": seconds}. A block is {"think": text},
{"text": text} or {"call": tool, "with": input}. {"lines": [...]} stands for a text whose every line
ends with a newline, {"text_lines": [...]} for one whose last line does not.
"${PLAN}" in a reply is the plan file that the request names.
"""

import base64
import hashlib
import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PLAN_FILE = re.compile(r"/home/dev/\.claude/plans/[\w-]+\.md")
SIGNATURE = "U2FtcGxlIHNpZ25hdHVyZSwgbm90IG1hZGUgYnkgdGhlIEFQSS4gVGhlIHRob3VnaHQgaXMgc2NyaXB0ZWQu"
BYTES_PER_TOKEN = 4


def plain(value, plan=""):
    """The value with {"lines": [...]} joined and ${PLAN} replaced."""
    if isinstance(value, dict):
        if set(value) == {"lines"}:
            return plain("\n".join(value["lines"]) + "\n", plan)
        if set(value) == {"text_lines"}:
            return plain("\n".join(value["text_lines"]), plan)
        return {key: plain(inner, plan) for key, inner in value.items()}
    if isinstance(value, list):
        return [plain(inner, plan) for inner in value]
    return value.replace("${PLAN}", plan) if isinstance(value, str) else value


def text_of(content):
    """The text of a message's content or of a system prompt, to search in."""
    if isinstance(content, str):
        return content
    parts = []
    for block in content or []:
        parts.append(block.get("text") or text_of(block.get("content") or ""))
    return "\n".join(parts)


def tokens(value):
    return len(json.dumps(value, ensure_ascii=False).encode()) // BYTES_PER_TOKEN


class Script:
    """The replies of one story, and what was asked so far."""

    def __init__(self, story):
        self.name = story["name"]
        self.title = story["title"]
        self.agents = {phrase: list(replies) for phrase, replies in story.get("agents", {}).items()}
        self.queue = []
        self.served = 0
        self.busy = 0
        self.counters = {}
        self.sent_before = {}
        self.log = []
        self.lock = threading.Lock()

    def expect(self, replies):
        with self.lock:
            self.queue = list(replies)
            self.served = 0

    def done(self):
        with self.lock:
            return not self.queue and not self.busy

    def new_id(self, prefix, lane):
        with self.lock:
            count = self.counters[prefix, lane] = self.counters.get((prefix, lane), 0) + 1
        digest = hashlib.sha256(f"{self.name}/{lane}/{prefix}/{count}".encode()).digest()
        letters = re.sub(r"[^A-Za-z0-9]", "", base64.b64encode(digest).decode())
        return f"{prefix}_01{letters[:22]}"

    def choose(self, body):
        """The lane of a request, and its reply."""
        messages = body.get("messages") or []
        first = text_of(messages[0].get("content")) if messages else ""
        last = text_of(messages[-1].get("content")) if messages else ""
        with self.lock:
            for phrase, replies in self.agents.items():
                if phrase in first and replies:
                    return phrase, replies.pop(0)
            if last.strip().endswith("Warmup"):
                return "side", [{"text": "Ready when you are."}]
            if not body.get("tools") or "[SUGGESTION MODE" in last:
                return "side", [{"text": self.side_answer(body)}]
            if self.queue:
                self.served += 1
                return "main", self.queue.pop(0)
        return "extra", [{"text": "(the story has no reply to this)"}]

    def side_answer(self, body):
        wants = json.dumps([body.get("output_config"), body.get("output_format")])
        if "schema" in wants:
            return json.dumps({"title": self.title}, ensure_ascii=False)
        if "isNewTopic" in text_of(body.get("system")):
            return json.dumps({"isNewTopic": True, "title": self.title}, ensure_ascii=False)
        return self.title

    def usage(self, lane, body, content):
        whole = tokens([body.get(part) for part in ("system", "tools", "messages")])
        fixed = tokens([body.get("system"), body.get("tools")])
        with self.lock:
            before = self.sent_before.get(lane, 0)
            read = before if 0 < before <= whole else fixed
            self.sent_before[lane] = whole
        fresh = 3 + len(body.get("messages") or []) % 7
        written = max(whole - read - fresh, 0)
        said = sum(len(json.dumps(block, ensure_ascii=False)) for block in content)
        return {
            "input_tokens": fresh,
            "cache_creation_input_tokens": written,
            "cache_read_input_tokens": read,
            "cache_creation": {
                "ephemeral_5m_input_tokens": written,
                "ephemeral_1h_input_tokens": 0,
            },
            "output_tokens": max(said // BYTES_PER_TOKEN, 4),
            "service_tier": "standard",
        }

    def message(self, lane, blocks, body):
        plans = PLAN_FILE.findall(json.dumps(body, ensure_ascii=False))
        content = []
        for block in plain(blocks, plans[-1] if plans else ""):
            if "think" in block:
                content.append(
                    {"type": "thinking", "thinking": block["think"], "signature": SIGNATURE}
                )
            elif "text" in block:
                content.append({"type": "text", "text": block["text"]})
            else:
                call = {"type": "tool_use", "id": self.new_id("toolu", lane)}
                content.append({**call, "name": block["call"], "input": block["with"]})
        calls = any(block["type"] == "tool_use" for block in content)
        return {
            "id": self.new_id("msg", lane),
            "type": "message",
            "role": "assistant",
            "model": body.get("model"),
            "content": content,
            "stop_reason": "tool_use" if calls else "end_turn",
            "stop_sequence": None,
            "usage": self.usage(lane, body, content),
        }


def events(message):
    """A message as the events of a stream, in the API's order."""
    start = {**message, "content": [], "stop_reason": None}
    start["usage"] = {**message["usage"], "output_tokens": 1}
    yield {"type": "message_start", "message": start}
    yield {"type": "ping"}
    for index, block in enumerate(message["content"]):
        if block["type"] == "text":
            empty, deltas = {**block, "text": ""}, [{"type": "text_delta", "text": block["text"]}]
        elif block["type"] == "thinking":
            empty = {**block, "thinking": "", "signature": ""}
            deltas = [
                {"type": "thinking_delta", "thinking": block["thinking"]},
                {"type": "signature_delta", "signature": block["signature"]},
            ]
        else:
            empty = {**block, "input": {}}
            whole = json.dumps(block["input"], ensure_ascii=False)
            deltas = [{"type": "input_json_delta", "partial_json": whole}]
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        # Two blocks of one millisecond would confuse the clients that go by time.
        time.sleep(0.02)
        yield {"type": "content_block_stop", "index": index}
    ending = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": ending, "usage": message["usage"]}
    yield {"type": "message_stop"}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    script = None

    def log_message(self, *_):
        pass

    def json(self, answer):
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.send_header("request-id", self.script.new_id("req", "other"))
        self.end_headers()
        self.wfile.write(data)

    def stream(self, lane, message):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("transfer-encoding", "chunked")
        self.send_header("request-id", self.script.new_id("req", lane))
        self.end_headers()
        for event in events(message):
            name, data = event["type"], json.dumps(event)
            chunk = f"event: {name}\ndata: {data}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()

    def do_POST(self):
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        path = self.path.split("?")[0]
        try:
            if path.endswith("/count_tokens"):
                self.json({"input_tokens": len(raw) // BYTES_PER_TOKEN})
            elif path.endswith("/v1/messages"):
                self.answer(json.loads(raw))
            else:
                self.json({})
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def answer(self, body):
        script = self.script
        with script.lock:
            script.busy += 1
        try:
            lane, reply = script.choose(body)
            blocks, delay = reply, 0
            if isinstance(reply, dict):
                blocks, delay = reply["blocks"], reply.get("delay", 0)
            time.sleep(delay)
            message = script.message(lane, blocks, body)
            with script.lock:
                script.log.append({"lane": lane, "request": body, "answer": message})
            if body.get("stream"):
                self.stream(lane, message)
            else:
                self.json(message)
        finally:
            with script.lock:
                script.busy -= 1

    def do_GET(self):
        self.json({})

    def do_HEAD(self):
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        pass


def serve(story):
    """Starts the server in a thread; returns its address and the script."""
    script = Script(story)
    server = Server(("127.0.0.1", 0), type("StoryHandler", (Handler,), {"script": script}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}", script
