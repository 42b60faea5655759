"""Which versions are published, in order, and which of them are worth asking.

The list comes from the npm registry and is kept for a day. What must stay true: versions are
ordered by their numbers, not as text; versions that were taken back are not in the list.
"""
import json
import subprocess
import time

from .cases import ROOT

PACKAGE = "@anthropic-ai/claude-code"
HOME = ROOT / "target/observe"
FIRST = "1.0.128"
DAY = 24 * 60 * 60


def numbers(version):
    try:
        return tuple(int(part) for part in version.split("."))
    except ValueError:
        raise SystemExit(f"{version} is not a version") from None


def published(fresh=False):
    """All published versions from 1.0.128 on, oldest first."""
    kept = HOME / "published.json"
    old = not kept.is_file() or time.time() - kept.stat().st_mtime > DAY
    if old or fresh:
        run = subprocess.run(["npm", "view", PACKAGE, "versions", "--json"], capture_output=True,
                             text=True, check=False)
        if run.returncode == 0:
            HOME.mkdir(parents=True, exist_ok=True)
            kept.write_text(run.stdout)
        elif not kept.is_file():
            raise SystemExit(f"npm does not list the versions: {run.stderr.strip()[-300:]}")
    versions = sorted(json.loads(kept.read_text()), key=numbers)
    return [version for version in versions if numbers(version) >= numbers(FIRST)]


def between(first, last):
    """The published versions from `first` to `last`, both included."""
    versions = published()
    for version in (first, last):
        if version not in versions:
            raise SystemExit(f"{version} is not a published version from {FIRST} on")
    low, high = versions.index(first), versions.index(last)
    if low >= high:
        raise SystemExit(f"{first} is not older than {last}")
    return versions[low:high + 1]


def spread(count, known):
    """So many versions, evenly spread over all that are published. Those that are known already
    belong to them, and so do both ends; each other one divides the largest gap."""
    versions = published()
    chosen = {0, len(versions) - 1} | {versions.index(one) for one in known if one in versions}
    while len(chosen) < min(count, len(versions)):
        places = sorted(chosen)
        gap, low = max((high - low, low) for low, high in zip(places, places[1:]))
        chosen.add(low + gap // 2)
    return [versions[place] for place in sorted(chosen)]
