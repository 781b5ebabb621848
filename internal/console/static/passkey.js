// Signs decisions on holds and beliefs with a passkey. This script computes the signed text
// from what the page shows: the digest of the action or content from its shown parts, then
// the statement, whose SHA-256 is the challenge.
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

  // shown reads the held action from a part of the page and returns its digest.
  const shown = async (root) => {
    const held = root.querySelector(".held");
    const part = (name) => root.querySelector(`[data-f="${name}"]`).textContent;
    const body = part("body");
    const value = held.dataset.json === "true" ? JSON.parse(body) : body;
    const head = { project: part("project"), agent: part("agent"), session: part("session"), id: part("id") };
    const what = held.dataset.type === "memory" ? { ...head, key: part("key"), content: value } : { ...head, tool: part("tool"), args: value };
    return "sha256:" + hex(await sha256(canonical(what)));
  };
  const differs = "what is shown is not what would be signed: sign with a key file, after lazaret holds show";

  // assertion asks the authenticator for a signature of a text that ends with a line end.
  const assertion = async (form, text) => {
    const credentials = [...form.querySelectorAll("[data-credential]")].map((e) => e.dataset.credential);
    const got = await navigator.credentials.get({ publicKey: {
      challenge: await sha256(text), rpId: form.dataset.rp, userVerification: "required", timeout: 120000,
      allowCredentials: credentials.map((c) => ({ type: "public-key", id: raw(c) })),
    } });
    const r = got.response;
    return { text, credential: b64(got.rawId), auth_data: b64(r.authenticatorData), client_data: b64(r.clientDataJSON), signature: b64(r.signature) };
  };

  // clock returns a function that returns the server's time in ten minutes.
  const clock = (form) => {
    const offset = Date.parse(form.dataset.now) - Date.now();
    return () => new Date(Date.now() + offset + 10 * 60 * 1000).toISOString().replace(/\.\d+Z$/, "Z");
  };

  // send signs a statement and sends it to the address of its hold or belief.
  const send = async (form, path, statement, reason) => {
    Object.assign(statement, { nonce: hex(crypto.getRandomValues(new Uint8Array(16))) });
    if (reason) statement.reason = reason;
    const answer = await post(path, await assertion(form, canonical(statement) + "\n"));
    if (!answer.state) throw new Error(answer.text || (answer.error && answer.error.message) || "it was refused");
    return answer;
  };

  // decide signs a decision on the hold that root shows and d names, and sends it.
  const decide = async (form, root, d, decision, expires, reason, levels, source) => {
    const digest = await shown(root);
    if (digest !== d.digest) throw new Error(differs);
    const statement = { action: digest, decision, expires, hold: d.hold, project: d.project, revision: d.revision, v: "lazaret/approval/v1" };
    if (levels) statement.levels = levels;
    if (source) statement.source = source;
    return send(form, "/holds/" + encodeURIComponent(d.project) + "/" + encodeURIComponent(d.hold), statement, reason);
  };

  // content returns the digest of the belief that the page shows.
  const content = async () => {
    const e = document.querySelector('[data-f="content"]');
    return "sha256:" + hex(await sha256(e.dataset.json === "true" ? JSON.parse(e.textContent) : e.textContent));
  };
  // attest signs an attestation of the belief that the page shows and d names, and sends it.
  const attest = async (form, d, decision, expires, reason) => {
    if (await content() !== d.digest) throw new Error(differs);
    const statement = { belief: d.belief, content: d.digest, decision, expires, project: d.project, revision: d.revision, v: "lazaret/belief/v1" };
    if (decision === "confirm" && d.findings) statement.findings = d.findings.split(" ");
    return send(form, "/beliefs/" + encodeURIComponent(d.project) + "/" + encodeURIComponent(d.belief), statement, reason);
  };
  // source returns the chosen source, approved for an hour, or null. Its digest is computed from
  // the text that the page shows.
  const source = async (form, expires) => {
    const chosen = [...form.querySelectorAll("[name=source]:checked")];
    if (chosen.length > 1) throw new Error("choose one source: a decision approves one");
    if (!chosen.length) return null;
    const texts = JSON.parse(document.querySelector(`[data-source="${chosen[0].dataset.of}"]`).textContent);
    const digest = "sha256:" + hex(await sha256(JSON.stringify(texts)));
    if (digest !== chosen[0].value) throw new Error(differs);
    const until = new Date(Date.parse(expires) + 50 * 60 * 1000).toISOString().replace(/\.\d+Z$/, "Z");
    return { actions: 20, digest, expires: until, session: chosen[0].dataset.session };
  };
  const enable = (form, on) => form.querySelectorAll("button").forEach((b) => { b.disabled = !on; });

  // single prepares a form that signs one statement. check fails if the page does not show what is signed.
  const single = (form, status, check, decide, done) => {
    const expires = clock(form);
    const say = (text, tone) => { status.textContent = text; status.className = "note " + (tone || ""); };
    check().then((digest) => {
      if (digest !== form.dataset.digest) throw new Error(differs);
      status.textContent = "This page computed the digest of what it shows. Your signature covers this digest.";
      enable(form, true);
    }).catch((e) => say(e.message, "bad"));
    form.addEventListener("submit", async (e) => {
      e.preventDefault();
      enable(form, false);
      try {
        say("Your authenticator asks you.");
        const answer = await decide(e.submitter.value, expires(), form.elements.reason.value.trim());
        say(done(answer) + ", ledger entry " + answer.ledger_seq + ".", answer.state === "approved" || answer.state === "confirm" ? "good" : "");
        status.dataset.state = answer.state;
        status.dataset.seq = answer.ledger_seq;
      } catch (err) {
        say(err.message, "bad");
        enable(form, true);
      }
    });
  };

  const sign = document.getElementById("sign");
  if (sign) {
    single(sign, document.getElementById("signing"), () => shown(document), async (decision, expires, reason) => {
      const chosen = decision === "approve" ? [...sign.elements].filter((f) => f.dataset.tool !== undefined) : [];
      const levels = chosen.length ? Object.fromEntries(chosen.map((f) => [f.dataset.tool, f.value])) : null;
      return decide(sign, document, sign.dataset, decision, expires, reason, levels, decision === "approve" ? await source(sign, expires) : null);
    }, (answer) => "The hold is " + answer.state);
  }
  const belief = document.getElementById("attest");
  if (belief) {
    single(belief, document.getElementById("attesting"), content, (decision, expires, reason) =>
      attest(belief, belief.dataset, decision, expires, reason), (answer) => "The attestation counts: " + answer.state);
  }

  // A queue signs one hold after the other. It stops when the person or the arbiter first refuses.
  const all = document.getElementById("signall");
  if (all) {
    const status = document.getElementById("progress");
    const expires = clock(all);
    const say = (text, tone) => { status.textContent = text; status.className = "note " + (tone || ""); };
    const left = () => [...document.querySelectorAll("#queue [data-hold]:not([data-done])")];
    Promise.all(left().map(async (item) => {
      if (await shown(item) !== item.dataset.digest) throw new Error(item.dataset.hold + ": " + differs);
    })).then(() => {
      const n = left().length;
      status.textContent = n ? "This page computed the digests of what it shows. Your signatures cover these digests." : "None of these holds can be signed here.";
      enable(all, n > 0);
    }).catch((e) => say(e.message, "bad"));
    all.addEventListener("submit", async (e) => {
      e.preventDefault();
      enable(all, false);
      const items = left();
      let done = 0;
      for (const item of items) {
        const said = item.querySelector("[data-said]");
        say("Hold " + (done + 1) + " of " + items.length + ": your authenticator asks you.");
        item.scrollIntoView({ block: "nearest" });
        try {
          const answer = await decide(all, item, item.dataset, e.submitter.value, expires(), all.elements.reason.value.trim());
          item.dataset.done = answer.state;
          item.querySelector("[data-state]").textContent = answer.state;
          said.textContent = "Ledger entry " + answer.ledger_seq + ".";
          done++;
        } catch (err) {
          said.textContent = err.message;
          say("Stopped at hold " + item.dataset.hold + ": " + err.message + " " + done + " of " + items.length + " are decided.", "bad");
          status.dataset.stopped = item.dataset.hold;
          enable(all, true);
          return;
        }
      }
      say("All " + done + " holds are decided.", "good");
      status.dataset.finished = done;
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
