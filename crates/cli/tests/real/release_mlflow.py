"""What MLflow has, beside what was to be sent: release_mlflow.py URL EXPERIMENT SENT, where SENT is what `quipu ship --dry-run --json` printed.

For the release check in docs/receivers.md; no test runs it.
"""
import json
import sys
from datetime import datetime, timezone

from mlflow import MlflowClient

url, experiment, sent = sys.argv[1:]


def moment(ns):
    return datetime.fromtimestamp(ns / 1e9, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f")[:23] + "Z"


def pages(client):
    token = None
    while True:
        page = client.search_traces(locations=[experiment], max_results=100, page_token=token)
        yield from page
        token = page.token
        if not token:
            return


def told(trace, span):
    own, meta = span.attributes, trace.info.trace_metadata
    tokens, cost = own.get("mlflow.chat.tokenUsage") or {}, own.get("mlflow.llm.cost") or {}
    return {
        "trace": trace.info.trace_id.removeprefix("tr-"),
        "parent": span.parent_id,
        "name": span.name,
        "type": span.span_type,
        "times": [moment(span.start_time_ns), moment(span.end_time_ns)],
        "error": span.status.description or None,
        "session": meta.get("mlflow.trace.session"),
        "user": meta.get("mlflow.trace.user"),
        "tokens": [tokens.get(name) for name in ["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens"]],
        "cost": cost and round(cost["total_cost"], 9),
        "input": own.get("mlflow.spanInputs"),
        "output": own.get("mlflow.spanOutputs"),
    }


def should(span):
    own = span["attributes"]
    usage = "gen_ai.usage."

    def content(name):
        text = own.get(f"{name}.value")
        return json.loads(text) if own.get(f"{name}.mime_type") == "application/json" else text

    return {
        "trace": span["trace"],
        "parent": span["parent"],
        "name": span["name"],
        "type": own["openinference.span.kind"],
        "times": [span["start"], span["end"]],
        "error": span["error"],
        "session": own["session.id"],
        "user": own.get("user.id"),
        "tokens": [own.get(usage + name) for name in ["input_tokens", "cache_read.input_tokens", "cache_creation.input_tokens", "output_tokens"]],
        "cost": round(own["llm.cost.total"], 9) if "llm.cost.total" in own else {},
        "input": content("input"),
        "output": content("output"),
    }


found = {}
for trace in pages(MlflowClient(url)):
    for span in trace.data.spans:
        assert span.span_id not in found, span
        found[span.span_id] = told(trace, span)
# Two files may tell one turn: a fork begins with a copy.
all_sent = {}
for line in open(sent, encoding="utf-8"):
    span = json.loads(line)
    all_sent.setdefault(span["span"], []).append(should(span))
wrong = 0
for id, ways in all_sent.items():
    has = found.pop(id, {})
    if has not in ways:
        wrong += 1
        print(id, ways[0]["name"], {name: [value, has.get(name)] for name, value in ways[0].items() if value != has.get(name)})
print(f"{len(all_sent)} spans were sent, {wrong} of them differ, {len(found)} others are there")
