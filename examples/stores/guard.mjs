// A guard for any memory store. It asks Lazaret before a memory is written, and again
// before found memories enter a context. Each question is one NATS request;
// docs/protocol.md describes the requests.
import { nuid } from "@nats-io/transport-node";

export class Guard {
  constructor(nc, project, agent, session = nuid.next()) {
    Object.assign(this, { nc, project, agent, session });
  }

  /** May this be remembered? A request that gets no verdict counts as hold. */
  async remember({ origin, content, key, source }) {
    const body = JSON.stringify({ id: nuid.next(), session: this.session, content, key, source });
    return this.#ask(`lz.svc.remember.${this.project}.${this.agent}.${origin}`, body);
  }

  /**
   * Which of these may enter a context? They are judged by their words, not by the ids of
   * the store. So somebody who changes a text in the store cannot give it the trust of
   * another memory. The agent may act on facts; it may only read background.
   */
  async gate(candidates, purpose = "planning") {
    if (candidates.length === 0) return { facts: [], background: [], refused: [] };
    const body = JSON.stringify({ id: nuid.next(), session: this.session, purpose, candidates: candidates.slice(0, 100) });
    const reply = await this.#ask(`lz.svc.gate.${this.project}.${this.agent}`, body);
    if (reply.verdict !== "allow") return { facts: [], background: [], refused: candidates };
    const words = (list) => (list ?? []).map((item) => item.content);
    return { facts: words(reply.recall.admitted), background: words(reply.recall.context_only), refused: reply.recall.refused ?? [] };
  }

  async #ask(subject, body) {
    for (let attempt = 0; attempt < 3; attempt++) {
      try {
        const reply = (await this.nc.request(subject, body, { timeout: 20_000 })).json();
        if (!reply.error && reply.entry) return reply;
      } catch { /* silence, no responders, a lost connection */ }
    }
    return { verdict: "hold" };
  }
}
