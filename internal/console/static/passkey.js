// Signs decisions on holds with a passkey. This script computes the signed text from what
// the page shows: the digest of the action from its shown parts, then the statement, whose
// SHA-256 is the challenge.
"use strict";
(() => {
  const bytes = (s) => new TextEncoder().encode(s);
  const b64 = (buf) => btoa(String.fromCharCode(...new Uint8Array(buf))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
  const raw = (s) => Uint8Array.from(atob(s.replace(/-/g, "+").replace(/_/g, "/")), (c) => c.charCodeAt(0));
  const hex = (buf) => [...new Uint8Array(buf)].map((b) => b.toString(16).padStart(2, "0")).join("");
  const sha256 = (s) => crypto.subtle.digest("SHA-256", bytes(s));

  // canonical is the JCS form (RFC 8785): members in the order of their UTF-16 code units,
  // numbers and strings as JSON.stringify writes them.
  const canonical = (v) => {
    if (Array.isArray(v)) return "[" + v.map(canonical).join(",") + "]";
    if (v && typeof v === "object") {
      return "{" + Object.keys(v).sort().map((k) => JSON.stringify(k) + ":" + canonical(v[k])).join(",") + "}";
    }
    return JSON.stringify(v);
  };

  const post = async (path, body) => {
    const res = await fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
    const answer = await res.json();
    if (answer.error && typeof answer.error === "string") throw new Error(answer.error);
    return answer;
  };

  // shown reads the held action off the page and returns its digest.
  const shown = async () => {
    const held = document.getElementById("held");
    const part = (name) => document.querySelector(`[data-f="${name}"]`).textContent;
    const body = part("body");
    const value = held.dataset.json === "true" ? JSON.parse(body) : body;
    const head = { project: part("project"), agent: part("agent"), session: part("session"), id: part("id") };
    const what = held.dataset.type === "memory" ? { ...head, key: part("key"), content: value } : { ...head, tool: part("tool"), args: value };
    return "sha256:" + hex(await sha256(canonical(what)));
  };

  const sign = document.getElementById("sign");
  if (sign) {
    const status = document.getElementById("signing");
    const offset = Date.parse(sign.dataset.now) - Date.now();
    const credentials = [...sign.querySelectorAll("[data-credential]")].map((e) => e.dataset.credential);
    const say = (text, tone) => { status.textContent = text; status.className = "note " + (tone || ""); };
    const buttons = (on) => sign.querySelectorAll("button").forEach((b) => { b.disabled = !on; });
    shown().then((digest) => {
      if (digest !== sign.dataset.digest) throw new Error("what is shown is not what would be signed: sign with a key file, after lazaret holds show");
      status.textContent = "This page computed the digest of what it shows; it is the one that is signed.";
      buttons(true);
    }).catch((e) => say(e.message, "bad"));
    sign.addEventListener("submit", async (e) => {
      e.preventDefault();
      buttons(false);
      try {
        const d = sign.dataset;
        const statement = {
          action: await shown(), decision: e.submitter.value, hold: d.hold, project: d.project, revision: d.revision, v: "lazaret/approval/v1",
          nonce: hex(crypto.getRandomValues(new Uint8Array(16))),
          expires: new Date(Date.now() + offset + 10 * 60 * 1000).toISOString().replace(/\.\d+Z$/, "Z"),
        };
        const levels = e.submitter.value === "approve" ? [...sign.elements].filter((f) => f.dataset.tool !== undefined) : [];
        if (levels.length) statement.levels = Object.fromEntries(levels.map((f) => [f.dataset.tool, f.value]));
        const reason = sign.elements.reason.value.trim();
        if (reason) statement.reason = reason;
        const text = canonical(statement) + "\n";
        say("Your authenticator asks you.");
        const got = await navigator.credentials.get({ publicKey: {
          challenge: await sha256(text), rpId: d.rp, userVerification: "required", timeout: 120000,
          allowCredentials: credentials.map((c) => ({ type: "public-key", id: raw(c) })),
        } });
        const r = got.response;
        const answer = await post(location.pathname, {
          text, credential: b64(got.rawId), auth_data: b64(r.authenticatorData), client_data: b64(r.clientDataJSON), signature: b64(r.signature),
        });
        if (!answer.state) throw new Error(answer.text || (answer.error && answer.error.message) || "it was refused");
        say("The hold is " + answer.state + ", ledger entry " + answer.ledger_seq + ".", answer.state === "approved" ? "good" : "");
        status.dataset.state = answer.state;
        status.dataset.seq = answer.ledger_seq;
      } catch (err) {
        say(err.message, "bad");
        buttons(true);
      }
    });
  }

  const form = document.getElementById("register");
  if (form) {
    const status = document.getElementById("registering");
    const button = form.querySelector("button");
    status.textContent = "";
    button.disabled = false;
    form.addEventListener("submit", async (e) => {
      e.preventDefault();
      try {
        const o = await post("/passkeys", {});
        const made = await navigator.credentials.create({ publicKey: {
          challenge: raw(o.challenge), rp: { id: o.rp, name: "Lazaret" }, user: { id: raw(o.user), name: o.name, displayName: o.name },
          pubKeyCredParams: [{ type: "public-key", alg: -7 }, { type: "public-key", alg: -8 }],
          authenticatorSelection: { residentKey: "preferred", userVerification: "required" }, attestation: "none", timeout: 120000,
        } });
        const r = made.response;
        const done = await post("/passkeys", { response: {
          id: made.id, rawId: b64(made.rawId), type: made.type,
          response: { clientDataJSON: b64(r.clientDataJSON), attestationObject: b64(r.attestationObject) },
        } });
        const out = document.getElementById("registered");
        out.querySelector("pre").textContent = done.command;
        out.hidden = false;
        status.textContent = "Registered. It counts once it is pinned and activated.";
      } catch (err) {
        status.textContent = err.message;
      }
    });
  }
})();
