"""What a session file says: the texts of its messages, and those of its attachments.

They decide what in a request is content of the session. What must stay true: names of kinds, ids
and times are no content, or every reminder would seem to carry some.
"""
import json

# Members of an attachment that name or number something, and say nothing.
NAMES = {"type", "hookEvent", "hookName", "commandMode", "toolUseID", "uuid", "sessionId", "mode",
         "source_uuid", "timestamp", "level", "mediaType", "role", "origin", "kind", "itemCount",
         "command", "displayPath"}
# Attachments that say what is installed or set, or that are never sent; see `fresh`.
LISTS = {"agent_listing_delta", "auto_mode", "command_permissions", "date", "deferred_tools_delta",
         "deferred_tools_record", "environment", "instructions", "mcp_instructions_delta", "model",
         "output_style", "prompt_snapshot", "remote_session_change", "session_context",
         "skill_listing"}


def records(data):
    """Every object in the file, one line at a time; what cannot be read is passed over."""
    for line in data.decode("utf-8", "replace").split("\n"):
        line = line.strip().lstrip("\ufeff")
        decoder = json.JSONDecoder()
        while line.startswith("{"):
            try:
                found, end = decoder.raw_decode(line)
            except ValueError:
                break
            yield found
            line = line[end:].strip()


def leaves(value, skip=frozenset()):
    """Every text and every longer number in a value, except under these members."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, int) and abs(value) > 999:
        yield str(value)
    elif isinstance(value, list):
        for one in value:
            yield from leaves(one, skip)
    elif isinstance(value, dict):
        for name, one in value.items():
            if name not in skip:
                yield from leaves(one, skip)


class Session:
    def __init__(self, data):
        self.said, attached = set(), set()
        for record in records(data):
            attachment = record.get("attachment")
            if isinstance(attachment, dict):
                if attachment.get("type") not in LISTS:
                    attached.update(leaves(attachment, NAMES))
            self.said.update(leaves(record.get("message")))
            self.said.update(leaves(record.get("content")))
        texts = {" ".join(text.split()) for text in attached}
        self.attached = sorted((text for text in texts if len(text) > 2), key=len, reverse=True)

    def carried(self, text):
        """The texts of attachments that this text carries; none that is part of another one."""
        text = " ".join(text.split())
        found = []
        for one in self.attached:
            if one in text and not any(one in longer for longer in found):
                found.append(one)
        return sorted(found)
