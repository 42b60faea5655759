"""Damaged sessions: whether verdicts hold in the real client, and what changes make of them.

Eight sessions of the corpus, each damaged in twenty ways; then each of these changed by `repair`,
`strip`, `fork` and `clone`. What must stay true: damage is the same in every run; what is lost is
measured without our rules: texts that the client sends of the undamaged session and that are still
in the damaged file, but not in what it sends of that.
"""
import hashlib
import json
import random
import re
import subprocess
import tempfile
from collections import Counter, defaultdict
from itertools import zip_longest
from pathlib import Path

from . import cases, run, show
from .outcome import blocks, of_client, of_ours, same
from .published import HOME

SESSIONS = 8
SMALLEST, LARGEST = 20_000, 250_000
CHANGES = {
    "repair": ["repair"],
    "strip": ["strip", "--preset", "light"],
    "strip heavy": ["strip", "--preset", "heavy", "--older-than", "0"],
    "fork": ["fork"],
    "clone": ["clone"],
}
NOBODY = "00000000-0000-4000-8000-000000000000"
VERDICTS = {0: "full", 10: "loss", 11: "rejected", 12: "refused"}


def record(line):
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def is_message(line):
    found = record(line)
    return found.get("type") in ("user", "assistant") and not found.get("isSidechain")


def edited(line, **members):
    return json.dumps({**record(line), **members}, ensure_ascii=False).encode()


def holds(line, kind):
    content = (record(line).get("message") or {}).get("content")
    return isinstance(content, list) and any(block.get("type") == kind for block in content)


def kinds(lines, rng):
    """Every kind of damage: {name: bytes}. `lines` are without newlines."""
    messages = [at for at, line in enumerate(lines) if is_message(line)]
    inner = messages[1:-1]
    at = rng.choice(inner)
    other = rng.choice([one for one in inner if one != at])
    half = len(lines[at]) // 2

    def joined(rows):
        return b"\n".join(rows) + b"\n"

    def replaced(row, *new):
        return joined([*lines[:row], *new, *lines[row + 1:]])

    def first_with(kind):
        return next((row for row in messages if holds(lines[row], kind)), at)

    swapped = list(lines)
    swapped[at], swapped[other] = swapped[other], swapped[at]
    return {
        "torn end": joined(lines)[:-len(lines[-1]) // 2],
        "torn line": replaced(at, lines[at][:half]),
        "lost line": replaced(at),
        "lost beginning": joined(lines[messages[0] + 1:]),
        "lost call": replaced(first_with("tool_use")),
        "lost result": replaced(first_with("tool_result")),
        "glued lines": replaced(at, lines[at] + b"".join(lines[at + 1:at + 2])),
        "cut off and glued": replaced(at, lines[at][:half] + b"".join(lines[at + 1:at + 2])),
        "NUL bytes within": replaced(at, bytes(len(lines[at]))),
        "NUL bytes at the end": joined(lines) + bytes(512),
        "garbage line": replaced(at, b"<<<<<<< HEAD", lines[at]),
        "line null": replaced(at, b"null", lines[at]),
        "not UTF-8": replaced(at, lines[at].replace(b"e", b"\xe9", 3)),
        "repeated line": replaced(at, lines[at], lines[at]),
        "repeated file": joined(lines) + joined(lines),
        "swapped lines": joined(swapped),
        "unknown parent": replaced(at, edited(lines[at], parentUuid=NOBODY)),
        "no parent": replaced(at, edited(lines[at], parentUuid=None)),
        "loop of parents": replaced(messages[0], edited(
            lines[messages[0]], parentUuid=record(lines[messages[-1]]).get("uuid"))),
        "no time": replaced(at, edited(lines[at], timestamp=None)),
    }


def sessions():
    """Sessions of the corpus of a handy size, from as many places as there are."""
    places = defaultdict(list)
    for case in cases.chosen([], ["corpus"]):
        data = case.data()
        if SMALLEST < len(data) < LARGEST and sum(map(is_message, data.splitlines())) >= 8:
            places[case.file.relative_to(cases.SHARED / "corpus").parts[0]].append(case)
    rounds = zip_longest(*places.values())
    return [case for turn in rounds for case in turn if case][:SESSIONS]


def written(name, data, original):
    """A case made of these bytes; what is beside the original session is left behind."""
    digest = hashlib.sha256(f"{original.name} {name}".encode()).hexdigest()[:8]
    path = HOME / "damaged" / f"damaged-{digest}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return cases.Case(path.stem, "damaged", path, original.session)


def damaged():
    """All damaged cases: [(kind, original, case)]."""
    found = []
    for original in sessions():
        rng = random.Random(original.name)
        lines = original.data().splitlines()
        plain = written("undamaged", original.data(), original)
        found += [(kind, plain, written(kind, data, original))
                  for kind, data in kinds(lines, rng).items()]
    return found


ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def texts(messages):
    """What was said, with ids left out: a copy has others."""
    return {ID.sub("ID", " ".join(block["text"].split())) for message in messages or []
            for block in blocks(message.get("content"))
            if isinstance(block.get("text"), str) and len(block["text"].strip()) > 3}


def in_file(case):
    """The texts of a file, in whatever is left of its lines."""
    found = set()
    for line in case.data().split(b"\n"):
        content = (record(line).get("message") or {}).get("content")
        found |= texts([{"content": content}])
    return found


def lost(case, before, after):
    """Texts that the client sent before and does not send after, although the file has them."""
    said = texts(before.get("messages")) & in_file(case)
    sent = "\n".join(texts(after.get("messages")))
    return {text for text in said if text not in sent}


def verdict(quipu, path, version):
    argv = [quipu, "check", str(path), "--as", version, "--json"]
    code = subprocess.run(argv, capture_output=True, check=False, timeout=60).returncode
    return VERDICTS.get(code, f"exit {code}")


def ask_all(version, found, workers, note):
    run.ask(version, list({case.name: case for case in found}.values()), workers, note)
    return {case.name: of_client(case, run.known(version, case)) for case in found}


def judged(word, outcome, gone):
    """What is wrong about a verdict, if something is."""
    refused = outcome["outcome"] == "refused"
    if word == "full" and refused:
        return "said to resume fully, but it is refused"
    if word == "full" and gone:
        return f"said to resume fully, but {len(gone)} texts are lost"
    if word == "refused" and not refused:
        return "said to be refused, but it is sent"
    return None


def verdicts(versions, args, note):
    """Prints the table of verdicts; returns how many are wrong."""
    found, wrong = damaged(), []
    for version in versions:
        asked = [case for _, *both in found for case in both]
        outcomes = ask_all(version, asked, args.workers, note)
        table = defaultdict(Counter)
        for kind, original, case in found:
            after = outcomes[case.name]
            word = verdict(args.quipu, case.file, version)
            ours = of_ours(args.quipu, case, version, case.file)
            gone = lost(case, outcomes[original.name], after)
            fault = judged(word, after, gone)
            predicted = same(after, ours)
            table[kind][word] += 1
            table[kind]["as predicted"] += predicted
            if fault:
                wrong.append((version, kind, case.name, fault))
            if not predicted:
                wrong.append((version, kind, case.name, *show.difference(after, ours)))
        columns = ["full", "loss", "rejected", "refused", "as predicted"]
        print(f"\n{version}, {SESSIONS} sessions, by verdict:\n")
        print(show.table(["damage", *columns], [
            (kind, *(counts[column] for column in columns)) for kind, counts in table.items()]))
    return report(wrong)


def changed(quipu, name, argv, case):
    """The case after a change, and what the change said; `None` if there is nothing to change."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / f"{case.session}.jsonl"
        source.write_bytes(case.data())
        target = Path(folder) / "changed.jsonl"
        done = subprocess.run([quipu, *argv, str(source), "-o", str(target)], capture_output=True,
                              check=False, timeout=60, text=True)
        if not target.is_file():
            return None, f"exit {done.returncode}", ""
        data = target.read_bytes()
    ids = (record(line).get("sessionId") for line in data.split(b"\n"))
    session = next((one for one in ids if isinstance(one, str)), case.session)
    made = written(f"{case.name} {name}", data, cases.Case("", "", case.file, session))
    return made, "written", done.stdout


def changes(version, args, note):
    """Prints the table of changed sessions; returns how many are wrong."""
    found, wrong, made = damaged(), [], []
    table = defaultdict(Counter)
    for kind, _, case in found:
        for name, argv in CHANGES.items():
            new, what, said = changed(args.quipu, name, argv, case)
            table[name][what] += 1
            if new:
                made.append((kind, name, case, new, said))
    asked = [one for _, _, case, new, _ in made for one in (case, new)]
    outcomes = ask_all(version, asked, args.workers, note)
    for kind, name, case, new, said in made:
        before, after = outcomes[case.name], outcomes[new.name]
        ours = of_ours(args.quipu, new, version, new.file)
        predicted = same(after, ours)
        table[name]["sent as predicted"] += predicted
        if not predicted:
            wrong.append((version, f"{name} of {kind}", new.name, *show.difference(after, ours)))
        # What a change takes away, it says; of the rest, nothing may be missing.
        gone = lost(case, before, after)
        announced = name == "strip heavy" or "left out" in said
        table[name]["loses nothing"] += not gone
        table[name]["says what it leaves out"] += bool(gone) and announced
        if gone and not announced:
            wrong.append((version, f"{name} of {kind}", new.name,
                          f"{len(gone)} texts are not sent any more", show.cut(min(gone)), ""))
    columns = sorted({column for counts in table.values() for column in counts})
    print(f"\n{version}, {len(found)} damaged sessions, changed:\n")
    print(show.table(["change", *columns], [
        (name, *(counts[column] for column in columns)) for name, counts in table.items()]))
    return report(wrong)


def report(wrong):
    print(f"\n{len(wrong)} of these are wrong:\n")
    print(show.table(["version", "damage", "case", "what", "client", "ours"],
                     [(*row, *[""] * (6 - len(row))) for row in wrong]))
    return len(wrong)
