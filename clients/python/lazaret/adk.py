"""Plugin and memory service for Google's Agent Development Kit.

    runner = Runner(agent=agent, plugins=[LazaretPlugin(lz)], memory_service=LazaretMemoryService(lz), ...)
"""

from __future__ import annotations

import asyncio
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Union

from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.plugins.base_plugin import BasePlugin
from google.genai import types

from . import Answer, Lazaret, LazaretError, Refused, id_of, refusal, _text


class LazaretPlugin(BasePlugin):
    """Records prompts and results of tools before the model sees them, and asks before each call."""

    def __init__(self, lz: Lazaret, *, wait: float = 0.0, session: Optional[str] = None,
                 origin: Union[str, Callable[[str], str]] = "tool", prompts: Optional[str] = "user"):
        super().__init__(name="lazaret")
        self.lz, self._wait, self._session, self._prompts = lz, wait, session, prompts
        self._origin = origin if callable(origin) else lambda tool: origin
        self._calls: Dict[str, Optional[Answer]] = {}  # running calls, by function_call_id; None if refused

    async def on_user_message_callback(self, *, invocation_context: Any, user_message: Any) -> None:
        if self._prompts:
            await asyncio.to_thread(self.lz.observe, _said(user_message), origin=self._prompts,
                                    session=self._session or id_of(invocation_context.session.id))

    async def before_tool_callback(self, *, tool: Any, tool_args: Dict[str, Any], tool_context: Any) -> Optional[dict]:
        try:
            answer = await asyncio.to_thread(self.lz.permit, tool.name, tool_args, session=self._of(tool_context), wait=self._wait)
        except Refused as err:
            self._calls[tool_context.function_call_id] = None
            return {"error": refusal(err)}
        self._calls[tool_context.function_call_id] = answer
        return None

    async def after_tool_callback(self, *, tool: Any, tool_args: Dict[str, Any], tool_context: Any, result: Any) -> Optional[dict]:
        return await self._shown(tool, tool_args, tool_context, _text(result), "ok")

    async def on_tool_error_callback(self, *, tool: Any, tool_args: Dict[str, Any], tool_context: Any, error: Exception) -> Optional[dict]:
        return await self._shown(tool, tool_args, tool_context, str(error), "error")

    async def _shown(self, tool: Any, args: Dict[str, Any], context: Any, content: str, status: str) -> Optional[dict]:
        known = context.function_call_id in self._calls
        answer = self._calls.pop(context.function_call_id, None)
        if known and answer is None:
            return None  # the framework passes on the refusal that this plugin returned
        origin = self._origin(tool.name)
        try:
            if answer is None:  # another plugin has answered the call
                await asyncio.to_thread(self.lz.observe, content, origin=origin, tool=tool.name, session=self._of(context))
            else:
                await asyncio.to_thread(self.lz.shown, answer, tool.name, content, status, origin=origin, args=args)
        except LazaretError as err:
            return {"error": refusal(err)}
        return None

    def _of(self, context: Any) -> str:
        return self._session or id_of(context.session.id)


class LazaretMemoryService(BaseMemoryService):
    """Stores memories in Lazaret: asks before each write, and returns only memories that an agent may use for plans."""

    def __init__(self, lz: Lazaret, *, prompts: str = "user"):
        self.lz, self._prompts = lz, prompts
        self._added: set = set()  # events that were written to memory

    async def add_session_to_memory(self, session: Any) -> None:
        await self._add(session.events, session.id, session.user_id)

    async def add_events_to_memory(self, *, app_name: str, user_id: str, events: Sequence[Any], session_id: Optional[str] = None,
                                   custom_metadata: Optional[Mapping[str, object]] = None) -> None:
        await self._add(events, session_id, user_id)

    async def add_memory(self, *, app_name: str, user_id: str, memories: Sequence[Any],
                         custom_metadata: Optional[Mapping[str, object]] = None) -> None:
        for m in memories:
            await self._remember(_said(m.content), "agent", None, user_id)

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        answer = await asyncio.to_thread(self.lz.recall, query, user=id_of(user_id))
        admitted = (answer.recall or {}).get("admitted") or []
        return SearchMemoryResponse(memories=[
            MemoryEntry(content=types.Content(role="user", parts=[types.Part(text=i["content"])]), author=i.get("origin")) for i in admitted])

    async def _add(self, events: Sequence[Any], session: Optional[str], user: str) -> None:
        for e in events:
            if e.id in self._added or not e.content or not e.content.parts:
                continue
            await self._remember(_said(e.content), self._origin(e), session, user)
            self._added.add(e.id)

    def _origin(self, event: Any) -> str:
        if any(getattr(p, "function_response", None) for p in event.content.parts):
            return "tool"
        return self._prompts if event.author == "user" else "agent"

    async def _remember(self, content: str, origin: str, session: Optional[str], user: str) -> None:
        if not content:
            return
        answer = await asyncio.to_thread(self.lz.remember, content, origin=origin, session=id_of(session), user=id_of(user), scope="user")
        if answer.error:
            # The memory was not recorded. If it is held or denied, it is not served, and this is no error.
            raise answer.error


def _said(content: Any) -> str:
    texts = []
    for p in (content.parts if content else None) or []:
        if getattr(p, "text", None):
            texts.append(p.text)
        elif getattr(p, "function_response", None):
            texts.append(_text(p.function_response.response))
    return "\n".join(texts)
