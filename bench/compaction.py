#!/usr/bin/env python3
"""What is left of a session after `/compact`, beside the real client, with the same scripted API and the same model's words.

Twenty prompts, each with a file that is read, a command, a file that is written and an answer with a number; todos where there is a tool for them. Then `/compact` and one more prompt. What was sent before and after is compared: of the prompts, paths, commands, numbers and open todos, how many still occur word for word? Once the model's summary says nothing, so that only what the program itself keeps is left; once it does what the program's own order asks for: both name the files and the commands of half of the turns, and 2.1.325's, which is told to list all messages of the user, does so. `quipu compress --to` of the session that the real client wrote has, without a model, as many tokens as that client sends.

    bench/compaction.py [--only PROGRAM]
"""
import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import agents  # noqa: E402
from chat import QUIPU, programs  # noqa: E402

TURNS = 20
WORDS = "the parser drops the last field when a row ends with a blank, so look at how widths are counted and say what you would change first".split()


def prompt(turn):
    shift = WORDS[turn % len(WORDS):] + WORDS[:turn % len(WORDS)]
    return f"Step {turn} of the work: {' '.join(shift * 2)}, and keep ticket QX-{7000 + turn * 13} in mind."


def command(turn):
    return f"grep -c needle{turn} src/part{turn}.txt | tee -a counts.log"


def todo(number):
    return f"Rewrite chapter {number} of the widget manual"


class Api(agents.Api):
    def __init__(self, cwd, words):
        self.cwd, self.words, self.turn, self.step, self.sent = cwd, words, 0, 0, []
        super().__init__()

    def blocks(self, body):
        self.number += 1
        said = lambda words: [{"type": "text", "text": words}]
        call = lambda name, given: {"type": "tool_use", "id": f"toolu_{self.number:06}{name}{len(str(given))}", "name": name, "input": given}
        last = json.dumps(body["messages"][-3:])
        tools = [tool["name"] for tool in body.get("tools", [])]
        if "about to be replaced by a summary" in last or "detailed summary" in last:
            return said(f"<analysis>All of it.</analysis>\n<summary>{self.words}</summary>")
        # What 2.1.325 says in messages of the role `system`, others say before them.
        self.sent.append([message for message in body["messages"] if message["role"] != "system"])
        number = re.findall(r"Step (\d+) of the work", text_of(body["messages"][-3:]))
        if number and int(number[-1]) > self.turn:
            self.turn, self.step = int(number[-1]), 0
        if self.turn > TURNS:
            return said("Going on.")
        self.step += 1
        if self.step == 1:
            wanted = [call("Read", {"file_path": f"{self.cwd}/src/part{self.turn}.txt"})]
            if self.turn == 3 and "TodoWrite" in tools:
                todos = [{"content": todo(n), "status": "pending", "activeForm": f"Rewriting chapter {n}"} for n in range(4)]
                wanted.append(call("TodoWrite", {"todos": todos}))
            return wanted
        if self.step == 2:
            write = {"file_path": f"{self.cwd}/out/note{self.turn}.md", "content": f"Note {self.turn}\n"}
            return [call("Bash", {"command": command(self.turn), "description": "Count"}), call("Write", write)]
        return said(f"Step {self.turn} is done: {4000 + self.turn * 17} rows are left. " + " ".join(WORDS) * 3)


def text_of(value):
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(map(text_of, value))
    return "\n".join(text_of(one) for name, one in value.items() if name not in ("type", "id", "role")) if isinstance(value, dict) else ""


def facts(cwd, has_todos):
    turns = range(1, TURNS + 1)
    found = {
        "prompts": [prompt(turn) for turn in turns],
        "paths": [f"{cwd}/src/part{turn}.txt" for turn in turns] + [f"{cwd}/out/note{turn}.md" for turn in turns],
        "commands": [command(turn) for turn in turns],
        "numbers": [str(4000 + turn * 17) for turn in turns],
        "todos": [todo(n) for n in range(4)] if has_todos else [],
    }
    return found


def row(name, size, text, found, written):
    kept = []
    for kind, all in found.items():
        names = lambda one: one in text or (kind == "paths" and re.search(rf"\b{re.escape(one.rsplit('/', 2)[1] + '/' + one.rsplit('/', 1)[1])}\b", text))
        kept.append(f"{sum(bool(names(one)) for one in all)} of {len(all)}" if all else "–")
    print("| " + " | ".join([name, f"{written:,}", f"{size:,}", *kept]) + " |", flush=True)


def summary(cwd, is_told_to_list):
    half = range(1, TURNS + 1, 2)
    parts = [f"src/part{turn}.txt was read, {command(turn)} was run, out/note{turn}.md was written." for turn in half]
    if is_told_to_list:
        parts += ["All user messages:"] + [f"- {prompt(turn)}" for turn in range(1, TURNS + 1)]
    return "\n".join(parts)


def session(name, program, is_full):
    home, cwd = agents.lab(f"compaction {name} {is_full}")
    for folder in ["src", "out"]:
        (cwd / folder).mkdir()
    for turn in range(1, TURNS + 1):
        (cwd / f"src/part{turn}.txt").write_text(f"needle{turn}\n" + "a row of the file\n" * 40)
    words = summary(cwd, name != "quipu chat") if is_full else "Work went on."
    api = Api(cwd, words)
    talk = agents.Talk(program, api, home, cwd)
    for turn in range(1, TURNS + 1):
        talk.say(prompt(turn))
    before = text_of(api.sent[-1])
    file = next(path for path in (home / ".claude/projects").rglob(f"{agents.SESSION}.jsonl"))
    copy = home / "before.jsonl"
    shutil.copy(file, copy)
    assert not talk.say("/compact")["is_error"]
    talk.say(f"Step {TURNS + 1} of the work: go on.")
    talk.end()
    has_todos = todo(1) in before
    found = facts(cwd, has_todos)
    for kind, all in found.items():
        # The last answer was not sent yet.
        assert sum(one in before for one in all) >= len(all) - (kind == "numbers"), f"{name}: {kind}"
    after = text_of(api.sent[-1])
    row(f"{name}, {'a full' if is_full else 'an empty'} summary", len(after), after, found, len(words))
    if name == "quipu chat" or is_full:
        return
    made = home / "22222222-2222-4222-8222-222222222222.jsonl"
    run = [str(QUIPU), "compress", str(copy), "--to", str(max(len(after) // 4, 1_000)), "--keep-turns", "1", "-o", str(made)]
    subprocess.run(run, check=True, env={"PATH": "/usr/bin:/bin", "HOME": str(home)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    told = subprocess.run([str(QUIPU), "history", str(made), "--json"], check=True, env={"PATH": "/usr/bin:/bin", "HOME": str(home)}, stdout=subprocess.PIPE, text=True).stdout
    sent = text_of(json.loads(told)["messages"])
    row(f"`quipu compress` of the session of {name}, as large", len(sent), sent, found, 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only")
    args = parser.parse_args()
    # Outside of any repository, whose state would be sent.
    place = tempfile.TemporaryDirectory()
    agents.PLACE = pathlib.Path(place.name)
    print("| | the model writes | sent afterwards | prompts | paths | commands | numbers | open todos |\n|---|--:|--:|--:|--:|--:|--:|--:|")
    for is_full in [False, True]:
        for name, program in programs().items():
            if not args.only or args.only in name:
                session(name, program, is_full)


if __name__ == "__main__":
    main()
