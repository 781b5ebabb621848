// Plays the program that the Claude Agent SDK starts, as far as hooks go: JSON lines on
// standard input and output. SCRIPT has the calls of tools, with what each returns.
import { createInterface } from "node:readline";

const steps = JSON.parse(process.env.SCRIPT);
const base = { session_id: process.env.SESSION, transcript_path: "/dev/null", cwd: process.cwd() };
const say = (m) => process.stdout.write(JSON.stringify(m) + "\n");
const asked = new Map();
let hooks = {};

// The answers of all hooks of an event, merged.
async function fire(event, fields, id) {
  let merged = {};
  for (const m of hooks[event] ?? []) for (const callback of m.hookCallbackIds) {
    const request_id = `r${asked.size + 1}`;
    const answer = new Promise((resolve) => asked.set(request_id, resolve));
    say({ type: "control_request", request_id, request: { subtype: "hook_callback", callback_id: callback, tool_use_id: id, input: { ...base, hook_event_name: event, ...fields } } });
    merged = { ...merged, ...(await answer) };
  }
  return merged;
}

async function play(prompt) {
  const shown = [];
  await fire("UserPromptSubmit", { prompt, source: "sdk" });
  shown.push({ prompt });
  let n = 0;
  for (const { tool, input, output, error } of steps) {
    const call = { tool_name: tool, tool_input: input, tool_use_id: `toolu_${process.pid}_${++n}` };
    const before = (await fire("PreToolUse", call, call.tool_use_id)).hookSpecificOutput;
    if (before?.permissionDecision === "deny") {
      shown.push({ shown: before.permissionDecisionReason });
      continue;
    }
    const after = error ? await fire("PostToolUseFailure", { ...call, error }, call.tool_use_id)
      : await fire("PostToolUse", { ...call, tool_response: output }, call.tool_use_id);
    shown.push({ ran: tool, input, shown: after.hookSpecificOutput?.updatedToolOutput ?? error ?? output });
  }
  say({ type: "result", subtype: "success", is_error: false, num_turns: 1, duration_ms: 1, duration_api_ms: 1, total_cost_usd: 0, usage: {}, ...base, uuid: "u1", result: JSON.stringify(shown) });
  process.exit(0);
}

createInterface({ input: process.stdin }).on("line", (line) => {
  const m = JSON.parse(line);
  if (m.type === "control_request") {
    if (m.request.subtype === "initialize") hooks = m.request.hooks ?? {};
    say({ type: "control_response", response: { subtype: "success", request_id: m.request_id, response: { commands: [], models: [], hook_on_failure_supported: true, hooks_applied: true} } });
  } else if (m.type === "control_response") {
    asked.get(m.response.request_id)?.(m.response.response ?? {});
  } else if (m.type === "user") {
    const c = m.message.content;
    play(typeof c === "string" ? c : c.map((b) => b.text).join(""));
  }
});
