"""OpenAI's client for Python."""

import os
from typing import Literal

import openai
from openai import OpenAI
from pydantic import BaseModel, Field

from checks import ANSWER, ENDLESS, FORCED, QUESTION, WEATHER, check, is_weather, main, raises

ASK = [{"role": "user", "content": QUESTION}]
TOOL = {"type": "function", "function": {"name": "weather", "description": "Tells the weather.", "parameters": WEATHER}}


def client(server, **options):
    return OpenAI(base_url=server.openai, api_key="none", max_retries=0, timeout=60, **options)


def chat(server, **fields):
    fields = {"model": server.model, "messages": ASK, "temperature": 0, "max_tokens": 60, **fields}
    return client(server).chat.completions.create(**fields)


@check
def models(server):
    names = [model.id for model in client(server).models.list()]
    assert names == [server.model], names
    assert client(server).models.retrieve(server.model).owned_by == "rustorch"


@check
def answer(server):
    got = chat(server)
    [choice] = got.choices
    assert ANSWER in choice.message.content and choice.finish_reason == "stop", choice
    assert choice.message.role == "assistant" and choice.message.tool_calls is None and choice.message.refusal is None
    assert got.usage.total_tokens == got.usage.prompt_tokens + got.usage.completion_tokens > 0
    assert got.model == server.model and got.object == "chat.completion" and got.id.startswith("chatcmpl-")


@check
def stream(server):
    *chunks, last = chat(server, stream=True, stream_options={"include_usage": True})
    assert len(chunks) > 3 and {chunk.id for chunk in chunks} == {last.id}
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert ANSWER in text and text == chat(server).choices[0].message.content
    assert chunks[-1].choices[0].finish_reason == "stop" and chunks[0].choices[0].delta.role == "assistant"
    assert last.choices == [] and last.usage.completion_tokens > 3


@check
def stream_helper(server):
    ask = {"model": server.model, "messages": ASK, "temperature": 0, "max_tokens": 60}
    with client(server).chat.completions.stream(**ask) as events:
        kinds = {event.type for event in events}
        got = events.get_final_completion()
    assert {"chunk", "content.delta", "content.done"} <= kinds, kinds
    assert ANSWER in got.choices[0].message.content


@check
def several_answers(server):
    got = chat(server, n=3, temperature=1.5, seed=1)
    assert [choice.index for choice in got.choices] == [0, 1, 2]
    texts = {}
    for chunk in chat(server, n=3, temperature=1.5, seed=1, stream=True):
        for choice in chunk.choices:
            texts[choice.index] = texts.get(choice.index, "") + (choice.delta.content or "")
    assert texts == {choice.index: choice.message.content for choice in got.choices}


@check
def log_probabilities(server):
    [choice] = chat(server, logprobs=True, top_logprobs=3).choices
    spelled = b"".join(bytes(token.bytes) for token in choice.logprobs.content if token.token != "</s>")
    assert spelled.decode().strip() == choice.message.content.strip()
    for token in choice.logprobs.content:
        assert len(token.top_logprobs) == 3 and token.logprob <= 0
        assert token.top_logprobs[0].logprob == max(top.logprob for top in token.top_logprobs)


@check
def tools(server):
    got = chat(server, tools=[TOOL], tool_choice="required", parallel_tool_calls=False, **FORCED)
    [choice] = got.choices
    [call] = choice.message.tool_calls
    assert choice.finish_reason == "tool_calls" and choice.message.content is None
    assert call.type == "function" and call.function.name == "weather" and is_weather(call.function.arguments)
    result = {"role": "tool", "tool_call_id": call.id, "content": "sunny"}
    after = chat(server, tools=[TOOL], messages=[*ASK, choice.message, result])
    assert after.choices[0].message.content and after.usage.prompt_tokens > got.usage.prompt_tokens


@check
def tools_by_name_in_a_stream(server):
    ask = {"model": server.model, "messages": ASK, "tools": [TOOL], **FORCED}
    choice = {"type": "function", "function": {"name": "weather"}}
    with client(server).chat.completions.stream(**ask, tool_choice=choice, parallel_tool_calls=False) as events:
        got = events.get_final_completion().choices[0]
    [call] = got.message.tool_calls
    assert got.finish_reason == "tool_calls" and call.id and is_weather(call.function.arguments)


@check
def schema(server):
    schema = {"name": "weather", "schema": WEATHER, "strict": True}
    got = chat(server, response_format={"type": "json_schema", "json_schema": schema}, **FORCED)
    assert is_weather(got.choices[0].message.content)
    got = chat(server, response_format={"type": "json_object"}, **FORCED)
    assert got.choices[0].message.content.lstrip().startswith("{")


class Place(BaseModel):
    name: str = Field(max_length=20)
    is_capital: bool
    size: Literal["small", "large"]


@check
def parsed(server):
    ask = {"model": server.model, "messages": ASK, **FORCED}
    got = client(server).chat.completions.parse(**ask, response_format=Place).choices[0].message.parsed
    assert isinstance(got, Place), got
    tool = openai.pydantic_function_tool(Place, description="Notes a place.")
    got = client(server).chat.completions.parse(**ask, tools=[tool], tool_choice="required", parallel_tool_calls=False)
    assert isinstance(got.choices[0].message.tool_calls[0].function.parsed_arguments, Place)
    error = raises(
        openai.LengthFinishReasonError,
        lambda: client(server).chat.completions.parse(**{**ask, "max_tokens": 2}, response_format=Place),
    )
    assert error.completion.usage.completion_tokens == 2


@check
def completions(server):
    make = client(server).completions.create
    ask = {"model": server.model, "prompt": "The capital of Italy is", "temperature": 0, "max_tokens": 5}
    got = make(**ask, logprobs=2)
    [choice] = got.choices
    assert choice.text and len(choice.logprobs.tokens) == got.usage.completion_tokens
    assert len(choice.logprobs.top_logprobs[0]) == 2 and choice.finish_reason in ["length", "stop"]
    assert "".join(chunk.choices[0].text for chunk in make(**ask, stream=True)) == choice.text
    got = make(**{**ask, "prompt": ["One", "Two"]}, n=2, seed=1)
    assert [choice.index for choice in got.choices] == [0, 1, 2, 3]


@check
def stop_strings(server):
    full = chat(server).choices[0].message.content
    [choice] = chat(server, stop=[" is", "never"]).choices
    assert choice.finish_reason == "stop" and choice.message.content == full.split(" is")[0]


@check
def errors(server):
    error = raises(openai.NotFoundError, lambda: chat(server, model="gpt-none"))
    assert (error.code, error.param, error.status_code) == ("model_not_found", "model", 404)
    error = raises(openai.BadRequestError, lambda: chat(server, temperature=-1))
    assert error.param == "temperature" and error.type == "invalid_request_error" and "temperature" in error.message
    long = [{"role": "user", "content": "word " * 5000}]
    assert raises(openai.BadRequestError, lambda: chat(server, messages=long)).code == "context_length_exceeded"
    assert raises(openai.BadRequestError, lambda: chat(server, messages=long, stream=True)).code == "context_length_exceeded"
    picture = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    error = raises(openai.BadRequestError, lambda: chat(server, messages=[{"role": "user", "content": [picture]}]))
    assert error.param == "messages[0].content[0]"
    raises(openai.NotFoundError, lambda: client(server).images.generate(model=server.model, prompt="a cat"))


@check
def keys(_):
    keyed = os.environ.get("KEYED_URL")
    if not keyed:
        return
    ask = {"model": "demo", "messages": ASK, "max_tokens": 4}
    wrong = OpenAI(base_url=f"{keyed}/v1", api_key="wrong", max_retries=0)
    assert raises(openai.AuthenticationError, lambda: wrong.chat.completions.create(**ask)).code == "invalid_api_key"
    right = OpenAI(base_url=f"{keyed}/v1", api_key=os.environ["KEY"], max_retries=0)
    assert right.chat.completions.create(**ask).choices


@check
def cancelled(server):
    endless = {"max_tokens": ENDLESS["max_tokens"], "extra_body": {"ignore_eos": True}}
    events = chat(server, stream=True, **endless)
    for chunk, _ in zip(events, range(10)):
        assert chunk.choices
    assert server.running() == 1
    events.close()
    server.forgets()
    impatient = client(server).with_options(timeout=0.1)
    ask = {"model": server.model, "messages": ASK, **endless}
    raises(openai.APITimeoutError, lambda: impatient.chat.completions.create(**ask))
    server.forgets()


@check
def raw_headers(server):
    raw = client(server).chat.completions.with_raw_response
    ask = {"model": server.model, "messages": ASK, "max_tokens": 4}
    got = raw.create(**ask, extra_body={"colour": "blue"})
    assert got.headers["x-ignored-fields"] == "colour" and got.parse().choices
    # What the client itself sends is all known.
    known = {"user": "me", "metadata": {"a": "b"}, "store": False, "seed": 1, "service_tier": "auto"}
    got = raw.create(**ask, **known)
    assert "x-ignored-fields" not in got.headers, got.headers["x-ignored-fields"]


if __name__ == "__main__":
    main()
