// The features of MCP 2026-07-28 (without sessions), tried with the stock SDK. It prints one JSON
// object with the outcome of each. Nothing here is Lazaret's.
//
//   node stateless.mjs serve | node stateless.mjs http URL | node stateless.mjs stdio COMMAND [ARG…]
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { McpServer, fromJsonSchema, inputRequired } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";

const [kind, target, ...args] = process.argv.slice(2);
const text = (s) => ({ content: [{ type: "text", text: s }] });
const schema = (properties) => fromJsonSchema({ type: "object", properties });

function server() {
  const s = new McpServer({ name: "stateless", version: "1.0.0" }, { instructions: "Ask for greetings." });
  s.registerTool("greet", { description: "Greets somebody.",
    inputSchema: schema({ who: { type: "string", "x-mcp-header": "Who" } }) }, ({ who }) => text(`hello ${who}`));
  s.registerTool("steps", { description: "Reports steps.", inputSchema: schema({}) }, async (_, ctx) => {
    for (let progress = 1; progress <= 3; progress++) {
      await ctx.mcpReq.notify({ method: "notifications/progress",
        params: { progressToken: ctx.mcpReq._meta?.progressToken, progress, total: 3 } });
      await new Promise((done) => setTimeout(done, 50)); // the client handles notifications later than results
    }
    return text("done");
  });
  s.registerTool("confirm", { description: "Asks the user.", inputSchema: schema({}) }, (_, ctx) => {
    const said = ctx.mcpReq.inputResponses?.sure;
    return said ? text(`the user said ${said.action}`) : inputRequired({ inputRequests: { sure: inputRequired.elicit({
      message: "Sure?", requestedSchema: { type: "object", properties: { yes: { type: "boolean" } } } }) } });
  });
  s.registerTool("slow", { description: "Never ends.", inputSchema: schema({}) }, () => new Promise(() => {}));
  s.registerResource("note", "note://one", { mimeType: "text/plain" },
    (uri) => ({ contents: [{ uri: uri.href, text: "a note" }] }));
  s.registerPrompt("ask", { description: "Asks." },
    () => ({ messages: [{ role: "user", content: { type: "text", text: "why?" } }] }));
  return s;
}

if (kind === "serve") {
  serveStdio(server);
} else {
  const transport = kind === "http" ? new StreamableHTTPClientTransport(new URL(target))
    : new StdioClientTransport({ command: target, args, env: process.env, stderr: "inherit" });
  let changed;
  const accepted = new Promise((done) => { changed = done; });
  const client = new Client({ name: "stock-client", version: "1.0.0" }, { capabilities: { elicitation: { form: {} } },
    versionNegotiation: { mode: "auto" }, listChanged: { tools: { autoRefresh: false, onChanged: changed } } });
  client.setRequestHandler("elicitation/create", () => ({ action: "decline" }));
  const out = {};
  const attempt = async (name, f) => {
    try {
      out[name] = await f() ?? null;
    } catch (e) {
      out[name] = { error: e.code ?? e.name, message: e.message };
    }
  };
  const tool = (name, args = {}, options) => client.callTool({ name, arguments: args }, options);
  await client.connect(transport);
  await attempt("version", () => client.getNegotiatedProtocolVersion());
  await attempt("server", () => [client.getServerVersion(), client.getInstructions()]);
  if (process.env.WAIT_FOR_TOOLS && (await client.listTools()).tools.length === 0) {
    console.error("the tools wait");
    await accepted; // by subscriptions/listen
  }
  await attempt("tools/list", async () => (await client.listTools(undefined, { cacheMode: "refresh" })).tools);
  await attempt("call", () => tool("greet", { who: "Zoë" }));
  await attempt("progress", async () => {
    const steps = [];
    const result = await tool("steps", {}, { onprogress: (p) => steps.push(p.progress) });
    return { steps, result };
  });
  await attempt("input", () => tool("confirm"));
  await attempt("cancellation", () => tool("slow", {}, { signal: AbortSignal.timeout(300) }));
  await attempt("at once", () => Promise.all(["a", "b", "c"].map((who) => tool("greet", { who }))));
  await attempt("resources/list", () => client.listResources());
  await attempt("resources/read", () => client.readResource({ uri: "note://one" }));
  await attempt("no such resource", () => client.readResource({ uri: "note://two" }));
  await attempt("prompts/list", () => client.listPrompts());
  await attempt("prompts/get", () => client.getPrompt({ name: "ask" }));
  console.log(JSON.stringify(out));
  await client.close();
  process.exit(0);
}
