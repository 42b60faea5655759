"""The cases: session files, each with the prompt that it is resumed with.

What must stay true: a name belongs to one file only, and says where the file comes from if that is
not one of the two sets of hand-made cases; the digest changes whenever a client could tell.

- `edited`, `observed`: hand-made, in `../shared` and in the fixtures (equal where both have them)
- `recorded`: sessions that real clients wrote, cut where a later step resumed them
- `corpus`: genuine sessions from public places; only asked about if they are named
"""
import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "crates/testkit/fixtures"
SHARED = ROOT.parent / "shared"
SESSION = "11111111-2222-4333-8444-555555555555"
PROMPT = "RESUME PROMPT"


@dataclass(frozen=True)
class Case:
    name: str
    group: str
    file: Path
    session: str = SESSION
    prompt: str = PROMPT
    cut: int | None = None

    def data(self):
        return self.file.read_bytes()[:self.cut]

    def digest(self):
        told = f"{self.session}\n{self.prompt}\n".encode()
        return hashlib.sha256(told + self.data()).hexdigest()[:16]


def hand_made(folder, group):
    return [Case(path.stem, group, path) for path in sorted(folder.glob("*.jsonl"))]


def recorded(folder):
    index = folder / "resumes.json"
    found = []
    for item in json.loads(index.read_text()) if index.is_file() else []:
        version, scenario = item["version"], item["scenario"]
        file = folder / version / scenario / item["file"]
        name = f"{scenario}-{item['step']}-of-{version}"
        found.append(Case(name, "recorded", file, file.stem, item["prompt"], item["cut_at_byte"]))
    return found


def published(folder):
    """The main sessions of the corpus, named after their places in it."""
    found = []
    for file in sorted(folder.rglob("*.jsonl")):
        if file.name.startswith("agent-") or "subagents" in file.parts:
            continue
        place = file.relative_to(folder)
        name = "corpus-" + hashlib.sha256(str(place).encode()).hexdigest()[:8]
        is_id = re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", file.stem)
        found.append(Case(name, "corpus", file, file.stem if is_id else SESSION))
    return found


def all_cases():
    """Every case once. Without `../shared`, those of the repository."""
    sets = [hand_made(SHARED / "recordings/edited", "edited"),
            hand_made(FIXTURES / "edited", "edited"),
            hand_made(SHARED / "observed", "observed"),
            hand_made(FIXTURES / "observed", "observed"),
            recorded(SHARED / "recordings"),
            published(SHARED / "corpus")]
    found = {}
    for case in (case for cases in sets for case in cases):
        known = found.setdefault(case.name, case)
        if known.file != case.file and known.data() != case.data():
            raise SystemExit(f"two different cases are called {case.name}: "
                             f"{known.file}, {case.file}")
    return list(found.values())


def chosen(names, groups):
    """The cases with these names (a trailing `*` stands for anything) in these groups."""
    usual = ["edited", "observed", "recorded"]
    wanted = groups or (usual if not names else [*usual, "corpus"])
    cases = [case for case in all_cases() if case.group in wanted]
    if not names:
        return cases
    def fits(case):
        return any(case.name == name or name.endswith("*") and case.name.startswith(name[:-1])
                   for name in names)
    kept = [case for case in cases if fits(case)]
    if not kept:
        raise SystemExit(f"no case is called {', '.join(names)}")
    return kept
