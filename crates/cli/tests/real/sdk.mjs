// What hosts use of the official SDK for TypeScript, one row each: sdk.mjs PROGRAM FOLDER.
import fs from "node:fs";
import path from "node:path";

const { query, listSessions, getSessionMessages, renameSession } = await import(process.env.SDK);
const [, , PROGRAM, FOLDER, ...only] = process.argv;
const options = (changes) => ({ pathToClaudeCodeExecutable: PROGRAM, cwd: FOLDER, ...changes });
const row = (...said) => console.log(said.map((one) => (typeof one === "string" ? one : JSON.stringify(one))).join(" | "));
const is = (name) => fs.existsSync(path.join(FOLDER, name));

async function ask(prompt, changes = {}) {
  const said = [];
  for await (const message of query({ prompt, options: options(changes) })) said.push(message);
  return [said.findLast((message) => message.type === "result"), said];
}

// Prompts, each sent once the one before has its result.
function talk(prompts, changes, during = async () => {}) {
  let next;
  let wait = () => new Promise((done) => (next = done));
  async function* input() {
    for (const prompt of prompts) {
      const waiting = wait();
      yield { type: "user", message: { role: "user", content: prompt }, parent_tool_use_id: null };
      await waiting;
    }
  }
  const talk = query({ prompt: input(), options: options(changes) });
  return (async () => {
    const said = [];
    for await (const message of talk) {
      said.push(message);
      await during(talk, message, said);
      if (message.type === "result") next();
    }
    return said;
  })();
}

const results = (said) => said.filter((message) => message.type === "result");

const parts = {
  async plain() {
    const [result, said] = await ask("LAB-PLAIN");
    row("query", result.subtype, result.result, said.map((message) => message.type));
  },
  async sessions() {
    const said = await talk(["LAB-ONE", "LAB-TWO"], {});
    const [one, two] = results(said);
    row("streamed prompts", one.result, two.result, one.session_id === two.session_id);
    const [same] = await ask("LAB-THREE", { resume: one.session_id });
    row("resume", same.result, same.session_id === one.session_id);
    const [newest] = await ask("LAB-FOUR", { continue: true });
    row("continue", newest.result, newest.session_id === one.session_id);
    const [fork] = await ask("LAB-FIVE", { resume: one.session_id, forkSession: true });
    row("fork", fork.result, fork.session_id !== one.session_id);
    const listed = await listSessions({ dir: FOLDER });
    const messages = await getSessionMessages(fork.session_id, { dir: FOLDER });
    row("session functions", listed.some((session) => session.sessionId === fork.session_id), messages.length);
    await renameSession(fork.session_id, "Renamed", { dir: FOLDER });
    const [again] = await ask("LAB-SIX", { resume: fork.session_id });
    row("renamed", again.result, again.session_id === fork.session_id);
    const at = messages[1].uuid;
    const [back] = await ask("LAB-TWO", { resume: fork.session_id, resumeSessionAt: at });
    row("resume at", back.result);
  },
  async partial() {
    const [, said] = await ask("LAB-PARTIAL", { includePartialMessages: true });
    const pieces = said.filter((message) => message.type === "stream_event" && message.event.type === "content_block_delta");
    row("partial messages", pieces.map((message) => message.event.delta.text ?? "").join(""));
  },
  async permissions() {
    const canUseTool = async (tool, input) =>
      input.command.includes("refused") ? { behavior: "deny", message: "Not that." } : { behavior: "allow", updatedInput: { ...input, command: "touch changed" } };
    const said = await talk(["LAB-PERMIT"], { canUseTool });
    row("permission callback", results(said)[0].result, ["asked", "changed", "refused"].map(is));
  },
  async hooks() {
    const seen = [];
    const told = async (given) => (seen.push(given.hook_event_name), {});
    const before = async (given) => {
      seen.push(given.hook_event_name);
      const output = { hookEventName: "PreToolUse" };
      if (given.tool_input.command.includes("hook-no")) return { hookSpecificOutput: { ...output, permissionDecision: "deny", permissionDecisionReason: "not so" } };
      return { hookSpecificOutput: { ...output, permissionDecision: "allow", updatedInput: { ...given.tool_input, command: "echo LAB-HOOK-CHANGED" } } };
    };
    const after = async (given) => {
      seen.push(given.hook_event_name);
      return { hookSpecificOutput: { hookEventName: "PostToolUse", additionalContext: "LAB-HOOK-NOTE" } };
    };
    const hooks = { PreToolUse: [{ matcher: "Bash", hooks: [before] }], PostToolUse: [{ matcher: "Bash", hooks: [after] }], UserPromptSubmit: [{ hooks: [told] }], Stop: [{ hooks: [told] }] };
    const said = await talk(["LAB-HOOK"], { hooks, allowedTools: ["Bash"] });
    row("hooks", results(said)[0].result, seen, is("hook-no"));
    const broken = async () => {
      throw new Error("broken");
    };
    const guard = { PreToolUse: [{ matcher: "Bash", hooks: [broken], onFailure: "block" }] };
    const guarded = await talk(["LAB-GUARD"], { hooks: guard, allowedTools: ["Bash"] });
    row("hook that must not fail", results(guarded)[0].subtype, is("guarded"));
  },
  async agents() {
    const agents = { counter: { description: "Counts.", prompt: "LAB-COUNTER counts things.", tools: ["Read"], model: "haiku" } };
    const [result, said] = await ask("LAB-AGENT", { agents });
    const inner = said.filter((message) => message.parent_tool_use_id);
    const tasks = said.map((message) => message.subtype ?? "").filter((name) => name.startsWith("task_"));
    row("agents", result.result, inner.length > 0, [...new Set(tasks)].sort());
  },
  async interrupt() {
    let stopped = false;
    const said = await talk(["LAB-HANG", "LAB-ONE"], { includePartialMessages: true }, async (talk, message) => {
      if (message.type === "stream_event" && !stopped) {
        stopped = true;
        await talk.interrupt();
      }
    });
    const [one, two] = results(said);
    row("interrupt", one.subtype, one.is_error, two.result);
  },
  async shapes() {
    const schema = { type: "object", properties: { count: { type: "integer" } }, required: ["count"] };
    let [result] = await ask("LAB-SHAPE", { outputFormat: { type: "json_schema", schema } });
    row("structured output", result.subtype, result.structured_output);
    [result] = await ask("LAB-SYSTEM", { systemPrompt: "LAB-OWN-PROMPT" });
    row("system prompt", result.result);
    [result] = await ask("LAB-APPEND", { systemPrompt: { type: "preset", preset: "claude_code", append: "LAB-MORE-PROMPT" } });
    row("appended prompt", result.result);
    [result] = await ask("LAB-MODEL", { model: "haiku", fallbackModel: "sonnet", effort: "low", maxThinkingTokens: 2000 });
    row("model, effort", result.result);
  },
  async limits() {
    for (const [name, prompt, changes] of [["budget", "LAB-BUDGET", { maxBudgetUsd: 0.000001 }], ["turns", "LAB-TURNS", { maxTurns: 1 }]]) {
      const said = [];
      try {
        for await (const message of query({ prompt, options: options({ allowedTools: ["Read"], ...changes }) })) said.push(message);
      } catch {
        // The program ends with an error after it has said how.
      }
      row(name, said.at(-1).subtype, said.at(-1).is_error);
    }
  },
  async controls() {
    let before;
    let usage;
    let lists;
    const said = await talk(["LAB-ONE", "LAB-CONTROL"], {}, async (talk, message) => {
      if (message.type !== "result") return;
      if (before) {
        usage = await talk.getContextUsage();
        return;
      }
      before = message;
      await talk.setModel("haiku");
      await talk.setPermissionMode("acceptEdits");
      lists = [(await talk.supportedModels()).length > 0, (await talk.supportedCommands()).length, (await talk.supportedAgents()).length > 0, (await talk.mcpServerStatus()).length];
    });
    row("controls", results(said)[1].result, usage.totalTokens > 0, lists);
  },
  async checkpoints() {
    const changes = { permissionMode: "acceptEdits", enableFileCheckpointing: true, extraArgs: { "replay-user-messages": null } };
    let prompt;
    await talk(["LAB-CHECKPOINT"], changes, async (talk, message) => {
      if (message.type === "user") prompt ??= message.uuid;
      if (message.type !== "result") return;
      const written = is("checkpoint.txt");
      const { canRewind, filesChanged } = await talk.rewindFiles(prompt, { dryRun: true });
      const still = is("checkpoint.txt");
      const back = await talk.rewindFiles(prompt);
      row("checkpoints", message.result, written, canRewind, filesChanged.length, still, back.canRewind, is("checkpoint.txt"));
    });
  },
  async refusals() {
    for (const [name, changes] of [
      ["MCP", { mcpServers: { one: { type: "stdio", command: "true" } } }],
      ["plugins", { plugins: [{ type: "local", path: FOLDER }] }],
      ["plan instructions", { planModeInstructions: "Plan so." }],
    ]) {
      try {
        await ask("LAB-PLAIN-AGAIN", changes);
        row("ignored", name);
      } catch (error) {
        row("refused", name, /not support|unexpected argument/.test(String(error)));
      }
    }
  },
};

for (const [name, part] of Object.entries(parts)) {
  if (only.length && !only.includes(name)) continue;
  let timer;
  try {
    await Promise.race([part(), new Promise((_, fail) => (timer = setTimeout(() => fail(new Error("it takes too long")), 60_000)))]);
  } catch (error) {
    row(name, "FAILED", String(error).slice(0, 600));
  } finally {
    clearTimeout(timer);
  }
}
