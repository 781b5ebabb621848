import { strict as assert } from "node:assert";
import { Agent, Runner, setTracingDisabled, tool, Usage } from "@openai/agents";
import { z } from "zod";
import { guardTools, recordPrompts } from "lazaret/openai-agents";
import { blind, fetchPage, lz, mail, prompt, sendEmail, stopped, wait, wentOn } from "./scenario.mjs";

setTracingDisabled(true);
const tools = [
  tool({ name: "fetch_page", description: "reads a page", parameters: z.object({ url: z.string() }), execute: fetchPage }),
  tool({ name: "send_email", description: "sends a mail", parameters: z.object({ to: z.string(), body: z.string() }), execute: sendEmail }),
];
assert.throws(() => guardTools(lz, [{ type: "hosted_tool", name: "web_search" }]), TypeError);

const calls = (callId, name, args) => ({ type: "function_call", callId, name, arguments: JSON.stringify(args), status: "completed" });
const says = (text) => ({ type: "message", role: "assistant", status: "completed", content: [{ type: "output_text", text }] });
class Script {
  requests = [];
  constructor(...answers) { this.answers = answers; }
  async getResponse(request) {
    this.requests.push(request);
    return { usage: new Usage(), output: [this.answers.shift()] };
  }
}
const run = (model, input, options, client = lz) =>
  new Runner({ callModelInputFilter: recordPrompts(client) }).run(new Agent({ name: "helper", model, tools: guardTools(client, tools, options) }), input);

const one = new Script(calls("c1", "fetch_page", { url: "https://shop.example" }), calls("c2", "send_email", mail), says("I may not."));
const first = await run(one, prompt, { origin: (name) => (name === "fetch_page" ? "web" : "tool") });
assert.equal(one.requests.length, 3);
stopped(JSON.stringify(one.requests[2].input));

const two = new Script(calls("c3", "send_email", mail), says("It is sent."));
const second = await run(two, [...first.history, { role: "user", content: "Then ask for an approval and send it." }], { wait });
assert.equal(second.finalOutput, "It is sent.");

// The model sees nothing that could not be recorded.
const unseen = new Script(says("never"));
await assert.rejects(run(unseen, prompt, {}, blind()), /LZ601/);
assert.equal(unseen.requests.length, 0);
await wentOn(JSON.stringify(two.requests[1].input.at(-1)));
