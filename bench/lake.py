#!/usr/bin/env python3
"""The lake: how fast sessions become Parquet, how large it is, and what engines take to read it.

    bench/lake.py [--megabytes 1000] [--rounds 2] [--home HOME] [--bin QUIPU]
    bench/lake.py scale [--gigabytes 5] [--home HOME] [--bin QUIPU] [--engines duckdb,spark]

The first form pushes a home of that size (made from ../shared/corpus, or HOME as it is) into an empty folder: `meta`
and redacted, which has goals (80 MB of transcripts a second on two cores, less than 250 MB of memory), `full` beside
it, and once more with nothing new. Then the bytes of the lake beside the transcripts, as they are and in gzip, and one
question over everything (tokens by model, each message once) in DuckDB: on the Parquet, and on the JSONL.

The second form makes a lake of that many GB of Parquet from one push by rewriting ids (a copy is one file of each
table, as after compaction), and asks all twelve questions of docs/lake.md over an eighth, a quarter, a half and all of
it, in DuckDB and in Spark (local): a table of size against time and CPU time. The answers have to be equal.

Engines come from `./test real` (DuckDB) and `./test real --full` (Spark). Without `--bin` the release binary is built.
Everything is made under target/bench/lake, and removed at the end. Exit 1 if a goal is missed.
"""
import argparse
import gzip
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

from reading import HOME, ROOT, WORK

PLACE = WORK / "lake"
LAKE = PLACE / "lake"
REAL = ROOT / "target" / "real"
DUCKDB = REAL / "lake-duckdb" / "bin" / "python"
SPARK = REAL / "lake-full" / "bin" / "python"
ASK = ROOT / "crates" / "cli" / "tests" / "real" / "lake.py"
PAGE = ROOT / "docs" / "lake.md"
TABLES = ["calls", "tools", "edits", "turns", "messages", "findings", "sessions"]
# The columns that are ids.
IDS = {"session_id", "message_id", "call_id", "uuid", "parent_uuid", "forked_from"}
MB_PER_SECOND, MEMORY = 80, 250

ON_PARQUET = """SELECT model, sum(output_tokens), sum(input_tokens + cache_read_tokens + cache_write_5m_tokens +
 cache_write_1h_tokens) FROM read_parquet('{lake}/calls/day=*/*.parquet', hive_partitioning = false) WHERE NOT is_copy
 GROUP BY model ORDER BY 2 DESC"""
ON_JSONL = """WITH found AS (SELECT message->>'$.id' AS id, any_value(message->>'$.model') AS model,
 max((message->>'$.usage.output_tokens')::BIGINT) AS output, max(coalesce((message->>'$.usage.input_tokens')::BIGINT, 0)
 + coalesce((message->>'$.usage.cache_read_input_tokens')::BIGINT, 0)
 + coalesce((message->>'$.usage.cache_creation_input_tokens')::BIGINT, 0)) AS read
 FROM read_json('{home}/projects/**/*.jsonl', format = 'newline_delimited', ignore_errors = true,
 maximum_object_size = 1000000000, columns = {{type: 'VARCHAR', message: 'JSON'}})
 WHERE type = 'assistant' AND message->>'$.usage' IS NOT NULL AND message->>'$.model' <> '<synthetic>' GROUP BY 1)
 SELECT model, sum(output), sum(read) FROM found GROUP BY model ORDER BY 2 DESC"""


def surroundings(home):
    return {"PATH": os.environ["PATH"], "HOME": str(PLACE / "user"), "CLAUDE_CONFIG_DIR": str(home), "LANG": "C.UTF-8",
            "TZ": "UTC"}


def run(argv, home, env=None):
    """One run: wall seconds, CPU seconds, peak memory in MB, what it said."""
    peak = PLACE / "peak.txt"
    argv = ["/usr/bin/time", "-f", "%U %S %M", "-o", str(peak), *map(str, argv)]
    start = time.perf_counter()
    done = subprocess.run(argv, env=env or surroundings(home), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wall = time.perf_counter() - start
    if done.returncode:
        sys.exit(f"{argv} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    user, system, memory = map(float, peak.read_text().split()[-3:])
    return wall, user + system, memory / 1024, done.stdout


def forget():
    if LAKE.exists():
        shutil.rmtree(LAKE)
        time.sleep(8)  # ext4 does not use again what was deleted in the last seconds, and searches long for the rest
    shutil.rmtree(PLACE / "user", ignore_errors=True)
    (PLACE / "user").mkdir(parents=True)


def size_of(folder):
    sizes = [path.stat().st_size for path in folder.rglob("*.parquet")]
    return len(sizes), sum(sizes)


def push(quipu, home, content):
    return run([quipu, "lake", "push", "--all", "--to", LAKE, "--content", content, "--json"], home)


def asked(program, sql):
    """Seconds that DuckDB takes to answer, and its answer."""
    code = ("import duckdb, json, sys, time\ndb = duckdb.connect()\ndb.execute('SET threads = 2')\n"
            "start = time.perf_counter()\nrows = db.execute(sys.argv[1]).fetchall()\n"
            "print('\\n' + json.dumps([time.perf_counter() - start, rows], default=str))")
    done = subprocess.run([str(program), "-c", code, sql], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])  # a progress bar comes first


def speed(args, quipu, home):
    files = sorted(home.rglob("*.jsonl"))
    source = sum(path.stat().st_size for path in files)
    print(f"{len(files)} files, {source / 1e6:.0f} MB\n")
    for path in files:
        path.read_bytes()  # warms the cache
    missed, sizes, question = [], [("JSONL", source)], None
    print("| | time | MB/s | CPU | memory | rows | objects | lake |\n|---|---|---|---|---|---|---|---|")
    for content in ("meta", "full"):
        rounds = []
        for _ in range(args.rounds):
            forget()
            rounds.append(push(quipu, home, content))
        wall, cpu, memory = min(r[0] for r in rounds), min(r[1] for r in rounds), max(r[2] for r in rounds)
        rows = json.loads(rounds[-1][3])["rows"]
        count, size = size_of(LAKE)
        rate = source / 1e6 / wall
        print(f"| `{content}`, redacted | {wall:.1f} s | {rate:.0f} | {cpu:.1f} s | {memory:.0f} MB | {rows:,} | {count:,} "
              f"| {size / 1e6:.0f} MB |", flush=True)
        again = push(quipu, home, content)
        print(f"| `{content}`, nothing new | {again[0]:.2f} s | | {again[1]:.2f} s | {again[2]:.0f} MB | | | |", flush=True)
        sizes.append((f"Parquet, `{content}`", size))
        if content == "meta":
            missed += [f"{rate:.0f} MB/s"] * (rate < MB_PER_SECOND) + [f"{memory:.0f} MB"] * (memory >= MEMORY)
            question = asked_everywhere(home) if DUCKDB.exists() else None
    sizes.insert(1, ("JSONL, `gzip -6`, each file", sum(len(gzip.compress(path.read_bytes(), 6)) for path in files)))
    print("\n| | size | for a GB of transcripts |\n|---|---|---|")
    for name, size in sizes:
        print(f"| {name} | {size / 1e6:.0f} MB | {size / source * 1e3:.0f} MB |")
    print(question or "\nno DuckDB: `./test real` installs it")
    if missed:
        sys.exit(f"missed: {', '.join(missed)}")


def asked_everywhere(home):
    """One question in DuckDB: on the objects, on the same rows in one file, on the JSONL; as a table."""
    parquet, rows = asked(DUCKDB, ON_PARQUET.format(lake=LAKE))
    joined = PLACE / "calls.parquet"
    asked(DUCKDB, f"COPY (SELECT * FROM read_parquet('{LAKE}/calls/day=*/*.parquet')) TO '{joined}' "
                  "(FORMAT parquet, COMPRESSION zstd)")
    compact, same_rows = asked(DUCKDB, ON_PARQUET.replace("{lake}/calls/day=*/*.parquet", str(joined)))
    jsonl, others = asked(DUCKDB, ON_JSONL.format(home=home))
    lines = ["\n| tokens by model | DuckDB takes |\n|---|---|", f"| on the objects | {parquet:.2f} s |",
             f"| on the same rows in one file | {compact:.3f} s |", f"| on the JSONL | {jsonl:.2f} s |"]
    by_model = [dict((row[0], row[1:]) for row in answer) for answer in (rows, same_rows, others)]
    if by_model[0] != by_model[1]:
        sys.exit(f"one file answers otherwise: {rows[:3]} and {same_rows[:3]}")
    ours, theirs = by_model[0], by_model[2]
    differ = sorted(str(model) for model in {*ours, *theirs} if ours.get(model) != theirs.get(model))
    lines.append(f"The answers are equal, except for {', '.join(differ)}." if differ else "The answers are equal.")
    return "\n".join(lines)


# Joins the objects of each table into one file, with ids that no compression makes shorter: those of the corpus are the
# same in each of its copies, up to a few characters.
BASE = """
import duckdb, sys
lake, out, ids, tables = sys.argv[1], sys.argv[2], set(sys.argv[3].split(",")), sys.argv[4].split(",")
db = duckdb.connect()
db.execute("SET threads = 2")
for table in tables:
    rows = f"read_parquet('{lake}/{table}/day=*/*.parquet', hive_partitioning = false)"
    names = [row[0] for row in db.execute(f"DESCRIBE SELECT * FROM {rows}").fetchall()]
    columns = ", ".join(f'md5("{name}") AS "{name}"' if name in ids else f'"{name}"' for name in names)
    db.execute(f"COPY (SELECT {columns} FROM {rows}) TO '{out}/{table}.parquet' (FORMAT parquet, COMPRESSION zstd)")
"""
# Writes copies of these files, in each of which the ids begin with other characters, until there are so many bytes.
COPIES = """
import os, sys
import pyarrow.compute as pc
import pyarrow.parquet as pq
base, out, ids, tables = sys.argv[1], sys.argv[2], set(sys.argv[3].split(",")), sys.argv[4].split(",")
wanted = float(sys.argv[5])
held = {table: pq.read_table(f"{base}/{table}.parquet") for table in tables}
rests = {(table, name): pc.utf8_slice_codeunits(held[table][name], 4)
         for table in tables for name in held[table].column_names if name in ids}
done = number = 0
while done < wanted:
    for table, made in held.items():
        names = made.column_names
        for at, name in enumerate(names):
            if name in ids:
                made = made.set_column(at, name, pc.binary_join_element_wise(f"{number:04x}", rests[table, name], ""))
        folder = f"{out}/{table}/day={2000 + number // 365}-01-01"
        os.makedirs(folder, exist_ok=True)
        path = f"{folder}/copy-{number:04}.parquet"
        pq.write_table(made, path, compression="zstd", use_dictionary=[name for name in names if name not in ids])
        done += os.path.getsize(path)
    number += 1
print(number)
"""


def copies(gigabytes):
    """Makes a lake of so many GB from the one that was pushed, and says how many copies of it that has."""
    base = PLACE / "base"
    base.mkdir(parents=True)
    named = [",".join(sorted(IDS)), ",".join(TABLES)]
    subprocess.run([str(DUCKDB), "-c", BASE, str(LAKE), str(base), *named], stdout=subprocess.DEVNULL, check=True)
    argv = [str(SPARK), "-c", COPIES, str(base), str(PLACE / "all"), *named, str(gigabytes * 1e9)]
    return int(subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True).stdout)


def scale(args, quipu, home):
    forget()
    shutil.rmtree(PLACE / "all", ignore_errors=True)
    print("pushing …", flush=True)
    push(quipu, home, "meta")
    start = time.perf_counter()
    number = copies(args.gigabytes)
    print(f"{number} copies, made in {time.perf_counter() - start:.0f} s", flush=True)
    shutil.rmtree(LAKE)
    engines = {"duckdb": DUCKDB, "spark": SPARK}
    print("| Parquet | rows | " + " | ".join(f"{name}, all twelve | CPU | the dearest" for name in args.engines) + " |")
    print("|---" * (2 + 3 * len(args.engines)) + "|")
    for part in (8, 4, 2, 1):
        some = PLACE / "some"
        shutil.rmtree(some, ignore_errors=True)
        for path in (PLACE / "all").rglob("*.parquet"):
            if int(path.stem[-4:]) * part < number:
                there = some / path.relative_to(PLACE / "all")
                there.parent.mkdir(parents=True, exist_ok=True)
                os.link(path, there)
        cells, answers = [f"{size_of(some)[1] / 1e9:.2f} GB"], {}
        for name in args.engines:
            env = {**surroundings(home), "TIMES": "1"}
            answer = json.loads(run([engines[name], ASK, name, some, PAGE], home, env)[3].splitlines()[-1])
            if len(cells) == 1:
                cells.append(f"{sum(answer['rows'].values()) / 1e6:.0f} million")
            answers[name] = (answer["rows"], answer["total"], answer["questions"])
            seconds, cpu = ({key: both[at] for key, both in answer["seconds"].items()} for at in (0, 1))
            slowest = max(cpu, key=cpu.get)
            cells += [f"{sum(seconds.values()):.1f} s", f"{sum(cpu.values()):.1f} s", f"{slowest} ({cpu[slowest]:.1f} s)"]
        print("| " + " | ".join(cells) + " |", flush=True)
        if len({json.dumps(one) for one in answers.values()}) > 1:
            sys.exit(f"the engines answer differently: {answers}")


def main():
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    args.add_argument("what", nargs="?", choices=["speed", "scale"], default="speed")
    args.add_argument("--megabytes", type=int, default=1000)
    args.add_argument("--gigabytes", type=float, default=5)
    args.add_argument("--rounds", type=int, default=2)
    args.add_argument("--home", type=pathlib.Path)
    args.add_argument("--bin", type=pathlib.Path)
    args.add_argument("--engines", default="duckdb,spark", type=lambda text: text.split(","))
    args = args.parse_args()
    home, quipu = args.home, args.bin
    if home is None:
        corpus = ROOT.parent / "shared" / "corpus"
        if not corpus.is_dir():
            sys.exit("there is no ../shared/corpus: nothing to measure with")
        make = [sys.executable, str(ROOT / "bench" / "make_corpus.py"), str(corpus), str(HOME)]
        subprocess.run([*make, "--megabytes", str(args.megabytes)], check=True)
        home = HOME
    if quipu is None:
        subprocess.run(["cargo", "build", "--release", "-q"], cwd=ROOT, check=True)
        quipu = ROOT / "target" / "release" / "quipu"
    PLACE.mkdir(parents=True, exist_ok=True)
    try:
        (speed if args.what == "speed" else scale)(args, quipu, home)
    finally:
        shutil.rmtree(PLACE, ignore_errors=True)


if __name__ == "__main__":
    main()
