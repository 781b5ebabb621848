import { strict as assert } from "node:assert";
import { generateText, stepCountIs, tool, wrapLanguageModel } from "ai";
import { MockLanguageModelV3 } from "ai/test";
import { z } from "zod";
import { guardTools, recordPrompts } from "lazaret/ai-sdk";
import { blind, fetchPage, lz, mail, prompt, sendEmail, stopped, wait, wentOn } from "./scenario.mjs";

const tools = {
  fetch_page: tool({ description: "reads a page", inputSchema: z.object({ url: z.string() }), async *execute() { yield "loading"; yield await fetchPage(); } }),
  send_email: tool({ description: "sends a mail", inputSchema: z.object({ to: z.string(), body: z.string() }), execute: sendEmail }),
};
assert.throws(() => guardTools(lz, { ask: tool({ inputSchema: z.object({}) }) }), TypeError);
assert.ok(guardTools(lz, { ask: tool({ inputSchema: z.object({}) }) }, { unguarded: ["ask"] }).ask);

const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
const calls = (toolCallId, toolName, args) => ({ content: [{ type: "tool-call", toolCallId, toolName, input: JSON.stringify(args) }], finishReason: { unified: "tool-calls" }, usage, warnings: [] });
const says = (text) => ({ content: [{ type: "text", text }], finishReason: { unified: "stop" }, usage, warnings: [] });
const run = (model, messages, options, client = lz) => generateText({ model: wrapLanguageModel({ model, middleware: recordPrompts(client) }),
  tools: guardTools(client, tools, options), stopWhen: stepCountIs(5), messages, maxRetries: 0 });
const asked = { role: "user", content: prompt };
const one = new MockLanguageModelV3({ doGenerate: [calls("c1", "fetch_page", { url: "https://shop.example" }), calls("c2", "send_email", mail), says("I may not.")] });
const first = await run(one, [asked], { origin: (name) => (name === "fetch_page" ? "web" : "tool") });
assert.equal(one.doGenerateCalls.length, 3);
stopped(JSON.stringify(one.doGenerateCalls[2].prompt));

const two = new MockLanguageModelV3({ doGenerate: [calls("c3", "send_email", mail), says("It is sent.")] });
const second = await run(two, [asked, ...first.response.messages, { role: "user", content: "Then ask for an approval and send it." }], { wait });
assert.equal(second.text, "It is sent.");

// The model sees nothing that could not be recorded.
const unseen = new MockLanguageModelV3({ doGenerate: says("never") });
await assert.rejects(run(unseen, [asked], {}, blind()), /LZ601/);
assert.equal(unseen.doGenerateCalls.length, 0);
await wentOn(JSON.stringify(two.doGenerateCalls[1].prompt));
