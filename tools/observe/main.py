"""The commands of ./observe.

What must stay true: the tables are the only thing on stdout; progress goes to stderr; without
`../shared` it says which cases are missing.
"""
import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

from . import cases, compare, damaged, kept, mutate, published, run, sample, show
from .between import Search
from .outcome import of_client, of_ours, same

USAGE = """\
./observe VERSION…             where these versions differ from our rules, as a table
./observe --spread N           the same for N published versions, evenly spread, of which those
                               that the repository has most answers of are part
./observe --between A B        the first version that behaves differently, for each case
./observe --sample N           N cases that were not asked yet, of each version beside a change (or
                               of those named) that was not asked all of them
./observe --damaged VERSION…   whether verdicts hold for damaged sessions of the corpus, and what
                               the first of these versions makes of them once they are changed
./observe --mutants N VERSION… the same for N sessions that were changed at random (--seed)
./observe --write              keep the answers of this machine in the repository

Installs one version at a time under target/observe, resumes each case in it with a new prompt
against a scripted API on loopback, and compares what it sends with `quipu history --as VERSION`.
Answers are kept in target/observe/answers: a run can be interrupted, and a second one is free.
Those in crates/testkit/fixtures/answers.json count too, and the tests compare with them."""


def arguments(argv):
    parser = argparse.ArgumentParser(prog="./observe", description=USAGE,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="*", metavar="VERSION")
    parser.add_argument("--between", nargs=2, metavar=("A", "B"))
    parser.add_argument("--spread", type=int, metavar="N")
    parser.add_argument("--sample", type=int, metavar="N")
    parser.add_argument("--damaged", nargs="+", metavar="VERSION")
    parser.add_argument("--mutants", type=int, metavar="N")
    parser.add_argument("--seed", type=int, default=1, help="of --mutants and --sample (default: 1)")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--case", action="append", default=[], metavar="NAME",
                        help="only this case; a trailing * stands for anything; repeatable")
    parser.add_argument("--group", action="append", default=[],
                        choices=["edited", "observed", "recorded", "corpus"], help="only these; repeatable")
    parser.add_argument("--quipu", default=str(cases.ROOT / "target/release/quipu"),
                        metavar="PATH", help="our program (default: target/release/quipu)")
    parser.add_argument("--kept", action="store_true", help="only answers that are kept; ask none")
    parser.add_argument("--workers", type=int, default=2, help="clients at a time (default: 2)")
    args = parser.parse_args(argv)
    ways = [args.versions or args.sample, args.between, args.spread, args.damaged, args.write]
    if sum(map(bool, ways)) != 1:
        parser.error("name versions, or --between A B, --spread N, --sample N, --damaged VERSION, "
                     "or --write")
    return args


def note(text):
    print(text, file=sys.stderr, flush=True)


def outcomes(version, chosen, args, applied):
    """What a version makes of the cases: {name: outcome}. Asks only for what is not kept."""
    known = kept.load()
    found = {case.name: kept.outcomes(case, known).get(version) for case in chosen}
    missing = [case for case in chosen if found[case.name] is None or run.known(version, case)]
    if args.kept:
        answers = {case.name: run.known(version, case) for case in missing}
    else:
        answers = run.ask(version, missing, args.workers, note)
    for case in missing:
        if answers[case.name]:
            found[case.name] = of_client(case, answers[case.name], applied)
    return {name: outcome for name, outcome in found.items() if outcome}


def differing(version, chosen, found, quipu):
    """The cases of a version that differ: (case, what, client, ours)."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for case in (case for case in chosen if case.name in found):
            path = Path(folder) / f"{case.session}.jsonl"
            path.write_bytes(case.data())
            ours = of_ours(quipu, case, version, path)
            if not same(found[case.name], ours):
                rows.append((case.name, *show.difference(found[case.name], ours)))
    return rows


def compare_all(versions, chosen, args):
    applied, counts, all_rows, known = compare.Applied(), [], [], kept.load()
    every = chosen
    for version in versions:
        if args.sample:
            chosen = sample.choose(version, every, args.sample, args.seed, known)
        try:
            found = outcomes(version, chosen, args, applied)
        except RuntimeError as error:
            note(str(error))
            counts.append((version, 0, "-", "-"))
            continue
        rows = differing(version, chosen, found, args.quipu)
        all_rows += [(version, *row) for row in rows]
        counts.append((version, len(found), len(found) - len(rows), len(rows)))
    print(show.table(["version", "case", "what", "client", "ours"], all_rows))
    print()
    causes = Counter((version, what.split(": ", 1)[-1]) for version, _, what, *_ in all_rows)
    print(show.table(["version", "what differs", "cases"],
                     [(*key, count) for key, count in sorted(causes.items())]))
    print()
    print(show.table(["version", "cases", "agree", "differ"], counts))
    print()
    print("Left out, because a client makes it anew at each start:")
    print()
    print(show.table(["pattern", "times", "why"], applied.table()))
    return 1 if all_rows else 0


def compare_between(first, last, chosen, args):
    search = Search(published.between(first, last), chosen)
    if not args.kept:
        for version in (first, last):
            unknown = [case for case in chosen if not search.outcome(case, version)]
            run.ask(version, unknown, args.workers, note)
            search.learn(version)
        search.narrow(args.workers, note)
    rows = []
    for case in chosen:
        for old, new in search.changes(case):
            before, after = search.outcome(case, old), search.outcome(case, new)
            between = len(search.usable(old, new))
            rows.append((published.numbers(new), new, old if not between else f"{old} +{between}",
                         case.name, *show.difference(before, after)))
    rows = [row[1:] for row in sorted(rows)]
    print(show.table(["first with", "last without", "case", "what", "before", "after"], rows))
    return 0


def main(argv):
    args = arguments(argv)
    if not Path(args.quipu).is_file() and not args.between and not args.write:
        raise SystemExit(f"there is no {args.quipu}: cargo build --release, or --quipu PATH")
    if not cases.SHARED.is_dir():
        note(f"There is no {cases.SHARED}: only the cases in {cases.FIXTURES} are used.")
    if args.write:
        hand_made = cases.chosen([], ["edited", "observed"])
        print("kept: {} cases, {} answers".format(*kept.write(hand_made)))
        return 0
    chosen = mutate.mutants(args.mutants, args.seed) if args.mutants \
        else cases.chosen(args.case, args.group)
    try:
        if args.damaged:
            wrong = damaged.verdicts(args.damaged, args, note)
            return 1 if wrong + damaged.changes(args.damaged[0], args, note) else 0
        if args.between:
            return compare_between(*args.between, chosen, args)
        if args.sample and not args.group and not args.case:
            chosen = [case for case in chosen if case.group != "recorded"]
        versions = args.versions or (sample.lacking() if args.sample
                                     else published.spread(args.spread, kept.versions()))
        for version in versions:
            published.numbers(version)
        return compare_all(versions, chosen, args)
    except KeyboardInterrupt:
        note("interrupted; what was answered is kept")
        return 130
