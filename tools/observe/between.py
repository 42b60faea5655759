"""Finds the first version that behaves differently, by halving, for many cases at once.

Each step asks one version, about every case that it brings on. Cases whose names begin alike often
change together: two of them lead, and the others are only asked on both sides of what these found.
What must stay true: answers that are kept already count, so an interrupted search goes on where it
was; a follower whose change is elsewhere is narrowed down like any other. Between two versions that
behave alike no change is looked for: to look closer, ask more versions first.
"""
from collections import Counter, defaultdict

from . import kept, run
from .outcome import alike, of_client


LEADERS = 2


def family(case):
    return case.name.split("_")[0]


def unique(cases):
    return list({case.name: case for case in cases}.values())


class Search:
    """The versions in order, and what is known about each case."""

    def __init__(self, versions, cases):
        self.versions, self.cases = versions, cases
        self.place = {version: at for at, version in enumerate(versions)}
        self.skipped, self.outcomes = set(), {}
        stored = kept.load()
        for case in cases:
            for version, outcome in kept.outcomes(case, stored).items():
                self.outcomes[case.name, version] = outcome
        for version in versions:
            self.learn(version)

    def learn(self, version):
        """Takes in the answers of a version that are kept."""
        here = {path.stem for path in (run.ANSWERS / version).glob("*.json")}
        for case in self.cases:
            key = case.name, version
            if case.name in here and key not in self.outcomes:
                answer = run.known(version, case)
                if answer:
                    self.outcomes[key] = of_client(case, answer)

    def outcome(self, case, version):
        return self.outcomes.get((case.name, version))

    def known(self, case):
        """The versions that were asked, oldest first, and what each one did."""
        found = ((version, self.outcome(case, version)) for version in self.versions)
        return [(version, outcome) for version, outcome in found if outcome]

    def changes(self, case):
        """Neighbours among the asked versions that behave differently."""
        known = self.known(case)
        return [(old, new) for (old, a), (new, b) in zip(known, known[1:]) if not alike(a, b)]

    def usable(self, old, new):
        """The versions between the two that can be asked."""
        return [version for version in self.versions[self.place[old] + 1:self.place[new]]
                if version not in self.skipped]

    def open(self):
        """The changes that are not narrowed down yet: (case, old, new)."""
        return [(case, old, new) for case in self.cases for old, new in self.changes(case)
                if self.usable(old, new)]

    def settled(self):
        """The changes that are narrowed down, by how the names of their cases begin."""
        found = defaultdict(set)
        for case in self.cases:
            for old, new in self.changes(case):
                if not self.usable(old, new):
                    found[family(case)].add((old, new))
        return found

    def hints(self, case, old, new, settled):
        """Versions beside settled changes between the two that were not asked about the case."""
        first, last = self.place[old], self.place[new]
        versions = {version for change in settled[family(case)] for version in change
                    if first < self.place[version] < last}
        return {version for version in versions if not self.outcome(case, version)}

    def next(self):
        """The version to ask next, and the cases to ask it about."""
        waiting, settled = self.open(), self.settled()
        leaders, followers, groups = [], [], Counter()
        for case, old, new in waiting:
            hints = self.hints(case, old, new, settled)
            group = family(case), old, new
            groups[group] += 1
            if hints:
                followers += [(case, version) for version in hints]
            elif groups[group] <= LEADERS:
                leaders.append((case, old, new))
        if leaders:
            return self.middle(leaders)
        if followers:
            version, _ = Counter(version for _, version in followers).most_common(1)[0]
            return version, unique(case for case, one in followers if one == version)
        return None

    def middle(self, waiting):
        """The version that halves the most intervals, and the cases that it brings on."""
        votes = Counter((old, new) for _, old, new in waiting)
        (old, new), _ = max(votes.items(), key=lambda item: (item[1], item[0]))
        usable = self.usable(old, new)
        version = usable[len(usable) // 2]
        at, asked = self.place[version], []
        for case, low, high in waiting:
            first, last = self.place[low], self.place[high]
            # Close to an end a version says little about the case; it waits for a better one.
            margin = (last - first) / 5 if last - first > 4 else 0
            if first + margin < at < last - margin:
                asked.append(case)
        return version, unique(asked)

    def narrow(self, workers=2, show=print, steps=None):
        """Asks until every change is between two neighbours."""
        while steps is None or steps > 0:
            step = self.next()
            if step is None:
                return True
            version, cases = step
            left = len(self.open())
            show(f"{left} changes to narrow down; asking {version} about {len(cases)} cases")
            try:
                run.ask(version, cases, workers, show)
                self.learn(version)
            except RuntimeError as error:
                show(f"{version} is passed over: {error}")
                self.skipped.add(version)
            steps = None if steps is None else steps - 1
        return False
