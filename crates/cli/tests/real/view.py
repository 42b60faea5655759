"""The viewer in a real Chromium: every page, attacks, keys, live update, the file from disk.

    view.py QUIPU CHROMIUM WORK [AXE] [--shots FOLDER] [--only NAME]

Prints a line for each test, and exits with 1 if one failed. WORK is a folder for homes and files.
"""
import argparse
import datetime
import html.parser
import http.client
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import traceback
import urllib.parse

from playwright.sync_api import sync_playwright

# How long to wait for what has to come, in milliseconds: other work may fill the machine.
PATIENCE = 90_000
RUN = "window.__ran=1"
# Says on the console when a payload runs: that is known also when the page has gone elsewhere meanwhile.
SUNG = "the canary sings"
CANARY = f"(() => {{ let ran; Object.defineProperty(window, '__ran', {{ get: () => ran, set: (value) => {{ ran = value; console.log('{SUNG}'); }} }}); }})()"
EVIL = "http://evil.test/"
PAYLOADS = [
    f"<script>{RUN}</script>", f'"><img src=x onerror="{RUN}">', f"'><svg onload='{RUN}'>", f"</title><script>{RUN}</script>",
    f"</script><script>{RUN}</script>", f"--><script>{RUN}</script>", f"[x](javascript:{RUN})", f'<a href="javascript:{RUN}">x</a>',
    f"[![x]({EVIL}f.png)]({EVIL}g)", "> " * 14 + f"[![x]({EVIL}h.png)]({EVIL}i) [a]({EVIL}j)", f"![x]({EVIL}a.png)", f"<img src={EVIL}b.png>", f"<style>@import url({EVIL}c.css);*{{display:none}}</style>", f"<iframe src={EVIL}d></iframe>",
    f'<meta http-equiv="refresh" content="0;url={EVIL}">', f'<base href="{EVIL}">', f"<form action={EVIL}><button autofocus>b</button></form>",
    f"\x1b]8;;javascript:{RUN}\x07click\x1b]8;;\x07\x1b[31m<b onmouseover={RUN}>red\x1b[0m\x1b[2J", f"&lt;script&gt;{RUN}&lt;/script&gt;",
    "\u202egpj.exe\u2066\u2028\u2029\u0000", f"`</code><script>{RUN}</script>`", f"```\"><script>{RUN}</script>\n</pre><script>{RUN}</script>\n```",
    f"[a](data:text/html,<script>{RUN}</script>) [b](vbscript:x) [c](file:///etc/passwd) <{EVIL}e>", f"| <img src=x onerror={RUN}> |\n|--|\n| </table><script>{RUN}</script> |",
    f"\" autofocus onfocus={RUN} x=\"", f"' style='position:fixed;inset:0' onclick='{RUN}", "> " * 10_000 + "deep", "]]>{{7*7}}${7*7}<%= 7 %>",
]
# What must stand nowhere in the bytes of a file.
MARK = "<zqx a='\"&>"
SVG = "data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9ImFsZXJ0KDEpIi8+"
PAYLOADS += [
    f"{MARK} [a](java\nscript:{RUN}) [b](&#106;avascript:{RUN}) [c](java&Tab;script:{RUN}) <javascript:{RUN}> [d]({SVG}) ![e]({SVG}) [f]({EVIL}?q=\"onmouseover={RUN}) [g](//evil.test/v) [h](https:/evil.test) <HTTP://evil.test/{MARK}>",
    f"[r][1] {MARK} | [n]({EVIL} \"x\\\" onclick={RUN}\")\n\n[1]: javascript:{RUN}\n\n# {MARK} {{#main onclick={RUN}}}\n\n~~~{MARK}\n{MARK}\n~~~",
    f"<math><a href=javascript:{RUN}>{MARK}</math><details open ontoggle={RUN}><object data={EVIL}o></object><embed src={EVIL}e><link rel=stylesheet href={EVIL}l><!--<script>{MARK}",
    f"\x1b]52;c;ZXZpbA==\x07\x1b]0;{MARK}\x07\x1bP+q{MARK}\x1b\\\x9b31m{MARK}\x1b[38;2;300;-1;{MARK}m\x1b_G{MARK}\x1b\\\x1b]1337;File=inline=1:AAAA\x07\x1b[1;31{MARK}",
]


def record(kind, number, parent, message=None, **more):
    made = {"parentUuid": f"{parent:08x}-0000-4000-8000-000000000000" if parent is not None else None, "isSidechain": False, "type": kind,
            "uuid": f"{number:08x}-0000-4000-8000-000000000000", "timestamp": f"2026-01-01T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}.000Z",
            "sessionId": "11111111-1111-4111-8111-111111111111", "cwd": "/w/demo", "version": "2.1.325"}
    if message is not None:
        made["message"] = message
    return {**made, **more}


class Markup(html.parser.HTMLParser):
    """What a file has that no text may become."""

    def __init__(self, data):
        super().__init__()
        self.bad = []
        self.feed(data)

    def handle_starttag(self, tag, attrs):
        if tag in ("iframe", "object", "embed", "base", "link", "video", "audio", "math", "template", "portal", "script"):
            self.bad.append((tag, attrs))
        for name, value in attrs:
            image = name == "src" and re.fullmatch("data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]*", value)
            address = name == "href" and re.match("#|https?://", value, re.I)
            if name.startswith("on") or name in ("style", "srcdoc", "action", "formaction", "srcset", "ping", "xlink:href") or name in ("src", "href") and not (image or address):
                self.bad.append((tag, name, value[:80]))

    def handle_comment(self, data):
        self.bad.append(("comment", data[:80]))


class Session:
    """Writes a session, record by record."""

    def __init__(self, **more):
        self.lines, self.last, self.more = [], None, more

    def add(self, kind, message=None, **more):
        number = len(self.lines)
        self.lines.append(json.dumps(record(kind, number, self.last, message, **{**self.more, **more})).encode())
        self.last = number
        return number

    def prompt(self, text):
        return self.add("user", {"role": "user", "content": text})

    def answer(self, *blocks):
        number = len(self.lines)
        usage = {"input_tokens": 10, "output_tokens": 20, "cache_read_input_tokens": 1000 + number, "cache_creation_input_tokens": 5}
        return self.add("assistant", {"id": f"msg_{self.more.get('sessionId', 'x')[:8]}_{number}", "role": "assistant", "model": "claude-sonnet-4-5", "content": list(blocks), "stop_reason": "end_turn", "usage": usage})

    def call(self, tool, asked, result, structured=None, error=False):
        name = f"toolu_{len(self.lines)}"
        self.answer({"type": "tool_use", "id": name, "name": tool, "input": asked})
        block = {"type": "tool_result", "tool_use_id": name, "content": result, "is_error": error}
        self.add("user", {"role": "user", "content": [block]}, **({"toolUseResult": structured} if structured is not None else {}))

    def write(self, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\n".join(self.lines) + b"\n")


def text(words):
    return {"type": "text", "text": words}


PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def ordinary(session):
    """A session with something of everything."""
    session.prompt("Please fix the parser. token ghp_" + "a1B2" * 9)
    session.answer({"type": "thinking", "thinking": "The parser forgets its end.", "signature": "s" * 800})
    session.answer(text("I will look at **two** files.\n\n```rust\nfn main() { // go\n    let x = \"s\";\n}\n```\n\nSee [the site](https://example.org/a?b=c)."))
    session.call("Bash", {"command": "cargo test", "description": "Run the tests"}, "\x1b[31merror\x1b[0m: hiddenneedle failed\nok")
    session.call("Read", {"file_path": "/w/demo/src/main.rs"}, "     1\u2192fn main() {\n     2\u2192}\n")
    session.call("Edit", {"file_path": "/w/demo/src/main.rs", "old_string": "a", "new_string": "b"}, "The file has been updated",
                 {"filePath": "/w/demo/src/main.rs", "structuredPatch": [{"oldStart": 1, "oldLines": 2, "newStart": 1, "newLines": 2, "lines": [" fn main() {", "-a", "+b"]}]})
    session.call("Write", {"file_path": "/w/demo/new.py", "content": "import os\nprint(1)\n"}, "File created", {"type": "create", "filePath": "/w/demo/new.py", "content": "import os\nprint(1)\n", "structuredPatch": []})
    session.call("TodoWrite", {"todos": [{"content": "Fix it", "status": "completed", "activeForm": "x"}, {"content": "Test it", "status": "in_progress", "activeForm": "x"}]}, "ok",
                 {"oldTodos": [{"content": "Fix it", "status": "in_progress"}], "newTodos": []})
    session.call("Grep", {"pattern": "fn"}, "src/main.rs:1:fn main() {")
    session.call("Glob", {"pattern": "**/*.rs"}, "/w/demo/src/main.rs\n/w/demo/src/lib.rs")
    session.call("AskUserQuestion", {"questions": [{"question": "Which parser?", "options": [{"label": "The old one"}, {"label": "The new one"}]}]}, "answered", {"answers": {"Which parser?": "The new one"}})
    session.call("WebSearch", {"query": "parsers"}, "found", {"query": "parsers", "results": [{"tool_use_id": "x", "content": [{"title": "Parsing", "url": "https://example.org/p"}]}]})
    session.call("Bash", {"command": "false"}, "Exit code 1", error=True)
    session.add("user", {"role": "user", "content": [text("an image"), {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}]})
    session.answer(text("Done with the first part."))


def attacked():
    """Attacks in every field that is shown."""
    evil = f"<script>{RUN}</script>"
    session = Session(cwd=f"/w/{evil}\"'", gitBranch=f"\"><img src=x onerror={RUN}>", slug=evil)
    for payload in PAYLOADS:
        session.prompt(payload)
        session.answer({"type": "thinking", "thinking": payload, "signature": "s" * 800}, text(payload))
        session.call(payload[:60], {payload[:40]: payload, "x": [payload, {"y": payload}]}, payload, {"z": payload})
        session.call("Bash", {"command": payload, "description": payload}, payload, error=True)
        session.call("Read", {"file_path": payload}, f"     1\u2192{payload.splitlines()[0]}\n", {"file": {"filePath": payload}})
        session.call("Edit", {"file_path": payload, "old_string": payload, "new_string": payload + "x"}, "updated")
        session.call("Write", {"file_path": f"/x.{payload}", "content": payload}, "created")
        session.call("TodoWrite", {"todos": [{"content": payload, "status": payload, "activeForm": "x"}]}, "ok", {"oldTodos": [{"content": payload, "status": "x"}]})
        session.call("WebSearch", {"query": payload}, payload, {"results": [{"content": [{"title": payload, "url": payload}, {"title": payload, "url": f"javascript:{RUN}"}]}, payload]})
        session.call("WebFetch", {"url": payload}, payload)
        session.call("Grep", {"pattern": payload}, f"{payload}:1:{payload}")
        session.call("Task", {"description": payload, "prompt": payload, "subagent_type": payload}, payload)
        session.call("AskUserQuestion", {"questions": [{"question": payload, "options": [{"label": payload}]}]}, payload, {"answers": {payload: payload}})
        session.call("ExitPlanMode", {"plan": payload}, payload)
        session.add("user", {"role": "user", "content": [{"type": "image", "source": {"type": "base64", "media_type": "image/svg+xml", "data": "PHN2ZyBvbmxvYWQ9ImFsZXJ0KDEpIi8+"}},
                                                         {"type": payload, "x": payload}]})
        session.add("system", subtype="informational", content=payload, level="warning")
    session.add("system", subtype="compact_boundary", content=PAYLOADS[0], compactMetadata={"trigger": PAYLOADS[0], "preTokens": 5})
    session.prompt("x" * 2_000_000 + PAYLOADS[0])
    session.answer(text("the last text of all"))
    session.lines.insert(3, b'{"type":"user","message":{"role":"user","content":"broken \xff\xfe <script>' + RUN.encode() + b'</script>"}}')
    session.lines.insert(4, b"<script>" + RUN.encode() + b"</script> not json")
    session.lines.append(json.dumps({"type": "custom-title", "customTitle": PAYLOADS[3], "sessionId": "1"}).encode())
    return session


class Lab:
    def __init__(self, args, playwright):
        self.args, self.playwright = args, playwright
        self.work = pathlib.Path(args.work)
        shutil.rmtree(self.work, ignore_errors=True)
        self.home = self.work / "home"
        (self.work / "user").mkdir(parents=True)
        self.env = {"HOME": str(self.work / "user"), "PATH": os.environ["PATH"], "CLAUDE_CONFIG_DIR": str(self.home), "TZ": "UTC"}
        self.browser = playwright.chromium.launch(executable_path=args.chromium, args=["--no-sandbox"])
        self.servers, self.seen = [], []
        project = self.home / "projects" / "-w-demo"
        one = Session()
        ordinary(one)
        branch = one.prompt("A dead end")
        one.answer(text("nobody continues here"))
        one.last = branch - 1
        one.prompt("The live way")
        one.answer(text("continues here"))
        one.call("Bash", {"command": "git commit -m 'Mend the parser'"}, "[main 1a2b3c4] Mend the parser\n 1 file changed")
        before, one.last = one.last, None
        one.add("system", subtype="compact_boundary", content="Conversation compacted", logicalParentUuid=f"{before:08x}-0000-4000-8000-000000000000", compactMetadata={"trigger": "auto", "preTokens": 100000})
        one.add("user", {"role": "user", "content": "This session is being continued: summary"}, isCompactSummary=True)
        agent = "toolu_agent"
        one.answer({"type": "tool_use", "id": agent, "name": "Task", "input": {"description": "Look around", "prompt": "Look", "subagent_type": "Explore"}})
        one.add("user", {"role": "user", "content": [{"type": "tool_result", "tool_use_id": agent, "content": "It is fine"}]}, toolUseResult={"status": "completed", "agentId": "abc123", "totalToolUseCount": 1})
        for number in range(120):
            one.prompt(f"Question {number}")
            one.answer(text(f"Answer {number}: " + "words " * 40))
        one.answer(text("the last text of all"))
        self.dead_line = branch + 1
        one.lines.append(json.dumps({"type": "file-history-snapshot", "messageId": "unshown-record", "snapshot": {}}).encode())
        self.one = project / "11111111-1111-4111-8111-111111111111.jsonl"
        one.write(self.one)
        self.session = one
        sub = Session(isSidechain=True, agentId="abc123")
        sub.prompt("Look")
        sub.answer(text("The sub-agent saw everything"))
        sub.write(project / self.one.stem / "subagents" / "agent-abc123.jsonl")
        attacked().write(project / "66666666-6666-4666-8666-666666666666.jsonl")
        for number in range(30):
            small = Session(sessionId=f"{number:08x}-2222-4222-8222-222222222222", timestamp=f"2026-02-{number % 28 + 1:02}T10:00:00.000Z")
            small.prompt(f"Small session {number}")
            small.answer(text(f"needle{number} is here"))
            small.write(project / f"{number:08x}-2222-4222-8222-222222222222.jsonl")
        os.utime(project / "00000005-2222-4222-8222-222222222222.jsonl", (1.6e9, 1.6e9))

    def serve(self, *args):
        process = subprocess.Popen([self.args.quipu, "view", "--no-open", *args], env=self.env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.servers.append(process)
        return process.stdout.readline().strip()

    def context(self, **more):
        """A browser context that counts what is requested from elsewhere."""
        context = self.browser.new_context(viewport={"width": 1280, "height": 900}, **more)
        context.set_default_timeout(PATIENCE)
        outside = []

        def watch(request):
            name = urllib.parse.urlparse(request.url).hostname or ""
            if request.url.startswith(("http", "ws")) and not name.endswith(".localhost"):
                outside.append(request.url)
        context.on("request", watch)
        context.outside, context.dialogs, context.sung = outside, [], []
        context.add_init_script(CANARY)
        context.on("console", lambda message: context.sung.append(message.text) if message.text == SUNG else None)
        return context

    def page(self, url, **more):
        context = self.context(**more)
        page = context.new_page()
        page.on("dialog", lambda dialog: (context.dialogs.append(dialog.message), dialog.dismiss()))
        page.on("pageerror", lambda error: self.seen.append(str(error)))
        page.goto(url)
        return page

    def shot(self, page, name):
        if self.args.shots:
            pathlib.Path(self.args.shots).mkdir(parents=True, exist_ok=True)
            page.screenshot(path=f"{self.args.shots}/{name}.png")

    def quipu(self, *args):
        return subprocess.run([self.args.quipu, *args], env=self.env, capture_output=True, check=False)

    def clean(self, page):
        """Nothing ran, nothing was asked for elsewhere."""
        assert page.evaluate("window.__ran") is None and not page.context.sung, "something ran"
        assert not page.context.dialogs and not page.context.outside, (page.context.dialogs, page.context.outside)


def until(page, what, arg=None):
    """Until a function of the page returns something, or a promise of it: `wait_for_function` takes any promise for that."""
    for _ in range(PATIENCE // 50):
        if page.evaluate(what, arg):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"not in time: {what}")


def settled(page):
    """Until the page has done what keys and scrolling have asked for, and has drawn it."""
    until(page, """() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(
        () => done(document.querySelector('#windows')?.getAttribute('aria-busy') !== 'true'))))""")


def copied(page, *words):
    """Until the clipboard has these words."""
    until(page, "(words) => navigator.clipboard.readText().then((text) => words.every((one) => text.includes(one)))", list(words))


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)
        settled(page)


def open_all(page):
    for _ in range(3):
        page.evaluate("document.querySelectorAll('details:not([open])').forEach((one) => { one.open = true; })")
        page.wait_for_function("() => ![...document.querySelectorAll('details[open] > .lazy')].some((one) => one.textContent.includes('Reading'))")
        settled(page)


def test_session_page(lab):
    page = lab.page(lab.serve("11111111"))
    page.get_by_text("the last text of all").wait_for()
    lab.shot(page, "session-end")
    page.keyboard.press("g")
    page.get_by_text("Please fix the parser").first.wait_for()
    page.locator("#L1 .finding", has_text="secret").wait_for()
    call = page.locator("details.call", has_text="cargo test").first
    call.locator("summary").click()
    call.locator("pre.out span.f1", has_text="error").wait_for()
    edit = page.locator("details.call", has_text="Edit").first
    edit.locator("summary").click()
    edit.locator("ins", has_text="b").wait_for()
    diff = edit.locator(".diff")
    unified = diff.inner_html()
    left = lambda what: diff.locator(what).bounding_box()["x"]  # noqa: E731
    assert left("del") == left("ins")
    page.keyboard.press("d")
    page.locator(".diff.two").wait_for()
    assert left("del") < left("ins"), "they are not beside each other"
    page.keyboard.press("d")
    page.locator(".diff.two").wait_for(state="detached")
    assert diff.inner_html() == unified
    for tool, wanted in [("Read", "pre.numbers"), ("TodoWrite", ".todos .done .news"), ("Write", "pre.code[data-lang=py]"), ("WebSearch", ".url a[href='https://example.org/p']"), ("Grep", "pre.list b"), ("Glob", "pre.list"), ("AskUserQuestion", ".body strong")]:
        one = page.locator("details.call", has=page.locator(".tool", has_text=re.compile(f"^{tool}$"))).first
        one.locator("summary").first.click()
        one.locator(wanted).first.wait_for()
    page.get_by_text("Answer: The new one").wait_for()
    page.locator(".todos .done .news", has_text="done now").wait_for()
    page.locator(".todos .now", has_text="Test it").wait_for()
    page.locator(".call.bad .facts .error").first.wait_for()
    page.locator("img.media").first.wait_for()
    page.wait_for_function("() => { const image = document.querySelector('img.media'); return image.complete && image.naturalWidth === 1; }")
    page.locator(".answer strong", has_text="two").wait_for()
    page.locator(".answer pre.code[data-lang=rust]").wait_for()
    # What a turn and the whole session cost.
    assert all("$" in page.locator(where).first.inner_text() for where in [".turn .cost", ".headline .facts .cost"])
    link = page.locator("a[href='https://example.org/a?b=c']").first
    assert link.get_attribute("rel") == "noopener noreferrer" and link.get_attribute("target") == "_blank"
    thinking = page.locator("details.thinking").first
    thinking.locator("summary").click()
    thinking.get_by_text("forgets its end").wait_for()
    page.wait_for_function("() => CSS.highlights.get('k').size > 0")
    lab.shot(page, "session-open")
    lab.clean(page)


def test_panels(lab):
    page = lab.page(lab.serve("11111111"))
    page.get_by_text("the last text of all").wait_for()
    for name, wanted in [("branches", "1 dead end"), ("agents", "Explore"), ("context", "tokens would be sent"), ("check", "recorded messages")]:
        panel = page.locator(f".panel[data-name={name}]")
        panel.locator("summary").first.click()
        panel.get_by_text(wanted).first.wait_for()
    lab.shot(page, "panels")
    page.locator(".panel[data-name=branches] a", has_text="compare").first.click()
    page.get_by_text("they part at turn").wait_for()
    page.locator(".pair.second summary, .pair.changed summary, .pair.first summary").first.click()
    page.get_by_text("nobody continues here").or_(page.get_by_text("continues here")).first.wait_for()
    page.locator(".pair .fork").first.click()
    assert " fork 11111111-" in page.locator("#show[open] pre").inner_text()
    page.keyboard.press("Escape")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator(".pair .copy").first.click()
    copied(page, "> ")
    lab.shot(page, "compare")
    page.go_back()
    page.locator(".panel[data-name=branches] summary").first.click()
    page.locator(".panel[data-name=branches] a", has_text="A dead end").first.click()
    page.get_by_text("nobody continues here").wait_for()
    page.get_by_text("This branch is a dead end").wait_for()


def test_links_keys_and_find(lab):
    page = lab.page(lab.serve("11111111"))
    page.get_by_text("the last text of all").wait_for()
    base = page.url
    page.goto(base + "#turn-3")
    page.locator("#turn-3").wait_for()
    page.goto(base + "#L4")
    page.locator("#L4").wait_for()
    page.wait_for_function("() => document.getElementById('L4')?.getBoundingClientRect().top < 400")
    page.keyboard.press("/")
    page.keyboard.type("hiddenneedle")
    page.locator("#found a").first.click()
    page.locator("pre.out", has_text="hiddenneedle").first.wait_for()
    press(page, "Escape", "G")
    page.get_by_text("the last text of all").wait_for()
    press(page, "k", "k")
    first = page.locator(".at-item").get_attribute("id")
    press(page, "j")
    assert page.locator(".at-item").get_attribute("id") != first
    page.keyboard.press("?")
    page.locator("#help[open]").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("r")
    page.locator("#show[open] pre").wait_for()
    assert '"uuid"' in page.locator("#show pre").inner_text()
    page.keyboard.press("Escape")
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.keyboard.press("t")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    press(page, "g")
    page.locator("#turn-1 .copy").click()
    page.get_by_text("Copied", exact=True).wait_for()
    turn = page.evaluate("navigator.clipboard.readText()")
    assert "> Please fix the parser" in turn and "ghp_a1B2" not in turn, turn[:200]
    page.locator("#turn-1 .fork").click()
    assert "fork 11111111-1111-4111-8111-111111111111 --at 1" in page.locator("#show pre").inner_text()
    page.keyboard.press("Escape")
    # The record of a call that nobody has opened.
    page.evaluate("document.querySelector('.at-item')?.classList.remove('at-item'); const one = document.querySelector('details.call:not([open])'); one.classList.add('at-item'); one.scrollIntoView({ block: 'center' })")
    page.keyboard.press("r")
    assert "tool_use" in page.locator("#show[open] pre").inner_text()
    page.keyboard.press("Escape")
    agent = page.locator("details.call", has_text="Look around").first
    page.goto(base + "#turn-4")
    settled(page)
    agent.wait_for()
    agent.locator("summary").first.click()
    agent.locator("details.agent > summary").click()
    agent.get_by_text("The sub-agent saw everything").wait_for()
    # A sub-agent that is open in place copies its turn, and the key the turn around it.
    agent.locator(".turn .copy").first.click()
    copied(page, "The sub-agent saw everything")
    page.evaluate("document.querySelector('.at-item')?.classList.remove('at-item'); document.querySelector('.agent').closest('.item').classList.add('at-item')")
    press(page, "c")
    until(page, "() => navigator.clipboard.readText().then((text) => !text.includes('The sub-agent saw everything'))")
    page.locator(".compaction summary").first.click()
    page.get_by_text("no longer sent to the model").wait_for()
    page.locator(".receipt > summary").first.click()
    page.get_by_text("neither sent nor quoted any more").wait_for()
    page.locator(".receipt", has_text="prompts that occur nowhere now").get_by_text("Please fix the parser").first.wait_for()
    lab.shot(page, "compaction")


def test_every_record_has_a_way_to_it(lab):
    page = lab.page(lab.serve("11111111"))
    page.get_by_text("the last text of all").wait_for()
    base, last = page.url, len(lab.session.lines)
    # A record that is no part of the conversation, and the one before it.
    page.goto(base + f"#L{last}")
    page.locator("#show pre", has_text="unshown-record").wait_for()
    page.locator("#show button", has_text=f"Line {last - 1}").click()
    page.locator("#show pre", has_text="the last text of all").wait_for()
    page.keyboard.press("Escape")
    # A record of another branch.
    page.goto("about:blank")
    page.goto(base + f"#L{lab.dead_line}")
    page.get_by_text("This branch is a dead end").wait_for()
    page.locator(f".item[id$='-L{lab.dead_line}']", has_text="A dead end").wait_for()
    # Words that only a sub-agent said.
    page.goto(base)
    page.locator("#find").fill("saw everything")
    page.locator("#found a", has_text="sub-agent 1").first.click()
    page.get_by_text("This is a sub-agent").wait_for()
    page.locator(".item", has_text="The sub-agent saw everything").wait_for()
    page.goto(base)
    panel = page.locator(".panel[data-name=commits]")
    panel.locator("summary").click()
    panel.get_by_text("Mend the parser").click()
    page.locator("details.call.target, details.call.at-item", has_text="git commit").first.wait_for()
    # Words that only a dead end has.
    page.goto(base)
    page.locator("#find").fill("nobody continues")
    page.locator("#found a", has_text="branch ").first.click()
    page.get_by_text("This branch is a dead end").wait_for()
    page.locator(".item", has_text="nobody continues here").first.wait_for()
    page.goto(base)
    # Keys that move and open.
    settled(page)
    press(page, "g")
    page.locator("#turn-1").wait_for()
    for key, turn in [("n", 2), ("n", 3), ("p", 2)]:
        press(page, key)
        page.locator(f"#turn-{turn}.at-item").wait_for()
    # Typed faster than windows arrive.
    for key in "gnnn":
        page.keyboard.press(key)
    settled(page)
    page.locator("#turn-4.at-item").wait_for()
    press(page, "g")
    page.locator("#turn-1").wait_for()
    for _ in range(20):
        press(page, "x")
        if page.locator(".at-item.bad").count():
            break
    page.locator(".at-item.bad").wait_for()
    press(page, "o")
    page.locator(".at-item[open] pre").first.wait_for()
    press(page, "o")
    assert page.locator(".at-item[open]").count() == 0
    press(page, "e")
    page.locator("details.call[open]").first.wait_for()
    # Only what was said, then only prompts, then everything.
    page.goto(base + "#turn-1")
    page.locator("#turn-1").wait_for()
    press(page, "m")
    page.get_by_text("I will look at").wait_for()
    page.locator("details.call").first.wait_for(state="detached")
    press(page, "m")
    page.get_by_text("I will look at").wait_for(state="detached")
    page.locator(".item.prompt", has_text="Please fix the parser").first.wait_for()
    assert page.evaluate("document.querySelectorAll('*').length") < 5000
    press(page, "m")
    page.locator("details.call", has_text="cargo test").first.wait_for()
    page.keyboard.press("u")
    page.get_by_text("32 sessions").wait_for()


def test_scrolling_keeps_few_nodes(lab):
    page = lab.page(lab.serve("11111111"))
    page.get_by_text("the last text of all").wait_for()
    seen, most = set(), 0
    press(page, "g")
    page.locator("#turn-1").wait_for()
    page.mouse.move(700, 500)
    for _ in range(400):
        seen |= set(page.evaluate("[...document.querySelectorAll('.turn')].map((one) => Number(one.dataset.turn))"))
        most = max(most, page.evaluate("document.querySelectorAll('*').length"))
        top = page.evaluate("scrollY")
        if page.evaluate("scrollY + innerHeight > document.body.scrollHeight - 20"):
            break
        page.mouse.wheel(0, 600)
        page.wait_for_function(f"() => Math.abs(scrollY - {top}) > 1 || scrollY + innerHeight > document.body.scrollHeight - 20")
        settled(page)
        # What is in view is there, and no empty space.
        page.wait_for_function("""() => (() => { const box = document.querySelector("#windows").getBoundingClientRect();
            return box.top < innerHeight / 2 + 300 && (box.bottom >= innerHeight || scrollY + innerHeight > document.body.scrollHeight - 200); })()""")
    turns = max(seen)
    assert seen == set(range(1, turns + 1)), sorted(set(range(1, turns + 1)) - seen)
    assert most < 5000, most


def test_live(lab):
    page = lab.page(lab.serve("11111111"))
    page.get_by_text("the last text of all").wait_for()
    settled(page)
    turns = int(page.locator(".panel[data-name=turns] .number").inner_text())
    lab.session.prompt("Written while you watch")
    lab.session.answer(text("and it appears by itself"))
    with open(lab.one, "ab") as file:
        for line in lab.session.lines[-2:]:
            file.write(line + b"\n")
    page.get_by_text("and it appears by itself").wait_for()
    page.wait_for_function("() => [...document.querySelectorAll('.item')].at(-1).getBoundingClientRect().top < innerHeight")
    # What stands above it, and the number of its turns, follow.
    page.wait_for_function(f"() => document.querySelector('.panel[data-name=turns] .number').textContent === '{turns + 1}'")
    assert page.locator(".headline .facts", has_text=f"{turns + 1} turns").count() == 1


def test_live_agents_and_rewriting(lab):
    folder = lab.work / "live"
    path = folder / "77777777-1111-4111-8111-111111111111.jsonl"
    live = Session(sessionId=path.stem)
    live.prompt("Start a long look")
    live.answer({"type": "tool_use", "id": "toolu_live", "name": "Task", "input": {"description": "Look for long", "prompt": "Look for long", "subagent_type": "Explore"}})
    live.write(path)
    sub = Session(isSidechain=True, agentId="live1", sessionId=path.stem)
    sub.prompt("Look for long")
    sub.answer(text("first words of the agent"))
    agent_path = folder / path.stem / "subagents" / "agent-live1.jsonl"
    sub.write(agent_path)
    agent_path.with_suffix(".meta.json").write_text(json.dumps({"agentType": "Explore", "toolUseId": "toolu_live", "description": "Look for long"}))
    page = lab.page(lab.serve(str(path)))
    call = page.locator("details.call", has_text="Look for long").first
    call.locator("summary").first.click()
    agent = call.locator("details.agent").first
    agent.locator("summary").first.click()
    agent.get_by_text("first words of the agent").wait_for()

    def append(where, session, count):
        with open(where, "ab") as file:
            for line in session.lines[-count:]:
                file.write(line + b"\n")
    sub.answer(text("second words of the agent"))
    append(agent_path, sub, 1)
    agent.get_by_text("second words of the agent").wait_for()
    # So much that it takes windows of its own.
    for number in range(30):
        sub.answer(text(f"words {number} of the agent"))
    append(agent_path, sub, 30)
    agent.get_by_text("words 29 of the agent").wait_for()
    # The agent ends; what is open stays open.
    live.add("user", {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_live", "content": "It is fine"}]}, toolUseResult={"status": "completed", "agentId": "live1"})
    live.answer(text("The agent has finished"))
    append(path, live, 2)
    page.get_by_text("The agent has finished").wait_for()
    page.get_by_text("words 29 of the agent").wait_for()
    page.get_by_text("second words of the agent").first.wait_for()
    # A rewind: the live branch leaves the old one, which is a dead end now.
    live.last = 1
    live.prompt("Another way")
    live.answer(text("The other way it is"))
    append(path, live, 2)
    page.get_by_text("The other way it is").wait_for()
    page.get_by_text("The agent has finished").wait_for(state="detached")
    # Written anew, and shorter.
    fresh = Session(sessionId=path.stem)
    fresh.prompt("Written anew")
    fresh.answer(text("and shorter"))
    fresh.write(path)
    page.get_by_text("and shorter").wait_for()
    page.get_by_text("The other way it is").wait_for(state="detached")


def test_home(lab):
    page = lab.page(lab.serve())
    page.get_by_text("32 sessions").wait_for()
    lab.shot(page, "home")
    page.keyboard.press("/")
    page.keyboard.type("Small session 17")
    page.get_by_text("1 session", exact=True).wait_for()
    page.locator("#search").fill("needle23")
    page.locator(".snippet", has_text="needle23").wait_for()  # as soon as the catalog has been read
    page.locator("#search").fill("")
    page.locator(".health.full").first.wait_for()
    page.locator("#usage figure > svg").wait_for(state="attached")
    page.locator("select[name=days]").select_option("30")
    page.get_by_text("31 sessions").wait_for()
    page.locator("select[name=days]").select_option("")
    page.get_by_text("32 sessions").wait_for()
    first = page.locator(".session-row .title").first.inner_text()
    page.locator("select[name=sort]").select_option("title")
    page.wait_for_function("(first) => document.querySelector('.session-row .title').innerText !== first", arg=first)
    page.get_by_role("link", name="Usage", exact=True).click()
    page.get_by_text("All numbers by day").wait_for()
    total = page.locator("tfoot td").nth(2).inner_text().replace(",", "")
    known = json.loads(lab.quipu("usage", "--json").stdout)["total"]["output"]
    assert int(total) == known, (total, known)
    for by in ["model", "project", "tool", "agent"]:
        page.get_by_role("link", name=by, exact=True).click()
        page.get_by_text(f"All numbers by {by}").wait_for()
    page.get_by_role("link", name="Compare", exact=True).click()
    page.locator("input[name=a]").fill("11111111")
    page.locator("input[name=b]").fill("00000003")
    page.get_by_role("button", name="Compare").click()
    page.get_by_text("Nothing in common").wait_for()


def test_timeline_and_context(lab):
    page = lab.page(lab.serve("11111111"))
    page.get_by_text("the last text of all").wait_for()
    settled(page)
    # The strip leads to where something was.
    marks = page.locator("nav.strip svg a")
    assert 3 < marks.count() <= 120
    marks.nth(marks.count() // 2).dispatch_event("click")
    page.locator(".target").wait_for()
    name = page.evaluate("location.hash.slice(1)")
    assert re.fullmatch(r"L\d+", name) and page.locator(".target").get_attribute("id") == name, name
    settled(page)
    assert 0 <= page.evaluate("document.querySelector('.target').getBoundingClientRect().top") < 400
    # And so does the table behind it.
    page.evaluate("scrollTo(0, 0)")
    page.locator("#timeline > summary").click()
    page.locator("#timeline tbody tr").first.wait_for()
    assert page.locator("#timeline tbody tr").count() == marks.count()
    page.locator("#timeline tbody a").first.click()
    page.locator("#L1").wait_for()
    # How the context fills up, as a plot with a table, and what fills it.
    panel = page.locator(".panel[data-name=context]")
    panel.locator("summary").first.click()
    panel.locator("figure.plot > svg path.fill").wait_for(state="attached")
    panel.locator("figure.plot summary").click()
    rows = panel.locator("figure.plot table tbody tr")
    assert rows.count() > 100
    for title in ["By kind", "By tool", "By turn"]:
        panel.locator("caption", has_text=title).wait_for()
    rows.filter(has_text="Turn 60").first.locator("a").click()
    page.locator("#turn-60").wait_for()
    settled(page)
    # The command that resumes it.
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator(".resume button").click()
    until(page, "() => navigator.clipboard.readText().then((text) => text.endsWith('resume 11111111-1111-4111-8111-111111111111'))")


def below_the_bar(page, what):
    """Until something begins right below what stays at the top; a narrow window has no field there until words are looked for."""
    settled(page)
    bar = ".find" if page.evaluate("getComputedStyle(document.querySelector('.find')).position") == "sticky" else ".top"
    until(page, """([what, bar]) => {
        const top = document.querySelector(what)?.getBoundingClientRect().top - document.querySelector(bar).getBoundingClientRect().bottom;
        return top >= 0 && top < 40; }""", [what, bar])


def test_jumps_lead_below_the_bar(lab):
    out = lab.work / "jumps.html"
    assert lab.quipu("export", "html", "11111111", "-o", str(out)).returncode == 0
    for is_file, width in [(False, 1280), (False, 390), (True, 1280), (True, 390)]:
        page = lab.page(out.as_uri() if is_file else lab.serve("11111111"))
        page.set_viewport_size({"width": width, "height": 900})
        page.locator("#windows .item").first.wait_for()
        session = page.url.split("#")[0]
        page.goto("about:blank")
        page.goto(session + "#turn-30")
        below_the_bar(page, "#turn-30")
        page.evaluate("scrollBy(0, 777)")
        settled(page)
        first = "() => { const one = [...document.querySelectorAll('#windows .item[id]')].find((one) => one.getBoundingClientRect().top > 100); return [one.id, one.getBoundingClientRect().top]; }"
        name, top = page.evaluate(first)
        # Hits stay: Enter leads to the next one.
        page.keyboard.press("/")
        page.keyboard.type("Answer 7")
        page.locator("#found a", has_text="Answer 70").wait_for()
        page.locator("#found a", has_text="Answer 7:").click()
        for key, number in [(None, "7"), ("Enter", "70"), ("Enter", "71"), ("Shift+Enter", "70")]:
            if key:
                if number == "70" and key == "Enter":
                    # The list is there again.
                    page.keyboard.press("/")
                    page.locator("#found a", has_text="Answer 70").wait_for()
                page.keyboard.press(key)
            page.locator(".target", has_text=f"Answer {number}:").wait_for()
            below_the_bar(page, ".target")
            assert page.locator("#hit").inner_text() == f"{['7', '70', '71'].index(number) + 1} of 11"
        # The way back leads to where one was; in a narrow window, that was the field.
        for _ in range(4):
            page.go_back()
            settled(page)
        if width == 1280:
            until(page, "([name, top]) => Math.abs(document.getElementById(name)?.getBoundingClientRect().top - top) < 2", [name, top])
        lab.clean(page)
        page.context.close()


def test_errors_are_found_wherever_they_are(lab):
    session = Session(sessionId="5e5e5e5e-1111-4111-8111-111111111111")
    for number in range(60):
        session.prompt(f"Question {number}")
        if number in (3, 40):
            session.call("Bash", {"command": f"try {number}"}, "Exit code 1", error=True)
            session.call("Edit", {"file_path": "/w/demo/a.rs", "old_string": "old way", "new_string": "new way"}, "The text was not found", error=True)
        session.answer(text(f"Answer {number}: " + "words " * 300))
    path = lab.home / "projects" / "-w-demo" / "5e5e5e5e-1111-4111-8111-111111111111.jsonl"
    session.write(path)
    out = lab.work / "errors.html"
    assert lab.quipu("export", "html", "5e5e5e5e", "-o", str(out)).returncode == 0
    for url in [lab.serve("5e5e5e5e"), out.as_uri()]:
        page = lab.page(url)
        page.locator("#windows .item").first.wait_for()
        press(page, "g")
        for wanted in ["try 3", "a.rs", "try 40", "a.rs"]:
            press(page, "x")
            item = page.locator("details.call.bad.at-item", has_text=wanted)
            item.wait_for()
            # What it was to do has its usual form; the focus is on it, so Enter opens it.
            page.keyboard.press("Enter")
            item.locator("pre.code[data-lang=sh], pre.code, .diff del", has_text=wanted if "try" in wanted else "old way").first.wait_for()
        press(page, "x")
        page.get_by_text("No error below this.").wait_for()
        press(page, "p", "n", "n")
        assert page.locator(".at-item").get_attribute("id") == "turn-43"
        lab.clean(page)
        page.context.close()
    # Others count the sessions.
    path.unlink()


def test_without_a_mouse(lab):
    page = lab.page(lab.serve("11111111"))
    page.get_by_text("the last text of all").wait_for()
    press(page, "g")
    page.locator("#turn-1").wait_for()
    focused = "document.activeElement"
    page.keyboard.press("Tab")
    assert page.evaluate(f"{focused}.className") == "skip", "the first stop is not the link to the content"
    page.keyboard.press("Enter")
    page.wait_for_function(f"() => {focused}.id === 'main'")
    # Every call is reached by Tab, and opens with Enter; what has the focus can be seen.
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate(f"{focused}.matches('details.call > summary')"):
            break
    assert page.evaluate(f"{focused}.matches('details.call > summary') && getComputedStyle({focused}).outlineStyle !== 'none'")
    page.keyboard.press("Enter")
    page.wait_for_function(f"() => {focused}.parentElement.open && !{focused}.parentElement.querySelector(':scope > .lazy')")
    page.keyboard.press("Enter")
    page.wait_for_function(f"() => !{focused}.parentElement.open")
    # A key takes the focus along, so that Enter opens the item.
    press(page, "j")
    page.keyboard.press("?")
    page.locator("#help[open]").wait_for()
    page.keyboard.press("Escape")
    page.locator("#help[open]").wait_for(state="detached")
    # In the list of sessions, too.
    page.keyboard.press("u")
    page.get_by_text("32 sessions").wait_for()
    press(page, "j", "j")
    row = page.evaluate(f"{focused}.href")
    assert "/s/" in row, row
    page.keyboard.press("Enter")
    page.locator("#windows").wait_for()
    assert page.url == row


def test_nothing_jumps(lab):
    """What arrives later does not move what is seen already."""
    url = lab.serve("11111111")
    context = lab.context()
    # Windows are added above those in view, so their box begins higher up: for that, what is in it is looked at.
    context.add_init_script("""window.__moved = 0; window.__why = [];
        new PerformanceObserver((list) => { for (const one of list.getEntries()) {
            const nodes = one.sources.map((source) => source.node?.id || source.node?.className || String(source.node?.nodeName));
            if (one.hadRecentInput || nodes[0] === 'windows') continue;
            window.__moved += one.value; window.__why.push(nodes.join(' '));
        } }).observe({ type: 'layout-shift', buffered: true });
        addEventListener('DOMContentLoaded', () => requestAnimationFrame(() => {
            const box = (one) => one.getBoundingClientRect();
            const item = [...document.querySelectorAll('.item[id]')].find((one) => box(one).top > 0 && box(one).top < innerHeight);
            window.__seen = item && [item.id, box(item).top];
        }));""")
    page = context.new_page()
    page.goto(url)
    page.get_by_text("the last text of all").wait_for()
    session, root = page.url, "/".join(page.url.split("/")[:4]) + "/"
    for name, address, seen in [("session", session, ".item"), ("turn", session + "?turn=40", ".item"), ("home", root, ".health.full"), ("usage", root + "usage", "figure > svg")]:
        for width in [1280, 390]:
            page.set_viewport_size({"width": width, "height": 900})
            page.goto(address)
            page.locator(seen).first.wait_for()
            page.wait_for_load_state("networkidle")
            settled(page)
            page.wait_for_timeout(800)  # What is drawn when nothing else is to be done.
            moved, why = page.evaluate("[window.__moved, window.__why]")
            assert moved < 0.05, (name, width, moved, why)
            item = page.evaluate("window.__seen")
            assert (item is None) == (name in ("home", "usage")), (name, width, item)
            if item:
                now = page.evaluate("(id) => document.getElementById(id).getBoundingClientRect().top", item[0])
                assert abs(now - item[1]) < 2, (name, width, item, now)


def kin(lab, name):
    """A home with one session of four turns, and a way to change it."""
    home = lab.work / name
    path = home / "projects" / "-w-kin" / "55555555-1111-4111-8111-111111111111.jsonl"
    session = Session(sessionId=path.stem)
    for number in range(4):
        session.prompt(f"Kin question {number}")
        session.answer(text(f"Kin answer {number}"))
    session.write(path)

    def run(*args):
        done = lab.quipu("--home", str(home), *args)
        assert done.returncode == 0, done.stderr
        return done.stdout.decode()
    return home, path, run


def test_forks_and_changes_are_compared(lab):
    home, path, run = kin(lab, "kin")
    # Clients copy the records of a fork, with their ids; ours has new ones.
    fork = path.with_name("5f" + path.stem[2:] + ".jsonl")
    copied = [{**json.loads(line), "sessionId": fork.stem, "forkedFrom": {"sessionId": path.stem, "messageUuid": json.loads(line)["uuid"]}} for line in path.read_text().splitlines()[:4]]
    fork.write_text("".join(json.dumps(one) + "\n" for one in copied))
    run("fork", str(path), "--at", "3")
    ours = next(one for one in path.parent.glob("*.jsonl") if one not in (path, fork))
    run("drop", str(path), "3", "--in-place", "--force")
    page = lab.page(lab.serve("--home", str(home), str(path)))
    page.get_by_text("Kin answer 3").wait_for()
    session = page.url
    panel = page.locator(".panel[data-name=branches]")
    panel.locator("summary").first.click()
    panel.get_by_text("Related sessions").wait_for()
    panel.locator("li", has_text=fork.stem[:8]).locator("a", has_text="compare").click()
    page.get_by_text("The same up to turn 2").wait_for()
    page.locator("details summary", has_text="2 turns the same: A 1-2, B 1-2").click()
    page.get_by_text("Kin question 1").wait_for()
    page.get_by_role("link", name="Compare", exact=True).click()
    page.locator("input[name=a]").fill(ours.stem[:8])
    page.locator("input[name=b]").fill(fork.stem[:8])
    page.get_by_role("button", name="Compare").click()
    page.get_by_text("The same up to turn 2, where B ends").wait_for()
    page.get_by_text("1 only in A, 0 only in B").wait_for()
    # What was made from it, and what that was made from.
    page.goto(session)
    panel.locator("summary").first.click()
    panel.locator("li", has_text="fork made " + ours.stem[:8]).locator("a").first.click()
    page.wait_for_url(lambda url: url != session)
    page.get_by_text("Kin answer").first.wait_for()
    panel.locator("summary").first.click()
    panel.locator("li", has_text="made by fork from " + path.stem[:8]).locator("a").first.click()
    page.wait_for_url(session)
    panel.locator("summary").first.click()
    panel.get_by_text("Before changes").wait_for()
    panel.locator("li", has_text="before drop").locator("a", has_text="compare").click()
    page.get_by_text("they part at turn 3").wait_for()
    # Turns that are the same after a difference are there, too, and the sides are named.
    page.locator("details.same", has_text="1 turn the same: A 4, B 3").wait_for()
    heads = page.locator(".heads > div").all_inner_texts()
    assert ["before drop, " in head for head in heads] == [True, False] and "as it is now" in heads[1], heads
    page.locator(".pair details", has_text="Kin question 2").first.locator("summary").click()
    page.get_by_text("Kin answer 2").first.wait_for()
    lab.clean(page)


def test_the_list_shows_what_is_gone_and_what_is_damaged(lab):
    home, path, run = kin(lab, "gone")
    for number, words in [(6, "One that will be deleted"), (7, "One that is torn")]:
        other = Session(sessionId=f"{number}" * 8 + path.stem[8:], cwd="/w/other")
        other.prompt(words)
        other.answer(text("needleword is here"))
        other.answer(text("the last words"))
        other.write(path.with_name(other.more["sessionId"] + ".jsonl"))
    torn = path.with_name("7" * 8 + path.stem[8:] + ".jsonl")
    torn.write_bytes(torn.read_bytes()[:-40])
    run("index")
    path.with_name("6" * 8 + path.stem[8:] + ".jsonl").unlink()
    page = lab.page(lab.serve("--home", str(home)))
    page.get_by_text("3 sessions").wait_for()
    page.locator("select[name=only]").select_option("deleted")
    page.get_by_text("1 session", exact=True).wait_for()
    row = page.locator(".session-row")
    row.locator(".gone", has_text="One that will be deleted").wait_for()
    assert row.locator("a").count() == 0 and row.get_by_text("deleted by the client").count() == 1
    page.locator("select[name=only]").select_option("trouble")
    page.get_by_text("One that is torn").wait_for()
    assert page.locator(".session-row").count() == 1
    page.locator("select[name=only]").select_option("")
    page.locator("select[name=project]").select_option("/w/demo")
    page.get_by_text("1 session", exact=True).wait_for()
    page.get_by_text("Kin question 0").wait_for()
    # What was chosen is in the address.
    page.reload()
    page.get_by_text("1 session", exact=True).wait_for()
    page.locator("select[name=project]").select_option("")
    page.get_by_text("3 sessions").wait_for()
    page.locator("#search").fill("needleword")
    page.locator(".snippet", has_text="needleword").first.wait_for()


def test_usage_has_the_numbers_of_the_command(lab):
    page = lab.page(lab.serve())
    root = page.url
    for by in ["day", "week", "month", "model", "project", "tool", "agent", "session"]:
        page.goto(f"{root}usage?by={by}")
        page.get_by_text(f"All numbers by {by}").wait_for()
        known = json.loads(lab.quipu("usage", "--by", by, "--json").stdout)
        wanted = {row["key"]: [row["messages"], row["input"], row["output"], row["cache_write_5m"] + row["cache_write_1h"], row["cache_read"]] for row in [*known["rows"], {**known["total"], "key": "total"}]}
        shown = page.evaluate("[...document.querySelectorAll('table.figures tbody tr, table.figures tfoot tr')].map((row) => [...row.children].map((one) => one.textContent))")
        numbers = {row[0]: [int(cell.replace(",", "")) for cell in row[1:6]] for row in shown}
        # Names that are long or strange are shown in another way.
        assert sorted(numbers.values()) == sorted(wanted.values()), (by, numbers, wanted)
        for name in [name for name in wanted if re.fullmatch(r"[\w().:/-]{1,60}", name)]:
            assert numbers[name] == wanted[name], (by, name)
        # A plot, and a table behind it that has what the plot has.
        if by in ("day", "week", "month"):
            page.locator("figure.plot summary").click()
            drawn = page.locator("figure.plot > svg rect").count()
            assert drawn == page.locator("figure.plot table tbody tr").count() > 0
        else:
            # As many bars as fit, and a note about the rest.
            bars, rest = page.locator("table.bars tbody tr").count(), max(0, len(known["rows"]) - 25)
            assert bars == len(known["rows"]) - rest and page.get_by_text(f"and {rest} more").count() == (rest > 0), (by, bars, rest)


def test_a_long_file(lab):
    """Paged inside the file; pages open when they are reached, found in, or led to."""
    long = Session(sessionId="88888888-1111-4111-8111-111111111111")
    for number in range(500):
        long.prompt(f"Long question {number}")
        long.answer(text(f"Long answer {number} oftenword: " + "words " * 1_500))
        if number % 100 == 7:
            long.call("Edit", {"file_path": "/w/demo/src/main.rs", "old_string": "a", "new_string": "b"}, "The file has been updated",
                      {"filePath": "/w/demo/src/main.rs", "structuredPatch": [{"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 1, "lines": ["-a", "+b"]}]})
    path = lab.work / "long" / "88888888-1111-4111-8111-111111111111.jsonl"
    long.write(path)
    out = lab.work / "long.html"
    done = lab.quipu("export", "html", str(path), "-o", str(out))
    assert done.returncode == 0, done.stderr
    page = lab.page(out.as_uri())
    pages = page.locator("details.page")
    assert pages.count() > 3 and page.locator("details.page[open]").count() == 1
    assert page.evaluate("document.querySelectorAll('.page[open] *').length") < 5000
    # Reading on opens the next page.
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    page.wait_for_function("() => document.querySelectorAll('details.page[open]').length > 1")
    # A jump to the end opens the last one.
    press(page, "g", "G")
    page.wait_for_function("() => { const last = [...document.querySelectorAll('#windows > :not(.dead)')].at(-1); return last.open && last.getBoundingClientRect().bottom < innerHeight + 5; }")
    # Found in a page that is closed.
    page.evaluate("scrollTo(0, 0)")
    page.locator("#find").fill("Long answer 480 ")
    page.locator("#found p", has_text="1 hit").wait_for()
    page.locator("#found a").first.click()
    page.locator("#windows").get_by_text("Long answer 480 ").first.wait_for()
    settled(page)
    assert page.locator(".target").evaluate("(one) => one.closest('details.page').open && one.getBoundingClientRect().top < innerHeight")
    # A list of hits that is cut says so.
    page.locator("#find").fill("oftenword")
    page.locator("#found p", has_text="500 hits").wait_for()
    assert page.locator("#found li").count() == 100
    page.locator("#found", has_text="and 400 more").wait_for()
    page.keyboard.press("Escape")
    # A deep link opens the page it is on.
    page.goto("about:blank")
    page.goto(out.as_uri() + "#turn-450")
    page.wait_for_function("() => { const top = document.getElementById('turn-450').getBoundingClientRect().top; return top >= 0 && top < 300; }")
    # Keys.
    page.keyboard.press("n")
    page.locator("#turn-451.at-item").wait_for()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator("#turn-451 .copy").click()
    copied(page, "> Long question 450", "Long answer 450")
    assert "451 oftenword" not in page.evaluate("navigator.clipboard.readText()")
    page.goto(out.as_uri() + "#turn-8")
    page.wait_for_function("() => document.getElementById('turn-8').getBoundingClientRect().top >= 0")
    edit = page.locator("details.call").first
    edit.locator("summary").click()
    edit.locator(".diff ins").wait_for()
    page.keyboard.press("d")
    edit.locator(".diff.two").wait_for()
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.keyboard.press("t")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before
    page.keyboard.press("?")
    page.locator("#help[open]").wait_for()
    page.keyboard.press("Escape")
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    lab.clean(page)
    page.context.close()
    # Without scripts, pages open with a click.
    page = lab.page(out.as_uri(), java_script_enabled=False)
    page.locator("details.page > summary").nth(2).click()
    page.locator("details.page").nth(2).locator(".answer").first.wait_for()
    page.context.close()


def test_redacted_pages(lab):
    """`view --redact`: no page has the secret, however it is opened."""
    secret = "ghp_" + "a1B2" * 9
    page = lab.page(lab.serve("11111111"))
    page.get_by_text("the last text of all").wait_for()
    press(page, "g")
    page.locator("#turn-1").wait_for()
    assert secret in page.content(), "the pages show what the file holds"
    page = lab.page(lab.serve("--redact", "11111111"))
    page.get_by_text("the last text of all").wait_for()
    press(page, "g")
    page.locator(".item.prompt", has_text="[redacted:github-token").first.wait_for()
    open_all(page)
    page.locator("#L1 [data-raw]").click()
    page.locator("#show[open] pre", has_text="[redacted:github-token").wait_for()
    page.keyboard.press("Escape")
    page.locator("#find").fill("token")
    page.locator("#found a").first.wait_for()
    assert secret not in page.content()


def test_the_canary_sings(lab):
    """Pages without escaping, with the same payloads: what would run or leave is noticed."""
    def control(name, payloads):
        path = lab.work / f"{name}.html"
        path.write_text("<!doctype html><title>x</title><div>" + "<div>".join(payloads), "utf-8")
        context = lab.context()
        # Nobody waits for a server that is not there.
        context.route(re.compile("//evil\\.test"), lambda route: route.abort())
        page = context.new_page()
        page.goto(path.as_uri(), wait_until="commit")
        return page

    def until(page, words, what):
        for _ in range(PATIENCE // 100):
            if what():
                return
            page.wait_for_timeout(100)
        raise AssertionError(f"{words} is not noticed")
    # This one leaves the page at once, and takes with it what ran there.
    leaves = [one for one in PAYLOADS if "http-equiv" in one]
    page = control("leaves", leaves)
    until(page, "a page that goes elsewhere", lambda: [one for one in page.context.outside if one.startswith(EVIL)])
    page.context.close()
    page = control("control", [one for one in PAYLOADS if one not in leaves])
    until(page, "a script", lambda: page.context.sung)
    assert page.evaluate("window.__ran") == 1
    for loaded in ["b.png", "c.css", "d"]:
        until(page, f"a request for {loaded}", lambda: any(one.endswith("/" + loaded) for one in page.context.outside))
    try:
        lab.clean(page)
        raise RuntimeError("a page on which something ran counts as clean")
    except AssertionError:
        pass
    page.context.close()
    # Each way to run something by itself, so that one that works does not hide the others.
    for payload in [f"<script>{RUN}</script>", f'"><img src=x onerror="{RUN}">', f"'><svg onload='{RUN}'>", f"<details open ontoggle={RUN}>"]:
        assert any(payload in one for one in PAYLOADS), payload
        page = control("one", [payload])
        until(page, payload, lambda: page.context.sung)
        page.context.close()


def test_attacks(lab):
    # Also without the policy, so that escaping alone is seen to hold.
    for bypass in [False, True]:
        page = lab.page(lab.serve("66666666"), bypass_csp=bypass)
        page.get_by_text("the last text of all").wait_for()
        lab.clean(page)
        if not bypass:
            lab.shot(page, "attack")
        pages, count = page.url, 0
        for turn in range(1, 30, 3):
            page.goto(f"{pages}?turn={turn}")
            settled(page)
            open_all(page)
            count += page.locator(".item").count()
            assert page.locator("a .item, a .turn, a .window, a a").count() == 0, "a link goes on behind its text"
            lab.clean(page)
        assert count > 100, count
        page.evaluate("document.querySelectorAll('.item, summary').forEach((one) => one.dispatchEvent(new MouseEvent('mouseover', {bubbles: true})))")
        page.locator("[data-raw]").first.click()
        page.locator("#show pre").wait_for()
        page.keyboard.press("Escape")
        page.locator("#find").fill("script")
        page.locator("#found a").first.wait_for()
        lab.clean(page)
        for link in page.locator("main a[href]").all():
            href = link.get_attribute("href")
            assert href.startswith(("#", "/", "http://", "https://")), href
        for part in ["", "usage?by=tool", "usage?by=project", "usage?by=agent", "compare?a=66666666&b=11111111"]:
            page.goto("/".join(pages.split("/")[:4]) + "/" + part)
            page.wait_for_load_state("networkidle")
            lab.clean(page)
        assert page.url.startswith("/".join(pages.split("/")[:4])), page.url
        page.context.close()


def test_file(lab):
    for name in ["11111111", "66666666"]:
        path = lab.work / f"{name}.html"
        done = lab.quipu("export", "html", name, "-o", str(path))
        assert done.returncode == 0, done.stderr
        data = path.read_bytes()
        assert b"ghp_a1B2" not in data
        # Outside of our script, no markup of the transcript is in the bytes.
        markup = re.sub(rb"<script>'use strict'.*?</script>", b"", data, flags=re.S)
        assert b"<zqx" not in data and b"zqx a='" not in data
        assert not Markup(markup.decode()).bad, Markup(markup.decode()).bad[:3]
        for part in [b"<script", b"<img src=x", b"<svg onload", b"<iframe", b"onerror=\"", b"<base", b"<form action", b"<style>@import", b"http-equiv=\"refresh"]:
            assert part not in markup, part
        for bypass in [False, True]:
            page = lab.page(path.as_uri(), bypass_csp=bypass)
            page.locator(".item").first.wait_for(state="attached")
            open_all(page)
            lab.clean(page)
            page.context.close()
    path = lab.work / "11111111.html"
    assert lab.quipu("export", "html", "11111111", "-o", str(path)).returncode != 0, "it overwrites"
    inside = lab.home / "projects" / "-w-demo" / "x.html"
    assert lab.quipu("export", "html", "11111111", "-o", str(inside)).returncode == 2 and not inside.exists()
    page = lab.page(path.as_uri())
    page.get_by_text("Please fix the parser").first.wait_for()
    lab.shot(page, "file")
    page.locator("#find").fill("hiddenneedle")
    page.locator("#found a").first.click()
    page.locator("pre.out", has_text="hiddenneedle").first.wait_for()
    # Dead ends are below the conversation, folded, and the panel leads there.
    assert page.locator("details.page.dead").count() == 1 and page.locator("details.page.dead[open]").count() == 0
    page.locator(".panel[data-name=branches] summary").first.click()
    page.locator(".panel[data-name=branches] a", has_text="A dead end").first.click()
    page.locator("details.page.dead[open]").get_by_text("nobody continues here").wait_for()
    page.goto(path.as_uri() + "#turn-60")
    page.wait_for_function("() => (() => { const top = document.getElementById('turn-60').getBoundingClientRect().top; return top >= 0 && top < 300; })()")
    page.get_by_text(re.compile(r"[1-9]\d* secrets? redacted")).wait_for()
    page.context.close()
    page = lab.page(path.as_uri(), java_script_enabled=False)
    page.get_by_text("Please fix the parser").first.wait_for()
    page.locator("details.call summary").first.click()
    page.get_by_text("hiddenneedle failed").first.wait_for()
    page.context.close()
    both = lab.work / "both.html"
    assert lab.quipu("export", "html", "11111111", "--with-session", "-o", str(both)).returncode == 0
    page = lab.page(both.as_uri())
    page.get_by_text("quipu unpack").first.wait_for()
    lab.clean(page)
    other = lab.work / "other"
    (other / "projects").mkdir(parents=True)
    listed = lab.quipu("--home", str(other), "unpack", str(both), "--list")
    assert listed.returncode == 0 and b"11111111" in listed.stdout, listed.stderr
    out = lab.quipu("export", "html", "11111111", "--turns", "2-3", "--no-tools", "--no-thinking").stdout
    assert b"A dead end" not in out and b"The live way" in out and b"Please fix the parser. token" not in out.split(b"id=\"windows\"")[1] and b"hiddenneedle" not in out


def test_phone_and_dark(lab):
    url = lab.serve("11111111")
    page = lab.page(url, color_scheme="dark")
    page.get_by_text("the last text of all").wait_for()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(22, 24, 28)"
    root = "/".join(page.url.split("/")[:4]) + "/"
    session = page.url
    page.set_viewport_size({"width": 390, "height": 800})
    for name, address in [("session", session), ("home", root), ("usage", root + "usage"), ("compare", root + "compare")]:
        page.goto(address)
        settled(page)
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, (name, wide)
        lab.shot(page, f"phone-{name}")
    for address in [session + "?turn=1", root + "usage?by=model", root + "compare?a=11111111&b=00000003"]:
        page.goto(address)
        settled(page)
        page.evaluate("document.querySelectorAll('.panel').forEach((one) => { one.open = true; })")
        open_all(page)
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, (address, wide)
    # Who chooses light gets it again.
    page.goto(session)
    settled(page)
    page.keyboard.press("t")
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert light != "rgb(22, 24, 28)"
    page.reload()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == light


def test_samples(lab):
    """The sessions that come with the program; `view-home` and `view-session` are the pictures of the documentation."""
    home = lab.work / "samples"
    shutil.copytree(pathlib.Path(__file__).resolve().parents[4] / "samples" / "home", home)
    for path in home.glob("projects/*/*.jsonl"):
        times = re.findall(rb'"timestamp":"([^"]+)"', path.read_bytes())
        when = datetime.datetime.fromisoformat(max(times).decode().replace("Z", "+00:00")).timestamp()
        os.utime(path, (when, when))
    page = lab.page(lab.serve("--home", str(home)))
    page.set_viewport_size({"width": 1180, "height": 780})
    page.get_by_text("10 sessions").wait_for()
    page.locator("#usage figure > svg").wait_for(state="attached")
    page.wait_for_function("() => [...document.querySelectorAll('[data-health]')].slice(0, 6).every((one) => one.textContent)")
    lab.shot(page, "view-home")
    page.get_by_text("the hour in my boots").click()
    page.locator("#turn-3").wait_for()
    page.locator(".panel[data-name=context] summary").first.click()
    page.get_by_text("tokens would be sent").wait_for()
    edit = page.locator("details.call", has_text="tests/test_tides.py").filter(has_text="+6").first
    edit.locator("summary").first.click()
    edit.locator("ins").first.wait_for()
    settled(page)
    page.evaluate("scrollBy(0, document.getElementById('turn-3').getBoundingClientRect().top - 120)")
    settled(page)
    lab.shot(page, "view-session")


def test_refusals(lab):
    url = urllib.parse.urlparse(lab.serve("11111111"))

    def ask(path, method="GET", **headers):
        connection = http.client.HTTPConnection("127.0.0.1", url.port, timeout=10)
        connection.request(method, path, headers={"Host": url.netloc, **{name.replace("_", "-"): value for name, value in headers.items()}})
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    assert ask("/")[0] == 403
    assert ask("/open/" + "0" * 32)[0] == 403
    assert ask(url.path, Host="127.0.0.1")[0] == 421
    assert ask(url.path, Host="evil.test")[0] == 421
    assert ask(url.path, Origin="http://evil.test")[0] == 403 and ask(url.path, Origin="http://\xe9")[0] == 403
    assert ask(url.path, Sec_Fetch_Dest="iframe")[0] == 403
    status, headers, _ = ask(url.path)
    assert status == 303 and "HttpOnly" in headers["set-cookie"] and "SameSite=Strict" in headers["set-cookie"]
    assert ask(url.path)[0] == 403, "the token works twice"
    cookie, place = headers["set-cookie"].split(";")[0], headers["location"]
    root = "/" + place.split("/")[1] + "/"
    status, headers, data = ask(place, Cookie=cookie)
    assert status == 200 and b"the last text" in data
    assert "default-src 'none'" in headers["content-security-policy"] and "unsafe" not in headers["content-security-policy"]
    assert ask(place)[0] == 403 and ask("/wrong/" + place.split("/", 2)[2], Cookie=cookie)[0] == 403
    for refused in [{"Origin": "http://evil.test"}, {"Origin": "null"}, {"Sec_Fetch_Site": "cross-site"}, {"Sec_Fetch_Site": "same-site"}, {"Host": f"127.0.0.1:{url.port}"}]:
        assert ask(place, Cookie=cookie, **refused)[0] in (403, 421), refused
    # Two names: of none it is known who believes it.
    connection = http.client.HTTPConnection("127.0.0.1", url.port, timeout=10)
    connection.putrequest("GET", place, skip_host=True)
    for name, value in [("Host", url.netloc), ("Host", "evil.test"), ("Cookie", cookie)]:
        connection.putheader(name, value)
    connection.endheaders()
    assert connection.getresponse().status in (400, 421)
    for method in ["POST", "PUT", "DELETE", "OPTIONS"]:
        assert ask(place, method, Cookie=cookie)[0] == 405
    for trick in ["s/../../etc/passwd", "s/%2e%2e%2f%2e%2e%2fetc%2fpasswd", "s//etc/passwd", "s/" + str(lab.one), "../s", "s/0000/raw/m/1", place[len(root):] + "/raw/m/../../x", place[len(root):] + "/part/m/99999999"]:
        status, _, data = ask(root + trick, Cookie=cookie)
        assert status == 404 or b"root:" not in data and len(data) < 1000, (trick, status, data[:200])
    before = {path: path.stat().st_mtime_ns for path in lab.home.rglob("*")}
    ask(root, Cookie=cookie)
    assert before == {path: path.stat().st_mtime_ns for path in lab.home.rglob("*")}


def test_commands_stay_commands(lab):
    """A command that is shown to be copied names the file, whatever it is called, and does nothing else."""
    odd = lab.work / "odd" / "a b$(touch ran);' <b>.jsonl"
    small = Session()
    small.prompt("x")
    small.answer(text("the last text of all"))
    small.write(odd)
    page = lab.page(lab.serve(str(odd)))
    page.get_by_text("the last text of all").wait_for()
    assert shlex.split(page.locator(".resume code").inner_text())[-2:] == ["resume", str(odd)]
    page.locator("#turn-1 .fork").click()
    assert shlex.split(page.locator("#show[open] pre").inner_text())[-4:] == ["fork", str(odd), "--at", "1"]
    lab.clean(page)


def test_axe(lab):
    if not lab.args.axe:
        print("     left out: no axe-core")
        return
    source = pathlib.Path(lab.args.axe).read_text("utf-8")
    bad = []
    path = lab.work / "axe.html"
    lab.quipu("export", "html", "11111111", "-o", str(path))
    for scheme in ["light", "dark"]:
        page = lab.page(lab.serve("11111111"), color_scheme=scheme, bypass_csp=True)
        page.get_by_text("the last text of all").wait_for()
        root = "/".join(page.url.split("/")[:4]) + "/"
        session = page.url

        def judge(what):
            page.wait_for_function("() => ![...document.querySelectorAll('details[open] > .lazy')].some((one) => one.textContent.includes('Reading'))")
            page.evaluate(source)
            found = page.evaluate("axe.run({resultTypes: ['violations']})")
            for one in found["violations"]:
                if one["impact"] in ("serious", "critical"):
                    bad.append(f"{scheme} {what}: {one['id']} {one['nodes'][0]['html'][:140]} {one['nodes'][0].get('failureSummary', '')[:200]}")
        page.locator(".panel[data-name=branches] summary").first.click()
        dead = root + page.locator(".panel[data-name=branches] a", has_text="A dead end").first.get_attribute("href").split("/", 2)[2]
        for address in [session, session + "?turn=1", dead, session + "?flow=a0", root, root + "usage", root + "usage?by=model", root + "compare", root + "compare?a=11111111&b=00000003", path.as_uri()]:
            page.goto(address)
            settled(page)
            press(page, "e")
            page.evaluate("document.querySelectorAll('.panel, .strip details, .page').forEach((one) => { one.open = true; })")
            judge(address[len(root) - 1:][-40:])
        page.goto(session)
        settled(page)
        for key, dialog in [("?", "#help"), ("r", "#show")]:
            page.keyboard.press(key)
            page.locator(dialog + "[open]").wait_for()
            judge("dialog " + dialog)
            page.keyboard.press("Escape")
        page.context.close()
    assert not bad, "\n" + "\n".join(bad)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("quipu")
    parser.add_argument("chromium")
    parser.add_argument("work")
    parser.add_argument("axe", nargs="?")
    parser.add_argument("--shots")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    failed = 0
    with sync_playwright() as playwright:
        lab = Lab(args, playwright)
        for name, test in [(name, test) for name, test in globals().items() if name.startswith("test_") and args.only in name]:
            lab.seen.clear()
            try:
                test(lab)
                assert not lab.seen, f"errors of the script: {lab.seen[:3]}"
                print(f"ok   {name[5:]}", flush=True)
            except Exception:  # noqa: BLE001
                failed += 1
                print(f"BAD  {name[5:]}\n{traceback.format_exc(limit=4)}", flush=True)
            for server in lab.servers:
                server.kill()
            for context in lab.browser.contexts:
                context.close()
            lab.servers.clear()
        lab.browser.close()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
