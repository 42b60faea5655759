"""Brings requests into the form in which they are compared, strictly.

Whole messages count: role, order, every block, every member, every space. Left out is only
- `cache_control`;
- what a client makes anew at each start (`fresh`);
- the product's own words in reminders and in messages of role `system`: of these the place counts
  (a block of its own, or inside a text behind an empty line) and the session's content in them.
What must stay true: whatever the session itself says is compared letter by letter.
"""
import re

from . import fresh

OPEN, CLOSE = "<system-reminder>", "</system-reminder>"


def blocks(content):
    """A message's content as a list: a text alone means the same as one block of text."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or [])


def bare(value):
    """Without the marks of the cache."""
    if isinstance(value, list):
        return [bare(one) for one in value]
    if isinstance(value, dict):
        return {name: bare(one) for name, one in value.items() if name != "cache_control"}
    return value


class Form:
    """The form of one request, for one session."""

    def __init__(self, session, applied=None):
        self.session = session
        self.applied = fresh.Applied() if applied is None else applied

    def of(self, messages):
        messages = [dict(bare(m), content=blocks(bare(m.get("content")))) for m in messages]
        users = [at for at, message in enumerate(messages) if message["role"] == "user"]
        ends = {users[0], users[-1]} if users else set()
        found = []
        for at, message in enumerate(messages):
            here = at in ends
            if message["role"] == "system":
                before = at - 1
                while before > 0 and messages[before]["role"] == "system":
                    before -= 1
                parts = self.system(message["content"], before in ends)
            else:
                parts = [part for block in message["content"] for part in self.block(block, here)]
            if parts:
                found.append({"role": message["role"], "content": parts})
        return found

    def block(self, block, here):
        if block.get("type") == "text":
            return self.text(block["text"], here, "block")
        if block.get("type") == "tool_result" and "content" in block:
            inner = block["content"]
            if isinstance(inner, list):
                parts = [p for one in inner for p in self.block(one, here)]
            else:
                parts = self.text(inner, here, "block") if isinstance(inner, str) else inner
            return [dict(block, content=parts)]
        return [block]

    def text(self, text, here, place):
        """A text as itself, without the reminders that the client put into it."""
        if not text.rstrip().endswith(CLOSE) or text in self.session.said:
            return [{"type": "text", "text": text}]
        if text.lstrip().startswith(OPEN):
            # Several reminders may stand in one block, directly behind one another.
            inner = text.strip()[len(OPEN):-len(CLOSE)]
            pieces = re.split(re.escape(CLOSE) + r"\s*" + re.escape(OPEN), inner)
            return [p for piece in pieces for p in self.reminder(piece, here, place)]
        cuts = [m.start() for m in re.finditer(re.escape("\n\n" + OPEN), text)]
        cut = next((at for at in cuts if text[:at] in self.session.said), cuts[0] if cuts else None)
        if cut is None:
            return [{"type": "text", "text": text}]
        return [{"type": "text", "text": text[:cut]}, *self.text(text[cut:], here, "inside")]

    def reminder(self, inner, here, place):
        kind, carried = fresh.kind(inner), self.session.carried(inner)
        if kind and not carried:
            if here:
                self.applied[kind] += 1
                return []
            return [{"type": "reminder", "place": place, "lists": kind}]
        return [{"type": "reminder", "place": place, "carries": carried}]

    def system(self, content, here):
        """A message of role `system`: the client joins what it has to say into one text."""
        text = "\n\n".join(block.get("text", "") for block in content)
        if text and text in self.session.said:
            return [{"type": "text", "text": text}]
        carried = self.session.carried(text)
        paragraphs = [p for p in re.split(r"\n\n+", text) if not self.session.carried(p)]
        kinds = [kind for kind in map(fresh.kind, paragraphs) if kind]
        if here and (fresh.kind(text) or not text) and not carried:
            self.applied.update(set(kinds) or {"effort"})
            return []
        parts = [] if here else [{"type": "note", "lists": kind} for kind in kinds]
        return parts + ([{"type": "note", "carries": carried}] if carried or not kinds else [])


def first_difference(sent, ours):
    """Where two lists of messages differ first: the place, and both messages."""
    for at in range(max(len(sent), len(ours))):
        one = sent[at] if at < len(sent) else None
        other = ours[at] if at < len(ours) else None
        if one != other:
            return at, one, other
    return None
