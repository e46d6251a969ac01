"""Pydantic AI: agents."""

import asyncio
from typing import Literal

from pydantic import BaseModel, Field
from pydantic_ai import Agent, ModelHTTPError, NativeOutput, ToolOutput
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from checks import ANSWER, ENDLESS, FORCED, QUESTION, check, main, raises


class Place(BaseModel):
    name: str = Field(max_length=20)
    size: Literal["small", "large"]


def agent(server, name=None, **options):
    provider = OpenAIProvider(base_url=server.openai, api_key="none")
    settings = {"timeout": 60, "parallel_tool_calls": False, **options.pop("settings", {"temperature": 0, "max_tokens": 60})}
    return Agent(OpenAIChatModel(name or server.model, provider=provider), model_settings=settings, **options)


@check
def text(server):
    got = agent(server).run_sync(QUESTION)
    assert ANSWER in got.output and got.usage.output_tokens > 3
    again = agent(server).run_sync("And of Norway?", message_history=got.all_messages())
    assert again.usage.input_tokens > got.usage.input_tokens


@check
def stream(server):
    async def read():
        async with agent(server).run_stream(QUESTION) as answer:
            return [piece async for piece in answer.stream_text(delta=True, debounce_by=None)]

    pieces = asyncio.run(read())
    assert ANSWER in "".join(pieces) and len(pieces) > 3


@check
def schema(server):
    for kind in [ToolOutput, NativeOutput]:
        got = agent(server, output_type=kind(Place), settings=FORCED).run_sync(QUESTION)
        assert isinstance(got.output, Place), kind


@check
def tools(server):
    """The agent must answer by a tool, so the server forces a call: of the weather or of the answer, as the model likes."""
    asked = agent(server, output_type=ToolOutput(Place), settings={**FORCED, "temperature": 1, "seed": 2})
    called = []

    @asked.tool_plain
    def weather(city: Literal["Rome", "Oslo"]) -> str:
        """Tells the weather."""
        called.append(city)
        return "sunny"

    for seed in range(20):
        got = asked.run_sync(QUESTION, model_settings={"seed": seed})
        assert isinstance(got.output, Place)
        if called:
            return
    raise AssertionError("no answer of 20 has called the weather first")


@check
def errors(server):
    error = raises(ModelHTTPError, lambda: agent(server, "gpt-none").run_sync(QUESTION))
    assert error.status_code == 404 and error.body["code"] == "model_not_found"


@check
def cancelled(server):
    async def leave():
        settings = {"max_tokens": ENDLESS["max_tokens"], "extra_body": {"ignore_eos": True}}
        async with agent(server, settings=settings).run_stream(QUESTION) as answer:
            async for _ in answer.stream_text(delta=True, debounce_by=None):
                await answer.cancel()
                break

    asyncio.run(leave())
    server.forgets()


if __name__ == "__main__":
    main()
