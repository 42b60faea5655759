#!/usr/bin/env python3
"""The picker with many sessions: how long until there is a screen, and until a key is answered?

    bench/pick.py [--sessions 10000] [--rounds 5]

Makes small sessions in 100 projects, and runs `quipu pick` in a terminal of 80 columns and 24 lines, without a catalog and with one.
Measures from the start of the program to a screen whose every row has a title and whose last line has the keys; from a key to the screen
that has its results by name; and from the last key of a word that only stands inside of one session to the screen that shows this
session. A key that changes the list is measured when all sessions are known. Prints the middle and the slowest of the rounds; everything
is under target/bench. Exit 1 if the middle of a first screen or a key takes over 200 ms.
"""
import argparse
import fcntl
import json
import os
import pathlib
import pty
import re
import select
import shutil
import statistics
import struct
import subprocess
import sys
import termios
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from reading import ROOT, WORK  # noqa: E402

PLACE = WORK / "pick"
COLUMNS, LINES = 80, 24
GOAL = 0.2
SEQUENCE = re.compile(rb"\x1b\[([?0-9;]*)([A-Za-z])|\x1b\][^\x07]*\x07|\x1b.")


def make(count):
    home = PLACE / "home"
    if (home / f"made-{count}").exists():
        return home
    shutil.rmtree(PLACE, ignore_errors=True)
    now = time.time()
    for number in range(count):
        project = home / ".claude" / "projects" / f"-home-dev-project-{number % 100}"
        project.mkdir(parents=True, exist_ok=True)
        session = f"{number:08x}-0000-4000-8000-{number:012x}"
        base = {"sessionId": session, "cwd": f"/home/dev/project/{number % 100}", "gitBranch": "main", "version": "2.1.325",
                "isSidechain": False, "userType": "external"}
        lines, parent = [], None
        for turn in range(3):
            for kind in ("user", "assistant"):
                uuid = f"{number:08x}-{turn:04x}-4000-8000-{len(lines):012x}"
                text = f"Task {number} of the list, step {turn}: look at module {number % 977} and say what is wrong. " + "word " * 60
                if number == count // 2 and turn == 1:
                    text += " quetzalcoatlus"
                message = {"role": kind, "content": [{"type": "text", "text": text}]}
                if kind == "assistant":
                    message.update(id=f"msg_{number}_{turn}", model="claude-opus-4-5", usage={"input_tokens": 5, "output_tokens": 9})
                time_ = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(now - number * 60))
                lines.append({"type": kind, "uuid": uuid, "parentUuid": parent, "timestamp": time_, "message": message, **base})
                parent = uuid
        path = project / f"{session}.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        os.utime(path, (now - number * 60, now - number * 60))
    (home / f"made-{count}").touch()
    return home


class Terminal:
    """A program in a terminal, and what the terminal shows."""

    def __init__(self, program, home, *args):
        environment = {"HOME": str(home), "TERM": "xterm-256color", "PATH": "/usr/bin:/bin", "TZ": "UTC"}
        self.start = time.monotonic()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
            os.chdir("/")
            os.execve(program, [str(program), *args], environment)
        self.cells = [[" "] * COLUMNS for _ in range(LINES)]
        self.row = self.column = 0
        self.held = b""

    def text(self):
        return ["".join(line).rstrip() for line in self.cells]

    def feed(self, data):
        data = self.held + data
        # A sequence or a character that is cut in two waits for its rest.
        cut = max(data.rfind(b"\x1b"), 0) if re.search(rb"\x1b(\[[?0-9;]*)?$", data) else len(data)
        while cut and data[cut - 1:cut] > b"\x7f" and len(data) - cut < 4:
            cut -= 1
        data, self.held = data[:cut], data[cut:]
        at = 0
        for found in SEQUENCE.finditer(data):
            self.put(data[at:found.start()])
            at = found.end()
            if found[2] == b"H":
                row, column = (found[1].split(b";") + [b"1"])[:2] if found[1] else (b"1", b"1")
                self.row, self.column = int(row) - 1, int(column) - 1
            elif found[2] == b"K":
                self.cells[self.row] = [" "] * COLUMNS
            elif found[2] == b"J":
                self.cells = [[" "] * COLUMNS for _ in range(LINES)]
        self.put(data[at:])

    def put(self, data):
        for c in data.decode("utf-8", "replace"):
            if c >= " " and self.column < COLUMNS and self.row < LINES:
                self.cells[self.row][self.column] = c
                self.column += 1

    def until(self, is_there, patience=60):
        end = time.monotonic() + patience
        while not is_there(self.text()):
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.fd], [], [], left)[0]:
                raise SystemExit("it never came:\n" + "\n".join(self.text()))
            self.feed(os.read(self.fd, 1 << 16))
        return time.monotonic()

    def type(self, keys):
        os.write(self.fd, keys.encode())
        return time.monotonic()

    def close(self):
        self.type("\x1b")
        end = time.monotonic() + 10
        while time.monotonic() < end and os.waitpid(self.pid, os.WNOHANG)[0] == 0:
            if select.select([self.fd], [], [], 0.02)[0]:
                try:
                    os.read(self.fd, 1 << 16)
                except OSError:
                    pass
        os.close(self.fd)


def is_full(count):
    return lambda text: text[0].endswith(f"/{count}") and "Esc leave" in text[-1] and all("Task" in row for row in text[1:13])


def one_round(program, home, count):
    times = {}
    terminal = Terminal(program, home, "pick")
    times["first screen"] = terminal.until(is_full(count)) - terminal.start
    # The oldest session is the last one that is looked at.
    terminal.type(f"task {count - 1} of")
    times["all sessions known"] = terminal.until(lambda text: f"Task {count - 1} of" in text[1]) - terminal.start
    terminal.type("\x15")
    terminal.until(lambda text: f"{count}/{count}" in text[0])
    begin = terminal.type("7")
    times["a key that fits thousands"] = terminal.until(lambda text: text[0].startswith("> 7 ")) - begin
    begin = terminal.type("\x15")
    terminal.until(lambda text: f"{count}/{count}" in text[0])
    terminal.type("task 43")
    terminal.until(lambda text: text[0].startswith("> task 43 "))
    begin = terminal.type("2")
    times["a key that fits some"] = terminal.until(lambda text: text[0].startswith("> task 432 ")) - begin
    terminal.type("\x15")
    terminal.until(lambda text: f"{count}/{count}" in text[0])
    begin = terminal.type("quetzalcoatlus")
    times["a word inside of one session"] = terminal.until(lambda text: f"Task {count // 2} of" in text[1]) - begin
    terminal.close()
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "target" / "release" / "quipu")
    given = parser.parse_args()
    home = make(given.sessions)
    catalog = home / ".cache"
    missed = False
    for name in ("without a catalog", "with a catalog"):
        rounds = []
        for _ in range(given.rounds):
            if name == "without a catalog":
                shutil.rmtree(catalog, ignore_errors=True)
            else:
                subprocess.run([given.program, "index"], env={"HOME": str(home)}, check=True, capture_output=True)
            rounds.append(one_round(given.program, home, given.sessions))
        print(f"{given.sessions} sessions, {name}: middle and slowest of {given.rounds}")
        for what in rounds[0]:
            all_ = [one[what] for one in rounds]
            middle = statistics.median(all_)
            is_bound = what == "first screen" or what.startswith("a key")
            missed |= is_bound and middle > GOAL
            print(f"  {what:30} {middle * 1000:7.0f} ms {max(all_) * 1000:7.0f} ms")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
