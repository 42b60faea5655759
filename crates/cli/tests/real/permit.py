"""Who may do what, by the official SDK: permit.py PROGRAM FOLDER."""
import asyncio
import logging
import sys

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, PermissionResultAllow, PermissionResultDeny, PermissionUpdate
from claude_agent_sdk.types import PermissionRuleValue

logging.basicConfig(level=logging.WARNING, stream=sys.stdout, format="%(levelname)s %(message)s")


async def decide(tool, given, context):
    print("asked", tool, given.get("command") or given.get("plan") or given.get("content"), len(context.suggestions) > 0)
    if tool == "Write":
        return PermissionResultAllow(updated_input={**given, "content": "changed\n"})
    if given.get("command") == "touch denied":
        return PermissionResultDeny(message="Not that.")
    if given.get("command") == "touch asked":
        rule = PermissionRuleValue(tool_name="Bash", rule_content="touch:*")
        update = PermissionUpdate(type="addRules", rules=[rule], behavior="allow", destination="localSettings")
        return PermissionResultAllow(updated_permissions=[update])
    return PermissionResultAllow()


def tell(message):
    if type(message).__name__ == "ResultMessage":
        print("result", message.subtype, message.result)


async def main():
    options = ClaudeAgentOptions(cli_path=sys.argv[1], cwd=sys.argv[2], permission_mode="plan", can_use_tool=decide, max_turns=20)
    async with ClaudeSDKClient(options=options) as client:
        await client.query("Plan.")
        async for message in client.receive_response():
            tell(message)
        await client.set_permission_mode("acceptEdits")
        await client.query("More.")
        async for message in client.receive_response():
            tell(message)
        try:
            await client.set_permission_mode("bypassPermissions")
        except Exception as error:
            print("refused", "bypassPermissions" in str(error))


asyncio.run(main())
