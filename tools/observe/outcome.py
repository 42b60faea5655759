"""What becomes of a case: what a client did with it, and what our program says it would do.

An outcome is `sent` with messages, `compacts` (the client asks for a summary first), `refused`, or
`other` (the first thing it sends is something else).
What must stay true: a client that sends something and then ends with an error has refused.
"""
import json
import subprocess

from .compare import comparable

OPEN = "<system-reminder>"


def blocks(content):
    """A message's content as a list."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or [])


def last_said(messages):
    """The texts of the last message of the user, without reminders."""
    users = [message for message in messages or [] if message.get("role") == "user"]
    texts = [block.get("text", "") for block in blocks(users[-1].get("content"))] if users else []
    return [text for text in texts if text and not text.lstrip().startswith(OPEN)]


def is_warmup(request):
    """Versions 2.0.77 to 2.1.5 start sub-agents beforehand, with this prompt."""
    return len(request["messages"] or []) == 1 and last_said(request["messages"]) == ["Warmup"]


def of_client(case, answer, applied=None):
    talks = [r for r in answer["requests"]
             if (r["tools"] or len(r["messages"] or []) > 1) and not is_warmup(r)]
    if answer["code"] == "timeout":
        return {"outcome": "refused", "how": "hangs"}
    if answer["code"] != 0:
        how = (answer["stderr"] or answer["stdout"]).strip().split("\n")[-1][:200]
        asked = "asks, then " if talks else ""
        return {"outcome": "refused", "how": f"{asked}code {answer['code']}: {how}"}
    if not talks:
        return {"outcome": "refused", "how": "sends nothing"}
    messages, model = talks[0]["messages"], talks[0]["model"]
    end = (last_said(messages) or [""])[-1]
    if end.rstrip().endswith(case.prompt):
        return {"outcome": "sent", "messages": comparable(case, messages, applied), "model": model}
    if "summary" in end.lower():
        return {"outcome": "compacts", "model": model}
    return {"outcome": "other", "messages": comparable(case, messages, applied), "model": model}


def of_ours(quipu, case, version, path, applied=None):
    """What `quipu history` says of the case, whose bytes are at `path`."""
    argv = [quipu, "history", str(path), "--as", version, "--then", case.prompt, "--json"]
    run = subprocess.run(argv, capture_output=True, check=False, timeout=60)
    if run.returncode == 12:
        return {"outcome": "refused", "how": run.stderr.decode("utf-8", "replace").strip()[-200:]}
    if run.returncode != 0:
        return {"outcome": "failed", "how": run.stderr.decode("utf-8", "replace").strip()[-200:]}
    # Half of a surrogate pair is valid here and in what clients send.
    said = json.loads(run.stdout.decode("utf-8", "surrogatepass"))
    if said.get("compacts"):
        return {"outcome": "compacts"}
    return {"outcome": "sent", "messages": comparable(case, said["messages"], applied)}


def same(one, other):
    """Whether two outcomes are the same. How a client refuses, and in which words it asks for a
    summary, is not compared."""
    if one["outcome"] != other["outcome"]:
        return False
    return one["outcome"] in ("refused", "compacts") or one["messages"] == other["messages"]


def alike(one, other):
    """Whether two outcomes are the same, and ask the same model."""
    return same(one, other) and one.get("model") == other.get("model")
