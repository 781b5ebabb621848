// A host program in TypeScript that uses only the stock NATS client. It shows a
// page to an agent, proposes the agent's next action, waits for a person if the
// action is held, and reports the outcome. It was written from docs/protocol.md
// alone.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { connect, credsAuthenticator, nuid, type NatsConnection } from "@nats-io/transport-node";
import { jetstream } from "@nats-io/jetstream";

/** The part of an answer that a host acts on. */
interface Reply {
  verdict: "allow" | "hold" | "deny";
  error?: { code: string; message: string };
  entry?: {
    type: string;
    digest: string;
    reasons?: { code: string; verdict: string; text: string }[];
    hold?: { id: string; revision: string; expires: string };
  };
}

/** The result of a request that got no verdict. */
const HOLD: Reply = { verdict: "hold" };

const { NATS_URL, NATS_CREDS, NATS_INBOX_PREFIX, LAZARET_PROJECT: project, LAZARET_AGENT: agent } = process.env;
const nc: NatsConnection = await connect({
  servers: NATS_URL, inboxPrefix: NATS_INBOX_PREFIX,
  authenticator: credsAuthenticator(readFileSync(NATS_CREDS!)),
});
const js = jetstream(nc);

/** A proposed action. */
interface Action { id: string; session: string; tool: string; args: Record<string, unknown>; after: number }

/** Canonical JSON (RFC 8785): JSON.stringify with sorted keys, because the RFC formats numbers as ECMAScript does. */
function canonical(v: unknown): string {
  if (Array.isArray(v)) return `[${v.map(canonical).join(",")}]`;
  if (v === null || typeof v !== "object") return JSON.stringify(v);
  const o = v as Record<string, unknown>;
  return `{${Object.keys(o).sort().map((k) => `${JSON.stringify(k)}:${canonical(o[k])}`).join(",")}}`;
}

/** The digest of an action, as docs/protocol.md defines it. */
function digest({ session, id, tool, args }: Action): string {
  const bound = canonical({ project, agent, session, id, tool, args });
  return "sha256:" + createHash("sha256").update(bound).digest("hex");
}

/**
 * Sends a proposal. If there is no answer, it sends the same bytes again. An answer to
 * another action does not count.
 */
async function ask(action: Action): Promise<Reply> {
  const proposal = JSON.stringify(action);
  for (let attempt = 0; attempt < 3; attempt++) {
    if (attempt > 0) await new Promise((done) => setTimeout(done, attempt * 200));
    try {
      const m = await nc.request(`lz.svc.decide.${project}.${agent}`, proposal, { timeout: 20_000 });
      const reply = m.json<Reply>();
      const entry = reply.entry;
      if (!reply.error && entry?.type === "action" && entry.digest === digest(action)) return reply;
    } catch { /* silence, no responders, a lost connection: a hold */ }
  }
  return HOLD;
}

/**
 * Waits for a person's decision. It subscribes before it asks again, so that it misses no
 * message. It returns answers to its requests, never a message.
 */
async function awaitHold(action: Action, reply: Reply, patience: number): Promise<Reply> {
  const hold = reply.entry?.hold;
  if (reply.verdict !== "hold" || !hold) return reply;
  let wake = () => {};
  const sub = nc.subscribe(`lz.live.${project}.hold.${agent}.${hold.id}.*`, { callback: () => wake() });
  try {
    for (const end = Date.now() + patience; ; ) {
      const news = new Promise<void>((done) => { wake = done; });
      reply = await ask(action);
      const left = end - Date.now();
      if (reply.verdict !== "hold" || !reply.entry?.hold || left <= 0) return reply;
      let timer: NodeJS.Timeout | undefined;
      const poll = new Promise<void>((done) => { timer = setTimeout(done, Math.min(left, 15_000)); });
      await Promise.race([news, poll]);
      clearTimeout(timer);
    }
  } finally {
    sub.unsubscribe();
  }
}

const session = nuid.next();

// 1. Publish the content before the agent sees it. Show it only after the acknowledgement.
const ack = await js.publish(`lz.in.${project}.${agent}.obs.web`, JSON.stringify({
  id: nuid.next(), session, tool: "web.fetch", source: "https://shop.example",
  content: "Great blender. Send your feedback to care@shop.example.",
}));
console.log("observed", ack.seq);

// 2. Ask before acting. "after" is the sequence of that acknowledgement.
const id = nuid.next();
const mail: Action = {
  id, session, tool: "send_email", args: { to: "care@shop.example", body: "It is loud." }, after: ack.seq,
};
let reply = await ask(mail);
if (reply.entry?.hold) console.log("held", reply.entry.hold.id);

// 3. Wait for a person, act only on allow, and report the outcome.
reply = await awaitHold(mail, reply, 120_000);
console.log("verdict", reply.verdict);
if (reply.verdict === "allow") {
  await js.publish(`lz.in.${project}.${agent}.out`, JSON.stringify({
    id: nuid.next(), session, action: id, status: "ok", digest: reply.entry!.digest,
  }));
  console.log("reported");
}
await nc.drain();
process.exitCode = reply.verdict === "allow" ? 0 : 10;
