"""OpenAI's client for Python and its agents, on `/v1/responses` of a server.

    python tools/clients/responses_client.py --url http://127.0.0.1:8080 --model NAME

The server's chat template needs a format of tool calls. Prints a line for each check; the first mismatch ends it with exit code 1.
"""

import argparse
import asyncio
import json
from typing import Literal

import openai
from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai.types.responses import Response
from pydantic import BaseModel, ConfigDict

QUESTION, ANSWER = "What is the capital of Italy?", "Rome"

# A small model writes white space wherever a grammar lets it, unless what it repeats becomes less likely.
FORCED = {"temperature": 0, "extra_body": {"frequency_penalty": 2}, "max_output_tokens": 300}

PLACE = {"type": "string", "enum": ["Rome", "Oslo"]}
WEATHER = {
    "type": "function",
    "name": "weather",
    "description": "Tells the weather.",
    "parameters": {"type": "object", "properties": {"place": PLACE}, "required": ["place"], "additionalProperties": False},
    "strict": True,
}


class City(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: Literal["Rome", "Oslo"]
    is_capital: bool


def is_official(response):
    """Whether a response is valid by the client's own types, which the client itself does not check."""
    Response.model_validate(response.to_dict())
    assert response.object == "response" and response.id.startswith("resp_")
    usage = response.usage
    assert usage.total_tokens == usage.input_tokens + usage.output_tokens > 0
    return True


def whole(client, model):
    response = client.responses.create(model=model, input=QUESTION, temperature=0, max_output_tokens=60)
    assert is_official(response) and response.status == "completed" and response.error is None
    assert ANSWER in response.output_text, response.output_text
    assert response.to_dict()["store"] is False


def stream(client, model):
    with client.responses.stream(model=model, input=QUESTION, temperature=0, max_output_tokens=60) as events:
        events = [*events]
    assert [event.sequence_number for event in events] == [*range(len(events))]
    kinds = [event.type for event in events]
    assert kinds[:2] == ["response.created", "response.in_progress"] and kinds[-1] == "response.completed", kinds
    deltas = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    final = events[-1].response
    assert ANSWER in deltas and deltas == final.output_text, (deltas, final.output_text)
    [done] = [event for event in events if event.type == "response.output_item.done"]
    assert done.item.content[0].text == deltas and done.item.id == final.output[0].id


def raw_stream(client, model):
    events = client.responses.create(model=model, input=QUESTION, temperature=0, max_output_tokens=60, stream=True)
    *_, last = events
    assert last.type == "response.completed" and is_official(last.response)


def incomplete(client, model):
    ask = {"model": model, "input": QUESTION, "max_output_tokens": 2, "extra_body": {"ignore_eos": True}}
    response = client.responses.create(**ask)
    assert is_official(response) and response.status == "incomplete"
    assert response.incomplete_details.reason == "max_output_tokens" and response.output[0].status == "incomplete"
    *_, last = client.responses.create(**ask, stream=True)
    assert last.type == "response.incomplete" and last.response.usage.output_tokens == 2


def logprobs(client, model):
    include = ["message.output_text.logprobs"]
    response = client.responses.create(
        model=model, input=QUESTION, temperature=0, max_output_tokens=60, include=include, top_logprobs=2
    )
    [part] = response.output[0].content
    assert "".join(token.token for token in part.logprobs).strip() == part.text.strip() and is_official(response)
    assert all(token.logprob <= 0 and len(token.top_logprobs) == 2 for token in part.logprobs)


def parse(client, model):
    response = client.responses.parse(model=model, input=QUESTION, text_format=City, **FORCED)
    assert isinstance(response.output_parsed, City), response.output_text
    with client.responses.stream(model=model, input=QUESTION, text_format=City, **FORCED) as events:
        assert isinstance(events.get_final_response().output_parsed, City)


def conversation(client, model):
    items = [{"role": "user", "content": QUESTION}]
    first = client.responses.create(model=model, input=items, temperature=0, max_output_tokens=60)
    items += [item.to_dict() for item in first.output]
    items.append({"role": "user", "content": [{"type": "input_text", "text": "And of France?"}]})
    second = client.responses.create(
        model=model, instructions="Be brief.", input=items, temperature=0, max_output_tokens=60
    )
    assert second.output_text and second.usage.input_tokens > first.usage.input_tokens


def tools(client, model):
    for choice in ["required", {"type": "function", "name": "weather"}]:
        items = [{"role": "user", "content": "How is the weather in Rome?"}]
        ask = {"model": model, "tools": [WEATHER], "tool_choice": choice, "parallel_tool_calls": False, **FORCED}
        response = client.responses.create(input=items, **ask)
        [call] = response.output
        assert is_official(response) and call.type == "function_call" and call.name == "weather", response.output
        assert json.loads(call.arguments)["place"] in PLACE["enum"]
        with client.responses.stream(input=items, **ask) as events:
            events = [*events]
        pieces = "".join(event.delta for event in events if event.type == "response.function_call_arguments.delta")
        assert pieces == events[-1].response.output[0].arguments == call.arguments, (pieces, call.arguments)
        items += [call.to_dict(), {"type": "function_call_output", "call_id": call.call_id, "output": "It rains."}]
        answer = client.responses.create(
            model=model, input=items, tools=[WEATHER], tool_choice="none", temperature=0, max_output_tokens=60
        )
        assert answer.output[0].type == "message" and answer.output_text, answer.output


def refused(client, model):
    image = {"type": "input_image", "image_url": "http://127.0.0.1:1/x.png", "detail": "auto"}
    wrong = [
        ({"store": True}, "store"),
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"truncation": "auto"}, "truncation"),
        ({"tool_choice": {"type": "web_search"}, "tools": [{"type": "web_search"}]}, "tool_choice"),
        ({"input": [{"role": "user", "content": [image]}]}, "input[0].content[0]"),
    ]
    for fields, param in wrong:
        for is_stream in [False, True]:
            try:
                client.responses.create(**{"model": model, "input": QUESTION, "stream": is_stream, **fields})
            except openai.BadRequestError as error:
                assert error.param == param and error.code == "unsupported_parameter", error.body
            else:
                raise AssertionError(f"{fields} was not refused")
    try:
        client.responses.create(model="nobody", input=QUESTION)
    except openai.NotFoundError as error:
        assert error.code == "model_not_found"
    else:
        raise AssertionError("an unknown model was served")


def agent(model, settings, called):
    @function_tool
    def weather(place: Literal["Rome", "Oslo"]) -> str:
        """Tells the weather."""
        called.append(place)
        return "It rains."

    settings = ModelSettings(temperature=0, tool_choice="required", max_tokens=300, **settings)
    return Agent(name="guide", instructions="Be brief.", model=model, tools=[weather], model_settings=settings)


def agents(make):
    async def run(url, name):
        settings = {"extra_body": {"frequency_penalty": 2}} if make is OpenAIResponsesModel else {"frequency_penalty": 2}
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=120) as client:
            for is_stream in [False, True]:
                called = []
                guide = agent(make(model=name, openai_client=client), settings, called)
                if is_stream:
                    result = Runner.run_streamed(guide, "How is the weather in Rome?", max_turns=4)
                    kinds = {event.type async for event in result.stream_events()}
                    assert {"raw_response_event", "run_item_stream_event"} <= kinds, kinds
                else:
                    result = await Runner.run(guide, "How is the weather in Rome?", max_turns=4)
                assert called and set(called) <= {"Rome", "Oslo"}, called
                assert result.final_output, result
                kinds = [item.type for item in result.new_items]
                assert "tool_call_output_item" in kinds and kinds[-1] == "message_output_item", kinds

    return run


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--url", required=True)
    arguments.add_argument("--model", required=True)
    arguments = arguments.parse_args()
    set_tracing_disabled(True)
    client = openai.OpenAI(base_url=f"{arguments.url}/v1", api_key="none", max_retries=0, timeout=120)
    for check in [whole, stream, raw_stream, incomplete, logprobs, parse, conversation, tools, refused]:
        check(client, arguments.model)
        print(f"ok responses {check.__name__}", flush=True)
    for make in [OpenAIResponsesModel, OpenAIChatCompletionsModel]:
        asyncio.run(agents(make)(arguments.url, arguments.model))
        print(f"ok agents {make.__name__}", flush=True)


if __name__ == "__main__":
    main()
