#!/usr/bin/env python3
"""Making sessions smaller: quipu beside ccs-cloner, claude-code-tools and cozempic.

    bench/surgery.py [--rounds 3] [--sessions 12] [--megabytes 100] [--write]

Each program strips the same sessions, each in a home of its own: recordings of every client version and sessions of the corpus. Two judges look at what
comes out: `quipu check`, and the real client, which resumes it against a scripted API (versions under target/real, from `./test real`): of what people and
the model said in the original's request, how much is not in the new one any more, and would the API take it. Then one session of many megabytes: time and memory,
best of the rounds, with a warm cache. Everything it makes is under target/bench. `--write` puts the result into docs/comparison.md. Exit 1 if a goal is missed.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import checking  # noqa: E402
import reading  # noqa: E402
from reading import ROOT, WORK, best  # noqa: E402

SHARED = ROOT.parent / "shared"
PLACE = WORK / "surgery"
NPM, VENV = PLACE / "npm", PLACE / "python"
QUIPU = ROOT / "target" / "release" / "quipu"
SESSION = checking.SESSION
PEERS = ["ccs-cloner@0.5.0", "claude-code-tools==1.30.2", "cozempic==1.8.39"]


def install():
    if not (NPM / "node_modules" / ".bin" / "ccs-cloner").exists():
        subprocess.run(["npm", "install", "--silent", "--no-fund", "--no-audit", "--prefix", str(NPM), PEERS[0]], check=True)
    if not (VENV / "bin" / "cozempic").exists():
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
        subprocess.run([str(VENV / "bin" / "pip"), "install", "-q", *PEERS[1:]], check=True)


# What is counted of what is sent.
KINDS = ("tool_use", "tool_result", "thinking")


def programs():
    """Name, what it is asked for, and the command; `{}` is the session's file."""
    node, python = NPM / "node_modules" / ".bin", VENV / "bin"
    return {
        "quipu extreme": [str(QUIPU), "strip", "{}", "--preset", "extreme", "--json"],
        "quipu heavy": [str(QUIPU), "strip", "{}", "--preset", "heavy", "--json"],
        "quipu light": [str(QUIPU), "strip", "{}", "--preset", "light", "--json"],
        "ccs-cloner extreme": [str(node / "ccs-cloner"), "clone", SESSION, "--strip-tools=extreme", "--json"],
        "ccs-cloner default": [str(node / "ccs-cloner"), "clone", SESSION, "--strip-tools=default", "--json"],
        "aichat trim": [str(python / "aichat"), "trim", "{}", "--simple-ui"],
        "cozempic aggressive": [str(python / "cozempic"), "treat", "{}", "-rx", "aggressive", "--execute"],
        "cozempic standard": [str(python / "cozempic"), "treat", "{}", "-rx", "standard", "--execute"],
    }


def surroundings(home):
    return {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "CLAUDE_CONFIG_DIR": str(home / ".claude"),
            "COZEMPIC_NO_GLOBAL_INIT": "1", "COZEMPIC_NO_AUTO_INIT": "1", "XDG_STATE_HOME": str(home / "state")}


class Lab:
    """A home with one session in it, and the real client."""

    def __init__(self, name):
        self.home = PLACE / "homes" / name
        shutil.rmtree(self.home, ignore_errors=True)
        self.cwd = self.home / "work"
        self.cwd.mkdir(parents=True)
        self.project = self.home / ".claude" / "projects" / re.sub(r"[^A-Za-z0-9]", "-", str(self.cwd))
        self.project.mkdir(parents=True)
        # aichat wants to see it.
        (self.home / ".codex").mkdir()
        trusted = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
        state = {"hasCompletedOnboarding": True, "projects": {str(self.cwd): trusted}}
        for path in (self.home / ".claude.json", self.home / ".claude" / ".claude.json"):
            path.write_text(json.dumps(state))
        self.path = self.project / f"{SESSION}.jsonl"

    def age(self):
        """Files that were written to this very moment are left alone by some, and very old ones by others."""
        an_hour_ago = time.time() - 3600
        os.utime(self.path, (an_hour_ago, an_hour_ago))

    def run(self, argv, timeout=600):
        argv = [part.replace("{}", str(self.path)) for part in argv]
        return subprocess.run(argv, env=surroundings(self.home), cwd=self.cwd, stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=timeout)

    def result(self, before):
        """The file that a program has made, or changed."""
        made = [path for path in self.project.glob("*.jsonl") if path != self.path]
        if made:
            return max(made, key=lambda path: path.stat().st_mtime_ns)
        return self.path if self.path.read_bytes() != before else None

    def sent(self, start, api, path):
        """What the client sends if it goes on with that session; nothing if it does not."""
        environment = surroundings(self.home) | {
            "ANTHROPIC_API_KEY": "sk-ant-test-not-a-key", "ANTHROPIC_BASE_URL": api.url, "IS_SANDBOX": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "DISABLE_TELEMETRY": "1"}
        mark = api.mark()
        done = subprocess.run([*start, "-p", "--dangerously-skip-permissions", "--resume", path.stem, "And now?"], env=environment,
                              cwd=self.cwd, stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
        requests = api.since(mark)
        return requests[0]["messages"] if done.returncode == 0 and requests else None


class Api:
    """The scripted API of ../shared/lab."""

    def __init__(self):
        sys.path.insert(0, str(SHARED / "lab"))
        import fake_api
        self.log = PLACE / "requests.jsonl"
        self.log.unlink(missing_ok=True)
        scenario = {"name": "surgery", "replies": [], "default": {"content": [{"type": "text", "text": "Done."}]}}
        self.server, _ = fake_api.serve(scenario, str(self.log))
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def mark(self):
        return self.log.stat().st_size if self.log.exists() else 0

    def since(self, mark):
        with open(self.log, "rb") as log:
            log.seek(mark)
            bodies = [json.loads(line).get("body") for line in log]
        return [body for body in bodies if isinstance(body, dict) and body.get("tools") and "And now?" in json.dumps(body["messages"][-2:])]


def blocks(message):
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else content or []


# What the client says itself.
MADE = ("<system-reminder>", "And now?", "<local-command", "<command-", "No response requested.", "Continue from where you left off.", "(no content)")
ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def words(block):
    """The text of a block; a new session has other ids in it."""
    return ID.sub("ID", block.get("text", "")).strip() if block.get("type") == "text" else ""


def spoken(messages):
    """What people and the model said, without what the client adds and what tools say."""
    said = []
    for message in messages:
        for block in blocks(message):
            text = words(block)
            if text and not text.startswith(MADE) and message["role"] != "system":
                said.append(text)
    return said


def refused(messages):
    """Why the API would not take these messages; nothing if it would."""
    turns = []
    for message in messages:
        if message["role"] == "system":
            continue
        if turns and turns[-1][0] == message["role"]:
            turns[-1][1].extend(blocks(message))
        else:
            turns.append((message["role"], list(blocks(message))))
    asked = []
    for role, parts in turns:
        results = [part.get("tool_use_id") for part in parts if part.get("type") == "tool_result"]
        if [call for call in asked if call not in results]:
            return "a call without its result"
        if [result for result in results if result not in asked]:
            return "a result without its call"
        asked = [part.get("id") for part in parts if part.get("type") == "tool_use"]
        if not parts or any(part.get("type") == "text" and not part.get("text", "").strip() for part in parts):
            return "an empty text"
        if role == "assistant" and parts[-1].get("type") in ("thinking", "redacted_thinking"):
            return "an answer that ends in thinking"
    return None


def clients():
    found = {}
    for folder in sorted((ROOT / "target" / "real" / "clients").glob("*")):
        modules = folder / "node_modules" / "@anthropic-ai"
        binary = modules / "claude-code-linux-x64" / "claude"
        found[folder.name] = [str(binary)] if binary.exists() else ["node", str(modules / "claude-code" / "cli.js")]
    if not found:
        sys.exit("there is no client under target/real: run `./test real` first")
    return found


def verdict(path, version):
    done = subprocess.run([str(QUIPU), "check", str(path), "--as", version, "--json"], capture_output=True, env={"PATH": os.environ["PATH"]})
    return json.loads(done.stdout)["verdict"] if done.stdout else "unreadable"


def sessions(count):
    """Recordings with most calls of every version, then the corpus; only those that resume fully."""
    found, seen = [], set()
    for top, most in (("recordings", 1), ("corpus", count)):
        groups = {}
        for path in sorted((SHARED / top).rglob("*.jsonl"), key=lambda path: -min(path.stat().st_size, 300_000)):
            data = path.read_bytes()
            named = path.name.startswith("agent-") or path.name in ("requests.jsonl", "history.jsonl", "stdout.jsonl")
            if named or "subagents" in path.parts or len(data) > 300_000 or b'"tool_use"' not in data or data in seen:
                continue
            group = path.relative_to(SHARED / top).parts[0] if top == "recordings" else top
            if groups.get(group, 0) >= most or verdict(path, "2.1.325") != "full":
                continue
            groups[group] = groups.get(group, 0) + 1
            seen.add(data)
            found.append((str(path.relative_to(SHARED)), data))
    return found[:count]


ORDER = ["full", "loss", "rejected", "refused", "unreadable"]


def judge(chosen, api):
    """For each program: sessions done, size, what `check` calls worse, what the client loses or cannot send."""
    starts = clients()
    rows = {}
    base = {}
    for name, argv in programs().items():
        row = {"done": 0, "nothing": 0, "failed": 0, "before": 0, "after": 0, "worse": [], "broken": [],
               "sent": {kind: [0, 0] for kind in KINDS}}
        for label, data in chosen:
            lab = Lab(name.replace(" ", "-"))
            lab.path.write_bytes(data)
            if label not in base:
                base[label] = {}
                for version, start in starts.items():
                    base[label][version] = lab.sent(start, api, lab.path)
                    # The client has written to it.
                    lab = Lab(name.replace(" ", "-"))
                    lab.path.write_bytes(data)
            lab.age()
            done = lab.run(argv)
            result = lab.result(data)
            if result is None:
                row["nothing" if done.returncode == 0 else "failed"] += 1
                continue
            row["done"] += 1
            row["before"] += len(data)
            row["after"] += result.stat().st_size
            changed = result.read_bytes()
            for version, start in starts.items():
                was, now = verdict_of(data, version), verdict(result, version)
                if ORDER.index(now) > ORDER.index(was):
                    row["worse"].append(f"{label} as {version}: {was} → {now}")
                before, after = base[label][version], lab.sent(start, api, result)
                result.write_bytes(changed)
                if before is None:
                    continue
                if after is None:
                    row["broken"].append(f"{label} in {version}: not resumed")
                    continue
                for side, messages in enumerate((before, after)):
                    for block in (block for message in messages for block in blocks(message)):
                        if block.get("type") in KINDS:
                            row["sent"][block["type"]][side] += len(json.dumps(block)) if block["type"] == "tool_result" else 1
                text = "\n".join(words(block) for message in after for block in blocks(message))
                lost = [said for said in spoken(before) if said not in text]
                why = refused(after) if refused(before) is None else None
                if why:
                    row["broken"].append(f"{label} in {version}: the API would refuse it: {why}")
                elif lost:
                    row["broken"].append(f"{label} in {version}: {len(lost)} of {len(spoken(before))} texts lost")
        rows[name] = row
        print(f"{name:22} {row['done']} done, {row['nothing']} untouched, {row['failed']} failed, {len(row['worse'])} worse, {len(row['broken'])} broken", flush=True)
    return rows


def verdict_of(data, version, known={}):
    key = (hash(data), version)
    if key not in known:
        path = PLACE / "judged.jsonl"
        path.write_bytes(data)
        known[key] = verdict(path, version)
    return known[key]


def speed(rounds):
    """Time and memory on one long session: a new copy for each run, which is not measured."""
    source = checking.HOME / "projects" / "-work" / f"{SESSION}.jsonl"
    data, rows = source.read_bytes(), {}
    slow = ("cozempic", "aichat")
    for turn in range(rounds + 1):
        for name, argv in programs().items():
            # What takes a minute is not measured again and again.
            if name.startswith(slow) and turn != 1:
                continue
            lab = Lab("speed")
            lab.path.write_bytes(data)
            lab.age()
            # Else whoever waits for the disk waits for this copy too.
            os.sync()
            peak = PLACE / "peak.txt"
            argv = ["/usr/bin/time", "-f", "%e %U %S %M", "-o", str(peak), *argv]
            done = lab.run(argv)
            result = lab.result(data)
            wall, user, system, memory = map(float, peak.read_text().split()[-4:])
            if turn > 0:
                rows.setdefault(name, []).append((user + system, wall, memory / 1024))
            if turn == 1:
                rows[name + " size"] = result.stat().st_size if result else None
                if done.returncode not in (0, 10, 11):
                    print(f"{name} ended with {done.returncode}", flush=True)
            shutil.rmtree(lab.home)
    return rows


def prose(text):
    """A paragraph or an item of a list, wrapped at 100 columns."""
    indent = "  " if text.startswith("- ") else ""
    return textwrap.fill(text, 100, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def told(chosen, rows, fast, megabytes, rounds, goals):
    versions = " and ".join(clients())
    out = ["# Comparison with other programs that change sessions", "",
           prose(f"`bench/surgery.py --write` makes this page, with {', '.join(PEERS)}. Viewers are compared in [comparison-viewers.md](comparison-viewers.md)."), "",
           prose(f"The test uses {len(chosen)} sessions that resume fully: recordings of every client version, and sessions from the corpus. "
                 "Each program has its own home. Two judges look at the results: `quipu check`, and the real client "
                 f"({versions}), which resumes them against a scripted API."), "",
           "- *Worse*: the verdict is worse than before.",
           prose("- *Broken*: the client does not resume the session, sends what the API refuses, or no longer sends what a person or the model had said. "
                 "Tool calls, results, thinking and reminders do not count, because they were meant to be removed."),
           prose("- *Left*: the share that remains of the bytes of the files, and of what the clients send: calls, bytes of results, thinking."), "",
           "*Worse* and *broken* are counted per session and client.", "",
           "| program | sessions changed | untouched | failed | bytes left | calls left | results left | thinking left | worse | broken |",
           "|---|---|---|---|---|---|---|---|---|---|"]
    for name, row in rows.items():
        left = f"{100 * row['after'] / row['before']:.0f} %" if row["before"] else "–"
        kinds = " | ".join(f"{100 * after / before:.0f} %" if before else "–" for before, after in row["sent"].values())
        out.append(f"| {name} | {row['done']} | {row['nothing']} | {row['failed']} | {left} | {kinds} | {len(row['worse'])} | {len(row['broken'])} |")
    is_whole = not any(row["worse"] or row["broken"] for row in rows.values())
    out += ["", "No session was worse or broken."] if is_whole else ["", "What was worse or broken:", ""]
    for name, row in rows.items():
        for text in row["worse"][:6] + row["broken"][:6]:
            out.append(f"- {name}: {text}")
        more = max(0, len(row["worse"]) - 6) + max(0, len(row["broken"]) - 6)
        if more:
            out.append(f"- {name}: and {more} more")
    out += ["", "## Other kinds of change", "",
            "| change | other programs |", "|---|---|",
            "| `clone` with all ids renewed | ccs-cloner renews the session's id and keeps those of the records; aichat copies |",
            "| `fork` at a turn, one branch | none |",
            "| `repair` | `fix-session` of claude-code-tools bridges missing parents; `doctor` of cozempic looks for results without calls |",
            "| undo | cozempic keeps a copy beside the file, but has no command that restores it from a list; the others make new sessions |", "",
            f"## One session of {megabytes} MB", "", f"Wall time, CPU time and peak memory. Best of {rounds} runs; aichat and cozempic: one run.", "",
            "| program | wall s | CPU s | MB | bytes left |", "|---|---|---|---|---|"]
    for name in programs():
        cpu, wall, memory = best(fast[name])
        size = fast[name + " size"]
        left = f"{size / megabytes / 1e4:.0f} %" if size else "not changed"
        out.append(f"| {name} | {wall:.2f} | {cpu:.2f} | {memory:.0f} | {left} |")
    out += [""] + [prose(f"- {text} (goal: {goal}){'' if met else ': MISSED'}.") for text, met, goal in goals]
    return "\n".join(out) + "\n"


def main():
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    args.add_argument("--rounds", type=int, default=8)
    args.add_argument("--sessions", type=int, default=12)
    args.add_argument("--megabytes", type=int, default=100)
    args.add_argument("--write", action="store_true")
    args = args.parse_args()
    if not SHARED.is_dir():
        sys.exit("there is no ../shared: nothing to measure with")
    PLACE.mkdir(parents=True, exist_ok=True)
    install()
    subprocess.run(["cargo", "build", "--release", "-q"], cwd=ROOT, check=True)
    source = checking.HOME / "projects" / "-work" / f"{SESSION}.jsonl"
    if not source.exists() or abs(source.stat().st_size - args.megabytes * 1_000_000) > 1_000_000:
        checking.make(SHARED / "corpus", args.megabytes * 1_000_000)
    fast = speed(args.rounds)
    chosen = sessions(args.sessions)
    rows = judge(chosen, Api())
    peers = [name for name in programs() if not name.startswith("quipu")]
    fastest = min(peers, key=lambda name: best(fast[name])[1])
    ratio = best(fast[fastest])[1] / best(fast["quipu extreme"])[1]
    memory = max(best(fast[name])[2] for name in programs() if name.startswith("quipu"))
    ours = [text for name in programs() if name.startswith("quipu") for text in rows[name]["worse"] + rows[name]["broken"]]
    goals = [
        (f"`strip` is {ratio:.1f} times faster than {fastest}, the fastest of the others", ratio >= 10, "at least 10"),
        (f"`strip` takes {memory:.0f} MB", memory < 100, "less than 100"),
        (f"{len(ours)} sessions that Quipu changed are worse or broken", not ours, "none"),
    ]
    text = told(chosen, rows, fast, args.megabytes, args.rounds, goals)
    print(text)
    if args.write:
        (ROOT / "docs" / "comparison.md").write_text(text)
    sys.exit(0 if all(met for _, met, _ in goals) else 1)


if __name__ == "__main__":
    main()
