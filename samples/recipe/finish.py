"""From what the clients wrote to `samples/home`.

Four changes, each of which keeps every line that needs none byte for byte:

- The product's own texts (system prompts, reminders, descriptions of tools) become "[cut]".
- Ids that were made by chance become ids that depend on the story's name and their order, so a
  second recording differs little from the first.
- Times: a recording takes half a minute. The session is moved to the day of its story and
  stretched to the pace of a person and a model. What must stay true: the order of all times in a
  session and its sub-agents, equal times stay equal, and durations agree with the times.
- The story with "damage" is damaged as crashes do it (`damage.py`).
"""

import hashlib
import json
import re
import shutil
from datetime import datetime, timedelta, timezone

import damage

PRODUCT_ATTACHMENTS = {
    "agent_listing_delta", "auto_mode", "deferred_tools_delta", "deferred_tools_record",
    "environment", "instructions", "model", "plan_mode", "plan_mode_exit", "prompt_snapshot",
    "read_truncation_notice", "remote_session_change", "session_context", "silent_turn_reminder",
    "skill_listing",
}
# Descriptions of requests: settings of the product, and hashes of texts that are cut here.
DROPPED = {"api-request", "api-request-shape", "api-request-blob"}
REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>", re.S)
CUT_REMINDER = "<system-reminder>[cut]</system-reminder>"
KERNEL = re.compile(r"Linux \d+\.\d+[\w.+-]*")
LONG = 60
# The longest wait of the recording that is kept, in seconds: the machine may have been busy.
WAIT = 0.6

ISO = re.compile(r"\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
MILLIS = re.compile(r"(?<=:)1[789]\d{11}\b")
UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
COMMAND = re.compile(
    r"<command-name>(.*?)</command-name>(?:.*<command-args>(.*?)</command-args>)?", re.S
)
NO_UUID = "00000000-0000-0000-0000-000000000000"

# Nothing of the machine that recorded.
FORBIDDEN = re.compile(r"/work\b|/tmp/|/root\b|127\.0\.0\.1|localhost|sk-ant-|samples-lab")


def dumps(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def cut_text(text):
    whole = text.strip()
    if whole.startswith("<system-reminder>") and whole.endswith("</system-reminder>"):
        return CUT_REMINDER  # one may contain another
    return KERNEL.sub("Linux 6.1", REMINDER.sub(CUT_REMINDER, text))


def cut(value, long=None):
    if isinstance(value, str):
        value = cut_text(value)
        return "[cut]" if long and len(value) > long else value
    if isinstance(value, list):
        return [cut(inner, long) for inner in value]
    if isinstance(value, dict):
        return {key: cut(inner, long) for key, inner in value.items()}
    return value


def cut_record(record):
    """The record without the product's texts; None if nothing else was in it."""
    if record.get("type") in DROPPED:
        return None
    attachment = record.get("attachment")
    if isinstance(attachment, dict) and attachment.get("type") in PRODUCT_ATTACHMENTS:
        shorter = cut(attachment, LONG)
        if isinstance(shorter.get("tools"), list):
            shorter["tools"] = []  # names, descriptions and schemas of the product's tools
        record = {**record, "attachment": shorter}
        if "rendered" in record:
            record["rendered"] = cut(record["rendered"], LONG)
    return cut(record)


class Ids:
    """Ids made by chance, replaced by order of appearance."""

    def __init__(self, story):
        self.story, self.known = story, {NO_UUID: NO_UUID, story["session"]: story["session"]}

    def digest(self):
        return hashlib.sha256(f"{self.story['name']}/{len(self.known)}".encode()).hexdigest()

    def uuid(self, old):
        if old not in self.known:
            d = self.digest()
            self.known[old] = f"{d[:8]}-{d[8:12]}-4{d[13:16]}-a{d[17:20]}-{d[20:32]}"
        return self.known[old]

    def agent(self, old):
        if old not in self.known:
            self.known[old] = "a" + self.digest()[: len(old) - 1]
        return self.known[old]


def seconds(text):
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%f%z").timestamp()


def iso(when):
    text = datetime.fromtimestamp(when, timezone.utc).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def spoken(record):
    """The text that a person typed, or None."""
    content = (record.get("message") or {}).get("content")
    if record.get("type") != "user" or record.get("isMeta") or record.get("isCompactSummary"):
        return None
    if record.get("isSidechain") or not isinstance(content, str):
        return None
    command = COMMAND.search(content)
    if command:
        return f"{command[1]} {command[2] or ''}".strip()
    return None if content.startswith("<") else content


class Clock:
    """From the times of a recording to those of the story."""

    def __init__(self, story, records):
        pauses = {step["say"]: step["pause"] for step in story["steps"] if "pause" in step}
        opening = story["steps"][0]["say"]
        pauses[opening] = 0
        extra = {}
        for record in records:
            if "timestamp" not in record:
                continue
            at = round(seconds(record["timestamp"]), 3)
            extra[at] = max(extra.get(at, 0), self.time_taken(record, pauses))
        self.old = sorted(extra)
        self.new = [seconds(story["starts"].replace("Z", ".000Z"))]
        for before, at in zip(self.old, self.old[1:]):
            self.new.append(self.new[-1] + min(at - before, WAIT) + extra[at])

    @staticmethod
    def time_taken(record, pauses):
        """Seconds that a person or a model would have needed for this record."""
        text = spoken(record)
        if text is not None:
            chance = hashlib.sha256(text.encode()).digest()[0] / 6
            return pauses.get(text, 15 + len(text) / 5 + chance)
        result = record.get("toolUseResult")
        if isinstance(result, dict) and "plan" in result:
            return 95  # the plan is read before it is approved
        if record.get("type") != "assistant" and not record.get("isCompactSummary"):
            return 0
        said = len(dumps((record.get("message") or {}).get("content")))
        return 1.4 + said / 260

    def __call__(self, when):
        when = round(when, 3)
        if when <= self.old[0]:
            return self.new[0] + (when - self.old[0])
        for i in range(1, len(self.old)):
            if when <= self.old[i]:
                share = (when - self.old[i - 1]) / (self.old[i] - self.old[i - 1])
                return self.new[i - 1] + share * (self.new[i] - self.new[i - 1])
        return self.new[-1] + (when - self.old[-1])

    def covers(self, when):
        return self.old[0] - 120 < when < self.old[-1] + 120

    def span(self, duration, end):
        """What became of a duration in milliseconds that ended then."""
        return round((self(end) - self(end - duration / 1000)) * 1000)


def retime(text, clock):
    def from_iso(match):
        when = seconds(match[0])
        return iso(clock(when)) if clock.covers(when) else match[0]

    def from_millis(match):
        when = int(match[0]) / 1000
        return str(round(clock(when) * 1000)) if clock.covers(when) else match[0]

    return MILLIS.sub(from_millis, ISO.sub(from_iso, text))


def redate(record, clock):
    """Durations and days, which depend on the times. Works on the recorded times."""
    at = seconds(record["timestamp"]) if "timestamp" in record else None
    if record.get("subtype") == "turn_duration":
        record = {**record, "durationMs": clock.span(record["durationMs"], at)}
    result = record.get("toolUseResult")
    if isinstance(result, dict) and "totalDurationMs" in result:
        taken = clock.span(result["totalDurationMs"], at)
        old = f"duration_ms: {result['totalDurationMs']}"
        text = dumps({**record, "toolUseResult": {**result, "totalDurationMs": taken}})
        record = json.loads(text.replace(old, f"duration_ms: {taken}"))
    if record.get("type") == "cost-state":
        start = record["startTime"] / 1000
        whole = record["totalDuration"]
        new = clock.span(whole, start + whole / 1000)
        record = {**record, "totalDuration": new}
        for key in ("totalAPIDuration", "totalAPIDurationWithoutRetries"):
            record[key] = round(record[key] / whole * new)
    attachment = record.get("attachment")
    if isinstance(attachment, dict) and attachment.get("type") == "date":
        record = {**record, "attachment": {**attachment, "date": iso(clock(at))[:10]}}
    return record


def read(path):
    lines = [line for line in path.read_text(encoding="utf-8").split("\n") if line]
    return [(line, json.loads(line)) for line in lines]


def finish_story(raw, story, out):
    """Writes what one story left, changed as the head of this file says."""
    ids = Ids(story)
    project = raw / "projects" / "-home-dev-tidepool"
    main = project / f"{story['session']}.jsonl"
    agents = sorted(
        (path for path in project.rglob("agent-*.jsonl") if path.stat().st_size),
        key=lambda path: read(path)[0][1]["timestamp"],
    )
    files = {path: read(path) for path in [main, *agents]}
    everything = [record for lines in files.values() for _, record in lines]
    said = {step["say"] for step in story["steps"] if "say" in step} | {"/exit", "Warmup"}
    strange = {spoken(record) for record in everything} - said - {None}
    if strange:
        raise RuntimeError(f"{story['name']}: the client got other prompts: {strange}")
    clock = Clock(story, everything)
    agent_ids = [path.stem.removeprefix("agent-") for path in agents]
    slugs = {record["slug"] for record in everything if "slug" in record}

    def names(text):
        for old in agent_ids:
            text = text.replace(old, ids.agent(old))
        for old in slugs:
            text = text.replace(old, story["slug"])
        return UUID.sub(lambda match: ids.uuid(match[0]), text)

    for path, lines in files.items():
        done = []
        for line, record in lines:
            new = cut_record(record)
            if new is None:
                continue
            new = redate(new, clock)
            done.append(names(retime(line if new == record else dumps(new), clock)))
        target = out / "projects" / names(str(path.relative_to(raw / "projects")))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("".join(line + "\n" for line in done), encoding="utf-8")
        meta = path.with_suffix(".meta.json")
        if meta.exists():
            target.with_suffix(".meta.json").write_text(names(meta.read_text()))
    title = project / story["session"] / "custom-title.json"
    if title.exists():
        target = out / "projects" / title.relative_to(raw / "projects")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(title, target)
    for kind in ("file-history", "plans"):
        for path in sorted((raw / kind).rglob("*")):
            if path.is_file():
                target = out / names(str(path.relative_to(raw)))
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
    if "damage" in story:
        target = out / "projects" / main.relative_to(raw / "projects")
        target.write_bytes(damage.damaged(target.read_bytes(), story["damage"]))


def write_home(raw, stories, out):
    for folder in ("projects", "file-history", "plans"):
        shutil.rmtree(out / folder, ignore_errors=True)
    for story in stories:
        if (raw / story["name"]).is_dir():
            finish_story(raw / story["name"], story, out)
    today = datetime.now(timezone.utc)
    days = {f"{today - timedelta(days=n):%Y-%m-%d}" for n in range(2)}
    for path in sorted(out.rglob("*")):
        if path.is_file() and path.name != "README.md":
            text = path.read_bytes().decode(errors="replace")
            found = FORBIDDEN.search(text)
            if found:
                raise RuntimeError(f"{path}: {text[max(0, found.start() - 60):found.end() + 60]}")
            found = [day for day in days if day in text and day > "2026-11-15"]
            if found:
                at = text.index(found[0])
                raise RuntimeError(f"{path}: the day of the recording: {text[at - 80:at + 80]}")
