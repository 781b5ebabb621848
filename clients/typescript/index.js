// Client of Lazaret's HTTP gateway (docs/http.md). No dependencies; types are in index.d.ts.

const VERDICTS = ["allow", "hold", "deny"];
const AGAIN = [429, 502, 503, 504];
const MAX_HELD = 256; // held calls that are remembered, so that a repeated call asks about the same hold
const MAX_RECORDED = 4096; // recorded texts that are remembered, so that observeOnce does not record them again

/** An observation or report that was not recorded. Show nothing of it to the model. */
export class LazaretError extends Error {
  constructor(code, message, problem) {
    super(`${code}: ${message}`);
    this.name = "LazaretError";
    this.code = code;
    this.problem = problem;
  }
}

/** A guarded tool did not run, because its call was held or denied, or its result must not be shown. */
export class Refused extends Error {
  constructor(tool, answer) {
    super(`${tool}: ${answer.verdict}${answer.reasons.length ? ": " + answer.reasons.map((r) => r.text ?? r.code).join("; ") : ""}`);
    this.name = "Refused";
    this.verdict = answer.verdict;
    this.answer = answer;
  }
}

/** Client of the gateway, for the agent to which the token belongs. */
export class Lazaret {
  #after = 0;
  #held = new Map(); // answers by session, tool and arguments, oldest first
  #recorded = new Map(); // the texts that were recorded, oldest first

  constructor({ url = "http://127.0.0.1:4280", token, session, timeout = 25_000, tries = 4, fetch: f = globalThis.fetch } = {}) {
    if (!token) throw new TypeError("a token is needed: lazaret agent token new PROJECT AGENT");
    Object.assign(this, { url: url.replace(/\/+$/, ""), token, session, timeout, tries, fetch: f });
  }

  /** Records content before the model sees it. Show it only after the promise has resolved. */
  async observe(event) {
    const got = await this.#call("POST", "/v1/observe", this.#event(event));
    this.#acknowledged(got);
    return got;
  }

  /** Asks for a verdict before the agent acts. Never throws: every failure is a hold. */
  decide(action) { return this.#ask("/v1/decide", action, "action"); }

  /** Asks for a verdict before the agent writes to its memory. */
  remember(memory) { return this.#ask("/v1/remember", memory, "memory"); }

  /** Searches the memory, and returns the texts that may enter the context. */
  recall(query) { return this.#ask("/v1/recall", typeof query === "string" ? { query } : query, "recall"); }

  /** Asks which texts from another memory store may enter the context. */
  gate(candidates, more = {}) {
    return this.#ask("/v1/gate", { ...more, candidates: candidates.map((c) => (typeof c === "string" ? { content: c } : c)) }, "recall");
  }

  /**
   * Carries out a call of Anthropic's memory tool and returns the content of its tool_result. Never throws. A call is
   * sent only once, because a call whose answer was lost may have been carried out.
   */
  async memoryTool(input, { session = this.session, user, dataSubject, wait = 0 } = {}) {
    try {
      // The host, not the model, chooses whose memory is used.
      const { session: _s, user: _u, data_subject: _d, ...call } = input;
      const path = "/v1/memory_tool" + (wait > 0 ? `?wait=${Math.min(300, Math.ceil(wait / 1000))}s` : "");
      const got = await this.#once("POST", path, JSON.stringify({ ...call, session, user, data_subject: dataSubject }), this.timeout + wait);
      if (typeof got.content !== "string") throw new LazaretError("LZ208", "the answer is not one to what was asked", got);
      return { ...got, is_error: got.is_error === true };
    } catch (error) {
      return { content: `Lazaret gave no answer, so nothing of memory is shown: ${error.message}`, is_error: true, verdict: "hold", error };
    }
  }

  /** Reports the outcome of an action: ok, error, skipped, or cancelled to withdraw a held action. */
  async outcome(answer, status, content) {
    const got = await this.#call("POST", "/v1/outcome", this.#event({ action: answer.id, session: answer.session, status, content, digest: answer.digest }));
    this.#acknowledged(got);
    return got;
  }

  /** Starts the session again. This ends the holds for observations that could not be recorded. */
  async startSession(session = this.session) {
    const got = await this.#call("POST", "/v1/session", this.#event({ session, phase: "start" }));
    this.#acknowledged(got);
    return got;
  }

  /** Waits until a person has resolved the hold, it has expired, or the time-out is over. */
  async await(answer, { timeout = 600_000, signal } = {}) {
    const end = Date.now() + timeout;
    while (answer.verdict === "hold" && answer.hold && answer.asked) {
      const left = Math.min(60, Math.ceil((end - Date.now()) / 1000));
      if (left <= 0 || signal?.aborted) break;
      const { path, body, type } = answer.asked;
      const next = await this.#verdict(`${path}?wait=${left}s`, body, type, left * 1000 + this.timeout, signal);
      if (!next.error) answer = next; // if the gateway does not answer, the hold is still open
      else if (Date.now() < end && !signal?.aborted) await sleep(Math.min(1000, end - Date.now()));
    }
    return answer;
  }

  /** Wraps a tool: asks before it runs, records its result before it is returned. */
  guard(tool, { name = tool.name, args: argsOf = objectOf, ...options } = {}) {
    if (!name) throw new TypeError("a guarded tool needs a name");
    return (...input) => this.perform(name, argsOf(...input), () => tool(...input), options);
  }

  /**
   * Runs one call of a tool: asks, runs it, records the result and returns it. Throws Refused if
   * the call may not run. The same call, made again, asks about the same hold.
   */
  async perform(name, args, run, { origin = "tool", source, session = this.session, wait = 0, signal, text = textOf, failed = () => false, passes = () => false } = {}) {
    const answer = await this.#permit(name, args, session, wait, signal);
    const shown = (content, status) => this.#shown({ origin, tool: name, source, args }, answer, content, status);
    let result;
    try {
      result = await run(answer);
    } catch (err) {
      if (passes(err)) await this.outcome(answer, "skipped"); // control flow of the framework: the model sees nothing
      else await shown(String(err?.message ?? err), "error");
      throw err;
    }
    await shown(text(result), failed(result) ? "error" : "ok");
    return result;
  }

  /** Records a text that enters a prompt. If this client has already recorded the same text in this session, it does nothing. */
  async observeOnce(event) {
    const content = event.content ?? "", session = event.session ?? this.session;
    if (content === "" || this.#recorded.has(recordedKey(session, content))) return;
    await this.observe(event);
    this.#remember(session, content);
  }

  // Returns the answer that permits a call, or throws Refused. A hold is remembered, so that the same call asks
  // about it later.
  async #permit(name, args, session, wait, signal) {
    const key = JSON.stringify([session, name, args]);
    const kept = this.#held.get(key);
    this.#held.delete(key);
    let answer;
    if (kept) {
      const { path, body, type } = kept.asked;
      answer = await this.#verdict(path, body, type, this.timeout, signal);
      if (answer.error) answer = kept;
    }
    if (!answer || (answer.verdict === "hold" && !answer.hold)) answer = await this.decide({ tool: name, args, session });
    if (wait > 0) answer = await this.await(answer, { timeout: wait, signal });
    if (answer.verdict === "allow") return answer;
    if (answer.hold) bounded(this.#held, key, answer, MAX_HELD);
    const refused = new Refused(name, answer);
    // The client's own texts: observeOnce need not record them.
    for (const words of [refused.message, refusal(refused)]) this.#remember(session, words);
    throw refused;
  }

  async #shown(event, answer, content, status) {
    await this.outcome(answer, status);
    await this.observe({ ...event, call: answer.id, session: answer.session, content });
    this.#remember(answer.session, content);
  }

  #remember(session, content) { bounded(this.#recorded, recordedKey(session, content), true, MAX_RECORDED); }

  #event(e) { return { id: newID(), session: this.session, ...clean(e) }; }

  #acknowledged(got) { this.#after = Math.max(this.#after, got?.intake_seq ?? 0); }

  async #ask(path, event, type) {
    const body = this.#event({ after: this.#after || undefined, ...event });
    return this.#verdict(path, body, type, this.timeout);
  }

  async #verdict(path, body, type, timeout, signal) {
    const asked = { path: path.replace(/\?.*/, ""), body, type };
    const base = { id: body.id, session: body.session, reasons: [], asked };
    try {
      const reply = await this.#call("POST", path, body, timeout, signal);
      this.#acknowledged(reply);
      const e = reply.entry;
      if (!VERDICTS.includes(reply.verdict) || !e || e.type !== type || (e.id !== body.id && e.reuses !== body.id))
        throw new LazaretError("LZ208", "the answer is not one to what was asked", reply);
      return { ...base, id: e.id, verdict: reply.verdict, reasons: e.reasons ?? [], hold: e.hold, digest: e.digest, belief: e.belief, recall: reply.recall, reply };
    } catch (error) {
      return { ...base, verdict: "hold", error };
    }
  }

  // Sends a request. If the answer is lost, it sends the same request again.
  async #call(method, path, body, timeout = this.timeout, signal) {
    const text = JSON.stringify(body);
    const end = Date.now() + timeout;
    for (let attempt = 1, pause = 50; ; attempt++, pause *= 2) {
      let failed;
      try {
        return await this.#once(method, path, text, Math.max(1, end - Date.now()), signal);
      } catch (err) {
        failed = err;
      }
      const more = failed instanceof LazaretError ? AGAIN.includes(failed.problem?.status) : true;
      if (!more || attempt >= this.tries || Date.now() + pause >= end || signal?.aborted)
        throw failed instanceof LazaretError ? failed : new LazaretError("LZ203", String(failed?.message ?? failed));
      await sleep(pause);
    }
  }

  async #once(method, path, body, timeout, signal) {
    const stop = AbortSignal.timeout(timeout);
    const res = await this.fetch(this.url + path, {
      method, body, redirect: "error", signal: signal ? either(signal, stop) : stop,
      headers: { "content-type": "application/json", authorization: `Bearer ${this.token}` },
    });
    const text = await res.text();
    let got;
    try {
      got = JSON.parse(text);
    } catch {
      throw new LazaretError("LZ203", `the answer of status ${res.status} is no JSON`, { status: res.status });
    }
    if (res.status !== 200) throw new LazaretError(got?.code ?? "LZ203", got?.detail ?? `status ${res.status}`, { ...got, status: res.status });
    return got;
  }
}

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

// AbortSignal.any, which Node 18 does not have.
function either(a, b) {
  const c = new AbortController();
  for (const s of [a, b]) {
    if (s.aborted) c.abort(s.reason);
    s.addEventListener("abort", () => c.abort(s.reason), { once: true });
  }
  return c.signal;
}

function newID() { return globalThis.crypto?.randomUUID?.() ?? randomHex(); }

function randomHex() { // Node 18 has no global crypto
  let s = "";
  while (s.length < 32) s += Math.random().toString(16).slice(2);
  return s.slice(0, 32);
}

function clean(e) { return Object.fromEntries(Object.entries(e).filter(([, v]) => v !== undefined)); }

function objectOf(...input) {
  if (input.length === 1 && input[0] !== null && typeof input[0] === "object" && !Array.isArray(input[0])) return input[0];
  return { args: input };
}

function recordedKey(session, content) { return `${session ?? ""}\0${content}`; }

// Sets a key, and drops the oldest ones over the limit.
function bounded(map, key, value, most) {
  map.delete(key);
  map.set(key, value);
  while (map.size > most) map.delete(map.keys().next().value);
}

/** Returns the text that tells the model why a call did not run, or why it does not get the result. */
export function refusal(err) {
  if (err instanceof Refused) return `Lazaret refused this call: ${err.message}. Do not try another way around it.`;
  return `Lazaret withheld the result of this call, since it could not be recorded: ${err.message}`;
}

/** Reports whether an error is Refused or LazaretError. */
export function isRefusal(err) { return err instanceof Refused || err instanceof LazaretError; }

/** Makes a legal id from a text, such as a framework's thread id: the text itself if it is legal, else its digest. */
export async function idOf(text) {
  if (text === undefined || /^[A-Za-z0-9_-]{1,64}$/.test(text)) return text;
  const { subtle } = globalThis.crypto ?? (await import("node:crypto")).webcrypto;
  const sum = new Uint8Array(await subtle.digest("SHA-256", new TextEncoder().encode(text)));
  return Array.from(sum.subarray(0, 16), (b) => b.toString(16).padStart(2, "0")).join("");
}

/** Returns a result as text: a string as it is, any other value as JSON. */
export function textOf(result) {
  if (typeof result === "string") return result;
  return JSON.stringify(result) ?? "";
}
