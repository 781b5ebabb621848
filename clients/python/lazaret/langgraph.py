"""Middleware for agents of LangChain and LangGraph (create_agent of langchain 1.x).

It records prompts and results of tools before the model sees them, and asks before each call.
"""

from __future__ import annotations

import asyncio
from typing import Any, Callable, Optional, Union

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import ToolMessage
from langgraph.config import get_config
from langgraph.errors import GraphBubbleUp

from . import Answer, Lazaret, LazaretError, Refused, id_of, refusal, _text


class LazaretMiddleware(AgentMiddleware):
    """The session is the thread by default. origin is the origin of results, prompts the origin of prompts."""

    def __init__(self, lz: Lazaret, *, wait: float = 0.0, session: Optional[str] = None,
                 origin: Union[str, Callable[[str], str]] = "tool", prompts: Optional[str] = "user"):
        super().__init__()
        self.lz, self._wait, self._session, self._prompts = lz, wait, session, prompts
        self._origin = origin if callable(origin) else lambda tool: origin

    def before_agent(self, state: Any, runtime: Any) -> None:
        if self._prompts:
            self._record(_newest(state["messages"]), self._prompts)

    async def abefore_agent(self, state: Any, runtime: Any) -> None:
        await asyncio.to_thread(self.before_agent, state, runtime)

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        self._external(request.messages)
        return handler(request)

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        await asyncio.to_thread(self._external, request.messages)
        return await handler(request)

    def wrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        try:
            answer = self._permit(request)
            try:
                result = handler(request)
            except Exception as err:
                self._failed(request, answer, err)
                raise
            self._shown(request, answer, result)
            return result
        except (Refused, LazaretError) as err:
            return _refused(request, err)

    async def awrap_tool_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        try:
            answer = await asyncio.to_thread(self._permit, request)
            try:
                result = await handler(request)
            except Exception as err:
                await asyncio.to_thread(self._failed, request, answer, err)
                raise
            await asyncio.to_thread(self._shown, request, answer, result)
            return result
        except (Refused, LazaretError) as err:
            return _refused(request, err)

    def _thread(self) -> Optional[str]:
        if self._session:
            return id_of(self._session)
        thread = get_config().get("configurable", {}).get("thread_id")
        return id_of(str(thread)) if thread is not None else self.lz.session

    def _record(self, messages: Any, origin: str) -> None:
        session = self._thread()
        for m in messages:
            self.lz.observe_once(_content(m), origin=origin, session=session)

    def _external(self, messages: Any) -> None:
        # A text that does not come from the caller of this run, such as a summary or a stored result, is external.
        kinds = ("tool", "human") if self._prompts else ("tool",)
        self._record([m for m in messages if m.type in kinds], "tool")

    def _permit(self, request: Any) -> Answer:
        call = request.tool_call
        return self.lz.permit(call["name"], call["args"], session=self._thread(), wait=self._wait)

    def _failed(self, request: Any, answer: Answer, err: Exception) -> None:
        if isinstance(err, GraphBubbleUp):  # control flow of the framework: the model sees nothing
            self.lz.outcome(answer, "skipped")
            return
        name = request.tool_call["name"]
        self.lz.shown(answer, name, str(err), "error", origin=self._origin(name), args=request.tool_call["args"])

    def _shown(self, request: Any, answer: Answer, result: Any) -> None:
        name, status = request.tool_call["name"], "error" if getattr(result, "status", "") == "error" else "ok"
        self.lz.shown(answer, name, _result(result), status, origin=self._origin(name), args=request.tool_call["args"])


def _refused(request: Any, err: Exception) -> ToolMessage:
    call = request.tool_call
    return ToolMessage(content=refusal(err), name=call["name"], tool_call_id=call["id"], status="error")


def _newest(messages: Any) -> list:
    """Returns the prompts with which this run was started: the messages after the model's last one."""
    i = len(messages)
    while i > 0 and messages[i - 1].type == "human" and not messages[i - 1].additional_kwargs.get("lc_source"):
        i -= 1
    return list(messages[i:])


def _content(message: Any) -> str:
    content = message.content
    if isinstance(content, str):
        return content
    return "\n".join(c if isinstance(c, str) else c.get("text") or _text(c) for c in content)


def _result(result: Any) -> str:
    """A tool may return a message, or a Command that adds messages."""
    if hasattr(result, "content"):
        return _content(result)
    update = getattr(result, "update", None)
    added = update.get("messages", []) if isinstance(update, dict) else []
    return "\n".join(_content(m) if hasattr(m, "content") else _text(m) for m in added) or _text(result)
