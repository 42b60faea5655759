"""Random changes of sessions: whether what we say of a session that nobody thought of holds.

Each mutant is one of the hand-made or recorded sessions after one to three changes of its records:
their links, members, blocks, order. What must stay true: a seed makes the same mutants on every
machine; a mutant is named after its bytes, so that answers to it are kept like all others.
"""
import copy
import hashlib
import itertools
import json
import random

from . import cases
from .published import HOME

SMALLEST, LARGEST = 2, 60  # records
TEXTS = ["", " ", "\n", "Hello.", "No response requested.", "[Request interrupted by user]",
         "<command-name>/clear</command-name>", "<local-command-stdout></local-command-stdout>",
         "<system-reminder>x</system-reminder>", "Caveat: x"]
ODD = [None, "", 0, False, [], {}, "x"]
TYPES = ["user", "assistant", "system", "attachment", "progress", "summary", "unheard-of"]


def messages(records):
    return [r for r in records if isinstance(r.get("message"), dict)]


def lists(records):
    """Messages whose content is a list with something in it."""
    return [r for r in messages(records)
            if isinstance(r["message"].get("content"), list) and r["message"]["content"]]


def ids(records):
    return [r["uuid"] for r in records if isinstance(r.get("uuid"), str)]


def other_parent(records, rng):
    rng.choice(records)["parentUuid"] = rng.choice([*ids(records), None])


def lost_record(records, rng):
    records.pop(rng.randrange(len(records)))


def repeated_record(records, rng):
    records.insert(rng.randrange(len(records) + 1), copy.deepcopy(rng.choice(records)))


def moved_record(records, rng):
    record = records.pop(rng.randrange(len(records)))
    records.insert(rng.randrange(len(records) + 1), record)


def same_id(records, rng):
    one, other = rng.choice(records), rng.choice(records)
    if "uuid" in other:
        one["uuid"] = other["uuid"]


def lost_member(records, rng):
    record = rng.choice(records)
    record = record["message"] if rng.random() < 0.3 and record in messages(records) else record
    if record:
        record.pop(rng.choice(sorted(record)))


def odd_member(records, rng):
    record = rng.choice(records)
    record = record["message"] if rng.random() < 0.3 and record in messages(records) else record
    if record:
        record[rng.choice(sorted(record))] = rng.choice(ODD)


def flag(records, rng):
    name = rng.choice(["isMeta", "isSidechain", "isCompactSummary", "isVisibleInTranscriptOnly",
                       "isApiErrorMessage"])
    rng.choice(records)[name] = rng.random() < 0.8


def other_type(records, rng):
    rng.choice(records)["type"] = rng.choice(TYPES)


def other_role(records, rng):
    for record in rng.sample(messages(records), min(1, len(messages(records)))):
        record["message"]["role"] = rng.choice(["user", "assistant", "system"])


def other_time(records, rng):
    times = [r["timestamp"] for r in records if isinstance(r.get("timestamp"), str)]
    rng.choice(records)["timestamp"] = rng.choice([*times, "2020-01-01T00:00:00.000Z", "soon"])


def one_answer(records, rng):
    """Two answers of the model get one id."""
    answers = [r for r in messages(records) if r.get("type") == "assistant"]
    if len(answers) > 1:
        one, other = rng.sample(answers, 2)
        one["message"]["id"] = other["message"].get("id")


def other_content(records, rng):
    for record in rng.sample(messages(records), min(1, len(messages(records)))):
        text = rng.choice(TEXTS)
        record["message"]["content"] = rng.choice(
            [text, [], [{"type": "text", "text": text}],
             [{"type": "text", "text": "One."}, {"type": "text", "text": text}]])


def lost_block(records, rng):
    for record in rng.sample(lists(records), min(1, len(lists(records)))):
        content = record["message"]["content"]
        content.pop(rng.randrange(len(content)))


def moved_block(records, rng):
    """A block goes to another message."""
    if len(lists(records)) > 1:
        source, target = rng.sample(lists(records), 2)
        block = source["message"]["content"].pop()
        target["message"]["content"].insert(0, block)


def repeated_block(records, rng):
    for record in rng.sample(lists(records), min(1, len(lists(records)))):
        content = record["message"]["content"]
        content.append(copy.deepcopy(rng.choice(content)))


def odd_block(records, rng):
    for record in rng.sample(lists(records), min(1, len(lists(records)))):
        block = rng.choice(record["message"]["content"])
        if isinstance(block, dict) and block:
            name = rng.choice(sorted(block))
            block[name] = rng.choice([*ODD, *TEXTS[:3]])


def other_call(records, rng):
    """A call or a result names another call."""
    blocks = [b for r in lists(records) for b in r["message"]["content"]
              if isinstance(b, dict) and b.get("type") in ("tool_use", "tool_result")]
    if len(blocks) > 1:
        one, other = rng.sample(blocks, 2)
        name = one.get("id") or one.get("tool_use_id")
        other["id" if other["type"] == "tool_use" else "tool_use_id"] = name


def cut_off(records, rng):
    del records[rng.randrange(1, len(records) + 1):]


def named_end(records, rng):
    """A record at the end names where the conversation goes on."""
    if ids(records):
        kind = rng.choice(["last-prompt", "summary"])
        records.append({"type": kind, "leafUuid": rng.choice(ids(records)),
                        "summary": "A title", "lastPrompt": "Go on."})


def boundary(records, rng):
    """A compaction whose summary is missing, or that follows a record."""
    if ids(records):
        parent = rng.choice(ids(records))
        own = str(rng.getrandbits(64)).rjust(20, "0")
        records.insert(rng.randrange(len(records) + 1), {
            **{name: value for name, value in rng.choice(records).items()
               if name in ("sessionId", "cwd", "version", "timestamp")},
            "type": "system", "subtype": "compact_boundary", "content": "Conversation compacted",
            "uuid": f"00000000-0000-4000-8000-{own[:12]}", "parentUuid": None,
            "logicalParentUuid": parent, "isSidechain": False, "level": "info",
            "compactMetadata": {"trigger": "auto", "preTokens": 1000}})


CHANGES = [other_parent, lost_record, repeated_record, moved_record, same_id, lost_member,
           odd_member, flag, other_type, other_role, other_time, one_answer, other_content,
           lost_block, moved_block, repeated_block, odd_block, other_call, cut_off, named_end,
           boundary]


def read(case):
    """The records of a session, if all of its lines are objects."""
    try:
        records = [json.loads(line) for line in case.data().splitlines() if line.strip()]
    except ValueError:
        return None
    fits = SMALLEST <= len(records) <= LARGEST and all(isinstance(r, dict) for r in records)
    return records if fits else None


def made(case, names, records):
    """A case made of these records, with the names of the changes in its own."""
    data = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    data = data.encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(data).hexdigest()[:8]
    path = HOME / "mutants" / f"mutant-{digest}-{'-'.join(names)}-of-{case.name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return cases.Case(path.stem, "mutant", path, case.session)


def rank(seed, number, name):
    """Of all sources, the one with the highest rank is taken."""
    return hashlib.sha256(f"{seed} {number} {name}".encode()).digest()


def mutants(count, seed):
    """So many different changed sessions. Each depends on its number and the seed, and not on the
    ones before it: where a source is added, most numbers keep theirs."""
    sources = [(case, read(case)) for case in cases.chosen([], ["edited", "observed", "recorded"])]
    sources = {case.name: (case, records) for case, records in sources if records}
    found = {}
    for number in itertools.count():
        if len(found) >= count:
            break
        name = max(sources, key=lambda name: rank(seed, number, name))
        case, records = sources[name]
        rng = random.Random(f"{seed} {number}")
        records = copy.deepcopy(records)
        changes = rng.choices(CHANGES, k=rng.choice([1, 1, 2, 3]))
        for change in changes:
            if records:
                change(records, rng)
        if records:
            mutant = made(case, [change.__name__ for change in changes], records)
            found[mutant.name] = mutant
    return list(found.values())
