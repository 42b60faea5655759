"""A scripted stand-in for the Messages API, on loopback.

It gives the same short answer to every request and keeps what it was asked. What must stay true:
it never fails a request, because a client that tries again would be seen as one that asks twice.
"""
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ANSWER = "Done."
USAGE = {"input_tokens": 9, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
         "output_tokens": 2, "service_tier": "standard"}


def wants_json(body):
    """Whether the request asks for an answer in the form of a JSON object."""
    return bool((body.get("output_config") or {}).get("format") or body.get("output_format"))


def answer(number, body):
    text = json.dumps({"title": "A session"}) if wants_json(body) else ANSWER
    return {"id": f"msg_observe{number}", "type": "message", "role": "assistant",
            "model": body.get("model"), "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn", "stop_sequence": None, "usage": USAGE}


def events(message):
    """The same answer as a stream."""
    text = message["content"][0]["text"]
    yield {"type": "message_start",
           "message": dict(message, content=[], stop_reason=None, usage=dict(USAGE))}
    yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    yield {"type": "content_block_delta", "index": 0,
           "delta": {"type": "text_delta", "text": text}}
    yield {"type": "content_block_stop", "index": 0}
    yield {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None},
           "usage": USAGE}
    yield {"type": "message_stop"}


def kept(body):
    """What is worth keeping of a request: not the prompts and schemas of the product."""
    names = [tool.get("name") for tool in body.get("tools") or []]
    return {"model": body.get("model"), "max_tokens": body.get("max_tokens"), "tools": names,
            "messages": body.get("messages")}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, kind, data):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.send_header("request-id", "req_observe")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def do_GET(self):
        self.reply("application/json", b"{}")

    do_HEAD = do_GET

    def do_POST(self):
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        path = self.path.split("?")[0]
        try:
            body = json.loads(raw or b"{}")
        except ValueError:
            body = {}
        if path.endswith("/count_tokens"):
            self.reply("application/json", json.dumps({"input_tokens": len(raw) // 4}).encode())
        elif path.endswith("/v1/messages"):
            message = answer(self.server.note(kept(body)), body)
            if body.get("stream"):
                parts = (f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events(message))
                self.reply("text/event-stream", "".join(parts).encode())
            else:
                self.reply("application/json", json.dumps(message).encode())
        else:
            self.reply("application/json", b"{}")


class Api(ThreadingHTTPServer):
    """Runs in a thread of its own; `taken` gives the requests since it was last called."""
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock, self.requests, self.total = threading.Lock(), [], 0
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        pass  # a client that hangs up is no error

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    def note(self, request):
        with self.lock:
            self.requests.append(request)
            self.total += 1
            return self.total

    def taken(self):
        with self.lock:
            requests, self.requests = self.requests, []
            return requests
