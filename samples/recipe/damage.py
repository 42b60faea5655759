"""Damages a session as crashes and full disks do.

The places are named by a text that the line contains, so that the same conversation is damaged in
the same way each time. What must stay true: the first line stays whole, and enough is left to
repair.
"""


def damaged(data, places):
    """The bytes with damage, at the first line that contains the text of each place.

    glued: this line and the next share one line. cut: this line loses its second half, and the
    next one follows without a newline. nul: NUL bytes stand before this line. torn: the file ends
    in the middle of this line.
    """
    lines = data.decode().removesuffix("\n").split("\n")
    at = {
        kind: next(i for i, line in enumerate(lines) if text in line)
        for kind, text in places.items()
    }
    parts = []
    for i, line in enumerate(lines[: at["torn"] + 1]):
        raw = line.encode()
        if i == at["nul"]:
            parts.append(b"\0" * 512 + b"\n")
        if i in (at["cut"], at["torn"]):
            raw = raw[: len(raw) // 2]
        parts.append(raw if i in (at["glued"], at["cut"], at["torn"]) else raw + b"\n")
    return b"".join(parts)
