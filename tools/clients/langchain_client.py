"""LangChain, by its package for OpenAI."""

import asyncio
from typing import Literal

import openai
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAI
from pydantic import BaseModel, Field

from checks import ANSWER, ENDLESS, FORCED, QUESTION, check, main, raises


def model(server, **fields):
    fields = {"model": server.model, "temperature": 0, "max_tokens": 60, "max_retries": 0, "timeout": 60, **fields}
    return ChatOpenAI(base_url=server.openai, api_key="none", **fields)


class Place(BaseModel):
    """A place."""

    name: str = Field(max_length=20)
    size: Literal["small", "large"]


@tool
def weather(city: Literal["Rome", "Oslo"]) -> str:
    """Tells the weather."""
    return f"sunny in {city}"


@check
def invoke(server):
    got = model(server).invoke(QUESTION)
    assert ANSWER in got.content and got.response_metadata["finish_reason"] == "stop"
    assert got.usage_metadata["output_tokens"] > 3


@check
def stream(server):
    pieces = list(model(server, stream_usage=True).stream(QUESTION))
    assert ANSWER in "".join(piece.content for piece in pieces) and len(pieces) > 3
    assert sum(piece.usage_metadata["output_tokens"] for piece in pieces if piece.usage_metadata) > 3


@check
def together(server):
    """`batch` asks in several threads."""
    questions = [QUESTION, "What is 2 + 2?", "Hello!"] * 3
    answers = [answer.content for answer in model(server).batch(questions)]
    assert answers[:3] == answers[3:6] == answers[6:] and ANSWER in answers[0]


@check
def asynchronous(server):
    async def read():
        return [piece.content async for piece in model(server).astream(QUESTION)]

    assert ANSWER in "".join(asyncio.run(read()))


@check
def tools(server):
    asking = [HumanMessage(QUESTION)]
    forced = model(server, **FORCED).bind_tools([weather], tool_choice="required", parallel_tool_calls=False)
    called = forced.invoke(asking)
    [call] = called.tool_calls
    assert call["name"] == "weather" and call["args"]["city"] in ["Rome", "Oslo"] and not called.invalid_tool_calls
    result = weather.invoke(call)
    assert isinstance(result, ToolMessage) and result.content.startswith("sunny")
    assert model(server).bind_tools([weather]).invoke([*asking, called, result]).content
    streamed = None
    for piece in forced.stream(asking):
        streamed = piece if streamed is None else streamed + piece
    assert [call["name"] for call in streamed.tool_calls] == ["weather"]


@check
def schema(server):
    for method in ["json_schema", "function_calling"]:
        asked = model(server, **FORCED).with_structured_output(Place, method=method)
        assert isinstance(asked.invoke(QUESTION), Place), method
    *_, last = model(server, **FORCED).with_structured_output(Place).stream(QUESTION)
    assert isinstance(last, Place)


@check
def log_probabilities(server):
    got = model(server, logprobs=True, top_logprobs=2).invoke(QUESTION)
    assert len(got.response_metadata["logprobs"]["content"][0]["top_logprobs"]) == 2


@check
def completion(server):
    made = OpenAI(base_url=server.openai, api_key="none", model=server.model, temperature=0, max_tokens=6, max_retries=0)
    text = made.invoke("The capital of Italy is")
    assert text and "".join(made.stream("The capital of Italy is")) == text


@check
def errors(server):
    raises(openai.NotFoundError, lambda: model(server, model="gpt-none").invoke(QUESTION))
    error = raises(openai.BadRequestError, lambda: list(model(server).stream("word " * 5000)))
    assert error.code == "context_length_exceeded"


@check
def cancelled(server):
    endless = model(server, max_tokens=ENDLESS["max_tokens"], extra_body={"ignore_eos": True})
    pieces = endless.stream(QUESTION)
    next(pieces)
    pieces.close()
    server.forgets()


if __name__ == "__main__":
    main()
