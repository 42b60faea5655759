"""Plays one story: a client, a scripted API, and the keys that a person would press.

It runs inside a mount and network namespace of its own (see `record`): /home is private, and there
is no network but loopback. What must stay true: the client sees the paths, names and settings of
the made-up developer only, and a step begins when the one before it has been answered.

Steps of an interactive story:
  {"say": text, "replies": [...]}    types a prompt; waits until all replies were taken
      "meanwhile": [steps]           done while the replies are being taken
  {"type": text}  {"keys": [names]}  {"wait": regex of the screen}  {"sleep": seconds}
  {"clear": regex}                   clears the input line until the screen does not match any more
  {"served": n}                      waits until n replies of the current prompt were taken
  {"expect": [...]}, {"settle": true}   replies for what keys will ask; waits until they are taken
Steps of a printing story: {"say": text, "replies": [...], "args": [...]}; each is a run of its own.
A member "pause" (seconds) is for `finish.py`: how long the person took before this prompt.
"""

import json
import re
import shlex
import subprocess
import time
from pathlib import Path

import api

HOME = Path("/home/dev")
PROJECT = HOME / "tidepool"
CONFIG = HOME / ".claude"
KEY = "sk-ant-made-up-key-of-the-sample-sessions"
PATH = "/usr/local/bin:/usr/bin:/bin"
PATIENCE = 500
BUSY = "esc to interrupt"
READY = r"❯|>\s|\? for shortcuts|shift.tab"


def environment(story, address):
    return {
        "PATH": PATH,
        "HOME": str(HOME),
        "USER": "dev",
        "LOGNAME": "dev",
        "SHELL": "/bin/bash",
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "TMPDIR": str(HOME / ".cache"),
        "CLAUDE_CONFIG_DIR": str(CONFIG),
        "ANTHROPIC_API_KEY": KEY,
        "ANTHROPIC_BASE_URL": address,
        "DISABLE_TELEMETRY": "1",
        "DISABLE_ERROR_REPORTING": "1",
        "DISABLE_AUTOUPDATER": "1",
        "DISABLE_BUG_COMMAND": "1",
        "ENABLE_PROMPT_SUGGESTION": "0",
        "CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION": "0",
        "IS_SANDBOX": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "GIT_AUTHOR_NAME": "Dev",
        "GIT_AUTHOR_EMAIL": "dev@example.com",
        "GIT_COMMITTER_NAME": "Dev",
        "GIT_COMMITTER_EMAIL": "dev@example.com",
        "GIT_AUTHOR_DATE": story["starts"],
        "GIT_COMMITTER_DATE": story["starts"],
        **story.get("env", {}),
    }


def configure(story):
    """Enough settings for the client to skip its first-run pages and most questions."""
    CONFIG.mkdir(parents=True)
    (HOME / ".cache").mkdir()
    state = {
        "hasCompletedOnboarding": True,
        "lastOnboardingVersion": "99.0.0",
        "theme": "dark",
        "numStartups": 5,
        "customApiKeyResponses": {"approved": [KEY[-20:]], "rejected": []},
        "bypassPermissionsModeAccepted": True,
        "projects": {
            str(PROJECT): {
                "hasTrustDialogAccepted": True,
                "hasCompletedProjectOnboarding": True,
                "allowedTools": [],
            }
        },
    }
    for folder in (HOME, CONFIG):
        (folder / ".claude.json").write_text(json.dumps(state))
    settings = {"permissions": {"allow": ["Bash", "Read", "Edit", "Write"]}}
    (CONFIG / "settings.json").write_text(json.dumps({**settings, **story.get("settings", {})}))


def squeezed(text):
    return re.sub(r"\s+", "", text)


class Terminal:
    """A client in tmux."""

    def __init__(self, argv, env, screens):
        self.env, self.screens = env, screens
        command = shlex.join(argv) + "; echo CLIENT-ENDED; sleep 600"
        self.tmux("new-session", "-d", "-s", "story", "-x", "120", "-y", "50", command)

    def tmux(self, *args):
        argv = ["tmux", "-S", str(HOME / "tmux.sock"), "-f", "/dev/null", *args]
        done = subprocess.run(argv, env=self.env, cwd=PROJECT, capture_output=True, text=True)
        return done.stdout

    def screen(self):
        return self.tmux("capture-pane", "-p", "-t", "story")

    def type(self, text):
        # At once, it would be a paste, and Enter a part of it.
        for start in range(0, len(text), 16):
            self.tmux("send-keys", "-t", "story", "-l", "--", text[start : start + 16])
            time.sleep(0.08)
        wait_for("the typed text", lambda: squeezed(text) in squeezed(self.screen()))
        time.sleep(1)

    def press(self, keys):
        for key in keys:
            self.tmux("send-keys", "-t", "story", key)
            time.sleep(0.25)

    def note(self, step):
        self.screens.write(f"===== {json.dumps(step)[:200]}\n{self.screen().rstrip()}\n")
        self.screens.flush()


def wait_for(what, holds, patience=PATIENCE):
    end = time.monotonic() + patience
    while not holds():
        if time.monotonic() > end:
            raise RuntimeError(f"waited in vain for {what}")
        time.sleep(0.1)


def settle(script, screen=lambda: ""):
    """Waits until every reply was taken and the client rests."""

    def resting():
        return script.done() and BUSY not in screen()

    wait_for("the replies to be taken", resting)
    time.sleep(1.5)
    wait_for("the client to rest", resting)


def interactive(story, argv, env, script, screens):
    terminal = Terminal(argv, env, screens)
    def run(step):
        if "type" in step:
            terminal.type(step["type"])
        if "keys" in step:
            terminal.press(step["keys"])
        if "expect" in step:
            script.expect(step["expect"])
        if "say" in step:
            script.expect(step.get("replies", []))
            terminal.type(step["say"])
            terminal.press(["Enter"])
            # On a busy machine, Enter may still count as a part of the text: press it again.
            for _ in range(3 if step.get("replies") else 0):
                if any(script.served or time.sleep(0.1) for _ in range(80)):
                    break
                terminal.press(["Enter"])
            for inner in step.get("meanwhile", []):
                run(inner)
            settle(script, terminal.screen)
        if "served" in step:
            wait_for("a reply to be taken", lambda: script.served >= step["served"])
        if "sleep" in step:
            time.sleep(step["sleep"])
        if "wait" in step:
            wait_for(step["wait"], lambda: re.search(step["wait"], terminal.screen()))
        if "clear" in step:
            gone = 0
            while gone < 4:
                terminal.press(["C-u"])
                time.sleep(1)
                gone = 0 if re.search(step["clear"], terminal.screen()) else gone + 1
        if step.get("settle"):
            settle(script, terminal.screen)
        terminal.note(step)

    try:
        wait_for("the input line", lambda: re.search(READY, terminal.screen()))
        time.sleep(2)
        for step in story["steps"]:
            run(step)
        terminal.type("/exit")
        terminal.press(["Enter"])
        time.sleep(1)
        if "CLIENT-ENDED" not in terminal.screen():
            terminal.press(["Enter"])
        wait_for("the client's end", lambda: "CLIENT-ENDED" in terminal.screen())
    except RuntimeError:
        terminal.note({"failed": True})
        raise
    finally:
        terminal.tmux("kill-server")


def printing(story, argv, env, script, screens):
    for number, step in enumerate(story["steps"]):
        script.expect(step["replies"])
        which = ["--resume" if number else "--session-id", story["session"]]
        whole = [*argv, "-p", *which, *step.get("args", []), step["say"]]
        done = subprocess.run(
            whole, env=env, cwd=PROJECT, capture_output=True, text=True, timeout=120,
            stdin=subprocess.DEVNULL,
        )
        screens.write(f"===== {whole}\n{done.stdout}\n{done.stderr}\n")
        if done.returncode != 0:
            raise RuntimeError(f"the client ended with {done.returncode}: {done.stderr}")
        settle(script)


def play(story, client, log_folder):
    """Plays a story; /home/dev/.claude then holds what the client wrote."""
    configure(story)
    address, script = api.serve(story)
    env = environment(story, address)
    argv = [*client, *story.get("args", [])]
    if story["mode"] == "interactive" and story.get("named", True):
        argv += ["--session-id", story["session"]]
    with open(log_folder / "screens.txt", "w", encoding="utf-8") as screens:
        try:
            player = interactive if story["mode"] == "interactive" else printing
            player(story, argv, env, script, screens)
        finally:
            with open(log_folder / "requests.jsonl", "w", encoding="utf-8") as log:
                for entry in script.log:
                    log.write(json.dumps(entry, ensure_ascii=False) + "\n")
    lanes = [entry["lane"] for entry in script.log]
    if "extra" in lanes or script.queue or any(script.agents.values()):
        raise RuntimeError(f"requests and replies do not match: {lanes}")
