// Verifies a proof of the log in the browser: the leaf, the path from the leaf to the root and the
// checkpoint's signature. If there is a kept checkpoint, it also verifies that the log extends it.
// WebCrypto computes the hashes and verifies the signatures.
"use strict";
(() => {
  const enc = new TextEncoder();
  const raw = (s) => Uint8Array.from(atob(s), (c) => c.charCodeAt(0));
  const same = (a, b) => a.length === b.length && a.every((x, i) => x === b[i]);
  const join = (...parts) => {
    const out = new Uint8Array(parts.reduce((n, p) => n + p.length, 0));
    let at = 0;
    for (const p of parts) { out.set(p, at); at += p.length; }
    return out;
  };
  const sha256 = async (...parts) => new Uint8Array(await crypto.subtle.digest("SHA-256", join(...parts)));
  const leafHash = (leaf) => sha256(new Uint8Array([0]), leaf);
  const nodeHash = (l, r) => sha256(new Uint8Array([1]), l, r);
  const fail = (why) => { throw new Error(why); };

  // readCheckpoint reads a C2SP checkpoint: the origin, the size, the root and the signatures.
  const readCheckpoint = (note) => {
    const cut = note.lastIndexOf("\n\n");
    if (cut < 0) fail("the checkpoint has no signature");
    const body = note.slice(0, cut + 1);
    const lines = body.split("\n");
    if (!/^(0|[1-9][0-9]*)$/.test(lines[1])) fail("the checkpoint has no size");
    const root = raw(lines[2]);
    if (root.length !== 32) fail("the checkpoint's root is no hash");
    const signatures = note.slice(cut + 2).split("\n").filter(Boolean).map((l) => {
      const m = /^— (\S+) (\S+)$/.exec(l) || fail("a signature of the checkpoint cannot be read");
      return { name: m[1], bytes: raw(m[2]) };
    });
    return { body, origin: lines[0], size: BigInt(lines[1]), root, signatures };
  };

  // signed checks that a key of the log signed a checkpoint. A key is NAME+HASH+BASE64, Ed25519.
  const signed = async (cp, keys) => {
    for (const k of keys) {
      const m = /^([^+]+)\+([0-9a-f]{8})\+(.+)$/.exec(k);
      if (!m) continue;
      const key = raw(m[3]);
      if (key[0] !== 1 || key.length !== 33) continue;
      const id = (await sha256(enc.encode(m[1] + "\n"), key)).slice(0, 4);
      for (const s of cp.signatures) {
        if (s.name !== m[1] || !same(s.bytes.slice(0, 4), id)) continue;
        const pub = await crypto.subtle.importKey("raw", key.slice(1), { name: "Ed25519" }, false, ["verify"]);
        if (await crypto.subtle.verify("Ed25519", pub, s.bytes.slice(4), enc.encode(cp.body))) return m[1];
        fail("the checkpoint's signature by " + m[1] + " is wrong");
      }
    }
    return fail("no pinned key of the log signed the checkpoint");
  };

  // readProof reads a C2SP tlog-proof with Lazaret's leaf as extra data.
  const readProof = (text) => {
    const at = text.indexOf("\n\n");
    const lines = text.slice(0, at).split("\n");
    if (lines.shift() !== "c2sp.org/tlog-proof@v1") fail("this is no proof");
    const extra = /^extra (\S+)$/.exec(lines[0]) ? raw(lines.shift().slice(6)) : fail("the proof has no leaf");
    const index = /^index (0|[1-9][0-9]*)$/.exec(lines.shift() || "") || fail("the proof has no index");
    if (extra[0] !== 1) fail("the proof's leaf is of another version");
    const n = extra[1] << 8 | extra[2];
    const leaf = extra.slice(3, 3 + n);
    if (leaf.length !== n || n < 102) fail("the proof's leaf is cut short");
    return { index: BigInt(index[1]), leaf, hashes: lines.map(raw), checkpoint: text.slice(at + 2) };
  };

  // readLeaf reads the fields of a leaf that the page shows. pkg/chain/FORMAT.md has the layout.
  const readLeaf = (b) => {
    const v = new DataView(b.buffer, b.byteOffset, b.length);
    const str = (at) => [new TextDecoder().decode(b.slice(at + 2, at + 2 + v.getUint16(at))), at + 2 + v.getUint16(at)];
    const [type, next] = str(98);
    const [project] = str(next);
    return { index: v.getBigUint64(2), seq: v.getBigUint64(10), commitment: b.slice(34, 66), type, project };
  };

  // included follows RFC 9162, 2.1.3.2.
  const included = async (index, size, hash, path, root) => {
    if (index >= size) fail("the leaf lies behind the checkpoint");
    let fn = index, sn = size - 1n, r = hash;
    for (const p of path) {
      if (sn === 0n) fail("the proof has too many hashes");
      if (fn & 1n || fn === sn) {
        r = await nodeHash(p, r);
        while (!(fn & 1n) && fn !== 0n) { fn >>= 1n; sn >>= 1n; }
      } else {
        r = await nodeHash(r, p);
      }
      fn >>= 1n; sn >>= 1n;
    }
    if (sn !== 0n || !same(r, root)) fail("the leaf is not in the tree of its checkpoint");
  };

  // extended follows RFC 9162, 2.1.4.2.
  const extended = async (first, second, firstRoot, secondRoot, path) => {
    if (first > second) fail("the kept checkpoint is of a longer log");
    if (first === second) {
      if (!same(firstRoot, secondRoot)) fail("two roots of one size: the log was rewritten");
      return;
    }
    if (first === 0n) return;
    const hashes = [...path];
    if (!(first & (first - 1n))) hashes.unshift(firstRoot);
    if (!hashes.length) fail("the proof has too few hashes");
    let fn = first - 1n, sn = second - 1n;
    while (fn & 1n) { fn >>= 1n; sn >>= 1n; }
    let fr = hashes[0], sr = hashes[0];
    for (const c of hashes.slice(1)) {
      if (sn === 0n) fail("the proof has too many hashes");
      if (fn & 1n || fn === sn) {
        fr = await nodeHash(c, fr); sr = await nodeHash(c, sr);
        while (!(fn & 1n) && fn !== 0n) { fn >>= 1n; sn >>= 1n; }
      } else {
        sr = await nodeHash(sr, c);
      }
      fn >>= 1n; sn >>= 1n;
    }
    if (sn !== 0n || !same(fr, firstRoot) || !same(sr, secondRoot)) fail("the log does not extend the kept checkpoint: it was rewritten");
  };

  const hex = (b) => [...b].map((x) => x.toString(16).padStart(2, "0")).join("");
  const run = (box, f) => {
    const out = box.querySelector("[data-verdict]");
    const show = (text, tone) => { out.textContent = text; out.className = "note " + tone; out.dataset.verdict = tone; };
    const go = () => f(box).then((text) => show(text, "good"), (e) => show("Not verified: " + e.message, "bad"));
    const button = box.querySelector("button");
    if (button) { button.disabled = false; button.addEventListener("click", go); }
    return go();
  };
  const keysOf = (box) => [...box.querySelectorAll("[data-key]")].map((e) => e.dataset.key);

  const proof = document.getElementById("proof");
  if (proof) run(proof, async (box) => {
    const p = readProof(box.querySelector("textarea").value);
    const cp = readCheckpoint(p.checkpoint);
    const by = await signed(cp, keysOf(box));
    await included(p.index, cp.size, await leafHash(p.leaf), p.hashes, cp.root);
    const leaf = readLeaf(p.leaf);
    if (leaf.index !== p.index) fail("the proof is for leaf " + p.index + ", and has leaf " + leaf.index);
    return "This browser verified it: leaf " + leaf.index + " of " + cp.size + " (" + leaf.type + " of project " + (leaf.project || "–") + ", ledger entry " +
      (leaf.seq & 0xfffffffffffn) + ", commitment " + hex(leaf.commitment).slice(0, 16) + "…) is in the tree that " + by + " signed.";
  });

  const heads = document.getElementById("compared");
  if (heads) run(heads, async (box) => {
    const kept = readCheckpoint(box.querySelector("[data-kept]").textContent);
    const now = readCheckpoint(box.querySelector("[data-now]").textContent);
    await signed(kept, keysOf(box));
    await signed(now, keysOf(box));
    if (kept.origin !== now.origin) fail("the checkpoints are of two logs");
    await extended(kept.size, now.size, kept.root, now.root, box.querySelector("[data-path]").textContent.split("\n").filter(Boolean).map(raw));
    return "This browser verified it: the log of " + now.size + " leaves extends the kept checkpoint of " + kept.size + ".";
  });
})();
