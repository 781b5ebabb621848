"""The frameworks, as far as the adapters use them, recorded in November 2026.

Read in the sources: google/adk-python plugins/base_plugin.py and memory/base_memory_service.py, and FunctionTool,
ModelInputData and CallModelData of openai-agents-python. From uses by others and from the JavaScript package, not read in
the source: AgentMiddleware and its requests, get_config, GraphBubbleUp, ADK's contexts, events and MemoryEntry.
"""
import sys
import types
from dataclasses import dataclass, field
from typing import Any


def module(name, **members):
    m = types.ModuleType(name)
    m.__dict__.update(members)
    sys.modules[name] = m


class AgentMiddleware:
    def before_agent(self, state, runtime): ...
    async def abefore_agent(self, state, runtime): ...
    def wrap_model_call(self, request, handler): ...
    async def awrap_model_call(self, request, handler): ...
    def wrap_tool_call(self, request, handler): ...
    async def awrap_tool_call(self, request, handler): ...


@dataclass
class Message:
    content: Any
    type: str = "human"
    additional_kwargs: dict = field(default_factory=dict)


@dataclass
class ToolMessage:
    content: Any
    tool_call_id: str = ""
    name: str = ""
    status: str = "success"
    type: str = "tool"


class GraphBubbleUp(Exception):
    pass


@dataclass
class ToolCallRequest:
    tool_call: dict


@dataclass
class ModelRequest:
    messages: list


config = {"configurable": {"thread_id": "thread 1"}}
module("langchain")
module("langchain.agents")
module("langchain.agents.middleware", AgentMiddleware=AgentMiddleware)
module("langchain_core")
module("langchain_core.messages", ToolMessage=ToolMessage)
module("langgraph")
module("langgraph.config", get_config=lambda: config)
module("langgraph.errors", GraphBubbleUp=GraphBubbleUp)


class BasePlugin:
    def __init__(self, name): self.name = name
    async def on_user_message_callback(self, *, invocation_context, user_message): ...
    async def before_tool_callback(self, *, tool, tool_args, tool_context): ...
    async def after_tool_callback(self, *, tool, tool_args, tool_context, result): ...
    async def on_tool_error_callback(self, *, tool, tool_args, tool_context, error): ...


class BaseMemoryService:
    async def add_session_to_memory(self, session): ...
    async def add_events_to_memory(self, *, app_name, user_id, events, session_id=None, custom_metadata=None): ...
    async def add_memory(self, *, app_name, user_id, memories, custom_metadata=None): ...
    async def search_memory(self, *, app_name, user_id, query): ...


@dataclass
class Part:
    text: Any = None
    function_response: Any = None


@dataclass
class Content:
    parts: list
    role: str = "user"


@dataclass
class MemoryEntry:
    content: Content
    author: Any = None


@dataclass
class SearchMemoryResponse:
    memories: list


for name in ("google", "google.adk", "google.adk.memory", "google.adk.plugins"):
    module(name)
module("google.genai", types=types.SimpleNamespace(Part=Part, Content=Content))
module("google.adk.memory.base_memory_service", BaseMemoryService=BaseMemoryService, SearchMemoryResponse=SearchMemoryResponse)
module("google.adk.memory.memory_entry", MemoryEntry=MemoryEntry)
module("google.adk.plugins.base_plugin", BasePlugin=BasePlugin)


@dataclass
class FunctionTool:
    name: str
    description: str
    params_json_schema: dict
    on_invoke_tool: Any


@dataclass
class ModelInputData:
    input: list
    instructions: Any = None


@dataclass
class CallModelData:
    model_data: ModelInputData
    agent: Any = None
    context: Any = None
