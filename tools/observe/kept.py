"""The answers that are part of the repository: what each version made of each hand-made case.

`crates/testkit/fixtures/answers.json`: for each case its digest, and for each behaviour the
versions that show it. The requests are in the form in which they are compared, so they contain none
of the product's own words. What must stay true: an answer that is kept here counts like one that
was just given, and `write` loses none for a case that did not change.
"""
import json
from collections import Counter

from . import run
from .cases import FIXTURES
from .outcome import alike, of_client
from .published import numbers

FILE = FIXTURES / "answers.json"


def load():
    """What is kept: {case: {"digest", "answers": [{"versions", "outcome", ...}]}}."""
    return json.loads(FILE.read_text()) if FILE.is_file() else {}


def outcomes(case, known):
    """The outcomes of a case that are kept: {version: outcome}."""
    of_case = known.get(case.name, {})
    if of_case.get("digest") != case.digest():
        return {}
    return {version: {name: value for name, value in answer.items() if name != "versions"}
            for answer in of_case["answers"] for version in answer["versions"]}


def versions():
    """The versions of which at least a third of the cases is kept: those that were asked for all,
    and not only for what a search needed."""
    cases = load().values()
    counts = Counter(version for of_case in cases for answer in of_case["answers"]
                     for version in answer["versions"])
    return [version for version, count in counts.items() if 3 * count > len(cases)]


def plain(outcome):
    """How a client refuses is not kept: its words are the product's."""
    kept = ("outcome", "messages", "model")
    return {name: value for name, value in outcome.items() if name in kept}


def write(cases):
    """Adds the answers on this machine to those that are kept."""
    known, count = load(), 0
    written = {}
    for case in sorted(cases, key=lambda case: case.name):
        found = outcomes(case, known)
        for folder in run.ANSWERS.iterdir() if run.ANSWERS.is_dir() else []:
            answer = run.known(folder.name, case)
            if answer:
                found[folder.name] = plain(of_client(case, answer))
        groups = []
        for version in sorted(found, key=numbers):
            group = next((one for one in groups if alike(one[1], found[version])), None)
            if group:
                group[0].append(version)
            else:
                groups.append(([version], found[version]))
        count += len(found)
        if groups:
            answers = [{"versions": versions, **outcome} for versions, outcome in groups]
            written[case.name] = {"digest": case.digest(), "answers": answers}
    lines = (f'{json.dumps(name)}: {json.dumps(of_case, ensure_ascii=False)}'
             for name, of_case in written.items())
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    return len(written), count
