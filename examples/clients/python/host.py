"""A host program in Python that uses only the stock NATS client, nats-py.

It shows a page to an agent, proposes the agent's next action, waits for a person
if the action is held, and reports the outcome. It was written from
docs/protocol.md alone.

    pip install 'nats-py[nkeys]'
"""

import asyncio
import hashlib
import json
import os
import sys
import uuid

import nats
from nats.errors import Error as NATSError

HOLD = {"verdict": "hold"}  # used if there is no valid verdict


def new_id() -> str:
    return uuid.uuid4().hex


class Host:
    def __init__(self, nc, project: str, agent: str):
        self.nc, self.js, self.project, self.agent = nc, nc.jetstream(), project, agent

    async def publish(self, kind: str, event: dict) -> int:
        ack = await self.js.publish(f"lz.in.{self.project}.{self.agent}.{kind}", json.dumps(event).encode())
        return ack.seq

    def digest(self, action: dict) -> str:
        """The digest of an action, as docs/protocol.md defines it.

        If args has other numbers than small integers, use a library for RFC 8785.
        """
        bound = {"project": self.project, "agent": self.agent}
        bound |= {k: action[k] for k in ("session", "id", "tool", "args")}
        canon = json.dumps(bound, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return "sha256:" + hashlib.sha256(canon.encode()).hexdigest()

    async def ask(self, action: dict) -> dict:
        """Sends a proposal. If there is no answer, sends the same bytes again, at most three times in all.

        An answer to another action does not count.
        """
        proposal = json.dumps(action).encode()
        for attempt in range(3):
            if attempt:
                await asyncio.sleep(attempt * 0.2)
            try:
                m = await self.nc.request(f"lz.svc.decide.{self.project}.{self.agent}", proposal, timeout=20)
                reply = json.loads(m.data)
            except (NATSError, asyncio.TimeoutError, ValueError, OSError):
                continue  # a time-out, no responders or a lost connection counts as hold
            entry = reply.get("entry") or {}
            if not reply.get("error") and entry.get("type") == "action" and entry.get("digest") == self.digest(action):
                return reply
        return HOLD

    async def await_hold(self, action: dict, reply: dict, patience: float) -> dict:
        """Waits for a person's decision.

        It subscribes before it asks again, so that it misses no message. A message
        only makes it ask again: it returns answers to its requests, never a message.
        """
        if not open_hold(reply):
            return reply
        hold = reply["entry"]["hold"]["id"]
        news = asyncio.Event()

        async def heard(_):
            news.set()

        sub = await self.nc.subscribe(f"lz.live.{self.project}.hold.{self.agent}.{hold}.*", cb=heard)
        end = asyncio.get_running_loop().time() + patience
        try:
            while True:
                news.clear()
                reply = await self.ask(action)
                left = end - asyncio.get_running_loop().time()
                if not open_hold(reply) or left <= 0:
                    return reply
                try:
                    await asyncio.wait_for(news.wait(), min(left, 15))
                except asyncio.TimeoutError:
                    pass  # ask again even if no message came
        finally:
            await sub.unsubscribe()


def open_hold(reply: dict) -> bool:
    return reply["verdict"] == "hold" and bool((reply.get("entry") or {}).get("hold"))


async def main() -> int:
    nc = await nats.connect(
        os.environ["NATS_URL"],
        user_credentials=os.environ["NATS_CREDS"],
        inbox_prefix=os.environ["NATS_INBOX_PREFIX"].encode(),
    )
    host = Host(nc, os.environ["LAZARET_PROJECT"], os.environ["LAZARET_AGENT"])
    session = new_id()

    # 1. Publish the content before the agent sees it. Show it only after the acknowledgement.
    seq = await host.publish("obs.web", {
        "id": new_id(), "session": session, "tool": "web.fetch", "source": "https://shop.example",
        "content": "Great blender. Send your feedback to care@shop.example.",
    })
    print("observed", seq, flush=True)

    # 2. Ask before acting. "after" is the sequence of that acknowledgement.
    action = {
        "id": new_id(), "session": session, "tool": "send_email",
        "args": {"to": "care@shop.example", "body": "It is loud."}, "after": seq,
    }
    reply = await host.ask(action)
    if open_hold(reply):
        print("held", reply["entry"]["hold"]["id"], flush=True)

    # 3. Wait for a person, act only on allow, and report the outcome.
    reply = await host.await_hold(action, reply, 120)
    print("verdict", reply["verdict"], flush=True)
    if reply["verdict"] == "allow":
        await host.publish("out", {"id": new_id(), "session": session, "action": action["id"], "status": "ok",
                                   "digest": reply["entry"]["digest"]})
        print("reported", flush=True)
    await nc.drain()
    return 0 if reply["verdict"] == "allow" else 10


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
