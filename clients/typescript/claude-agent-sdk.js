// Hooks for the Claude Agent SDK (option `hooks` of query). This file does not import the SDK. Every
// matcher has onFailure: "block", so that a failure of a hook stops the call.
import { idOf, Refused, refusal, textOf } from "./index.js";

const MAX_CALLS = 1024; // limit of calls that run at the same time
const WEB = ["WebFetch", "WebSearch"], DOCUMENT = ["Read", "Grep", "NotebookRead"];

/** lazaretHooks(lz, { wait, session, origin, prompts }). The session is the SDK's by default. */
export function lazaretHooks(lz, { wait = 0, session, origin = claudeOrigin, prompts = "user" } = {}) {
  const originOf = typeof origin === "function" ? origin : () => origin;
  const sessionOf = (input) => idOf(session ?? input.session_id);
  const calls = new Map(); // functions that end a running call, by tool_use_id
  const end = (id, how, value) => {
    const c = calls.get(id);
    calls.delete(id);
    c?.[how](value);
    return c?.done;
  };

  const before = async (input, id, { signal } = {}) => {
    let started;
    const runs = new Promise((resolve) => { started = resolve; });
    const call = {};
    // The SDK runs the tool itself, between two hooks. So the call ends when the second hook is called.
    call.done = lz.perform(input.tool_name, argsOf(input.tool_input), () => {
      const result = new Promise((ok, fail) => Object.assign(call, { ok, fail }));
      started(true);
      return result;
    }, { origin: originOf(input.tool_name), session: await sessionOf(input), wait, signal,
      passes: (err) => err instanceof NeverRan });
    const refused = call.done.then(() => undefined, (err) => err);
    const err = (await Promise.race([runs, refused])) === true ? undefined : await refused;
    if (!err) {
      calls.set(input.tool_use_id ?? id, call);
      // If the host refuses the call after this hook, the second hook is never called.
      if (calls.size > MAX_CALLS) end(calls.keys().next().value, "fail", new NeverRan())?.catch(() => {});
      return {};
    }
    if (!(err instanceof Refused)) throw err;
    return specific("PreToolUse", { permissionDecision: "deny", permissionDecisionReason: refusal(err) });
  };

  const after = async (input, id) => {
    const failed = input.hook_event_name === "PostToolUseFailure";
    const key = input.tool_use_id ?? id;
    try {
      if (calls.has(key)) await end(key, failed ? "fail" : "ok", failed ? new ToolFailed(input.error) : input.tool_response);
      else await lz.observe({ origin: originOf(input.tool_name), session: await sessionOf(input), tool: input.tool_name, call: await idOf(key),
        content: failed ? String(input.error) : textOf(input.tool_response) });
    } catch (err) {
      if (err instanceof ToolFailed) return {}; // the failure is recorded
      // A hook cannot replace the text of an error, so it stops the agent.
      if (failed) return { continue: false, stopReason: refusal(err) };
      return specific("PostToolUse", { updatedToolOutput: refusal(err) });
    }
    return {};
  };

  const prompted = async (input) => {
    const from = promptOrigin(input.source, prompts);
    await lz.observe({ origin: from, session: await sessionOf(input), content: input.prompt, source: from === prompts ? undefined : `prompt:${input.source}` });
    return {};
  };

  const matcher = (hook) => [{ hooks: [hook], timeout: Math.ceil((wait + 2 * lz.timeout) / 1000) + 15, onFailure: "block" }];
  return {
    ...(prompts ? { UserPromptSubmit: matcher(prompted) } : {}),
    PreToolUse: matcher(before), PostToolUse: matcher(after), PostToolUseFailure: matcher(after),
  };
}

class ToolFailed extends Error {}
class NeverRan extends Error {}

const specific = (hookEventName, fields) => ({ hookSpecificOutput: { hookEventName, ...fields } });

/** The default origin of a tool's results: web for tools that fetch, document for tools that read files, else tool. */
export function claudeOrigin(tool) { return WEB.includes(tool) ? "web" : DOCUMENT.includes(tool) ? "document" : "tool"; }

// If a program calls the SDK, its prompts have the source sdk. Then the option `prompts` is their origin.
function promptOrigin(source, prompts) {
  if (source === undefined || source === "user" || source === "sdk") return prompts;
  return source === "loop_wakeup" || source === "schedule_wakeup" ? "agent" : "tool";
}

function argsOf(input) { return input !== null && typeof input === "object" && !Array.isArray(input) ? input : { input }; }
