// The features of MCP that the stock client and the stock server-everything have, tried
// one by one. It prints one JSON object with the outcome of each. Nothing here is Lazaret's.
//
//   node features.mjs http URL | node features.mjs stdio COMMAND [ARG…]
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import * as types from "@modelcontextprotocol/sdk/types.js";

const [kind, target, ...args] = process.argv.slice(2);
const transport = kind === "http" ? new StreamableHTTPClientTransport(new URL(target))
  : new StdioClientTransport({ command: target, args, env: process.env, stderr: "inherit" });
const client = new Client({ name: "stock-client", version: "1.0.0" },
  { capabilities: { sampling: {}, roots: { listChanged: true }, elicitation: { form: {}, url: {} } } });

const heard = {};
const next = {};
const hear = (what, value) => {
  (heard[what] ??= []).push(value);
  next[what]?.();
};
const until = (what) => new Promise((done, fail) => {
  const late = setTimeout(() => fail(new Error(`${what} did not come`)), 20000);
  next[what] = () => { clearTimeout(late); done(heard[what]); };
  if (heard[what]) next[what]();
});
client.setRequestHandler(types.CreateMessageRequestSchema, (r) => {
  hear("sampling", r.params.messages);
  return { model: "m", role: "assistant", content: { type: "text", text: "a sampled answer" } };
});
client.setRequestHandler(types.ListRootsRequestSchema, () => ({ roots: [{ uri: "file:///tmp/root", name: "root" }] }));
client.setRequestHandler(types.ElicitRequestSchema, (r) => {
  hear("elicitation", r.params.mode === "url" ? "url" : r.params.message);
  return { action: "decline" };
});
client.setNotificationHandler(types.LoggingMessageNotificationSchema, (n) => hear("log", n.params.level));
client.setNotificationHandler(types.ResourceUpdatedNotificationSchema, (n) => hear("updated", n.params.uri));

const out = {};
// Times, ids of a run and the levels of random log messages differ from run to run.
const plain = (v) => JSON.parse(JSON.stringify(v, (k, x) => typeof x === "string"
  ? x.replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "TIME").replace(/\d{1,2}:\d\d:\d\d( [AP]M)?/g, "TIME").replace(/[0-9a-f]{8}-[0-9a-f-]{27}/g, "ID") : x));
const attempt = async (name, f) => {
  try {
    out[name] = plain(await f() ?? null);
  } catch (e) {
    out[name] = { error: e.code ?? e.name, message: plain(e.message) };
  }
};
const tool = (name, args = {}, opts) => client.callTool({ name, arguments: args }, undefined, opts);

await client.connect(transport);
await attempt("initialize", () => ({ server: client.getServerVersion(), capabilities: client.getServerCapabilities(), instructions: client.getInstructions() }));
await attempt("ping", () => client.ping());
if (process.env.WAIT_FOR_TOOLS) {
  const changed = new Promise((done) => client.setNotificationHandler(types.ToolListChangedNotificationSchema, done));
  if ((await client.listTools()).tools.length === 0) {
    console.error("the tools wait");
    await changed;
  }
}
await attempt("tools/list", async () => (await client.listTools()).tools);
await attempt("echo", () => tool("echo", { message: "héllo \u2028 <b>&" }));
await attempt("sum", () => tool("get-sum", { a: 2, b: 3.5 }));
await attempt("invalid arguments", () => tool("get-sum", { a: "x" }));
await attempt("no such tool", () => tool("no-such-tool"));
await attempt("image", () => tool("get-tiny-image"));
await attempt("structured", () => tool("get-structured-content", { location: "Chicago" }));
await attempt("annotated", () => tool("get-annotated-message", { messageType: "error", includeImage: false }));
await attempt("links", () => tool("get-resource-links", { count: 2 }));
await attempt("reference", () => tool("get-resource-reference", { resourceType: "Text", resourceId: 1 }));
await attempt("progress", async () => {
  const steps = [];
  const result = await tool("trigger-long-running-operation", { duration: 0.4, steps: 4 }, { onprogress: (p) => steps.push(p) });
  return { steps: steps.slice(0, 3), result }; // the last one comes at the same time as the result
});
await attempt("cancellation", () => {
  const stop = new AbortController();
  setTimeout(() => stop.abort("enough"), 300);
  return tool("trigger-long-running-operation", { duration: 3, steps: 2 }, { signal: stop.signal });
});
await attempt("sampling", async () => ({ result: await tool("trigger-sampling-request", { prompt: "say it", maxTokens: 5 }), asked: await until("sampling") }));
await attempt("roots", () => tool("get-roots-list"));
await attempt("elicitation", async () => ({ result: await tool("trigger-elicitation-request"), asked: await until("elicitation") }));
await attempt("resources/list", () => client.listResources());
await attempt("resources/templates/list", () => client.listResourceTemplates());
await attempt("resources/read", () => client.readResource({ uri: "demo://resource/dynamic/text/1" }));
await attempt("a blob", async () => (await client.readResource({ uri: "demo://resource/dynamic/blob/1" })).contents[0].mimeType);
await attempt("no such resource", () => client.readResource({ uri: "demo://nothing" }));
await attempt("prompts/list", () => client.listPrompts());
await attempt("prompts/get", () => client.getPrompt({ name: "simple-prompt" }));
await attempt("a prompt with arguments", () => client.getPrompt({ name: "args-prompt", arguments: { city: "Rome", state: "x" } }));
await attempt("completion", () => client.complete({ ref: { type: "ref/prompt", name: "completable-prompt" }, argument: { name: "department", value: "E" } }));
await attempt("logging", async () => {
  await client.setLoggingLevel("debug");
  await tool("toggle-simulated-logging");
  const some = await until("log");
  await tool("toggle-simulated-logging");
  return some.length > 0;
});
await attempt("subscription", async () => {
  const uri = "demo://resource/dynamic/text/1";
  await client.subscribeResource({ uri });
  await tool("toggle-subscriber-updates");
  const [first] = await until("updated");
  await tool("toggle-subscriber-updates");
  await client.unsubscribeResource({ uri });
  return first;
});
await attempt("no such method", () => client.request({ method: "no/such" }, types.EmptyResultSchema));
console.log(JSON.stringify(out));
await client.close();
process.exit(0); // the stock server's timers may be the transport's last
