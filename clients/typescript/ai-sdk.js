// Adapter for the AI SDK of Vercel (tested with ai 6): guarded tools, and a middleware of the
// model that records prompts. It does not import the SDK.
import { idOf, textOf } from "./index.js";

/**
 * Wraps the tools, so that each asks before it runs. A refused call throws, and the SDK gives the model the error.
 * A tool without `execute` runs in the browser or at the model's provider, where it cannot be stopped: name it in
 * `unguarded`, or guardTools throws.
 */
export function guardTools(lz, tools, { wait = 0, session, origin = "tool", unguarded = [] } = {}) {
  const originOf = typeof origin === "function" ? origin : () => origin;
  return Object.fromEntries(Object.entries(tools).map(([name, tool]) => {
    if (typeof tool.execute !== "function") {
      if (unguarded.includes(name)) return [name, tool];
      throw new TypeError(`the tool ${name} has no execute, so it cannot be guarded: name it in unguarded to let it be`);
    }
    const execute = async (args, options) => lz.perform(name, args, () => last(tool.execute(args, options)), {
      origin: originOf(name), session: await idOf(session), wait, signal: options?.abortSignal });
    return [name, { ...tool, execute }];
  }));
}

/** Middleware for wrapLanguageModel: records each message before the model gets it. */
export function recordPrompts(lz, { session, prompts = "user" } = {}) {
  return {
    specificationVersion: "v3",
    transformParams: async ({ params }) => {
      const s = await idOf(session);
      for (const m of params.prompt) {
        const from = m.role === "user" ? prompts : m.role === "tool" ? "tool" : false;
        for (const content of from ? textsOf(m.content) : []) await lz.observeOnce({ origin: from, session: s, content });
      }
      return params;
    },
  };
}

// The last value that a tool yields is its result. The earlier ones are only shown on the page.
async function last(result) {
  if (typeof result?.[Symbol.asyncIterator] !== "function") return result;
  let value;
  for await (value of result);
  return value;
}

function textsOf(content) {
  return content.map((p) => {
    if (p.type === "text") return p.text;
    if (p.type !== "tool-result") return p.type === "tool-approval-response" ? "" : textOf({ ...p, data: undefined });
    return textOf(p.output?.value ?? p.output);
  });
}
