"""Requests and differences in few words, for tables.

What must stay true: a difference names the first message that is not the same, and what is not the
same about it; texts of the product are cut short.
"""
from .compare import first_difference

WIDTH = 44


def cut(text, width=WIDTH):
    text = " ".join(str(text).split())
    return text if len(text) <= width else text[:width - 1] + "…"


def part(block):
    kind = block.get("type")
    if kind == "text":
        return cut(block["text"]) if block["text"].strip() else repr(block["text"])
    if kind == "tool_use":
        more = sorted(set(block) - {"type", "id", "name", "input"})
        members = ",".join(block["input"]) if isinstance(block.get("input"), dict) else "?"
        more = "".join(f" +{name}" for name in more)
        return f"USE {block.get('id')} {block.get('name')}({members}){more}"
    if kind == "tool_result":
        content = block.get("content")
        inner = " + ".join(map(part, content)) if isinstance(content, list) else cut(content)
        error = "!" if block.get("is_error") else ""
        return f"RESULT{error} {block.get('tool_use_id')} {inner}"
    if kind in ("reminder", "note"):
        what = block.get("lists") or ", ".join(cut(text, 24) for text in block["carries"]) or "-"
        return f"{kind.upper()}[{block.get('place', 'system')}: {what}]"
    if kind == "thinking":
        return f"THINKING {cut(block.get('thinking'), 20)}"
    return str(kind).upper()


def message(one):
    if one is None:
        return "(nothing)"
    return f"{one['role'][0]}: " + " | ".join(map(part, one["content"]))


def what_differs(one, other):
    """Which aspect of two messages is not the same."""
    if one is None or other is None:
        return "number of messages"
    if one["role"] != other["role"]:
        return "role"
    kinds = [[block.get("type") for block in side["content"]] for side in (one, other)]
    if kinds[0] != kinds[1]:
        if "reminder" in kinds[0] + kinds[1]:
            return "reminder"
        return "order of blocks" if sorted(map(str, kinds[0])) == sorted(map(str, kinds[1])) \
            else "blocks"
    for a, b in zip(one["content"], other["content"]):
        if a != b:
            names = sorted(name for name in {*a, *b} if a.get(name) != b.get(name))
            if a["type"] == "tool_result" and "reminder" in str(a) + str(b):
                return "reminder in a result"
            return f"{a['type']}: {', '.join(names)}"
    return "nothing"


def difference(sent, ours):
    """What is not the same about two outcomes, and both sides in few words."""
    if sent["outcome"] != ours["outcome"]:
        sides = [f"{side['outcome']} {cut(side.get('how', ''), 60)}".strip()
                 for side in (sent, ours)]
        return f"{sent['outcome']} / {ours['outcome']}", *sides
    found = first_difference(sent.get("messages", []), ours.get("messages", []))
    if not found:
        return "model", sent.get("model"), ours.get("model")
    at, one, other = found
    return f"message {at}: {what_differs(one, other)}", message(one), message(other)


def table(head, rows):
    """A table in Markdown."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        cells = (str(cell).replace("|", "\\|").replace("\n", " ") for cell in row)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)
