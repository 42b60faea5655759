#!/usr/bin/env python3
"""Make a Claude home of a given size out of a folder of genuine transcripts.

    make_corpus.py CORPUS OUT --megabytes 1024

Every transcript of CORPUS is copied again and again into OUT/projects, each round with new ids
(sessions, entries, messages, requests, tool calls), so that no program can de-duplicate the copies
away. The sizes of lines and files stay those of genuine sessions. Existing output of the same size
is kept: making 1 GB takes about a minute.
"""
import argparse
import pathlib
import re
import shutil

UUID = re.compile(rb"\b([0-9a-f]{8})(-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\b")
API_ID = re.compile(rb"\b(msg_|req_|toolu_|call_)([A-Za-z0-9]{4})")
UUID_NAME = re.compile(r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")


def renumber(data, copy):
    """The same bytes with every id moved by `copy`; lengths do not change."""
    mask = (copy * 0x9E3779B1) & 0xFFFFFFFF
    tag = b"%04d" % copy
    data = UUID.sub(lambda m: b"%08x%b" % (int(m[1], 16) ^ mask, m[2]), data)
    return API_ID.sub(lambda m: m[1] + tag, data)


def main():
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    args.add_argument("corpus", type=pathlib.Path)
    args.add_argument("out", type=pathlib.Path)
    args.add_argument("--megabytes", type=int, default=1024)
    args = args.parse_args()

    goal = args.megabytes * 1_000_000
    done = args.out / f"made-{args.megabytes}"
    if done.exists():
        return
    shutil.rmtree(args.out, ignore_errors=True)
    sources = [(p, p.read_bytes()) for p in sorted(args.corpus.rglob("*.jsonl"))]
    if not sources:
        raise SystemExit(f"make_corpus.py: no .jsonl file under {args.corpus}")

    size = copy = 0
    while size < goal:
        for number, (path, data) in enumerate(sources):
            # Sessions are named by id; anything else gets one made from its number.
            name = path.stem
            if not UUID_NAME.match(name) and not name.startswith("agent-"):
                name = f"{number:08x}-0000-4000-8000-000000000000"
            name = renumber(name.encode(), copy).decode()
            if name.startswith("agent-"):
                name = f"agent-{copy:04d}{name[6:]}"
            folder = args.out / "projects" / f"-bench-{copy % 10}-{path.relative_to(args.corpus).parts[0]}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{name}.jsonl").write_bytes(renumber(data, copy))
            size += len(data)
        copy += 1
    done.touch()
    print(f"{size / 1e6:.0f} MB in {copy} copies of {len(sources)} transcripts")


if __name__ == "__main__":
    main()
