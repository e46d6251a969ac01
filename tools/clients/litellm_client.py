"""LiteLLM, with the server as a provider that speaks OpenAI's protocol."""

import asyncio
from typing import Literal

import litellm
from pydantic import BaseModel, Field

from checks import ANSWER, ENDLESS, FORCED, QUESTION, WEATHER, check, is_weather, main, raises

TOOL = {"type": "function", "function": {"name": "weather", "description": "Tells the weather.", "parameters": WEATHER}}
ASK = [{"role": "user", "content": QUESTION}]


class Place(BaseModel):
    name: str = Field(max_length=20)
    size: Literal["small", "large"]


def options(server, **fields):
    fields = {"model": server.model, "messages": ASK, "temperature": 0, "max_tokens": 60, **fields}
    fields["model"] = f"hosted_vllm/{fields['model']}"
    return {"api_base": server.openai, "api_key": "none", "num_retries": 0, "timeout": 60, **fields}


def chat(server, **fields):
    return litellm.completion(**options(server, **fields))


@check
def answer(server):
    got = chat(server)
    assert ANSWER in got.choices[0].message.content and got.usage.completion_tokens > 3


@check
def stream(server):
    pieces = [chunk.choices[0].delta.content or "" for chunk in chat(server, stream=True) if chunk.choices]
    assert ANSWER in "".join(pieces) and len(pieces) > 3


@check
def asynchronous(server):
    async def read():
        events = await litellm.acompletion(**options(server, stream=True))
        return "".join([chunk.choices[0].delta.content or "" async for chunk in events])

    assert ANSWER in asyncio.run(read())


@check
def tools(server):
    forced = {"tools": [TOOL], "tool_choice": "required", "parallel_tool_calls": False, **FORCED}
    message = chat(server, **forced).choices[0].message
    [call] = message.tool_calls
    assert call.function.name == "weather" and is_weather(call.function.arguments)
    chunks = list(chat(server, stream=True, **forced))
    [streamed] = litellm.stream_chunk_builder(chunks).choices[0].message.tool_calls
    assert is_weather(streamed.function.arguments)
    result = {"role": "tool", "tool_call_id": call.id, "content": "sunny"}
    assert chat(server, tools=[TOOL], messages=[*ASK, message.model_dump(), result]).choices[0].message.content


@check
def schema(server):
    text = chat(server, response_format=Place, **FORCED).choices[0].message.content
    assert Place.model_validate_json(text)


@check
def errors(server):
    raises(litellm.NotFoundError, lambda: chat(server, model="gpt-none"))
    raises(litellm.BadRequestError, lambda: chat(server, temperature=-1))
    raises(litellm.ContextWindowExceededError, lambda: chat(server, messages=[{"role": "user", "content": "word " * 5000}]))


@check
def cancelled(server):
    async def leave():
        endless = {"max_tokens": ENDLESS["max_tokens"], "extra_body": {"ignore_eos": True}}
        events = await litellm.acompletion(**options(server, stream=True, **endless))
        await anext(aiter(events))
        await events.aclose()

    asyncio.run(leave())
    server.forgets()


if __name__ == "__main__":
    main()
