// Adapters for four stores with the guard. Each has add and search: add writes a memory
// only if the verdict is allow, and search returns only memories that the gate admits.

async function call(method, url, headers, body) {
  const res = await fetch(url, { method, headers: { "content-type": "application/json", ...headers }, body: body && JSON.stringify(body) });
  if (!res.ok) throw new Error(`${method} ${url}: ${res.status} ${await res.text()}`);
  return res.json();
}

/** Puts the guard before a store's own write and after its own search. */
const guarded = (guard, name, { write, find }) => ({
  async add(origin, content) {
    const reply = await guard.remember({ origin, content, source: `${name}` });
    if (reply.verdict === "allow") await write(content);
    return reply.verdict;
  },
  async search(query) {
    return guard.gate(await find(query));
  },
});

/** mem0's platform. infer is off, so that mem0 stores the judged text and not a text that its model makes of it. */
export const mem0 = (guard, { url = "https://api.mem0.ai", key, user }) => {
  const headers = { authorization: `Token ${key}` };
  return guarded(guard, "mem0", {
    write: (content) => call("POST", `${url}/v1/memories/`, headers, { messages: [{ role: "user", content }], user_id: user, infer: false }),
    find: async (query) => {
      const found = await call("POST", `${url}/v2/memories/search/`, headers, { query, filters: { user_id: user } });
      return (found.results ?? found).map((m) => ({ content: m.memory, source: `mem0:${m.id}`, score: m.score }));
    },
  });
};

/** Letta's archival memory. */
export const letta = (guard, { url = "https://api.letta.com", key, agent }) => {
  const headers = { authorization: `Bearer ${key}` };
  const at = `${url}/v1/agents/${agent}/archival-memory`;
  return guarded(guard, "letta", {
    write: (text) => call("POST", at, headers, { text }),
    find: async (query) => {
      const found = await call("GET", `${at}/search?${new URLSearchParams({ query })}`, headers);
      return found.results.map((p) => ({ content: p.content, source: `letta:${p.id}` }));
    },
  });
};

/**
 * Zep. Its model makes facts from the judged texts. The gate has not seen these words, so
 * facts are only background. Episodes are the judged texts themselves.
 */
export const zep = (guard, { url = "https://api.getzep.com", key, user }) => {
  const headers = { authorization: `Api-Key ${key}` };
  return guarded(guard, "zep", {
    write: (data) => call("POST", `${url}/api/v2/graph`, headers, { data, type: "text", user_id: user }),
    find: async (query) => {
      const both = await Promise.all(["edges", "episodes"].map((scope) =>
        call("POST", `${url}/api/v2/graph/search`, headers, { query, user_id: user, scope, limit: 10 })));
      return both.flatMap(({ edges, episodes }) => [
        ...(edges ?? []).map((e) => ({ content: e.fact, source: `zep:${e.uuid}` })),
        ...(episodes ?? []).map((e) => ({ content: e.content, source: `zep:${e.uuid}` })),
      ]);
    },
  });
};

/** Any BaseStore of LangGraph. */
export const langgraph = (guard, { store, namespace }) => {
  let n = 0;
  return guarded(guard, "langgraph", {
    write: (content) => store.put(namespace, `m${n++}`, { content }),
    find: async (query) => (await store.search(namespace, { query, limit: 20 }))
      .map((item) => ({ content: item.value.content, source: `langgraph:${item.key}`, score: item.score })),
  });
};
