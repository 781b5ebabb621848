import { strict as assert } from "node:assert";
import { AIMessage, createAgent, fakeModel, HumanMessage, tool } from "langchain";
import { MemorySaver } from "@langchain/langgraph";
import { z } from "zod";
import { idOf, LazaretError } from "lazaret";
import { lazaretMiddleware } from "lazaret/langchain";
import { blind, fetchPage, lz, mail, prompt, sendEmail, stopped, wait, wentOn } from "./scenario.mjs";

const tools = [
  tool(fetchPage, { name: "fetch_page", description: "reads a page", schema: z.object({ url: z.string() }) }),
  tool(sendEmail, { name: "send_email", description: "sends a mail", schema: z.object({ to: z.string(), body: z.string() }) }),
];
const calls = (id, name, args) => new AIMessage({ content: "", tool_calls: [{ id, name, args, type: "tool_call" }] });
const thread = { configurable: { thread_id: `thread/${process.pid}` } };
const checkpointer = new MemorySaver();
const agent = (model, options, client = lz) => createAgent({ model, tools, checkpointer, middleware: [lazaretMiddleware(client, options)] });

const first = fakeModel().respond(calls("c1", "fetch_page", { url: "https://shop.example" })).respond(calls("c2", "send_email", mail)).respond(new AIMessage("I may not."));
const one = await agent(first, { origin: (name) => (name === "fetch_page" ? "web" : "tool") }).invoke({ messages: [new HumanMessage(prompt)] }, thread);
assert.equal(first.callCount, 3);
const refusedCall = one.messages.find((m) => m.tool_call_id === "c2");
assert.equal(refusedCall.status, "error");
stopped(refusedCall.content);

const second = fakeModel().respond(calls("c3", "send_email", mail)).respond(new AIMessage("It is sent."));
const two = await agent(second, { wait }).invoke({ messages: [new HumanMessage("Then ask for an approval and send it.")] }, thread);

// The model sees nothing that could not be recorded.
const unseen = fakeModel().respond(new AIMessage("never"));
await assert.rejects(agent(unseen, {}, blind()).invoke({ messages: [new HumanMessage(prompt)] }, { configurable: { thread_id: "blind" } }), LazaretError);
assert.equal(unseen.callCount, 0);
lz.session = await idOf(thread.configurable.thread_id);
await wentOn(two.messages.find((m) => m.tool_call_id === "c3").content);
