// A sentinel group in JavaScript with the stock NATS client. It reads the entries of
// ingest in the order of the ledger, answers each proposal exactly once, and publishes
// alerts. docs/sentinels.md explains each step.
//
// It judges by a short list of words. Put your own judgment, such as a model, into
// judge(). Change VERSION whenever the judgment may change: the operator's policy names it.
//
//   NATS_URL, NATS_CREDS, NATS_INBOX_PREFIX, LAZARET_GROUP   as `lazaret sentinel add` prints
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { connect, credsAuthenticator, headers } from "@nats-io/transport-node";
import { AckPolicy, DeliverPolicy, jetstream, jetstreamManager } from "@nats-io/jetstream";
import SnappyJS from "snappyjs";

const VERSION = "external:words-v1";
const GROUP = process.env.LAZARET_GROUP ?? "judge";
const LEDGER = "LZ_LEDGER";
const PARTITIONS = 16;
const PROPOSALS = new Set(["action", "memory", "recall"]);
const WRONG_LAST_SEQUENCE = 10071;

const nc = await connect({
  servers: process.env.NATS_URL ?? "nats://127.0.0.1:4222",
  authenticator: credsAuthenticator(readFileSync(process.env.NATS_CREDS)),
  inboxPrefix: process.env.NATS_INBOX_PREFIX ?? `_INBOX_LZ.sentinel-${GROUP}`, // the only inbox that the credential permits
  maxReconnectAttempts: -1,
});
const js = jetstream(nc);
const jsm = await jetstreamManager(nc, { checkAPI: false }); // the credential does not permit $JS.API.INFO

// ---- published answers -------------------------------------------------------------

const own = (p) => `lz.ledger.${p}.sentinel-${GROUP}`;
const said = []; // for each partition: sequence of the last own entry (the fence), and its src, a position (the cursor)

async function resync(p) {
  const last = await jsm.streams.getMessage(LEDGER, { last_by_subj: own(p) });
  said[p] = last ? { seq: last.seq, src: Number(last.header.get("Lz-Src")) } : { seq: 0, src: 0 };
}

// A ledger message is one entry, or a frame of several. The position of an entry is the
// message's sequence plus 2^44 times the entry's index in the message.
const INDEX = 2 ** 44;

function* entries(m) {
  const type = m.headers?.get("Lz-Type");
  if (type !== "frame") {
    yield { position: m.seq, type, data: m.data };
    return;
  }
  const frame = m.headers.get("Lz-Encoding") === "snappy" ? SnappyJS.uncompress(m.data) : m.data;
  for (let at = 0, i = 0; at < frame.length; i++) {
    const body = frame.indexOf(10, at) + 1; // the body follows a line "<type> <src> <salt> <length>"
    const [type, , , length] = new TextDecoder().decode(frame.subarray(at, body - 1)).split(" ");
    at = body + Number(length) + 1;
    yield { position: m.seq + i * INDEX, type, data: frame.subarray(body, at - 1) };
  }
}

// isAfter reports whether position a comes after b in the ledger.
const isAfter = (a, b) => a % INDEX > b % INDEX || (a % INDEX === b % INDEX && a > b);

// say publishes the answer to the entry at position src. It returns when the answer is in
// the ledger, even if another process of the group published it.
async function say(p, src, type, project, body) {
  while (isAfter(src, said[p].src)) {
    const h = headers();
    h.set("Lz-Type", type);
    h.set("Lz-Project", project);
    h.set("Lz-Src", String(src));
    h.set("Lz-Salt", randomBytes(16).toString("hex"));
    h.set("Nats-Expected-Last-Subject-Sequence", String(said[p].seq));
    try {
      const ack = await js.publish(own(p), JSON.stringify(body), { headers: h, timeout: 5000 });
      said[p] = { seq: ack.seq, src };
      live(ack.seq, project, body.alerts ?? []);
    } catch (err) {
      // Wrong last sequence: another process of the group has published the answer, or this
      // publish was stored and its acknowledgement was lost. resync reads the last entry.
      if (err.code !== WRONG_LAST_SEQUENCE) {
        console.error(`answer to entry ${src} is not acknowledged, trying again: ${err.message}`);
        await new Promise((done) => setTimeout(done, 500));
      }
      await resync(p).catch((err) => console.error(`partition ${p}: ${err.message}`));
    }
  }
}

// live publishes copies of alerts for people. Call it only after the entry is in the ledger.
function live(seq, project, alerts) {
  for (const a of alerts) {
    const h = headers();
    h.set("Lz-Type", "alerts");
    h.set("Lz-Seq", String(seq));
    nc.publish(`lz.live.${project}.alert.${a.severity}.${a.rule}`, JSON.stringify(a), { headers: h });
  }
}

// ---- the judgment -------------------------------------------------------------

const ORDERS = /\b(ignore|disregard|forget|override)\b.*\b(previous|earlier|prior|above|all)\b|\byou must\b|\btell nobody\b/is;
const TARGETS = /[\w.+-]+@[\w-]+(\.[\w-]+)+|https?:\/\/[^\s"'<>]+/gi;

const planted = new Map(); // by project: addresses in texts with an order, and the event of the text

const targets = (text) => (text.match(TARGETS) ?? []).map((t) => t.toLowerCase().replace(/[.,;:]+$/, ""));

// judge returns the findings on an entry. It is called for every entry in order. After a
// restart it is called for earlier entries again, so that it has the same memory.
function judge(type, project, e) {
  const found = [];
  const orders = (text, rule, effect, kind, id) => {
    if (ORDERS.test(text)) found.push({ rule, effect, kind, id, message: "it gives the reader orders" });
  };
  switch (type) {
    case "observation":
      for (const b of e.blocks ?? []) {
        if (e.origin === "user" || !ORDERS.test(b.text)) continue;
        orders(b.text, "orders-in-what-was-read", "alert", "observation", e.id);
        if (!planted.has(project)) planted.set(project, new Map());
        for (const t of targets(b.text)) planted.get(project).set(t, e.id);
      }
      break;
    case "memory":
      if (e.origin !== "user") orders(e.content, "orders-in-memory", "deny", "memory", e.id);
      break;
    case "recall":
      for (const r of e.admitted ?? []) orders(r.content, "orders-in-recall", "hold", "belief", r.id);
      break;
    case "action": {
      const text = e.text ?? "";
      orders(text, "orders-in-arguments", "hold", "action", e.id);
      const t = targets(text).find((t) => planted.get(project)?.has(t));
      if (t) {
        const by = planted.get(project).get(t);
        found.push({ rule: "serves-an-order", effect: "hold", kind: "action", id: e.id, events: [by], message: `${t} came with an order in ${by}` });
      }
    }
  }
  return found;
}

const STRICT = { alert: "allow", hold: "hold", deny: "deny" };
const RANK = ["allow", "hold", "deny"];

function alerts(src, project, e, found) {
  return found.map((f, i) => ({
    id: `${GROUP}-${src}-${i}`, rule: f.rule, rule_digest: VERSION, group: GROUP, severity: "high",
    subject: { kind: f.kind, id: f.id }, project, agent: e.agent, session: e.session, message: f.message,
    observed_event_ids: f.events ?? [e.id], effect: f.effect, mode: "enforce", count: 1, time: e.time,
  }));
}

// ---- the loop ------------------------------------------------------------------

async function take(m) {
  for (const entry of entries(m)) await takeEntry(m, entry);
}

async function takeEntry(m, { position, type, data }) {
  const p = Number(m.subject.split(".")[2]);
  const project = m.headers?.get("Lz-Project");
  let found = [];
  let e = {};
  try {
    e = JSON.parse(new TextDecoder().decode(data));
    found = judge(type, project, e);
  } catch (err) {
    // Continue after an entry that cannot be read. If it is a proposal, hold it.
    console.error(`entry ${position}: ${err.message}`);
    if (PROPOSALS.has(type)) found = [{ rule: "unreadable", effect: "hold", kind: type, id: String(position), message: `it cannot be judged: ${err.message}` }];
  }
  const list = alerts(position, project, { time: m.time.toISOString(), id: String(position), ...e }, found);
  if (PROPOSALS.has(type)) {
    const verdict = RANK[Math.max(0, ...found.map((f) => RANK.indexOf(STRICT[f.effect])))];
    await say(p, position, "assessment", project, { group: GROUP, digest: VERSION, verdict, alerts: list });
  } else if (list.length > 0) {
    await say(p, position, "alerts", project, { group: GROUP, digest: VERSION, alerts: list });
  }
}

for (let p = 0; p < PARTITIONS; p++) await resync(p);
// This judge keeps its state in memory only. So it never answers a trim (no "secured"
// entries), and the ledger is not trimmed unless the operator excludes the group. After a
// trim, the judge cannot rebuild its state and ends.
const mark = await jsm.streams.getMessage(LEDGER, { last_by_subj: "lz.ledger.0.retention" });
if (mark && mark.json().trimmed > 0) {
  console.error(`${LEDGER} was trimmed up to ${mark.json().trimmed}: what this judge would have to remember is gone`);
  process.exit(1);
}
// An ordered consumer from the beginning of the ledger. For entries that were answered
// before, the judge only updates its state.
const reader = await js.consumers.get(LEDGER, {
  filter_subjects: ["lz.ledger.*.ingest"], deliver_policy: DeliverPolicy.All, ack_policy: AckPolicy.None,
});
console.error(`${GROUP} judges as ${VERSION}`);
for await (const m of await reader.consume()) await take(m);
