"""A session of our agent, hosted by the official SDK: host.py PROGRAM FOLDER."""
import asyncio
import dataclasses
import logging
import pathlib
import sys

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, query

# What the SDK warns of, the version of its client among it, is told too.
logging.basicConfig(level=logging.WARNING, stream=sys.stdout, format="%(levelname)s %(message)s")

options = ClaudeAgentOptions(cli_path=sys.argv[1], cwd=sys.argv[2], allowed_tools=["Read"], max_turns=5)


def tell(message):
    kind = type(message).__name__
    if kind == "AssistantMessage":
        print(kind, *(getattr(block, "text", None) or block.name for block in message.content))
    elif kind == "ResultMessage":
        print(kind, message.subtype, message.is_error, message.num_turns, message.result)
    else:
        print(kind)


async def main():
    async for message in query(prompt="Read it.", options=options):
        tell(message)
    async with ClaudeSDKClient(options=options) as client:
        for prompt in ["One.", "Two."]:
            await client.query(prompt)
            async for message in client.receive_response():
                tell(message)
            await client.set_model("haiku")
            await client.set_permission_mode("acceptEdits")
            await client.interrupt()


async def checkpoints():
    """A file that a turn wrote is gone again once the host rewinds to that turn's prompt."""
    written = pathlib.Path(sys.argv[2], "note.txt")
    changes = dict(
        allowed_tools=["Write"],
        permission_mode="acceptEdits",
        enable_file_checkpointing=True,
        extra_args={"replay-user-messages": None},
    )
    async with ClaudeSDKClient(options=dataclasses.replace(options, **changes)) as client:
        await client.query("Write it.")
        prompt = None
        async for message in client.receive_response():
            if prompt is None and type(message).__name__ == "UserMessage":
                prompt = message.uuid
        before = written.exists()
        await client.rewind_files(prompt)
        print("checkpoints", before, written.exists())


async def refused(name, **changes):
    """Options that cannot be honoured must fail, whatever the SDK makes of the failure."""
    try:
        async for _ in query(prompt="Write.", options=dataclasses.replace(options, **changes)):
            pass
    except Exception as error:
        print("refused", name, name in str(error))
    else:
        print("ignored", name)


async def refusals():
    await refused("MCP", mcp_servers={"one": {"type": "stdio", "command": "true"}})


asyncio.run(main())
asyncio.run(checkpoints())
# That a run failed is what is asked for here, and is told below; the SDK's own word about it need not be.
logging.disable()
asyncio.run(refusals())
