import { strict as assert } from "node:assert";
import { fileURLToPath } from "node:url";
import { query } from "@anthropic-ai/claude-agent-sdk";
import { lazaretHooks } from "lazaret/claude-agent-sdk";
import { blind, lz, page, mail, prompt, sent, stopped, wait, wentOn } from "./scenario.mjs";

// The SDK is the stock one. The program behind it, which comes with a model, is played by
// fake-claude.mjs: it speaks the SDK's protocol and prints what the model would be shown.
async function run(client, options, steps) {
  const shown = [];
  const messages = query({ prompt, options: {
    hooks: lazaretHooks(client, options), settingSources: [], executable: "node",
    pathToClaudeCodeExecutable: fileURLToPath(new URL("fake-claude.mjs", import.meta.url)),
    env: { ...process.env, SCRIPT: JSON.stringify(steps), SESSION: lz.session },
  } });
  for await (const m of messages) if (m.type === "result") shown.push(...JSON.parse(m.result));
  sent.push(...shown.filter((s) => s.ran === "send_email").map((s) => s.input.to));
  return shown;
}
const read = { tool: "WebFetch", input: { url: "https://shop.example" }, output: page };
const send = { tool: "send_email", input: mail, output: "sent" };

const first = await run(lz, {}, [read, send]);
assert.equal(first[0].prompt, prompt);
assert.equal(first[1].shown, page);
stopped(first[2].shown);
const second = await run(lz, { wait }, [send, { tool: "Bash", input: { command: "ls" }, error: "no such folder" }]);
assert.equal(second[2].shown, "no such folder");

// A result that could not be recorded is replaced before the model sees it.
let lost = false;
const losing = new (lz.constructor)({ url: lz.url, token: lz.token, session: lz.session, tries: 1,
  fetch: (u, o) => (lost && u.endsWith("/v1/observe") ? Promise.reject(new Error("lost")) : fetch(u, o)) });
const hooks = lazaretHooks(losing);
const event = { session_id: lz.session, tool_name: "Read", tool_input: { file_path: "notes.txt" }, tool_use_id: "t1" };
assert.deepEqual(await hooks.PreToolUse[0].hooks[0]({ ...event, hook_event_name: "PreToolUse" }, "t1", {}), {});
lost = true;
const out = await hooks.PostToolUse[0].hooks[0]({ ...event, hook_event_name: "PostToolUse", tool_response: page }, "t1", {});
assert.match(out.hookSpecificOutput.updatedToolOutput, /withheld/);
assert.equal(hooks.PostToolUse[0].onFailure, "block");
await assert.rejects(lazaretHooks(blind()).UserPromptSubmit[0].hooks[0]({ session_id: "s", prompt: "x" }), /LZ601/);
await wentOn(second[1].shown);
