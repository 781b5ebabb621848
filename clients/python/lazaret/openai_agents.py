"""Adapter for the OpenAI Agents SDK: guarded function tools, and a filter that records prompts."""

from __future__ import annotations

import asyncio
import copy
import json
from typing import Any, Callable, List, Optional, Sequence, Union

from . import Lazaret, LazaretError, Refused, id_of, refusal, _text


def guard_tools(lz: Lazaret, tools: Sequence[Any], *, wait: float = 0.0, session: Optional[str] = None,
                origin: Union[str, Callable[[str], str]] = "tool", unguarded: Sequence[str] = ()) -> List[Any]:
    """Wraps the tools, so that each asks before it runs. A refused call returns the reasons.

    Only function tools can be guarded: name others in unguarded, or guard_tools raises an error.
    """
    origin_of = origin if callable(origin) else lambda tool: origin
    guarded = []
    for tool in tools:
        if hasattr(tool, "on_invoke_tool"):
            tool = _guarded(lz, tool, origin_of(tool.name), id_of(session), wait)
        elif tool.name not in unguarded:
            raise TypeError(f"the tool {tool.name} is no function tool and cannot be guarded: name it in unguarded to let it be")
        guarded.append(tool)
    return guarded


def _guarded(lz: Lazaret, tool: Any, origin: str, session: Optional[str], wait: float) -> Any:
    run = tool.on_invoke_tool

    async def invoke(context: Any, said: str) -> Any:
        args = _arguments(said)
        try:
            answer = await asyncio.to_thread(lz.permit, tool.name, args, session=session, wait=wait)
            try:
                result = await run(context, said)
            except Exception as err:
                await asyncio.to_thread(lz.shown, answer, tool.name, str(err), "error", origin=origin, args=args)
                raise
            await asyncio.to_thread(lz.shown, answer, tool.name, _text(result), "ok", origin=origin, args=args)
            return result
        except (Refused, LazaretError) as err:
            return refusal(err)

    other = copy.copy(tool)
    other.on_invoke_tool = invoke
    return other


def record_prompts(lz: Lazaret, *, session: Optional[str] = None, prompts: Optional[str] = "user") -> Callable[[Any], Any]:
    """call_model_input_filter of a RunConfig: records each item before the model gets it."""

    async def record(data: Any) -> Any:
        for item in data.model_data.input:
            kind, role = item.get("type") or "", item.get("role")
            if role == "user" and prompts:
                await asyncio.to_thread(lz.observe_once, _said(item.get("content")), origin=prompts, session=id_of(session))
            elif kind.endswith("_output") or kind.endswith("_result"):
                await asyncio.to_thread(lz.observe_once, _said(item.get("output")), origin="tool", session=id_of(session))
        return data.model_data

    return record


def _arguments(said: str) -> dict:
    try:
        args = json.loads(said)
    except ValueError:
        args = None
    return args if isinstance(args, dict) else {"input": said}


def _said(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(c.get("text") or _text(c) if isinstance(c, dict) else str(c) for c in content)
    return _text(content)
