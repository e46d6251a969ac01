"""Asks a server by ollama's client for Python, and checks what the client makes of the answers.

    pip install -r tools/clients/requirements.txt
    rustorch serve --port 8081 --alias demo
    python tools/clients/ollama_client.py --url http://127.0.0.1:8081 --model demo

One line per check; exit code 1 at the first mismatch.
"""

import argparse
import json
import sys

import httpx
import ollama

QUESTION = [{"role": "user", "content": "What is the capital of Italy?"}]
GREEDY = {"temperature": 0, "num_predict": 24}
# JSON may have any number of spaces, and small models like them.
FEW_SPACES = {"temperature": 0, "frequency_penalty": 2, "num_predict": 100}


def check(what: str, is_right: bool, found: object = "") -> None:
    print(f"ok   {what}" if is_right else f"FAIL {what}: {found!r}", flush=True)
    if not is_right:
        sys.exit(1)


def figures(what: str, last) -> None:
    counts = [last.prompt_eval_count, last.eval_count, last.total_duration, last.eval_duration]
    check(f"{what}: counts and times", last.done and all(count and count > 0 for count in counts), last)


def chat(client: ollama.Client, model: str) -> None:
    whole = client.chat(model, QUESTION, options=GREEDY)
    check("chat: an answer", bool(whole.message.content) and whole.message.role == "assistant", whole)
    check("chat: its end", whole.done_reason in ("stop", "length"), whole)
    figures("chat", whole)
    parts = list(client.chat(model, QUESTION, options=GREEDY, stream=True))
    text = "".join(part.message.content for part in parts)
    check("chat: the same in pieces", text == whole.message.content and len(parts) > 2, text)
    check("chat: only the last piece is the end", [part.done for part in parts].index(True) == len(parts) - 1)
    figures("chat in pieces", parts[-1])
    check("chat: counts agree", parts[-1].eval_count == whole.eval_count, parts[-1])
    short = client.chat(model, QUESTION, options={"num_predict": 2, "num_ctx": 2048})
    check("chat: num_predict", (short.done_reason, short.eval_count) == ("length", 2), short)
    word = whole.message.content.split()[-1]
    stopped = client.chat(model, QUESTION, options=GREEDY | {"stop": [word]})
    check("chat: stop", word not in stopped.message.content and stopped.done_reason == "stop", stopped)
    draws = [client.chat(model, QUESTION, options={"seed": 7, "num_predict": 8}).message.content for _ in range(2)]
    check("chat: seed", draws[0] == draws[1], draws)
    likely = client.chat(model, QUESTION, options=GREEDY, logprobs=True, top_logprobs=2)
    right = len(likely.logprobs) == likely.eval_count and len(likely.logprobs[0].top_logprobs) == 2
    check("chat: log-probabilities", right, likely.logprobs)
    check("chat: load", client.chat(model, []).done_reason == "load")


def generate(client: ollama.Client, model: str) -> None:
    prompt = QUESTION[0]["content"]
    whole = client.generate(model, prompt, options=GREEDY)
    parts = list(client.generate(model, prompt, options=GREEDY, stream=True))
    text = "".join(part.response for part in parts)
    check("generate: the same in pieces", text == whole.response and bool(text), (text, whole.response))
    figures("generate", whole)
    figures("generate in pieces", parts[-1])
    same = client.chat(model, QUESTION, options=GREEDY).message.content
    check("generate: the same as a chat", whole.response == same, whole.response)
    raw = client.generate(model, "The capital of Spain is", raw=True, options=GREEDY | {"num_predict": 4})
    check("generate: raw", raw.eval_count == 4 and bool(raw.response), raw)
    with_system = client.generate(model, prompt, system="You know much.", options=GREEDY)
    check("generate: system", with_system.prompt_eval_count > whole.prompt_eval_count, with_system)
    check("generate: load", client.generate(model, keep_alive="1m").done_reason == "load")


def structured(client: ollama.Client, model: str) -> None:
    schema = {
        "type": "object",
        "properties": {"city": {"enum": ["Rome", "Paris"]}},
        "required": ["city"],
        "additionalProperties": False,
    }
    text = client.chat(model, QUESTION, format=schema, options=FEW_SPACES).message.content
    check("format: a schema", json.loads(text)["city"] in ("Rome", "Paris"), text)
    text = client.chat(model, QUESTION, format="json", options={"num_predict": 12}).message.content
    check("format: json", text.lstrip().startswith("{"), text)


def models(client: ollama.Client, model: str) -> None:
    listed = client.list().models
    named = [one for one in listed if one.model in (model, f"{model}:latest")]
    check("list: the model", len(named) == 1 and named[0].size > 0 and len(named[0].digest) == 64, listed)
    check("list: its format", named[0].details.format == "gguf" and bool(named[0].details.family), named)
    running = client.ps().models
    check("ps: the model", any(one.digest == named[0].digest and one.context_length for one in running), running)
    shown = client.show(model)
    check("show: what it can", "completion" in shown.capabilities and bool(shown.template), shown.capabilities)
    check("show: metadata", shown.modelinfo["general.architecture"] == named[0].details.family, shown.modelinfo)
    check("names: a tag", client.chat(f"{model}:latest", QUESTION, options=GREEDY).done)


def weather(city: str) -> str:
    """
    The weather now.

    Args:
      city: The city
    """
    return f"sunny in {city}"


def tools(client: ollama.Client, model: str) -> None:
    """The client has no `tool_choice`, so that a small model calls only by chance: what it must do is to read the tools."""
    if "tools" not in client.show(model).capabilities:
        try:
            client.chat(model, QUESTION, tools=[weather], options=GREEDY)
            check("tools: an error without a format of calls", False)
        except ollama.ResponseError as error:
            check("tools: an error without a format of calls", error.status_code == 400 and "tool" in error.error, error)
        return
    plain = client.chat(model, QUESTION, options=GREEDY)
    answer = client.chat(model, QUESTION, tools=[weather], options=GREEDY)
    check("tools: they are part of the prompt", answer.prompt_eval_count > plain.prompt_eval_count, answer)
    turn = {"role": "assistant", "tool_calls": [{"function": {"name": "weather", "arguments": {"city": "Rome"}}}]}
    result = {"role": "tool", "tool_name": "weather", "content": weather("Rome")}
    answer = client.chat(model, [*QUESTION, turn, result], tools=[weather], options=GREEDY)
    check("tools: a call and its result", answer.done, answer)
    body = {"model": model, "messages": QUESTION, "stream": False, "tool_choice": "required", "options": FEW_SPACES}
    function = {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]}},
                                                  "required": ["city"]}}
    body["tools"] = [{"type": "function", "function": function}]
    answer = ollama.ChatResponse(**client._client.post("/api/chat", json=body).json())
    call = answer.message.tool_calls[0].function
    check("tools: a call", call.name == "weather" and call.arguments["city"] in ("Rome", "Oslo"), answer)


def errors(client: ollama.Client, model: str) -> None:
    def refused(what: str, status: int, word: str, call) -> None:
        try:
            found = call()
        except ollama.ResponseError as error:
            check(f"errors: {what}", error.status_code == status and word in error.error, error)
        else:
            check(f"errors: {what}", False, found)

    refused("no such model", 404, "no-such-model", lambda: client.chat("no-such-model", QUESTION))
    refused("a wrong option", 400, "temperature", lambda: client.chat(model, QUESTION, options={"temperature": -1}))
    refused("a picture", 400, "images", lambda: client.generate(model, "What is this?", images=[b"not a picture"]))
    refused("a stream that cannot begin", 400, "context", lambda: next(client.generate(
        model, "Hi", context=[1, 2], stream=True)))
    refused("pull", 501, "/api/pull", lambda: client.pull("llama3"))
    refused("delete", 501, "/api/delete", lambda: client.delete(model))
    refused("thinking of a model that cannot", 400, "think", lambda: client.chat(model, QUESTION, think=True)) if (
        "thinking" not in client.show(model).capabilities) else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", required=True)
    parser.add_argument("--model", required=True)
    args = parser.parse_args()
    check("HEAD /", httpx.head(args.url).status_code == 200)
    client = ollama.Client(host=args.url)
    for part in [chat, generate, structured, models, tools, errors]:
        try:
            part(client, args.model)
        except ollama.ResponseError as error:
            check(part.__name__, False, error)


if __name__ == "__main__":
    main()
