// Adapter for the OpenAI Agents SDK (@openai/agents): guarded function tools, and a filter of
// the model's input that records prompts. It does not import the SDK.
import { idOf, isRefusal, refusal, textOf } from "./index.js";

/**
 * Wraps the tools, so that each asks before it runs. A refused call returns the reasons. Only function tools
 * can be guarded: name others in `unguarded`, or guardTools throws.
 */
export function guardTools(lz, tools, { wait = 0, session, origin = "tool", unguarded = [] } = {}) {
  const originOf = typeof origin === "function" ? origin : () => origin;
  return tools.map((tool) => {
    if (tool.type !== "function" || typeof tool.invoke !== "function") {
      if (unguarded.includes(tool.name)) return tool;
      throw new TypeError(`the tool ${tool.name} is of type ${tool.type} and cannot be guarded: name it in unguarded to let it be`);
    }
    const invoke = async (context, input, details) => {
      try {
        return await lz.perform(tool.name, argsOf(input), () => tool.invoke(context, input, details), {
          origin: originOf(tool.name), session: await idOf(session), wait, signal: details?.signal });
      } catch (err) {
        if (!isRefusal(err)) throw err;
        return refusal(err);
      }
    };
    return { ...tool, invoke };
  });
}

/** callModelInputFilter of a run: records each item before the model gets it. */
export function recordPrompts(lz, { session, prompts = "user" } = {}) {
  return async ({ modelData }) => {
    const s = await idOf(session);
    for (const item of modelData.input) {
      if (item.role === "user" && prompts) await lz.observeOnce({ origin: prompts, session: s, content: said(item.content) });
      else if (typeof item.type === "string" && /_(result|output)$/.test(item.type))
        await lz.observeOnce({ origin: "tool", session: s, content: said(item.output) });
    }
    return modelData;
  };
}

function argsOf(input) {
  try {
    const args = JSON.parse(input);
    return args !== null && typeof args === "object" && !Array.isArray(args) ? args : { input: args };
  } catch {
    return { input };
  }
}

function said(content) {
  if (typeof content === "string") return content;
  if (Array.isArray(content)) return content.map((c) => c.text ?? textOf(c)).join("\n");
  return content?.text ?? textOf(content);
}
