"""Anthropic's client for Python against a server whose chat template has tools.

    tools/clients/anthropic_client.py --url http://127.0.0.1:8080 --model demo

Prints a line for each check, and ends with 1 at the first that fails. With KEYED_URL and KEY, a server that needs this key,
keys are checked, too.
"""

import argparse
import json
import os
import time
import urllib.request

import anthropic
from anthropic import Anthropic

ASK = [{"role": "user", "content": "What is the capital of Italy?"}]
ANSWER = "The capital of Italy is Rome."
WEATHER = {
    "name": "weather",
    "description": "Tells the weather.",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string", "enum": ["Rome", "Oslo"]}},
        "required": ["city"],
        "additionalProperties": False,
    },
}
COLD = {"temperature": 0}
# A model this small writes white space wherever a grammar lets it, unless what it repeats becomes less likely.
FORCED = {"temperature": 0, "frequency_penalty": 2}
CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


class Server:
    def __init__(self, url, model):
        self.url, self.model = url, model
        self.client = Anthropic(base_url=url, api_key="none", max_retries=0, timeout=60)
        self.messages = self.client.messages

    def ask(self, **fields):
        return {"model": self.model, "max_tokens": 60, "messages": ASK, "extra_body": COLD, **fields}

    def running(self):
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith("vllm:num_requests_running{"))


def raises(kind, function):
    try:
        result = function()
    except kind as error:
        assert type(error) is kind, f"{error!r}, expected {kind}"
        return error
    raise AssertionError(f"{result!r}, expected {kind}")


def prompt(usage):
    return usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens


@check
def answers(server):
    got = server.messages.create(**server.ask())
    assert [block.to_dict() for block in got.content] == [{"type": "text", "text": ANSWER}], got
    assert (got.stop_reason, got.stop_sequence) == ("end_turn", None), got
    assert (got.type, got.role, got.model) == ("message", "assistant", server.model) and got.id.startswith("msg_"), got
    assert got.usage.output_tokens > 3 and got._request_id.startswith("req_"), got


@check
def streams_events(server):
    *events, last = server.messages.create(**server.ask(stream=True))
    kinds = [event.type for event in events]
    assert kinds[:2] == ["message_start", "content_block_start"] and last.type == "message_stop", kinds
    assert kinds[-2:] == ["content_block_stop", "message_delta"], kinds
    text = "".join(event.delta.text for event in events if event.type == "content_block_delta")
    assert text == ANSWER and kinds.count("content_block_delta") > 3, events
    assert events[-1].delta.stop_reason == "end_turn" and events[-1].usage.output_tokens > 3, events
    assert prompt(events[0].message.usage) == prompt(events[-1].usage), events


@check
def streams_with_the_helper(server):
    with server.messages.stream(**server.ask()) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    whole = server.messages.create(**server.ask())
    assert text == ANSWER == final.content[0].text and final.stop_reason == "end_turn", final
    assert prompt(final.usage) == prompt(whole.usage) and final.usage.output_tokens == whole.usage.output_tokens


@check
def stops(server):
    short = server.messages.create(**server.ask(max_tokens=2))
    assert short.stop_reason == "max_tokens" and short.usage.output_tokens == 2, short
    stopped = server.messages.create(**server.ask(stop_sequences=[" is Rome"]))
    assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", " is Rome"), stopped
    assert stopped.content[0].text == "The capital of Italy", stopped


@check
def continues(server):
    begun = [*ASK, {"role": "assistant", "content": "The capital of Italy"}]
    assert server.messages.create(**server.ask(messages=begun)).content[0].text == " is Rome."


@check
def system_and_blocks(server):
    text = {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}
    plain = server.messages.create(**server.ask(system="Be brief."))
    blocks = server.messages.create(**server.ask(system=[text], metadata={"user_id": "me"}, service_tier="auto"))
    assert plain.content[0].text == blocks.content[0].text and prompt(plain.usage) == prompt(blocks.usage)


@check
def calls_tools(server):
    for choice in [{"type": "any"}, {"type": "tool", "name": "weather", "disable_parallel_tool_use": True}]:
        fields = server.ask(tools=[WEATHER], tool_choice=choice, extra_body=FORCED, max_tokens=200)
        got = server.messages.create(**fields)
        with server.messages.stream(**fields) as stream:
            events = list(stream)
            streamed = stream.get_final_message()
        for answer in [got, streamed]:
            assert answer.stop_reason == "tool_use", answer
            call = answer.content[0]
            assert call.type == "tool_use" and call.name == "weather" and call.id.startswith("toolu_"), answer
            assert call.input in [{"city": "Rome"}, {"city": "Oslo"}], answer
        assert [call.input for call in got.content] == [call.input for call in streamed.content]
        assert any(event.type == "input_json" for event in events), events


@check
def reads_results_of_tools(server):
    fields = server.ask(tools=[WEATHER])
    called = server.messages.create(**{**fields, "extra_body": FORCED, "tool_choice": {"type": "any"}, "max_tokens": 200})
    results = [
        {"type": "tool_result", "tool_use_id": call.id, "content": [{"type": "text", "text": "Sunny."}], "is_error": False}
        for call in called.content
    ]
    messages = [*ASK, called.to_param(), {"role": "user", "content": [*results, {"type": "text", "text": "Well?"}]}]
    got = server.messages.create(**{**fields, "messages": messages})
    assert got.content[0].type == "text" and got.content[0].text, got
    assert got.stop_reason in ["end_turn", "max_tokens"], got
    results[0]["tool_use_id"] = "toolu_other"
    error = raises(anthropic.BadRequestError, lambda: server.messages.create(**{**fields, "messages": messages}))
    assert "tool_use_id" in error.message, error


@check
def keeps_a_schema(server):
    format = {"type": "json_schema", "schema": WEATHER["input_schema"]}
    got = server.messages.create(**server.ask(output_config={"format": format}, extra_body=FORCED, max_tokens=200))
    assert json.loads(got.content[0].text) in [{"city": "Rome"}, {"city": "Oslo"}], got


@check
def counts_tokens(server):
    fields = {"model": server.model, "messages": ASK, "system": "Be brief.", "tools": [WEATHER]}
    counted = server.messages.count_tokens(**fields).input_tokens
    assert counted == prompt(server.messages.create(**server.ask(system="Be brief.", tools=[WEATHER])).usage)
    assert counted > server.messages.count_tokens(model=server.model, messages=ASK).input_tokens


@check
def names_ignored_fields(server):
    thinking = {"type": "enabled", "budget_tokens": 1024}
    raw = server.messages.with_raw_response.create(**server.ask(thinking=thinking, max_tokens=1))
    assert raw.headers["x-ignored-fields"] == "thinking.budget_tokens", raw.headers


@check
def lists_models(server):
    page = server.client.models.list()
    assert [model.id for model in page] == [server.model] and page.has_more is False, page
    model = server.client.models.retrieve(server.model)
    assert (model.type, model.display_name) == ("model", server.model) and model.created_at.year > 2000, model


@check
def refuses(server):
    image = {"type": "image", "source": {"type": "url", "url": "http://127.0.0.1:1/x.png"}}
    search = {"type": "web_search_20250305", "name": "web_search"}
    wrong = [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "user", "content": [image]}]}, "messages[0].content[0]"),
        ({"tools": [search], "tool_choice": {"type": "any"}}, "tool_choice"),
        ({"messages": [{"role": "user", "content": "word " * 20000}]}, "prompt is too long"),
    ]
    for fields, place in wrong:
        for is_stream in [False, True]:
            ask = server.ask(**fields, stream=is_stream)
            error = raises(anthropic.BadRequestError, lambda: server.messages.create(**ask))
            assert error.type == "invalid_request_error" and place in error.message, error
            assert error.request_id.startswith("req_") and error.body["request_id"] == error.request_id, error
    error = raises(anthropic.NotFoundError, lambda: server.messages.create(**server.ask(model="claude")))
    assert error.type == "not_found_error", error
    assert raises(anthropic.NotFoundError, lambda: server.client.models.retrieve("claude")).type == "not_found_error"
    large = [{"role": "user", "content": "x" * (9 << 20)}]
    for _ in range(10):  # whose connection must not be used again
        raises(anthropic.ContentTooLargeError, lambda: server.messages.create(**server.ask(messages=large)))
        server.messages.count_tokens(model=server.model, messages=ASK)


@check
def cancels(server):
    endless = server.ask(max_tokens=700, extra_body={"temperature": 1, "ignore_eos": True})
    with server.messages.stream(**endless) as stream:
        next(iter(stream.text_stream))
    end = time.monotonic() + 30
    while server.running() > 0:
        assert time.monotonic() < end, "it runs still"
        time.sleep(0.05)


@check
def needs_a_key(server):
    url, key = os.environ.get("KEYED_URL"), os.environ.get("KEY")
    if not url:
        return
    ask = server.ask(max_tokens=1)
    for options in [{"api_key": key}, {"auth_token": key, "api_key": None}]:
        assert Anthropic(base_url=url, max_retries=0, **options).messages.create(**ask).type == "message"
    wrong = Anthropic(base_url=url, api_key="wrong", max_retries=0)
    error = raises(anthropic.AuthenticationError, lambda: wrong.messages.create(**ask))
    assert error.type == "authentication_error", error


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--url", required=True)
    arguments.add_argument("--model", required=True)
    server = Server(**vars(arguments.parse_args()))
    for function in CHECKS:
        function(server)
        print(f"ok anthropic {function.__name__}", flush=True)


if __name__ == "__main__":
    main()
