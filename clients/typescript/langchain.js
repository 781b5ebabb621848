// Middleware for agents of LangChain and LangGraph (createAgent of langchain 1.x). It
// records prompts and results of tools before the model sees them, and asks before each call.
import { createMiddleware, ToolMessage } from "langchain";
import { idOf, isRefusal, refusal, textOf } from "./index.js";

/** lazaretMiddleware(lz, { wait, session, origin, prompts }). The session is the thread by default. */
export function lazaretMiddleware(lz, { wait = 0, session, origin = "tool", prompts = "user" } = {}) {
  const originOf = typeof origin === "function" ? origin : () => origin;
  const sessionOf = (runtime) => idOf(session ?? runtime?.configurable?.thread_id ?? lz.session);
  // A text that does not come from the caller of this run, such as a summary or a result that another
  // program stored, is recorded with the origin tool, which is external.
  const record = async (messages, runtime, from) => {
    const s = await sessionOf(runtime);
    for (const m of messages) await lz.observeOnce({ origin: from, session: s, content: contentOf(m) });
  };
  return createMiddleware({
    name: "Lazaret",
    beforeAgent: async (state, runtime) => {
      if (prompts) await record(newest(state.messages), runtime, prompts);
    },
    wrapModelCall: async (request, handler) => {
      const external = (m) => m.getType() === "tool" || (prompts && m.getType() === "human");
      await record(request.messages.filter(external), request.runtime, "tool");
      return handler(request);
    },
    wrapToolCall: async (request, handler) => {
      const { name, args, id } = request.toolCall;
      try {
        return await lz.perform(name, args, () => handler(request), {
          origin: originOf(name), session: await sessionOf(request.runtime), wait, signal: request.runtime?.signal,
          text: shown, failed: (m) => m?.status === "error", passes: (err) => err?.is_bubble_up === true,
        });
      } catch (err) {
        if (!isRefusal(err)) throw err;
        return new ToolMessage({ name, tool_call_id: id, status: "error", content: refusal(err) });
      }
    },
  });
}

// Returns the prompts with which this run was started: the messages after the model's last one.
function newest(messages) {
  let i = messages.length;
  while (i > 0 && messages[i - 1].getType() === "human" && !messages[i - 1].additional_kwargs?.lc_source) i--;
  return messages.slice(i);
}

function contentOf(m) {
  return typeof m.content === "string" ? m.content : m.content.map((b) => b.text ?? JSON.stringify(b)).join("\n");
}

// A tool may return a message, or a Command that adds messages.
function shown(result) {
  if (result?.getType) return contentOf(result);
  const added = result?.update?.messages;
  return Array.isArray(added) ? added.map((m) => (m.getType ? contentOf(m) : textOf(m))).join("\n") : textOf(result);
}
