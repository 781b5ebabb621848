// A stock MCP client that does what it is told on standard input, one JSON value
// a line: {"list": true}, {"call": "tool", "args": {…}}. Nothing here is Lazaret's.
//
//   node client.mjs COMMAND [ARG…]
import { createInterface } from "node:readline";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { ToolListChangedNotificationSchema } from "@modelcontextprotocol/sdk/types.js";

const [command, ...args] = process.argv.slice(2);
const client = new Client({ name: "stock-client", version: "1.0.0" });
const say = (x) => console.log(JSON.stringify(x));
client.setNotificationHandler(ToolListChangedNotificationSchema, () => say({ changed: true }));
await client.connect(new StdioClientTransport({ command, args, env: process.env, stderr: "inherit" }));
say({ connected: client.getServerVersion().name });

for await (const line of createInterface({ input: process.stdin })) {
  const { list, call, args } = JSON.parse(line);
  try {
    if (list) say({ tools: (await client.listTools()).tools.map((t) => t.name) });
    if (call) say({ called: call, ...(await client.callTool({ name: call, arguments: args })) });
  } catch (e) {
    say({ failed: e.message, code: e.code });
  }
}
await client.close();
