"""What hosts use of the official SDK for Python, one row each: sdk.py PROGRAM FOLDER."""
import asyncio
import json
import logging
import pathlib
import sys

import claude_agent_sdk
from claude_agent_sdk import AgentDefinition, ClaudeAgentOptions, ClaudeSDKClient, HookMatcher, PermissionResultAllow, PermissionResultDeny, query

logging.disable()
PROGRAM, FOLDER = sys.argv[1:3]


def options(**changes):
    return ClaudeAgentOptions(cli_path=PROGRAM, cwd=FOLDER, **changes)


def row(name, *said):
    print(name, *said, sep=" | ", flush=True)


async def ask(prompt, **changes):
    """The result of one prompt, and everything that came before it."""
    said, result = [], None
    async for message in query(prompt=prompt, options=options(**changes)):
        said.append(message)
        if type(message).__name__ == "ResultMessage":
            result = message
    return result, said


async def turn(client, prompt):
    await client.query(prompt)
    return [message async for message in client.receive_response()]


async def plain():
    result, said = await ask("LAB-PLAIN")
    row("query", result.subtype, result.result, [type(message).__name__ for message in said])


async def sessions():
    async with ClaudeSDKClient(options=options()) as client:
        first = (await turn(client, "LAB-ONE"))[-1]
        second = (await turn(client, "LAB-TWO"))[-1]
        info = await client.get_server_info()
    row("client", first.result, second.result, first.session_id == second.session_id, bool(info["models"]))
    same, _ = await ask("LAB-THREE", resume=first.session_id)
    row("resume", same.result, same.session_id == first.session_id)
    newest, _ = await ask("LAB-FOUR", continue_conversation=True)
    row("continue", newest.result, newest.session_id == first.session_id)
    fork, _ = await ask("LAB-FIVE", resume=first.session_id, fork_session=True)
    row("fork", fork.result, fork.session_id != first.session_id)
    listed = claude_agent_sdk.list_sessions(directory=FOLDER)
    said = claude_agent_sdk.get_session_messages(fork.session_id, directory=FOLDER)
    row("session functions", fork.session_id in [one.session_id for one in listed], len(said))
    claude_agent_sdk.rename_session(fork.session_id, "Renamed", directory=FOLDER)
    named = claude_agent_sdk.get_session_info(fork.session_id, directory=FOLDER)
    again, _ = await ask("LAB-SIX", resume=fork.session_id)
    row("renamed", named.custom_title, again.result, again.session_id == fork.session_id)


async def partial():
    _, said = await ask("LAB-PARTIAL", include_partial_messages=True)
    events = [message.event for message in said if type(message).__name__ == "StreamEvent"]
    words = "".join(event["delta"].get("text", "") for event in events if event["type"] == "content_block_delta")
    row("partial messages", words)


async def permissions():
    async def decide(tool, given, context):
        if "refused" in given["command"]:
            return PermissionResultDeny(message="Not that.")
        return PermissionResultAllow(updated_input={**given, "command": "touch changed"})

    async def prompts():
        yield {"type": "user", "message": {"role": "user", "content": "LAB-PERMIT"}}

    said = [message async for message in query(prompt=prompts(), options=options(can_use_tool=decide))]
    there = [pathlib.Path(FOLDER, name).exists() for name in ["asked", "changed", "refused"]]
    row("permission callback", said[-1].result, there)


async def hooks():
    seen = []

    async def before(given, call, context):
        seen.append(given["hook_event_name"])
        command = given["tool_input"]["command"]
        if "hook-no" in command:
            return {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "not so"}}
        changed = {**given["tool_input"], "command": "echo LAB-HOOK-CHANGED"}
        return {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow", "updatedInput": changed}}

    async def after(given, call, context):
        seen.append(given["hook_event_name"])
        return {"hookSpecificOutput": {"hookEventName": given["hook_event_name"], "additionalContext": "LAB-HOOK-NOTE"}}

    async def told(given, call, context):
        seen.append(given["hook_event_name"])
        return {}

    book = {"PreToolUse": [HookMatcher(matcher="Bash", hooks=[before])], "PostToolUse": [HookMatcher(matcher="Bash", hooks=[after])]}
    book |= {"UserPromptSubmit": [HookMatcher(hooks=[told])], "Stop": [HookMatcher(hooks=[told])]}
    async with ClaudeSDKClient(options=options(hooks=book, allowed_tools=["Bash"])) as client:
        said = await turn(client, "LAB-HOOK")
    row("hooks", said[-1].result, seen, pathlib.Path(FOLDER, "hook-no").exists())

    async def broken(given, call, context):
        raise RuntimeError("broken")

    try:
        book = {"PreToolUse": [HookMatcher(matcher="Bash", hooks=[broken], on_failure="block")]}
    except TypeError:
        return row("hook that must not fail", "not in this SDK")
    async with ClaudeSDKClient(options=options(hooks=book, allowed_tools=["Bash"])) as client:
        said = await turn(client, "LAB-GUARD")
    row("hook that must not fail", said[-1].result, pathlib.Path(FOLDER, "guarded").exists())


async def agents():
    counter = AgentDefinition(description="Counts.", prompt="LAB-COUNTER counts things.", tools=["Read"], model="haiku")
    async with ClaudeSDKClient(options=options(agents={"counter": counter})) as client:
        said = await turn(client, "LAB-AGENT")
    inner = [message for message in said if getattr(message, "parent_tool_use_id", None)]
    tasks = [message.subtype for message in said if getattr(message, "subtype", "").startswith("task_")]
    row("agents", said[-1].result, len(inner) > 0, sorted(set(tasks)))


async def interrupt():
    async with ClaudeSDKClient(options=options(include_partial_messages=True)) as client:
        await client.query("LAB-HANG")
        async for message in client.receive_response():
            if type(message).__name__ == "StreamEvent":
                await client.interrupt()
                break
        ended = [message async for message in client.receive_response()][-1]
        after = (await turn(client, "LAB-ONE"))[-1]
    row("interrupt", ended.subtype, ended.is_error, after.result)


async def shapes():
    schema = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}
    result, _ = await ask("LAB-SHAPE", output_format={"type": "json_schema", "schema": schema})
    row("structured output", result.subtype, result.structured_output)
    result, _ = await ask("LAB-SYSTEM", system_prompt="LAB-OWN-PROMPT")
    row("system prompt", result.result)
    result, _ = await ask("LAB-APPEND", system_prompt={"type": "preset", "preset": "claude_code", "append": "LAB-MORE-PROMPT"})
    row("appended prompt", result.result)
    result, _ = await ask("LAB-MODEL", model="haiku", fallback_model="sonnet", effort="low", betas=["context-1m-2025-08-07"], max_thinking_tokens=2000)
    row("model, effort, betas", result.result)


async def limits():
    try:
        result, _ = await ask("LAB-BUDGET", allowed_tools=["Read"], max_budget_usd=0.000001)
        row("budget", result.subtype, result.is_error)
    except Exception as error:
        row("budget", "raised", "budget" in str(error).lower(), type(error).__name__)
    try:
        result, _ = await ask("LAB-TURNS", allowed_tools=["Read"], max_turns=1)
        row("turns", result.subtype, result.is_error)
    except Exception as error:
        row("turns", "raised", "turns" in str(error), type(error).__name__)


async def controls():
    async with ClaudeSDKClient(options=options()) as client:
        await client.set_model("haiku")
        await client.set_permission_mode("acceptEdits")
        said = (await turn(client, "LAB-CONTROL"))[-1]
        usage = await client.get_context_usage()
    row("controls", said.result, usage["totalTokens"] > 0)


async def refused(name, word, **changes):
    heard = []
    try:
        await ask("LAB-PLAIN-AGAIN", stderr=heard.append, **changes)
    except Exception as error:
        row("refused", name, word in f"{error} {heard}")
    else:
        row("ignored", name)


async def refusals():
    await refused("MCP", "MCP", mcp_servers={"one": {"type": "stdio", "command": "true"}})
    await refused("plugins", "plugin", plugins=[{"type": "local", "path": FOLDER}])
    await refused("task budget", "task-budget", task_budget={"total": 1000})


async def main():
    for part in [plain, sessions, partial, permissions, hooks, agents, interrupt, shapes, limits, controls, refusals]:
        if len(sys.argv) > 3 and part.__name__ not in sys.argv[3:]:
            continue
        try:
            await asyncio.wait_for(part(), 60)
        except Exception as error:
            row(part.__name__, "FAILED", type(error).__name__, str(error)[-600:])


asyncio.run(main())
