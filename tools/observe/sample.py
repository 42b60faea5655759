"""A few cases of each version beside a change, where nobody asked for all of them.

Between two versions that behave alike we take it that those in between do too. A sample says how
far that holds: a third of it shows the nearest changes, a third has the cases that changed most
often, and the rest is drawn. What must stay true: a seed and the answers that are kept in the
repository decide what is drawn, so that an interrupted run goes on with the same cases.
"""
import hashlib
import re

from . import kept, published
from .cases import ROOT

PAGE = ROOT / "docs/history.md"
# So many versions were asked a case that all are asked.
MOST = 60


def changes():
    """The changes that our rules know: (first version with it, the case that shows it)."""
    table = PAGE.read_text().split("<!-- changes: begin -->")[1].split("<!-- changes: end -->")[0]
    return re.findall(r"^\| (\d+\.\d+\.\d+) \|.*\| `?([^`|]+?)`? \|$", table, re.M)


def sides():
    """The published versions beside a change, oldest first."""
    versions = published.published()
    places = [versions.index(since) for since, _ in changes()]
    return [versions[place] for place in sorted({*places, *(max(at - 1, 0) for at in places)})]


def lacking():
    """The versions beside a change that were not asked all cases."""
    asked = [set(version for answer in of_case["answers"] for version in answer["versions"])
             for of_case in kept.load().values()]
    of_all = [versions for versions in asked if len(versions) >= MOST]
    return [version for version in sides()
            if not all(version in versions for versions in of_all)]


def unasked(version, cases, known):
    return [case for case in cases if version not in kept.outcomes(case, known)]


def drawn(seed, version, case):
    return hashlib.sha256(f"{seed} {version} {case.name}".encode()).digest()


def behaviours(name, known):
    return len(known.get(name, {}).get("answers", []))


def choose(version, cases, count, seed, known):
    """So many of the cases that this version has no kept answer to."""
    waiting = {case.name: case for case in unasked(version, cases, known)}
    versions = published.published()
    here = versions.index(version)
    near = sorted(changes(), key=lambda change: abs(versions.index(change[0]) - here))
    often = sorted(waiting, key=lambda name: (-behaviours(name, known), name))
    families = {}
    for name in often:
        families.setdefault(name.split("_")[0], name)
    random = sorted(waiting, key=lambda name: drawn(seed, version, waiting[name]))
    chosen = {}
    for names, most in ((name for _, name in near), count // 3), (families.values(), 2 * (count // 3)), \
            (random, count):
        for name in names:
            if name in waiting and len(chosen) < most:
                chosen.setdefault(name, waiting[name])
    return list(chosen.values())
