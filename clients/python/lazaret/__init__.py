"""Client of Lazaret's HTTP gateway (docs/http.md). It needs only the standard library.

    lz = Lazaret(token=..., session="s1")
    lz.observe(origin="web", tool="web.fetch", content=page)    # raises: do not show the page
    answer = lz.decide("send_email", {"to": "bob@example.org"})  # never raises: a failure is a hold
    answer = lz.wait(answer, timeout=600)
    send = lz.guard(send_email, wait=600)                        # asks, runs, records the result

AsyncLazaret has the same methods as coroutines.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import http.client
import inspect
import json
import re
import threading
import time
import urllib.error
import urllib.request
import uuid
from dataclasses import dataclass, field
from typing import Any, Awaitable, Callable, Dict, List, Literal, Mapping, Optional, Sequence, Union

__all__ = ["Answer", "AsyncLazaret", "Lazaret", "LazaretError", "Refused", "id_of", "refusal"]

Json = Dict[str, Any]
Candidate = Union[str, Mapping[str, Any]]
Status = Literal["ok", "error", "skipped", "cancelled"]

_VERDICTS = ("allow", "hold", "deny")
_AGAIN = (429, 502, 503, 504)
_MAX_HELD = 256  # held calls that are remembered, so that a repeated call asks about the same hold
_MAX_RECORDED = 4096  # recorded texts that are remembered, so that observe_once does not record them again


class LazaretError(Exception):
    """An observation or report that was not recorded: show nothing of it to the model."""

    def __init__(self, code: str, message: str, problem: Optional[Json] = None, status: int = 0):
        super().__init__(f"{code}: {message}")
        self.code = code
        self.problem = problem or {}
        self.status = status


class Refused(Exception):
    """A guarded tool did not run, because its call was held or denied."""

    def __init__(self, tool: str, answer: "Answer"):
        why = "; ".join(str(r.get("text") or r.get("code")) for r in answer.reasons)
        super().__init__(f"{tool}: {answer.verdict}" + (f": {why}" if why else ""))
        self.verdict = answer.verdict
        self.answer = answer


@dataclass
class Answer:
    """The answer to a request. If the pipeline gave no verdict, it is a hold with an error."""

    verdict: str  # allow, hold or deny
    id: str
    session: Optional[str] = None
    reasons: List[Json] = field(default_factory=list)
    hold: Optional[Json] = None  # set if the verdict is hold and a person may still release it
    digest: Optional[str] = None  # digest of the action; report it with the outcome
    belief: Optional[Json] = None
    recall: Optional[Json] = None  # admitted, context_only, contradictions, refused
    error: Optional[Exception] = None
    reply: Optional[Json] = None
    asked: tuple = ()  # path, body and type of the request, to send it again

    @property
    def allowed(self) -> bool:
        return self.verdict == "allow"


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    # No redirect is followed, so that the token is not sent to another host.
    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


class Lazaret:
    """Client of the gateway, for the agent to which the token belongs. Several threads may use it."""

    def __init__(self, token: str, url: str = "http://127.0.0.1:4280", session: Optional[str] = None,
                 timeout: float = 25.0, tries: int = 4):
        if not token:
            raise ValueError("a token is needed: lazaret agent token new PROJECT AGENT")
        self.url, self.token, self.session = url.rstrip("/"), token, session
        self.timeout, self.tries = timeout, tries
        self._after = 0
        self._lock = threading.Lock()
        self._held: Dict[str, Answer] = {}  # by session, tool and arguments, oldest first; guarded by _lock
        self._recorded: Dict[tuple, bool] = {}  # texts that were recorded, oldest first; guarded by _lock
        self._opener = urllib.request.build_opener(_NoRedirect, urllib.request.ProxyHandler({}))

    def observe(self, content: Optional[str] = None, **fields: Any) -> Json:
        """Records content before the model sees it. Show the content only after this has returned."""
        return self._publish("/v1/observe", {"content": content, **fields})

    def decide(self, tool: str, args: Optional[Mapping[str, Any]] = None, **fields: Any) -> Answer:
        """Asks for a verdict before the agent acts. Never raises: every failure is a hold."""
        return self._ask("/v1/decide", {"tool": tool, "args": args, **fields}, "action")

    def remember(self, content: str, **fields: Any) -> Answer:
        """Asks for a verdict before the agent writes to its memory."""
        return self._ask("/v1/remember", {"content": content, **fields}, "memory")

    def recall(self, query: Optional[str] = None, **fields: Any) -> Answer:
        """Searches the memory, and returns the texts that may enter the context."""
        return self._ask("/v1/recall", {"query": query, **fields}, "recall")

    def gate(self, candidates: Sequence[Candidate], **fields: Any) -> Answer:
        """Asks which texts from another memory store may enter the context."""
        listed = [{"content": c} if isinstance(c, str) else dict(c) for c in candidates]
        return self._ask("/v1/gate", {"candidates": listed, **fields}, "recall")

    def memory_tool(self, input: Mapping[str, Any], session: Optional[str] = None, user: Optional[str] = None,
                    wait: float = 0.0, data_subject: Optional[str] = None) -> Json:
        """Carries out a call of Anthropic's memory tool and returns content and is_error of its tool_result.

        Never raises. A call is sent only once, because a call whose answer was lost may have been carried out.
        """
        try:
            # The host, not the model, chooses whose memory is used.
            whose = {"session": session or self.session, "user": user, "data_subject": data_subject}
            call = {k: v for k, v in input.items() if k not in whose and v is not None}
            call.update({k: v for k, v in whose.items() if v is not None})
            path = "/v1/memory_tool" + (f"?wait={min(300, int(wait + 0.999))}s" if wait > 0 else "")
            got = self._once(path, json.dumps(call, allow_nan=False).encode(), self.timeout + wait)
            if not isinstance(got.get("content"), str):
                raise LazaretError("LZ208", "the answer is not one to what was asked", got)
            return {**got, "is_error": got.get("is_error") is True}
        except Exception as err:
            return {"content": f"Lazaret gave no answer, so nothing of memory is shown: {err}", "is_error": True,
                    "verdict": "hold"}

    def outcome(self, answer: Answer, status: Status, content: Optional[str] = None) -> Json:
        """Reports the outcome of an action: ok, error, skipped, or cancelled to withdraw a held action."""
        return self._publish("/v1/outcome", {"action": answer.id, "session": answer.session or self.session,
                                             "status": status, "content": content, "digest": answer.digest})

    def start_session(self, session: Optional[str] = None) -> Json:
        """Starts the session again. This ends the holds for observations that could not be recorded."""
        return self._publish("/v1/session", {"session": session or self.session, "phase": "start"})

    def wait(self, answer: Answer, timeout: float = 600.0) -> Answer:
        """Waits until a person has resolved the hold, it has expired, or the time-out is over. Times are in seconds."""
        end = time.monotonic() + timeout
        while answer.verdict == "hold" and answer.hold and answer.asked:
            left = min(60, int(end - time.monotonic() + 0.999))
            if left <= 0:
                break
            path, body, kind = answer.asked
            then = self._verdict(f"{path}?wait={left}s", body, kind, left + self.timeout)
            if then.error is None:
                answer = then
            else:  # if the gateway does not answer, the hold is still open
                time.sleep(max(0.0, min(1.0, end - time.monotonic())))
        return answer

    def guard(self, tool: Callable[..., Any], name: Optional[str] = None, origin: str = "tool",
              source: Optional[str] = None, wait: float = 0.0) -> Callable[..., Any]:
        """Wraps a tool: asks before it runs, and records its result before it returns it. wait is in seconds."""
        name = name or tool.__name__

        @functools.wraps(tool)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            said = _arguments(tool, args, kwargs)
            return self.perform(name, said, lambda: tool(*args, **kwargs), origin=origin, source=source, wait=wait)

        return guarded

    def perform(self, name: str, args: Json, run: Callable[[], Any], *, origin: str = "tool", source: Optional[str] = None,
                session: Optional[str] = None, wait: float = 0.0, text: Optional[Callable[[Any], str]] = None,
                failed: Callable[[Any], bool] = lambda result: False) -> Any:
        """Runs one call of a tool: asks, runs it, records the result and returns it.

        Raises Refused if the call may not run. The same call, made again, asks about the same hold.
        """
        answer = self.permit(name, args, session=session, wait=wait)
        try:
            result = run()
        except Exception as err:
            self.shown(answer, name, str(err), "error", origin=origin, source=source, args=args)
            raise
        content = (text or _text)(result)
        self.shown(answer, name, content, "error" if failed(result) else "ok", origin=origin, source=source, args=args)
        return result

    def permit(self, name: str, args: Json, *, session: Optional[str] = None, wait: float = 0.0) -> Answer:
        """Returns the answer that permits a call, or raises Refused.

        Use it if a framework runs the tool, and report the result with shown.
        """
        session = session or self.session
        key = json.dumps([session, name, args], sort_keys=True, default=str)
        with self._lock:
            kept = self._held.pop(key, None)
        answer = None
        if kept:
            answer = self._verdict(*kept.asked, self.timeout)
            answer = kept if answer.error else answer
        if answer is None or (answer.verdict == "hold" and not answer.hold):
            answer = self.decide(name, args, session=session)
        if wait > 0:
            answer = self.wait(answer, wait)
        if answer.allowed:
            return answer
        if answer.hold:
            self._keep(self._held, key, answer, _MAX_HELD)
        refused = Refused(name, answer)
        # This is the client's own text: observe_once need not record it.
        self._keep(self._recorded, (session, refusal(refused)), True, _MAX_RECORDED)
        raise refused

    def shown(self, answer: Answer, tool: str, content: str, status: Status, *, origin: str = "tool", **fields: Any) -> None:
        """Reports the outcome of a permitted call, and records the text that the model gets of it."""
        self.outcome(answer, status)
        self.observe(content, origin=origin, tool=tool, call=answer.id, session=answer.session, **fields)
        self._keep(self._recorded, (answer.session, content), True, _MAX_RECORDED)

    def observe_once(self, content: str, *, session: Optional[str] = None, **fields: Any) -> None:
        """Records a text that enters a prompt. If this client has already recorded the same text in this session, it does nothing."""
        session = session or self.session
        with self._lock:
            known = (session, content) in self._recorded
        if content and not known:
            self.observe(content, session=session, **fields)
            self._keep(self._recorded, (session, content), True, _MAX_RECORDED)

    def _keep(self, kept: Dict[Any, Any], key: Any, value: Any, most: int) -> None:
        with self._lock:
            kept[key] = value
            while len(kept) > most:
                del kept[next(iter(kept))]

    def _event(self, fields: Mapping[str, Any]) -> Json:
        event = {"id": uuid.uuid4().hex, "session": self.session, **{k: v for k, v in fields.items() if v is not None}}
        return {k: v for k, v in event.items() if v is not None}

    def _acknowledged(self, got: Json) -> None:
        self._after = max(self._after, got.get("intake_seq") or 0)

    def _publish(self, path: str, fields: Json) -> Json:
        got = self._call(path, self._event(fields), self.timeout)
        self._acknowledged(got)
        return got

    def _ask(self, path: str, fields: Json, kind: str) -> Answer:
        try:
            event = self._event({"after": self._after or None, **fields})
        except Exception as err:
            return Answer("hold", "", error=err)
        return self._verdict(path, event, kind, self.timeout)

    def _verdict(self, path: str, event: Json, kind: str, timeout: float) -> Answer:
        answer = Answer("hold", event["id"], event.get("session"), asked=(path.partition("?")[0], event, kind))
        try:
            reply = self._call(path, event, timeout)
            self._acknowledged(reply)
            entry = reply.get("entry") or {}
            if reply.get("verdict") not in _VERDICTS or entry.get("type") != kind or event["id"] not in (entry.get("id"), entry.get("reuses")):
                raise LazaretError("LZ208", "the answer is not one to what was asked", reply)
        except Exception as err:  # every failure is a hold
            answer.error = err
            return answer
        answer.verdict, answer.id, answer.reply = reply["verdict"], entry["id"], reply
        answer.reasons, answer.hold, answer.digest = entry.get("reasons") or [], entry.get("hold"), entry.get("digest")
        answer.belief, answer.recall = entry.get("belief"), reply.get("recall")
        return answer

    def _call(self, path: str, body: Json, timeout: float) -> Json:
        """Sends a request. If the answer is lost, sends the same request again."""
        data = json.dumps(body, allow_nan=False).encode()
        end, pause = time.monotonic() + timeout, 0.05
        for attempt in range(1, self.tries + 1):
            try:
                return self._once(path, data, max(0.001, end - time.monotonic()))
            except LazaretError as err:
                failed = err
            except (OSError, ValueError, http.client.HTTPException) as err:
                failed = LazaretError("LZ203", str(err), status=503)
            if failed.status not in _AGAIN or attempt == self.tries or time.monotonic() + pause >= end:
                raise failed
            time.sleep(pause)
            pause *= 2
        raise LazaretError("LZ203", "tries is less than 1")

    def _once(self, path: str, data: bytes, timeout: float) -> Json:
        request = urllib.request.Request(self.url + path, data, method="POST", headers={
            "Content-Type": "application/json", "Authorization": f"Bearer {self.token}"})
        try:
            with self._opener.open(request, timeout=timeout) as response:
                status, text = response.status, response.read()
        except urllib.error.HTTPError as err:
            with err:
                status, text = err.code, err.read()
        try:
            got = json.loads(text)
        except ValueError:
            got = None
        if not isinstance(got, dict):
            raise LazaretError("LZ203", f"the answer of status {status} is no JSON object", status=status)
        if status != 200:
            raise LazaretError(got.get("code", "LZ203"), got.get("detail", f"status {status}"), got, status)
        return got


class AsyncLazaret:
    """Lazaret with coroutines. Each call waits in a thread of the loop's executor."""

    def __init__(self, token: str, **options: Any):
        self.sync = Lazaret(token, **options)

    async def observe(self, content: Optional[str] = None, **fields: Any) -> Json:
        return await asyncio.to_thread(self.sync.observe, content, **fields)

    async def decide(self, tool: str, args: Optional[Mapping[str, Any]] = None, **fields: Any) -> Answer:
        return await asyncio.to_thread(self.sync.decide, tool, args, **fields)

    async def remember(self, content: str, **fields: Any) -> Answer:
        return await asyncio.to_thread(self.sync.remember, content, **fields)

    async def recall(self, query: Optional[str] = None, **fields: Any) -> Answer:
        return await asyncio.to_thread(self.sync.recall, query, **fields)

    async def gate(self, candidates: Sequence[Candidate], **fields: Any) -> Answer:
        return await asyncio.to_thread(self.sync.gate, candidates, **fields)

    async def memory_tool(self, input: Mapping[str, Any], **options: Any) -> Json:
        return await asyncio.to_thread(self.sync.memory_tool, input, **options)

    async def outcome(self, answer: Answer, status: Status, content: Optional[str] = None) -> Json:
        return await asyncio.to_thread(self.sync.outcome, answer, status, content)

    async def start_session(self, session: Optional[str] = None) -> Json:
        return await asyncio.to_thread(self.sync.start_session, session)

    async def wait(self, answer: Answer, timeout: float = 600.0) -> Answer:
        return await asyncio.to_thread(self.sync.wait, answer, timeout)

    def guard(self, tool: Callable[..., Awaitable[Any]], name: Optional[str] = None, origin: str = "tool",
              source: Optional[str] = None, wait: float = 0.0) -> Callable[..., Awaitable[Any]]:
        """Wraps a coroutine function: asks before it runs, and records its result before it returns it."""
        name = name or tool.__name__

        @functools.wraps(tool)
        async def guarded(*args: Any, **kwargs: Any) -> Any:
            said = _arguments(tool, args, kwargs)
            answer = await asyncio.to_thread(self.sync.permit, name, said, wait=wait)
            shown = functools.partial(asyncio.to_thread, self.sync.shown, answer, name, origin=origin, source=source, args=said)
            try:
                result = await tool(*args, **kwargs)
            except Exception as err:
                await shown(str(err), "error")
                raise
            await shown(_text(result), "ok")
            return result

        return guarded


def _arguments(tool: Callable[..., Any], args: tuple, kwargs: Mapping[str, Any]) -> Json:
    """Returns the arguments of a call by name. A value that has no JSON form becomes its text."""
    bound = inspect.signature(tool).bind(*args, **kwargs)
    bound.apply_defaults()
    return json.loads(json.dumps(bound.arguments, default=str))


def refusal(err: Exception) -> str:
    """Returns the text that tells the model why a call did not run, or why it does not get the result."""
    if isinstance(err, Refused):
        return f"Lazaret refused this call: {err}. Do not try another way around it."
    return f"Lazaret withheld the result of this call, since it could not be recorded: {err}"


def id_of(text: Optional[str]) -> Optional[str]:
    """Makes a legal id from a text, such as a thread id: the text itself if it is legal, else its digest."""
    if text is None or re.fullmatch(r"[A-Za-z0-9_-]{1,64}", text):
        return text
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _text(result: Any) -> str:
    if isinstance(result, str):
        return result
    return json.dumps(result, default=str)
