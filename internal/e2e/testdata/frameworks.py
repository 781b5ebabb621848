"""usage: python3 frameworks.py EXAMPLE   runs an example of the Python client. The frameworks are played by the recorded
contracts of the adapters (internal/gateway/testdata/contracts.py) and by a loop for each, which calls the adapter where the
framework does."""
import runpy
import sys
from types import SimpleNamespace

import contracts as c



def also(name, **more):
    if name not in sys.modules:
        c.module(name)
    vars(sys.modules[name]).update(more)


# LangChain and LangGraph.
class AIMessage(c.Message):
    def __init__(self, content, tool_calls=()):
        super().__init__(content, "ai")
        self.tool_calls = tool_calls


class GenericFakeChatModel:
    def __init__(self, messages): self.messages = messages


class Graph:
    def __init__(self, model, tools, middleware):
        self.model, self.tools, self.guard = model, {t.__name__: t for t in tools}, middleware[0]

    def invoke(self, asked, config):
        c.config.update(config)
        messages = [c.Message(m["content"]) for m in asked["messages"]]
        self.guard.before_agent({"messages": messages}, None)
        while True:
            answer = self.guard.wrap_model_call(c.ModelRequest(list(messages)), lambda r: next(self.model.messages))
            messages.append(answer)
            if not answer.tool_calls:
                return {"messages": messages}
            for call in answer.tool_calls:
                messages.append(self.guard.wrap_tool_call(c.ToolCallRequest(call), self.run))

    def run(self, request):
        call = request.tool_call
        return c.ToolMessage(self.tools[call["name"]](**call["args"]), call["id"], call["name"])


also("langchain.agents", create_agent=Graph)
also("langchain_core.language_models")
also("langchain_core.language_models.fake_chat_models", GenericFakeChatModel=GenericFakeChatModel)
also("langchain_core.messages", AIMessage=AIMessage)
also("langchain_core.tools", tool=lambda f: f)


# The Agent Development Kit.
class Fields(SimpleNamespace):
    pass


class BaseLlm:
    def __init__(self, **fields): vars(self).update(fields)


class Part(Fields):
    text = function_call = function_response = None


class Event(Fields):
    def is_final_response(self): return bool(self.content.parts[0].text)


class Sessions:
    async def create_session(self, app_name, user_id): return SimpleNamespace(id="adk", user_id=user_id, events=[])


class AdkRunner:
    def __init__(self, *, app_name, agent, plugins, session_service, memory_service):
        self.agent, self.guard = agent, plugins[0]

    async def run_async(self, *, user_id, session_id, new_message):
        session = SimpleNamespace(id=session_id, user_id=user_id)
        await self.guard.on_user_message_callback(invocation_context=SimpleNamespace(session=session), user_message=new_message)
        tools = {t.__name__: t for t in self.agent.tools}
        for n in range(9):
            async for answer in self.agent.model.generate_content_async(None):
                yield Event(content=answer.content)
                call = answer.content.parts[0].function_call
                if not call:
                    return
                context = SimpleNamespace(session=session, function_call_id=f"f{n}")
                of = {"tool": SimpleNamespace(name=call.name), "tool_args": call.args, "tool_context": context}
                result = await self.guard.before_tool_callback(**of) or {"result": tools[call.name](**call.args)}
                await self.guard.after_tool_callback(**of, result=result)


types = SimpleNamespace(Part=Part, Content=c.Content, FunctionCall=Fields)
also("google.genai", types=types)
also("google.adk.agents", LlmAgent=Fields)
also("google.adk.models")
also("google.adk.models.base_llm", BaseLlm=BaseLlm)
also("google.adk.models.llm_response", LlmResponse=Fields)
also("google.adk.runners", Runner=AdkRunner)
also("google.adk.sessions", InMemorySessionService=Sessions)


# The OpenAI Agents SDK.
def function_tool(f):
    import json

    async def invoke(context, said): return f(**json.loads(said))
    return c.FunctionTool(f.__name__, f.__doc__, {}, invoke)


class Runner:
    @staticmethod
    async def run(agent, input, run_config):
        data = c.CallModelData(c.ModelInputData([{"role": "user", "content": input}]))
        tools = {t.name: t for t in agent.tools}
        while True:
            await run_config.call_model_input_filter(data)
            answer = (await agent.model.get_response()).output[0]
            if answer.type == "message":
                return SimpleNamespace(final_output=answer.content[0].text)
            result = await tools[answer.name].on_invoke_tool(None, answer.arguments)
            data.model_data.input.append({"type": "function_call_output", "call_id": answer.call_id, "output": result})


also("agents", Agent=Fields, Model=object, ModelResponse=Fields, RunConfig=Fields, Runner=Runner, Usage=Fields,
     function_tool=function_tool, set_tracing_disabled=lambda off: None)
also("openai")
also("openai.types")
also("openai.types.responses", ResponseFunctionToolCall=Fields, ResponseOutputMessage=Fields, ResponseOutputText=Fields)

runpy.run_path(sys.argv[1], run_name="__main__")
